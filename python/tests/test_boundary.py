"""F9, F32: whatever way user code takes to leave, it is the failure of that job alone."""

from __future__ import annotations

import _thread
import asyncio
import ctypes
import math
import re
import sys
import threading
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import seriatim
from support.jobs import eventually, includes, runs, serve, worker


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Nothing(Exception):
    def __str__(self) -> Any:
        return None


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
    "a text beyond Unicode": (fail(RuntimeError("\ud800")), "."),
    "Seriatim's own": (fail(seriatim.Closed("closed")), "closed"),
}


@pytest.mark.parametrize("name", LEAVE)
def test_counts(name: str) -> None:
    code, message = LEAVE[name]

    def perform(payloads_by_id: Any, batch: Any) -> None:
        if "bad" in payloads_by_id:
            code()

    recorder = worker("Leave", perform, shards_count=1, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=1)
    for _ in range(2):
        recorder.perform_async([{"id": "bad"}])
        runs(recorder)
        (record,) = eventually(lambda: [each for each in recorder.queries.fetch(["bad"]) if "error" in each])
        assert re.search(message, record["error"])
        assert record["retry_count"] == 0
        recorder.actions.delete(["bad"])
    recorder.perform_async([{"id": "good"}])
    assert runs(recorder)[0].payloads == {"good": [""]}
    assert server.stop(30) is True
    assert includes(recorder.metrics, processed=1, failed=2, busy=0)


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
    "dump_error giving a number": ({"retry_in": lambda self, count: 60}, spoil("dump_error", lambda text: 5)),
    "a middleware raising": ({"retry_in": lambda self, count: 60}, spoil("server_middlewares", [raises])),
}


@pytest.mark.parametrize("name", SPOILED)
def test_survives(name: str) -> None:
    members, begin = SPOILED[name]
    recorder = worker("Hooks", raises, batch_size=5, shards_count=1, **members)
    begin()
    recorder.perform_async([{"id": 1}, {"id": 2}])
    server = serve(recorder, threads=1)
    eventually(lambda: recorder.metrics["failed"] >= 2)
    eventually(lambda: all("error" in record for record in recorder.queries.fetch([1, 2])))
    assert server.stop(30) is True
    assert recorder.metrics["retries"] == 2


def test_a_negative_retry_in_is_now() -> None:
    recorder = worker("Hooks", raises, max_retry_count=2, retry_in=lambda self, count: -5)
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    runs(recorder, 3)


def test_hands_back_what_still_runs_when_the_time_is_up() -> None:
    gate = threading.Event()
    recorder = worker("Slow", lambda payloads, batch: gate.wait(60))
    recorder.perform_async([{"id": 1}])
    server = serve(recorder)
    eventually(lambda: recorder.metrics["busy"] == 1)
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
