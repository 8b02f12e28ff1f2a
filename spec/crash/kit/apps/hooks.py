"""hooks.py - twin of hooks.rb."""

import os
import signal
from typing import Any

import seriatim


class Hooks(seriatim.Worker):
    queue_name = "Hooks"
    shards_count = 1
    batch_size = 10
    max_retry_count = 0

    def perform(self, _payloads_by_id: dict[Any, list[Any]]) -> None:
        raise RuntimeError("for good")

    def retries_exhausted(self, jobs: list[seriatim.ExhaustedJob]) -> None:
        mark = os.environ["APPEND"] + ".killed"
        for job in jobs:
            if job["id"] == "kills" and not os.path.exists(mark):
                open(mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            with open(os.environ["APPEND"], "a", encoding="utf-8") as file:
                error = str(job["error"]).splitlines()[0]
                file.write(f"{job['id']} {len(job['payloads'])} {job['payloads_count']} {error}\n")


seriatim.lease_time = 0.4
seriatim.workers = [Hooks]
