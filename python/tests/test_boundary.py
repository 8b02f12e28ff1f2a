"""F9, F32: whatever way user code takes to leave, it is the failure of that job alone."""

from __future__ import annotations

import _thread
import asyncio
import ctypes
import logging
import math
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

import seriatim
from seriatim._server.batch import Snooze
from support.jobs import eventually, includes, runs, serve, worker


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Nothing(Exception):
    def __str__(self) -> Any:
        return None


class Ruthless(Exception):
    def __str__(self) -> str:
        raise SystemExit("no")


class Empty(Exception):
    """False wherever a truth is asked for."""

    def __len__(self) -> int:
        return 0


class Undecided(Exception):
    def __bool__(self) -> bool:
        raise KeyboardInterrupt("neither")


def fail(error: BaseException) -> Callable[[], None]:
    def run() -> None:
        raise error

    return run


def deep() -> None:
    deep()


def into_own_thread() -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.get_ident()), ctypes.py_object(ZeroDivisionError))
    while True:
        time.sleep(0.001)


LEAVE: dict[str, tuple[Callable[[], Any], str]] = {
    "an Exception": (fail(RuntimeError("plain")), "^plain$"),
    "a BaseException": (fail(BaseException("bare")), "^bare$"),
    "NotImplementedError": (fail(NotImplementedError("todo")), "^todo$"),
    "MemoryError": (fail(MemoryError("memory")), "^memory$"),
    "a stack overflow": (deep, "recursion"),
    "an import error": (lambda: __import__("no.such.module"), "no"),
    "a syntax error": (lambda: exec("1 +"), "syntax"),
    "sys.exit": (lambda: sys.exit(3), "3"),
    "exit with a text": (lambda: sys.exit("left"), "left"),
    "the end of its thread": (_thread.exit, "SystemExit|^$"),
    "KeyboardInterrupt": (fail(KeyboardInterrupt("ctrl-c")), "ctrl-c"),
    "GeneratorExit": (fail(GeneratorExit("generator")), "generator"),
    "StopIteration": (lambda: next(iter([])), "StopIteration|^$"),
    "CancelledError": (fail(asyncio.CancelledError("cancelled")), "cancelled"),
    "an error raised into its thread": (into_own_thread, "ZeroDivisionError|^$"),
    "an error without a message": (fail(Mute()), "Mute"),
    "an error with None for a message": (fail(Nothing()), "Nothing"),
    "an error that raises when it is shown": (fail(Ruthless()), "Ruthless"),
    "an error that is false": (fail(Empty("empty")), "empty"),
    "an error that is neither true nor false": (fail(Undecided("undecided")), "undecided"),
    "memory that is not there": (lambda: bytearray(2**62), "MemoryError"),
    "a text beyond Unicode": (fail(RuntimeError("\ud800")), "."),
    "Seriatim's own": (fail(seriatim.Closed("closed")), "closed"),
}


MANY = 1000 if os.environ.get("SOAK") else 100  # times that each is left


async def as_it_is(leave: Callable[[], Any]) -> None:
    leave()


async def in_a_task(leave: Callable[[], Any]) -> None:
    async def child() -> None:
        leave()

    await asyncio.create_task(child())


WAYS: dict[str, Any] = {"def": None, "async def": as_it_is, "a task": in_a_task}


@pytest.mark.parametrize("name", LEAVE)
@pytest.mark.parametrize("way", WAYS)
def test_f9_counts(name: str, way: str) -> None:
    leave, message = LEAVE[name]

    def perform(payloads_by_id: Any, batch: Any) -> None:
        if "good" not in payloads_by_id:
            leave()

    async def perform_async(payloads_by_id: Any, batch: Any) -> None:
        if "good" not in payloads_by_id:
            await WAYS[way](leave)

    recorder = worker("Leave", perform_async if WAYS[way] else perform, shards_count=1, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=1)
    assert_counted(recorder, message if way == "def" else f"{message}|StopIteration|^$")
    recorder.perform_async([{"id": "good"}])
    eventually(lambda: recorder.metrics["processed"] == 1)
    assert server.stop(30) is True
    assert includes(recorder.metrics, processed=1, failed=MANY, busy=0)


def assert_counted(recorder: Any, message: str) -> None:
    """Each of many jobs fails once, and with this text."""
    recorder.perform_async([{"id": number} for number in range(MANY)])
    eventually(lambda: recorder.metrics["failed"] == MANY)
    records = recorder.queries.fetch(range(MANY))
    assert [record["retry_count"] for record in records] == [0] * MANY
    for record in records:
        assert re.search(message, record.get("error", "")), record


class Unprintable(str):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("is_async", [False, True])
def test_f32_an_outcome_that_cannot_be_recorded_is_a_failure_of_its_id_alone(is_async: bool) -> None:
    seriatim.format_error = lambda error: Unprintable("text")

    def report(batch: Any) -> None:
        batch._outcomes["a"] = Snooze(1.0, b"x" * 1_048_577)
        batch.fail("b", ValueError("boom"))
        batch.done("c")
        batch.snooze("d", 60)

    async def report_async(payloads_by_id: Any, batch: Any) -> None:
        report(batch)

    perform = report_async if is_async else lambda payloads_by_id, batch: report(batch)
    recorder = worker("Spoiled", perform, shards_count=1, batch_size=9, retry_in=lambda self, count: 60)
    recorder.perform_async([{"id": id} for id in "abcd"])
    serve(recorder, threads=1)
    eventually(lambda: recorder.metrics["processed"] == 1 and recorder.metrics["busy"] == 0)
    records = {record["id"]: record for record in recorder.queries.fetch(list("abcd"))}
    assert {id: record["retry_count"] for id, record in records.items()} == {"a": 0, "b": 0, "d": -1}
    assert "Invalid" in records["a"]["error"] and "no text" in records["b"]["error"]
    assert recorder.runs.qsize() == 1


async def cancelled() -> None:
    current().cancel("own")
    await asyncio.sleep(1)


async def cancelled_later() -> None:
    current().cancel()
    raise RuntimeError("left")


async def cancelled_child() -> None:
    child = asyncio.create_task(asyncio.sleep(1))
    asyncio.get_running_loop().call_soon(child.cancel)
    await child


async def gathered() -> None:
    await asyncio.gather(as_it_is(lambda: None), as_it_is(fail(ValueError("one of two"))))


async def timed_out() -> None:
    await asyncio.wait_for(asyncio.sleep(1), 0.001)


def current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


LEAVE_ASYNC: dict[str, tuple[Callable[[], Any], str]] = {
    "its own task cancelled": (cancelled, "^own$|CancelledError"),
    "its own task cancelled before it raises": (cancelled_later, "^left$"),
    "a child cancelled": (cancelled_child, "CancelledError"),
    "an error of several tasks": (gathered, "^one of two$"),
    "a time-out": (timed_out, "TimeoutError|^$"),
}


@pytest.mark.parametrize("name", LEAVE_ASYNC)
def test_f9_counts_async(name: str) -> None:
    leave, message = LEAVE_ASYNC[name]

    async def perform(payloads_by_id: Any, batch: Any) -> None:
        if "good" not in payloads_by_id:
            await leave()

    recorder = worker("Leave", perform, shards_count=1, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=4)
    assert_counted(recorder, message)
    recorder.perform_async([{"id": "good"}])
    eventually(lambda: recorder.metrics["processed"] == 1)
    assert server.stop(30) is True


def exit_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(sys.exit)


def interrupt_in_a_forgotten_task() -> None:
    task = asyncio.ensure_future(as_it_is(fail(KeyboardInterrupt("forgotten"))))
    task.add_done_callback(lambda task: task.exception())


def stop_the_loop() -> None:
    asyncio.get_running_loop().stop()


def cancel_everything() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


def raise_into_the_next_moment() -> None:
    thread, error = ctypes.c_ulong(threading.get_ident()), ctypes.py_object(SystemExit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, error)


HARM: dict[str, Callable[[], None]] = {
    "an exit in a callback of the loop": exit_in_a_callback,
    "an interrupt in a task that nobody awaits": interrupt_in_a_forgotten_task,
    "a stopped loop": stop_the_loop,
    "all tasks cancelled": cancel_everything,
}


@pytest.mark.parametrize("name", HARM)
def test_f9_the_event_loop_goes_on(name: str) -> None:
    async def perform(payloads_by_id: Any, batch: Any) -> None:
        if "good" not in payloads_by_id:
            HARM[name]()
        await asyncio.sleep(0.001)

    recorder = worker("Harm", perform, shards_count=1)
    server = serve(recorder, threads=3)
    for number in range(20):
        recorder.perform_async([{"id": number}])
    for number in range(20):
        eventually(lambda: recorder.metrics["processed"] + recorder.metrics["failed"] >= number)
    recorder.perform_async([{"id": "good"}])
    eventually(lambda: any("good" in run.payloads for run in runs(recorder)))
    eventually(lambda: recorder.metrics["busy"] == 0)
    assert server.stop(30) is True


def test_f9_an_error_that_comes_after_perform_does_not_end_the_thread() -> None:
    def perform(payloads_by_id: Any, batch: Any) -> None:
        if "good" not in payloads_by_id:
            raise_into_the_next_moment()

    recorder = worker("Later", perform, shards_count=1)
    server = serve(recorder, threads=1)
    for number in range(20):
        recorder.perform_async([{"id": number}])
    time.sleep(0.1)
    recorder.actions.delete(range(20))
    recorder.perform_async([{"id": "good"}])
    eventually(lambda: any("good" in run.payloads for run in runs(recorder)))
    assert server.stop(30) is True


@pytest.mark.parametrize("error", ["", Empty(), Undecided("undecided"), Ruthless()], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_f9_whatever_an_id_is_reported_to_fail_with(error: Any, kind: str) -> None:
    def perform(payloads_by_id: Any, batch: Any) -> None:
        batch.fail("1", error)

    async def perform_async(payloads_by_id: Any, batch: Any) -> None:
        batch.fail("1", error)
        current().cancel()

    body = perform if kind == "def" else perform_async
    recorder = worker("Reported", body, shards_count=1, batch_size=2, retry_in=lambda self, count: 60)
    recorder.perform_async([{"id": 1}, {"id": 2}])
    serve(recorder)
    eventually(lambda: includes(recorder.metrics, processed=1, failed=1, busy=0))
    assert [record["id"] for record in recorder.queries.range_by_retry_count(0, 0)] == ["1"]


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("codec", ["json", (lambda payload: b"x", len)], ids=["json", "own"])
def test_f9_whatever_perform_made_of_its_dict(codec: Any, kind: str) -> None:
    """Emptied, turned round or filled with others: each id has its own outcome."""

    def change(payloads_by_id: Any, batch: Any) -> None:
        first = sorted(payloads_by_id)[0]
        payloads_by_id.pop(first)
        payloads_by_id["other"] = payloads_by_id.pop(sorted(payloads_by_id)[0])
        batch.fail(first, "first")
        payloads_by_id.clear()
        with pytest.raises(seriatim.Invalid):
            batch.done("other")
        batch.extend(5)
        raise RuntimeError("all others")

    async def perform_async(payloads_by_id: Any, batch: Any) -> None:
        change(payloads_by_id, batch)

    members = {"shards_count": 1, "batch_size": 5, "codec": codec, "retry_in": lambda self, count: 60}
    recorder = worker("Changed", change if kind == "def" else perform_async, **members)
    recorder.perform_async([{"id": id, "payload": 1} for id in "abcde"])
    server = serve(recorder, threads=1)
    eventually(lambda: includes(recorder.metrics, failed=5, busy=0))
    errors = {record["id"]: record["error"] for record in recorder.queries.fetch(list("abcde"))}
    assert errors == {"a": "first", **dict.fromkeys("bcde", "all others")}
    assert server.stop(30) is True


@pytest.mark.parametrize("leave", [lambda: None, fail(RuntimeError("child")), lambda: sys.exit(3)], ids=["return", "raise", "exit"])
def test_f9_f19_a_child_forked_in_a_job_has_no_outcome_to_give(leave: Callable[[], None], tmp_path: Path) -> None:
    def perform(payloads_by_id: Any, batch: Any) -> None:
        child = os.fork()
        if child == 0:
            signal.alarm(100)
            leave()
            return
        (tmp_path / "code").write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))

    recorder = worker("Parent", perform, shards_count=1)
    server = serve(recorder, threads=1)
    recorder.perform_async([{"id": 1}, {"id": 2}])
    eventually(lambda: includes(recorder.metrics, processed=2, failed=0, busy=0))
    assert (tmp_path / "code").read_text() != "-14"  # it ended, and by itself
    assert server.stop(30) is True


def raises(*arguments: Any) -> Any:
    raise RuntimeError("hook")


def spoil(name: str, value: Any) -> Callable[[], Any]:
    return lambda: setattr(seriatim, name, value)


SPOILED: dict[str, tuple[dict[str, Any], Callable[[], Any]]] = {
    "retry_in raising": ({"retry_in": raises}, lambda: None),
    "retry_in giving NaN": ({"retry_in": lambda self, count: math.nan}, lambda: None),
    "retry_in giving None": ({"retry_in": lambda self, count: None}, lambda: None),
    "retry_in giving a text": ({"retry_in": lambda self, count: "soon"}, lambda: None),
    "retry_in giving infinity": ({"retry_in": lambda self, count: math.inf}, lambda: None),
    "retry_in giving minus infinity": ({"retry_in": lambda self, count: -math.inf, "max_retry_count": 99}, lambda: None),
    "retry_in leaving": ({"retry_in": lambda self, count: sys.exit(1)}, lambda: None),
    "format_error raising": ({"retry_in": lambda self, count: 60}, spoil("format_error", raises)),
    "format_error giving None": ({"retry_in": lambda self, count: 60}, spoil("format_error", lambda error: None)),
    "dump_error raising": ({"retry_in": lambda self, count: 60}, spoil("dump_error", raises)),
    "format_error giving what cannot be asked": (
        {"retry_in": lambda self, count: 60},
        spoil("format_error", lambda error: Undecided()),
    ),
    "dump_error giving a number": ({"retry_in": lambda self, count: 60}, spoil("dump_error", lambda text: 5)),
    "a middleware raising": ({"retry_in": lambda self, count: 60}, spoil("server_middlewares", [raises])),
}


@pytest.mark.parametrize("name", SPOILED)
def test_f32_survives(name: str) -> None:
    members, begin = SPOILED[name]
    recorder = worker("Hooks", raises, batch_size=5, shards_count=1, **members)
    begin()
    recorder.perform_async([{"id": 1}, {"id": 2}])
    server = serve(recorder, threads=1)
    eventually(lambda: recorder.metrics["failed"] >= 2)
    eventually(lambda: all("error" in record for record in recorder.queries.fetch([1, 2])))
    assert server.stop(30) is True
    assert recorder.metrics["retries"] == 2


KINDS = {
    "Exception": RuntimeError,
    "SystemExit": SystemExit,
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "StopIteration": StopIteration,
    "CancelledError": asyncio.CancelledError,
}


def leaving(kind: str, error: type[BaseException], before: bool) -> Callable[..., Any]:
    """A middleware that raises, before or after what is inside it."""

    def link(worker: Any, batch: Any, call_next: Callable[[], Any]) -> Any:
        if not before:
            call_next()
        raise error("left")

    async def async_link(worker: Any, batch: Any, call_next: Callable[[], Any]) -> Any:
        if not before:
            await call_next()
        raise error("left")

    return link if kind == "def" else async_link


@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("perform", ["def", "async def"])
@pytest.mark.parametrize("link", ["def", "async def"])
def test_f32_a_middleware_may_raise_anything(link: str, perform: str, error: str) -> None:
    async def body(payloads_by_id: Any, batch: Any) -> None:
        await asyncio.sleep(0)

    recorder = worker("Chain", None if perform == "def" else body, shards_count=1, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=2)
    for before in (True, False):
        seriatim.server_middlewares = [leaving(link, KINDS[error], before)]
        recorder.perform_async([{"id": f"{before}-{number}"} for number in range(10)])
        eventually(lambda: recorder.metrics["retries"] == (10 if before else 20))
    seriatim.server_middlewares = []
    recorder.perform_async([{"id": "good"}])
    eventually(lambda: recorder.metrics["processed"] == 1)
    assert server.stop(30) is True


@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("hook", ["def", "async def"])
def test_f32_every_hook_may_raise_anything(hook: str, error: str, caplog: pytest.LogCaptureFixture) -> None:
    def leave(*arguments: Any) -> Any:
        raise KINDS[error]("left")

    async def async_leave(*arguments: Any) -> Any:
        raise KINDS[error]("left")

    seriatim.format_error = seriatim.dump_error = seriatim.load_error = leave
    hooks = {"retry_in": leave if hook == "def" else async_leave, "retries_exhausted": leave if hook == "def" else async_leave}
    recorder = worker("Hooks", raises, shards_count=1, **hooks)
    dying = worker("Dying", raises, shards_count=1, max_retry_count=0, **hooks)
    server = serve(recorder, dying, threads=2)
    for each in (recorder, dying):
        each.perform_async([{"id": number} for number in range(5)])
    eventually(lambda: includes(recorder.metrics, retries=5, failed=5, busy=0))
    eventually(lambda: includes(dying.metrics, morgue_length=5, busy=0))
    eventually(lambda: any("retries_exhausted raised" in line for line in caplog.messages))
    assert server.stop(30) is True


class Exiting(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit("the log")


@pytest.mark.parametrize("perform", ["def", "async def"])
def test_f32_a_log_that_raises(perform: str) -> None:
    async def body(payloads_by_id: Any, batch: Any) -> None:
        raise RuntimeError("x")

    recorder = worker("Log", raises if perform == "def" else body, shards_count=1, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=1)
    handler = Exiting()
    logging.getLogger("seriatim").addHandler(handler)
    try:
        recorder.perform_async([{"id": number} for number in range(5)])
        eventually(lambda: recorder.metrics["retries"] == 5)
        assert server.failure is None
    finally:
        logging.getLogger("seriatim").removeHandler(handler)
    assert server.stop(30) is True


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise KeyboardInterrupt("no")


@pytest.mark.parametrize("choice", [5, "soon", Incomparable(), SystemExit("no")], ids=lambda choice: type(choice).__name__)
@pytest.mark.parametrize("perform", ["def", "async def"])
def test_f32_a_scheduler_that_gives_what_is_no_candidate(choice: Any, perform: str) -> None:
    def choose(candidates: Any) -> Any:
        if isinstance(choice, SystemExit):
            raise choice
        return choice

    async def body(payloads_by_id: Any, batch: Any) -> None:
        await asyncio.sleep(0)

    seriatim.build_scheduler = lambda: choose
    recorder = worker("Own", None if perform == "def" else body, shards_count=3)
    recorder.perform_async([{"id": id} for id in range(20)])
    serve(recorder, threads=2)
    runs(recorder, 20)


@pytest.mark.parametrize("error", KINDS)
@pytest.mark.parametrize("hook", ["def", "async def"])
def test_f32_an_on_server_init_that_raises_ends_the_start_alone(hook: str, error: str) -> None:
    def leave() -> None:
        raise KINDS[error]("left")

    async def async_leave() -> None:
        raise KINDS[error]("left")

    seriatim.on_server_init(leave if hook == "def" else async_leave)
    recorder = worker("Init")
    server = seriatim.Server(workers=[recorder])
    with pytest.raises(BaseException):
        server.start()
    assert not server.running
    seriatim.on_server_init.clear()
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    runs(recorder)


def test_f32_a_negative_retry_in_is_now() -> None:
    recorder = worker("Hooks", raises, max_retry_count=2, retry_in=lambda self, count: -5)
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    runs(recorder, 3)


def test_f21_hands_back_what_still_runs_when_the_time_is_up() -> None:
    began, gate = threading.Event(), threading.Event()

    def perform(payloads: Any, batch: seriatim.Batch) -> None:
        began.set()
        gate.wait(60)

    recorder = worker("Slow", perform)
    recorder.perform_async([{"id": 1}])
    server = serve(recorder)
    assert began.wait(15)  # a stop before the job begins in its thread hands it back at once
    assert server.stop(0.3) is False
    assert eventually(lambda: recorder.queries.fetch([1]))[0]["retry_count"] == -1
    gate.set()


def test_fences_rise_and_the_batch_tells_scores_contexts_and_the_retry_count() -> None:
    seen: Queue[Any] = Queue()

    def perform(payloads_by_id: Any, batch: seriatim.Batch) -> None:
        seen.put((batch.fence(1), batch.scores(1), batch.contexts("1"), batch.retry_count(b"1"), dict(batch)))

    recorder = worker("Batch", perform)
    serve(recorder)
    for number in range(2):
        recorder.perform_async([{"id": 1, "payload": number, "score": 5, "context": {"tenant": f"t{number}"}}])
        runs(recorder)
    first, second = seen.get(), seen.get()
    assert second[0] > first[0]
    assert first[1:] == ([5.0], [{"tenant": "t0"}], -1, {"1": [0]})


def test_refuses_an_outcome_for_an_id_that_is_not_in_the_batch() -> None:
    recorder = worker("Batch", lambda payloads, batch: batch.fail("other", "x"), retry_in=lambda self, count: 60)
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    eventually(lambda: any("no id 'other'" in record.get("error", "") for record in recorder.queries.fetch([1])))
