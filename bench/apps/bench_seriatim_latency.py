"""A server that notes when each job is performed."""

import logging
from typing import Any

import count
import seriatim


class LatencyWorker(seriatim.Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        [(pushed,)] = payloads_by_id.values()
        count.note(pushed)


seriatim.workers = [LatencyWorker]
logging.getLogger("seriatim").setLevel(logging.WARNING)


def timed(id: int, pushed: float) -> None:
    LatencyWorker.perform_async([{"id": id, "payload": pushed}])
