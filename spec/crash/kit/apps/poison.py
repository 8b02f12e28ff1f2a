"""poison.py - twin of poison.rb."""

import os
from typing import Any

import seriatim


class Poison(seriatim.Worker):
    queue_name = "Poison"
    shards_count = 4
    batch_size = 10
    max_retry_count = int(os.environ["RETRIES"])

    def retry_in(self, _count: int) -> float:
        return 0.05

    def perform(self, payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        for id in payloads_by_id:
            with open(os.environ["APPEND"], "a", encoding="utf-8") as file:
                file.write(f"{id} {batch.retry_count(id)}\n")
            if id == "bad":
                os.abort()


seriatim.lease_time = 0.4
seriatim.poll_interval = 0.1
seriatim.workers = [Poison]
