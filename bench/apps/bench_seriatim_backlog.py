"""The server of bench_seriatim_latency.py with a second queue, whose jobs take a millisecond and count from 0.

Shards take turns: the built-in scheduler runs what is older first, all of the backlog.
"""

import time
from collections.abc import Sequence
from typing import Any

import bench_seriatim_latency
import count
import seriatim


class BacklogWorker(seriatim.Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        time.sleep(0.001)
        count.note(0)


seriatim.workers = [bench_seriatim_latency.LatencyWorker, BacklogWorker]
seriatim.build_scheduler = seriatim.build_seq_scheduler


def bulk(ids: Sequence[int]) -> None:
    BacklogWorker.perform_async([{"id": id} for id in ids])
