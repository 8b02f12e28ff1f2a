"""Pushes of several workers that are collected and written together."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple, cast

from .. import _log, _native
from .._errors import Error, Invalid, NotReplicated
from .._settings import settings
from .._types import AnyJob, PushResult, QueueOwner
from . import pool
from .connection import Connection, Piped, PipedAll, Push
from .jobs import read_jobs
from .limits import SHORTEST, Limits


class PushFuture:
    """What perform_async and aperform_async return in a block of pipelined. After the block it has the fields of PushResult, too."""

    def __init__(self) -> None:
        self._result: PushResult | None = None
        self._error: Exception | None = None

    @property
    def value(self) -> PushResult:
        """
        After the block. Raises what became of this push, as perform_async would have; Invalid before the end of the block, and where an
        exception ended the block, because then nothing was pushed.
        """
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise Invalid("the result of this push is there when the block of pipelined has ended, and only if no exception ended it")
        return self._result

    def __getattr__(self, name: str) -> Any:
        if name not in PushResult._fields:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        return getattr(self.value, name)

    def _fill(self, result: PushResult | None, error: Exception | None) -> None:
        self._result, self._error = result, error

    def _is_filled(self) -> bool:
        return self._result is not None or self._error is not None


class _Waiting(NamedTuple):
    settings: _native.QueueSettings
    jobs: _native.Jobs
    limits: Limits
    seconds: float
    future: PushFuture


class Pipeline:
    """A block of pipelined or apipelined."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._results: list[PushResult] | None = None
        self._checker: Connection | None = None
        self._depth = 0
        self._owner = _owner()
        self._forks = _native.forks()

    @property
    def results(self) -> list[PushResult]:
        """Of the pushes, in their order. Raises Invalid before the end of the block."""
        if self._results is None:
            raise Invalid("the results are there when the block of pipelined has ended, and only if no exception ended it")
        return self._results

    def add(self, worker: QueueOwner, jobs: Sequence[AnyJob], limits: Limits) -> PushResult:
        """Checks the jobs, and keeps them as they are now. Gives a PushFuture, which reads like a PushResult."""
        read = read_jobs(jobs, worker._payload_codec())
        if self._checker is None:
            self._checker = Connection("redis://127.0.0.1", settings.namespace)  # never opened: it knows the rules of the core
        self._checker.check_jobs(worker._queue_settings(), read)
        future = PushFuture()
        self._waiting.append(_Waiting(worker._queue_settings(), read, limits, limits.left(), future))
        return cast(PushResult, future)

    def is_mine(self) -> bool:
        """Of this thread and task, and not of the parent of this process?"""
        return self._owner == _owner() and self._forks == _native.forks()

    def enter(self) -> None:
        self._depth += 1

    def leave(self) -> bool:
        """Was this the outermost block?"""
        self._depth -= 1
        return self._depth == 0

    def finish(self) -> None:
        if not self._must_write():
            return
        deadline = self._deadline()
        try:
            with pool.current().lend(deadline - time.monotonic()) as connection:
                ended = connection.pipeline(self._pushes(deadline))
            self._take(ended)
        except (Error, Invalid) as error:
            self._fail(error)
            raise

    async def afinish(self) -> None:
        if not self._must_write():
            return
        deadline = self._deadline()
        try:
            async with (await pool.acurrent()).lend(deadline - time.monotonic()) as connection:
                ended = await connection.apipeline(self._pushes(deadline))
            self._take(ended)
        except (Error, Invalid) as error:
            self._fail(error)
            raise

    def _must_write(self) -> bool:
        """In a child of fork there is nothing to write: the jobs are those of the parent."""
        if self._waiting and self._forks == _native.forks():
            return True
        self._results = []
        return False

    def _deadline(self) -> float:
        return time.monotonic() + min(push.seconds for push in self._waiting)

    def _pushes(self, deadline: float) -> list[Push]:
        left = max(deadline - time.monotonic(), SHORTEST)
        return [(push.settings, push.jobs, push.limits.wait, left, push.limits.handle) for push in self._waiting]

    def _take(self, ended: PipedAll) -> None:
        outcomes, error, warning = ended
        if warning is not None:
            warn_once(warning)
        results = [_fill(push.future, *outcome) for push, outcome in zip(self._waiting, outcomes)]
        if error is None or isinstance(error, NotReplicated):  # all is written
            self._results = results
        if error is not None:
            raise error

    def _fail(self, error: Exception) -> None:
        for push in self._waiting:
            if not push.future._is_filled():
                push.future._fill(None, error)


def _fill(
    future: PushFuture,
    added: int,
    folded: int,
    places: list[int],
    error: Exception | None,
    _: None,
    scheduled: int,
    stale: int,
    handles: list[str | None],
) -> PushResult:
    result = PushResult(added, folded, len(places), places, scheduled, stale, handles)
    future._fill(result, NotReplicated(str(error), result) if isinstance(error, NotReplicated) else error)
    return result


_current: ContextVar[Pipeline | None] = ContextVar("seriatim_pipeline", default=None)


def current() -> Pipeline | None:
    """That of the block which this thread or task is in. Tasks that it has started push for themselves."""
    block = _current.get()
    return block if block is not None and block.is_mine() else None


def _owner() -> tuple[int, Any]:
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:  # no loop runs
        return threading.get_ident(), None


class _Block:
    _pipeline: Pipeline
    _outer: Pipeline | None

    def __init__(self) -> None:
        self._entered = threading.Lock()

    def _enter(self) -> Pipeline:
        if not self._entered.acquire(blocking=False):
            name = type(self).__name__
            raise Invalid(f"this block of {name} has been entered and has not ended; make another with {name}()")
        self._outer = _current.get()
        self._pipeline = current() or Pipeline()
        self._pipeline.enter()
        _current.set(self._pipeline)
        return self._pipeline

    def _leave(self, kind: type[BaseException] | None) -> Pipeline | None:
        """What is to be written now."""
        pipeline = self._pipeline
        _current.set(self._outer)
        self._entered.release()
        return pipeline if pipeline.leave() and kind is None else None


class pipelined(_Block):  # noqa: N801: it is called like a function
    """
    Collects the pushes of the block, of any workers, and writes them together when it ends. perform_async checks its jobs and runs the
    client middlewares as always, and returns a PushFuture. All jobs of a queue are sent as one push.

        with seriatim.pipelined() as pipeline:
            OrderWorker.perform_async([{"id": 1}])
            MailWorker.perform_async([{"id": 7}])
        pipeline.results

    An exception that leaves the block drops its pushes: nothing is written. A block inside of a block joins the outer one; it is another
    pipelined(), for one object is entered only once at a time. Only this thread and task take part: others, and a child of fork, push at once. Of push_timeout, wait_replicas and wait_timeout of the pushes the
    strictest hold for all; push_timeout counts from the end of the block. The end raises the worst that became of a queue, and names the queue.
    """

    def __enter__(self) -> Pipeline:
        return self._enter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if pipeline := self._leave(kind):
            pipeline.finish()


class apipelined(_Block):  # noqa: N801
    """The same for `async with`: its end does not block the event loop."""

    async def __aenter__(self) -> Pipeline:
        return self._enter()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if pipeline := self._leave(kind):
            await pipeline.afinish()


_warned: set[str] = set()


def warn_once(text: str) -> None:
    """Each connection of the pool finds the same difference."""
    if text not in _warned:
        _warned.add(text)
        _log.warn("warning", text)
