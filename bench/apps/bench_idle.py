"""A server of BENCH_QUEUES queues that get no jobs."""

import logging
import os
from typing import Any

import seriatim


def idle_worker(number: int) -> type[seriatim.Worker]:
    class IdleWorker(seriatim.Worker):
        queue_name = f"idle-{number}"

        def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
            pass

    return IdleWorker


seriatim.workers = [idle_worker(number) for number in range(int(os.environ["BENCH_QUEUES"]))]
logging.getLogger("seriatim").setLevel(logging.WARNING)
