"""What late.rb does."""

import os
import time
from typing import Any

import seriatim

RESULT = os.open(os.environ["BENCH_RESULT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


class LateWorker(seriatim.Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]]) -> None:
        now = time.time()
        rows = [(id, payload) for id, payloads in payloads_by_id.items() for payload in payloads]
        lines = [f"{id} {payload['n']} {payload['at']} {now - float(payload['at']):f}\n" for id, payload in rows]
        os.write(RESULT, "".join(lines).encode())


seriatim.workers = [LateWorker]
