"""A server that notes how long each job took from just before its push to perform.

Run by itself it is the pusher: BENCH_JOBS jobs, 20 ms apart.
"""

import logging
import time
from typing import Any

import count
import seriatim

seconds: list[float] = []


class LatencyWorker(seriatim.Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        [(pushed,)] = payloads_by_id.values()
        seconds.append(count.now() - pushed)
        if len(seconds) == count.JOBS:
            count.report(" ".join(map(str, seconds)))


seriatim.workers = [LatencyWorker]
logging.getLogger("seriatim").setLevel(logging.WARNING)

if __name__ == "__main__":
    for id in range(count.JOBS):
        LatencyWorker.perform_async([{"id": id, "payload": count.now()}])
        time.sleep(0.02)
