"""A server in a process: its hooks, its choice of workers, its shares, its end."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue
from typing import Any

import pytest

import seriatim
from seriatim._client import threads as threads_module
from seriatim._server import server as server_module
from seriatim._server.host import Host
from support.jobs import drained, eventually, includes, runs, serve, servers, worker
from support.redis_server import RedisServer

def threads_named(*names: str) -> list[threading.Thread]:
    """Those that are alive and whose names begin so."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(names)]


# ---- what the system lacks


def test_a_start_that_gets_no_descriptor_blames_no_redis_and_may_be_tried_again() -> None:
    recorder = worker("Descriptors")
    server = seriatim.Server(workers=[recorder])
    servers.append(server)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit() -> None:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, usual[1]))

    server._before_claims = limit
    try:
        with pytest.raises(seriatim.Error, match="^cannot open a pipe: ") as raised:
            server.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert raised.type is seriatim.Error
    assert server.stop(0) and not server.running
    eventually(lambda: not threads_named("seriatim-thread"))
    server._before_claims = lambda: None
    server.start()
    recorder.perform_async([{"id": 1}])
    runs(recorder)


async def awaits(payloads_by_id: Any, batch: Any) -> None:
    """The perform of a worker whose server has no threads but for the loop."""


@pytest.mark.parametrize(
    ("name", "perform"),
    [
        ("seriatim-host-2", None),
        ("seriatim-heartbeat", None),
        ("seriatim-loop", awaits),
        ("seriatim-thread_0", None),
        ("seriatim-client_0", None),
    ],
)
def test_a_start_that_gets_only_some_of_its_threads_leaves_none_of_them(name: str, perform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name == name:
            raise RuntimeError("can't start new thread")
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    if name == "seriatim-client_0":
        monkeypatch.setattr(threads_module, "_own", None)
    server = seriatim.Server(workers=[worker("Threads", perform)], threads=3)
    with pytest.raises(seriatim.Error, match="^can't start new thread$"):
        server.start()
    server.stop()
    assert not server.running
    assert seriatim.nodes() == []
    eventually(lambda: not threads_named("seriatim-host", "seriatim-heartbeat", "seriatim-loop", "seriatim-thread"))


def test_a_start_without_redis_leaves_no_loop_and_may_be_tried_again(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BOOT_SECONDS", 1)
    loops: Queue[str] = Queue()

    @seriatim.on_server_init
    async def connect() -> None:
        loops.put(threading.current_thread().name)

    recorder = worker("Tried", awaits)
    server = seriatim.Server(workers=[recorder])
    servers.append(server)
    seriatim.redis = "unix:///nobody"
    with pytest.raises(seriatim.ConnectionError):
        server.start()
    assert loops.get(timeout=60) == "seriatim-loop"
    eventually(lambda: not threads_named("seriatim-loop"), 10)
    seriatim.redis = redis.url
    server.start()
    recorder.perform_async([{"id": 1}])
    runs(recorder)


# ---- hooks


def test_r_hook_1_on_server_init_is_called_once_before_any_job() -> None:
    order: Queue[str] = Queue()

    @seriatim.on_server_init
    def first() -> None:
        order.put("init")

    recorder = worker("Init", lambda payloads, batch: order.put("job"))
    recorder.perform_async([{"id": 1}, {"id": 2}])
    serve(recorder)
    runs(recorder, 2)
    assert [order.get() for _ in range(order.qsize())] == ["init", "job", "job"]


def test_one_instance_a_process_and_its_errors_end_the_start() -> None:
    made: list[object] = []

    def init(self: Any) -> None:
        made.append(self)
        if len(made) > 1:
            raise RuntimeError("no second one")

    recorder = worker("Instance", __init__=init)
    for _ in range(2):
        serve(recorder).stop()
    recorder.perform_async([{"id": id} for id in range(5)])
    serve(recorder)
    runs(recorder, 5)
    assert len(made) == 1

    broken = worker("Broken", __init__=lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        serve(broken)


class Uncooperative:
    """A number that lets nobody have its value, not even to show it."""

    def __float__(self) -> float:
        raise SystemExit("float")

    def __repr__(self) -> str:
        raise KeyboardInterrupt("repr")


BAD: dict[str, Any] = {
    "NaN": float("nan"),
    "a text": "soon",
    "nothing": None,
    "a truth": True,
    "too large a number for a float": 10**400,
    "too large a number to be shown": 10**5000,
    "a complex number": 1j,
    "a number that raises": Uncooperative(),
    "an Exception": RuntimeError("hook"),
    "a BaseException": SystemExit("hook"),
}


@pytest.mark.parametrize("name", BAD)
def test_f32_a_bad_retry_in_is_logged_and_the_default_formula_counts(name: str, caplog: pytest.LogCaptureFixture) -> None:
    given = BAD[name]

    def retry_in(self: Any, count: int) -> Any:
        if isinstance(given, BaseException):
            raise given
        return given

    def body(payloads: Any, batch: Any) -> None:
        raise ValueError("x")

    recorder = worker("Hook", body, retry_in=retry_in)
    serve(recorder)
    began = time.time()
    recorder.perform_async([{"id": 1}])
    record = eventually(lambda: recorder.queries.range_by_retry_count(0, 0))[0]
    assert record["retry_count"] == 0
    assert 14 < record["perform_in"] - began and record["perform_in"] - time.time() < 46
    assert any("the default formula is used" in line for line in caplog.messages)


def test_r_hook_2_the_server_goes_on_when_retries_exhausted_raises(caplog: pytest.LogCaptureFixture) -> None:
    def exhausted(self: Any, jobs: Any) -> None:
        raise LookupError(f"{len(jobs)} jobs")

    def body(payloads: Any, batch: Any) -> None:
        raise ValueError("x")

    recorder = worker("Exhausted", body, max_retry_count=0, retries_exhausted=exhausted)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    eventually(lambda: any("retries_exhausted raised LookupError: 1 jobs" in line for line in caplog.messages))
    recorder.perform_async([{"id": 2}])
    runs(recorder, 2)


def test_r_retry_11_stored_errors_pass_through_format_dump_and_load() -> None:
    seriatim.format_error = lambda error: f"{error}\n" + "line\n" * 4000
    seriatim.dump_error = lambda text: zlib.compress(text.encode())
    seriatim.load_error = lambda data: zlib.decompress(data).decode()

    seen: list[Any] = []

    def body(payloads: Any, batch: Any) -> None:
        seen.append(batch.error(1))
        raise ValueError("long")

    recorder = worker("A19", body, retry_in=lambda self, count: 60)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    record = eventually(lambda: recorder.queries.range_by_retry_count(0, 0))[0]
    assert record["error"] == "long\n" + "line\n" * 4000
    recorder.actions.perform_all_failed_jobs_now()
    eventually(lambda: len(seen) == 2)
    assert seen == [None, "long\n" + "line\n" * 4000]


def test_the_class_the_message_and_ten_calls_of_an_exception_are_kept_at_most_4_kib() -> None:
    seriatim.reset_settings()

    def deep(depth: int) -> None:
        if depth == 0:
            raise LookupError("one\ntwo")
        deep(depth - 1)

    with pytest.raises(LookupError) as caught:
        deep(20)
    lines = seriatim.format_error(caught.value).split("\n")
    assert lines[:2] == ["LookupError: one", "two"] and len(lines) == 12
    assert all(line.startswith(f"{__file__}:") and line.endswith(" in deep") for line in lines[2:])
    assert seriatim.format_error(ValueError("no traceback")) == "ValueError: no traceback"
    assert seriatim.format_error(ValueError("\u00fc" * 5000)) == "ValueError: " + "\u00fc" * 2042


def errors_of(errors: dict[str, str]) -> dict[str, Any]:
    """What is shown of ids that fail with these texts."""

    def body(payloads: Any, batch: Any) -> None:
        for id in payloads:
            batch.fail(id, errors[id])

    recorder = worker("Fails", body, retry_in=lambda self, count: 60, batch_size=2, shards_count=1)
    recorder.perform_async([{"id": id} for id in errors])
    serve(recorder)
    eventually(lambda: recorder.metrics["retries"] == len(errors))
    return {record["id"]: record["error"] for record in recorder.queries.fetch(list(errors))}


def test_an_errors_text_is_cut_before_dump_error_so_that_load_error_can_read_what_is_stored() -> None:
    seriatim.dump_error = lambda text: zlib.compress(text.encode())
    seriatim.load_error = lambda data: zlib.decompress(data).decode()
    digits = os.urandom(200_000).hex()
    found = errors_of({"digits": digits, "umlauts": "x" + "\u00fc" * 200_000})
    assert found == {"digits": digits[:65_536], "umlauts": "x" + "\u00fc" * 32_767}


def test_where_dump_error_fails_it_dumps_a_short_text_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def dump(text: str) -> str:
        if text.startswith("raise") and "\n(" not in text:
            raise LookupError("cannot dump")
        return f"<{'x' * 70_000 if text.startswith('grow') and chr(10) + '(' not in text else text}>"

    seriatim.dump_error = dump
    found = errors_of({"raise": "raise it\nsecond line", "grow": "grow it\nsecond line"})
    end = "; only the first line of this error is stored)>"
    assert found["raise"].startswith("<raise it\n(dump_error raised LookupError: cannot dump") and found["raise"].endswith(end)
    assert found["grow"] == f"<grow it\n(dump_error gave 70002 bytes, of which 65536 may be stored{end}"
    assert any("dump_error gave 70002 bytes" in line for line in caplog.messages)


def test_an_error_without_a_text_is_named_by_its_class() -> None:
    def body(payloads: Any, batch: Any) -> None:
        raise AssertionError

    recorder = worker("Silent", body, retry_in=lambda self, count: 60)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    assert eventually(lambda: recorder.queries.range_by_retry_count(0, 0))[0]["error"].startswith("AssertionError")


# ---- which workers


def test_refuses_to_start_without_a_worker_with_an_unknown_queue_with_two_of_one_name() -> None:
    for arguments, text in (
        ({"workers": []}, "no workers"),
        ({"workers": [worker("a")], "queues": ["b"]}, "unknown queue 'b'; there are 'a'"),
        ({"workers": [worker("a"), worker("a")]}, "same queue_name 'a'"),
        ({"workers": [str]}, "workers"),
        ({"workers": ["no.such:Worker"]}, "no.such"),
    ):
        with pytest.raises(seriatim.UsageError, match=text):
            seriatim.Server(**arguments)


def test_warns_when_redis_knows_another_number_of_shards(caplog: pytest.LogCaptureFixture) -> None:
    worker("Resized", shards_count=3).perform_async([{"id": 1}])
    recorder = worker("Resized", shards_count=7)
    serve(recorder)
    warning = 'queue "Resized" has 3 shards; this server says shards_count = 7, which counts only when a queue is created: '
    eventually(lambda: any(warning in line for line in caplog.messages))


def test_warns_of_a_redis_that_may_lose_jobs(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    redis.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        serve(worker("Health"))
    finally:
        redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert any("maxmemory-policy is allkeys-lru" in line for line in caplog.messages)


# ---- who runs what


def test_f32_asks_a_scheduler_of_the_application_and_goes_on_when_it_raises_or_will_not_choose() -> None:
    seen: list[Any] = []

    def choose(candidates: Any) -> Any:
        seen.append(candidates)
        if len(seen) == 1:
            raise RuntimeError("no")
        return candidates[-1] if len(seen) > 3 else None

    seriatim.build_scheduler = lambda: choose
    recorder = worker("Own", shards_count=3)
    recorder.perform_async([{"id": id} for id in range(20)])
    serve(recorder, threads=2)
    runs(recorder, 20)
    candidate = seen[0][0]
    assert candidate.worker is recorder and 0 <= candidate.index < 3 and candidate.lag >= 0 and candidate.size >= 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_scheduler_that_will_not_choose_holds_back_what_an_idle_server_gets(is_async: bool) -> None:
    asked: list[Any] = []
    is_open = threading.Event()

    def choose(candidates: Any) -> Any:
        asked.append(candidates)
        return candidates[0] if is_open.is_set() else None

    async def perform(payloads_by_id: Any, batch: Any) -> None:
        pass

    seriatim.build_scheduler = lambda: choose
    recorder = worker("Held", perform if is_async else None, shards_count=1)
    server = serve(recorder, threads=2)
    eventually(lambda: server.stats()["shards"] == 1)
    time.sleep(0.3)  # until its threads wait
    recorder.perform_async([{"id": 1}])
    eventually(lambda: asked)
    time.sleep(0.3)
    assert recorder.runs.empty()
    is_open.set()
    runs(recorder, 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_retries_exhausted_is_called_while_a_scheduler_will_not_choose(is_async: bool) -> None:
    is_closed, fail, told = threading.Event(), threading.Event(), threading.Event()

    def perform(payloads_by_id: Any, batch: Any) -> None:
        is_closed.set()
        fail.wait(60)
        raise ValueError("bad")

    async def perform_async(payloads_by_id: Any, batch: Any) -> None:
        await asyncio.to_thread(perform, payloads_by_id, batch)

    async def tell_async(self: Any, jobs: list[Any]) -> None:
        told.set()

    def tell(self: Any, jobs: list[Any]) -> None:
        told.set()

    seriatim.build_scheduler = lambda: lambda candidates: None if is_closed.is_set() else candidates[0]
    recorder = worker(
        "Exhausted",
        perform_async if is_async else perform,
        shards_count=1,
        max_retry_count=0,
        retries_exhausted=tell_async if is_async else tell,
    )
    recorder.perform_async([{"id": 1}, {"id": 2}])
    server = serve(recorder, threads=1)
    eventually(lambda: includes(server.stats(), running=1, claimed=1))
    fail.set()
    assert told.wait(60)
    assert server.stats()["claimed"] == 1


def test_a_scheduler_is_shown_the_shards_that_were_added_after_the_start() -> None:
    counts = [0]

    def choose(candidates: Any) -> None:
        counts.append(len(candidates))

    seriatim.build_scheduler = lambda: choose
    recorder = worker("Grown", shards_count=1)
    server = serve(recorder, threads=5)
    recorder.actions.reshard(5)
    eventually(lambda: recorder.metrics["resharding"] is None and server.stats()["shards"] == 5)
    recorder.perform_async([{"id": id} for id in range(50)])
    eventually(lambda: max(counts) == 5)


def ran_under(choose: Callable[[list[Any]], Any]) -> list[int]:
    """The shards of a queue with two ids in each of three, in the order in which one thread runs them."""
    seriatim.build_scheduler = lambda: choose
    recorder = worker("Chooser", shards_count=3)
    by_shard: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for number in range(100):
        by_shard[zlib.crc32(str(number).encode()) % 3].append(str(number))
    recorder.perform_async([{"id": id} for ids in by_shard.values() for id in ids[:2]])
    serve(recorder, threads=1)
    return [zlib.crc32(str(id).encode()) % 3 for run in runs(recorder, 6) for id in run.payloads]


def sort_list(candidates: list[Any]) -> Any:
    candidates.sort(key=lambda candidate: -candidate.index)
    return candidates[0]


def remove_from_list(candidates: list[Any]) -> Any:
    if len(candidates) > 1:
        candidates.remove(candidates[0])
    return candidates[0]


def clear_list(candidates: list[Any]) -> Any:
    last = candidates[-1]
    candidates.clear()
    return last


def copy_of_last(candidates: list[Any]) -> Any:
    return dataclasses.replace(candidates[-1], lag=0.0)


CHANGES: list[Callable[[list[Any]], Any]] = [sort_list, remove_from_list, clear_list, copy_of_last, list.pop]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_runs_the_shard_that_a_scheduler_chose_which_changes_its_list(
    change: Callable[[list[Any]], Any], caplog: pytest.LogCaptureFixture
) -> None:
    chosen: list[int] = []

    def choose(candidates: list[Any]) -> Any:
        candidate = change(candidates)
        chosen.append(candidate.index)
        return candidate

    ran = ran_under(choose)
    assert ran == chosen[:6] and set(ran) == {0, 1, 2}
    assert not any("the scheduler" in line for line in caplog.messages)


def raise_no() -> None:
    raise RuntimeError("no")


JUNK: dict[str, Callable[[], Any]] = {
    "chose 5 (int), which is not one of its candidates": lambda: 5,
    "chose False (bool), which is not one of its candidates": lambda: False,
    "raised RuntimeError: no": raise_no,
}


@pytest.mark.parametrize("said", JUNK)
def test_logs_once_that_a_scheduler_gave_no_candidate_and_takes_the_oldest(said: str, caplog: pytest.LogCaptureFixture) -> None:
    ran_under(lambda candidates: JUNK[said]())
    lines = [line for line in caplog.messages if "the scheduler" in line]
    assert len(lines) == 1 and said in lines[0] and "; the oldest goes first" in lines[0]


def test_gives_each_group_of_a_splitter_a_thread() -> None:
    threads: set[str] = set()

    def body(payloads: Any, batch: Any) -> None:
        threads.add(threading.current_thread().name)
        time.sleep(0.05)

    seriatim.build_splitter = lambda: lambda shards: [shards[:1], [], shards[1:]]
    recorder = worker("Groups", body, shards_count=4)
    recorder.perform_async([{"id": id} for id in range(12)])
    serve(recorder)
    runs(recorder, 12)
    assert len(threads) == 2


def test_shares_a_queue_between_two_servers_and_gives_all_to_the_one_that_is_left() -> None:
    recorder = worker("Shared", shards_count=8)
    first, second = serve(recorder), serve(recorder)
    eventually(lambda: [server.stats()["shards"] for server in (first, second)] == [4, 4])
    first.stop()
    eventually(lambda: second.stats()["shards"] == 8)


# ---- its end


def test_before_its_start_a_server_refuses_what_only_a_running_one_knows() -> None:
    server = seriatim.Server(workers=[worker("Early")])
    for call in (server.stats, server.quiet):
        with pytest.raises(seriatim.Closed, match="the server has not started"):
            call()
    assert server.stop() and not server.running


def test_may_be_stopped_and_started_again_with_a_server_of_its_own_each_time() -> None:
    recorder = worker("Again")
    for id in range(3):
        server = serve(recorder)
        recorder.perform_async([{"id": id}])
        runs(recorder)
        assert server.stop() and server.stop()
        with pytest.raises(seriatim.Closed):
            server.start()


def test_f21_what_runs_past_the_deadline_is_handed_back() -> None:
    gate = threading.Event()
    recorder = worker("Late", lambda payloads, batch: gate.wait(20))
    recorder.perform_async([{"id": 1}])
    server = serve(recorder)
    eventually(lambda: server.stats()["running"] == 1)
    assert server.stop(0.2) is False
    [record] = recorder.queries.fetch([1])
    assert record["retry_count"] == -1 and "error" not in record
    gate.set()
    again = serve(recorder)
    runs(recorder, 2)
    assert again.stop()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_f21_the_end_of_a_run_that_was_handed_back_is_not_logged_as_a_failure(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()

    def sync_body(payloads: Any, batch: Any) -> None:
        gate.wait(60)
        raise ValueError("late")

    async def async_body(payloads: Any, batch: Any) -> None:
        await asyncio.sleep(60)

    recorder = worker("Late", sync_body if kind == "def" else async_body, max_retry_count=0)
    recorder.perform_async([{"id": 1}])
    server = serve(recorder, worker("Def"))
    eventually(lambda: server.stats()["running"] == 1)
    assert server.stop(0.2) is False
    gate.set()
    eventually(lambda: not threads_named("seriatim-host"))
    assert not [message for message in caplog.messages if message.startswith(("fail", "dead", "crash"))]
    assert recorder.metrics["length"] == 1


def running_until(gate: threading.Event) -> tuple[Any, seriatim.Server]:
    """A worker, and a server that runs a job of it until the gate opens."""
    recorder = worker("Held", lambda payloads, batch: gate.wait(60))
    recorder.perform_async([{"id": 1}])
    server = serve(recorder)
    eventually(lambda: server.stats()["running"] == 1)
    return recorder, server


def test_a_stop_that_ctrl_c_ended_is_finished_by_the_next_one() -> None:
    gate = threading.Event()
    recorder, server = running_until(gate)
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        server.stop(60)
    gate.set()
    assert server.stop(60) is True
    assert seriatim.nodes() == []
    eventually(lambda: not server._heartbeat_thread.is_alive())
    assert recorder.metrics["processed"] == 1


@contextmanager
def handling(number: int, handler: Callable[[], None]) -> Iterator[None]:
    before = signal.signal(number, lambda number, frame: handler())
    try:
        yield
    finally:
        signal.signal(number, before)


def test_a_signal_handler_may_call_the_stop_that_it_interrupts() -> None:
    gate = threading.Event()
    _, server = running_until(gate)
    stops: list[bool] = []

    def stop() -> None:
        stops.append(server.stop(60))
        gate.set()

    def interrupt() -> None:
        eventually(lambda: server._finishing)
        os.kill(os.getpid(), signal.SIGUSR2)

    with handling(signal.SIGUSR2, stop):
        threading.Thread(target=interrupt).start()
        assert server.stop(60) is True
    assert stops == [False]
    assert server.stop() is True
    assert seriatim.nodes() == []


def test_a_signal_handler_that_interrupts_no_stop_stops_the_server() -> None:
    gate = threading.Event()
    _, server = running_until(gate)
    stops: list[bool] = []
    with handling(signal.SIGUSR2, lambda: stops.append(server.stop(60))):
        threading.Timer(0.3, gate.set).start()
        os.kill(os.getpid(), signal.SIGUSR2)
        assert eventually(lambda: stops) == [True]
    assert seriatim.nodes() == []


@pytest.mark.parametrize(("step", "clean"), [("_abandon", True), ("_close", False)])
def test_an_end_that_raised_is_run_again(step: str, clean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    recorder, server = running_until(gate)
    monkeypatch.setattr(server, step, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        server.stop(0)
    monkeypatch.undo()
    gate.set()
    assert server.stop(60) is clean  # what was handed back did not finish
    assert seriatim.nodes() == []
    eventually(lambda: not server._heartbeat_thread.is_alive())
    assert server.stop() is clean


def test_who_waits_for_a_stop_that_raises_stops_the_server() -> None:
    gate = threading.Event()
    _, server = running_until(gate)
    stopped: Queue[bool] = Queue()
    waiting = threading.Thread(target=lambda: stopped.put(server.stop(60)))

    def interrupt() -> None:
        waiting.start()
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, interrupt).start()
        server.stop(60)
    gate.set()
    assert stopped.get(timeout=60) is True
    assert seriatim.nodes() == []


@pytest.mark.parametrize("timeout", ["5", -1, float("nan"), True])
def test_a_stop_refuses_a_timeout_that_cannot_be_and_stops_nothing(timeout: Any) -> None:
    server = serve(worker("Timed"))
    with pytest.raises(seriatim.Invalid, match=r"^timeout must be a number of seconds from 0\.0 to 86400\.0, not "):
        server.stop(timeout)
    assert server.running and server.stop(5)


def test_a_lost_connection_does_not_end_the_server(redis: RedisServer) -> None:
    own = RedisServer()
    try:
        seriatim.redis = own.url
        recorder = worker("Lost")
        server = serve(recorder)
        recorder.perform_async([{"id": 1}])
        runs(recorder)
        own.stop()
        time.sleep(0.3)
        own.start()
        recorder.perform_async([{"id": 2}])
        assert runs(recorder)[0].payloads == {"2": [""]}
        assert server.stop()
    finally:
        own.remove()


@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_server_is_not_stalled_while_redis_is_away(is_frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STALLED_SECONDS", 2)
    own, gate = RedisServer(), threading.Event()
    try:
        seriatim.redis, seriatim.lease_time = own.url, 2
        recorder = worker("Away", lambda payloads_by_id, batch: gate.wait(60), shards_count=1)
        recorder.perform_async([{"id": 1}, {"id": 2}])
        server = serve(recorder, threads=1)
        eventually(lambda: includes(server.stats(), running=1, claimed=1))
        os.kill(own.pid, signal.SIGSTOP) if is_frozen else own.stop()
        eventually(lambda: not server.stats()["connected"])
        time.sleep(2.5)  # until the lease is over
        gate.set()
        eventually(lambda: not server.stats()["running"])
        time.sleep(4)
        assert server.stats()["claimed"] == 1
        eventually(lambda: server.stalled is None and server_module.stalled() is None, 10)
        os.kill(own.pid, signal.SIGCONT) if is_frozen else own.start()
        runs(recorder, 2)
        server.stop(5)
    finally:
        gate.set()
        own.stop(signal.SIGKILL)  # it may be frozen
        own.remove()


def test_a_server_is_not_stalled_while_the_applications_scheduler_holds_its_jobs_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STALLED_SECONDS", 1)
    seriatim.build_scheduler = lambda: lambda candidates: None
    recorder = worker("Held", shards_count=1)
    recorder.perform_async([{"id": 1}])
    server = serve(recorder, threads=1)
    eventually(lambda: server.stats()["claimed"] == 1)
    time.sleep(2.5)
    eventually(lambda: server.stalled is None, 10)


def test_a_server_is_not_stalled_while_retries_exhausted_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STALLED_SECONDS", 1)
    told, gate = threading.Event(), threading.Event()

    def retries_exhausted(self: Any, jobs: list[Any]) -> None:
        told.set()
        gate.wait(60)

    def fail(payloads_by_id: Any, batch: Any) -> None:
        raise ValueError("bad")

    recorder = worker("Telling", fail, shards_count=1, max_retry_count=0, retries_exhausted=retries_exhausted)
    recorder.perform_async([{"id": 1}])
    server = serve(recorder, threads=1)
    try:
        assert told.wait(60)
        recorder.perform_async([{"id": 2}])
        eventually(lambda: includes(server.stats(), running=0, claimed=1))
        time.sleep(2.5)
        eventually(lambda: server.stalled is None, 10)
    finally:
        gate.set()


def test_f19_a_child_of_fork_is_not_stalled_by_the_server_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(worker("Parent"))
    monkeypatch.setattr(server, "_note_moves", lambda: None)
    monkeypatch.setattr(server, "_moved", time.monotonic() - 3600)
    assert server_module.stalled() is not None
    pid = os.fork()
    if pid == 0:
        os._exit(0 if server_module.stalled() is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_server_is_stalled_when_none_of_its_threads_begins_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STALLED_SECONDS", 1)
    monkeypatch.setattr(Host, "run", lambda self: None)
    recorder = worker("Still", shards_count=1)
    recorder.perform_async([{"id": 1}])
    server = serve(recorder, threads=1)
    assert "nothing was begun for" in eventually(lambda: server.stalled)
    assert server_module.stalled() == server.stalled


PROGRAM = """
import seriatim, sys, threading, time
begun, interrupted = threading.Event(), threading.Event()
class Slow(seriatim.Worker):
    def perform(self, payloads_by_id):
        print("begun", flush=True)
        begun.set()
        time.sleep(0.5)
        print("ended", flush=True)
server = seriatim.Server(workers=[Slow]).start()
Slow.perform_async([{"id": 1}])
begun.wait(60)
"""


def test_f23_a_program_that_ends_lets_its_jobs_finish() -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "begun\nended\n"
    assert ended.returncode == 0


INTERRUPTED = """
import os, signal, threading
try:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    server.stop()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    interrupted.set()
"""


def test_a_program_that_ends_after_ctrl_c_in_a_stop_lets_its_jobs_finish() -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    program = PROGRAM.replace("time.sleep(0.5)", "interrupted.wait(30)") + INTERRUPTED
    ended = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert ended.stdout == "begun\ninterrupted\nended\n"
    assert ended.returncode == 0


ASYNC_PROGRAM = """
import asyncio, seriatim, threading
begun = threading.Event()
class Fails(seriatim.Worker):
    retry_in = lambda self, count: 3600
    async def perform(self, payloads_by_id):
        print("begun", flush=True)
        begun.set()
        await asyncio.sleep(0.5)
        raise ValueError("told")
server = seriatim.Server(workers=[Fails]).start()
Fails.perform_async([{"id": 1}])
begun.wait(60)
"""


def test_f23_an_async_job_fails_as_always_while_its_program_ends() -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    ended = subprocess.run([sys.executable, "-c", ASYNC_PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("begun\n", 0)
    record = worker("Fails").queries.fetch(["1"])[0]
    assert record["retry_count"] == 0 and "told" in record["error"]


EXECUTOR_PROGRAM = """
import asyncio, concurrent.futures, seriatim, sys, threading, time
begun = threading.Event()
def begin(seconds):
    begun.set()
    time.sleep(seconds)
class Async(seriatim.Worker):
    async def perform(self, payloads_by_id):
        await asyncio.to_thread(begin, 0.5)
        print(await asyncio.to_thread(lambda: "ended"), flush=True)
class Sync(seriatim.Worker):
    def perform(self, payloads_by_id):
        begin(0.5)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            print(pool.submit(lambda: "ended").result(), flush=True)
worker = {"async": Async, "sync": Sync}[sys.argv[1]]
server = seriatim.Server(workers=[worker]).start()
worker.perform_async([{"id": 1}])
begun.wait(60)
"""


@pytest.mark.parametrize("kind", ["async", "sync"])
def test_f23_a_job_may_use_executors_while_its_program_ends(kind: str) -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    program = [sys.executable, "-c", EXECUTOR_PROGRAM, kind]
    ended = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("ended\n", 0), ended.stderr


LONGER_PROGRAM = """
import seriatim, threading
ended = threading.Event()
class Quick(seriatim.Worker):
    def perform(self, payloads_by_id):
        ended.set()
server = seriatim.Server(workers=[Quick]).start()
def go_on():
    threading.main_thread().join()
    Quick.perform_async([{"id": 1}])
    print(ended.wait(10), server.running, flush=True)
threading.Thread(target=go_on).start()
"""


def test_f23_a_server_runs_as_long_as_threads_of_its_program_do() -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    ended = subprocess.run([sys.executable, "-c", LONGER_PROGRAM], env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.returncode) == ("True True\n", 0), ended.stderr
    assert seriatim.nodes() == []


def test_f19_a_fork_of_a_server_pushes_but_does_not_stop_its_parents_server() -> None:
    recorder = worker("Forked")
    server = serve(recorder)

    def child() -> None:
        recorder.perform_async([{"id": "child"}])
        assert server.stop(0)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert runs(recorder)[0].payloads == {"child": [""]}
    recorder.perform_async([{"id": "parent"}])
    runs(recorder)
    assert server.running and server.stop()


def test_f22_threads_in_other_work_do_not_cost_the_lease() -> None:
    seriatim.lease_time = 4

    def body(payloads: Any, batch: Any) -> None:
        end = time.monotonic() + 6
        while time.monotonic() < end:
            pass

    recorder = worker("Busy", body, shards_count=1)
    recorder.perform_async([{"id": id} for id in range(3)])
    server = serve(recorder, threads=3)
    runs(recorder, 3)
    drained(recorder)
    assert server.stats()["refused"] == 0


def test_events_of_the_node_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "seriatim"):
        recorder = worker("Logged")
        server = serve(recorder)
        recorder.perform_async([{"id": 7}])
        runs(recorder)
        server.stop()
    text = "\n".join(caplog.messages)
    for part in ("start node", "start q=Logged id=7 n=1", "done q=Logged id=7 n=1", "stop stopped"):
        assert part in text, text
