"""Chains around deliveries and pushes, sync and async in any mixture."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import re
import threading
import time
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import seriatim
from support.jobs import drained, eventually, runs, serve, worker

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def sync_link(name: str, trace: Queue[str]) -> Callable[..., Any]:
    def link(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
        trace.put(f"{name}-in")
        result = call_next()
        trace.put(f"{name}-out")
        return result

    return link


def async_link(name: str, trace: Queue[str]) -> Callable[..., Any]:
    async def link(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
        trace.put(f"{name}-in")
        result = await call_next()
        trace.put(f"{name}-out")
        return result

    return link


def all_of(trace: Queue[str]) -> list[str]:
    return [trace.get() for _ in range(trace.qsize())]


def async_nothing() -> Callable[..., Any]:
    async def perform(payloads_by_id: Any, batch: Any) -> None:
        await asyncio.sleep(0)

    return perform


@pytest.mark.parametrize("perform", [None, async_nothing()], ids=["def", "async def"])
@pytest.mark.parametrize("kinds", ["", "s", "a", "ss", "aa", "sa", "as", "sas", "asa"])
def test_r_middleware_1_the_first_is_outermost_whatever_its_kind(kinds: str, perform: Any) -> None:
    trace: Queue[str] = Queue()
    links = {"s": sync_link, "a": async_link}
    seriatim.server_middlewares = [links[kind](f"{place}{kind}", trace) for place, kind in enumerate(kinds)]
    recorder = worker("Middle", perform)
    serve(recorder)
    recorder.perform_async([{"id": 1, "payload": 2}])
    assert runs(recorder)[0].payloads == {"1": [2]}
    eventually(lambda: recorder.metrics["processed"] == 1)
    names = [f"{place}{kind}" for place, kind in enumerate(kinds)]
    assert all_of(trace) == [f"{name}-in" for name in names] + [f"{name}-out" for name in reversed(names)]


def test_many_deliveries_at_once_through_a_mixed_chain_do_not_wait_for_each_others_threads() -> None:
    trace: Queue[str] = Queue()
    seriatim.server_middlewares = [sync_link("a", trace), async_link("b", trace), sync_link("c", trace)]
    recorder = worker("Middle", async_nothing(), shards_count=1)
    recorder.perform_async([{"id": id} for id in range(200)])
    serve(recorder, threads=20)
    runs(recorder, 200)


@pytest.mark.parametrize("kinds", ["a", "asa"])
def test_as_many_def_performs_run_at_once_through_async_middlewares_as_there_are_threads(kinds: str) -> None:
    together = threading.Barrier(40)
    seriatim.server_middlewares = [{"s": sync_link, "a": async_link}[kind](kind, Queue()) for kind in kinds]
    recorder = worker("Middle", lambda payloads, batch: together.wait(60), shards_count=1)
    recorder.perform_async([{"id": id} for id in range(40)])
    serve(recorder, threads=40)
    runs(recorder, 40)
    assert not together.broken


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_time_limit_of_an_async_one_waits_for_the_end_of_a_thread_inside_of_it(kind: str) -> None:
    at_once, most = 0, 0

    async def limit(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
        return await asyncio.wait_for(call_next(), 0.1)

    def enter(step: int) -> None:
        nonlocal at_once, most
        at_once += step
        most = max(most, at_once)

    def sync_body(payloads: Any, batch: Any) -> None:
        enter(1)
        time.sleep(1)
        enter(-1)

    async def async_body(payloads: Any, batch: Any) -> None:
        enter(1)
        await asyncio.sleep(1)
        enter(-1)

    seriatim.server_middlewares = [limit] if kind == "def" else [limit, sync_link("inner", Queue())]
    recorder = worker("Limited", sync_body if kind == "def" else async_body)
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    runs(recorder)
    drained(recorder)
    assert (most, recorder.metrics["processed"], recorder.metrics["failed"]) == (1, 1, 0)


@pytest.mark.parametrize("others", [[], [worker("Sync")]], ids=["async workers only", "beside a def"])
def test_a_time_limit_of_an_async_one_ends_an_async_perform(others: list[Any]) -> None:
    async def limit(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
        return await asyncio.wait_for(call_next(), 0.1)

    async def body(payloads: Any, batch: Any) -> None:
        await asyncio.sleep(60)

    seriatim.server_middlewares = [limit, async_link("inner", Queue())]
    recorder = worker("Limited", body, max_retry_count=0)
    recorder.perform_async([{"id": 1}])
    serve(recorder, *others)
    [run] = runs(recorder)
    assert run.ended - run.started < 50
    eventually(lambda: recorder.metrics["morgue_length"] == 1)


@pytest.mark.parametrize("perform", [None, async_nothing()], ids=["def", "async def"])
def test_r_middleware_2_ids_are_done_where_one_does_not_continue_and_a_later_one_is_called(perform: Any) -> None:
    recorder = worker("Middle", perform)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    runs(recorder)
    seriatim.server_middlewares.append(lambda worker, batch, call_next: None)
    recorder.perform_async([{"id": 2}])
    eventually(lambda: recorder.metrics["processed"] == 2)
    assert recorder.runs.empty()


@pytest.mark.parametrize("perform", [None, async_nothing()], ids=["def", "async def"])
def test_one_that_raises_fails_the_ids(perform: Any) -> None:
    def refuse(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> None:
        call_next()
        raise PermissionError(f"not {worker.queue_name} {list(batch)}")

    seriatim.server_middlewares.append(refuse)
    recorder = worker("Middle", perform, retry_in=lambda self, count: 60)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    record = eventually(lambda: recorder.queries.range_by_retry_count(0, 0))[0]
    assert record["error"] == "not Middle ['1']"


def test_context_variables_reach_the_job_and_no_other_delivery() -> None:
    seen: Queue[tuple[str, str]] = Queue()

    @seriatim.on_server_init
    def before_all() -> None:
        variable.set("start")

    def sync_set(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
        seen.put(("middleware", variable.get()))
        variable.set(f"of {next(iter(batch))}")
        return call_next()

    async def perform(payloads_by_id: Any, batch: Any) -> None:
        seen.put(("async", variable.get()))
        variable.set("left over")

    def perform_sync(payloads_by_id: Any, batch: Any) -> None:
        seen.put(("sync", variable.get()))
        variable.set("left over")

    seriatim.server_middlewares = [sync_set]
    workers = [worker("Async", perform), worker("Sync", perform_sync)]
    serve(*workers, threads=1)
    for number in range(2):
        for recorder in workers:
            recorder.perform_async([{"id": number}])
            runs(recorder)
    found = [seen.get() for _ in range(8)]
    assert found == [
        (kind, value)
        for number in range(2)
        for kind, value in (
            ("middleware", "start"),
            ("async", f"of {number}"),
            ("middleware", "start"),
            ("sync", f"of {number}"),
        )
    ]


def test_r_middleware_3_client_middlewares_may_add_what_the_job_sees() -> None:
    def trace(worker: Any, jobs: list[dict[str, Any]], call_next: Callable[[], Any]) -> Any:
        for job in jobs:
            job["context"] = {"trace": f"{worker.queue_name}-{job['id']}"}
        return call_next()

    seen: Queue[Any] = Queue()
    seriatim.client_middlewares.append(trace)
    tracing = worker("Tracing", lambda payloads, batch: seen.put(batch.contexts(1)))
    assert tracing.perform_async([{"id": 1}]).added == 1
    serve(tracing)
    assert seen.get(timeout=60) == [{"trace": "Tracing-1"}]


def test_r_middleware_4_nothing_is_written_where_a_client_middleware_does_not_continue() -> None:
    recorder = worker()
    seriatim.client_middlewares.append(lambda worker, jobs, call_next: None)
    assert recorder.perform_async([{"id": 1}]) == seriatim.PushResult(0, 0, 0, [])
    assert asyncio.run(recorder.aperform_async([{"id": 1}])) == seriatim.PushResult(0, 0, 0, [])
    assert recorder.metrics["length"] == 0


def test_what_they_made_of_the_jobs_is_checked_again() -> None:
    def spoil(worker: Any, jobs: list[dict[str, Any]], call_next: Callable[[], Any]) -> Any:
        jobs[-1]["id"] = None
        return call_next()

    recorder = worker()
    seriatim.client_middlewares.append(spoil)
    with pytest.raises(seriatim.Invalid, match=r"jobs\[1\]: id"):
        recorder.perform_async([{"id": 1}, {"id": 2}])
    assert recorder.metrics["length"] == 0


def test_async_ones_need_an_async_push_and_sync_ones_do_not_block_its_loop() -> None:
    recorder = worker()
    threads: list[str] = []

    async def awaited(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        await asyncio.sleep(0)
        return await call_next()

    def blocking(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        threads.append(threading.current_thread().name)
        return call_next()

    seriatim.client_middlewares = [blocking, awaited, blocking]
    with pytest.raises(seriatim.Invalid, match=r"client_middlewares\[1\] is async: use aperform_async"):
        recorder.perform_async([{"id": 1}])
    assert asyncio.run(recorder.aperform_async([{"id": 1}])).added == 1
    assert len(threads) == 2 and threading.main_thread().name not in threads


def generates(worker: Any, subject: Any, call_next: Callable[[], Any]) -> Any:
    yield call_next()


async def generates_async(worker: Any, subject: Any, call_next: Callable[[], Any]) -> Any:
    yield await call_next()


@pytest.mark.parametrize("field", ["server_middlewares", "client_middlewares"])
@pytest.mark.parametrize("link", [generates, generates_async])
def test_refuses_a_generator_function(link: Any, field: str) -> None:
    text = rf"{field}\[0\] must not be a generator function \(with yield\), of which a call runs nothing$"
    with pytest.raises(seriatim.Invalid, match=text):
        setattr(seriatim, field, [link])


async def forgets_to_await(worker: Any, subject: Any, call_next: Callable[[], Any]) -> None:
    call_next()


async def leaves_a_task(worker: Any, subject: Any, call_next: Callable[[], Any]) -> None:
    asyncio.ensure_future(call_next())


async def returns_a_coroutine(worker: Any, subject: Any, call_next: Callable[[], Any]) -> Any:
    return call_next()


def returns_a_generator(worker: Any, subject: Any, call_next: Callable[[], Any]) -> Any:
    return (call_next() for _ in range(1))


NOT_AWAITED = r"{}_middlewares\[1\] must await what call_next\(\) gives"
UNFINISHED = [
    (forgets_to_await, NOT_AWAITED),
    (leaves_a_task, NOT_AWAITED),
    (returns_a_coroutine, NOT_AWAITED),
    (returns_a_generator, r"{}_middlewares\[1\] returned a generator, which nothing runs or awaits"),
]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("perform", [None, async_nothing()], ids=["def", "async def"])
@pytest.mark.parametrize(("link", "text"), UNFINISHED)
def test_the_ids_fail_where_one_does_not_finish_what_it_began(link: Any, text: str, perform: Any) -> None:
    seriatim.server_middlewares = [sync_link("outer", Queue()), link]
    recorder = worker("Middle", perform, max_retry_count=0)
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    [record] = eventually(lambda: recorder.queries.morgue_fetch([1]))
    assert re.search(text.format("server"), record["error"])
    gc.collect()  # here, where Python's warning of a coroutine is expected


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(("link", "text"), UNFINISHED)
def test_a_push_raises_where_one_does_not_finish_what_it_began(link: Any, text: str) -> None:
    seriatim.client_middlewares = [sync_link("outer", Queue()), link]
    recorder = worker()
    with pytest.raises(seriatim.Invalid, match=text.format("client")):
        asyncio.run(recorder.aperform_async([{"id": 1}]))
    gc.collect()
