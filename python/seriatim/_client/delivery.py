"""What a pop took."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple

from .. import _native
from .._errors import Invalid
from .._types import Codec, Id
from . import pool, stored_error, validate
from .connection import Report

_NO_PAYLOAD: Final[Any] = object()
_ACK: Final[Report] = (_native.POPPED_ACK, 0.0, None, None)
_RELEASE: Final[Report] = (_native.POPPED_RELEASE, 0.0, None, None)


class Head(NamedTuple):
    """What a delivery says beside its payloads."""

    id: Id
    fence: int
    deliveries: int
    token: bytes | None
    payload_count: int
    retry_count: int
    error: str | bytes | None
    """As Redis has it."""
    more: bool


def of_token(queue: str, codec: Codec, id: Id, fence: int, token: bytes, count: int) -> Delivery:
    """A delivery of which nothing else is known here."""
    return Delivery(queue, codec, Head(id, fence, 0, token, count, -1, None, False), [], [])


class Delivery:
    """
    An id that pop or apop took, with its payloads. It is this consumer's until one of ack, fail, snooze and release ends it, or
    until its time to run is over. Any thread may use it. A method that comes too late raises Stale and changes nothing. Those that
    begin with an a are for coroutines: the others hold up the event loop until Redis has answered.
    """

    __slots__ = ("_codec", "_contexts", "_head", "_payloads", "_queue", "_scores")

    def __init__(self, queue: str, codec: Codec, head: Head, rows: list[_native.PoppedPayload], payloads: list[Any]) -> None:
        """payloads: what the bytes of the rows say."""
        self._queue = queue
        self._codec = codec
        self._head = head
        self._payloads = payloads
        self._scores = [score for _, score, _, _ in rows]
        self._contexts: list[dict[str, str]] = [_native.load(context) if context else {} for _, _, context, _ in rows]

    @property
    def id(self) -> Id:
        return self._head.id

    @property
    def queue(self) -> str:
        """The name of the queue."""
        return self._queue

    @property
    def payloads(self) -> list[Any]:
        """By score, then by arrival."""
        return self._payloads

    @property
    def scores(self) -> list[float]:
        """The score of each payload."""
        return self._scores

    @property
    def contexts(self) -> list[dict[str, str]]:
        """The context of each payload; {} for one without."""
        return self._contexts

    @property
    def fence(self) -> int:
        """
        Greater than that of every earlier run of the id. A store that remembers the greatest one can reject writes of an older
        run.
        """
        return self._head.fence

    @property
    def deliveries(self) -> int:
        """How often the id was popped, this time included, since it was last acknowledged, had a checkpoint or was buried."""
        return self._head.deliveries

    @property
    def retry_count(self) -> int:
        """-1 if the id has not failed since it was last done; 0 after its first failure."""
        return self._head.retry_count

    @property
    def error(self) -> str | bytes | None:
        """The error of the last failure, through load_error. None: retry_count is -1."""
        return None if self._head.error is None else stored_error.loaded(self._head.error)

    @property
    def more(self) -> bool:
        """Does the id have more payloads than this delivery? A later delivery has them."""
        return self._head.more

    @property
    def token(self) -> str | None:
        """Names this delivery to the HTTP interface and to other processes. None: it was popped with ttr=0."""
        return None if self._head.token is None else self._head.token.decode()

    def __repr__(self) -> str:
        return f"<Delivery queue={self._queue!r} id={self.id!r} fence={self.fence} deliveries={self.deliveries}>"

    def ack(self) -> Literal[True]:
        """The payloads are done. Nothing happens if it was popped with ttr=0, which ended it already. Raises Stale."""
        if self._head.token is not None:
            self._send(_ACK)
        return True

    async def aack(self) -> Literal[True]:
        if self._head.token is not None:
            await self._asend(_ACK)
        return True

    def fail(self, error: BaseException | str, *, retry_in: float | timedelta | None = None) -> None:
        """
        The run has failed: the id comes again, or its retries are used up. Raises Stale.

        error: stored with the id. retry_in: seconds until it comes again; None: the default back-off.
        """
        self._send(self._failed(error, retry_in))

    async def afail(self, error: BaseException | str, *, retry_in: float | timedelta | None = None) -> None:
        await self._asend(self._failed(error, retry_in))

    def snooze(self, seconds: float | timedelta, *, payload: Any = _NO_PAYLOAD) -> None:
        """
        Hands the id back, to come again after `seconds`. No failure is counted. Raises Stale, and Invalid for a payload of more than
        1 MiB as it is stored.

        payload: what the first payload that is left becomes, as perform_async takes it. Not given: it stays as it is.
        """
        self._send(self._snoozed(seconds, payload))

    async def asnooze(self, seconds: float | timedelta, *, payload: Any = _NO_PAYLOAD) -> None:
        await self._asend(self._snoozed(seconds, payload))

    def release(self) -> None:
        """Hands the id back, due as it was. No failure is counted. Raises Stale."""
        self._send(_RELEASE)

    async def arelease(self) -> None:
        await self._asend(_RELEASE)

    def extend(self, seconds: float) -> None:
        """Moves the end of the time to run to `seconds` (0 to 31,536,000) from now. Raises Stale."""
        self._send(_extended(seconds))

    async def aextend(self, seconds: float) -> None:
        await self._asend(_extended(seconds))

    def checkpoint(self, count: int) -> None:
        """
        The first `count` payloads are done, whatever becomes of the others. A count that is not greater than an earlier one
        changes nothing. Raises Invalid if there are fewer payloads, and Stale.
        """
        report = self._checked(count)
        if count:
            self._send(report)

    async def acheckpoint(self, count: int) -> None:
        report = self._checked(count)
        if count:
            await self._asend(report)

    def _failed(self, error: BaseException | str, retry_in: float | timedelta | None) -> Report:
        if not isinstance(error, (BaseException, str)):
            raise validate.refusal("error", "an exception or a str", error)
        seconds = -1.0 if retry_in is None else validate.delay("retry_in", retry_in)
        self._running()
        return _native.POPPED_FAIL, seconds, stored_error.of(error, self._queue), None

    def _snoozed(self, seconds: float | timedelta, payload: Any) -> Report:
        wait = validate.delay("seconds", seconds)
        data = None if payload is _NO_PAYLOAD else validate.payload_bytes("payload", self._codec.dump(payload, "payload"))
        return _native.POPPED_SNOOZE, wait, data, None

    def _checked(self, count: int) -> Report:
        validate.integer("count", count, 0, self._head.payload_count)
        self._running()
        return _native.POPPED_CHECKPOINT, 0.0, None, count

    def _running(self) -> bytes:
        """The token."""
        if self._head.token is None:
            raise Invalid(f"the delivery of {self.id!r} was popped with ttr=0, so it has ended already")
        return self._head.token

    def _send(self, report: Report) -> None:
        token = self._running()
        pool.ask(lambda connection: connection.popped(token, report))

    async def _asend(self, report: Report) -> None:
        token = self._running()
        async with (await pool.acurrent()).lend() as connection:
            await connection.apopped(token, report)


def _extended(seconds: float) -> Report:
    return _native.POPPED_EXTEND, validate.time_to_run("seconds", seconds), None, None
