"""aperform_async: the event loop is never blocked, and the pool stays whole."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from queue import Queue
from typing import Any

import pytest

import seriatim
from seriatim import PushResult
from seriatim._client import pool as pools
from seriatim._client.connection import Connection
from seriatim._client.threads import Threads
from support.jobs import deaf, descriptors, eventually, ids, runs, serve, worker
from support.loops import Blind, run
from support.redis_server import RedisServer


@pytest.fixture
def recorder() -> Any:
    return worker("Async")


async def goes_on(push: asyncio.Future[Any]) -> None:
    """The loop turns, while the push waits: one that blocked it would have ended first."""
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not push.done()


@contextmanager
def frozen(redis: RedisServer) -> Iterator[None]:
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(redis.pid, signal.SIGCONT)


def whole() -> bool:
    """Nothing lent, nobody waiting."""
    pool = pools.current()
    return not len(pool._lent) and not pool._waiting and len(pool._idle) <= seriatim.client_pool_size


def test_a_worker_pushes(recorder: Any) -> None:
    assert asyncio.run(recorder.aperform_async([{"id": 1, "payload": "v1"}])) == PushResult(1, 0, 0, [])
    serve(recorder)
    assert runs(recorder)[0].payloads == {"1": ["v1"]}


def test_a_queue_pushes_too(recorder: Any) -> None:
    assert asyncio.run(recorder.queue.apush([{"id": 1}])).added == 1
    assert asyncio.run(recorder.aperform_async([])) == PushResult(0, 0, 0, [])


def test_refuses_what_perform_async_refuses(recorder: Any) -> None:
    with pytest.raises(seriatim.Invalid, match=r"^jobs\[0\]: id is missing$"):
        asyncio.run(recorder.aperform_async([{}]))
    with pytest.raises(seriatim.Invalid, match="id"):
        asyncio.run(recorder.aperform_async([{"id": "x" * 2000}]))
    assert whole()


def test_a_hundred_at_once_over_five_connections(recorder: Any, redis: RedisServer) -> None:
    async def push() -> list[PushResult]:
        return await asyncio.gather(*(recorder.aperform_async([{"id": number}]) for number in range(100)))

    seriatim.pool_timeout = 60
    assert [result.added for result in asyncio.run(push())] == [1] * 100
    assert recorder.metrics["length"] == 100
    assert str(redis.call("CLIENT", "LIST")).count("name=seriatim-client") <= 5
    assert whole()


def test_the_loop_goes_on_while_redis_sleeps(recorder: Any, redis: RedisServer) -> None:
    async def push() -> None:
        await recorder.aperform_async([{"id": "warm"}])
        with frozen(redis):
            pushes = asyncio.gather(*(recorder.aperform_async([{"id": number}]) for number in range(20)))
            await goes_on(pushes)
        await pushes

    seriatim.pool_timeout = 60
    asyncio.run(push())
    assert recorder.metrics["length"] == 21


def test_the_loop_goes_on_while_there_is_no_redis(recorder: Any) -> None:
    seriatim.redis = "unix:///no/such/socket"

    async def push() -> None:
        task = asyncio.create_task(recorder.aperform_async([{"id": 1}]))
        await goes_on(task)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(push())
    assert whole()


def test_comes_through_when_redis_comes_back(recorder: Any) -> None:
    server = RedisServer()
    seriatim.redis = server.url

    async def push() -> PushResult:
        await recorder.aperform_async([{"id": 1}])
        server.stop()
        task = asyncio.create_task(recorder.aperform_async([{"id": 2}]))
        await asyncio.sleep(0.3)
        await asyncio.get_running_loop().run_in_executor(None, server.start)
        result: PushResult = await task
        return result

    try:
        assert asyncio.run(push()).added == 1
        assert ids(recorder.queries.range_by_id("-", "+")) == ["1", "2"]
    finally:
        server.remove()


def test_cancellation_leaves_the_pool_whole(recorder: Any) -> None:
    seriatim.client_pool_size = 3
    seriatim.pool_timeout = 60

    async def push(number: int) -> None:
        await recorder.aperform_async([{"id": f"{number}-{place}", "payload": "x" * 50} for place in range(20)])

    async def storm() -> None:
        tasks = [asyncio.create_task(push(number)) for number in range(100)]
        for task in random.sample(tasks, 90):
            await asyncio.sleep(random.random() * 0.002)
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(result is None or isinstance(result, asyncio.CancelledError) for result in results)
        assert sum(result is None for result in results) >= 10

    for _ in range(5):
        before = descriptors()
        asyncio.run(storm())
        assert whole()
        # A thread that began to connect for a push that was cancelled may outlive the loop.
        eventually(lambda: descriptors() <= before + seriatim.client_pool_size)
    assert recorder.perform_async([{"id": "last"}]).added == 1
    assert ids(recorder.queries.fetch(["last"])) == ["last"]


def test_waits_for_a_connection_time_out_and_can_be_cancelled(recorder: Any) -> None:
    async def push() -> None:
        holder = asyncio.create_task(recorder.aperform_async([{"id": 1}]))
        await asyncio.sleep(0.1)
        with pytest.raises(seriatim.PoolTimeout, match=r"^no free connection in 1\.5 s: all 1 are in use"):
            await recorder.aperform_async([{"id": 2}])
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(recorder.aperform_async([{"id": 3}]), 0.05)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(holder, 0.05)

    with deaf():
        seriatim.client_pool_size = 1
        seriatim.pool_timeout = 1.5
        asyncio.run(push())
        assert whole()


def test_threads_and_coroutines_wait_in_the_same_line(recorder: Any) -> None:
    seriatim.client_pool_size = 1
    seriatim.pool_timeout = 60
    pool, served = pools.current(), []

    async def use(name: str) -> None:
        async with pool.lend():
            served.append(name)

    def use_in_thread(name: str) -> None:
        with pool.lend():
            served.append(name)

    async def line() -> list[threading.Thread]:
        threads, tasks = [], []
        async with pool.lend():
            for number in range(5):
                threads.append(threading.Thread(target=use_in_thread, args=(f"thread{number}",)))
                threads[-1].start()
                while len(pool._waiting) <= number * 2:
                    await asyncio.sleep(0.001)
                tasks.append(asyncio.create_task(use(f"task{number}")))
                await asyncio.sleep(0)
        await asyncio.gather(*tasks)
        return threads

    for thread in asyncio.run(line()):
        thread.join()
    assert served == [f"{kind}{number}" for number in range(5) for kind in ("thread", "task")]


def test_pushes_work_on_loops_after_and_beside_one_another(recorder: Any) -> None:
    seriatim.pool_timeout = 60

    def push(place: int) -> None:
        for number in range(10):
            asyncio.run(recorder.aperform_async([{"id": f"{place}-{number}"}]))

    threads = [threading.Thread(target=push, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.metrics["length"] == 80
    assert whole()


def test_pushes_work_on_a_loop_that_cannot_watch_sockets(recorder: Any, redis: RedisServer) -> None:
    async def push() -> None:
        await recorder.aperform_async([{"id": 1}])
        with frozen(redis):
            task = asyncio.ensure_future(recorder.aperform_async([{"id": 2}]))
            await goes_on(task)
        await task

    run(Blind(), push())
    assert recorder.metrics["length"] == 2


@pytest.mark.parametrize("make", [asyncio.new_event_loop, Blind], ids=["a loop", "a loop that cannot watch sockets"])
def test_pushes_do_not_wait_for_the_threads_of_the_loops_executor(recorder: Any, make: Callable[[], asyncio.AbstractEventLoop]) -> None:
    gate = threading.Event()

    async def push() -> PushResult:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        holding = asyncio.ensure_future(asyncio.to_thread(gate.wait, 60))
        try:
            result: PushResult = await asyncio.wait_for(recorder.aperform_async([{"id": 1}]), 20)
            return result
        finally:
            gate.set()
            await holding

    assert run(make(), push()).added == 1


PUSH_AT_EXIT = """
import asyncio, atexit, os
import seriatim

class Late(seriatim.Worker):
    def perform(self, payloads_by_id): ...

def push(id):
    seriatim.redis = os.environ["REDIS"]  # a new pool, whose first connection a thread makes
    asyncio.run(Late.aperform_async([{"id": id}]))

atexit.register(push, "last")
push("first")
"""


def test_a_push_of_a_function_of_atexit_is_done(redis: RedisServer) -> None:
    ended = subprocess.run([sys.executable, "-c", PUSH_AT_EXIT], env={**os.environ, "REDIS": redis.url}, capture_output=True, timeout=120)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ids(worker("Late").queries.range_by_id("-", "+")) == ["first", "last"]


def test_a_connection_is_closed_when_its_cancelled_call_ends_after_the_loop(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    connection, gate = Connection(redis.url, "seriatim"), threading.Event()

    async def cancel() -> None:
        call = asyncio.create_task(connection._elsewhere(lambda: gate.wait(60)))
        await asyncio.sleep(0.1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    try:
        asyncio.run(cancel())
        assert not connection.usable and not is_closed(connection)
    finally:
        gate.set()
    eventually(lambda: is_closed(connection))
    assert caplog.messages == []


def is_closed(connection: Connection) -> bool:
    try:
        return not connection.url
    except seriatim.Closed:
        return True


def test_middlewares_run_around_an_async_push(recorder: Any) -> None:
    seen = []

    def sync(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        seen.append("sync")
        result = call_next()
        seen.append(result.added)
        return result

    async def asynchronous(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        seen.append("async")
        await asyncio.sleep(0)
        jobs.append({"id": 2})
        return await call_next()

    seriatim.client_middlewares = [sync, asynchronous]
    assert asyncio.run(recorder.aperform_async([{"id": 1}])).added == 2
    assert seen == ["sync", "async", 2]
    with pytest.raises(seriatim.Invalid, match=r"^client_middlewares\[1\] is async: use aperform_async$"):
        recorder.perform_async([{"id": 3}])


def def_link(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
    return call_next()


async def async_link(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
    return await call_next()


def push_forty(recorder: Any) -> list[Any]:
    """What each of 40 pushes at once gave or raised, on a loop whose executor has two threads."""

    async def push() -> list[Any]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        pushes = (recorder.aperform_async([{"id": id}]) for id in range(40))
        return await asyncio.wait_for(asyncio.gather(*pushes, return_exceptions=True), 60)

    return asyncio.run(push())


CHAINS = pytest.mark.parametrize("chain", [[def_link], [def_link, async_link, def_link]], ids=["def", "def, async, def"])


@CHAINS
def test_many_first_pushes_at_once_through_def_middlewares_do_not_wait_for_each_others_threads(recorder: Any, chain: Any) -> None:
    seriatim.client_middlewares = chain
    assert push_forty(recorder) == [PushResult(1, 0, 0, [])] * 40


@CHAINS
def test_many_pushes_at_once_through_def_middlewares_fail_in_time_while_there_is_no_redis(recorder: Any, chain: Any) -> None:
    seriatim.redis = "unix:///no/such/socket"
    seriatim.push_timeout = 0.5
    seriatim.client_middlewares = chain
    assert all(isinstance(result, seriatim.Error) for result in push_forty(recorder))


def test_a_thread_of_a_def_middleware_keeps_nothing_of_the_push(recorder: Any) -> None:
    variable: ContextVar[set[str]] = ContextVar("variable")

    async def push() -> weakref.ref[set[str]]:
        variable.set({"kept"})
        await recorder.aperform_async([{"id": 1}])
        return weakref.ref(variable.get())

    seriatim.client_middlewares = [def_link]
    kept = asyncio.run(push())
    eventually(lambda: gc.collect() >= 0 and kept() is None, 10)


def alive(name: str) -> int:
    """How many threads of that name there are."""
    return sum(thread.name.startswith(f"{name}_") for thread in threading.enumerate())


def test_threads_that_are_idle_end_but_for_one_and_more_are_made_again() -> None:
    threads = Threads("idle", 0.2)
    for _ in range(2):
        together = threading.Barrier(30)
        for done in [threads.submit(together.wait, 60) for _ in range(30)]:
            done.result(60)
        eventually(lambda: alive("idle") == 1)
    assert threads.submit(lambda: 1).result(60) == 1
    threads.shutdown()
    eventually(lambda: alive("idle") == 0)


def test_after_many_bursts_of_short_calls_no_call_waits_for_another_and_idle_threads_end() -> None:
    threads = Threads("burst", 0.2)
    for number in range(100):
        short = [threads.submit(int) for _ in range(number % 50)]
        together = threading.Barrier(10)
        for done in [*short, *(threads.submit(together.wait, 20) for _ in range(10))]:
            done.result(60)
    eventually(lambda: alive("burst") == 1, 20)
    threads.shutdown()
    eventually(lambda: alive("burst") == 0)


def test_a_def_middleware_that_outlives_the_loop_cannot_go_on(recorder: Any) -> None:
    gate, begun = threading.Event(), threading.Event()
    errors: Queue[BaseException] = Queue()

    def late(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        begun.set()
        gate.wait(60)
        try:
            return call_next()
        except BaseException as error:
            errors.put(error)
            raise

    async def push() -> None:
        task = asyncio.create_task(recorder.aperform_async([{"id": 1}]))
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()

    seriatim.client_middlewares = [late]
    asyncio.run(push())
    gate.set()
    assert str(errors.get(timeout=60)) == "Event loop is closed"
    assert recorder.metrics["length"] == 0
    gc.collect()  # here, where a warning of a coroutine that nobody awaited would fail the test


def test_finding_the_url_does_not_block_the_loop(recorder: Any, redis: RedisServer) -> None:
    gate = threading.Event()

    def find() -> str:
        gate.wait(60)
        return redis.url

    seriatim.redis = find

    async def push() -> None:
        task = asyncio.create_task(recorder.aperform_async([{"id": 1}]))
        await goes_on(task)
        gate.set()
        await task

    asyncio.run(push())
