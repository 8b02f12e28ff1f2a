"""What bench_seriatim_backlog.py is; the server is told to serve the queues celery and backlog."""

import time
from collections.abc import Sequence

import count
from bench_celery_latency import app


@app.task
def wait(_id: int) -> None:
    time.sleep(0.001)
    count.note(0)


def bulk(ids: Sequence[int]) -> None:
    with app.producer_pool.acquire(block=True) as producer:
        for id in ids:
            wait.apply_async((id,), producer=producer, queue="backlog")
