"""producer.py - one of the processes that push: the lines on its standard input, at once or spread over so many seconds."""

import json
import os
import sys
import time

import journal
from status_worker import Line, StatusWorker

import seriatim


class Producer:
    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    def push_at_once(self) -> None:
        for at in range(0, len(self.lines), 100):
            push(self.lines[at : at + 100])

    def push_one_by_one(self, seconds: float) -> None:
        """One push a line."""
        for line in self.lines:
            push([line])
            time.sleep(seconds / len(self.lines))


def push(lines: list[Line]) -> None:
    result = StatusWorker.perform_async([job(line) for line in lines])
    journal.write("pushed", numbers=[line["number"] for line in lines], folded=result.folded)


def job(line: Line) -> seriatim.Job:
    job: seriatim.Job = {"id": line["package"], "payload": line, "score": line["number"]}
    if os.environ.get("DEMO_WITHOUT_SCORES") == "1":  # to see the checker find it
        del job["score"]
    return job


if __name__ == "__main__":
    producer = Producer([json.loads(line) for line in sys.stdin])
    if len(sys.argv) == 1:
        producer.push_at_once()
    else:
        producer.push_one_by_one(float(sys.argv[1]))
