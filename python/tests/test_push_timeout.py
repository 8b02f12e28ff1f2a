"""How long a push may take, whatever happens to Redis."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import seriatim
from seriatim._client import pool as pools
from support.jobs import eventually, worker
from support.redis_server import RedisServer, free_ports


def push(recorder: Any, **options: Any) -> None:
    recorder.perform_async([{"id": 1}], **options)


def push_from_a_coroutine(recorder: Any, **options: Any) -> None:
    asyncio.run(recorder.aperform_async([{"id": 1}], **options))


pushes = pytest.mark.parametrize("push", [push, push_from_a_coroutine])


@pytest.fixture
def server() -> Iterator[RedisServer]:
    port = free_ports(1)[0]
    server = RedisServer("--port", str(port))
    seriatim.redis = f"redis://127.0.0.1:{port}"
    yield server
    server.remove()


@pytest.fixture
def recorder(server: RedisServer) -> Any:
    made = worker("Limited")
    made.perform_async([{"id": "first"}])
    return made


@contextmanager
def stopped(server: RedisServer) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def refused(error: type[Exception], message: str) -> Iterator[None]:
    began = time.monotonic()
    with pytest.raises(error, match=message):
        yield
    assert 0.45 < time.monotonic() - began < 20


@pushes
def test_f4_r_timeout_1_a_stopped_redis_leaves_the_outcome_unknown_after_that_time(server: RedisServer, recorder: Any, push: Any) -> None:
    with stopped(server):
        with refused(seriatim.OutcomeUnknown, "outcome unknown"):
            push(recorder, push_timeout=0.5)
        seriatim.push_timeout = 0.6
        with refused(seriatim.TimeoutError, "timed out"):  # nothing of this one was sent
            push(recorder)


@pushes
def test_f5_r_timeout_2_a_redis_that_was_killed_before_the_push_is_an_error_that_says_so(
    server: RedisServer, recorder: Any, push: Any
) -> None:
    server.stop()
    time.sleep(0.1)
    with refused(seriatim.Error, r"cannot connect to .*refused; start Redis there, or correct seriatim\.redis$"):
        push(recorder, push_timeout=0.5)


@pushes
def test_r_timeout_3_it_includes_the_wait_for_a_connection(server: RedisServer, recorder: Any, push: Any) -> None:
    seriatim.client_pool_size = 1
    push(recorder)

    def busy() -> None:
        with pytest.raises(seriatim.OutcomeUnknown):
            recorder.perform_async([{"id": 2}], push_timeout=3)

    with stopped(server):
        other = threading.Thread(target=busy)
        other.start()
        eventually(lambda: len(pools.current()._lent) == 1)
        with refused(seriatim.PoolTimeout, r"no free connection in 0\.(5|4\d*) s"):
            push(recorder, push_timeout=0.5)
        other.join()


@pushes
def test_r_timeout_3_it_includes_the_wait_for_replicas_whose_error_says_that_the_push_is_written(recorder: Any, push: Any) -> None:
    def is_told() -> bool:
        try:
            with refused(seriatim.NotReplicated, "the push is written, 0 of 1 replicas have it"):
                push(recorder, wait_replicas=1, wait_timeout=10, push_timeout=0.9)
        except (seriatim.OutcomeUnknown, seriatim.TimeoutError):  # Redis has a quarter of a second to answer; it was busy
            return False
        return True

    assert any(is_told() for _ in range(5))


def test_r_timeout_4_it_is_from_a_tenth_of_a_second_to_50_seconds(recorder: Any) -> None:
    for given in (0.09, 50.1, "1", None):
        with pytest.raises(seriatim.Invalid, match="push_timeout must be"):
            seriatim.push_timeout = given  # type: ignore[assignment]
    with pytest.raises(seriatim.Invalid, match="push_timeout must be"):
        recorder.perform_async([{"id": 1}], push_timeout=51)
    seriatim.reset_settings()
    assert seriatim.push_timeout == 10
