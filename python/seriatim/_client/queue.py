"""A worker's queue in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._types import AnyId, AnyJob, Metrics, PushResult, QueueOwner
from . import metrics, pool, push
from .queries import Queries, Record


class Queue:
    def __init__(self, worker: QueueOwner) -> None:
        self._worker = worker

    @property
    def worker(self) -> Any:
        """The worker's class."""
        return self._worker

    @property
    def name(self) -> str:
        return self._worker.queue_name

    @property
    def shards_count(self) -> int:
        """As Redis has it; 0 when the queue was never used."""
        settings = {**self._worker._queue_settings(), "shards_count": 0}
        return pool.ask(lambda connection: connection.layout(settings))

    def push(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """As perform_async, past an override of it."""
        return push.push(
            self._worker,
            jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout,
            push_timeout=push_timeout, handle=handle,
        )

    async def apush(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """As aperform_async, past an override of it."""
        return await push.apush(
            self._worker, jobs,
            wait_replicas=wait_replicas, wait_timeout=wait_timeout,
            push_timeout=push_timeout, handle=handle,
        )

    def fetch(self, ids: Sequence[AnyId]) -> list[Record]:
        """The records of these ids."""
        return Queries(self._worker).fetch(ids)

    @property
    def metrics(self) -> Metrics:
        return metrics.of(self._worker)
