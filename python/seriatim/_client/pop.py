"""Takes single ids from queues, without a server."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from .. import _log, _native
from .._errors import Invalid, Stale
from .._types import Codec
from . import pool, stored_error, validate
from .connection import Popped, Report
from .delivery import Delivery, Head

REJECTED = 250
"""Payloads that the core takes in one call."""
UNREADABLE = 100
"""Deliveries: after as many of which nothing can be given, a pop whose wait is over ends."""


class Source(NamedTuple):
    """A queue that is asked."""

    name: str
    settings: _native.QueueSettings
    codec: Codec


class Broken(NamedTuple):
    """A delivery with payloads that cannot be read."""

    token: bytes | None
    report: Report
    readable: Delivery | None
    """What can be read of a delivery that has ended already, which would be lost."""


class Pop:
    """One call of pop or apop."""

    def __init__(self, sources: Sequence[Source], weights: Mapping[str, Any] | None, wait: Any, ttr: Any, max: Any) -> None:
        """weights: by the names of the queues."""
        self._sources = sources
        if not 1 <= len(sources) <= 1000:
            raise Invalid(f"queues must be 1 to 1000 queues, not {len(sources)}")
        names = [source.name for source in sources]
        name, times = Counter(names).most_common(1)[0]
        if times > 1:
            raise Invalid(f"queues: {name!r} is named twice")
        self._weights = None if weights is None else _weights(weights, names)
        self._wait = float(validate.seconds("wait", wait, 0.0, 60.0))
        self._ttr = validate.time_to_run("ttr", ttr)
        if 0 < self._ttr < 0.001:
            raise validate.refusal("ttr", "0 or a number of seconds from 0.001", ttr)
        self._max = validate.integer("max", max, 1, 1000)

    def call(self) -> Delivery | None:
        deadline = time.monotonic() + self._wait
        for attempt in count(1):
            with pool.current("pops").lend() as connection:
                popped = connection.pop(*self._asked(deadline))
            read = self._read(popped)
            if not isinstance(read, Broken):
                return read
            if read.token is not None:
                _reject(read.token, read.report)
            elif read.readable is not None:
                return read.readable
            if attempt >= UNREADABLE and time.monotonic() >= deadline:
                break
        return None

    async def acall(self) -> Delivery | None:
        deadline = time.monotonic() + self._wait
        for attempt in count(1):
            async with (await pool.acurrent("pops")).lend() as connection:
                popped = await connection.apop(*self._asked(deadline))
            read = self._read(popped)
            if not isinstance(read, Broken):
                return read
            if read.token is not None:
                await _areject(read.token, read.report)
            elif read.readable is not None:
                return read.readable
            if attempt >= UNREADABLE and time.monotonic() >= deadline:
                break
        return None

    def _asked(self, deadline: float) -> tuple[list[_native.QueueSettings], list[int] | None, float, float, int]:
        left = max(deadline - time.monotonic(), 0.0)
        return [source.settings for source in self._sources], self._weights, left, self._ttr, self._max

    def _read(self, popped: Popped | None) -> Delivery | Broken | None:
        if popped is None:
            return None
        place, id, fence, deliveries, token, retry_count, error, more, rows = popped
        source, head = self._sources[place], Head(id, fence, deliveries, token, len(rows), retry_count, error, more)
        values, errors = _decoded(source.codec, rows)
        readable = Delivery(source.name, source.codec, head, [rows[at] for at in values], list(values.values())) if values else None
        if not errors:
            return readable
        reason = f"undecodable payload: {_log.describe(next(iter(errors.values())))}"
        _log.error("dead", f"{len(errors)} payloads cannot be read: {reason}", q=source.name, id=id)
        stamps = [rows[at][3] for at in list(errors)[:REJECTED]]
        return Broken(token, (_native.POPPED_REJECT, 0.0, stored_error.stored(reason, source.name), stamps), readable)


def _decoded(codec: Codec, rows: list[_native.PoppedPayload]) -> tuple[dict[int, Any], dict[int, Exception]]:
    """What can be read, and the errors of the others, by their places."""
    values: dict[int, Any] = {}
    errors: dict[int, Exception] = {}
    for at, (data, _, _, _) in enumerate(rows):
        try:
            values[at] = codec.load(data)
        except Exception as error:
            errors[at] = error
    return values, errors


def _reject(token: bytes, report: Report) -> None:
    """Payloads that cannot be read go to the morgue. One whose time is over is somebody else's to pop."""
    try:
        pool.ask(lambda connection: connection.popped(token, report))
    except Stale:
        pass


async def _areject(token: bytes, report: Report) -> None:
    try:
        async with (await pool.acurrent()).lend() as connection:
            await connection.apopped(token, report)
    except Stale:
        pass


def _weights(weights: Mapping[str, Any], names: Sequence[str]) -> list[int]:
    for name in weights:
        if name not in names:
            raise Invalid(f"weights: {name!r} is none of the queues")
    return [validate.integer(f"weights[{name!r}]", weights.get(name), 1, 1_000_000) for name in names]
