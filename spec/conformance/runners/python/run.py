"""The step run: a server from its start to its stop, and what its workers saw meanwhile."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import seriatim
from recorder import Recorder, Run, Watch
from values import Values, to_bytes


class RunStep:
    def __init__(
        self, step: dict[str, Any], workers: dict[str, type[Recorder]], values: Values, steps: Callable[[list[Any]], None]
    ) -> None:
        self._step = step
        self._workers = {label: workers[label] for label in step.get("queues", workers)}
        self._values = values
        self._expect = step.get("expect", {})
        self._watch = Recorder.watch = Watch(step.get("plan", {}), steps)

    def call(self) -> list[str]:
        """What was wrong."""
        distinct = list({worker.queue_name: worker for worker in reversed(self._workers.values())}.values())
        server = seriatim.Server(workers=distinct, threads=self._step.get("threads", 1)).start()
        try:
            wrong = self._wait()
            wrong += [] if server.stop(30) else ["it did not stop in time"]
        finally:
            server.stop(0)
        self._runs = sorted(self._watch.runs, key=lambda run: run.began)
        return wrong + self._watch.wrong + self._exclusive() + self._seen()

    def _wait(self) -> list[str]:
        limit = self._step.get("limit", 60)
        deadline = time.monotonic() + limit
        while not self._over():
            if time.monotonic() > deadline:
                figures = {label: worker.metrics | {"shards": 0} for label, worker in self._workers.items()}
                return [f"not over within its limit, after {self._watch.ended()} runs, with {figures}"]
            time.sleep(0.005)
        return []

    def _over(self) -> bool:
        wanted = self._step.get("until", "idle")
        if len(self._watch.exhausted) < len(self._expect.get("exhausted", [])):
            return False
        if isinstance(wanted, int):
            return self._watch.ended() >= wanted
        return all([self._all_quiet(wanted) for _ in range(2)])

    def _all_quiet(self, wanted: str) -> bool:
        return all(self._quiet(worker.metrics, wanted) for worker in self._workers.values())

    def _quiet(self, metrics: seriatim.Metrics, wanted: str) -> bool:
        return metrics["busy"] == 0 and metrics["resharding"] is None and (metrics["length"] == 0 if wanted == "empty" else metrics["lag"] == 0)

    def _exclusive(self) -> list[str]:
        by_id = defaultdict(list)
        for run in self._runs:
            for job in run.jobs:
                by_id[self._workers[run.queue].queue_name, job["id"]].append((run, job))
        return [
            text
            for (_, id), runs in by_id.items()
            for (before, job_before), (after, job_after) in pairwise(runs)
            for text in self._pair(id, before, job_before, after, job_after)
        ]

    def _pair(self, id: Any, before: Run, job_before: Any, after: Run, job_after: Any) -> list[str]:
        wrong = []
        if not job_after["fence"] > job_before["fence"]:
            wrong.append(f"the fence of {id} fell")
        if not self._step.get("overrun") and not (before.ended or float("inf")) <= after.began:
            wrong.append(f"two runs of {id} overlap")
        return wrong

    def _seen(self) -> list[str]:
        expect = self._expect
        wrong = self._compare_runs() if "runs" in expect else []
        if "count" in expect:
            wrong += self._values.compare(expect["count"], len(self._runs), "count")
        if "at_once" in expect:
            wrong += self._values.compare(expect["at_once"], self._at_once(), "at_once")
        for id, count in expect.get("numbers", {}).items():
            wrong += self._numbers(id, count)
        return wrong + self._exhausted()

    def _compare_runs(self) -> list[str]:
        found = self._sorted() if self._expect.get("any_order") else self._runs
        wanted = self._expect["runs"]
        if len(found) != len(wanted):
            seen = [[(job["id"], job["payloads"]) for job in run.jobs] for run in found]
            return [f"{len(found)} runs, not {len(wanted)}: {seen}"]
        return [
            text
            for at, run in enumerate(found)
            for text in self._one(wanted[at], run, found[at - 1] if at else None, f"runs[{at}]")
        ]

    def _sorted(self) -> list[Run]:
        for run in self._runs:
            run.jobs.sort(key=lambda job: to_bytes(job["id"]))
        return sorted(self._runs, key=lambda run: to_bytes(run.jobs[0]["id"]))

    def _one(self, wanted: dict[str, Any], run: Run, before: Run | None, where: str) -> list[str]:
        after = run.began - before.ended if before and before.ended else None
        facts = {"queue": run.queue, "size": len(run.jobs), "began": run.began, "after": after}
        wrong = self._values.compare({key: wanted[key] for key in wanted if key != "jobs"}, facts, where)
        if "jobs" not in wanted:
            return wrong
        if len(wanted["jobs"]) != len(run.jobs):
            return [*wrong, f"{where} has {len(run.jobs)} jobs: {run.jobs}"]
        raw = self._workers[run.queue].codec == "raw"
        for job, found in zip(wanted["jobs"], run.jobs):
            wrong += self._values.compare_record(job, found, f"{where} {found['id']}", raw)
        return wrong

    def _numbers(self, id: str, count: int) -> list[str]:
        payloads = [payload for run in self._runs for job in run.jobs if job["id"] == id for payload in job["payloads"]]
        return [] if payloads == list(range(count)) else [f"the payloads of {id} are {repr(payloads)[:300]}"]

    def _at_once(self) -> int:
        def during(run: Run) -> int:
            return sum(other.began <= run.began < (other.ended or 0) for other in self._runs)

        return max(map(during, self._runs), default=0)

    def _exhausted(self) -> list[str]:
        if "exhausted" not in self._expect:
            return []
        wanted, told = self._expect["exhausted"], self._watch.exhausted
        if len(told) != len(wanted):
            return [f"retries_exhausted was told {told}"]
        return [
            text
            for one, found in zip(wanted, told)
            for text in self._values.compare_record(one, found, "exhausted", False, scored=True)
        ]
