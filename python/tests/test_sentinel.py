"""redis+sentinel://: one real sentinel, a master and its replica."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import seriatim
from support.jobs import eventually, runs, serve, worker
from support.redis_server import RedisServer, Sentinel, free_ports


class Trio:
    def __init__(self, folder: Path) -> None:
        self.ports = free_ports(2)
        ping = ("--repl-ping-replica-period", "1")
        self.master = RedisServer("--port", str(self.ports[0]), "--repl-diskless-sync-delay", "0", *ping)
        self.replica = RedisServer("--port", str(self.ports[1]), "--replicaof", f"127.0.0.1 {self.ports[0]}")
        eventually(lambda: "state=online" in self.master.call("INFO", "replication"))  # it is asked at once, and then after 10 s
        self._sentinel = Sentinel(folder, "jobs", self.ports[0], down_after_milliseconds=6000)
        self.url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self._sentinel.port}/jobs"  # the first one is dead
        eventually(lambda: "slaves=1" in self._sentinel.ask("INFO", "sentinel"))

    def remove(self) -> None:
        self._sentinel.kill()
        self.replica.remove()
        self.master.remove()


@pytest.fixture
def trio(tmp_path: Path, settings: None) -> Iterator[Trio]:
    made = Trio(tmp_path)
    yield made
    made.remove()


@pytest.mark.limit(200)
def test_f6_finds_the_next_master_in_the_client_and_in_the_server(trio: Trio, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "seriatim")
    seriatim.redis = trio.url
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 10
    recorder = worker("Sentinel")
    server = serve(recorder, threads=2)
    recorder.perform_async([{"id": "before", "payload": 1}])
    assert runs(recorder)[0].payloads == {"before": [1]}
    assert asyncio.run(recorder.aperform_async([{"id": "coroutine"}])).added == 1
    runs(recorder)

    trio.master.stop(signal.SIGKILL)
    recorder.perform_async([{"id": "after", "payload": 2}], wait_replicas=0)
    assert runs(recorder, seconds=60)[0].payloads == {"after": [2]}
    assert asyncio.run(recorder.aperform_async([{"id": "coroutine"}], wait_replicas=0)).added == 1
    runs(recorder)
    for port in trio.ports[:2]:
        eventually(lambda: any(f"the master is 127.0.0.1:{port}" in line for line in caplog.messages))
    assert server.stop(10) is True


# Writes the error of the push, and the longest time in seconds that the other thread, or the other task, stood still.
LOOKING_UP = """
import asyncio, sys, threading, time
import seriatim

class LookingUp(seriatim.Worker):
    def perform(self, payloads_by_id):
        pass

def count(times):
    times.append(time.monotonic())
    return not ended

def in_a_thread():
    while count(times):
        time.sleep(0.01)

async def in_a_task():
    while count(times):
        await asyncio.sleep(0.01)

async def apush():
    global ended
    task = asyncio.create_task(in_a_task())
    await asyncio.sleep(0)
    try:
        await LookingUp.aperform_async([{"id": 1}])
    finally:
        ended = True
        await task

seriatim.redis = sys.argv[2]
seriatim.push_timeout = 1
times, ended = [], False
try:
    if sys.argv[1] == "task":
        asyncio.run(apush())
    else:
        thread = threading.Thread(target=in_a_thread, daemon=True)
        thread.start()
        LookingUp.perform_async([{"id": 1}])
except seriatim.Error as error:
    print(error)
ended = True
if sys.argv[1] == "thread":
    thread.join()
print(max(after - before for before, after in zip(times, times[1:])))
"""


@pytest.mark.parametrize("other", ["thread", "task"])
def test_other_threads_and_tasks_run_while_the_name_of_the_next_sentinel_is_looked_up(other: str, tmp_path: Path) -> None:
    source, library = Path(__file__).parents[2] / "spec/support/slow_resolver.c", tmp_path / "slow_resolver.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    preload = " ".join(filter(None, [os.environ.get("LD_PRELOAD"), str(library)]))
    environment = {**os.environ, "LD_PRELOAD": preload, "SLOW_RESOLVER_MS": "4000"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis+sentinel://127.0.0.1:{silent.getsockname()[1]},slow.test:1/jobs"
        ended = subprocess.run([sys.executable, "-c", LOOKING_UP, other, url], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    message, longest = ended.stdout.splitlines()
    assert "no answer in 500 ms; slow.test:1: " in message
    assert float(longest) < 3


def test_a_url_without_the_masters_name() -> None:
    with pytest.raises(seriatim.Invalid, match="^redis must be .*master"):
        seriatim.redis = "redis+sentinel://127.0.0.1:1"
