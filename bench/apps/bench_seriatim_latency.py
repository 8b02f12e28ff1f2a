"""A server that notes how long each job took from just before its push to perform."""

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


def timed(id: int) -> None:
    LatencyWorker.perform_async([{"id": id, "payload": count.now()}])
