"""The test modes of applications: fake, inline, and a batch to call perform with. No Redis is asked."""

from __future__ import annotations

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
import seriatim
import seriatim.web
from seriatim import Invalid, testing
from support.jobs import worker

PAID = {"status": "paid"}
NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture(autouse=True)
def nowhere(settings: None) -> Iterator[None]:
    seriatim.redis = NOWHERE
    yield
    testing.set_mode("disable")


@pytest.fixture
def fake() -> Iterator[None]:
    with testing.fake():
        yield


def given(one: Any) -> list[dict[str, list[Any]]]:
    return [one.runs.get_nowait().payloads for _ in range(one.runs.qsize())]


def ids(one: Any) -> list[Any]:
    return [job.id for job in testing.jobs(one)]


# ---- fake


def test_r_test_4_pushes_wait_folded_and_in_order_until_drain(fake: None) -> None:
    orders = worker("Orders", batch_size=2)
    result = orders.perform_async([{"id": 1, "payload": PAID}, {"id": 1, "payload": 2, "score": 5}, {"id": 1, "payload": PAID}])
    assert result[:6] == (1, 2, 0, [], 0, 0)
    first, second = testing.jobs(orders)
    assert first[:3] == ("1", 2, 5.0) and first[4:] == ("waiting", -1, {}, None)
    assert second[:3] == ("1", PAID, None)
    assert given(orders) == []
    assert testing.drain(orders) == 1
    assert given(orders) == [{"1": [2, PAID]}]
    assert testing.jobs(orders) == []


def test_r_test_4_runs_by_time_what_is_due_by_then_or_all(fake: None) -> None:
    orders, now = worker(), time.time()
    orders.perform_async([{"id": "late", "delay": 7200}, {"id": "soon", "deliver_in": 60}, {"id": "now"}])
    assert testing.drain(orders, at=now + 30) == 1
    assert testing.drain(orders, at=datetime.now(timezone.utc) + timedelta(hours=1)) == 1
    assert ids(orders) == ["late"]
    assert testing.perform_one(orders) is True
    assert testing.perform_one(orders) is False
    assert [id for run in given(orders) for id in run] == ["now", "soon", "late"]
    with pytest.raises(Invalid, match="at must be a datetime"):
        testing.drain(orders, at="soon")  # type: ignore[arg-type]


def test_r_test_4_what_is_due_runs_while_the_clock_stands_still(fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = worker()
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    for id in range(3):
        orders.perform_async([{"id": id}])
    orders.perform_async([{"id": "later", "delay": 1}])
    assert testing.drain(orders, at=time.time()) == 3
    assert testing.drain(orders, at=time.time() + 1) == 1


def test_r_test_5_a_failure_is_recorded_then_raised_and_raises_false_goes_on_to_the_morgue(fake: None) -> None:
    told: list[Any] = []

    def fail(payloads: Any, batch: Any) -> None:
        raise OSError("no")

    orders = worker("Failing", fail, max_retry_count=2, retries_exhausted=lambda self, jobs: told.extend(jobs))
    orders.perform_async([{"id": 1, "payload": PAID}])
    with pytest.raises(OSError, match="no"):
        testing.drain(orders)
    [waiting] = testing.jobs(orders)
    assert (waiting.retry_count, waiting.error, waiting.state) == (0, "no", "waiting")
    assert testing.drain(orders, raises=False) == 2
    assert testing.jobs(orders) == []
    [dead] = testing.dead_jobs(orders)
    assert (dead.id, dead.payload, dead.error, dead.state) == ("1", PAID, "no", "dead")
    [job] = told
    assert (job["id"], job["payloads"][0][0], job["error"]) == ("1", PAID, "no")
    with pytest.raises(Invalid, match="raises must be True or False"):
        testing.drain(orders, raises=1)  # type: ignore[arg-type]


def test_r_test_5_waits_as_retry_in_says_and_an_id_that_was_reported_raises_too(fake: None) -> None:
    orders = worker("Reported", lambda payloads, batch: batch.fail("1", "bad 1"), retry_in=lambda self, count: 600)
    orders.perform_async([{"id": 1}])
    with pytest.raises(seriatim.Error, match="bad 1"):
        testing.perform_one(orders)
    assert testing.drain(orders, at=time.time() + 500) == 0
    with pytest.raises(seriatim.Error):
        testing.drain(orders, at=time.time() + 700)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_r_test_5_what_ends_a_test_reaches_it(fake: None, kind: type[BaseException]) -> None:
    def end(payloads: Any, batch: Any) -> None:
        raise kind()

    orders = worker("Ended", end)
    orders.perform_async([{"id": 1}])
    with pytest.raises(kind):
        testing.drain(orders)


@pytest.mark.parametrize("report", [lambda batch: batch.done("1"), lambda batch: batch.fail("1", "no")], ids=["done", "failed"])
def test_r_test_5_an_interrupt_reaches_the_test_though_each_id_has_an_outcome(fake: None, report: Any) -> None:
    def perform(payloads: Any, batch: Any) -> None:
        report(batch)
        raise KeyboardInterrupt

    orders = worker("Ended", perform)
    orders.perform_async([{"id": 1}])
    with pytest.raises(KeyboardInterrupt):
        testing.drain(orders, raises=False)
    assert orders.runs.qsize() == 1


def test_r_test_6_both_chains_of_middlewares_run_and_the_batch_is_as_a_servers(fake: None) -> None:
    seen: list[Any] = []

    def mark(worker: Any, jobs: Any, call_next: Any) -> None:
        for job in jobs:
            job["context"] = {"by": "test"}
        call_next()

    def see(worker: Any, batch: Any, call_next: Any) -> None:
        seen.extend([worker, batch.contexts("1")])
        call_next()

    def perform(payloads: Any, batch: Any) -> None:
        seen.extend([batch.scores("1"), batch.retry_count("1"), batch.fence("1") > 0, 0 <= batch.shard < 5])
        batch.checkpoint("1", 1)
        batch.flush()
        with pytest.raises(Invalid, match="checkpoint of 3 payloads: the id has 2 in this batch"):
            batch.checkpoint("1", 3)
        batch.snooze("1", 60, payload="again")

    seriatim.client_middlewares = [mark]
    seriatim.server_middlewares = [see]
    orders = worker("Batched", perform, fold="list")
    orders.perform_async([{"id": 1, "payload": 1, "score": 1}, {"id": 1, "payload": 2, "score": 2}])
    testing.perform_one(orders)
    assert seen == [orders, [{"by": "test"}] * 2, [1.0, 2.0], -1, True, True]
    [left] = testing.jobs(orders)
    assert (left.payload, left.score, left.context) == ("again", 2.0, {"by": "test"})


def test_r_test_6_what_is_pushed_while_the_id_runs_waits_for_its_next_run(fake: None) -> None:
    def perform(payloads: Any, batch: Any) -> None:
        if payloads["1"] == ["first"]:
            orders.perform_async([{"id": 1, "payload": "second"}])

    orders = worker("Again", perform)
    orders.perform_async([{"id": 1, "payload": "first"}])
    assert testing.drain(orders) == 2
    assert given(orders) == [{"1": ["first"]}, {"1": ["second"]}]


def test_r_test_6_a_decorated_function_is_a_worker(fake: None) -> None:
    runs: list[Any] = []

    @seriatim.worker(max_retry_count=1)
    def mail(payloads_by_id: Any) -> None:
        runs.append(payloads_by_id)

    mail.perform_async([{"id": 1, "payload": PAID}])
    assert [job.payload for job in testing.pushed(mail)] == [PAID]
    assert testing.drain(mail) == 1
    assert runs == [{"1": [PAID]}]


def test_r_test_6_handlers_of_events_run(fake: None) -> None:
    heard: list[Any] = []
    events = seriatim.events("Tested")
    events.enqueue("paid", id="1", event=PAID)
    paid = events.worker("paid")

    def waits(id: str) -> None:
        assert (testing.drain(), testing.drain(paid), testing.perform_one(paid)) == (0, 0, False), "it has no handler"
        assert [(job.id, job.retry_count) for job in testing.jobs(paid)] == [(id, -1)]

    waits("1")
    events.on("paid", lambda event, context: heard.append(event) or True)
    assert testing.drain(paid) == 1
    with testing.inline():
        events.enqueue("paid", id="2", event=2)
        events.off("paid")
        events.enqueue("paid", id="3", event=3)
    events.enqueue("paid", id="4", event=4)
    waits("4")
    assert heard == [PAID, 2]


def test_r_test_7_cancels_and_reschedules_by_handle(fake: None) -> None:
    orders = worker()
    first, second = orders.perform_async([{"id": 1, "deliver_in": 60}, {"id": 2, "deliver_in": 60}]).handles
    assert orders.actions.cancel(first) is True
    assert orders.actions.cancel(first) is False
    assert orders.actions.reschedule(second, time.time() + 3600) is True
    assert [job.state for job in testing.jobs(orders)] == ["scheduled"]
    assert testing.drain(orders, at=time.time() + 600) == 0
    assert testing.drain(orders) == 1


def test_r_test_8_wrong_jobs_and_payloads_are_refused_as_by_a_push(fake: None) -> None:
    orders = worker()
    for job, message in (
        ({"id": 2, "payload": object()}, r"jobs\[1\].payload"),
        ({"id": 1, "perform_in": 60}, r"60 is in 1970; for seconds from now use deliver_in \(this payload\) or delay \(its id\)"),
        ({"id": ""}, r"jobs\[1\]: id is empty"),
        ({"id": 1, "scor": 1}, "unknown key 'scor'"),
        ({"id": 1, "payload": "x" * 2_000_000}, "1048576"),
    ):
        with pytest.raises(Invalid, match=message):
            orders.perform_async([{"id": 1}, job])
    assert testing.jobs(orders) == [] and testing.pushed() == []


def test_r_test_8_what_the_codec_raises_is_raised_and_the_payload_is_dead(fake: None) -> None:
    def load(data: bytes) -> Any:
        raise OSError("unreadable")

    orders = worker("Broken", codec=(str, load))
    orders.perform_async([{"id": 1, "payload": 7}])
    with pytest.raises(OSError, match="unreadable"):
        testing.drain(orders)
    [dead] = testing.dead_jobs(orders)
    assert dead.payload == b"7" and "unreadable" in str(dead.error)


@pytest.mark.parametrize("mode", [testing.fake, testing.inline])
def test_r_test_9_what_needs_redis_is_refused_by_name(mode: Any) -> None:
    with mode():
        _refuse_what_needs_redis()


def _refuse_what_needs_redis() -> None:
    one = worker()
    popped = seriatim.delivery("AUMZhfhbqRHsQxmF-Fun1QxB2sNdQZ4C9wAAAAAAAAAAAAEACABSZWNvcmRlcjE")
    for call, name in (
        (lambda: one.metrics, "metrics"),
        (lambda: one.queries.fetch([1]), "query"),
        (lambda: one.queries.range_by_deliver_at("-inf", "+inf"), "query"),
        (lambda: one.queries.explain(1), "explain"),
        (lambda: one.queue.shards_count, "layout"),
        (lambda: one.actions.pause(), "the action pause"),
        (lambda: one.actions.check(), "check"),
        (seriatim.nodes, "nodes"),
        (lambda: seriatim.quiet_node("a"), "node_command"),
        (lambda: seriatim.stop_node("a"), "node_command"),
        (lambda: seriatim.pop("Recorder", wait=0), "pop"),
        (lambda: asyncio.run(seriatim.apop("Recorder", wait=0)), "apop"),
        (popped.ack, "a report on a delivery"),
        (lambda: asyncio.run(popped.aack()), "a report on a delivery"),
        (lambda: seriatim.Ick().ickstats("a"), "ick"),
        (lambda: seriatim.Ick("redis://127.0.0.1:1").ickstats("a"), "ick"),
        (lambda: seriatim.Server(workers=[one]).start(), "a server"),
    ):
        with pytest.raises(Invalid, match=f"{name} needs Redis"):
            call()


def test_r_test_9_the_dashboard_reaches_no_redis(fake: None, caplog: pytest.LogCaptureFixture) -> None:
    environ: dict[str, Any] = {}
    setup_testing_defaults(environ)
    environ["PATH_INFO"] = "/api/v1/stats"
    statuses: list[str] = []
    list(seriatim.web.wsgi_app()(environ, lambda status, headers: statuses.append(status)))
    assert statuses == ["500 Internal Server Error"]
    assert "the dashboard needs Redis, and a mode of seriatim.testing has turned it off here" in caplog.text


def test_r_test_9_clears_and_drains_all_workers_in_order_of_time(fake: None) -> None:
    first = worker("First")
    second = worker("Second", lambda payloads, batch: first.perform_async([{"id": "more"}]))
    first.perform_async([{"id": 1, "delay": 60}])
    second.perform_async([{"id": 2}])
    assert testing.drain() == 3
    assert [job.id for job in testing.pushed()] == ["1", "2", "more"]
    second.perform_async([{"id": 3}])
    first.perform_async([{"id": 3}])
    testing.clear(second)
    assert ids(second) == [] and ids(first) == ["3"]
    assert [job.id for job in testing.pushed(second)] == []
    testing.clear()
    assert ids(first) == [] and testing.pushed() == []


def test_r_test_9_settings_may_change_after_the_push(fake: None) -> None:
    orders = worker("Changed")
    orders.perform_async([{"id": 1}])
    orders.max_retry_count = 7
    assert testing.drain() == 1


def test_r_test_17_pushed_holds_what_was_asked_for(fake: None) -> None:
    orders, now = worker("Asked"), time.time()
    orders.perform_async([
        {"id": 1, "payload": PAID, "score": 3, "context": {"a": "b"}, "on_waiting": "later"},
        {"id": b"\xff", "delay": 60},
        {"id": 1, "on_waiting": "reject"},
        {"id": 3, "deliver_at": now + 1000},
    ])
    one, two, three = testing.pushed(orders)
    assert one[:7] == ("Asked", "1", PAID, 3.0, None, {"a": "b"}, "later")
    assert two.id == b"\xff" and two.time == two.at + 60 and two.at >= now
    assert (two.payload, two.score, two.context, two.on_waiting) == ("", None, {}, None)
    assert three.time == now + 1000


@pytest.mark.parametrize("mode", [testing.fake, testing.inline])
def test_r_test_17_pushed_reads_an_event_whose_type_has_no_handler(mode: Any) -> None:
    events = seriatim.events("Unheard")
    with mode():
        events.enqueue("paid", id="1", event=PAID)
        seriatim.load_payload = lambda data: {"loaded": data}
        events.enqueue("paid", id="2", event=2)
        assert [job.payload for job in testing.pushed()] == [PAID, {"loaded": b"2"}]


# ---- modes and blocks


def test_r_test_10_a_block_is_of_its_thread_and_blocks_nest() -> None:
    orders = worker()
    seen: list[Any] = []

    def elsewhere() -> None:
        try:
            seen.append(ids(orders))
        except Invalid as error:
            seen.append(str(error))

    with testing.fake():
        orders.perform_async([{"id": 1}])
        with testing.fake():
            assert ids(orders) == []
        with testing.inline():
            orders.perform_async([{"id": 2}])
        assert ids(orders) == ["1"]
        with pytest.raises(Invalid, match="set_mode is for the whole process"):
            testing.set_mode("fake")
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    testing.set_mode("fake")
    orders.perform_async([{"id": 3}])
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "testing.fake()" in seen[0] and seen[1] == ["3"]
    assert given(orders) == [{"2": [""]}]
    with pytest.raises(Invalid, match="mode must be one of fake, inline, disable"):
        testing.set_mode("wrong")  # type: ignore[arg-type]


def test_r_test_10_a_block_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), testing.fake():
        raise KeyError
    with pytest.raises(Invalid, match="no mode is on"):
        testing.pushed()


def test_r_test_10_disable_uses_redis(redis: Any) -> None:
    with testing.fake(), testing.disable():
        seriatim.redis = redis.url
        one = worker("Real")
        one.perform_async([{"id": 1}])
        assert one.metrics["length"] == 1


def test_r_test_10_blocks_of_tasks_end_in_any_order() -> None:
    orders = worker()

    async def task(number: int, mine: asyncio.Event, others: asyncio.Event) -> None:
        with testing.fake():
            await orders.aperform_async([{"id": number}])
            mine.set()
            await others.wait()
            assert ids(orders) == [str(number)]

    async def both() -> None:
        first, second, never = asyncio.Event(), asyncio.Event(), asyncio.Event()
        tasks = [asyncio.create_task(task(1, first, second)), asyncio.create_task(task(2, second, first))]
        await asyncio.gather(*tasks)
        assert not never.is_set()

    asyncio.run(both())
    with pytest.raises(Invalid, match="no mode is on"):
        testing.pushed()


def test_r_test_10_an_async_test_runs_in_a_context_that_is_older_than_the_block() -> None:
    """As frameworks do whose event loop outlives a test."""
    orders = worker()

    async def push() -> list[Any]:
        await orders.aperform_async([{"id": 1}])
        return ids(orders)

    older = contextvars.copy_context()
    for _ in range(2):
        with testing.fake():
            assert older.run(asyncio.run, push()) == ["1"]
            older = contextvars.copy_context()


# ---- inline


def test_r_test_11_inline_runs_each_push_at_once_and_errors_reach_the_caller() -> None:
    def perform(payloads: Any, batch: Any) -> None:
        if "bad" in payloads:
            raise OSError("no")

    orders = worker("Inline", perform, batch_size=10)
    with testing.inline():
        result = orders.perform_async([{"id": 1, "payload": 1, "delay": 60}, {"id": 1, "payload": 2}, {"id": 2, "deliver_in": 60}])
        assert (result.added, result.folded, result.scheduled) == (1, 1, 1)
        with pytest.raises(OSError, match="no"):
            orders.perform_async([{"id": "bad"}])
        assert [job.id for job in testing.pushed(orders)] == ["1", "1", "2", "bad"]
        with pytest.raises(Invalid, match="not kept in memory"):
            testing.jobs(orders)
    every: dict[str, Any] = {}
    for run in given(orders):
        every.update(run)
    assert every == {"1": [1, 2], "2": [""], "bad": [""]}


def test_r_test_11_an_id_runs_once_for_each_inline_push_though_it_is_snoozed_or_has_failed() -> None:
    def perform(payloads: Any, batch: Any) -> None:
        if "bad" in payloads:
            batch.fail("bad", "no")
        else:
            batch.snooze("1", 0.001)

    orders = worker("Once", perform)
    with testing.inline():
        for _ in range(2):
            orders.perform_async([{"id": 1}])
        with pytest.raises(seriatim.Error, match="no"):
            orders.perform_async([{"id": "bad"}])
    assert [list(run) for run in given(orders)] == [["1"], ["1"], ["bad"]]


def test_r_test_11_an_id_runs_once_for_each_inline_push_though_it_is_snoozed_for_0_seconds() -> None:
    def perform(payloads: Any, batch: Any) -> None:
        assert orders.runs.qsize() < 3, "it runs again and again"
        batch.snooze("1", 0)

    async def push() -> None:
        await orders.aperform_async([{"id": 1}])

    orders = worker("Once", perform)
    with testing.inline():
        orders.perform_async([{"id": 1}])
        asyncio.run(push())
    assert [list(run) for run in given(orders)] == [["1"], ["1"]]


def test_r_test_11_clear_forgets_what_was_pushed_inline() -> None:
    orders, others = worker("Orders"), worker("Others")
    with testing.inline():
        for each in (orders, others):
            each.perform_async([{"id": 1}])
        testing.clear(orders)
        assert [job.queue for job in testing.pushed()] == ["Others"]
        testing.clear()
        assert testing.pushed() == []
    for call in (testing.clear, lambda: testing.clear(orders)):
        with pytest.raises(Invalid, match="no mode is on"):
            call()


# ---- async


async def wait(payloads: Any, batch: Any) -> None:
    await asyncio.sleep(0)


def test_r_test_15_drain_runs_async_workers_hooks_and_middlewares(fake: None) -> None:
    async def see(worker: Any, batch: Any, call_next: Any) -> None:
        loops.append(asyncio.get_running_loop())
        await call_next()

    loops: list[Any] = []
    seriatim.server_middlewares = [see]
    orders = worker("Async", wait)
    orders.perform_async([{"id": 1}])
    orders.perform_async([{"id": 2}])
    assert testing.drain(orders) in (1, 2)
    assert all(loop is loops[0] for loop in loops) and loops[0].is_closed()
    assert {id for run in given(orders) for id in run} == {"1", "2"}


def test_r_test_15_adrain_runs_async_code_on_the_loop_and_other_code_on_threads(fake: None) -> None:
    seen: list[Any] = []

    async def perform(payloads: Any, batch: Any) -> None:
        await batch.aflush()
        seen.append(asyncio.get_running_loop())
        await plain.aperform_async([{"id": "from async"}])

    async def fail(payloads: Any, batch: Any) -> None:
        raise OSError("no")

    async def later(self: Any, count: int) -> float:
        return 600.0

    orders = worker("Async", perform)
    plain = worker("Plain", lambda payloads, batch: seen.append(threading.current_thread()))
    failing = worker("Failing", fail, retry_in=later)

    async def test() -> None:
        await orders.aperform_async([{"id": 1}])
        assert await testing.adrain(orders) == 1
        assert await testing.aperform_one(plain) is True
        assert await testing.aperform_one(plain) is False
        assert seen[0] is asyncio.get_running_loop() and seen[1] is not threading.current_thread()
        await failing.aperform_async([{"id": 1}])
        with pytest.raises(OSError, match="no"):
            await testing.adrain()
        assert await testing.adrain(at=time.time() + 500) == 0
        assert await testing.adrain(raises=False) > 1
        assert [job.id for job in testing.dead_jobs(failing)] == ["1"]
        await orders.aperform_async([{"id": 2}])
        with pytest.raises(Invalid, match="use adrain"):
            testing.drain(orders)

    asyncio.run(test())


def test_r_test_15_inline_awaits_async_workers() -> None:
    orders, plain = worker("Async", wait), worker("Plain")

    async def test() -> None:
        await orders.aperform_async([{"id": 1}])
        await plain.aperform_async([{"id": 2}])
        plain.perform_async([{"id": 3}])
        with pytest.raises(Invalid, match="aperform_async"):
            orders.perform_async([{"id": 4}])

    with testing.inline():
        asyncio.run(test())
        orders.perform_async([{"id": 5}])
    assert [list(run) for run in given(orders)] == [["1"], ["5"]]
    assert [list(run) for run in given(plain)] == [["2"], ["3"]]


@pytest.mark.parametrize("chain", ["d", "dad", "ada"], ids=", ".join)
def test_r_test_15_many_inline_pushes_at_once_do_not_wait_for_each_others_threads(chain: str) -> None:
    def link(worker: Any, batch: Any, call_next: Any) -> Any:
        return call_next()

    async def async_link(worker: Any, batch: Any, call_next: Any) -> Any:
        return await call_next()

    seriatim.server_middlewares = [link if kind == "d" else async_link for kind in chain]
    awaiting, plain = worker("Async", wait), worker("Plain")

    async def test() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        pushes = [one.aperform_async([{"id": id}]) for id in range(20) for one in (awaiting, plain)]
        await asyncio.wait_for(asyncio.gather(*pushes), 60)

    with testing.inline():
        asyncio.run(test())
    assert awaiting.runs.qsize() == plain.runs.qsize() == 20


@pytest.mark.parametrize("raises", [True, False])
def test_r_test_15_adrain_ends_when_it_is_cancelled_while_a_thread_runs(fake: None, raises: bool) -> None:
    def perform(payloads: Any, batch: Any) -> None:
        time.sleep(0.01)
        if orders.runs.qsize() < 200:
            batch.snooze("1", 60)

    orders = worker("Snoozing", perform)
    orders.perform_async([{"id": 1}])

    async def test() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(testing.adrain(orders, raises=raises), 0.1)

    asyncio.run(test())
    [job] = testing.jobs(orders)
    assert (job.state, job.retry_count) == ("waiting", -1)


@pytest.mark.parametrize("mode", [testing.fake, testing.inline])
def test_r_test_15_a_batch_whose_wait_is_cancelled_runs_to_its_end_on_its_thread(mode: Any) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def perform(payloads: Any, batch: Any) -> None:
        begun.set()
        may_end.wait(60)

    async def run() -> None:
        await orders.aperform_async([{"id": 1}])
        if mode is testing.fake:
            await testing.aperform_one(orders)

    async def test() -> None:
        task = asyncio.create_task(run())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0.05)
        assert not task.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    orders = worker("Slow", perform)
    with mode():
        asyncio.run(test())
        assert [list(run) for run in given(orders)] == [["1"]]
        if mode is testing.fake:
            assert testing.jobs(orders) == []


def test_r_test_15_a_cancellation_is_told_to_async_code_and_raised_after_its_outcome(fake: None) -> None:
    async def sleep(payloads: Any, batch: Any) -> None:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            raise OSError("no time") from None

    told: list[Any] = []
    orders = worker("Sleeping", sleep, max_retry_count=1, retries_exhausted=lambda self, jobs: told.extend(jobs))

    async def test() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(testing.adrain(raises=False), 0.1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(testing.aperform_one(orders), 0.1)

    orders.perform_async([{"id": 1}])
    asyncio.run(test())
    assert [job["error"] for job in told] == ["no time"]
    assert [job.id for job in testing.dead_jobs(orders)] == ["1"]


# ---- a batch


def test_r_test_12_a_batch_remembers_what_perform_reported() -> None:
    def perform(payloads: Any, batch: Any) -> None:
        batch.checkpoint(1, 1)
        batch.snooze(1, 60)
        batch.fail(2, "no")
        batch.done("3")
        batch.extend(5)
        batch.flush()

    orders = worker("Direct", perform, fold="list")
    batch = testing.batch(orders, {1: [PAID, 2], 2: [3], 3: []}, retry_count=4, error="before", contexts={2: [{"a": "b"}]})
    orders().perform(dict(batch), batch)
    assert dict(batch) == {"1": [PAID, 2], "2": [3], "3": []}
    assert (batch.checkpoints, batch.snoozed, batch.failed) == ({"1": 1}, {"1": 60.0}, {"2": "no"})
    assert (batch.finished, batch.extended) == (["3"], 5.0)
    assert (batch.retry_count(1), batch.scores(1), batch.contexts(2), batch.error(3)) == (4, [1.0, 2.0], [{"a": "b"}], "before")
    with pytest.raises(Invalid, match="the id has 2"):
        batch.checkpoint(1, 3)
    with pytest.raises(Invalid, match="payload is 1048577 bytes long"):
        batch.snooze(1, 0, payload="x" * 1_048_575)
    assert testing.batch(orders, {1: [1]}, scores={"1": [9]}).scores("1") == [9.0]


# ---- pytest


def test_r_test_16_the_fixtures_hold_a_mode_for_one_test(tmp_path: Path) -> None:
    (tmp_path / "test_shop.py").write_text(
        """
import seriatim

RUNS = []

@seriatim.worker()
def mail(payloads_by_id):
    RUNS.append(payloads_by_id)

def test_fake(seriatim_fake):
    mail.perform_async([{"id": 1, "payload": "a"}])
    assert [job.payload for job in seriatim_fake.pushed(mail)] == ["a"]
    assert RUNS == [] and seriatim_fake.drain() == 1

def test_another(seriatim_fake):
    assert seriatim_fake.pushed() == []

def test_inline(seriatim_inline):
    mail.perform_async([{"id": 2, "payload": "b"}])
    assert RUNS == [{"1": ["a"]}, {"2": ["b"]}]
"""
    )
    environment = {**os.environ, "REDIS_URL": NOWHERE}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "seriatim_pytest", "test_shop.py"]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.mark.parametrize("error", [None, 5])
def test_a_batch_refuses_an_error_that_is_neither_an_exception_nor_a_text(error: Any) -> None:
    class Failing(seriatim.Worker):
        def perform(self, payloads_by_id: Any, batch: seriatim.Batch) -> None: ...

    with pytest.raises(seriatim.Invalid, match="^error must be an exception or a str, not "):
        testing.batch(Failing, {1: ["a"]}).fail(1, error)


def test_a_batch_for_a_test_is_made_of_a_dict() -> None:
    class Failing(seriatim.Worker):
        def perform(self, payloads_by_id: Any, batch: seriatim.Batch) -> None: ...

    with pytest.raises(seriatim.Invalid, match="^payloads_by_id must be a dict from id to payloads, not None$"):
        testing.batch(Failing, None)  # type: ignore[arg-type]
