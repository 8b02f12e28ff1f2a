"""The ids and payloads of one call of perform."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from .. import _native
from .._client import validate
from .._errors import Invalid
from .._types import AnyId, Id
from .._worker import Worker

DONE = object()


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
        self._outcomes[self._known(id)] = error if isinstance(error, BaseException) else str(error)

    def done(self, id: AnyId) -> None:
        """Records that the id is done, even if perform raises later. Raises Invalid when the batch does not hold the id."""
        self._outcomes[self._known(id)] = DONE

    def extend(self, seconds: float) -> None:
        """Moves the end of the time to run of every id to `seconds` (0 to 31,536,000) from now. No effect without the setting `ttr`."""
        validate.seconds("seconds", seconds, 0.0, 31_536_000.0)
        for place in self._all_places().values():
            self._delivery.extend(place, float(seconds))

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

    def error(self, id: AnyId) -> str | bytes | None:
        """The id's last error, as it is stored."""
        return self._row(id)[4]

    def _outcome(self, id: Id, otherwise: object) -> object:
        """An error (exception or str) or DONE, where one was reported."""
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
