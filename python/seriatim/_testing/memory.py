"""What stands in for the pool and its connections in the test modes: queues in memory, by the rules of the core."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, NamedTuple, NoReturn, cast

from .. import _native, _worker
from .._client import codec, jobs as job_rows, stored_error
from .._client.connection import Connection, Piped, PipedAll, Push, Pushed as PushedRow, Report, Wait
from .._errors import Invalid, Stale
from .._types import Id
from .._worker import Worker
from .given import Outcome, id_bytes
from .trial import Loop, Trial

FOREVER = 8_000_000_000_000_000  # Unix microseconds: all times are over
LATER = FOREVER + 1  # what is put off until then, by 0 seconds or more, is not taken in the mode inline
MICROSECONDS = 1_000_000


class Pushed(NamedTuple):
    """A job that was pushed in a test mode."""

    queue: str
    """The queue_name of its worker."""
    id: Id
    payload: Any
    """As perform gets it."""
    score: float | None
    time: float | None
    """Unix seconds, as asked for by perform_in, perform_at, delay, deliver_at or deliver_in; None: now."""
    context: dict[str, str]
    on_waiting: str | None
    at: float
    """Unix seconds at which it was pushed."""


class Waiting(NamedTuple):
    """A payload that is kept in a test mode."""

    id: Id
    payload: Any
    score: float | None
    """None: none was given with the push."""
    time: float
    """Unix seconds at which its id is due; of a scheduled one its deliver_at; of a dead one when it died."""
    state: Literal["waiting", "running", "scheduled", "parked", "dead"]
    retry_count: int
    context: dict[str, str]
    error: str | bytes | None


class Memory:
    """The mode fake: keeps what is pushed until the test runs it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._fake = _native.Fake()
        self._numbers: dict[bytes, tuple[_native.QueueSettings, int]] = {}
        self._pushed: list[Pushed] = []

    # ---- as a pool

    def lend(self, patience: float = math.inf) -> Memory:
        return self

    def fits(self) -> bool:
        return True

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    async def __aenter__(self) -> Memory:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    # ---- as a connection

    def push(self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool) -> PushedRow:
        return self._keep(settings, jobs, handles)

    async def apush(
        self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool
    ) -> PushedRow:
        return self._keep(settings, jobs, handles)

    def pipeline(self, pushes: list[Push]) -> PipedAll:
        return [cast(Piped, self.push(*push)) for push in pushes], None, None

    async def apipeline(self, pushes: list[Push]) -> PipedAll:
        return [cast(Piped, await self.apush(*push)) for push in pushes], None, None

    def action(self, settings: _native.QueueSettings, name: str, texts: Sequence[bytes] | None = None) -> int:
        if name not in ("cancel", "reschedule"):
            self.refuse(f"the action {name}")
        with self._lock:
            number = self._number(settings)
            if name == "cancel":
                return int(self._fake.cancel(number, *(texts or [])))
            return int(self._fake.reschedule(number, *(texts or []), _now()))  # type: ignore[call-arg, arg-type]

    def popped(self, token: bytes, report: Report) -> None:
        self.refuse("a report on a delivery")

    async def apopped(self, token: bytes, report: Report) -> None:
        self.refuse("a report on a delivery")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(Connection, name):
            self.refuse(name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def refuse(self, name: str) -> NoReturn:
        """name: of what was called, which needs Redis."""
        raise Invalid(
            f"{name} needs Redis, and a mode of seriatim.testing has turned it off here; there are perform_async, aperform_async, "
            "actions.cancel, actions.reschedule, and in seriatim.testing pushed, jobs, dead_jobs, perform_one, drain and clear"
        )

    # ---- for tests

    def pushed(self, worker: type[Worker] | None) -> list[Pushed]:
        with self._lock:
            return [job for job in self._pushed if worker is None or job.queue == worker.queue_name]

    def jobs(self, worker: type[Worker]) -> list[Waiting]:
        return [job for job in self._rows(worker) if job.state != "dead"]

    def dead_jobs(self, worker: type[Worker]) -> list[Waiting]:
        return [job for job in self._rows(worker) if job.state == "dead"]

    def clear(self, worker: type[Worker]) -> None:
        with self._lock:
            self._fake.clear(self._number_of(worker))
            self._pushed = [job for job in self._pushed if job.queue != worker.queue_name]

    def clear_all(self) -> None:
        with self._lock:
            self._fake = _native.Fake()
            self._numbers, self._pushed = {}, []

    def drain(self, worker: type[Worker] | None, at: float | datetime | None, raises: bool) -> int:
        """worker: None: all that were pushed to, which a run may add to. Returns the number of batches."""
        limit, count, loop = _limit(at), 0, Loop()
        try:
            while (trial := self._next(worker, limit)) is not None:
                trial.run(loop, raises)
                count += 1
        finally:
            loop.close()
        return count

    async def adrain(self, worker: type[Worker] | None, at: float | datetime | None, raises: bool) -> int:
        limit, count = _limit(at), 0
        while (trial := self._next(worker, limit)) is not None:
            await trial.arun(raises)
            count += 1
        return count

    def perform_one(self, worker: type[Worker]) -> bool:
        """Whatever its time. False: there is nothing to run."""
        trial, loop = self._next(worker, None), Loop()
        if trial is not None:
            try:
                trial.run(loop, True)
            finally:
                loop.close()
        return trial is not None

    async def aperform_one(self, worker: type[Worker]) -> bool:
        trial = self._next(worker, None)
        if trial is not None:
            await trial.arun(True)
        return trial is not None

    # ---- for trials

    def settle(self, worker: type[Worker], row: _native.ClaimedRow, outcome: Outcome, time: int) -> None:
        """What was cleared while it ran has no outcome."""
        with self._lock:
            try:
                self._fake.settle(self._number_of(worker), id_bytes(row[0]), row[1], *outcome, time)
            except Stale:
                pass

    def exhausted(self, worker: type[Worker]) -> list[_native.ClaimedRow]:
        with self._lock:
            return self._fake.take_exhausted(self._number_of(worker))

    # ---- parts

    def _keep(self, settings: _native.QueueSettings, jobs: _native.Jobs, handles: bool) -> PushedRow:
        now = _now()
        with self._lock:
            number = self._number(settings)
            added, folded, refused, scheduled, stale, names = self._fake.push(number, jobs, handles, now)
            worker = _worker_of(settings)
            for place, row in enumerate(jobs.rows()):
                if place not in refused:
                    self._pushed.append(_pushed(worker, settings, row, now))
        return added, folded, refused, None, None, scheduled, stale, names

    def _next(self, worker: type[Worker] | None, limit: int | None) -> Trial | None:
        """The next batch that is due by the limit, at the time when it is due."""
        with self._lock:
            while True:
                workers = [each for each in (self._workers() if worker is None else [worker]) if _runs(each)]
                due = [(at, place) for place, each in enumerate(workers) if (at := self._due(each)) is not None]
                if not due or (limit is not None and min(due)[0] > limit):
                    return None
                at, place = min(due)
                at = max(_now(), at)
                trial = self._take(workers[place], at, at)
                if trial is not None:  # else what was due was dropped, or became due later
                    return trial

    def _take(self, worker: type[Worker], time: int, ended: int) -> Trial | None:
        """ended: the time at which the run ends."""
        shard, rows = self._fake.take(self._number_of(worker), worker.batch_size, time)
        return Trial(self, worker, ended, shard, rows) if rows else None

    def _due(self, worker: type[Worker]) -> int | None:
        return self._fake.next(self._number_of(worker), _now())

    def _workers(self) -> list[type[Worker]]:
        found = [_worker_of(settings) for settings, _ in self._numbers.values()]
        return [worker for worker in found if worker is not None]

    def _number_of(self, worker: type[Worker]) -> int:
        return self._number(worker._queue_settings())

    def _number(self, settings: _native.QueueSettings) -> int:
        name = settings["queue_name"]
        known = self._numbers.get(name)
        if known is not None and known[0] is settings:
            return known[1]
        number = self._fake.queue(settings)
        self._numbers[name] = (settings, number)
        return number

    def _rows(self, worker: type[Worker]) -> list[Waiting]:
        with self._lock:
            rows = self._fake.rows(self._number_of(worker))
        return [
            Waiting(
                id, _payload(worker, data), score, time / MICROSECONDS, state, retry_count,
                _native.load(context) if context else {}, stored_error.loaded(error) if error else None,
            )
            for state, id, data, score, context, time, retry_count, error in rows
        ]


class Inline(Memory):
    """The mode inline: each push runs at once. Jobs of one id in the same push fold, as they do in a queue."""

    def push(self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool) -> PushedRow:
        memory, result = self._begin(settings, jobs, handles)
        loop = Loop()
        try:
            while (trial := memory._at_once(settings)) is not None:
                trial.run(loop, True)
        finally:
            loop.close()
        return result

    async def apush(
        self, settings: _native.QueueSettings, jobs: _native.Jobs, wait: Wait, seconds: float, handles: bool
    ) -> PushedRow:
        memory, result = self._begin(settings, jobs, handles)
        while (trial := memory._at_once(settings)) is not None:
            await trial.arun(True)
        return result

    def _begin(self, settings: _native.QueueSettings, jobs: _native.Jobs, handles: bool) -> tuple[_Once, PushedRow]:
        memory = _Once()
        result = memory._keep(settings, jobs, handles)
        with self._lock:
            self._pushed.extend(memory._pushed)
        return memory, result


class _Once(Memory):
    """The queue of one push in the mode inline."""

    def _at_once(self, settings: _native.QueueSettings) -> Trial | None:
        worker = _worker_of(settings)
        return None if worker is None else self._take(worker, FOREVER, LATER)


def _now() -> int:
    """Unix microseconds, by time.time, which tests may replace."""
    return int(time.time() * MICROSECONDS)


def _limit(at: float | datetime | None) -> int | None:
    return None if at is None else math.floor(job_rows.unix_time(at, "at") * MICROSECONDS)


def _runs(worker: type[Worker]) -> bool:
    """Events whose type has no handler in this process wait for one, as in a queue."""
    return not worker._of_events or worker in _worker.event_workers


def _worker_of(settings: _native.QueueSettings) -> type[Worker] | None:
    """The class that has these settings, or had them before one changed; None where what was pushed to is not in this process."""
    known = [*_worker.event_workers, *reversed(_worker.all_workers)]
    exact = next((worker for worker in known if worker._queue_settings() is settings), None)
    if exact is not None:
        return exact
    return next((worker for worker in known if worker._queue_settings()["queue_name"] == settings["queue_name"]), None)


def _pushed(worker: type[Worker] | None, settings: _native.QueueSettings, row: _native.JobRow, now: int) -> Pushed:
    id, data, score, when, seconds, _, on_waiting, context, deliver_when, deliver_seconds = row
    name = settings["queue_name"].decode("utf-8", "surrogateescape")
    at = now / MICROSECONDS
    asked = [(moment, time) for moment, time in ((when, seconds), (deliver_when, deliver_seconds)) if moment != job_rows.NOW]
    time = None if not asked else asked[0][1] + (at if asked[0][0] == job_rows.DELAY else 0.0)
    return Pushed(name, _text(id), _payload(worker, data), score, time, _native.load(context) if context else {}, on_waiting, at)


def _payload(worker: type[Worker] | None, data: bytes) -> Any:
    """
    Bytes where the codec cannot read them: that is what the run is to show. Without a worker, as of an event whose type has no
    handler here, it is the codec that events have.
    """
    try:
        return (codec.of(None) if worker is None else worker._payload_codec()).load(data)
    except Exception:
        return data


def _text(id: bytes) -> Id:
    try:
        return id.decode()
    except UnicodeDecodeError:
        return id
