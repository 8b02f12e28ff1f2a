"""Runner and Delivery: take, report, settle; waits that end; close, fork and collection."""

from __future__ import annotations

import gc
import os
import select
import signal
import threading
import time
from typing import Any

import pytest

import seriatim
from seriatim import _native
from support.jobs import eventually
from support.native import NAMESPACE, link, push, queue_settings, row, runner, take
from support.redis_server import RedisServer
from test_native_link import SOON, Interruption, Use, in_child, on_usr1, raise_interruption, signalled_after


def metrics(redis: RedisServer) -> dict[str, Any]:
    one = link(redis)
    one.metrics(one.queue(queue_settings()))
    figures: dict[str, Any] = one.drive(10)
    return figures


def settled(redis: RedisServer, field: str, count: int) -> bool:
    return eventually(lambda: bool(metrics(redis)[field] == count))


def test_a_pushed_job_is_taken_and_settled(redis: RedisServer) -> None:
    push(redis, row(b"a", {"n": 1}), row(b"a", [2]), row(b"\xff", None))
    with runner(redis) as node:
        delivery = take(node)
        assert (delivery.kind, delivery.worker, delivery.shard, len(delivery)) == (0, 0, 0, 2)
        assert delivery.payloads_by_id() == {"a": [{"n": 1}, [2]], b"\xff": [None]}
        id, fence, retry_count, perform_in, error, payloads, _ = delivery.job(0)
        assert (id, retry_count, error) == ("a", -1, None)
        assert fence > 0 and time.time() - 60 < perform_in < time.time() + 60
        assert [(payload, context) for payload, _, context in payloads] == [(b'{"n":1}', None), (b"[2]", None)]
        delivery.done_all()
        delivery.settle()
        uses: list[Use] = [delivery.settle, delivery.done_all, delivery.payloads_by_id, lambda: delivery.job(0)]
        for use in uses:
            with pytest.raises(seriatim.Closed, match="settled"):
                use()
        assert settled(redis, "processed", 2)
        while node.stats()["processed"] < 2:
            time.sleep(0.01)


def test_extend_gives_more_time_and_checks_its_arguments(redis: RedisServer) -> None:
    settings = {**queue_settings(), "ttr": 4.0}
    push(redis, row(b"a", 1), settings=settings)
    with runner(redis, settings) as node:
        delivery = take(node)
        delivery.extend(0, 60)
        with pytest.raises(TypeError):
            delivery.extend(0, "1")  # type: ignore[arg-type]
        for _ in range(45):
            node.pulse()
            assert node.take(0, 0.1) is None  # else its time would be over, and it would come again
        delivery.done_all()
        delivery.settle()
        assert settled(redis, "processed", 1)


def test_each_outcome_is_stored(redis: RedisServer) -> None:
    push(redis, row(b"done"), row(b"fail"), row(b"release"), row(b"reject", 1), row(b"reject", 2), row(b"nothing"))
    with runner(redis) as node:
        delivery = take(node)
        places = {delivery.job(place)[0]: place for place in range(len(delivery))}
        delivery.done(places["done"])
        delivery.fail(places["fail"], b"KeyError: x", 3600)
        delivery.release(places["release"])
        delivery.reject(places["reject"], [0], b"no JSON")
        delivery.settle()
        ids: dict[Any, _native.ClaimedRow] = {}
        while set(ids) != {"release", "reject", "nothing"}:
            delivery = take(node)
            ids.update({job[0]: job for job in map(delivery.job, range(len(delivery)))})
            delivery.done_all()
            delivery.settle()
        assert [payload for payload, _, _ in ids["reject"][5]] == [b"2"]
        assert settled(redis, "morgue_length", 1)
        one = link(redis)
        one.explain(one.queue(queue_settings()), b"fail")
        assert one.drive()["job"]["error"] == "KeyError: x"


def test_invalid_calls_are_refused(redis: RedisServer) -> None:
    push(redis, row(b"a"))
    with runner(redis) as node:
        delivery = take(node)
        uses: list[Use] = [
            lambda: delivery.job(1),
            lambda: delivery.done(-1),
            lambda: delivery.fail(1, b"", 0),
            lambda: delivery.reject(0, [1], b""),
            lambda: delivery.reject(0, [0, 0], b""),
            lambda: node.take(1, 0),
            lambda: node.fileno(-1),
            lambda: node.candidates(7, 1),
        ]
        for use in uses:
            with pytest.raises(IndexError):
                use()
        with pytest.raises(TypeError):
            delivery.fail(0, "text", 0)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            _native.Delivery()
        with pytest.raises(seriatim.Invalid, match="two workers have the queue_name"):
            node.worker(queue_settings())
        with pytest.raises(RuntimeError, match="already"):
            node.group(0, [])
        with pytest.raises(seriatim.Invalid, match="no worker has the number 7"):
            node.withdraw(7)
        with pytest.raises(RuntimeError, match="already"):
            node.start()
        with pytest.raises(TypeError):
            node.take(0, group=1)  # type: ignore[call-arg]
        delivery.settle()
    fresh = _native.Runner(redis.url, "ns", "n", "id", "", 2000, 100, 1, 0)
    with pytest.raises(RuntimeError, match="not started"):
        fresh.take(0, 0)
    with pytest.raises(seriatim.Invalid):
        _native.Runner(redis.url, "ns", "n", "a b", "", 2000, 100, 1, 0)
    with pytest.raises(seriatim.Closed):
        _native.Runner.__new__(_native.Runner).start()


def test_unreadable_payloads_are_reported(redis: RedisServer) -> None:
    push(redis, (b"a", b"{", None, 0, 0.0, -1, None, b'{"k":"v"}', 0, 0.0))
    with runner(redis) as node:
        delivery = take(node)
        assert delivery.payloads_by_id() is None
        payload, _, context = delivery.job(0)[5][0]
        assert (payload, context) == (b"{", b'{"k":"v"}')


def test_take_waits_as_long_as_it_is_told(redis: RedisServer) -> None:
    with runner(redis) as node:
        assert node.take(0, 0) is None
        node.clear(0)
        begun = time.monotonic()
        assert node.take(0, seconds=0.2) is None
        assert 0.18 < time.monotonic() - begun < SOON
        timer = threading.Timer(0.1, push, (redis, row(b"a")))
        timer.start()
        delivery = node.take(0)
        assert delivery is not None and len(delivery) == 1
        timer.join()


def test_an_event_loop_takes_by_the_descriptor(redis: RedisServer) -> None:
    with runner(redis) as node:
        assert node.take(0, 0) is None
        push(redis, row(b"a"))
        delivery = None
        while delivery is None:
            assert select.select([node.fileno(0)], [], [], 60)[0]
            node.clear(0)
            delivery = node.take(0, 0)
        assert delivery.payloads_by_id() == {"a": [None]}


def test_each_group_takes_from_its_own_shards(redis: RedisServer) -> None:
    settings = queue_settings(shards=2)
    push(redis, *(row(b"%d" % i) for i in range(20)), settings=settings)
    node = _native.Runner(redis.url, NAMESPACE, "test", os.urandom(8).hex(), "", 10_000, 100, 2, 0)
    worker = node.worker(settings)
    assert [node.group(0, [(worker, 0)]), node.group(0, [(worker, 1)])] == [0, 1]
    node.start()
    with pytest.raises(RuntimeError, match="already"):
        node.group(0, [(worker, 1)])
    try:
        for group in (0, 1):
            candidates = eventually(lambda: node.candidates(group, 10))  # noqa: B023
            (found, shard, lag, size), *rest = candidates
            assert (found, shard, rest) == (worker, group, []) and lag >= 0 and size > 0
            assert node.take_from(group, worker, 1 - group) is None
            node.clear(group)
            delivery = node.take_from(group, worker, group)
            assert delivery is not None and delivery.shard == group
    finally:
        node.close()


def test_stop_lets_a_taken_delivery_be_settled(redis: RedisServer) -> None:
    push(redis, row(b"a"))
    with runner(redis) as node:
        delivery = take(node)
        node.pulse()
        node.quiet()
        node.stop()
        delivery.done_all()
        delivery.settle()
        with pytest.raises(seriatim.Closed, match="stopped"):
            while True:
                node.take(0, 10)
        while not node.stopped():
            time.sleep(0.01)
        events = list(iter(node.event, None))
        assert {event[0] for event in events} <= {"lease", "lost", "refused", "recovered", "link", "warning"} and events
    assert metrics(redis)["processed"] == 1


def test_abandon_hands_a_taken_delivery_back(redis: RedisServer) -> None:
    push(redis, row(b"a", 5))
    with runner(redis) as node:
        delivery = take(node)
        node.stop()
        node.abandon()
        while not node.stopped():
            time.sleep(0.01)
        assert delivery.payloads_by_id() == {"a": [5]}
        delivery.checkpoint(0, 1)
        with pytest.raises(seriatim.Stale, match="handed it back"):
            delivery.flush(10)
        delivery.done_all()
        delivery.settle()
    assert metrics(redis)["length"] == 1


def test_close_while_threads_wait(redis: RedisServer) -> None:
    ends: list[BaseException] = []

    def wait() -> None:
        with pytest.raises(seriatim.Closed) as caught:
            node.take(0)
        ends.append(caught.value)

    for _ in range(20):
        with runner(redis) as node:
            threads = [threading.Thread(target=wait) for _ in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(0.01)
            node.close()
            for thread in threads:
                thread.join(60)
            node.close()
            with pytest.raises(seriatim.Closed, match="closed"):
                node.take(0, 0)
    assert len(ends) == 160


def test_close_from_a_handler(redis: RedisServer) -> None:
    with runner(redis) as node, on_usr1(lambda number, frame: node.close()), signalled_after(0.1):
        with pytest.raises(seriatim.Closed):
            node.take(0)
        with pytest.raises(seriatim.Closed):
            node.stats()


def test_a_delivery_of_a_closed_runner_refuses_every_use(redis: RedisServer) -> None:
    push(redis, row(b"a"))
    with runner(redis) as node:
        delivery = take(node)
        node.close()
    uses: list[Use] = [delivery.settle, delivery.payloads_by_id, lambda: delivery.job(0), lambda: delivery.extend(0, 1)]
    for use in uses:
        with pytest.raises(seriatim.Closed):
            use()
    assert (len(delivery), delivery.kind) == (1, 0)


def test_a_handler_that_raises_ends_the_wait(redis: RedisServer) -> None:
    with runner(redis) as node:
        node.take(0, 0.2)
        with on_usr1(raise_interruption):
            with pytest.raises(Interruption) as caught, signalled_after(0.2):
                node.take(0)
            assert time.monotonic() - caught.value.args[0] < SOON
        push(redis, row(b"a"))
        assert take(node).payloads_by_id() == {"a": [None]}


def test_a_collected_delivery_is_settled_and_keeps_its_runner(redis: RedisServer) -> None:
    push(redis, row(b"a", 1), settings=queue_settings(batch=1))
    with runner(redis, queue_settings(batch=1)) as node:
        delivery = take(node)
        delivery.done_all()
        del delivery
        gc.collect()
        assert settled(redis, "processed", 1)
        push(redis, row(b"b", 2))
        delivery = take(node)
        del delivery  # without an outcome: released
        delivery = take(node)
        assert delivery.payloads_by_id() == {"b": [2]}
        delivery.done_all()
        delivery.settle()
        assert settled(redis, "processed", 2)
    push(redis, row(b"c", 3))
    node = _native.Runner(redis.url, NAMESPACE, "test", os.urandom(8).hex(), "", 10_000, 100, 4, 0)
    node.worker(queue_settings())
    node.start()
    delivery = take(node)
    del node
    gc.collect()
    assert delivery.payloads_by_id() == {"c": [3]}
    delivery.settle()


def test_a_child_of_fork_does_not_use_the_parent_s_runner(redis: RedisServer) -> None:
    push(redis, row(b"a", 1))
    with runner(redis) as node:
        delivery = take(node)

        def child() -> None:
            nonlocal delivery
            uses: list[Use] = [node.stats, node.stop, lambda: node.take(0, 0), delivery.settle, delivery.payloads_by_id]
            for use in uses:
                with pytest.raises(seriatim.Closed, match="fork"):
                    use()
            node.close()
            del delivery
            gc.collect()
            time.sleep(0.2)

        assert in_child(child) == 0
        delivery.done_all()
        delivery.settle()
        assert settled(redis, "processed", 1)
        push(redis, row(b"b", 2))
        assert take(node).payloads_by_id() == {"b": [2]}


def test_many_threads_take(redis: RedisServer) -> None:
    """No wake-up is lost: each thread waits a while only, and all that is pushed is taken."""
    settings = queue_settings(batch=1)
    seen: list[Any] = []

    def work() -> None:
        while len(seen) < 500:
            node.pulse()
            delivery = node.take(0, 0.5)
            if delivery is not None:
                seen.extend(delivery.payloads_by_id() or ())
                delivery.done_all()
                delivery.settle()

    with runner(redis, settings) as node:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for i in range(50):
            push(redis, *(row(b"%d-%d" % (i, k)) for k in range(10)), settings=settings)
        for thread in threads:
            thread.join(60)
    assert len(seen) == len(set(seen)) == 500


def test_waiting_releases_the_gil(redis: RedisServer) -> None:
    with runner(redis) as node:
        assert any(turns_while_one_takes(node) > 5 for _ in range(10))  # a machine may be busy with other things


def turns_while_one_takes(node: _native.Runner) -> int:
    waiter = threading.Thread(target=node.take, args=(0, 0.5))
    waiter.start()
    turns = 0
    while waiter.is_alive():
        turns += 1
        time.sleep(0.01)
    return turns


def test_the_runner_s_thread_takes_no_signal(redis: RedisServer) -> None:
    seen: list[int] = []
    with runner(redis), on_usr1(lambda number, frame: seen.append(number)):
        os.kill(os.getpid(), signal.SIGUSR1)
        eventually(lambda: seen)
    assert seen == [signal.SIGUSR1]
