"""
Runs a batch of the queues in memory with what a server does around it: codec, middlewares, perform, hooks, outcomes.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, cast

from .. import _native
from .._client.threads import in_thread, wait_on_loop
from .._errors import Error, Invalid
from .._server.execution import EXHAUSTED, RUN, Execution, Ref
from .._worker import Worker
from .given import Given, Outcome


class Store(Protocol):
    """What a trial needs of the memory that it is of."""

    def settle(self, worker: type[Worker], row: _native.ClaimedRow, outcome: Outcome, time: int) -> None: ...

    def exhausted(self, worker: type[Worker]) -> list[_native.ClaimedRow]: ...


ENDS_TEST = (KeyboardInterrupt, asyncio.CancelledError)


class Attempt(Execution):
    """As an execution of a server, which remembers the first failure; what ends the test comes before it."""

    failure: object = None

    def _conclude(self, error: BaseException | None) -> None:
        """All ids may have outcomes of their own."""
        if isinstance(error, ENDS_TEST):
            self.failure = error
        super()._conclude(error)

    def _fail(self, place: int, error: object) -> None:
        self._remember(error)
        super()._fail(place, error)

    def _fail_plainly(self, place: int, error: BaseException) -> None:
        self._remember(error)
        super()._fail_plainly(place, error)

    def _reject(self, place: int, broken: list[int], error: BaseException) -> None:
        self._remember(error)
        super()._reject(place, broken, error)

    def _remember(self, error: object) -> None:
        if self.failure is None:
            self.failure = error


class Loop:
    """An event loop for what is async in a test that is not, made when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Raises Invalid inside of a running event loop, which this would block."""
        if _is_running():
            coroutine.close()
            raise Invalid("this runs inside of an event loop, and there is async code to run: use adrain, aperform_one or aperform_async")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        if self._loop.is_running():  # it waits for this thread
            return wait_on_loop(coroutine, self._loop)
        return self._loop.run_until_complete(coroutine)

    def close(self) -> None:
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Trial:
    """One batch. It stands in for the server."""

    _abandoned = False
    _cancelled: asyncio.CancelledError | None = None

    def __init__(self, store: Store, worker: type[Worker], time: int, shard: int, rows: list[_native.ClaimedRow]) -> None:
        """time: Unix microseconds, at which the run ends."""
        self._store = store
        self._worker = worker
        self._time = time
        self._shard = shard
        self._rows = rows
        self._refs = [Ref(worker)]
        self._telling: set[Execution] = set()
        self._wait: Callable[[Coroutine[Any, Any, Any]], Any]

    def run(self, loop: Loop, raises: bool) -> None:
        """Raises what perform raised, or reported of an id, after it was recorded; without `raises` only what ends the test itself."""
        self._wait = loop.wait
        attempt = self._attempt(self._given(RUN, self._rows))
        while told := self._store.exhausted(self._worker):
            self._attempt(self._given(EXHAUSTED, told))
        _raise(attempt.failure, raises)

    async def arun(self, raises: bool) -> None:
        """The same on the running loop; what is not async runs on threads. A cancellation is raised when the batch has ended."""
        running = asyncio.get_running_loop()
        self._wait = lambda coroutine: wait_on_loop(coroutine, running)
        attempt = await self._aattempt(self._given(RUN, self._rows))
        while told := self._store.exhausted(self._worker):
            await self._aattempt(self._given(EXHAUSTED, told))
        _raise(self._cancelled or attempt.failure, raises)

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        return in_thread(function, *arguments)

    def _given(self, kind: int, rows: list[_native.ClaimedRow]) -> Given:
        return Given(kind, self._shard, rows, self._settle if kind == RUN else lambda row, outcome: None)

    def _settle(self, row: _native.ClaimedRow, outcome: Outcome) -> None:
        self._store.settle(self._worker, row, outcome, self._time)

    def _attempt(self, given: Given) -> Attempt:
        attempt = Attempt(self, cast("_native.Delivery", given))
        contextvars.copy_context().run(attempt.call)
        given.settle()
        return attempt

    async def _aattempt(self, given: Given) -> Attempt:
        """
        In a task of its own, which user code may cancel. A cancellation of this one waits for the end of that: it cancels what is
        async, but what runs on a thread goes on, and its outcome is kept.
        """
        attempt = Attempt(self, cast("_native.Delivery", given))
        task = asyncio.create_task(attempt.call_async())
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                if self._cancelled is None:
                    self._cancelled = error
                    task.cancel()
        given.settle()
        task.result()
        return attempt


def _raise(failure: object, raises: bool) -> None:
    if isinstance(failure, BaseException):
        if raises or isinstance(failure, ENDS_TEST):
            raise failure
    elif failure is not None and raises:
        raise Error(str(failure))
