"""The actions of an operator on a worker's queue."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, SupportsFloat

from .. import _native
from .._types import AnyId, CheckResult, QueueOwner
from . import jobs, pool, validate


class Actions:
    """
    `OrderWorker.actions`. Each returns the number of ids that it changed, unless said. "All" means what is there when the
    action begins.
    """

    def __init__(self, worker: QueueOwner) -> None:
        self._worker = worker

    # definitions: actions, written by script/embed from core/definitions/operations.json

    def perform_now(self, ids: Sequence[AnyId]) -> int:
        """
        Makes waiting ids that are due later due now; of a running id, the payloads that wait behind the run. retry_count does not
        change.
        """
        return self._act_on("perform_now", ids)

    def perform_all_jobs_now(self) -> int:
        """Makes all waiting ids due now."""
        return self._act("perform_all_jobs_now")

    def perform_all_failed_jobs_now(self) -> int:
        """Makes all ids that wait for a retry due now; delayed ids that never failed stay delayed. retry_count does not change."""
        return self._act("perform_all_failed_jobs_now")

    def park(self, ids: Sequence[AnyId]) -> int:
        """
        Parks the ids with all their payloads: they do not run until unpark. A running id is parked when its run ends. Returns how
        many of the ids were there, parked before or not.
        """
        return self._act_on("park", ids)

    def unpark(self, ids: Sequence[AnyId]) -> int:
        """Moves parked ids back to the waiting ones, due now, as if they had never failed."""
        return self._act_on("unpark", ids)

    def unpark_all(self) -> int:
        """Moves all parked ids back to the waiting ones, due now, as if they had never failed."""
        return self._act("unpark_all")

    def delete(self, ids: Sequence[AnyId]) -> int:
        """Deletes waiting and scheduled ids; a running id is not retried if it fails."""
        return self._act_on("delete", ids)

    def delete_all_failed_jobs(self) -> int:
        """Deletes all waiting ids that failed before."""
        return self._act("delete_all_failed_jobs")

    def kill(self, ids: Sequence[AnyId]) -> int:
        """Moves waiting ids that failed before to the morgue; the others stay."""
        return self._act_on("kill", ids)

    def kill_all_failed_jobs(self) -> int:
        """Moves all waiting ids that failed before to the morgue."""
        return self._act("kill_all_failed_jobs")

    def morgue_queue_up(self, ids: Sequence[AnyId]) -> int:
        """
        Moves dead ids back to the waiting ones, due now; those of a running id wait behind its run, and a parked id stays parked.
        """
        return self._act_on("morgue_queue_up", ids)

    def morgue_queue_up_all_jobs(self) -> int:
        """Moves all dead ids back to the waiting ones, as morgue_queue_up does."""
        return self._act("morgue_queue_up_all_jobs")

    def morgue_delete(self, ids: Sequence[AnyId]) -> int:
        """Deletes dead ids."""
        return self._act_on("morgue_delete", ids)

    def morgue_delete_all_jobs(self) -> int:
        """Deletes all dead ids."""
        return self._act("morgue_delete_all_jobs")

    def cancel(self, handle: str) -> bool:
        """
        Deletes one payload, by the handle that its push returned, while it is scheduled, waits, is in back-off or parked; the id
        goes with its last one. False: it is being delivered, was delivered, is dead or no longer there. After a lost connection
        false may mean that this very call removed it.
        """
        return self._act_on_handle("cancel", handle)

    def reschedule(self, handle: str, at: SupportsFloat | datetime) -> bool:
        """
        Gives a payload that is scheduled, or waits and was never delivered, another deliver_at; one in the past means now. False:
        it is being delivered, was delivered, is dead or no longer there, or its id is parked or waits after a run that was not
        done.
        """
        return self._act_on_handle("reschedule", handle, at)

    def drop_payload(self, id: AnyId, payload: Any) -> int:
        """
        Deletes one payload of a waiting or parked id, of equal ones the one with the lowest score; the id goes with its last one.
        Of a running id, one that waits behind the run. Returns 1, or 0 if no payload of the id is equal. After a lost connection
        0 may mean that this very call removed it.
        """
        return self._act_on_payload("drop_payload", id, payload)

    def morgue_drop_payload(self, id: AnyId, payload: Any) -> int:
        """
        Deletes one payload of a dead id. Returns 1, or 0 if no payload of the id is equal. After a lost connection 0 may mean
        that this very call removed it.
        """
        return self._act_on_payload("morgue_drop_payload", id, payload)

    def pause(self) -> int:
        """Stops claims of the queue until resume; running jobs go on. Returns how many shards were not paused before."""
        return self._act("pause")

    def resume(self) -> int:
        """Undoes pause. Returns how many shards were paused."""
        return self._act("resume")

    def reshard(self, shards: int) -> int:
        """
        Gives the queue another number of shards: its servers move its ids while it is in use, and the metrics say how far they
        are. Returns 1, or 0 if the queue has this number already or its ids are on their way to it.
        """
        return self._act_on_shards("reshard", shards)

    # end of definitions

    def delete_queue(self, *, force: bool = False) -> int:
        """
        Deletes the queue itself: layout, settings and, if forced, what it holds; answers 1. The next push or server of the worker
        makes it anew. Raises Invalid while a node serves it, where it holds ids and is not forced, where there is none, and for a
        `force` that is neither True nor False.
        """
        name = self._worker._queue_settings()["queue_name"]
        return self._ask("delete_queue", [name] if validate.flag("force", force) else None)

    def check(self, *, repair: bool = False) -> CheckResult:
        """
        Proves what is stored of the queue, in slices.

        repair: mend what can be mended without losing a payload.
        """
        validate.flag("repair", repair)
        queue = self._worker._queue_settings()
        looked_at, findings = pool.ask(lambda connection: connection.check(queue, repair))
        return {"looked_at": looked_at, "findings": findings}

    def _act(self, name: _native.ActionName) -> int:
        return self._ask(name, None)

    def _act_on(self, name: _native.ActionName, ids: Sequence[AnyId]) -> int:
        keys = jobs.ids_bytes(ids)
        return self._ask(name, keys) if keys else 0

    def _act_on_payload(self, name: _native.ActionName, id: AnyId, payload: Any) -> int:
        return self._ask(name, [jobs.id_bytes(id), self._worker._payload_codec().dump(payload, "payload")])

    def _act_on_handle(self, name: _native.ActionName, handle: str, *at: SupportsFloat | datetime) -> bool:
        times = [repr(jobs.unix_time(time, "at")).encode() for time in at]
        return self._ask(name, [jobs.handle_bytes(handle), *times]) == 1

    def _act_on_shards(self, name: _native.ActionName, shards: int) -> int:
        if not validate.is_int(shards):
            raise validate.refusal("shards", "an int", shards)
        return self._ask(name, [str(shards).encode()])

    def _ask(self, name: _native.ActionName, texts: list[bytes] | None) -> int:
        return pool.ask(lambda connection: connection.action(self._worker._queue_settings(), name, texts))
