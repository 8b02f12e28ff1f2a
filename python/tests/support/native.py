"""Links, runners and rows of the tests of seriatim._native."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from seriatim import _native
from support.redis_server import RedisServer

NAMESPACE = "native"


def queue_settings(name: bytes = b"q", shards: int = 1, batch: int = 10) -> _native.QueueSettings:
    return {"queue_name": name, "shards_count": shards, "batch_size": batch}


def row(id: bytes, payload: Any = None, when: int = 0, time: float = 0.0) -> _native.JobRow:
    return (id, _native.dump(payload, "payload"), None, when, time, -1, None, None, 0, 0.0)


def jobs(*rows: _native.JobRow) -> _native.Jobs:
    return _native.jobs(list(rows), lambda row, place: row, False)


def link(redis: RedisServer) -> _native.Link:
    return _native.Link(redis.url, NAMESPACE, None, 0)


def push(redis: RedisServer, *rows: _native.JobRow, settings: _native.QueueSettings | None = None) -> Any:
    one = link(redis)
    one.push(one.queue(settings or queue_settings()), jobs(*rows))
    return one.drive(10)


@contextmanager
def runner(redis: RedisServer, settings: _native.QueueSettings | None = None) -> Iterator[_native.Runner]:
    """Started, with one worker; the caller takes from group 0."""
    node = _native.Runner(redis.url, NAMESPACE, "test", os.urandom(8).hex(), "", 10_000, 100, 4, 0)
    node.worker(settings or queue_settings())
    node.start()
    try:
        yield node
    finally:
        node.close()


def take(node: _native.Runner) -> _native.Delivery:
    """The next delivery of group 0. The pulse keeps the node alive, as a server's watcher does."""
    for _ in range(300):
        node.pulse()
        delivery = node.take(0, 0.2)
        if delivery is not None:
            return delivery
    raise AssertionError("there is nothing to take")
