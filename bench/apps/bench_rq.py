"""RQ."""

import os
from collections.abc import Sequence

import count
import redis
import rq

queue = rq.Queue(connection=redis.Redis.from_url(os.environ["REDIS_URL"]))


def blank(_id: int, _payload: str | None = None) -> None:
    count.up()


def single(id: int) -> None:
    queue.enqueue(blank, id)


def bulk(ids: Sequence[int]) -> None:
    queue.enqueue_many([rq.Queue.prepare_data(blank, (id,)) for id in ids])


def wait(ids: Sequence[int], payload: str) -> None:
    queue.enqueue_many([rq.Queue.prepare_data(blank, (id, payload)) for id in ids])
