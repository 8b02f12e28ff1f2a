"""What every system's job calls: measures from the first job begun to the last one, or notes when each was performed.

And the schedule of a pusher.
"""

import functools
import itertools
import os
import time
from collections.abc import Callable, Iterator

JOBS = int(os.environ.get("BENCH_JOBS", "0"))
GRACE = 0.5  # seconds that a pusher may be late at the end
now: Callable[[], float] = time.monotonic

_count = itertools.count(1)
_first = 0.0


def up() -> None:
    """Counts one blank job of this process; `next` is one step for all threads."""
    global _first
    count = next(_count)
    if count == 1:
        _first = now()
    if count == JOBS:
        report(str(now() - _first))


def note(pushed: float) -> None:
    """Notes that a job which counts from `pushed` is performed now, at once, for not all processes of a server end by themselves."""
    performed = now()
    os.write(_notes(), b"%.6f %.6f\n" % (performed, pushed))


@functools.cache
def _notes() -> int:
    """The file that all processes append to."""
    return os.open(os.environ["BENCH_RESULT"] + ".notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def pace() -> Iterator[tuple[int, float]]:
    """Yields each number of the schedule at its time, and the time from which it counts; BENCH_PACE and rules are those of count.rb."""
    rate, start, seconds, turn, of = (float(word) for word in os.environ["BENCH_PACE"].split())
    awake = start
    for number in range(int(turn), round(rate * seconds), int(of)):
        due = start + number / rate
        if now() > start + seconds + GRACE:
            return
        while (left := due - now()) > 0:
            time.sleep(left)
            awake = now()
        yield number, max(due, awake)


def report(result: str) -> None:
    path = os.environ["BENCH_RESULT"]
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(result)
    os.rename(f"{path}.new", path)
