"""Runner.take, where it settles another delivery first."""

from __future__ import annotations

import time

import pytest

import seriatim
from support.jobs import eventually
from support.native import link, push, queue_settings, row, runner, take
from support.redis_server import RedisServer


def processed(redis: RedisServer, count: int) -> bool:
    one = link(redis)
    queue = one.queue(queue_settings())

    def is_so() -> bool:
        one.metrics(queue)
        return bool(one.drive(30)["processed"] == count)

    return eventually(is_so)


def test_take_settles_the_given_delivery_first(redis: RedisServer) -> None:
    push(redis, row(b"a"), row(b"b"))
    with runner(redis, queue_settings(batch=1)) as node:
        first = take(node)
        assert first.elapsed() < 60 and first.ids() == [first.job(0)[0]]
        first.done_all()
        second = node.take(0, None, first)
        assert second is not None and len(second) == 1
        second.done_all()
        assert node.take(0, 0, second) is None
        node.clear(0)
        assert processed(redis, 2)


def test_take_unscheduled_leaves_what_is_ready_to_the_scheduler(redis: RedisServer) -> None:
    push(redis, row(b"a"))
    with runner(redis) as node:
        eventually(lambda: node.candidates(0, 10))
        begun = time.monotonic()
        assert node.take_unscheduled(0, 0) is None
        node.clear(0)
        assert node.take_unscheduled(0, 30) is None, "woken, because a take gives something"
        assert time.monotonic() - begun < 20
        ((worker, shard, _, _),) = node.candidates(0, 10)
        delivery = node.take_from(0, worker, shard)
        assert delivery is not None and delivery.ids() == ["a"]
        delivery.done_all()
        delivery.settle()
        assert node.take_unscheduled(0, 0.05) is None
        node.stop()
        with pytest.raises(seriatim.Closed):
            while True:
                node.take_unscheduled(0, 1)


def test_take_refuses_a_delivery_that_it_cannot_settle(redis: RedisServer) -> None:
    push(redis, row(b"a"))
    with runner(redis) as node, runner(redis, queue_settings(b"other")) as other:
        delivery = take(node)
        with pytest.raises(TypeError, match="of this runner"):
            other.take(0, 0, delivery)
        with pytest.raises(TypeError, match="of this runner"):
            node.take(0, 0, 1)  # type: ignore[arg-type]
        with pytest.raises(IndexError):
            node.take(7, 0, delivery)
        delivery.done_all()
        delivery.settle()
        with pytest.raises(seriatim.Closed, match="settled"):
            node.take(0, 0, delivery)
        assert processed(redis, 1)
