"""The command: usage, exit codes, what -r and -C load, the operators' verbs, a private Redis."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from support import command
from support.command import Command
from support.jobs import eventually, includes, serve, worker
from support.redis_server import RedisServer

import seriatim

APP = """
import os, time
import seriatim

class CliWorker(seriatim.Worker):
    shards_count = 2

    def perform(self, payloads_by_id):
        for id, payloads in payloads_by_id.items():
            with open(os.environ["TRACE"], "a") as trace:
                trace.write(f"{id} {payloads} {os.getpid()} {__name__}\\n")

seriatim.lease_time = 3
seriatim.poll_interval = 0.2

@seriatim.last_words
def say(error):
    print(f"last words: {error}", flush=True)
"""


class Shell:
    """The command in a folder of its own."""

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self.folder = folder
        self.app = self.write("app.py", APP)
        self._redis = redis
        self._running: list[Command] = []

    def __call__(self, *arguments: str, **options: Any) -> tuple[str, int]:
        return command.run(*arguments, **self._options(options))

    def on_terminal(self, *arguments: str) -> tuple[str, str, int]:
        return command.run_on_terminal(*arguments, redis=self._redis.url, cwd=self.folder)

    def start(self, *arguments: str, **options: Any) -> Command:
        self._running.append(Command(*arguments, **self._options(options)))
        return self._running[-1]

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    @property
    def trace(self) -> str:
        path = self.folder / "trace"
        return path.read_text() if path.exists() else ""

    def remove(self) -> None:
        for running in self._running:
            running.remove()

    def _options(self, given: dict[str, Any]) -> dict[str, Any]:
        env = {"TRACE": str(self.folder / "trace"), **given.pop("env", {})}
        return {"redis": self._redis.url, "cwd": self.folder, **given, "env": env}


@pytest.fixture
def shell(tmp_path: Path, redis: RedisServer) -> Iterator[Shell]:
    made = Shell(tmp_path, redis)
    yield made
    made.remove()


# ---- usage

WRONG: list[tuple[list[str], str]] = [
    ([], "-r is missing"),
    (["--bogus"], "invalid option: --bogus"),
    (["--theads", "5"], r"invalid option: --theads \(did you mean --threads\?\)"),
    (["-r", "app", "-x"], "invalid option: -x"),
    (["bogus"], "unknown command bogus; there are server, push"),
    (["server", "bogus"], "unexpected bogus"),
    (["-r"], "missing argument: -r"),
    (["-r", "/no/such"], "-r /no/such: no such file"),
    (["-r", "no.such.module"], "-r no.such.module: no such file, no folder with __init__.py and no module"),
    (["-r", "folder"], r"-r folder: the folder holds no __init__\.py"),
    (["-r", "notes.txt"], r"must end in \.py"),
    (["-r", "folder/queue.py"], "its name queue is already that of "),
    (["-r", "none.py"], "no workers"),
    (["-r", "app", "-q", "other"], "unknown queue .other.; there are .CliWorker."),
    (["-r", "app", "-c", "0"], "threads_per_node must be"),
    (["-r", "app", "-p", "0"], "-p must be"),
    (["-r", "app", "-t", "-1"], "stop_timeout must be"),
    (["-c", "many"], "invalid argument: -c many"),
    (["-t", "nan"], "invalid argument: -t nan"),
    (["--log-format", "xml"], "invalid argument: --log-format xml"),
    (["balance", "q", "7"], "unknown command balance"),
    (["web", "--bind", "0.0.0.0"], "--token"),
    (["push", "q"], r"usage: seriatim push QUEUE ID \[PAYLOAD\]"),
    (["push", "q", "1", "paid"], "not valid JSON"),
    (["push", "q", "1", "--create", "--shards", "0"], "--shards must be an int from 1 to 4096, not 0"),
    (["push", "CliWorker", "1", "-r", "app", "--create", "--shards", "7"], r"--shards 7: the application's worker has shards_count \d"),
    (["push", "q", "1", "--create", "--shards", "4097"], "--shards must be an int from 1 to 4096, not 4097"),
    (["explain", "nowhere", "1"], 'unknown queue "nowhere"'),
    (["stats", "nowhere"], 'unknown queue "nowhere"'),
    (["dead", "shoot", "q"], "usage: seriatim dead list"),
    (["import", "lowkiq", "q"], "import needs Ruby, because the jobs of Lowkiq are in Ruby's own format"),
    (["-C", "no_such.yml"], "No such file"),
    (["-C", "app.py"], "must end in .yml, .yaml, .toml or .json"),
    (["-C", "unknown.yml"], "unknown key theads; known are require, threads"),
    (["-C", "type.json"], "threads must be an integer, not '5'"),
    (["-C", "list.json"], "must be a map of settings"),
    (["-C", "broken.yml"], r"-C broken\.yml: .*line 1"),
    (["-C", "broken.json"], r"-C broken\.json: .*line 1"),
    (["-C", "broken.toml"], r"-C broken\.toml: .*line 1"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_r_command_1_wrong_usage_says_what_is_wrong_and_exits_2(shell: Shell, arguments: list[str], message: str) -> None:
    shell.write("notes.txt", "")
    shell.write("folder/queue.py", APP)
    shell.write("none.py", "import seriatim; seriatim.workers = []")
    shell.write("unknown.yml", "theads: 5")
    shell.write("type.json", '{"threads": "5"}')
    shell.write("list.json", "[]")
    shell.write("broken.yml", "a: b: c")
    shell.write("broken.json", "{")
    shell.write("broken.toml", "a = = 1")
    output, code = shell(*arguments)
    assert re.search(message, output), output
    assert "Traceback" not in output
    assert (code, output.splitlines()[-1]) == (2, "          see seriatim help")


FAULTY: list[tuple[str, str]] = [
    ("    shards_count = 0", r"3: FaultyWorker\.shards_count must be an int from 1 to 4096, not 0 \(int\)"),
    ("    fold = 5", r"3: FaultyWorker\.fold must be one of merge, list, last, first, not 5 \(int\)"),
    ("    shard_count = 2", r"3: FaultyWorker: unknown setting 'shard_count' \(did you mean shards_count\?\)"),
    ("seriatim.lease_time = 0", r"4: lease_time must be .*, not 0 \(int\)"),
    ("seriatim.lease_tme = 2", r"4: seriatim has no setting 'lease_tme' \(did you mean lease_time\?\).*"),
    ("def (", r"4: SyntaxError: .*"),
    (" pass", r"4: IndentationError: .*"),
    ("import nothing_of_that_name", r"4: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
    ("from seriatim import Workr", r"4: ImportError: cannot import name 'Workr' from 'seriatim' .*"),
    ("import json; json.loads('{')", r"4: json\.decoder\.JSONDecodeError: .*"),
    ("raise RuntimeError('no\\ndatabase')", r"4: RuntimeError: no \| database"),
    ("FaultyWorkr.shards_count = 1", r"4: NameError: name 'FaultyWorkr' is not defined.*"),
]


@pytest.mark.parametrize(("line", "message"), FAULTY)
def test_names_the_place_in_the_application_in_one_line(shell: Shell, line: str, message: str) -> None:
    """Neither a traceback nor a hint at the options follows; the traceback is there with -v."""
    path = shell.write("faulty.py", f"import seriatim\n\nclass FaultyWorker(seriatim.Worker): x = 3; y = 4\n{line}\n")
    if line.startswith("    "):
        path = shell.write("faulty.py", f"import seriatim\n\nclass FaultyWorker(seriatim.Worker):\n{line}\n")
    output, code = shell("-r", path)
    assert re.fullmatch(f"seriatim: {re.escape(path)}:{message}\n", output) and code == 2, output
    output, code = shell("-v", "-r", path)
    assert re.match(f"seriatim: {re.escape(path)}:{message}\nTraceback ", output) and code == 2, output


def test_says_in_one_line_that_a_worker_has_no_perform(shell: Shell) -> None:
    output, code = shell("-r", shell.write("bare.py", "import seriatim\n\nclass BareWorker(seriatim.Worker): pass\n"))
    assert re.fullmatch(r"seriatim: workers: BareWorker has no perform; write `def perform\(self, .*\n", output) and code == 2, output


def test_r_command_2_help_and_version_exit_0(shell: Shell) -> None:
    output, code = shell("-h")
    assert re.search(r"Usage: seriatim VERB.*-r PATH", output, re.DOTALL) and code == 0
    assert shell("-V") == (f"seriatim {seriatim.__version__}\n", 0)


def test_r_command_4_it_exits_3_without_redis(shell: Shell) -> None:
    nowhere = f"unix://{shell.folder}/nobody"
    output, code = shell("push", "q", "1", redis=nowhere)
    told = r"seriatim: no Redis: cannot connect to unix://\S+: .*; start Redis there, or correct REDIS_URL\n"
    assert re.fullmatch(told, output) and code == 3
    output, code = shell("-r", "app", redis=nowhere)
    assert re.search(rf"last words:(?s:.*){told}", output) and code == 3


def test_it_exits_1_and_calls_last_words_when_it_crashes(shell: Shell) -> None:
    shell.write("crash.py", f"{APP}\n@seriatim.on_server_init\ndef fail():\n    raise RuntimeError('no database')\n")
    output, code = shell("-r", "crash")
    assert re.search(r"last words: no database.*FATAL.*exit RuntimeError: no database.*Traceback", output, re.DOTALL)
    assert code == 1


@pytest.mark.parametrize(("text", "told", "code"), [("timed out: the id", "Traceback", 1), ("no answer", "seriatim: no Redis: no answer", 3)])
def test_r_command_3_it_tells_a_server_that_waited_in_vain_for_ids_that_move_from_one_without_redis(shell: Shell, text: str, told: str, code: int) -> None:
    shell.write("late.py", f"{APP}\n@seriatim.on_server_init\ndef fail():\n    raise seriatim.TimeoutError({text!r})\n")
    output, ended = shell("-r", "late")
    assert f"last words: {text}" in output and told in output and ended == code
    assert code == 3 or "no Redis" not in output  # Redis answers


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        ("raise RuntimeError('broken application')", "RuntimeError: broken application", 2),
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'", 2),
        ("import sys; sys.exit(7)", "", 7),
        ("import sys; sys.exit('not today')", "not today", 1),
        ("import seriatim; seriatim.lease_time = 'x'", "lease_time must be", 2),
        ("import seriatim; raise seriatim.ConnectionError('no such host')", "no Redis: no such host", 3),
        ("import seriatim; raise seriatim.TimeoutError('no answer')", "no Redis: no answer", 3),
        ("import seriatim; raise seriatim.TimeoutError('timed out: the id')", "seriatim: timed out: the id", 1),  # Redis answers
        ("import seriatim; raise seriatim.RedisFull('full')", "seriatim: full", 1),
    ],
)
def test_r_command_3_it_ends_with_the_error_of_an_application_that_fails_while_it_loads(shell: Shell, body: str, message: str, code: int) -> None:
    shell.write("failing.py", body)
    output, ended = shell("-r", "failing")
    assert message in output and ended == code


def test_a_closed_pipe_ends_it_quietly(shell: Shell) -> None:
    script = f"{' '.join(command.words('-h'))} | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=command.environment(None, None))
    assert "Traceback" not in done.stderr and done.stdout.strip() in ("0", "1")


# ---- closed standard files


@pytest.mark.parametrize("option", ["--json", "--ack"])
def test_a_pop_whose_output_is_closed_hands_the_id_back(shell: Shell, option: str) -> None:
    queue = worker("Popped")
    queue.perform_async([{"id": "a"}])
    said = "seriatim: what was popped cannot be printed; it was handed back\n"
    assert shell("pop", "Popped", option, closed=">&-") == (said, 1)
    figures = queue.metrics
    assert (figures["length"], figures["busy"], figures["retries"]) == (1, 0, 0)


def test_a_verb_whose_output_is_closed_ends_with_1_and_without_a_traceback(shell: Shell) -> None:
    for words in (["push", "Shell", "1", "--create"], ["stats"], ["version"]):
        for closed in (">&-", "<&- >&-", ">&- 2>&-"):
            assert shell(*words, closed=closed) == ("", 1)
    assert len(worker("Shell").queries.fetch(["1"])) == 1


def test_a_complaint_goes_nowhere_when_standard_error_is_closed(shell: Shell) -> None:
    """It does not go to standard output, which a program may read."""
    assert shell("bogus", closed="2>&-") == ("", 2)
    assert shell("push", "Shell", "1", redis=f"unix://{shell.folder}/nobody", closed="<&- 2>&-") == ("", 3)
    assert shell("-V", closed="2>&-") == (f"seriatim {seriatim.__version__}\n", 0)


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_whose_output_is_closed_runs_jobs_that_print_and_stops_with_0(shell: Shell, processes: str, closed: str) -> None:
    shell.write("printing.py", APP.replace("        for id", "        print(payloads_by_id, flush=True)\n        for id"))
    server = shell.start("-r", "printing", "-p", processes, closed=closed, wait=False)
    worker("CliWorker", shards_count=2).perform_async([{"id": "a"}])
    eventually(lambda: "a [" in shell.trace)
    assert (server.stop(), server.log) == (0, "")


# ---- what -r loads


@pytest.mark.parametrize(
    ("argument", "file", "name"),
    [
        ("app", "app.py", "app"),
        ("./app.py", "app.py", "app"),
        ("deep/jobs.py", "deep/jobs.py", "jobs"),
        ("shop", "shop/__init__.py", "shop"),
        ("shop/workers.py", "shop/workers.py", "shop.workers"),
        ("shop.workers", "shop/workers.py", "shop.workers"),
        ("my-app.py", "my-app.py", "my-app"),
    ],
)
def test_it_loads_a_module_under_its_own_name(shell: Shell, argument: str, file: str, name: str) -> None:
    if file.startswith("shop/"):
        shell.write("shop/__init__.py", "")
    shell.write(file, APP + "\nassert __name__ != '__main__'\n")
    server = shell.start("-r", argument)
    worker("CliWorker").perform_async([{"id": "a"}])
    eventually(lambda: f" {name}\n" in shell.trace)
    assert server.stop() == 0


def test_it_never_loads_a_file_twice(shell: Shell) -> None:
    shell.write("shop/__init__.py", "print('once')\nfrom . import workers\n")
    shell.write("shop/workers.py", APP)
    server = shell.start("-r", "shop/workers.py")
    assert server.stop() == 0
    assert server.log.count("once") == 1


# ---- what -C says

YAML = """
require: app
threads: 2
verbose: true
staging:
  threads: 3
  log_format: json
"""
TOML = """
require = "app"
threads = 2
verbose = true
[staging]
threads = 3
log_format = "json"
"""
JSON = '{"require": "app", "threads": 2, "verbose": true, "staging": {"threads": 3, "log_format": "json"}}'


@pytest.mark.parametrize(("name", "text"), [("s.yml", YAML), ("s.toml", TOML), ("s.json", JSON)])
def test_settings_are_read_from_a_file_by_environment(shell: Shell, name: str, text: str) -> None:
    shell.write(name, text)
    server = shell.start("-C", name, "-e", "staging", wait=False)
    server.wait_for(r'"event":"start","msg":"node .* with 3 threads runs CliWorker')
    worker("CliWorker").perform_async([{"id": "a"}])
    server.wait_for(r'"lvl":"DEBUG".*"event":"done".*"id":"a"')
    assert server.stop() == 0


def test_the_command_line_wins_over_the_file(shell: Shell) -> None:
    shell.write("s.yml", YAML)
    server = shell.start("-C", "s.yml", "-c", "7")
    server.wait_for("with 7 threads")
    assert server.stop() == 0


# ---- the log


def test_it_logs_each_job_with_v_and_not_without(shell: Shell) -> None:
    loud = shell.start("-r", "app", "-v")
    queue = worker("CliWorker")
    queue.perform_async([{"id": "a"}])
    loud.wait_for(r"DEBUG .* q=CliWorker id=a n=1 .*start")
    loud.wait_for(r"DEBUG .* q=CliWorker id=a n=1 elapsed=\d+\.\d+ done")
    assert loud.stop() == 0
    quiet = shell.start("-r", "app")
    queue.perform_async([{"id": "b"}])
    eventually(lambda: "b [" in shell.trace)
    assert quiet.stop() == 0
    assert " id=" not in quiet.log


LOGGING = """
import logging.config
logging.config.dictConfig({
    "version": 1,
    "formatters": {"own": {"format": "own|%(name)s|%(message)s"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "own"}},
    "root": {"level": "INFO", "handlers": ["out"]},
})
"""


def test_it_writes_into_the_log_that_the_application_set_up(shell: Shell) -> None:
    shell.write("own.py", LOGGING + APP)
    server = shell.start("-r", "own", wait=False)
    server.wait_for(r"own\|seriatim\|start node")
    assert server.stop() == 0
    assert all(line.startswith("own|seriatim|") for line in server.log.splitlines()), server.log


HOLDING = """
import asyncio, threading, time

@seriatim.on_server_init
async def hold():
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 600)
"""


def test_it_names_the_thread_that_holds_its_end(shell: Shell) -> None:
    shell.write("holding.py", APP + HOLDING)
    server = shell.start("-r", "holding", "-t", "1")
    assert server.stop() == 0
    assert re.search(r"exits after 1 s; still running: asyncio_0$", server.log, re.MULTILINE), server.log


# ---- the operators' verbs


def test_push_stats_explain_pause_resume_and_check_work(shell: Shell) -> None:
    added = "added 1, folded 0, refused 0\n"
    output, code = shell("push", "Shell", "1")
    assert 'unknown queue "Shell"' in output and code == 2
    assert worker("Shell").queue.shards_count == 0
    assert shell("push", "Shell", "1", '{"b":1,"a":2}', "--delay", "60", "--score", "7", "--create") == (added, 0)
    output, code = shell("push", "Shell", "1", "-v")
    assert "folded 1" in output and code == 0
    queue = worker("Shell")
    (record,) = queue.queries.fetch([1])
    assert record["payloads"][0] == ({"a": 2, "b": 1}, 7.0) and record["payloads"][1][0] == ""
    assert queue.queue.shards_count == 5
    output, code = shell("stats")
    assert re.search(r"^queue +length.*^Shell +1 +1 +0", output, re.DOTALL | re.MULTILINE) and code == 0
    figures = json.loads(shell("stats", "--json", "Shell")[0])
    assert figures["nodes"] == []
    assert {"name": "Shell", "length": 1, "morgue_length": 0}.items() <= figures["queues"][0].items()
    assert re.search(r"\S", shell("explain", "Shell", "1")[0])
    explained = json.loads(shell("explain", "Shell", "1", "--json")[0])["job"]
    assert (explained["id"], explained["payloads_count"], "payloads" in explained) == ("1", 2, False)
    assert shell("pause", "Shell") == ("paused 5 shards\n", 0)
    row = r"^queue +length +fresh +retries +lag +busy +paused +parked .*^Shell +1 +1 +0 +0\.0 +0 +5 +0 "
    assert re.search(row, shell("stats")[0], re.DOTALL | re.MULTILINE)
    assert shell("resume", "Shell") == ("resumed 5 shards\n", 0)
    assert shell("pause", "Shell", "1") == ("parked 1\n", 0)
    assert shell("resume", "Shell", "1") == ("unparked 1\n", 0)
    output, code = shell("check")
    assert re.search(r"Shell: \d+ records, 0 findings", output) and code == 0


def test_names_and_ids_may_be_no_utf8(shell: Shell) -> None:
    name = os.fsdecode(b"Q\xff%{}")
    assert shell("push", name, os.fsdecode(b"id\xfe"), "1", "--create")[1] == 0
    assert shell("push", "-5", "-7", "-1.5", "--create") == ("added 1, folded 0, refused 0\n", 0)
    assert shell("push", "-5", "-7", "-1e5", "--score", "-1e5") == ("added 0, folded 1, refused 0\n", 0)
    assert worker("-5").queries.fetch(["-7"])[0]["payloads"][0] == (-1e5, -1e5)
    output, code = shell("stats")
    assert re.search(r"^Q\?%{} +1 ", output, re.MULTILINE) and re.search(r"^-5 +1 ", output, re.MULTILINE) and code == 0
    records = worker(name).queries.range_by_id("-", "+")
    assert [record["id"] for record in records] == [b"id\xfe"]
    assert shell("pause", name, "other") == ('the id "other" was not found\n', 1)
    assert shell("pause", name, os.fsdecode(b"id\xfe")) == ("parked 1\n", 0)


def test_r_queue_1_queues_delete_removes_a_queue_that_holds_something_only_by_force(shell: Shell) -> None:
    gone = worker("Gone")
    gone.perform_async([{"id": 1}])
    output, code = shell("queues", "delete", "Gone")
    assert "holds 1 ids" in output and code == 2
    assert shell("queues", "delete", "Gone", "--force", "Gone") == ('deleted the queue "Gone"\n', 0)
    assert gone.queue.shards_count == 0
    output, code = shell("queues", "delete", "Gone")
    assert 'unknown queue "Gone"' in output and code == 2
    gone.perform_async([{"id": 1}])
    assert gone.actions.delete_queue(force=True) == 1


def test_push_uses_the_application_s_worker(shell: Shell) -> None:
    assert shell("push", "CliWorker", "1", "-r", "app")[1] == 0
    assert worker("CliWorker").queue.shards_count == 2


ASYNC_MIDDLEWARE = f"""{APP}
async def middleware(worker, jobs, call_next):
    jobs[0]["payload"] = "of the middleware"
    return await call_next()

seriatim.client_middlewares = [middleware]
"""


def test_push_calls_an_async_client_middleware_of_the_application(shell: Shell) -> None:
    shell.write("awaiting.py", ASYNC_MIDDLEWARE)
    assert shell("push", "CliWorker", "1", "-r", "awaiting") == ("added 1, folded 0, refused 0\n", 0)
    assert worker("CliWorker").queries.fetch([1])[0]["payloads"][0][0] == "of the middleware"


def test_pop_with_an_application_shows_what_is_not_json_in_a_queue_of_another_one(shell: Shell) -> None:
    other = worker("Other", codec="raw", shards_count=1)
    other.perform_async([{"id": "text", "payload": b"{not"}])
    output, code = shell("pop", "Other", "-r", "app")
    assert output.endswith(': 1 payload\n"{not"\n') and code == 0, output
    assert includes(other.metrics, length=1, morgue_length=0)


def test_r_reshard_5_it_says_at_int_that_the_servers_go_on_with_the_ids_and_exits_with_0(shell: Shell) -> None:
    moved = worker("Moved", shards_count=2)
    moved.perform_async([{"id": 1}])
    reshard = shell.start("reshard", "Moved", "5", wait=False)
    reshard.wait_for("no living server owns one of them")
    assert reshard.stop("INT") == 0
    assert reshard.log.endswith('\nthe servers go on with the ids of the queue "Moved"\n')
    assert moved.metrics["resharding"]["to"] == 5


INTERRUPTED = """
from seriatim._client.actions import Actions

def reshard(actions, shards):
    raise KeyboardInterrupt

Actions.reshard = reshard
"""


def test_r_reshard_5_int_before_anything_was_begun_does_not_say_that_the_servers_go_on(shell: Shell) -> None:
    worker("Moved", shards_count=2).perform_async([{"id": 1}])
    shell.write("interrupted.py", INTERRUPTED)
    output, code = shell("reshard", "Moved", "5", "-r", "interrupted")
    assert "the servers go on" not in output and code != 0, output


NAMED = """
import pickle
import seriatim

class Named(seriatim.Worker):
    codec = (pickle.dumps, pickle.loads)
    shards_count = 3
"""


def test_push_uses_the_codec_of_a_worker_that_the_application_names_and_has_not_imported(shell: Shell) -> None:
    shell.write("named.py", NAMED)
    shell.write("names.py", "import seriatim\nseriatim.workers = ['named:Named']\n")
    output, code = shell("push", "Named", "a", "[1]", "-r", "names")
    assert (output, code) == ("added 1, folded 0, refused 0\n", 0)
    named = worker("Named", codec=(pickle.dumps, pickle.loads), shards_count=3)
    assert named.queue.shards_count == 3
    assert named.queries.fetch(["a"])[0]["payloads"][0][0] == [1]
    shell.write("unknown.py", "import seriatim\nseriatim.workers = ['no.such:Worker']\n")
    output, code = shell("stats", "-r", "unknown")
    assert output.startswith("seriatim: workers: there is no no.such:Worker: ") and code == 2, output


PICKLED = f"""{APP}
import pickle

class Pickled(seriatim.Worker):
    codec = (pickle.dumps, pickle.loads)
"""


def pickled(shell: Shell) -> Any:
    """A worker whose payloads may be all that Python has; the command's -r pickled has it, too."""
    shell.write("pickled.py", PICKLED)
    return worker("Pickled", codec=(pickle.dumps, pickle.loads), shards_count=1)


def test_pop_and_scheduled_list_show_values_that_json_has_not_as_texts(shell: Shell) -> None:
    queue = pickled(shell)
    payload = {"at": date(2026, 11, 30), (1, b"a"): Decimal("1.50"), None: "\ud800"}
    queue.perform_async([{"id": "a", "payload": payload}, {"id": "b", "payload": payload, "deliver_in": 1000}])
    shown = """{"at":"2026-11-30","(1, b'a')":"1.50","null":"?"}"""
    output, code = shell("pop", "Pickled", "-r", "pickled")
    assert output.endswith(f": 1 payload\n{shown}\n") and code == 0, output
    assert includes(queue.metrics, length=1, busy=0, retries=0)
    output, code = shell("scheduled", "list", "Pickled", "-r", "pickled", "--json")
    assert f'"payload":{shown}' in output and code == 0, output


def test_a_pop_that_cannot_print_hands_the_id_back(shell: Shell) -> None:
    endless: list[Any] = []
    endless.append(endless)
    for payload, env, why in (("\xe4", {"PYTHONIOENCODING": "ascii"}, "UnicodeEncodeError: "), (endless, {}, "RecursionError: ")):
        queue = pickled(shell)
        queue.perform_async([{"id": "a", "payload": payload}])
        output, code = shell("pop", "Pickled", "-r", "pickled", "--json", "--ack", env=env)
        assert re.fullmatch(rf"seriatim: what was popped cannot be printed \({why}.*\); it was handed back\n", output) and code == 1, output
        assert includes(queue.metrics, length=1, busy=0, retries=0)
        assert queue.queries.range_by_id("-", "+")[0]["retry_count"] == -1
        queue.actions.delete(["a"])


def test_dead_list_retry_and_delete_work(shell: Shell) -> None:
    def fail(payloads_by_id: Any, batch: Any) -> None:
        raise RuntimeError("boom\nand more")

    morgue = worker("Morgue", fail, max_retry_count=0)
    morgue.perform_async([{"id": id} for id in "abc"])
    server = serve(morgue)
    eventually(lambda: bool(morgue.metrics["morgue_length"] == 3))
    server.stop()
    output, code = shell("dead", "list", "Morgue")
    assert re.search(r"^id +died.*^[abc] .* boom$.*^[abc] ", output, re.DOTALL | re.MULTILINE) and code == 0
    assert len(shell("dead", "list", "Morgue", "--limit", "2")[0].splitlines()) == 3
    (record,) = json.loads(shell("dead", "list", "Morgue", "c", "--json")[0])
    assert (record["id"], record["error"]) == ("c", "boom\nand more")
    for shown, words in (
        ("cba", ["c", "b", "a"]),
        ("c", ["c", "b", "--limit", "1"]),
        ("c", ["c", "b", "--error", "boom", "--limit", "1"]),
    ):
        assert "".join(row["id"] for row in json.loads(shell("dead", "list", "Morgue", "--json", *words)[0])) == shown
    first = ("dead", "list", "Morgue", "--limit", "2")
    assert shell(*first, "--error", "boom") == shell(*first)
    for words in ([], ["--error", "boom"], ["a"], ["a", "--error", "boom"]):
        for limit in ("0", "-1", "100001"):
            output, code = shell("dead", "list", "Morgue", *words, "--limit", limit)
            assert f"limit must be an int from 1 to 100000, not {limit} " in output and code == 2, output
    assert shell("dead", "retry", "Morgue", "a", "x") == ("queued up 1; 1 of 2 ids is not dead\n", 1)
    output, code = shell("dead", "delete", "Morgue")
    assert "name the ids, or --all" in output and code == 2
    assert shell("dead", "delete", "Morgue", "--all") == ("deleted 2\n", 0)


def shows_progress(terminal: str, what: str, total: int) -> bool:
    """The first line is drawn at once; how many follow is a matter of time."""
    return re.fullmatch(rf"\r{what}: \d+ of {total} \w+ \(\d+%\).*\r +\r", terminal, re.DOTALL) is not None


def test_progress_on_a_terminal(shell: Shell) -> None:
    long = worker("Long", shards_count=1)
    long.perform_async([{"id": id, "retry_count": 1} for id in range(200)])
    terminal, output, code = shell.on_terminal("check", "Long")
    assert shows_progress(terminal, "check Long", 200) and code == 0, terminal
    assert re.fullmatch(r"Long: \d+ records, 0 findings\n", output)
    assert long.actions.kill_all_failed_jobs() == 200
    terminal, output, code = shell.on_terminal("dead", "retry", "Long", "--all")
    assert shows_progress(terminal, "dead retry Long", 200) and (output, code) == ("queued up 200\n", 0), terminal
    long.perform_async([{"id": id, "retry_count": 1} for id in range(200, 400)])
    assert long.actions.kill_all_failed_jobs() == 200
    terminal, output, code = shell.on_terminal("check", "--json")
    assert (terminal, code) == ("", 0) and '"findings":[]' in output
    terminal, output, code = shell.on_terminal("dead", "delete", "Long", "--all")
    assert shows_progress(terminal, "dead delete Long", 200) and (output, code) == ("deleted 200\n", 0), terminal
    terminal, output, code = shell.on_terminal("check")
    assert re.fullmatch(r"\rcheck: \d+ keys.*\r +\r", terminal, re.DOTALL) and output.startswith("Long: ") and code == 0, terminal


# ---- a private Redis


def processes_with(text: str) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [str(file)] if text in file.read_text("utf-8", "replace") else []
        except OSError:
            pass
    return found


def test_r_private_1_a_private_redis_is_started_where_no_other_is_named(shell: Shell) -> None:
    private: dict[str, Any] = {"redis": None, "env": {"SERIATIM_DATA": str(shell.folder / "data")}}
    output, code = shell("push", "Q", "1", "--create", **private)
    assert re.search(rf"started the private Redis in {shell.folder}/data.*added 1", output, re.DOTALL) and code == 0
    assert "folded 1" in shell("push", "Q", "1", **private)[0]


def test_a_private_redis_is_announced_on_standard_error(shell: Shell) -> None:
    """Not where the server logs."""
    env = command.environment(None, {"TRACE": "", "SERIATIM_DATA": str(shell.folder / "data")})
    done = subprocess.run(command.words("-r", shell.app, "-p", "0"), capture_output=True, text=True, env=env)
    assert done.stdout == "" and re.search("INFO .*started the private Redis in", done.stderr), done


def test_r_command_5_a_private_redis_is_refused_in_production(shell: Shell) -> None:
    data = {"SERIATIM_DATA": str(shell.folder / "data")}
    output, code = shell("push", "Q", "1", "-e", "production", redis=None, env=data)
    assert output.startswith("seriatim: no Redis: set REDIS_URL") and code == 3
    output, code = shell("-r", "app", redis=None, env={"RACK_ENV": "production", **data})
    assert "seriatim: no Redis: set REDIS_URL" in output and code == 3
    assert not (shell.folder / "data").exists()


def test_r_private_2_a_private_redis_is_shared_and_ends_with_the_last(shell: Shell) -> None:
    data = str(shell.folder / "data")
    private: dict[str, Any] = {"redis": None, "env": {"SERIATIM_DATA": data}}
    server = shell.start("-r", "app", **private)
    assert shell("push", "CliWorker", "1", **private)[1] == 0
    eventually(lambda: "1 [" in shell.trace)
    assert server.stop() == 0
    eventually(lambda: not processes_with(data))
