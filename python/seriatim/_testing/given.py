"""Stands in for a delivery of the runner: claimed ids whose outcomes are collected until it is settled."""

from __future__ import annotations

import time
from typing import Any, Callable, Union

from .. import _native
from .._client import jobs
from .._errors import Closed, Invalid, Undecodable
from .._types import Id

Outcome = tuple[int, float, Union[bytes, None], Union[list[int], int, None]]
"""kind (_native.FAKE_*), seconds, text, and which payloads: places (FAKE_REJECT) or a count (FAKE_CHECKPOINT)."""

Settle = Callable[["_native.ClaimedRow", Outcome], None]

RELEASE: Outcome = (_native.FAKE_RELEASE, 0.0, None, None)


def id_bytes(id: Id) -> bytes:
    return jobs.id_bytes(id)


class Given:
    """What a thread has to do, as _native.Delivery, but for the time to run, which queues in memory do not have."""

    worker = 0

    def __init__(self, kind: int, shard: int, rows: list[_native.ClaimedRow], settle: Settle) -> None:
        """settle: gets each outcome: those of the ids when this is settled, checkpoints at once."""
        self.kind = kind
        self.shard = shard
        self._rows = rows
        self._settle = settle
        self._outcomes: dict[int, Outcome] = {}
        self._begun = time.perf_counter()
        self._settled = False

    def __len__(self) -> int:
        return len(self._rows)

    def job(self, place: int) -> _native.ClaimedRow:
        if self._settled:
            raise Closed("the delivery is settled")
        return self._rows[place]

    def ids(self) -> list[Id]:
        return [self.job(place)[0] for place in range(len(self))]

    def payloads_by_id(self) -> dict[Id, list[Any]] | None:
        """None: one of them cannot be read."""
        try:
            return {row[0]: [_native.load(data) for data, _, _ in row[5]] for row in self._rows}
        except Undecodable:
            return None

    def done(self, place: int) -> None:
        self._note(place, (_native.FAKE_DONE, 0.0, None, None))

    def done_all(self) -> None:
        for place in range(len(self)):
            self.done(place)

    def fail(self, place: int, error: bytes, retry_in: float) -> None:
        self._note(place, (_native.FAKE_FAIL, retry_in, error, None))

    def release(self, place: int) -> None:
        self._note(place, RELEASE)

    def reject(self, place: int, places: list[int], reason: bytes) -> None:
        self._note(place, (_native.FAKE_REJECT, 0.0, reason, places))

    def snooze(self, place: int, seconds: float, payload: bytes | None) -> None:
        self._note(place, (_native.FAKE_SNOOZE, seconds, payload, None))

    def extend(self, place: int, seconds: float) -> None:
        self.job(place)

    def checkpoint(self, place: int, count: int) -> None:
        row = self.job(place)
        if count > len(row[5]):
            raise Invalid(f"checkpoint of {count} payloads: the id has {len(row[5])} in this batch")
        self._settle(row, (_native.FAKE_CHECKPOINT, 0.0, None, count))

    def flush(self, seconds: float) -> bool:
        self.job(0)
        return True

    def failure(self, place: int) -> str | None:
        """The test sees it; it needs no line in a log."""
        return None

    def settle(self) -> None:
        for place, row in enumerate(self._rows):
            self._settle(row, self._outcomes.get(place, RELEASE))
        self._settled = True

    def elapsed(self) -> float:
        return time.perf_counter() - self._begun

    def _note(self, place: int, outcome: Outcome) -> None:
        self.job(place)
        self._outcomes[place] = outcome
