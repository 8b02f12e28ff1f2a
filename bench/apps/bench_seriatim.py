"""Seriatim."""

import logging
from collections.abc import Sequence
from typing import Any

import count
import seriatim


class BlankWorker(seriatim.Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        count.up()


seriatim.workers = [BlankWorker]
logging.getLogger("seriatim").setLevel(logging.WARNING)
seriatim.client_pool_size = 8  # as many as threads that push


def single(id: int) -> None:
    BlankWorker.perform_async([{"id": id}])


def pipelined(ids: Sequence[int]) -> None:
    with seriatim.pipelined():
        for id in ids:
            single(id)


def bulk(ids: Sequence[int]) -> None:
    BlankWorker.perform_async([{"id": id} for id in ids])


def wait(ids: Sequence[int], payload: str) -> None:
    BlankWorker.perform_async([{"id": id, "payload": payload} for id in ids])
