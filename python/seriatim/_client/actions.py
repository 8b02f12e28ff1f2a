"""What an operator does to a worker's queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, SupportsFloat

from .._types import AnyId, CheckResult, QueueOwner
from . import jobs, pool


class Actions:
    """
    `OrderWorker.actions`. Each answers with the number of ids that it changed (pause and resume: of shards). "All" means
    what is there when the action begins.
    """

    def __init__(self, worker: QueueOwner) -> None:
        self._worker = worker

    def perform_all_jobs_now(self) -> int:
        """Makes all waiting ids due now."""
        return self._act(0)

    def perform_all_failed_jobs_now(self) -> int:
        """Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change."""
        return self._act(17)

    def kill_all_failed_jobs(self) -> int:
        """Moves all waiting ids that failed before to the morgue."""
        return self._act(1)

    def delete_all_failed_jobs(self) -> int:
        """Deletes all waiting ids that failed before."""
        return self._act(2)

    def morgue_queue_up_all_jobs(self) -> int:
        """Moves all dead ids back to the waiting ones, due now."""
        return self._act(3)

    def morgue_delete_all_jobs(self) -> int:
        """Deletes all dead ids."""
        return self._act(4)

    def pause(self) -> int:
        """Stops claims of the queue until resume; running jobs go on. Answers with shards."""
        return self._act(5)

    def resume(self) -> int:
        """Answers with shards."""
        return self._act(6)

    def delete(self, ids: Sequence[AnyId]) -> int:
        """Deletes waiting and scheduled ids; a running id is not retried if it fails."""
        return self._act(7, ids)

    def morgue_queue_up(self, ids: Sequence[AnyId]) -> int:
        """Moves dead ids back to the waiting ones, due now."""
        return self._act(8, ids)

    def morgue_delete(self, ids: Sequence[AnyId]) -> int:
        """Deletes dead ids."""
        return self._act(9, ids)

    def park(self, ids: Sequence[AnyId]) -> int:
        """Parks the ids with all their payloads: they do not run until unpark."""
        return self._act(10, ids)

    def unpark(self, ids: Sequence[AnyId]) -> int:
        """Moves parked ids back to the waiting ones, due now, with their retry_count reset."""
        return self._act(11, ids)

    def unpark_all(self) -> int:
        """Moves all parked ids back to the waiting ones, due now, with their retry_count reset."""
        return self._act(13)

    def perform_now(self, ids: Sequence[AnyId]) -> int:
        """Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not change."""
        return self._act(12, ids)

    def kill(self, ids: Sequence[AnyId]) -> int:
        """Moves waiting ids that failed before to the morgue."""
        return self._act(18, ids)

    def drop_payload(self, id: AnyId, payload: Any) -> int:
        """
        Drops one payload of a waiting or parked id, the first of equal ones; the id goes with its last. Of a running id, one
        that waits behind the run: what runs has been delivered. Answers 1, or 0 where there is none.
        """
        return self._act_on_payload(14, id, payload)

    def morgue_drop_payload(self, id: AnyId, payload: Any) -> int:
        """The same of a dead id."""
        return self._act_on_payload(15, id, payload)

    def cancel(self, handle: str) -> bool:
        """
        Removes one payload, by the handle that its push answered, while it is scheduled, waits, is in back-off or parked; with the last
        one the id goes. False: it is being delivered, was, is dead or gone.
        """
        text = jobs.handle_bytes(handle)
        return pool.ask(lambda connection: connection.cancel(self._worker._queue_settings(), text))

    def reschedule(self, handle: str, at: SupportsFloat | datetime) -> bool:
        """
        Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; in the past: now. False: it was
        delivered, is dead or gone.
        """
        text, seconds = jobs.handle_bytes(handle), jobs.unix_time(at, "at")
        return pool.ask(lambda connection: connection.reschedule(self._worker._queue_settings(), text, seconds))

    def delete_queue(self, *, force: bool = False) -> int:
        """
        Deletes the queue itself: layout, settings and, if forced, what it holds; answers 1. The next push or server of the worker
        makes it anew. Raises Invalid while a node serves it, where it holds ids and is not forced, and where there is none.
        """
        name = self._worker._queue_settings()["queue_name"]
        return self._ask(16, [name] if force else None)

    def check(self, *, repair: bool = False) -> CheckResult:
        """
        Proves what is stored of the queue, in slices.

        repair: mend what can be mended without losing a payload.
        """
        queue = self._worker._queue_settings()
        looked_at, findings = pool.ask(lambda connection: connection.check(queue, repair))
        return {"looked_at": looked_at, "findings": findings}

    def _act(self, kind: int, ids: Sequence[AnyId] | None = None) -> int:
        keys = None if ids is None else jobs.ids_bytes(ids)
        return 0 if keys == [] else self._ask(kind, keys)

    def _act_on_payload(self, kind: int, id: AnyId, payload: Any) -> int:
        return self._ask(kind, [jobs.id_bytes(id), self._worker._payload_codec().dump(payload, "payload")])

    def _ask(self, kind: int, texts: list[bytes] | None) -> int:
        return pool.ask(lambda connection: connection.action(self._worker._queue_settings(), kind, texts))
