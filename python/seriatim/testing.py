"""
The test modes of an application: Redis is not used.

    from seriatim import testing

    def test_paying():
        with testing.fake():
            pay(7)
            assert [job.id for job in testing.pushed(OrderWorker)] == ["7"]
            testing.drain(OrderWorker)

In the mode fake, perform_async keeps the jobs in memory, by the rules of the queue, until the test runs them. In the mode
inline it runs them at once: their times are ignored, and what perform raises reaches the caller. The fixtures
seriatim_fake and seriatim_inline of pytest hold a mode for one test.

A block is of the thread and of the asyncio tasks that are started inside, and has queues of its own. Blocks nest: the
innermost counts. Where a worker is asked for, the function of `@seriatim.worker` may be given, too.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Literal, Union

from ._client import pool, validate
from ._errors import Invalid
from ._server.workers import find
from ._testing.batch import FakeBatch
from ._testing.memory import Inline, Memory, Pushed, Waiting
from ._worker import FunctionWorker, Worker

__all__ = [
    "FakeBatch",
    "Pushed",
    "Waiting",
    "adrain",
    "aperform_one",
    "batch",
    "clear",
    "dead_jobs",
    "disable",
    "drain",
    "fake",
    "inline",
    "jobs",
    "perform_one",
    "pushed",
    "set_mode",
]

Mode = Literal["fake", "inline", "disable"]
AnyWorker = Union[type[Worker], FunctionWorker[..., Any]]


class _Block:
    """A mode and how deep it is nested; it counts while it is open."""

    def __init__(self, stand_in: Memory | None, depth: int) -> None:
        self.stand_in = stand_in
        self.depth = depth
        self.open = True


# Tasks inherit the first, and code outside of an event loop sets the second as well: a test framework may run async tests
# in a context that is older than the block of a fixture.
_of_context: ContextVar[_Block | None] = ContextVar("seriatim_testing", default=None)
_of_thread = threading.local()
_everywhere: Memory | None = None


def _block() -> _Block | None:
    found: _Block | None = None
    for block in (_of_context.get(), getattr(_of_thread, "block", None)):
        if block is not None and block.open and (found is None or block.depth > found.depth):
            found = block
    return found


def _current() -> Memory | None:
    """What stands in for Redis here; None: nothing does."""
    block = _block()
    return _everywhere if block is None else block.stand_in


pool.test_mode = _current


@contextmanager
def fake() -> Iterator[None]:
    """Keeps what is pushed in memory until perform_one or drain runs it."""
    with _within(Memory()):
        yield


@contextmanager
def inline() -> Iterator[None]:
    """
    Runs what is pushed at once. A push by perform_async inside of an event loop runs workers that are not async;
    aperform_async runs all.
    """
    with _within(Inline()):
        yield


@contextmanager
def disable() -> Iterator[None]:
    """Uses Redis, inside of a block of another mode."""
    with _within(None):
        yield


def set_mode(mode: Mode) -> None:
    """The mode of the whole process, all its threads, where there is no block. Raises Invalid inside of a block."""
    global _everywhere
    validate.word("mode", mode, ("fake", "inline", "disable"))
    if _block() is not None:
        raise Invalid("set_mode is for the whole process, and this is inside of a block of seriatim.testing: use another block")
    _everywhere = {"fake": Memory, "inline": Inline}.get(mode, lambda: None)()


@contextmanager
def _within(stand_in: Memory | None) -> Iterator[None]:
    outer, outer_of_thread = _of_context.get(), getattr(_of_thread, "block", None)
    around = _block()
    block = _Block(stand_in, 0 if around is None else around.depth + 1)
    in_loop = _in_loop()
    _of_context.set(block)
    if not in_loop:  # tasks of one loop end their blocks in any order
        _of_thread.block = block
    try:
        yield
    finally:
        block.open = False
        _of_context.set(outer)
        if not in_loop:
            _of_thread.block = outer_of_thread


def _in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# ---- what was pushed


def pushed(worker: AnyWorker | None = None) -> list[Pushed]:
    """
    The jobs that were pushed in this mode and not refused, in their order, also those that have run. None: of all workers.
    Raises Invalid when no mode is on.
    """
    return _stand_in().pushed(None if worker is None else find(worker))


def clear(worker: AnyWorker | None = None) -> None:
    """Forgets all jobs, dead ones and those that were pushed, too. None: of all workers. Raises Invalid when no mode is on."""
    if worker is None:
        _stand_in().clear_all()
    else:
        _stand_in().clear(find(worker))


# ---- in the mode fake: each raises Invalid in another mode


def jobs(worker: AnyWorker) -> list[Waiting]:
    """The payloads that wait, by time."""
    return _memory().jobs(find(worker))


def dead_jobs(worker: AnyWorker) -> list[Waiting]:
    """Those in the morgue."""
    return _memory().dead_jobs(find(worker))


def perform_one(worker: AnyWorker) -> bool:
    """Runs the next batch as if it were due. False: there is none. Raises what perform raised, after it was recorded."""
    return _memory().perform_one(find(worker))


async def aperform_one(worker: AnyWorker) -> bool:
    """The same in a coroutine."""
    return await _memory().aperform_one(find(worker))


def drain(worker: AnyWorker | None = None, *, at: float | datetime | None = None, raises: bool = True) -> int:
    """
    Runs all that is due by `at` (Unix seconds or an aware datetime; None: all that will ever be due), in order of time: retries,
    scheduled payloads and what perform pushes meanwhile, too. Returns the number of batches.

    worker: None: all workers that were pushed to.
    raises: an error of perform is raised after it was recorded. False: it is only recorded, and the retries run, until the job
    has succeeded or is dead.
    """
    return _memory().drain(None if worker is None else find(worker), at, validate.flag("raises", raises))


async def adrain(worker: AnyWorker | None = None, *, at: float | datetime | None = None, raises: bool = True) -> int:
    """The same in a coroutine: async code runs on its event loop, other code on threads."""
    return await _memory().adrain(None if worker is None else find(worker), at, validate.flag("raises", raises))


def batch(
    worker: AnyWorker,
    payloads_by_id: Mapping[Any, Sequence[Any]],
    *,
    retry_count: int = -1,
    error: str | None = None,
    scores: Mapping[Any, Sequence[float]] | None = None,
    contexts: Mapping[Any, Sequence[Mapping[str, str]]] | None = None,
) -> FakeBatch:
    """
    A batch to call perform with: `OrderWorker().perform(dict(batch), batch)`. Payloads are written and read by the worker's
    codec. It remembers what perform reported.

    retry_count, error: of all ids. scores: of each payload, by id; missing ones are 1.0, 2.0, ... contexts: as scores.
    """
    if not isinstance(payloads_by_id, Mapping):
        raise validate.refusal("payloads_by_id", "a dict from id to payloads", payloads_by_id)
    return FakeBatch(find(worker), payloads_by_id, retry_count, error, scores or {}, contexts or {})


def _stand_in() -> Memory:
    found = _current()
    if found is None:
        raise Invalid("no mode is on: use `with testing.fake():`, `with testing.inline():` or testing.set_mode first")
    return found


def _memory() -> Memory:
    found = _current()
    if type(found) is not Memory:
        raise Invalid("the jobs are not kept in memory: use `with testing.fake():` or testing.set_mode('fake') first")
    return found
