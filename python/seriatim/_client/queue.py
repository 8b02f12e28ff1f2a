"""A worker's queue in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import metrics, pool, push
from .queries import Queries

if TYPE_CHECKING:
    from .._worker import Worker
    from .jobs import AnyId, AnyJob
    from .metrics import Metrics
    from .push import PushResult
    from .queries import Record


class Queue:
    def __init__(self, worker: type[Worker]) -> None:
        self._worker = worker

    @property
    def worker(self) -> type[Worker]:
        return self._worker

    @property
    def name(self) -> str:
        return self._worker.queue_name

    @property
    def shards_count(self) -> int:
        """As Redis has it; 0 when the queue was never used."""
        name, _, *rest = self._worker._queue_settings()
        return pool.ask(lambda connection: connection.layout((name, 0, *rest)))  # type: ignore[arg-type]

    def push(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
    ) -> PushResult:
        """As perform_async, past an override of it."""
        return push.push(self._worker, jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout, push_timeout=push_timeout)

    async def apush(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
    ) -> PushResult:
        """As aperform_async, past an override of it."""
        return await push.apush(
            self._worker, jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout, push_timeout=push_timeout
        )

    def fetch(self, ids: Sequence[AnyId]) -> list[Record]:
        """The records of these ids."""
        return Queries(self._worker).fetch(ids)

    @property
    def metrics(self) -> Metrics:
        return metrics.of(self._worker)
