"""The queries: what is in a worker's queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from math import isinf, isnan
from typing import Any, TypedDict, TypeVar, Union, cast

from .. import _native
from .._types import AnyId, Id, QueueOwner
from . import jobs, pool, stored_error, validate

T = TypeVar("T")

Bound = Union[str, bytes, float, datetime]


class _Failed(TypedDict, total=False):
    error: str


class _Waiting(TypedDict):
    id: Id
    perform_in: float
    retry_count: int
    payloads_count: int


class _Scored(TypedDict, total=False):
    score: float


class ScheduledPayload(_Scored):
    """A payload whose deliver_at has not come: its times in Unix seconds, its score if the push gave one."""

    payload: Any
    deliver_at: float
    pushed_at: float
    handle: str


class ScheduledJob(ScheduledPayload):
    """The same with its id."""

    id: Id


class Scheduled(TypedDict):
    """The scheduled payloads of an id: their number, the first deliver_at, the first ones (at most 10 and some 384 KiB)."""

    count: int
    deliver_at: float
    payloads: list[ScheduledPayload]


class KnownScheduled(TypedDict):
    """The same in explain: the number of payloads in place of them."""

    payloads_count: int
    deliver_at: float


class _HasScheduled(TypedDict, total=False):
    scheduled: Scheduled


class Record(_Waiting, _Failed, _HasScheduled):
    """
    A waiting, running, parked or scheduled id: perform_in in Unix seconds, payloads as (payload, score) by score, at most 1,000;
    payloads_count says how many are stored. Only fetch tells what is scheduled, of ids that have such payloads.
    """

    payloads: list[tuple[Any, float]]


class _Dead(TypedDict):
    id: Id
    updated_at: float
    payloads_count: int


class DeadRecord(_Dead, _Failed):
    """A dead id: updated_at in Unix seconds, payloads as (payload, score) by score, at most 1,000 of the payloads_count that are stored."""

    payloads: list[tuple[Any, float]]


class KnownRecord(_Waiting, _Failed):
    """A record of explain: without its payloads, and with its state: waiting, delayed, running, parked …"""

    state: str


class KnownDeadRecord(_Dead, _Failed):
    """The same of a dead id."""

    state: str


class HistoryEntry(TypedDict):
    """
    One event of an id: text is a line for a reader, event a word ("pushed", "claimed", "failed", …), at and due are Unix seconds. None for
    what an event does not have.
    """

    text: str
    event: str
    at: float
    due: float | None
    fence: int | None
    payloads_count: int | None
    node: str | None
    error: str | None


class Explanation(TypedDict):
    """
    Why an id is or is not running: text in one sentence, and what it rests on; history has the last events of the id, the latest last, where
    the worker has history_per_id.
    """

    text: str
    job: KnownRecord | None
    behind: KnownRecord | None
    dead: KnownDeadRecord | None
    scheduled: KnownScheduled | None
    owner: str | None
    owner_alive: bool
    paused: bool
    lease: int
    fence: int
    remembered_score: float | None
    """Jobs whose own score is not above it are stale (remember_score)."""
    remembered_until: float | None
    now: float
    history: list[HistoryEntry]


MAX_RECORDS = 100_000


class Queries:
    """
    `OrderWorker.queries`. A payload that the codec cannot read is given as its bytes.

    Ranges take bounds as Redis has them: ids "-", "+", "[from" or "(after"; numbers 5, "(5", "-inf", math.inf, times
    also as an aware datetime. The rev_ forms descend and take the greater bound first, as Redis does. limit is 1 to
    100,000 records.
    """

    def __init__(self, worker: QueueOwner) -> None:
        self._worker = worker

    # definitions: queries, written by script/embed from core/definitions/operations.json

    def range_by_id(self, min: Bound, max: Bound, *, limit: int = 10) -> list[Record]:
        """Waiting ids, in the order of their bytes."""
        return self._ask("range_by_id", Record, min=min, max=max, limit=limit)

    def rev_range_by_id(self, max: Bound, min: Bound, *, limit: int = 10) -> list[Record]:
        """The same, descending."""
        return self._ask("range_by_id", Record, reverse=True, min=min, max=max, limit=limit)

    def range_by_perform_in(self, min: Bound, max: Bound, *, limit: int = 10) -> list[Record]:
        """Waiting ids, in the order in which they become due."""
        return self._ask("range_by_perform_in", Record, min=min, max=max, limit=limit)

    def rev_range_by_perform_in(self, max: Bound, min: Bound, *, limit: int = 10) -> list[Record]:
        """The same, descending."""
        return self._ask("range_by_perform_in", Record, reverse=True, min=min, max=max, limit=limit)

    def range_by_retry_count(self, min: Bound, max: Bound, *, limit: int = 10) -> list[Record]:
        """Waiting ids that failed, in the order of their retry_count."""
        return self._ask("range_by_retry_count", Record, min=min, max=max, limit=limit)

    def rev_range_by_retry_count(self, max: Bound, min: Bound, *, limit: int = 10) -> list[Record]:
        """The same, descending."""
        return self._ask("range_by_retry_count", Record, reverse=True, min=min, max=max, limit=limit)

    def fetch(self, ids: Sequence[AnyId]) -> list[Record]:
        """The given ids that wait, are parked or have scheduled payloads, in the given order; unknown ones are left out."""
        return self._ask("fetch", Record, ids=ids, limit=MAX_RECORDS)

    def morgue_range_by_id(self, min: Bound, max: Bound, *, limit: int = 10) -> list[DeadRecord]:
        """Dead ids, in the order of their bytes."""
        return self._ask("morgue_range_by_id", DeadRecord, min=min, max=max, limit=limit)

    def morgue_rev_range_by_id(self, max: Bound, min: Bound, *, limit: int = 10) -> list[DeadRecord]:
        """The same, descending."""
        return self._ask("morgue_range_by_id", DeadRecord, reverse=True, min=min, max=max, limit=limit)

    def morgue_range_by_updated_at(self, min: Bound, max: Bound, *, limit: int = 10) -> list[DeadRecord]:
        """Dead ids, in the order of their last death."""
        return self._ask("morgue_range_by_updated_at", DeadRecord, min=min, max=max, limit=limit)

    def morgue_rev_range_by_updated_at(self, max: Bound, min: Bound, *, limit: int = 10) -> list[DeadRecord]:
        """The same, descending."""
        return self._ask("morgue_range_by_updated_at", DeadRecord, reverse=True, min=min, max=max, limit=limit)

    def morgue_fetch(self, ids: Sequence[AnyId]) -> list[DeadRecord]:
        """The given ids that are dead, in the given order; unknown ones are left out."""
        return self._ask("morgue_fetch", DeadRecord, ids=ids, limit=MAX_RECORDS)

    # end of definitions

    def range_by_deliver_at(self, min: Bound, max: Bound, *, limit: int = 10, id: AnyId | None = None) -> list[ScheduledJob]:
        """Payloads whose deliver_at has not come, or that no claim has moved yet, by deliver_at: of all ids, or of one."""
        return self._scheduled(min, max, limit, id, reverse=False)

    def rev_range_by_deliver_at(self, max: Bound, min: Bound, *, limit: int = 10, id: AnyId | None = None) -> list[ScheduledJob]:
        """The same, descending."""
        return self._scheduled(min, max, limit, id, reverse=True)

    def processing_data(self, shard: int | None = None, *, limit: int = MAX_RECORDS) -> list[Record]:
        """What runs now, in one shard or in all."""
        place = -1 if shard is None else validate.integer("shard", shard, 0, 4095)
        return self._ask("processing_data", Record, shard=place, limit=limit)

    def parked(self, *, limit: int = 10) -> list[Record]:
        """What an operator or on_exhausted park has stopped, by the time of it."""
        return self._ask("parked", Record, limit=limit)

    def explain(self, id: AnyId) -> Explanation:
        """Why the id is or is not running."""
        key = jobs.id_bytes(id)
        answer = pool.ask(lambda connection: connection.explain(self._worker._queue_settings(), key))
        shapes = {"job": KnownRecord, "behind": KnownRecord, "dead": KnownDeadRecord}
        known = {part: answer[part] and _head(answer[part], shape) for part, shape in shapes.items()}
        count, deliver_at = answer["scheduled"], answer.pop("deliver_at")
        known["scheduled"] = {"payloads_count": count, "deliver_at": deliver_at} if count else None
        history = [{**entry, "error": entry["error"] and stored_error.loaded(entry["error"])} for entry in answer["history"]]
        return cast(Explanation, {**answer, **known, "history": history})

    def _ask(
        self,
        kind: _native.QueryName,
        shape: type[T],
        *,
        limit: int,
        reverse: bool = False,
        min: Bound | None = None,
        max: Bound | None = None,
        ids: Sequence[AnyId] | None = None,
        shard: int = -1,
    ) -> list[T]:
        """Records of this shape."""
        rows = self._rows(kind, limit=limit, reverse=reverse, min=min, max=max, ids=ids, shard=shard)
        return [self._record(row, shape) for row in rows]

    def _rows(
        self,
        kind: _native.QueryName,
        *,
        limit: int,
        reverse: bool = False,
        min: Bound | None = None,
        max: Bound | None = None,
        ids: Sequence[AnyId] | None = None,
        shard: int = -1,
    ) -> list[dict[str, Any]]:
        """Records as the core gives them."""
        validate.integer("limit", limit, 1, MAX_RECORDS)
        low, high = (_bound("min", min), _bound("max", max)) if "range" in kind else (None, None)
        keys = jobs.ids_bytes(ids) if ids is not None or "fetch" in kind else None  # type: ignore[arg-type]
        queue = self._worker._queue_settings()
        return pool.ask(
            lambda connection: connection.query(
                queue, kind, reverse=reverse, min=low, max=high, limit=limit, shard=shard, ids=keys
            )
        )

    def _scheduled(self, min: Bound, max: Bound, limit: int, id: AnyId | None, *, reverse: bool) -> list[ScheduledJob]:
        rows = self._rows("range_by_deliver_at", limit=limit, reverse=reverse, min=min, max=max, ids=None if id is None else [jobs.id_bytes(id)])
        return [cast(ScheduledJob, {"id": row["id"], **self._scheduled_payload(row["scheduled"][0])}) for row in rows]

    def _scheduled_payload(self, row: dict[str, Any]) -> ScheduledPayload:
        return cast(ScheduledPayload, {**row, "payload": _loaded(self._worker._payload_codec().load, row["payload"])})

    def _record(self, row: dict[str, Any], shape: type[T]) -> T:
        codec = self._worker._payload_codec()
        record = _head(row, shape)
        record["payloads"] = [(_loaded(codec.load, data), score) for data, score in row["payloads"]]
        record.pop("scheduled", None)
        if row["scheduled_total"]:
            payloads = [self._scheduled_payload(one) for one in row["scheduled"]]
            record["scheduled"] = {"count": row["scheduled_total"], "deliver_at": row["deliver_at"], "payloads": payloads}
        return cast(T, record)


def _head(row: dict[str, Any], shape: type[Any]) -> dict[str, Any]:
    """The fields of a shape that a row has; payloads are still as they are stored."""
    record = {field: row[field] for field in shape.__annotations__ if row[field] is not None}
    if "error" in record:
        record["error"] = stored_error.loaded(record["error"])
    return record


def _loaded(load: Callable[[Any], Any], stored: str | bytes) -> Any:
    """What the application cannot read is shown as it is stored."""
    try:
        return load(stored)
    except Exception:
        return stored


def _bound(field: str, value: Bound | None) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return validate.text_bytes(value)
    if isinstance(value, datetime):
        number = None if value.utcoffset() is None else value.timestamp()
    else:
        number = validate.number(value) if isinstance(value, (int, float)) else None
    if number is None or isnan(number):
        raise validate.refusal(field, "a str, a number or an aware datetime", value)
    if isinf(number):
        return b"+inf" if number > 0 else b"-inf"
    return repr(int(number) if isinstance(value, int) else number).encode()
