"""Link: begun, driven or stepped; what ends a wait; other threads and processes."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

import seriatim
from seriatim import _native
from support.jobs import eventually
from support.native import jobs, link, queue_settings, row
from support.redis_server import RedisServer


Use = Callable[[], object]
SOON = 15  # seconds: what is 0.01 on a quiet machine; an answer that does not come is waited for 30


@contextmanager
def frozen(redis: RedisServer) -> Iterator[None]:
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(redis.pid, signal.SIGCONT)


@contextmanager
def on_usr1(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def in_use(one: _native.Link) -> bool:
    try:
        one.fileno()
    except RuntimeError:
        return True
    return False


@contextmanager
def driven(one: _native.Link, redis: RedisServer) -> Iterator[None]:
    """While another thread waits for a Redis that does not answer."""
    with frozen(redis):
        one.nodes()
        thread = threading.Thread(target=one.drive, args=(100,))
        thread.start()
        eventually(lambda: in_use(one))
        yield
    thread.join()


@contextmanager
def signalled_after(seconds: float, number: int = signal.SIGUSR1) -> Iterator[None]:
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def test_a_push_can_be_queried(redis: RedisServer) -> None:
    one = link(redis)
    queue = one.queue(queue_settings(shards=2))
    one.layout(queue)
    assert one.drive() == 2
    one.push(queue, jobs(row(b"a", {"n": 1}), row(b"a", {"n": 2}), row(b"\xff", None)))
    assert one.drive(5) == (2, 1, [], None, None, 0, 0, [])
    one.query(queue, "range_by_id", False, b"-", b"+", 10, -1, None)
    records = {record["id"]: record for record in one.drive()}
    assert [payload for payload, _ in records["a"]["payloads"]] == [b'{"n":1}', b'{"n":2}']
    assert records[b"\xff"]["state"] == "waiting"
    one.metrics(queue)
    metrics = one.drive()
    assert (metrics["length"], len(metrics["shards"])) == (2, 2)
    one.explain(queue, b"a")
    assert one.drive()["job"]["id"] == "a"
    one.check(queue, False)
    assert one.drive()[1] == []
    one.action(queue, "delete", [b"a"])
    assert one.drive() == 1
    one.nodes()
    assert one.drive() == []
    one.queues()
    assert one.drive() == ["q"]
    one.health()
    assert one.drive() == {"maxmemory_policy": "noeviction", "appendonly": True, "replicas": 0}
    assert one.result() == {"maxmemory_policy": "noeviction", "appendonly": True, "replicas": 0}


def test_refused_jobs_are_given_by_index(redis: RedisServer) -> None:
    one = link(redis)
    queue = one.queue({**queue_settings(), "on_waiting": "reject"})
    one.push(queue, jobs(row(b"a"), row(b"b"), row(b"a"), row(b"b")))
    assert one.drive() == (2, 0, [2, 3], None, None, 0, 0, [])


def step_to_the_end(one: _native.Link) -> None:
    """As an event loop does it."""
    while not one.step():
        wants, fd = one.wants(), one.fileno()
        reads, writes = [fd] if wants & 1 else [], [fd] if wants & 2 else []
        if fd < 0:
            time.sleep(one.timeout() or 0)
        else:
            select.select(reads, writes, [], one.timeout())


def test_an_operation_can_be_driven_step_by_step(redis: RedisServer) -> None:
    one = link(redis)
    assert (one.fileno(), one.timeout()) == (-1, None)
    queue = one.queue(queue_settings())
    one.push(queue, jobs(row(b"a")))
    with pytest.raises(RuntimeError, match="not ended"):
        one.result()
    step_to_the_end(one)
    assert one.result() == (1, 0, [], None, None, 0, 0, [])
    assert one.fileno() >= 0


def test_invalid_calls_are_refused(redis: RedisServer) -> None:
    one = link(redis)
    with pytest.raises(RuntimeError, match="no operation was begun"):
        one.drive()
    queue = one.queue(queue_settings())
    with pytest.raises(TypeError, match="a dict"):
        one.queue(())  # type: ignore[arg-type]
    with pytest.raises(seriatim.Invalid, match="no queue with the number 99"):
        one.push(99, jobs())
    with pytest.raises(TypeError, match="tuple of 10"):
        one.push(queue, jobs((1,)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected bytes, not str"):
        one.push(queue, jobs(("id", b"1", None, 0, 0.0, -1, None, None, 0, 0.0)))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected Jobs, not list"):
        one.push(queue, [row(b"a")])  # type: ignore[arg-type]
    with pytest.raises(seriatim.Invalid, match=r"jobs\[1\]"):
        one.push(queue, jobs(row(b"a"), row(b"")))
    with pytest.raises(seriatim.Invalid):
        one.push(queue, jobs(row(b"a", when=7)))
    with pytest.raises(seriatim.Invalid):
        one.query(queue, "unknown", False, None, None, 10, -1, None)
    with pytest.raises(seriatim.Invalid, match="limit"):
        one.query(queue, "range_by_id", False, None, None, 10**30, -1, None)
    with pytest.raises(TypeError):
        one.action(queue, "delete", ["a"])  # type: ignore[list-item]
    with pytest.raises(seriatim.Invalid):
        _native.Link("http://x", "ns", None, 0)
    with pytest.raises(TypeError, match="already"):
        one.__init__(redis.url, "ns", None, 0)  # type: ignore[misc]
    one.push(queue, jobs())
    assert one.drive() == (0, 0, [], None, None, 0, 0, [])
    one.push(queue, jobs(row(b"a")))
    assert one.drive() == (1, 0, [], None, None, 0, 0, [])


def test_a_second_operation_is_refused_while_one_runs(redis: RedisServer) -> None:
    one = link(redis)
    queue = one.queue(queue_settings())
    one.push(queue, jobs(row(b"a")))
    with pytest.raises(seriatim.Invalid, match="busy"):
        one.metrics(queue)
    assert one.drive() == (1, 0, [], None, None, 0, 0, [])


def test_a_closed_link_refuses_every_use(redis: RedisServer) -> None:
    for one in (link(redis), _native.Link.__new__(_native.Link)):
        one.close()
        one.close()
        uses: list[Use] = [one.step, one.drive, one.result, one.reset, one.fileno, lambda: one.url, one.nodes]
        for use in uses:
            with pytest.raises(seriatim.Closed):
                use()


def test_an_operation_without_a_server_names_the_cause_at_its_limit(tmp_path: Any) -> None:
    one = _native.Link(f"unix://{tmp_path}/none", "ns", None, 0)
    one.nodes()
    with pytest.raises(seriatim.ConnectionError, match="cannot connect to unix://.*: No such file or directory"):
        one.drive(0.1)
    assert one.url.startswith("unix://")


def test_an_error_of_redis_is_raised(redis: RedisServer) -> None:
    redis.call("SET", "seriatim:x", 1)
    one = _native.Link(redis.url + "?db=99", "ns", None, 0)
    one.nodes()
    with pytest.raises(seriatim.Error):
        one.drive(5)


def test_drive_waits_as_long_as_it_is_told(redis: RedisServer) -> None:
    one = link(redis)
    one.nodes()
    assert one.drive() == []
    with frozen(redis):
        for seconds in (0.1, 0, -1.0, float("nan")):
            one.nodes()
            begun = time.monotonic()
            with pytest.raises(seriatim.TimeoutError):
                one.drive(seconds=seconds)
            assert time.monotonic() - begun < 20
    one.nodes()
    assert one.drive(10) == []
    with pytest.raises(TypeError):
        one.drive(minutes=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        one.drive("1")  # type: ignore[arg-type]


class Interruption(Exception):
    pass


def raise_interruption(number: int, frame: FrameType | None) -> None:
    raise Interruption(time.monotonic())


def test_f20_a_handler_that_raises_ends_the_wait(redis: RedisServer) -> None:
    one = link(redis)
    queue = one.queue(queue_settings())
    one.push(queue, jobs(row(b"before")))
    one.drive()
    with on_usr1(raise_interruption), frozen(redis):
        one.push(queue, jobs(row(b"a")))
        with pytest.raises(Interruption) as caught, signalled_after(0.5):
            one.drive()
        assert time.monotonic() - caught.value.args[0] < SOON
    with pytest.raises(seriatim.OutcomeUnknown, match="1 of 1 jobs"):
        one.result()
    one.metrics(queue)
    assert one.drive()["length"] in (1, 2)


def test_f20_keyboard_interrupt(redis: RedisServer) -> None:
    one = link(redis)
    with frozen(redis):
        one.nodes()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt), signalled_after(0.2, signal.SIGINT):
            one.drive()
        assert 0.15 < time.monotonic() - begun < SOON
    one.nodes()
    assert one.drive() == []


def test_f20_a_handler_that_returns_leaves_the_wait_and_its_limit_alone(redis: RedisServer) -> None:
    one = link(redis)
    seen: list[float] = []
    with on_usr1(lambda number, frame: seen.append(time.monotonic())), frozen(redis), signalled_after(0.1):
        one.nodes()
        begun = time.monotonic()
        with pytest.raises(seriatim.TimeoutError):
            one.drive(4)
        assert 3.95 < time.monotonic() - begun < 4 + SOON
    assert len(seen) == 1 and seen[0] - begun < 3.95


def test_a_second_thread_is_refused(redis: RedisServer) -> None:
    one = link(redis)
    with driven(one, redis):
        uses: list[Use] = [one.step, one.drive, one.result, one.reset, one.fileno, one.nodes, lambda: one.url]
        for use in uses:
            with pytest.raises(RuntimeError, match="another thread"):
                use()
        one.close()
    one.nodes()
    assert one.drive(10) == []


def in_child(body: Use) -> int:
    """The exit status of a child of fork(2): 0 when the body raised nothing."""
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def test_a_child_of_fork_does_not_use_the_parent_s_link(redis: RedisServer) -> None:
    one = link(redis)
    queue = one.queue(queue_settings())
    one.push(queue, jobs(row(b"a")))
    one.drive()
    fd = one.fileno()
    one.push(queue, jobs(row(b"b")))

    def child() -> None:
        with pytest.raises(seriatim.Closed):
            one.drive()
        assert one.fileno() == -1
        one.push(queue, jobs(row(b"c")))
        assert one.drive() == (1, 0, [], None, None, 0, 0, [])

    assert in_child(child) == 0
    assert one.fileno() == fd
    assert one.drive() == (1, 0, [], None, None, 0, 0, [])
    one.metrics(queue)
    assert one.drive()["length"] == 3


def test_a_link_is_closed_in_a_child_forked_while_a_thread_drives_it(redis: RedisServer) -> None:
    one = link(redis)
    with driven(one, redis):
        assert in_child(lambda: pytest.raises(seriatim.Closed, one.nodes)) == 0


def test_links_are_freed_with_what_they_hold(redis: RedisServer) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        one = link(redis)
        one.nodes()
        one.drive()
    del one
    assert len(os.listdir("/proc/self/fd")) <= before + 2
