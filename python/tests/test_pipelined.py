"""Pushes of several workers that are written together."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from typing import Any

import pytest

import seriatim
from seriatim import testing
from support.jobs import worker
from support.redis_server import RedisServer

EARLY = "when the block of pipelined has ended"


@pytest.fixture
def orders() -> Any:
    return worker("Orders")


@pytest.fixture
def mails() -> Any:
    return worker("Mails")


def waiting(of: Any) -> list[str]:
    return [record["id"] for record in of.queries.range_by_id("-", "+", limit=1000)]


def push(of: Any, id: Any) -> Any:
    return of.perform_async([{"id": id}])


def scripts(redis: RedisServer) -> int:
    return sum(int(calls) for calls in re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", str(redis.call("INFO", "commandstats"))))


def test_r_pipe_5_nothing_is_written_before_the_block_ends(orders: Any, mails: Any) -> None:
    with seriatim.pipelined() as pipeline:
        futures = [push(orders, 1), push(mails, "m"), push(orders, 1)]
        futures.append(orders.perform_async([{"id": 1, "on_waiting": "reject"}, {"id": 2}]))
        assert orders.metrics["length"] == 0
        for early in (lambda: futures[0].value, lambda: futures[0].added):
            with pytest.raises(seriatim.Invalid, match=EARLY):
                early()
        with pytest.raises(seriatim.Invalid, match=EARLY):
            _ = pipeline.results
    assert waiting(orders) == ["1", "2"]
    assert waiting(mails) == ["m"]
    assert [future.value for future in futures] == pipeline.results == [result.value for result in pipeline.results]
    assert [(r.added, r.folded, r.refused_at) for r in pipeline.results] == [(1, 0, []), (1, 0, []), (0, 1, []), (1, 0, [0])]
    assert futures[3].refused == 1
    with pytest.raises(AttributeError):
        _ = futures[3].nonsense


def test_r_pipe_1_the_pushes_of_a_queue_are_one(orders: Any, mails: Any, redis: RedisServer) -> None:
    orders.shards_count = mails.shards_count = 2
    with seriatim.pipelined():
        push(orders, "first"), push(mails, "first")
    before = scripts(redis)
    with seriatim.pipelined():
        for id in range(200):
            push([orders, mails][id % 2], id)
    assert scripts(redis) - before == 4


def test_r_pipe_2_each_push_is_checked_at_its_call(orders: Any) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"id": 3, "payload": "x" * 2_000_000}, r"jobs\[1\]: payload is 2000002 bytes"),
        ({"id": 3, "perform_in": 60}, "1970"),
        ({"idd": 3}, "unknown key"),
    ]
    payload = {"n": [1]}
    with seriatim.pipelined() as pipeline:
        orders.perform_async([{"id": 1, "payload": payload}])
        payload["n"].append(2)  # what was pushed stays as it was
        for job, message in wrong:
            with pytest.raises(seriatim.Invalid, match=message):
                orders.perform_async([{"id": 2}, job])
    assert [result.added for result in pipeline.results] == [1]
    assert waiting(orders) == ["1"]
    assert orders.queries.fetch([1])[0]["payloads"][0][0] == {"n": [1]}


def test_r_pipe_6_an_exception_in_the_block_writes_nothing(orders: Any) -> None:
    with pytest.raises(KeyError), seriatim.pipelined() as pipeline:
        future = push(orders, 1)
        raise KeyError
    with pytest.raises(seriatim.Invalid, match="only if no exception ended it"):
        _ = future.value
    with pytest.raises(seriatim.Invalid, match="only if no exception ended it"):
        _ = pipeline.results
    assert orders.metrics["length"] == 0
    assert push(orders, 2).added == 1


def test_r_pipe_7_a_block_inside_of_a_block_joins_it(orders: Any) -> None:
    with seriatim.pipelined() as outer:
        with seriatim.pipelined() as inner:
            push(orders, 1)
        assert inner is outer
        assert orders.metrics["length"] == 0
    assert len(outer.results) == 1
    assert waiting(orders) == ["1"]


ENTERED = r"^this block of a?pipelined has been entered and has not ended; make another with a?pipelined\(\)$"


def test_one_block_is_not_entered_again_before_it_ends(orders: Any) -> None:
    block = seriatim.pipelined()
    refused: list[BaseException] = []

    def enter() -> None:
        try:
            with block:
                push(orders, "never")
        except seriatim.Invalid as error:
            refused.append(error)

    with block as pipeline:
        with pytest.raises(seriatim.Invalid, match=ENTERED), block:
            push(orders, "never")
        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        push(orders, 1)
    assert [re.match(ENTERED, str(error)) is not None for error in refused] == [True]
    assert len(pipeline.results) == 1
    assert push(orders, 2).added == 1  # and is not swallowed
    assert waiting(orders) == ["1", "2"]


def test_one_asynchronous_block_is_not_entered_again_before_it_ends(orders: Any) -> None:
    async def main() -> None:
        block = seriatim.apipelined()
        async with block:
            with pytest.raises(seriatim.Invalid, match=ENTERED):
                async with block:
                    pass
            await orders.aperform_async([{"id": 1}])
        assert (await orders.aperform_async([{"id": 2}])).added == 1

    asyncio.run(main())
    assert waiting(orders) == ["1", "2"]


def test_one_block_is_used_again_when_it_has_ended(orders: Any) -> None:
    block = seriatim.pipelined()
    for id in (1, 2):
        with block as pipeline:
            push(orders, id)
        assert [result.added for result in pipeline.results] == [1]
    with pytest.raises(KeyError), block:
        push(orders, 3)
        raise KeyError
    with seriatim.pipelined(), block:
        push(orders, 4)
    assert waiting(orders) == ["1", "2", "4"]


def test_r_pipe_8_other_threads_push_at_once(orders: Any) -> None:
    results: list[Any] = []
    with seriatim.pipelined():
        push(orders, "own")
        thread = threading.Thread(target=lambda: results.append(push(orders, "thread")))
        thread.start()
        thread.join()
        assert results[0].added == 1
        assert waiting(orders) == ["thread"]
    assert waiting(orders) == ["own", "thread"]


def test_r_pipe_8_a_child_of_fork_leaves_the_block_to_its_parent(orders: Any) -> None:
    with seriatim.pipelined():
        push(orders, "parent")
        child = os.fork()
        if child == 0:
            os._exit(0 if push(orders, "child").added == 1 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert waiting(orders) == ["child"]
    assert waiting(orders) == ["child", "parent"]
    orders.actions.delete(["child", "parent"])
    with seriatim.pipelined() as pipeline:
        push(orders, "once")
        child = os.fork()
    if child == 0:
        os._exit(0 if pipeline.results == [] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert orders.metrics["length"] == 1


def test_r_pipe_8_tasks_push_for_themselves(orders: Any, mails: Any) -> None:
    async def other() -> Any:
        return await orders.aperform_async([{"id": "task"}])

    async def main() -> None:
        async with seriatim.apipelined() as pipeline:
            future = await orders.aperform_async([{"id": "own"}])
            await mails.aperform_async([{"id": "own"}])
            assert (await asyncio.create_task(other())).added == 1
            with pytest.raises(seriatim.Invalid, match=EARLY):
                _ = future.value
        assert [result.added for result in pipeline.results] == [1, 1]

    asyncio.run(main())
    assert waiting(orders) == ["own", "task"]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_r_pipe_1_client_middlewares_of_each_push_are_called(orders: Any, mails: Any, asynchronous: bool) -> None:
    seen: list[Any] = []

    def watch(worker: Any, jobs: Any, call_next: Any) -> Any:
        seen.append((worker.queue_name, [job["id"] for job in jobs]))
        return call_next() if jobs[0]["id"] != "dropped" else None

    seriatim.client_middlewares.append(watch)

    async def main() -> Any:
        async with seriatim.apipelined() as pipeline:
            await orders.aperform_async([{"id": 1}])
            await mails.aperform_async([{"id": "dropped"}])
        return pipeline

    if asynchronous:
        pipeline = asyncio.run(main())
    else:
        with seriatim.pipelined() as pipeline:
            push(orders, 1), push(mails, "dropped")
    assert seen == [("Orders", [1]), ("Mails", ["dropped"])]
    assert [result.added for result in pipeline.results] == [1]
    assert mails.metrics["length"] == 0


def test_r_pipe_9_the_strictest_options_hold_for_all(orders: Any, mails: Any) -> None:
    futures: list[Any] = []
    with pytest.raises(seriatim.NotReplicated, match="0 of 1 replicas"), seriatim.pipelined() as pipeline:
        futures.append(push(orders, 1))
        futures.append(mails.perform_async([{"id": 1}], wait_replicas=1, wait_timeout=0.2))
    assert [result.added for result in pipeline.results] == [1, 1]
    for future in futures:
        with pytest.raises(seriatim.NotReplicated) as raised:
            _ = future.value
        assert raised.value.result.added == 1
    with seriatim.pipelined() as pipeline:
        push(orders, 7)
        mails.perform_async([{"id": 7}], handle=True)
    assert [len(result.handles) for result in pipeline.results] == [0, 1]
    assert mails.actions.cancel(pipeline.results[1].handles[0]) is True


def test_f4_r_pipe_9_the_shortest_push_timeout_holds(orders: Any, mails: Any, redis: RedisServer) -> None:
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        with pytest.raises(seriatim.Error), seriatim.pipelined():
            push(orders, 1)
            future = mails.perform_async([{"id": 1}], push_timeout=0.4)
        assert 0.35 < time.monotonic() - before < 20
        with pytest.raises(seriatim.Error):
            _ = future.value
    finally:
        os.kill(redis.pid, signal.SIGCONT)


def test_r_pipe_3_a_queue_that_fails_leaves_the_others_alone(orders: Any, mails: Any, redis: RedisServer) -> None:
    orders.shards_count = mails.shards_count = 1
    redis.call("SET", "seriatim:{Orders/0}:jobs", "x")
    with pytest.raises(seriatim.RedisError, match="queue Orders: .*WRONGTYPE"), seriatim.pipelined():
        first, second = push(orders, 1), push(mails, 1)
    with pytest.raises(seriatim.RedisError, match="WRONGTYPE"):
        _ = first.value
    assert second.added == 1


def test_r_pipe_10_in_the_test_modes_pushes_are_kept_or_run_at_the_end(orders: Any) -> None:
    with testing.fake():
        with seriatim.pipelined() as pipeline:
            push(orders, 1)
            assert testing.jobs(orders) == []
        assert [job.id for job in testing.jobs(orders)] == ["1"]
        assert pipeline.results[0].added == 1
    with testing.inline():
        with seriatim.pipelined():
            push(orders, 2)
            assert orders.runs.empty()
        assert not orders.runs.empty()
