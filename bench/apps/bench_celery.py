"""Celery without a result backend; all else as it comes."""

import multiprocessing
import os
from collections.abc import Sequence

import celery
import count

app = celery.Celery("bench", broker=os.environ["REDIS_URL"])
app.conf.task_ignore_result = True

# The processes of -P prefork count together.
jobs = multiprocessing.Value("Q")
first = multiprocessing.Value("d")


@app.task
def blank(_id: int, _payload: str | None = None) -> None:
    with jobs:
        jobs.value += 1
        if jobs.value == 1:
            first.value = count.now()
        if jobs.value == count.JOBS:
            count.report(str(count.now() - first.value))


def push(arguments: Sequence[tuple[object, ...]]) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for each in arguments:
            blank.apply_async(each, producer=producer)


def single(id: int) -> None:
    blank.delay(id)


def bulk(ids: Sequence[int]) -> None:
    push([(id,) for id in ids])


def wait(ids: Sequence[int], payload: str) -> None:
    push([(id, payload) for id in ids])
