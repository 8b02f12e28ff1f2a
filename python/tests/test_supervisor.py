"""-p: several processes, their restarts and their end."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command import Command, is_alive, run
from support.jobs import drained, eventually, worker
from support.redis_server import RedisServer

import seriatim

APP = """
import os, time
import seriatim

class Many(seriatim.Worker):
    shards_count = 4
    max_retry_count = 1

    def perform(self, payloads_by_id):
        for id in payloads_by_id:
            note(f"{id} begin {os.getpid()}")
            if id == "kill":
                os._exit(9)
            time.sleep(float(os.environ.get("SECONDS", "0")))
            note(f"{id} end")

    def retry_in(self, count):
        return 0.1

def note(text):
    with open(os.environ["TRACE"], "a") as trace:
        trace.write(text + "\\n")

seriatim.lease_time = 3
seriatim.poll_interval = 0.2
"""


class Supervised:
    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self._folder = folder
        self._redis = redis
        self._made: list[Command] = []

    def start(self, *arguments: str, more: str = "", nodes: int = 2, **env: str) -> Command:
        """Returns when `count` nodes run."""
        self.write(more)
        command = Command("-r", "app", "-p", "2", *arguments, wait=False, **self._surroundings(env))
        self._made.append(command)
        eventually(lambda: len(seriatim.nodes()) >= nodes)
        return command

    def run(self, *arguments: str, more: str = "") -> tuple[str, int]:
        self.write(more)
        return run("-r", "app", "-p", "2", *arguments, **self._surroundings({}))

    def write(self, more: str) -> None:
        (self._folder / "app.py").write_text(APP + more)

    @property
    def trace(self) -> str:
        path = self._folder / "trace"
        return path.read_text() if path.exists() else ""

    def remove(self) -> None:
        for command in self._made:
            children = pids(command)
            command.remove()
            for pid in filter(is_alive, children):
                os.kill(pid, signal.SIGKILL)

    def _surroundings(self, env: dict[str, str]) -> dict[str, Any]:
        return {"redis": self._redis.url, "cwd": self._folder, "env": {"TRACE": str(self._folder / "trace"), **env}}


@pytest.fixture
def supervised(tmp_path: Path, redis: RedisServer) -> Iterator[Supervised]:
    made = Supervised(tmp_path, redis)
    yield made
    made.remove()


def pids(command: Command) -> list[int]:
    """Of its processes, in the order of their starts."""
    return [int(pid) for pid in re.findall(r"process \d+ of \d+ has pid (\d+)", command.log)]


def many() -> Any:
    return worker("Many", shards_count=4, max_retry_count=1)


def test_r_process_1_it_runs_several_processes_and_stops_them_all(supervised: Supervised) -> None:
    server = supervised.start("-c", "1")
    many().perform_async([{"id": place} for place in range(40)])
    eventually(lambda: supervised.trace.count(" end") == 40)
    assert {int(pid) for pid in re.findall(r"begin (\d+)", supervised.trace)} <= set(pids(server))
    assert server.stop() == 0
    assert len(pids(server)) == 2 and not any(map(is_alive, pids(server)))
    assert seriatim.nodes() == []
    figures = many().metrics
    assert (figures["length"], figures["busy"], figures["processed"]) == (0, 0, 40)


def test_a_process_that_the_dashboard_stopped_is_started_again(supervised: Supervised) -> None:
    server = supervised.start()
    first, second = (node["name"] for node in seriatim.nodes())
    assert seriatim.stop_node(first)
    eventually(lambda: len(names := {node["name"] for node in seriatim.nodes()}) == 2 and second in names and first not in names)
    server.wait_for(r"INFO \S+ .*stop process \d \(pid \d+\) ended: exit 0")
    assert " crash " not in server.log
    assert server.stop() == 0


def test_r_process_2_a_crashed_process_is_started_again_and_its_jobs_go_on(supervised: Supervised) -> None:
    server = supervised.start()
    os.kill(pids(server)[0], signal.SIGKILL)
    server.wait_for(rf"crash process 1 \(pid {pids(server)[0]}\) ended: SIGKILL \(signal 9\)")
    eventually(lambda: len(pids(server)) == 3)
    many().perform_async([{"id": place} for place in range(10)])
    eventually(lambda: supervised.trace.count(" end") == 10)
    assert server.stop() == 0


@pytest.mark.limit(300)
def test_r_crash_3_a_job_that_kills_every_time_is_buried_and_the_rest_goes_on(supervised: Supervised) -> None:
    server = supervised.start("-c", "2", more="seriatim.dump_error = lambda text: f'<{text}>'\n")
    many().perform_async([{"id": "kill"}, *({"id": f"good{place}"} for place in range(50))])
    eventually(lambda: bool(many().metrics["morgue_length"] == 1), 180)
    (record,) = many().queries.morgue_fetch(["kill"])
    assert record["error"] == "<worker died>"
    drained(many())
    assert all(f"good{place} end" in supervised.trace for place in range(50))
    assert supervised.trace.count("kill begin") <= 4
    assert "ended: exit 9" in server.log
    assert server.stop() == 0


def test_r_process_3_its_processes_end_when_it_dies(supervised: Supervised) -> None:
    server = supervised.start()
    children = pids(server)
    os.kill(server.pid, signal.SIGKILL)
    eventually(lambda: not any(map(is_alive, children)))


def test_its_processes_get_the_signals_that_it_gets(supervised: Supervised) -> None:
    server = supervised.start()
    server.signal("TTIN")
    eventually(lambda: server.log.count(" thread seriatim-heartbeat: ") == 2)
    server.signal("TSTP")
    eventually(lambda: server.log.count(" quiet ") == 2)
    many().perform_async([{"id": "late"}])
    time.sleep(0.7)
    assert supervised.trace == ""
    assert server.stop("INT") == 0


def test_r_signal_4_a_process_that_is_started_again_after_tstp_claims_nothing(supervised: Supervised) -> None:
    server = supervised.start()
    server.signal("TSTP")
    eventually(lambda: server.log.count(" quiet ") == 2)
    many().perform_async([{"id": "late"}])
    for pid in pids(server):
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: server.log.count("start node") == 4 and server.log.count(" quiet ") == 4)
    time.sleep(4)  # longer than the lease of the killed ones
    assert supervised.trace == ""
    assert server.stop() == 0


def test_term_lets_what_runs_complete_also_when_it_reaches_every_process(supervised: Supervised) -> None:
    """As systemd sends it: to the supervisor, which hands it on, and to the others."""
    server = supervised.start("-c", "1", SECONDS="1")
    many().perform_async([{"id": "a"}])
    eventually(lambda: "a begin" in supervised.trace)
    for pid in pids(server):
        os.kill(pid, signal.SIGTERM)
    assert server.stop() == 0
    assert "a end" in supervised.trace


def test_a_second_term_kills_all_at_once(supervised: Supervised) -> None:
    server = supervised.start(SECONDS="30")
    many().perform_async([{"id": "a"}])
    eventually(lambda: "a begin" in supervised.trace)
    server.signal_taken("TERM")
    time.sleep(1.1)  # a second one within a second would be none
    began = time.monotonic()
    assert server.stop() == 1
    eventually(lambda: not any(map(is_alive, pids(server))))
    assert time.monotonic() - began < 22  # the deadline is at 25


STUBBORN = """
import ctypes, logging

class Hold(logging.Filter):
    def filter(self, record):
        if os.environ.get("HOLD") and " threads runs " in record.getMessage():
            note("holds")
            mutex = ctypes.create_string_buffer(128)
            for _ in range(2):
                ctypes.PyDLL(None).pthread_mutex_lock(mutex)  # the second never returns, and keeps the GIL
        return True

logging.getLogger("seriatim").addFilter(Hold())
"""


def test_a_process_that_does_not_stop_in_time_is_killed(supervised: Supervised) -> None:
    server = supervised.start("-t", "0.5", more=STUBBORN, nodes=0, HOLD="1")
    eventually(lambda: supervised.trace.count("holds") == 2)
    time.sleep(0.5)
    assert server.stop() == 1
    assert "killing processes that did not stop in 5.5 s" in server.log
    assert not any(map(is_alive, pids(server)))


def test_term_ends_processes_that_load(supervised: Supervised) -> None:
    slow = "\nimport sys\nif '--parent' in sys.argv: time.sleep(30)\n"
    server = supervised.start(more=slow, nodes=0)
    eventually(lambda: len(pids(server)) == 2)
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 25  # they load for 30


def test_it_starts_no_process_again_after_exit_codes_that_would_repeat(supervised: Supervised) -> None:
    more = "\n@seriatim.on_server_init\ndef refuse():\n    raise seriatim.UsageError('no such shop')\n"
    output, code = supervised.run(more=more)
    assert re.search(r"crash process \d \(pid \d+\) ended: exit 2", output)
    assert "seriatim: no such shop" in output and code == 2


AWAY = """
import types
from seriatim._server import supervisor

later = 0  # seconds that the supervisor's clock is ahead

def is_away():
    return os.path.exists("away")

def monotonic():
    global later
    later = later or (is_away() and supervisor.SECOND_LOOK)
    return time.monotonic() + later

supervisor.time = types.SimpleNamespace(monotonic=monotonic)

@seriatim.on_server_init
def look():
    if is_away():
        raise seriatim.ConnectionError("away")
"""


def test_r_process_2_a_process_that_finds_no_redis_is_started_again_while_another_has_served_for_long(
    supervised: Supervised, tmp_path: Path
) -> None:
    server = supervised.start(more=AWAY)
    eventually(lambda: server.log.count("start node") == 2)  # a node registers before it logs
    first, second = pids(server)
    (tmp_path / "away").touch()
    os.kill(first, signal.SIGKILL)
    server.wait_for(r"crash process 1 \(pid \d+\) ended: exit 3")
    (tmp_path / "away").unlink()
    eventually(lambda: server.log.count("start node") == 3)
    assert is_alive(second)
    assert server.stop() == 0


FAILING = """
from seriatim._server import supervisor
supervisor.QUICK = 60  # a busy machine may take longer than 5 s to start a process

@seriatim.on_server_init
def fail():
    note(f"{os.getpid()} at {time.monotonic()}")
    raise RuntimeError("no database")
"""


def test_it_waits_longer_and_longer_before_it_starts_a_process_again_that_ended_quickly(supervised: Supervised) -> None:
    server = supervised.start(more=FAILING, nodes=0)

    def times() -> list[float]:
        at = dict(re.findall(r"(\d+) at ([\d.]+)", supervised.trace))
        return [float(at[pid]) for pid in re.findall(r"process 1 of 2 has pid (\d+)", server.log) if pid in at]

    eventually(lambda: len(times()) >= 3)
    first, second, third = times()[:3]
    assert second - first > 0.9 and third - second > 3.5
    assert server.stop() in (0, 1)  # 1: one had just crashed again


NOT_STARTED = """
import errno, subprocess, types
from seriatim._server import supervisor

starts = []

def start(*arguments, **options):
    starts.append(arguments)
    if len(starts) == 3:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
    return subprocess.Popen(*arguments, **options)

supervisor.subprocess = types.SimpleNamespace(Popen=start)
supervisor.LONGEST_PAUSE = 1
"""


def test_a_process_that_cannot_be_started_again_is_tried_later_and_the_others_go_on(supervised: Supervised) -> None:
    server = supervised.start(more=NOT_STARTED)
    os.kill(pids(server)[0], signal.SIGKILL)
    server.wait_for(r"ERROR .*crash process 1 of 2 cannot be started: BlockingIOError: .*Resource temporarily unavailable")
    eventually(lambda: len(pids(server)) == 3)
    assert is_alive(pids(server)[1])
    assert server.stop() == 0


@pytest.mark.parametrize(
    ("body", "message", "code"), [("import sys; sys.exit(7)", "", 7), ("raise KeyError('x')", "KeyError", 2)]
)
def test_an_application_that_fails_while_it_loads_is_not_started_again(
    supervised: Supervised, body: str, message: str, code: int
) -> None:
    output, ended = supervised.run(more=body)
    assert message in output and ended == code
    assert "has pid" not in output
