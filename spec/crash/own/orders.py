"""orders.py - an application as a user has it, with the one line that the crash kit needs."""

from __future__ import annotations

import time
from typing import Any

import record  # noqa: F401

import seriatim


class OrderWorker(seriatim.Worker):
    shards_count = 8
    batch_size = 3

    def retry_in(self, count: int) -> float:
        return 0.05

    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        for payloads in payloads_by_id.values():
            time.sleep(0.001 * len(payloads))


seriatim.workers = [OrderWorker]
