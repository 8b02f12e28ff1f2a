"""An RQ server that notes when each function is called."""

import os

import count
import redis
import rq

queue = rq.Queue(connection=redis.Redis.from_url(os.environ["REDIS_URL"]))


def note(pushed: float) -> None:
    count.note(pushed)


def timed(_id: int, pushed: float) -> None:
    queue.enqueue(note, pushed)
