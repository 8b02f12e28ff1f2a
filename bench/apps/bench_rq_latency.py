"""An RQ server that notes how long each job took from just before its push to its function."""

import os

import count
import redis
import rq

queue = rq.Queue(connection=redis.Redis.from_url(os.environ["REDIS_URL"]))


def note(pushed: float) -> None:
    count.note(pushed)


def timed(_id: int) -> None:
    queue.enqueue(note, count.now())
