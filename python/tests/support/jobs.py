"""Workers, servers and waits of the tests."""

from __future__ import annotations

import inspect
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import Queue
from typing import Any, TypeVar

import seriatim

T = TypeVar("T")

servers: list[seriatim.Server] = []


@dataclass
class Run:
    """What a worker was given, with the times around it (Unix seconds)."""

    payloads: dict[Any, list[Any]]
    retry_counts: dict[Any, int]
    started: float = field(default_factory=time.time)
    ended: float = 0.0


class Recorder(seriatim.Worker):
    """Records its runs, around the perform that a test gave."""

    runs: Queue[Run]

    def retry_in(self, count: int) -> float:
        return 0.05

    def perform(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        run = _begin(payloads_by_id, batch)
        try:
            self._body(payloads_by_id, batch)
        finally:
            _end(type(self), run)

    def _body(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> Any:
        return None


class AsyncRecorder(Recorder):
    async def perform(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:  # type: ignore[override]
        run = _begin(payloads_by_id, batch)
        try:
            await self._body(payloads_by_id, batch)
        finally:
            _end(type(self), run)


def _begin(payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> Run:
    return Run(payloads_by_id, {id: batch.retry_count(id) for id in payloads_by_id})


def _end(worker: Any, run: Run) -> None:
    run.ended = time.time()
    worker.runs.put(run)


def worker(name: str = "Recorder", perform: Callable[..., Any] | None = None, **members: Any) -> Any:
    """
    A worker class with `runs`, a queue of Run.

    perform: (payloads_by_id, batch), `def` or `async def`.
    members: settings, and methods (with self).
    """
    body = {} if perform is None else {"_body": staticmethod(perform)}
    base = AsyncRecorder if inspect.iscoroutinefunction(perform) else Recorder
    class_name = name.encode("utf-8", "replace").decode().replace("\0", " ")  # Python refuses surrogates and NUL in it
    return type(base)(class_name, (base,), {"queue_name": name, "runs": Queue(), **body, **members})


def serve(*workers: Any, **options: Any) -> seriatim.Server:
    """A running server; stopped after the test."""
    server = seriatim.Server(workers=list(workers), **options)
    servers.append(server)
    return server.start()


def stop_servers() -> None:
    while servers:
        servers.pop().stop(1)


def eventually(check: Callable[[], T], seconds: float = 60) -> T:
    """Polls until the function gives something true, which it returns."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)
    return value


def runs(worker: Any, count: int = 1, seconds: float = 60) -> list[Run]:
    """The next `count` runs."""
    deadline = time.monotonic() + seconds
    return [worker.runs.get(timeout=max(deadline - time.monotonic(), 0.01)) for _ in range(count)]


def drained(worker: Any, seconds: float = 60) -> None:
    """Until nothing waits and nothing runs."""
    eventually(lambda: sum(map(worker.metrics.get, ("length", "busy"))) == 0, seconds)


def includes(figures: Any, **expected: object) -> bool:
    """Has the dict these values?"""
    return {name: figures[name] for name in expected} == expected


def ids(records: list[Any]) -> list[Any]:
    return [record["id"] for record in records]


def now() -> float:
    return time.time()


@contextmanager
def deaf() -> Iterator[None]:
    """A Redis that accepts and never answers."""
    folder = tempfile.mkdtemp(prefix="seriatim-test")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.join(folder, "s"))
        server.listen(100)
        seriatim.redis = f"unix://{folder}/s"
        try:
            yield
        finally:
            shutil.rmtree(folder)


def descriptors() -> int:
    """How many the process has open."""
    return len(os.listdir("/proc/self/fd"))
