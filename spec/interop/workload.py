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
                for payload in payloads:
                    time.sleep(payload.get("sleep", 0) / 2)
                    run.step("perform_during")
                    time.sleep(payload.get("sleep", 0) / 2)

    async def perform_as_task(_self: object, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        for id, payloads in payloads_by_id.items():
            with journaled(queue, id, payloads, batch) as run:
                for payload in payloads:
                    await asyncio.sleep(payload.get("sleep", 0) / 2)
                    run.step("perform_during")
                    await asyncio.sleep(payload.get("sleep", 0) / 2)

    members = {"queue_name": queue, "perform": perform_as_task if tasks else perform, "retry_in": lambda _self, _count: back_off}
    return type("Workload", (seriatim.Worker,), {**fields, **members})


class Run:
    """One run of an id. DIE=perform_during:3 ends the process in the middle of its third."""

    point, _, die_in = os.environ.get("DIE", "").partition(":")
    count = itertools.count(1)

    def __init__(self) -> None:
        self.number = next(self.count)

    def step(self, point: str) -> None:
        if point == self.point and self.number == int(self.die_in):
            os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def journaled(queue: str, id: Any, payloads: list[Any], batch: seriatim.Batch) -> Iterator[Run]:
    run = Run()
    numbers = pack([payload["n"] for payload in payloads])
    write("start", os.getpid(), queue, id, batch.fence(id), batch.retry_count(id), numbers, time.monotonic())
    run.step("perform_begin")
    yield run
    write("end", os.getpid(), queue, id, batch.fence(id), time.monotonic())
    run.step("perform_end")


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
