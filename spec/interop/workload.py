"""workload.py - twin of ruby/spec/processes/support/workload.rb and spec/crash/kit/journal.rb: the same payloads, the same lines."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from typing import Any

import seriatim

SETTINGS: dict[str, Any] = json.loads(os.environ["WORKLOAD"])


def worker(queue: str, settings: dict[str, Any], tasks: bool = False) -> type[seriatim.Worker]:
    """
    settings: of seriatim.Worker, and `back_off`, the seconds that retry_in gives.
    tasks: perform is a coroutine.
    """
    fields = {name: value for name, value in settings.items() if name != "back_off"}
    back_off = settings.get("back_off", 0.1)

    def perform(_self: object, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        for id, payloads in payloads_by_id.items():
            with journaled(queue, id, payloads, batch) as run:
                for payload in run.payloads():
                    time.sleep(payload.get("sleep", 0) / 2)
                    run.step("perform_during")
                    time.sleep(payload.get("sleep", 0) / 2)
                    fail_if_told(payload)
                    if run.ended(payload):
                        batch.flush()
                        run.note("confirmed", payload)

    async def perform_as_task(_self: object, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        for id, payloads in payloads_by_id.items():
            with journaled(queue, id, payloads, batch) as run:
                for payload in run.payloads():
                    await asyncio.sleep(payload.get("sleep", 0) / 2)
                    run.step("perform_during")
                    await asyncio.sleep(payload.get("sleep", 0) / 2)
                    fail_if_told(payload)
                    if run.ended(payload):
                        await batch.aflush()
                        run.note("confirmed", payload)

    members = {"queue_name": queue, "perform": perform_as_task if tasks else perform, "retry_in": lambda _self, _count: back_off}
    return type("Workload", (seriatim.Worker,), {**fields, **members})


class Run:
    """One run of an id. DIE=perform_during:3 ends the process in the middle of its third."""

    point, _, die_in = os.environ.get("DIE", "").partition(":")
    count = itertools.count(1)

    def __init__(self, queue: str, id: Any, payloads: list[Any], batch: seriatim.Batch) -> None:
        self.number = next(self.count)
        self.queue, self.id, self.batch = queue, id, batch
        self.left = list(payloads)
        self.done = 0
        self.end = "end"

    def payloads(self) -> Iterator[Any]:
        """Those to be performed: none behind one that is snoozed."""
        for payload in self.left:
            self.note("task", payload)
            yield payload
            if self.end == "snooze":
                return

    def ended(self, payload: Any) -> bool:
        """What a payload that is done by itself asks for. Returns whether to wait for its checkpoint."""
        if "task" not in payload:
            return False
        if "snooze" in payload:
            again = {word: value for word, value in payload.items() if word != "snooze"}
            self.batch.snooze(self.id, payload["snooze"], payload=again)
            self.end = "snooze"
            return False
        self.note("did", payload)
        self.done += 1
        self.batch.checkpoint(self.id, self.done)
        return bool(payload["task"] == "flush")

    def note(self, kind: str, payload: Any) -> None:
        if "task" in payload:
            write(kind, os.getpid(), self.queue, self.id, self.batch.fence(self.id), payload["n"], time.monotonic())

    def step(self, point: str) -> None:
        if point == self.point and self.number == int(self.die_in):
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def journaled(queue: str, id: Any, payloads: list[Any], batch: seriatim.Batch) -> Iterator[Run]:
    run = Run(queue, id, payloads, batch)
    numbers = pack([payload["n"] for payload in payloads])
    write("start", os.getpid(), queue, id, batch.fence(id), batch.retry_count(id), numbers, time.monotonic())
    run.step("perform_begin")
    kind = "fail"
    try:
        yield run
        kind = run.end
    finally:
        write(kind, os.getpid(), queue, id, batch.fence(id), time.monotonic())
        run.step("perform_end")


def fail_if_told(payload: Any) -> None:
    if "fail" in payload and not os.path.exists(payload["fail"]):
        raise RuntimeError("told to fail")


def pushed(queue: str, id: str, numbers: list[int]) -> None:
    write("pushed", queue, id, pack(numbers))


def write(*words: object) -> None:
    """One write a line: see journal.rb on what a killed process leaves."""
    os.write(journal(), f"\n{' '.join(map(str, words))} .".encode())


@cache
def journal() -> int:
    return os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def pack(numbers: list[int]) -> str:
    """1, 2, 3, 7 as 1-3,7."""
    rows = [[number for _, number in row] for _, row in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{row[0]}-{row[-1]}" if len(row) > 1 else str(row[0]) for row in rows)
