"""The ids and payloads of one call of perform."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from .. import _native
from .._client import stored_error, validate
from .._errors import Invalid
from .._types import AnyId, Id
from .._worker import Worker

DONE = object()

_NO_PAYLOAD: Any = object()
_FLUSH_SLICE = 1.0  # seconds between looks for signals while a thread waits
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02  # seconds between looks of a task that waits


class Snooze:
    """The outcome of an id that is to come again later."""

    def __init__(self, seconds: float, payload: bytes | None) -> None:
        self.seconds = seconds
        self.payload = payload


class Batch(Mapping[Id, list[Any]]):
    """
    Reads as the map id -> payloads, and takes the outcome of single ids; an id without one shares the outcome of the
    call. Ids are str, or bytes where they are not UTF-8; methods that take one take an int, too.
    """

    def __init__(
        self,
        worker: type[Worker],
        delivery: _native.Delivery,
        payloads_by_id: dict[Id, list[Any]],
        places: dict[Id, int] | None,
    ) -> None:
        """
        payloads_by_id: user code may change it.
        places: of the ids in the delivery; None: all are there, in this order.
        """
        self._worker = worker
        self._delivery = delivery
        self._payloads_by_id = payloads_by_id
        self._places = places
        self._rows: dict[Id, _native.ClaimedRow] = {}
        self._outcomes: dict[Id, object] = {}
        self._checkpointed: set[int] = set()  # the places of ids of which payloads are done

    @property
    def worker(self) -> type[Worker]:
        return self._worker

    @property
    def shard(self) -> int:
        """The shard of the queue that all ids lie in."""
        return self._delivery.shard

    @property
    def payloads_by_id(self) -> dict[Id, list[Any]]:
        """Each id's payloads, by score, then by arrival."""
        return self._payloads_by_id

    def __getitem__(self, id: Id) -> list[Any]:
        return self._payloads_by_id[id]

    def __iter__(self) -> Iterator[Id]:
        return iter(self._payloads_by_id)

    def __len__(self) -> int:
        return len(self._payloads_by_id)

    def __repr__(self) -> str:
        return f"<Batch {self._payloads_by_id!r}>"

    def fail(self, id: AnyId, error: BaseException | str) -> None:
        """
        Records that the id failed. It does not end perform, and other ids are not affected.

        Raises Invalid when the batch does not hold the id.
        """
        if not isinstance(error, (BaseException, str)):
            raise validate.refusal("error", "an exception or a str", error)
        self._outcomes[self._known(id)] = error

    def done(self, id: AnyId) -> None:
        """Records that the id is done, even if perform raises later. Raises Invalid when the batch does not hold the id."""
        self._outcomes[self._known(id)] = DONE

    def checkpoint(self, id: AnyId, count: int) -> None:
        """
        The first `count` payloads of the id, in the order of the batch, are done, whatever becomes of the rest: a failure, a crash or a
        snooze brings back only what is left, with retry_count -1. The id runs on. Sent at once and not waited for: until Redis
        has confirmed it (flush waits for that) a crash may bring these payloads again. A smaller count than before changes
        nothing. The last payload needs no checkpoint: the end of the run is one. Raises Invalid where the id has fewer payloads.
        """
        validate.integer("count", count, 0, 2_147_483_647)
        place = self._all_places()[self._known(id)]
        self._delivery.checkpoint(place, count)
        if count > 0:
            self._checkpointed.add(place)

    def flush(self) -> None:
        """
        Waits until Redis has confirmed all checkpoints of the batch. Raises Stale where the run of an id is another's now, or
        the end of a stop has handed it back: what it still does is on its own. In an async perform use aflush, because this
        holds up the event loop.
        """
        while not self._delivery.flush(_FLUSH_SLICE):
            pass

    async def aflush(self) -> None:
        """As flush, for an async perform."""
        pause = _FIRST_PAUSE
        while not self._delivery.flush(0.0):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def snooze(self, id: AnyId, seconds: float | timedelta, *, payload: Any = _NO_PAYLOAD) -> None:
        """
        The id has neither ended nor failed when the call ends: what is left of it waits for `seconds`, as after a failure, but
        nothing is counted, and retry_count stays. payload: what the first payload that is left becomes, as perform_async takes
        it; it keeps its place in the order. Not given: it stays as it is. Raises Invalid when the batch does not hold the id, and
        for a payload of more than 1 MiB as it is stored.
        """
        known = self._known(id)
        wait = validate.delay("seconds", seconds)
        data = None
        if payload is not _NO_PAYLOAD:
            data = validate.payload_bytes("payload", self._worker._payload_codec().dump(payload, "payload"))
        self._outcomes[known] = Snooze(wait, data)

    def extend(self, seconds: float) -> None:
        """Moves the end of the time to run of every id to `seconds` (0 to 31,536,000) from now. No effect without the setting `ttr`."""
        to_run = validate.time_to_run("seconds", seconds)
        for place in self._all_places().values():
            self._delivery.extend(place, to_run)

    def fence(self, id: AnyId) -> int:
        """
        The fencing token: greater than that of every earlier claim of the id. A store that remembers the greatest one can reject
        writes of an older run.
        """
        return self._row(id)[1]

    def scores(self, id: AnyId) -> list[float]:
        """The score of each payload, in the order of the payloads."""
        return [score for _, score, _ in self._row(id)[5]]

    def retry_count(self, id: AnyId) -> int:
        """Number of retries so far: -1 in the first run, 0 in the first retry."""
        return self._row(id)[2]

    def contexts(self, id: AnyId) -> list[dict[str, str]]:
        """The context of each payload, in the order of the payloads; {} for one without."""
        return [_native.load(context) if context else {} for _, _, context in self._row(id)[5]]

    def error(self, id: AnyId) -> Any:
        """The id's last error, through load_error; None: it has none."""
        stored = self._row(id)[4]
        return None if stored is None else stored_error.loaded(stored)

    def _outcome(self, id: Id, otherwise: object) -> object:
        """An error (exception or str), a Snooze or DONE, where one was reported."""
        return self._outcomes.get(id, otherwise)

    def _all_places(self) -> dict[Id, int]:
        if self._places is None:
            self._places = {id: place for place, id in enumerate(self._delivery.ids())}
        return self._places

    def _row(self, id: AnyId) -> _native.ClaimedRow:
        known = self._known(id)
        if known not in self._rows:
            self._rows[known] = self._delivery.job(self._all_places()[known])
        return self._rows[known]

    def _known(self, id: AnyId) -> Id:
        known = _handed_out(id)
        if known not in self._all_places():
            raise Invalid(f"the batch holds no id {known!r}")
        return known


def _handed_out(id: AnyId) -> Id:
    """The form in which the core hands this id out."""
    if isinstance(id, str):
        return id
    if isinstance(id, bytes):
        try:
            return id.decode()
        except UnicodeDecodeError:
            return id
    if isinstance(id, UUID) or (isinstance(id, int) and not isinstance(id, bool)):
        return str(id)
    raise validate.refusal("id", "a str, int, bytes or uuid.UUID", id)
