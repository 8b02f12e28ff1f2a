"""A batch for a test that calls perform itself."""

from __future__ import annotations

from collections.abc import KeysView, Mapping, Sequence
from typing import Any, cast

from .. import _native
from .._client import jobs, validate
from .._server.batch import DONE, Batch, Snooze
from .._server.execution import RUN
from .._types import AnyId, Codec, Id
from .._worker import Worker
from .given import Given

FENCE = 1


class FakeBatch(Batch):
    """Remembers what perform reported."""

    def __init__(
        self,
        worker: type[Worker],
        payloads_by_id: Mapping[Any, Sequence[Any]],
        retry_count: int,
        error: str | None,
        scores: Mapping[Any, Sequence[float]],
        contexts: Mapping[Any, Sequence[Mapping[str, str]]],
    ) -> None:
        codec = worker._payload_codec()
        scored, told = _by_bytes(scores), _by_bytes(contexts)
        rows: list[_native.ClaimedRow] = []
        for id, payloads in _by_bytes(payloads_by_id).items():
            given = _payloads(codec, payloads, scored.get(id, ()), told.get(id, ()))
            rows.append((_text(id), FENCE, retry_count, 0.0, error, given, len(given)))
        read = {row[0]: [codec.load(data) for data, _, _ in row[5]] for row in rows}
        super().__init__(worker, cast("_native.Delivery", Given(RUN, 0, rows, lambda row, outcome: None)), read, None)
        self.checkpoints: dict[Id, int] = {}
        """The largest count that perform gave to checkpoint, by id."""
        self.extended: float | None = None
        """The seconds of extend."""

    def keys(self) -> KeysView[Any]:
        """Any: `dict(batch)` is what a perform takes, whether it declares ids as str or as what they can be."""
        return super().keys()

    @property
    def failed(self) -> dict[Id, BaseException | str]:
        """The errors given to fail, by id."""
        return {id: cast(Any, outcome) for id, outcome in self._outcomes.items() if isinstance(outcome, (BaseException, str))}

    @property
    def finished(self) -> list[Id]:
        """The ids given to done."""
        return [id for id, outcome in self._outcomes.items() if outcome is DONE]

    @property
    def snoozed(self) -> dict[Id, float]:
        """The seconds given to snooze, by id."""
        return {id: outcome.seconds for id, outcome in self._outcomes.items() if isinstance(outcome, Snooze)}

    def checkpoint(self, id: AnyId, count: int) -> None:
        super().checkpoint(id, count)
        known = self._known(id)
        self.checkpoints[known] = max(count, self.checkpoints.get(known, 0))

    def extend(self, seconds: float) -> None:
        self.extended = validate.time_to_run("seconds", seconds)


def _by_bytes(values: Mapping[Any, Any]) -> dict[bytes, Any]:
    return {jobs.id_bytes(id): value for id, value in values.items()}


def _payloads(
    codec: Codec, payloads: Sequence[Any], scores: Sequence[float], contexts: Sequence[Mapping[str, str]]
) -> list[tuple[bytes, float, bytes | None]]:
    rows = []
    for at, payload in enumerate(payloads):
        context = _native.dump(dict(contexts[at]), "context") if at < len(contexts) and contexts[at] else None
        rows.append((codec.dump(payload, "payload"), float(scores[at]) if at < len(scores) else at + 1.0, context))
    return rows


def _text(id: bytes) -> Id:
    try:
        return id.decode()
    except UnicodeDecodeError:
        return id
