"""
record.py - a user's own worker under the crash kit: importing this journals every run. See README.md. Does nothing where JOURNAL
is not set.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import seriatim

_point, _, _number = os.environ.get("DIE", "").partition(":")
_runs = itertools.count(1)


def _write(*words: object) -> None:
    os.write(_journal, f"\n{' '.join(map(str, words))} .".encode())


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _step(point: str, run: int) -> None:
    """DIE=perform_during:3: by SIGKILL, a millisecond into the third run."""
    if point != _point or run != int(_number):
        return
    if point == "perform_during":
        threading.Timer(0.001, _kill).start()
    else:
        _kill()


def record(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
    """The numbers of an id's payloads are their scores."""
    run, queue, failed, ids = next(_runs), worker.queue_name, True, list(batch)
    for id in ids:
        numbers = ",".join(str(int(score)) for score in batch.scores(id))
        _write("start", os.getpid(), queue, id, batch.fence(id), batch.retry_count(id), numbers, time.monotonic())
    _step("perform_begin", run)
    _step("perform_during", run)
    try:
        result = call_next()
        failed = False
        return result
    finally:
        for id in ids:
            outcome = batch._outcome(id, None)
            done = not failed if outcome is None else not isinstance(outcome, (str, BaseException))
            _write("end" if done else "fail", os.getpid(), queue, id, batch.fence(id), time.monotonic())
        _step("perform_end", run)


if "JOURNAL" in os.environ:
    _journal = os.open(os.environ["JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    seriatim.lease_time = float(os.environ.get("CRASH_LEASE", "0.5"))
    seriatim.server_middlewares.insert(0, record)
