"""What the workers of a scenario are: one a queue, recording its runs and taking turns by the run step's plan."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import seriatim
from values import to_text


@dataclass
class Run:
    queue: str
    jobs: list[dict[str, Any]]
    began: float
    ended: float | None = None


class Watch:
    """What a run step plans and sees."""

    def __init__(self, plan: dict[str, Any], steps: Callable[[list[Any]], None]) -> None:
        self._plan = plan
        self.steps = steps
        self._turns: Counter[Any] = Counter()
        self._lock = threading.Lock()
        self.runs: list[Run] = []
        self.exhausted: list[Any] = []
        self.wrong: list[str] = []

    def begin(self, label: str, batch: seriatim.Batch) -> tuple[Run, list[tuple[Any, dict[str, Any]]]]:
        with self._lock:
            run = Run(label, [self._seen(id, batch) for id in batch], time.time())
            self.runs.append(run)
            return run, [(id, self._turn(id)) for id in batch]

    def told(self, jobs: list[Any]) -> None:
        with self._lock:
            self.exhausted.extend(jobs)

    def ended(self) -> int:
        with self._lock:
            return sum(run.ended is not None for run in self.runs)

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What the block raises is noted, too: that the job fails shows nothing where Redis refuses the outcome of the run."""
        try:
            yield
        except Exception as error:
            with self._lock:
                self.wrong.append(f"a turn raised {type(error).__name__}: {error}")
            raise

    def _seen(self, id: Any, batch: seriatim.Batch) -> dict[str, Any]:
        return {
            "id": id,
            "payloads": batch[id],
            "scores": batch.scores(id),
            "retry_count": batch.retry_count(id),
            "contexts": batch.contexts(id),
            "fence": batch.fence(id),
        }

    def _turn(self, id: Any) -> dict[str, Any]:
        turns = self._plan.get(id) or self._plan.get("*") or [{}]
        self._turns[id] += 1
        found: dict[str, Any] = turns[min(self._turns[id], len(turns)) - 1]
        return found


class Recorder(seriatim.Worker):
    watch: Watch
    label: str
    waits: list[float]

    def retry_in(self, count: int) -> float:
        return self.waits[min(count, len(self.waits) - 1)]

    def retries_exhausted(self, jobs: list[Any]) -> None:
        Recorder.watch.told(jobs)

    def perform(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        watch = Recorder.watch
        run, turns = watch.begin(self.label, batch)
        try:
            with watch.noting():
                for id, turn in turns:
                    self._take(watch, batch, id, turn)
                for id, turn in turns:
                    self._report(batch, id, turn)
            for _, turn in turns:
                if "raise" in turn:
                    raise RuntimeError(turn["raise"])
        finally:
            run.ended = time.time()

    def _take(self, watch: Watch, batch: seriatim.Batch, id: Any, turn: dict[str, Any]) -> None:
        if "too_many" in turn:
            _must_raise(seriatim.Invalid, lambda: batch.checkpoint(id, turn["too_many"]))
        if "too_long" in turn:
            _must_raise(seriatim.Invalid, lambda: batch.snooze(id, 0, payload="x" * turn["too_long"]))
        if "checkpoint" in turn:
            batch.checkpoint(id, turn["checkpoint"])
            batch.flush()
        if "steps" in turn:
            watch.steps(turn["steps"])
        if "extend" in turn:
            batch.extend(turn["extend"])
        if "sleep" in turn:
            time.sleep(turn["sleep"])
        if "sent" in turn:
            batch.checkpoint(id, turn["sent"])
        if "stale" in turn:
            batch.checkpoint(id, turn["stale"])
            _must_raise(seriatim.Stale, batch.flush)

    def _report(self, batch: seriatim.Batch, id: Any, turn: dict[str, Any]) -> None:
        if "snooze" in turn:
            payload = {"payload": turn["payload"]} if "payload" in turn else {}
            batch.snooze(id, turn["snooze"], **payload)
        if "fail" in turn:
            batch.fail(id, to_text(turn["fail"]))
        if "done" in turn:
            batch.done(id)


def _must_raise(kind: type[BaseException], call: Any) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} is expected")


def worker(label: str, settings: dict[str, Any]) -> type[Recorder]:
    members = {field: value for field, value in settings.items() if field not in ("name", "retry_in")}
    own = {"label": label, "waits": settings.get("retry_in", [60]), "queue_name": to_text(settings.get("name", label))}
    make: Any = type(Recorder)
    made: type[Recorder] = make("Made", (Recorder,), {"shards_count": 1, **own, **members})
    return made
