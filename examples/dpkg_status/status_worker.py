"""status_worker.py - the application that the servers load: it follows what dpkg did to each package."""

import os
import random
import time
from typing import Any

import journal

import seriatim

SECONDS_PER_LINE = float(os.environ.get("DEMO_SECONDS_PER_LINE", "0.002"))
BAD_LUCK = 0.03  # of all runs

Line = dict[str, Any]


class StatusWorker(seriatim.Worker):
    shards_count = 12

    def retry_in(self, count: int) -> float:
        return random.uniform(0.1, 0.3)

    def perform(self, lines_by_package: dict[str, list[Line]], batch: seriatim.Batch) -> None:
        """All lines of a package that wait, by score: by their number in the log."""
        for package, lines in lines_by_package.items():
            run = {"package": package, "fence": batch.fence(package), "pid": os.getpid()}
            unlucky = random.choice(lines) if random.random() < BAD_LUCK else None
            for line in lines:
                fail_at(line, run) if line is unlucky else apply(line, run)


def apply(line: Line, run: dict[str, Any]) -> None:
    """The real work would be here; the journal says how far it came."""
    journal.write("begin", number=line["number"], **run)
    time.sleep(SECONDS_PER_LINE)
    journal.write("end", number=line["number"], state=line["state"], **run)


def fail_at(line: Line, run: dict[str, Any]) -> None:
    journal.write("begin", number=line["number"], **run)
    journal.write("failed", **run)
    raise RuntimeError("bad luck")


seriatim.workers = [StatusWorker]
seriatim.lease_time = 2  # seconds after which a killed server's packages are the other's
