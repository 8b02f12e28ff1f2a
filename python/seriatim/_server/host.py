"""Takes deliveries from the core and runs them: threads one at a time, or an event loop many at once."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol, Union

from .. import _log, _native
from .._client import validate
from .._errors import Closed
from .._settings import settings
from . import execution
from .execution import Execution
from .schedulers import Builtin, Candidate, OwnScheduler, Scheduler

Take = Callable[[Union[float, None], Union["_native.Delivery", None]], Union["_native.Delivery", None]]


class Server(execution.Server, Protocol):
    """What a host needs of its server, which needs the hosts."""

    _runner: _native.Runner
    _context: contextvars.Context
    _ended: threading.Event
    _shards_count: int

    def _note_move(self) -> None: ...


class Source:
    """The deliveries of a group, in the order of its scheduler."""

    def __init__(self, server: Server, group: int, scheduler: Scheduler) -> None:
        self._server = server
        self._runner = server._runner
        self.group = group
        self._scheduler: OwnScheduler | None = None if isinstance(scheduler, Builtin) else scheduler
        self._most = server._shards_count  # candidates to ask for
        self._complaints: set[object] = set()  # kinds of errors that _complain has logged
        self.take: Take = self._take
        if self._scheduler is None:
            self.take = partial(self._runner.take, group)

    def _take(self, patience: float | None, settled: _native.Delivery | None) -> _native.Delivery | None:
        """
        Settles the given delivery, then returns the next one; None when none comes within `patience` seconds (None: waits without
        a limit). Raises Closed at the end.
        """
        if settled is not None:
            settled.settle()
        return self._scheduled(patience)

    def _scheduled(self, patience: float | None) -> _native.Delivery | None:
        """
        Without a choice the core may still have something that no scheduler chooses: dead jobs to tell of, ids in doubt, the end. What
        becomes ready during the wait is for the scheduler, which the next call asks.
        """
        rows = self._candidates()
        if not rows:
            return self._runner.take_unscheduled(self.group, settings.poll_interval if patience is None else patience)
        refs = self._server._refs
        candidates = [Candidate(refs[worker].worker, index, lag, size) for worker, index, lag, size in rows]
        place = self._choose(candidates)
        if place is None:
            self._server._note_move()  # it is asked, so the server does not stand still
            unscheduled = self._runner.take_unscheduled(self.group, 0)
            if unscheduled is None:
                self._runner.clear(self.group)
                self._rest(patience)
            return unscheduled
        worker, shard = rows[place][:2]
        delivery = self._runner.take_from(self.group, worker, shard)
        if delivery is None:  # another thread was quicker
            self._runner.clear(self.group)
        return delivery

    def _candidates(self) -> list[tuple[int, int, float, int]]:
        """All of them: a queue may have more shards by now, or another queue may have come."""
        most = self._most
        while len(rows := self._runner.candidates(self.group, most)) >= most:
            most = self._most = 2 * most
        return rows

    def _rest(self, patience: float | None) -> None:
        """The scheduler will not choose: until something changes, or for a poll."""
        if patience is None:
            self._server._ended.wait(0.01)

    def _choose(self, candidates: list[Candidate]) -> int | None:
        """
        The place of the scheduler's choice; None: it will not choose. The scheduler gets a list of its own, so sorting or
        emptying it does not change which row a place stands for.
        """
        assert self._scheduler is not None
        try:
            chosen = self._scheduler(candidates.copy())
        except BaseException as error:
            return self._complain(type(error), f"the scheduler raised {_log.describe(error)}")
        if chosen is None:
            return None
        if isinstance(chosen, Candidate):
            for place, known in enumerate(candidates):
                if known is chosen or known.is_same_shard(chosen):
                    return place
        return self._complain(None, f"the scheduler chose {validate.describe(chosen)}, which is not one of its candidates")

    def _complain(self, kind: object, text: str) -> int:
        """The place of the oldest candidate. Each kind of error is logged once: a scheduler is called for every delivery."""
        if kind not in self._complaints:
            self._complaints.add(kind)
            _log.error("hook", f"{text}; the oldest goes first (further errors of this kind are not logged)")
        return 0


class Host:
    """What a host thread does: takes a delivery and runs it, until there will be no more."""

    def __init__(self, server: Server, source: Source) -> None:
        self._server = server
        self._source = source

    def run(self) -> None:
        server, take, base = self._server, self._source.take, self._server._context
        delivery: _native.Delivery | None = None
        while True:
            try:
                settled, delivery = delivery, None
                delivery = take(None, settled)
                if delivery is not None:
                    base.copy().run(Execution(server, delivery).call)
            except Closed:
                return
            except BaseException as error:  # an exception set from outside; the thread goes on
                _log.error("crash", _log.describe(error))


class AsyncHost:
    """
    The event loop as the host of a node all of whose workers are async: up to `limit` deliveries at once. The end of each
    takes the next, so that the runner is asked again only where it said that there is more.
    """

    def __init__(self, server: Server, source: Source, limit: int) -> None:
        self._server = server
        self._source = source
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._asleep = self._closed = False
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Until there will be no more, and all that was taken has ended."""
        loop, descriptor = asyncio.get_running_loop(), self._server._runner.fileno(self._source.group)
        loop.add_reader(descriptor, self._on_readable)
        self._poll(loop)
        try:
            while not self._ended.is_set():
                await self._rest()
        finally:
            loop.remove_reader(descriptor)

    async def _rest(self) -> None:
        try:
            await self._ended.wait()
        except asyncio.CancelledError as error:  # user code may cancel every task that it finds
            if self._server._abandoned:
                raise
            _log.error("crash", _log.describe(error))

    def _poll(self, loop: asyncio.AbstractEventLoop) -> None:
        """A scheduler of the application's own may choose later what it did not choose now."""
        if not self._ended.is_set():
            self._on_readable()
            loop.call_later(settings.poll_interval, self._poll, loop)

    def _on_readable(self) -> None:
        """Called when the runner's descriptor is readable: a delivery may be ready, or the runner has stopped."""
        self._go_on(None, True)

    def _go_on(self, settled: _native.Delivery | None, told: bool = False) -> None:
        try:
            if told:
                self._server._runner.clear(self._source.group)
                self._asleep = False
            self._fill(settled)
        except Closed:
            self._closed = True
        except BaseException as error:
            _log.error("crash", _log.describe(error))
        if self._closed and not self._running:
            self._ended.set()

    def _fill(self, settled: _native.Delivery | None) -> None:
        """Settles, and takes while there is room and something to take."""
        if settled is not None and (self._asleep or self._closed):
            settled.settle()
        while not self._asleep and not self._closed and len(self._running) < self._limit:
            delivery = self._source.take(0, settled)
            settled = None
            if delivery is None:
                self._asleep = True
            else:
                self._begin(delivery)

    def _begin(self, delivery: _native.Delivery) -> None:
        coroutine = Execution(self._server, delivery).call_async()
        task = self._server._context.copy().run(lambda: asyncio.get_running_loop().create_task(coroutine))
        self._running.add(task)
        task.add_done_callback(partial(self._end, delivery))

    def _end(self, delivery: _native.Delivery, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._go_on(delivery)
