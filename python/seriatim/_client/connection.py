"""
A connection to Redis for pushes and queries, with the numbers that it gave to its queues. The pool gives it to one user
at a time.
"""

from __future__ import annotations

import asyncio
import math
import select
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypedDict, Union

from .. import _native
from .._errors import Error, Invalid
from .._types import Finding, Metrics, Node
from .threads import own

MAX_PAYLOAD = 0  # the core's default, 1 MiB
NO_QUEUE = -1
READ, WRITE = 1, 2
LONGEST_POLL = 0.1  # seconds that a thread may go on watching a socket which nobody wants any more

Wait = tuple[int, float]
"""Replicas, and seconds for each WAIT."""

Pushed = tuple[int, int, list[int], Union[str, None], Union[str, None], int, int, list[Union[str, None]]]
"""added, folded, places of refused jobs, what was said of too few replicas, warning, scheduled, stale, handles."""

Push = tuple["_native.QueueSettings", "_native.Jobs", Wait, float, bool]
"""settings, jobs, wait, seconds, handles: one push of a pipeline."""

Piped = tuple[int, int, list[int], Union[Exception, None], None, int, int, list[Union[str, None]]]
"""As Pushed, but with what the push ended with in the place of what was said of too few replicas."""

PipedAll = tuple[list[Piped], Union[Exception, None], Union[str, None]]
"""What became of each push of a pipeline; what they together end with; warning."""

Popped = tuple[int, "_native.Id", int, int, Union[bytes, None], int, Union[str, bytes, None], bool, list["_native.PoppedPayload"]]
"""Place of the queue among those that were asked, id, fence, deliveries, token, retry_count, error, more, payloads."""

Report = tuple[int, float, Union[bytes, None], Union[int, list[float], None]]
"""
kind (_native.POPPED_*), seconds, text, and which payloads of the delivery: how many of the first ones (POPPED_CHECKPOINT), or
their stamps (POPPED_REJECT).
"""

WebAsked = tuple["_native.WebSettings", "_native.WebRequest"]

Text = Union[str, bytes]
"""bytes where they are not UTF-8."""


class Asked(TypedDict):
    action: str  # "pause", "delete", "quiet_node"
    role: str  # "viewer", "operator", "admin"; "nobody": also who has no token


class Change(Asked, total=False):
    """What a web request asked to change and what came of it: what there is of these. Texts are as they were given."""

    queue: Text
    node: Text
    fingerprint: Text  # of errors
    shards: Text  # of reshard
    ids: list[Text]  # at most 1,000; none where the request was refused before its body was read
    count: int  # what it really did
    status: int  # of the answer; absent: it was broken off, so what came of it is not known
    error: str  # of an answer other than 200


Noted = list[tuple[Change, str]]
"""Changes with their lines for a log; the last one knows most."""


Redact = Callable[[Text, Text, Text], Text]
"""queue, id, text -> the text to show instead."""

LoadError = Callable[[Text], Text]
"""A stored error -> its text."""

WebHooks = tuple[Union[Redact, None], Union[LoadError, None]]


class Connection:
    def __init__(self, url: str, namespace: str, url_from: str | None = None) -> None:
        """url_from: the setting or variable that holds the URL, for the error of a Redis that cannot be reached."""
        self._link = _native.Link(url, namespace, "seriatim-client", MAX_PAYLOAD, url_from)
        self._queues: dict[bytes, tuple[_native.QueueSettings, int]] = {}
        self.usable = True

    @property
    def url(self) -> str:
        """The URL without its password."""
        return self._link.url

    def push(self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool) -> Pushed:
        """seconds: that it may take from now."""
        self._link.push(self._number(settings), jobs, *wait, seconds, handles)
        result: Pushed = self._link.drive()
        return result

    async def apush(
        self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool
    ) -> Pushed:
        self._link.push(self._number(settings), jobs, *wait, seconds, handles)
        result: Pushed = await self._drive()
        return result

    def pipeline(self, pushes: list[Push]) -> PipedAll:
        self._begin_pipeline(pushes)
        result: PipedAll = self._link.drive()
        return result

    async def apipeline(self, pushes: list[Push]) -> PipedAll:
        self._begin_pipeline(pushes)
        result: PipedAll = await self._drive()
        return result

    def _begin_pipeline(self, pushes: list[Push]) -> None:
        self._link.pipeline([(self._number(settings), jobs, *wait, seconds, handles) for settings, jobs, wait, seconds, handles in pushes])

    def check_jobs(self, settings: _native.QueueSettings, jobs: _native.Jobs) -> None:
        """Raises what a push of the jobs would before it sends anything; needs no Redis."""
        self._link.check_jobs(self._number(settings), jobs)

    def pop(self, settings: Sequence[_native.QueueSettings], weights: list[int] | None, wait: float, ttr: float, most: int) -> Popped | None:
        """None: no id was due."""
        numbers = self._begin_pop(settings, weights, wait, ttr, most)
        return _popped(self._link.drive(), numbers)

    async def apop(
        self, settings: Sequence[_native.QueueSettings], weights: list[int] | None, wait: float, ttr: float, most: int
    ) -> Popped | None:
        numbers = self._begin_pop(settings, weights, wait, ttr, most)
        return _popped(await self._drive(), numbers)

    def _begin_pop(
        self, settings: Sequence[_native.QueueSettings], weights: list[int] | None, wait: float, ttr: float, most: int
    ) -> list[int]:
        numbers = [self._number(queue) for queue in settings]
        self._link.pop(numbers, weights, wait, ttr, most)
        return numbers

    def popped(self, token: bytes, report: Report) -> None:
        """Reports on what was popped. Raises Stale."""
        self._link.popped(token, *report)
        self._link.drive()

    async def apopped(self, token: bytes, report: Report) -> None:
        self._link.popped(token, *report)
        await self._drive()

    def layout(self, settings: _native.QueueSettings, limit: float | None = None) -> int:
        """shards_count as Redis has it."""
        self._link.layout(self._number(settings))
        return int(self._link.drive(limit))

    def query(
        self,
        settings: _native.QueueSettings,
        kind: _native.QueryName,
        *,
        reverse: bool = False,
        min: bytes | None = None,
        max: bytes | None = None,
        limit: int = 10,
        shard: int = -1,
        ids: list[bytes] | None = None,
    ) -> list[dict[str, Any]]:
        """Records."""
        self._link.query(self._number(settings), kind, reverse, min, max, limit, shard, ids)
        records: list[dict[str, Any]] = self._link.drive()
        return records

    def action(self, settings: _native.QueueSettings, name: _native.ActionName, texts: list[bytes] | None = None) -> int:
        """What the action returns. texts: what it takes, as core/definitions/operations.json says."""
        self._link.action(self._number(settings), name, texts)
        return int(self._link.drive())

    def metrics(self, settings: _native.QueueSettings) -> Metrics:
        self._link.metrics(self._number(settings))
        figures: Metrics = self._link.drive()
        return figures

    def explain(self, settings: _native.QueueSettings, id: bytes) -> dict[str, Any]:
        self._link.explain(self._number(settings), id)
        explanation: dict[str, Any] = self._link.drive()
        return explanation

    def check(self, settings: _native.QueueSettings | None, repair: bool) -> tuple[int, list[Finding]]:
        """How many records it looked at, and what it found. None: the keys below the namespace that are no queue's."""
        self._link.check(NO_QUEUE if settings is None else self._number(settings), repair)
        result: tuple[int, list[Finding]] = self._link.drive()
        return result

    def nodes(self) -> list[Node]:
        self._link.nodes()
        living: list[Node] = self._link.drive()
        return living

    def node_command(self, node: bytes, command: _native.OrderName) -> bool:
        """False: no node of this name is alive."""
        self._link.node_command(node, command)
        return bool(self._link.drive())

    def queues(self) -> list[_native.Id]:
        """Names."""
        self._link.queues()
        names: list[_native.Id] = self._link.drive()
        return names

    def ick(self, consumer: bytes, reserve_time: float, calls: list[_native.IckCall]) -> list[_native.IckRow]:
        """Two-phase commit sets: the result of each call."""
        self._link.ick(consumer, reserve_time, calls)
        rows: list[_native.IckRow] = self._link.drive()
        return rows

    async def aick(self, consumer: bytes, reserve_time: float, calls: list[_native.IckCall]) -> list[_native.IckRow]:
        self._link.ick(consumer, reserve_time, calls)
        rows: list[_native.IckRow] = await self._drive()
        return rows

    def health(self, limit: float | None = None) -> dict[str, Any]:
        """maxmemory_policy, appendonly and the number of replicas, each None where Redis does not say."""
        self._link.health()
        settings: dict[str, Any] = self._link.drive(limit)
        return settings

    def web(self, asked: WebAsked, hooks: WebHooks, noted: Noted, limit: float | None) -> _native.WebAnswer:
        """
        The answer, which tells what went wrong, too.

        noted: what the request asks to change is added at once, and with what came of it.
        limit: seconds for Redis; None: while it goes on answering.
        """
        with suppress(Error, Invalid):
            self._begin_web(asked, noted)
            self._link.drive(limit)
        while (answer := self._answer(hooks, noted)) is None:
            with suppress(Error, Invalid):
                self._link.drive(limit)
        return answer

    async def aweb(self, asked: WebAsked, hooks: WebHooks, noted: Noted, limit: float | None, turns: int = 0) -> _native.WebAnswer:
        """turns: of the event loop, before each step, in which the host may cancel it."""
        with suppress(Error, Invalid):
            self._begin_web(asked, noted)
            await self._drive(limit, turns)
        while (answer := self._answer(hooks, noted)) is None:
            with suppress(Error, Invalid):
                await self._drive(limit)
        return answer

    def _begin_web(self, asked: WebAsked, noted: Noted) -> None:
        self._link.web(*asked)
        self._note(noted)

    def _answer(self, hooks: WebHooks, noted: Noted) -> _native.WebAnswer | None:
        """None: the request goes on."""
        try:
            return self._link.answer(*hooks)
        finally:
            self._note(noted)

    def _note(self, noted: Noted) -> None:
        change = self._link.change()
        if change is not None:
            noted.append(change)

    def reset(self) -> None:
        """Drops what was begun, with its socket, so that no answer can be mistaken for another's."""
        if self.usable:
            self._link.reset()

    def progress(self, what: bytes, total: int | None) -> bool:
        """
        The next action on a whole queue, or the next check, says on stderr how far it is; False: that is no terminal.

        what: the words in front of the figures. total: how many ids or records there are, if that is known.
        """
        return self._link.progress(what, total)

    def close(self) -> None:
        if self.usable:
            self._link.close()

    def _number(self, settings: _native.QueueSettings) -> int:
        """The queue's number in this link; its settings travel again only when they changed."""
        name = settings["queue_name"]
        known = self._queues.get(name)
        if known is not None and known[0] is settings:
            return known[1]
        number = self._link.queue(settings)
        self._queues[name] = (settings, number)
        return number

    async def _drive(self, limit: float | None = None, turns: int = 0) -> Any:
        """To the end of what was begun, on the running loop, which it never blocks; the rest as the link's drive."""
        loop = asyncio.get_running_loop()
        deadline = math.inf if limit is None else loop.time() + limit
        while not await self._step():
            if loop.time() >= deadline:
                self._link.expire()
                break
            await self._ready(loop, deadline)
            for _ in range(turns):
                await asyncio.sleep(0)
        return self._link.result()

    async def _step(self) -> bool:
        """Elsewhere, if it may ask the resolver, which blocks."""
        if self._link.may_resolve():
            return bool(await self._elsewhere(self._link.step))
        return self._link.step()

    async def _elsewhere(self, call: Callable[[], Any]) -> Any:
        """On a thread. A cancelled call still runs there, perhaps longer than the loop, so the connection is nobody's any more."""
        running = own().submit(call)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            self.usable = False
            running.add_done_callback(lambda _: self._link.close())
            raise

    async def _ready(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        """Until the socket is as the link wants it, its patience ends or the deadline comes."""
        fd, wants, patience = self._link.fileno(), self._link.wants(), self._link.timeout()
        left = deadline - loop.time()
        patience = left if patience is None else min(patience, left)
        if fd < 0:
            await asyncio.sleep(0 if patience == math.inf else max(patience, 0))
            return
        ready = loop.create_future()
        try:
            _watch(loop, fd, wants, ready)
        except NotImplementedError:  # a loop that cannot watch sockets
            # The thread only watches. If it drove the link, a pop that was cancelled would go on there, and take an id for nobody.
            seconds = min(patience, LONGEST_POLL)
            await self._elsewhere(lambda: _poll(fd, wants, seconds))
            return
        alarm = None if patience == math.inf else loop.call_later(patience, _wake, ready)
        try:
            await ready
        finally:
            loop.remove_reader(fd)
            loop.remove_writer(fd)
            if alarm is not None:
                alarm.cancel()


def _popped(result: _native.PoppedRow | None, numbers: list[int]) -> Popped | None:
    return None if result is None else (numbers.index(result[0]), *result[1:])


def _watch(loop: asyncio.AbstractEventLoop, fd: int, wants: int, ready: asyncio.Future[None]) -> None:
    if wants & READ:
        loop.add_reader(fd, _wake, ready)
    if wants & WRITE:
        loop.add_writer(fd, _wake, ready)


def _poll(fd: int, wants: int, seconds: float) -> None:
    poll = select.poll()
    poll.register(fd, (select.POLLIN if wants & READ else 0) | (select.POLLOUT if wants & WRITE else 0))
    poll.poll(max(seconds, 0) * 1000)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
