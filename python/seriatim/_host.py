"""Who asks for deliveries: threads that run them one at a time, or the event loop that runs many."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import _log, _native
from ._errors import Closed
from ._execution import Execution
from ._schedulers import Builtin, Candidate, OwnScheduler, Scheduler
from ._settings import settings

if TYPE_CHECKING:
    from ._server import Server


class Source:
    """The deliveries of a group, in the order of its scheduler."""

    def __init__(self, server: Server, group: int, scheduler: Scheduler) -> None:
        self._server = server
        self._runner = server._runner
        self._group = group
        self._scheduler: OwnScheduler | None = None if isinstance(scheduler, Builtin) else scheduler

    def take(self, patience: float | None) -> _native.Delivery | None:
        """The next one; None when there is none in so many seconds (None: however long it takes). Raises Closed at the end."""
        if self._scheduler is None:
            return self._runner.take(self._group, patience)
        return self._scheduled(patience)

    def _scheduled(self, patience: float | None) -> _native.Delivery | None:
        """Without candidates the core may still have something that no scheduler chooses: dead jobs to tell of, the end."""
        rows = self._runner.candidates(self._group, self._server._shards_count)
        if not rows:
            return self._runner.take(self._group, settings.poll_interval if patience is None else patience)
        refs = self._server._refs
        candidates = [Candidate(refs[worker].worker, index, lag, size) for worker, index, lag, size in rows]
        place = self._choose(candidates)
        if place is None:
            self._rest(patience)
            return None
        worker, shard = rows[place][:2]
        delivery = self._runner.take_from(self._group, worker, shard)
        if delivery is None:  # another thread was quicker
            self._runner.clear(self._group)
        return delivery

    def _rest(self, patience: float | None) -> None:
        """The scheduler will not choose: until something changes, or for a poll."""
        if patience is None:
            self._server._ended.wait(0.01)

    def _choose(self, candidates: list[Candidate]) -> int | None:
        """The place of the scheduler's choice; None: it will not choose."""
        assert self._scheduler is not None
        try:
            chosen = self._scheduler(candidates)
            return None if chosen is None else candidates.index(chosen)
        except BaseException as error:
            _log.error("hook", f"the scheduler raised {_log.describe(error)}; the oldest goes first")
            return 0


class Host:
    """What a host thread does: takes a delivery and runs it, until there will be no more."""

    def __init__(self, server: Server, source: Source) -> None:
        self._server = server
        self._source = source

    def run(self) -> None:
        server, take, base = self._server, self._source.take, self._server._context
        while True:
            try:
                delivery = take(None)
                if delivery is not None:
                    base.copy().run(Execution(server, delivery).call)
            except Closed:
                return
            except BaseException as error:  # an exception set from outside; the thread goes on
                _log.error("crash", _log.describe(error))


class AsyncHost:
    """The event loop as the host of a node all of whose workers are async: up to `limit` deliveries at once."""

    def __init__(self, server: Server, source: Source, limit: int) -> None:
        self._server = server
        self._source = source
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self) -> None:
        """Until there will be no more, and all that was taken has ended."""
        room = asyncio.Event()
        while not self._closed or self._running:
            try:
                await (asyncio.wait(self._running) if self._closed else self._step(room))
            except Closed:
                self._closed = True
            except (Exception, asyncio.CancelledError) as error:  # user code may cancel every task that it finds
                if self._server._abandoned:
                    raise
                _log.error("crash", _log.describe(error))

    async def _step(self, room: asyncio.Event) -> None:
        if len(self._running) >= self._limit:
            room.clear()
            await room.wait()
        delivery = await self._next()
        if delivery is not None:
            self._begin(delivery, room)

    def _begin(self, delivery: _native.Delivery, room: asyncio.Event) -> None:
        execution = Execution(self._server, delivery)
        task = self._server._context.copy().run(lambda: asyncio.ensure_future(execution.call_async()))

        def ended(task: asyncio.Task[None]) -> None:
            self._running.discard(task)
            room.set()

        self._running.add(task)
        task.add_done_callback(ended)

    async def _next(self) -> _native.Delivery | None:
        delivery = self._source.take(0)
        if delivery is None:
            await self._readable()
        return delivery

    async def _readable(self) -> None:
        """Waits for the runner's word, at most for a poll."""
        loop, runner, group = asyncio.get_running_loop(), self._server._runner, self._source._group
        told = asyncio.Event()
        descriptor = runner.fileno(group)
        loop.add_reader(descriptor, told.set)
        try:
            await asyncio.wait_for(told.wait(), settings.poll_interval)
        except asyncio.TimeoutError:
            pass
        finally:
            loop.remove_reader(descriptor)
            runner.clear(group)
