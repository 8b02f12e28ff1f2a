"""One scenario: its queues, and its steps one after another."""

from __future__ import annotations

import time
from typing import Any, cast

import seriatim
from recorder import Recorder, worker
from report import Report
from run import RunStep
from sets import Sets
from values import Values, number, to_bytes, to_text
from vectors import stored_keys

KINDS = {seriatim.Invalid: "INVALID", seriatim.RedisFull: "FULL", seriatim.Stale: "STALE", seriatim.RedisError: "SERVER"}
Step = dict[str, Any]


class Scenario:
    def __init__(self, file: str, scenario: dict[str, Any], redis: Any, report: Report) -> None:
        self._name = f"{file}: {scenario['name']}"
        self._scenario = scenario
        self._redis = redis
        self._report = report

    def run(self) -> None:
        self._prepare()
        self._steps(self._scenario["steps"], self._name)
        self._report.check(f"{self._name}, check at the end", self._findings)

    def _prepare(self) -> None:
        self._redis.call("CONFIG", "SET", "maxmemory", "0")
        self._redis.flush()
        self._use("spec")
        seconds, micros = self._redis.call("TIME")
        self._values = Values(int(seconds) + int(micros) / 1e6)
        self._sets = Sets(self._values)
        queues = self._scenario.get("queues", {"q": {}})
        self._workers = {label: worker(label, settings) for label, settings in queues.items()}
        self._handles: dict[str, list[str | None]] = {}
        self._deliveries: dict[str, Any] = {}

    def _use(self, namespace: str) -> None:
        seriatim.namespace = namespace
        seriatim.format_error = str  # the scenarios name messages
        seriatim.push_timeout = 50  # a loaded machine may hold a push up
        seriatim.redis = self._redis.url

    def _findings(self) -> list[str]:
        return [repr(finding) for worker in self._workers.values() for finding in worker.actions.check()["findings"]]

    def _steps(self, steps: list[Step], where: str) -> None:
        for at, step in enumerate(steps):
            self._step(step, f"{where}, step {at + 1} ({step['do']})")

    def _step(self, step: Step, where: str) -> None:
        if step["do"] == "wait":
            time.sleep(step["seconds"])
        elif step["do"] == "run":
            run = RunStep(step, self._workers, self._values, lambda steps: self._steps(steps, where))
            self._report.check(where, run.call)
        else:
            self._report.check(where, lambda: self._checked(step))

    def _checked(self, step: Step) -> list[str]:
        """What is wrong with the step, as a list of texts."""
        try:
            wrong: list[str] | None = getattr(self, f"_do_{step['do']}")(step, self._workers.get(step.get("queue", "q")))
        except (seriatim.Error, seriatim.Invalid) as error:
            return self._error(step.get("error"), error)
        return [f"no error, but {step['error']} was expected"] if "error" in step else wrong or []

    def _error(self, wanted: dict[str, Any] | None, found: Exception) -> list[str]:
        if wanted is None:
            return [f"{type(found).__name__}: {found}"]
        wrong = [part for part in wanted["says"] if part not in str(found)]
        wrong += [] if KINDS.get(type(found)) == wanted["kind"] else [wanted["kind"]]
        return [f"the error is not {part}, but {type(found).__name__}: {found}" for part in wrong]

    # ---- verbs

    def _do_push(self, step: Step, worker: type[Recorder]) -> list[str] | None:
        if step.get("one_by_one"):
            for job in self._jobs(step, worker):
                worker.perform_async([job])
            return None
        return self._compare_push(step, self._push(step, worker))

    def _do_pipeline(self, step: Step, _: Any) -> list[str]:
        futures: list[Any] = []
        raised: seriatim.Error | None = None
        try:
            with seriatim.pipelined():
                futures += [self._push(push, self._workers[push.get("queue", "q")]) for push in step["pushes"]]
        except seriatim.Error as error:
            raised = error
        wrong = [text for push, future in zip(step["pushes"], futures) for text in self._compare_future(push, future)]
        if raised and not any("error" in push for push in step["pushes"]):
            wrong.append(f"the block raises {raised}")
        return wrong

    def _do_query(self, step: Step, worker: type[Recorder]) -> list[str]:
        query = getattr(worker.queries, step["query"])
        records = query(self._ids(step)) if "ids" in step else self._range(step, query)
        if "keep" in step:
            self._handles[step["keep"]] = [record["handle"] for record in records]
        if "expect_ids" in step:
            return self._values.compare(step["expect_ids"], [record["id"] for record in records], "ids")
        if len(records) != len(step["expect"]):
            return [f"{len(records)} records, not {len(step['expect'])}: {repr(records)[:300]}"]
        raw = worker.codec == "raw"
        return [
            text
            for wanted, found in zip(step["expect"], records)
            for text in self._values.compare_record(wanted, found, "record", raw, scored=True)
        ]

    def _do_explain(self, step: Step, worker: type[Recorder]) -> list[str]:
        found: dict[str, Any] = dict(worker.queries.explain(to_text(step["id"])))
        for key in ("job", "behind", "dead"):
            found[key] = found[key] and found[key]["state"]
        return self._values.compare(step["expect"], found, "explanation")

    def _do_metrics(self, step: Step, worker: type[Recorder]) -> list[str]:
        found: dict[str, Any] = dict(worker.metrics)
        found["shards"] = len(found["shards"])
        found["moves_to"] = found["resharding"] and found["resharding"]["to"]
        return self._values.compare(step["expect"], found, "metrics")

    def _do_action(self, step: Step, worker: type[Recorder]) -> list[str]:
        action = getattr(worker.actions, step["action"])
        arguments = [self._ids(step)] if "ids" in step else []
        if "id" in step:
            arguments = [to_text(step["id"]), self._payload(step["payload"], worker)]
        if "handle" in step:
            arguments = [self._handle(step)]
        if "shards" in step:
            arguments = [step["shards"]]
        if "deliver" in step:
            arguments.append(self._values.start + step["deliver"])
        found = action(*arguments)
        found = int(found) if isinstance(found, bool) else found
        return self._values.compare(step["expect"], found, "answer") if "expect" in step else []

    def _do_declare(self, step: Step, _: Any) -> None:
        worker("declared", step["settings"]).metrics

    def _do_namespace(self, step: Step, _: Any) -> None:
        self._use(step["name"])

    def _do_redis(self, step: Step, _: Any) -> list[str]:
        found = self._redis.call(*step["command"])
        return self._values.compare(str(step["expect"]), str(to_text(found)), "answer") if "expect" in step else []

    def _do_pop(self, step: Step, _: Any) -> list[str]:
        queues = [self._workers[label] for label in step.get("queues", self._workers)]
        weights = dict(zip(queues, step["weights"])) if "weights" in step else None
        options = {key: step[key] for key in ("ttr", "max") if key in step}
        found = seriatim.pop(queues, wait=step.get("wait", 0), weights=weights, **options)
        self._deliveries[step.get("keep", "")] = found
        return self._compare_delivery(step["expect"], found) if "expect" in step else []

    def _do_popped(self, step: Step, worker: type[Recorder]) -> None:
        delivery, report = self._deliveries[step["delivery"]], step["report"]
        if step.get("by") == "token":
            delivery = seriatim.delivery(delivery.token)
        if report == "fail":
            delivery.fail(step["text"], retry_in=step.get("seconds"))
        elif report == "snooze":
            delivery.snooze(step["seconds"], **({"payload": self._payload(step["payload"], worker)} if "payload" in step else {}))
        elif report == "extend":
            delivery.extend(step["seconds"])
        elif report == "checkpoint":
            delivery.checkpoint(step["count"])
        else:
            getattr(delivery, report)()

    def _jobs(self, step: Step, worker: type[Recorder]) -> list[seriatim.Job]:
        return [cast(seriatim.Job, copy) for job in step["jobs"] for copy in self._copies(job, worker)]  # a misspelled key is a case, too

    def _push(self, step: Step, worker: type[Recorder]) -> Any:
        return worker.perform_async(self._jobs(step, worker), handle=step.get("handle", False))

    def _compare_push(self, step: Step, result: seriatim.PushResult) -> list[str]:
        found: dict[str, Any] = {key: getattr(result, key) for key in ("added", "folded", "refused", "refused_at", "scheduled", "stale")}
        found["handles"] = [handle and result.handles.index(handle) for handle in result.handles]
        self._handles[step.get("keep", "")] = result.handles
        return self._values.compare(step.get("expect", {}), found, "answer")

    def _compare_future(self, push: Step, future: Any) -> list[str]:
        try:
            result = future.value
        except seriatim.Error as error:
            return self._error(push.get("error"), error)
        return [f"no error, but {push['error']} was expected"] if "error" in push else self._compare_push(push, result)

    def _compare_delivery(self, wanted: dict[str, Any] | None, found: seriatim.Delivery | None) -> list[str]:
        if wanted is None or found is None:
            return self._values.compare(wanted, found and found.id, "popped")
        label = next(label for label, worker in self._workers.items() if worker.queue_name == found.queue)
        seen = {field: getattr(found, field) for field in ("id", "payloads", "scores", "contexts", "deliveries", "retry_count", "error", "more")}
        seen.update(queue=label, count=len(found.payloads))
        return self._values.compare_record(wanted, seen, "delivery", self._workers[label].codec == "raw")

    def _do_ick(self, step: Step, _: Any) -> list[str]:
        return self._sets.run(step)

    def _do_keys(self, step: Step, _: Any) -> list[str]:
        return self._values.compare(step["expect"], stored_keys(self._redis), "keys")

    # ---- their arguments

    def _handle(self, step: Step) -> Any:
        kept = self._handles.get(step["handle"])
        return kept[step.get("place", 0)] if kept else step["handle"]

    def _ids(self, step: Step) -> list[Any]:
        return [to_text(id) for id in step["ids"]]

    def _payload(self, value: Any, worker: type[Recorder]) -> Any:
        return to_bytes(value) if worker.codec == "raw" else value

    def _copies(self, job: dict[str, Any], worker: type[Recorder]) -> list[dict[str, Any]]:
        return [self._copy(job, at, worker) for at in range(job.get("times", 1))]

    def _copy(self, job: dict[str, Any], place: int, worker: type[Recorder]) -> dict[str, Any]:
        copy = {key: value for key, value in job.items() if key not in ("at", "deliver", "times", "number")}
        if "id" in copy:
            copy["id"] = to_text(copy["id"])
        if "payload" in copy:
            copy["payload"] = self._payload(copy["payload"], worker)
        if "at" in job:
            copy["perform_in"] = self._values.start + job["at"]
        if "deliver" in job:
            copy["deliver_at"] = self._values.start + job["deliver"]
        for key in ("score", "perform_in", "delay", "deliver_at", "deliver_in"):
            if key in copy:
                copy[key] = number(copy[key])
        if job.get("number") in ("id", "both"):
            copy["id"] += str(place)
        if job.get("number") in ("payload", "both"):
            copy["payload"] = place
        return copy

    def _range(self, step: Step, query: Any) -> Any:
        bounds = [self._bound(step[key]) for key in ("min", "max") if key in step]
        if "rev_" in step["query"]:
            bounds.reverse()
        options = {"limit": step["limit"]} if "limit" in step else {}
        if "id" in step:
            options["id"] = to_text(step["id"])
        return query(*bounds, **options)

    def _bound(self, value: Any) -> Any:
        return self._values.start + value["at"] if isinstance(value, dict) else value
