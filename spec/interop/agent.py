"""agent.py - Seriatim for Python, told what to do: a request a line on standard input, an answer a line on standard output."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from typing import Any, TextIO

import seriatim

seriatim.format_error = str  # the pairs compare messages
seriatim.push_timeout = 50  # longer than a connection takes to be given up


class Recorder(seriatim.Worker):
    """What a worker was given."""

    runs: list[dict[str, Any]]
    exhausted: list[Any]
    error: str | None
    seconds: float

    @classmethod
    def begin_recording(cls, error: str | None) -> None:
        cls.error = error
        cls.runs = []
        cls.exhausted = []

    def perform(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        for id, payloads in payloads_by_id.items():
            self.runs.append({"id": id, "payloads": payloads, "scores": batch.scores(id), "contexts": batch.contexts(id),
                              "retry_count": batch.retry_count(id), "error": batch.error(id), "fence": batch.fence(id)})
        if self.error is not None:
            raise RuntimeError(self.error)

    def retry_in(self, count: int) -> float:
        return self.seconds

    def retries_exhausted(self, jobs: list[Any]) -> None:
        self.exhausted.extend(jobs)


class Agent:
    """The protocol is in README.md."""

    def __init__(self) -> None:
        self.workers: dict[str | bytes, type[Recorder]] = {}
        self.ick = seriatim.Ick()

    def serve(self, input: Iterable[str], output: TextIO) -> None:
        for line in input:
            print(json.dumps(self.answer(decode(json.loads(line)))), file=output, flush=True)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": encode(self.result(request))}
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def result(self, request: dict[str, Any]) -> Any:
        if request["do"] == "worker":
            return self.declare(request["queue"], request["settings"])
        if request["do"] == "ick":
            return getattr(self.ick, request["call"])(*request["arguments"])
        worker = self.workers[request["queue"]]
        match request["do"]:
            case "push":
                return worker.perform_async(request["jobs"])._asdict()
            case "run":
                return run(worker, request["runs"], request["seconds"], request["fail"])
            case "query":
                return getattr(worker.queries, request["query"])(*request["arguments"])
            case "action":
                return getattr(worker.actions, request["action"])(*request["arguments"])
            case "explain":
                return worker.queries.explain(request["id"])
            case "metrics":
                return worker.metrics
            case "check":
                return worker.actions.check()["findings"]
        raise ValueError(f"what is {request['do']!r}?")

    def declare(self, queue: str | bytes, settings: dict[str, Any]) -> None:
        """The worker of this queue's code in this process; a later one takes its place."""
        seconds = settings.pop("retry_in", 60)
        self.workers[queue] = type("Declared", (Recorder,), {"queue_name": queue, "seconds": seconds, **settings})


def run(worker: type[Recorder], count: int, seconds: float, error: str | None) -> dict[str, Any]:
    """Runs a server until `count` ids were run, for `seconds` at most."""
    worker.begin_recording(error)
    server = seriatim.Server(workers=[worker], threads=4).start()
    deadline = time.monotonic() + seconds
    while len(worker.runs) < count and time.monotonic() <= deadline:
        time.sleep(0.005)
    server.stop(10)
    return {"runs": worker.runs, "exhausted": worker.exhausted}


def decode(value: Any) -> Any:
    """{"hex": …} is bytes."""
    match value:
        case list():
            return [decode(item) for item in value]
        case {"hex": hex} if len(value) == 1:
            return bytes.fromhex(hex)
        case dict():
            return {key: decode(item) for key, item in value.items()}
    return value


def encode(value: Any) -> Any:
    match value:
        case list() | tuple():
            return [encode(item) for item in value]
        case dict():
            return {key: encode(item) for key, item in value.items()}
        case bytes():
            return {"hex": value.hex()}
    return value


Agent().serve(sys.stdin, sys.stdout)
