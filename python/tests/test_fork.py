"""F19: a child of fork has connections of its own and leaves the parent's alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import seriatim
from seriatim import _pool
from support.jobs import eventually, runs, serve, worker
from support.redis_server import RedisServer


@pytest.fixture
def recorder() -> Any:
    return worker("Fork")


def child(function: Callable[[], object]) -> int:
    """A child of fork that ends with 0 when the function gives something true."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(60)
    code = 1
    try:
        code = 0 if function() else 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def codes(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def push_some(recorder: Any, name: str) -> bool:
    for number in range(20):
        recorder.perform_async([{"id": f"{name}-{number}"}])
    return len(recorder.queries.fetch(["parent"])) == 1


def test_children_push_over_connections_of_their_own(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    children = [child(lambda name=f"child{place}": push_some(recorder, name)) for place in range(3)]  # type: ignore[misc]
    for number in range(50):
        recorder.perform_async([{"id": f"p{number}"}])
    assert codes(children) == [0, 0, 0]
    assert recorder.metrics["length"] == 111


def test_the_parents_connection_outlives_its_children(recorder: Any, redis: RedisServer) -> None:
    seriatim.client_pool_size = 1
    recorder.perform_async([{"id": "parent"}])
    before = [line.split()[0] for line in redis.call("CLIENT", "LIST").splitlines() if "seriatim-client" in line]
    assert codes([child(lambda: recorder.metrics["length"] == 1) for _ in range(5)]) == [0] * 5
    recorder.perform_async([{"id": "again"}])
    after = [line.split()[0] for line in redis.call("CLIENT", "LIST").splitlines() if "seriatim-client" in line]
    assert set(before) <= set(after)


def test_a_fork_while_other_threads_push(recorder: Any) -> None:
    """Whatever lock or connection they held, the child has its own."""
    seriatim.client_pool_size = 2
    seriatim.pool_timeout = 60
    recorder.perform_async([{"id": "parent"}])
    ended = threading.Event()

    def push(place: int) -> None:
        number = 0
        while not ended.is_set():
            recorder.perform_async([{"id": f"{place}-{number}"}])
            number += 1

    threads = [threading.Thread(target=push, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    try:
        for place in range(20):
            assert codes([child(lambda: push_some(recorder, f"c{place}"))]) == [0]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert all(recorder.queries.fetch([f"c{place}-19"]) for place in range(20))


def test_a_fork_while_the_pools_locks_are_held(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    pool = _pool.current()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with pool._lock, _pool._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    children = [child(lambda: push_some(recorder, "held"))]
    release.set()
    thread.join()
    assert codes(children) == [0]


def test_a_fork_in_the_midst_of_a_use(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])

    def use() -> bool:
        return push_some(recorder, "midst") and _pool.current() is not pool

    pool = _pool.current()
    with pool.lend() as connection:
        children = [child(use)]
        assert codes(children) == [0]
        assert connection.metrics(recorder._queue_settings())["length"] == 21


def test_multiprocessing(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=push_some, args=(recorder, f"m{place}")) for place in range(3)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    assert [process.exitcode for process in children] == [0, 0, 0]
    assert recorder.metrics["length"] == 61
    assert recorder.perform_async([{"id": "after"}]).added == 1


def test_an_event_loop_in_the_child(recorder: Any) -> None:
    asyncio.run(recorder.aperform_async([{"id": "parent"}]))

    async def push() -> bool:
        results = await asyncio.gather(*(recorder.aperform_async([{"id": f"a{number}"}]) for number in range(20)))
        return sum(result.added for result in results) == 20

    assert codes([child(lambda: asyncio.run(push()))]) == [0]
    assert recorder.metrics["length"] == 21


def test_a_child_forks_a_child(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])

    def nested() -> bool:
        return push_some(recorder, "first") and codes([child(lambda: push_some(recorder, "second"))]) == [0]

    assert codes([child(nested)]) == [0]
    assert recorder.metrics["length"] == 41


def test_a_server_is_its_processs_and_the_child_may_have_another(recorder: Any) -> None:
    server = serve(recorder)

    def another() -> bool:
        with pytest.raises(seriatim.Closed):
            server.stats()
        mine = seriatim.Server(workers=[recorder]).start()
        return mine.stop()

    assert codes([child(another)]) == [0]
    recorder.perform_async([{"id": 1}])
    runs(recorder)


def test_a_child_that_ends_as_a_program_does_leaves_the_parents_server_alone(recorder: Any) -> None:
    server = serve(recorder)
    pid = os.fork()
    if pid == 0:
        import atexit

        try:
            atexit._run_exitfuncs()
        finally:
            os._exit(0)
    assert codes([pid]) == [0]
    assert server.running
    time.sleep(0.5)
    recorder.perform_async([{"id": 1}])
    runs(recorder)
    assert eventually(lambda: recorder.metrics["processed"] == 1)
