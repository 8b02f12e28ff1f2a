"""A push that waits until other Redis servers have it."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import seriatim
from support.jobs import eventually, worker
from support.redis_server import RedisServer, free_ports


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[RedisServer, RedisServer]]:
    """A master and its replica."""
    (port,) = free_ports(1)
    master = RedisServer("--port", str(port), "--repl-diskless-sync-delay", "0")
    replica = RedisServer("--replicaof", f"127.0.0.1 {port}")
    yield master, replica
    replica.remove()
    master.remove()


@pytest.fixture
def replica(pair: tuple[RedisServer, RedisServer], settings: None) -> RedisServer:
    master, replica = pair
    seriatim.redis = master.url
    master.flush()
    eventually(lambda: "state=online" in master.call("INFO", "replication"))
    return replica


@contextmanager
def silent(replica: RedisServer) -> Iterator[None]:
    """While it answers nothing."""
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(replica.pid, signal.SIGCONT)


def jobs(count: int) -> list[dict[str, Any]]:
    return [{"id": number, "payload": "x" * 100} for number in range(count)]


def test_r_replicas_1_a_push_returns_when_the_replica_has_it(replica: RedisServer, pair: tuple[RedisServer, RedisServer]) -> None:
    recorder = worker()
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 10
    for turn in range(5):
        result = recorder.perform_async(jobs(2000))
        assert (result.added, result.folded) == ((2000, 0) if turn == 0 else (0, 2000))
        assert replica.call("DBSIZE") == pair[0].call("DBSIZE")
    assert recorder.perform_async([{"id": "one"}], wait_replicas=1, wait_timeout=10).added == 1


def test_r_replicas_2_the_error_says_that_too_few_replicas_have_it_and_that_it_is_written(replica: RedisServer) -> None:
    recorder = worker()
    with silent(replica):
        began = time.monotonic()
        with pytest.raises(seriatim.NotReplicated, match="written, 0 of 1") as raised:
            recorder.perform_async(jobs(3), wait_replicas=1, wait_timeout=0.3)
        assert 0.25 < time.monotonic() - began < 10
        assert raised.value.result == (3, 0, 0, [], 0, 0, [])
        assert recorder.metrics["length"] == 3
        assert recorder.perform_async(jobs(3)).folded == 3  # asks none
    assert recorder.perform_async(jobs(3), wait_replicas=1, wait_timeout=10).folded == 3
    with pytest.raises(seriatim.NotReplicated, match="1 of 2"):
        recorder.perform_async(jobs(3), wait_replicas=2, wait_timeout=4)


def test_the_error_is_a_runtime_failure_and_can_be_pickled() -> None:
    error = seriatim.NotReplicated("few", seriatim.PushResult(1, 0, 0, []))
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, seriatim.Error) and (str(copy), copy.result) == ("few", error.result)


def test_r_replicas_3_the_modules_settings_hold_unless_a_push_gives_its_own(replica: RedisServer) -> None:
    recorder = worker()
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 0.05

    @seriatim.worker
    def function(payloads_by_id: Any) -> None: ...

    with silent(replica):
        for push in (recorder.perform_async, recorder.queue.push, function.perform_async):
            with pytest.raises(seriatim.NotReplicated, match="0 of 1"):
                push(jobs(1))
            assert push(jobs(1), wait_replicas=0).folded == 1
        assert recorder.perform_async([]).added == 0


def test_async_pushes_wait_for_replicas(replica: RedisServer) -> None:
    recorder = worker()

    @seriatim.worker
    def function(payloads_by_id: Any) -> None: ...

    async def pushes() -> None:
        for push in (recorder.aperform_async, recorder.queue.apush, function.aperform_async):
            with pytest.raises(seriatim.NotReplicated, match="written, 0 of 1"):
                await push(jobs(1), wait_replicas=1, wait_timeout=0.05)
            assert (await push(jobs(1))).folded == 1
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(recorder.aperform_async(jobs(2), wait_replicas=1, wait_timeout=10), 0.1)
        assert (await recorder.aperform_async(jobs(2))).folded == 2

    with silent(replica):
        asyncio.run(pushes())
    assert asyncio.run(recorder.aperform_async(jobs(3), wait_replicas=1, wait_timeout=10)).folded == 2


def test_a_wait_passes_through_overrides_and_client_middlewares(replica: RedisServer) -> None:
    class Own(worker()):  # type: ignore[misc]
        queue_name = "Own"

        @classmethod
        def perform_async(cls, jobs: Any) -> Any:
            return super().perform_async([{**job, "payload": 1} for job in jobs])

    class Passing(worker()):  # type: ignore[misc]
        @classmethod
        def perform_async(cls, jobs: Any, **keywords: Any) -> Any:
            return super().perform_async(jobs, **keywords)

    seen = []

    def link(worker: Any, jobs: Any, call_next: Any) -> Any:
        seen.append((worker, len(jobs)))
        return call_next()

    seriatim.client_middlewares = [link]
    seriatim.wait_replicas = 1
    seriatim.wait_timeout = 0.05
    with silent(replica):
        with pytest.raises(seriatim.NotReplicated):
            Own.perform_async(jobs(2))
        assert Passing.perform_async(jobs(2), wait_replicas=0).added == 2
    assert seen == [(Own, 2), (Passing, 2)]


def test_r_replicas_4_numbers_out_of_range_are_refused() -> None:
    recorder = worker()
    with pytest.raises(seriatim.Invalid, match="^wait_replicas must be an int from 0 to 1000, not -1"):
        seriatim.wait_replicas = -1
    for given in ({"wait_replicas": "1"}, {"wait_replicas": 1.0}, {"wait_timeout": float("nan")}, {"wait_timeout": 0}):
        with pytest.raises(seriatim.Invalid, match=f"^{next(iter(given))} must be"):
            recorder.perform_async([{"id": 1}], **given)
        with pytest.raises(seriatim.Invalid, match=f"^{next(iter(given))} must be"):
            asyncio.run(recorder.aperform_async([{"id": 1}], **given))
    assert recorder.metrics["length"] == 0


def test_a_wait_does_not_apply_to_the_connections_next_push(replica: RedisServer) -> None:
    seriatim.client_pool_size = 1
    recorder = worker()
    with silent(replica):
        with pytest.raises(seriatim.NotReplicated):
            recorder.perform_async(jobs(1), wait_replicas=1, wait_timeout=0.3)
        began = time.monotonic()
        for _ in range(100):
            recorder.perform_async(jobs(1))
        assert time.monotonic() - began < 20  # not a hundred waits


def test_a_signal_interrupts_the_wait_for_replicas(replica: RedisServer) -> None:
    def stop(number: int, frame: Any) -> None:
        raise InterruptedError

    recorder = worker()
    before = signal.signal(signal.SIGUSR1, stop)

    def interrupt() -> None:
        eventually(lambda: recorder.metrics["length"] == 1)  # the push is written: it waits for the replica
        os.kill(os.getpid(), signal.SIGUSR1)

    thread = threading.Thread(target=interrupt)
    try:
        with silent(replica):
            began = time.monotonic()
            with pytest.raises(InterruptedError):
                thread.start()
                recorder.perform_async(jobs(1), wait_replicas=1, wait_timeout=10)
            assert time.monotonic() - began < 9
            assert recorder.metrics["length"] == 1
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
