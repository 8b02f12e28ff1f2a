"""async def performs, beside def ones and alone."""

from __future__ import annotations

import asyncio
import threading
import time
import traceback
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest

import seriatim
from seriatim._server.event_loop import LoopThread
from support.jobs import eventually, runs, serve, worker


def test_a_thousand_jobs_that_await_100_ms_200_at_once() -> None:
    at_once, most, ended = 0, 0, 0
    together = asyncio.Event()

    class Sleeper(seriatim.Worker):
        queue_name = "Sleeper"

        async def perform(self, payloads_by_id: Any) -> None:
            nonlocal at_once, most, ended
            at_once += 1
            most = max(most, at_once)
            if at_once == 200:
                together.set()
            await together.wait()
            await asyncio.sleep(0.1)
            at_once -= 1
            ended += 1

    Sleeper.perform_async([{"id": id} for id in range(1000)])
    before = threading.active_count()
    server = serve(Sleeper, threads=200)
    eventually(lambda: ended == 1000, 60)  # 0.7 s on an idle machine; one after another they would take 100
    assert most == 200
    assert threading.active_count() < before + 20
    assert server.stats()["running"] <= 200


def test_def_and_async_def_in_one_server_never_more_at_once_than_threads() -> None:
    lock, at_once, most = threading.Lock(), 0, 0

    def enter(step: int) -> None:
        nonlocal at_once, most
        with lock:
            at_once += step
            most = max(most, at_once)

    async def async_body(payloads: Any, batch: Any) -> None:
        enter(1)
        await asyncio.sleep(0.02)
        enter(-1)

    def sync_body(payloads: Any, batch: Any) -> None:
        enter(1)
        time.sleep(0.02)
        enter(-1)

    both = [worker("Async", async_body), worker("Sync", sync_body)]
    for recorder in both:
        recorder.perform_async([{"id": id} for id in range(30)])
    serve(*both, threads=4)
    for recorder in both:
        runs(recorder, 30)
    assert 2 <= most <= 4


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), SystemExit("bad"), KeyboardInterrupt("bad"), asyncio.CancelledError("bad"), GeneratorExit("bad")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_f9_an_exception_of_any_class_is_a_failure_and_the_server_goes_on(error: BaseException, kind: str) -> None:
    async def async_body(payloads: Any, batch: Any) -> None:
        if "1" in payloads:
            raise error

    def sync_body(payloads: Any, batch: Any) -> None:
        if "1" in payloads:
            raise error

    recorder = worker("Any", sync_body if kind == "def" else async_body, retry_in=lambda self, count: 60)
    server = serve(recorder, threads=1)
    recorder.perform_async([{"id": 1}])
    record = eventually(lambda: recorder.queries.range_by_retry_count(0, 0))[0]
    assert record["error"] == "bad"
    recorder.perform_async([{"id": 2}])
    runs(recorder, 2)
    assert server.stop()


async def passes_on(worker: Any, batch: seriatim.Batch, call_next: Callable[[], Any]) -> Any:
    return await call_next()


@pytest.mark.parametrize("error_class", [TimeoutError, asyncio.CancelledError])
@pytest.mark.parametrize("others", [[], [worker("Sync")]], ids=["of the same kind", "beside a def"])
@pytest.mark.parametrize("kind", ["def inside of an async def", "async def"])
def test_format_error_gets_the_exception_itself(kind: str, others: list[Any], error_class: type[BaseException]) -> None:
    error = error_class("bad")
    seen: Queue[Any] = Queue()

    async def async_body(payloads: Any, batch: Any) -> None:
        raise error

    def sync_body(payloads: Any, batch: Any) -> None:
        raise error

    def format_error(raised: BaseException) -> str:
        names = [frame.name for frame in traceback.extract_tb(raised.__traceback__)]
        seen.put((raised, names[-1]))
        return "kept"

    seriatim.format_error = format_error
    if kind != "async def":
        seriatim.server_middlewares = [passes_on]
    recorder = worker("Raising", async_body if kind == "async def" else sync_body, max_retry_count=0)
    serve(recorder, *others)
    recorder.perform_async([{"id": 1}])
    raised, place = seen.get(timeout=60)
    assert raised is error
    assert place == ("async_body" if kind == "async def" else "sync_body")


def test_a_def_that_returns_a_coroutine_is_awaited() -> None:
    done: Queue[str] = Queue()

    async def inner() -> None:
        await asyncio.sleep(0)
        done.put("awaited")

    recorder = worker("Wrapped")
    recorder.perform = lambda self, payloads_by_id: inner()
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    assert done.get(timeout=60) == "awaited"
    eventually(lambda: recorder.metrics["processed"] == 1)


def test_async_workers_have_batch_outcomes_and_hooks() -> None:
    told: Queue[Any] = Queue()

    async def body(payloads: Any, batch: seriatim.Batch) -> None:
        batch.fail("a", "only a")
        batch.done("b")
        raise RuntimeError("the rest")

    async def retry_in(self: Any, count: int) -> float:
        await asyncio.sleep(0)
        return 60

    async def retries_exhausted(self: Any, jobs: list[Any]) -> None:
        told.put(jobs)

    members = {"retry_in": retry_in, "retries_exhausted": retries_exhausted, "batch_size": 10, "shards_count": 1}
    recorder = worker("Outcomes", body, **members)
    recorder.perform_async([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    serve(recorder)
    runs(recorder)
    eventually(lambda: recorder.metrics["length"] == 2)
    records = recorder.queries.fetch(["a", "b", "c"])
    assert [(record["id"], record["error"]) for record in records] == [("a", "only a"), ("c", "the rest")]
    assert records[0]["perform_in"] == pytest.approx(time.time() + 60, abs=30)

    recorder.max_retry_count = 0
    dying = worker("Dying", body, max_retry_count=0, **members)
    serve(dying)
    dying.perform_async([{"id": "a"}, {"id": "b"}])
    assert [job["error"] for job in told.get(timeout=60)] == ["only a"]


def test_f12_async_workers_read_their_codec_and_survive_unreadable_payloads() -> None:
    seen: Queue[Any] = Queue()

    async def body(payloads: Any, batch: Any) -> None:
        seen.put(payloads)

    raw = worker("Coded", codec="raw")
    coded = worker("Coded", body)
    raw.perform_async([{"id": 1, "payload": b'{"a":1}'}, {"id": 2, "payload": b"{"}])
    serve(coded)
    assert seen.get(timeout=60) == {"1": [{"a": 1}]}
    dead = eventually(lambda: coded.queries.morgue_fetch([2]))[0]
    assert dead["payloads"][0][0] == b"{" and "undecodable payload" in dead["error"]


def test_on_server_init_may_be_async_and_shares_the_loop_with_the_jobs() -> None:
    loops: Queue[object] = Queue()

    @seriatim.on_server_init
    async def connect() -> None:
        loops.put(asyncio.get_running_loop())

    async def body(payloads: Any, batch: Any) -> None:
        loops.put(asyncio.get_running_loop())

    recorder = worker("Loop", body)
    serve(recorder)
    recorder.perform_async([{"id": 1}])
    runs(recorder)
    assert loops.get() is loops.get()


def test_f21_stop_waits_for_tasks_and_hands_back_what_is_not_ended_in_time() -> None:
    cancelled: Queue[str] = Queue()

    async def body(payloads: Any, batch: Any) -> None:
        try:
            while "quick" in payloads and not server.stopping:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3 if "quick" in payloads else 30)
        except asyncio.CancelledError:
            cancelled.put(next(iter(payloads)))
            raise

    recorder = worker("Stop", body, shards_count=1)
    server = serve(recorder, threads=5)
    recorder.perform_async([{"id": "quick"}, {"id": "slow"}])
    eventually(lambda: server.stats()["running"] == 2)
    began = time.monotonic()
    assert server.stop(5) is False
    assert time.monotonic() - began < 25  # the slow one takes 30
    assert cancelled.get(timeout=60) == "slow"
    [record] = recorder.queries.fetch(["quick", "slow"])
    assert record["id"] == "slow" and record["retry_count"] == -1 and "error" not in record
    assert recorder.metrics["processed"] == 1


def test_f21_a_stop_ends_where_the_loop_is_held_up_to_its_last_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    gate, waits = threading.Event(), 0

    async def hold(payloads: Any, batch: Any) -> None:
        gate.wait(60)

    recorder = worker("Holding", hold)
    server = serve(recorder)
    close = server._loop_thread.close

    def open_at_last(seconds: float) -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            threading.Timer(0.2, gate.set).start()
        close(seconds)

    monkeypatch.setattr(server._loop_thread, "close", open_at_last)
    recorder.perform_async([{"id": 1}])
    eventually(lambda: server.stats()["running"] == 1)
    assert server.stop(0) is False
    assert waits == 2
    eventually(lambda: "seriatim-loop" not in [thread.name for thread in threading.enumerate()])


def test_an_async_job_may_stop_its_server() -> None:
    stopped: Queue[bool] = Queue()

    async def stop(payloads: Any, batch: Any) -> None:
        stopped.put(server.stop(0))

    recorder = worker("Stopping", stop)
    server = serve(recorder)
    recorder.perform_async([{"id": 1}])
    assert stopped.get(timeout=60) is False
    assert seriatim.nodes() == []


def test_a_loop_that_was_held_while_it_was_closed_cancels_its_tasks_when_it_goes_on() -> None:
    begun, gate, ended = threading.Event(), threading.Event(), Queue[str]()

    async def wait() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            ended.put("cancelled")
            raise

    async def hold() -> None:
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        begun.set()
        gate.wait(60)
        await waiting

    loop_thread = LoopThread()
    asyncio.run_coroutine_threadsafe(hold(), loop_thread.loop)
    assert begun.wait(60)
    loop_thread.close(0.5)
    threading.Timer(0.2, gate.set).start()
    loop_thread.close(5)
    assert ended.get(timeout=60) == "cancelled"
    assert "seriatim-loop" not in [thread.name for thread in threading.enumerate()]
    loop_thread.close(5)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_task_that_cannot_be_cancelled_does_not_hold_the_end_of_the_loop_up() -> None:
    begun = threading.Event()

    async def refuse() -> None:
        begun.set()
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass

    loop_thread = LoopThread()
    asyncio.run_coroutine_threadsafe(refuse(), loop_thread.loop)
    assert begun.wait(60)
    loop_thread.close(0.1)
    eventually(lambda: "seriatim-loop" not in [thread.name for thread in threading.enumerate()])


def test_pushes_from_inside_a_job_do_not_block_the_loop() -> None:
    async def body(payloads: Any, batch: Any) -> None:
        if "0" in payloads:
            await recorder.aperform_async([{"id": id} for id in range(1, 50)])

    recorder = worker("Chain", body)
    serve(recorder)
    recorder.perform_async([{"id": 0}])
    runs(recorder, 50)


def test_a_scheduler_of_the_application_runs_on_the_loop() -> None:
    seen: list[tuple[int, str]] = []

    def choose(candidates: Any) -> Any:
        seen.append((len(candidates), threading.current_thread().name))
        return None if len(seen) < 3 else candidates[-1]

    async def body(payloads: Any, batch: Any) -> None:
        await asyncio.sleep(0)

    seriatim.build_scheduler = lambda: choose
    recorder = worker("Own", body, shards_count=3)
    recorder.perform_async([{"id": id} for id in range(20)])
    serve(recorder)
    runs(recorder, 20)
    assert max(seen)[0] >= 1
    assert {name for _, name in seen} == {"seriatim-loop"}


def test_the_loop_goes_on_while_threads_compute() -> None:
    async def body(payloads: Any, batch: Any) -> None:
        await asyncio.sleep(0.01)

    recorder = worker("Busy", body)
    serve(recorder)
    seen = threading.Event()

    def compute() -> None:
        while not seen.is_set():
            pass

    threads = [threading.Thread(target=compute) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        recorder.perform_async([{"id": id} for id in range(20)])
        runs(recorder, 20)
    finally:
        seen.set()
        for thread in threads:
            thread.join()


def test_r_checkpoint_7_aflush_waits_on_the_loop_and_says_that_a_run_is_stale() -> None:
    seen: list[Any] = []

    class Chores(seriatim.Worker):
        queue_name = "Chores"
        fold = "list"
        ttr = 4.0

        def retry_in(self, count: int) -> float:
            return 0.0

        async def perform(self, payloads_by_id: Any, batch: seriatim.Batch) -> None:
            tasks = payloads_by_id["1"]
            seen.append(list(tasks))
            if len(seen) == 1:
                batch.checkpoint(1, 1)
                await batch.aflush()
                raise RuntimeError("boom")
            if len(seen) == 2:
                await asyncio.sleep(5)
                batch.checkpoint(1, 1)
                with pytest.raises(seriatim.Stale):
                    await batch.aflush()
                seen.append("stale")

    Chores.perform_async([{"id": 1, "payload": task} for task in "abc"])
    serve(Chores, threads=4)
    eventually(lambda: "stale" in seen and Chores.metrics["length"] == 0)
    assert [each for each in seen if each != "stale"] == [["a", "b", "c"], ["b", "c"], ["b", "c"]]


@pytest.mark.parametrize("checkpoints", [0, 1])
def test_r_checkpoint_7_flush_says_that_the_id_runs_again_though_no_answer_is_awaited(checkpoints: int) -> None:
    fences: list[int] = []
    said: list[str] = []

    def perform(payloads_by_id: Any, batch: seriatim.Batch) -> None:
        fences.append(batch.fence(1))
        if len(fences) > 1:
            eventually(lambda: said)
            return
        batch.checkpoint(1, checkpoints)
        batch.flush()
        eventually(lambda: len(fences) == 2)
        try:
            batch.flush()
            said.append("flushed")
        except seriatim.Stale:
            said.append("stale")

    recorder = worker("Overrun", perform, ttr=1.0, fold="list", shards_count=1)
    recorder.perform_async([{"id": 1, "payload": "a"}, {"id": 1, "payload": "b"}])
    serve(recorder, threads=3)
    eventually(lambda: said)
    assert said == ["stale"]


def test_checkpoints_and_snoozes_that_cannot_be_are_refused() -> None:
    refused: list[str] = []

    def perform(payloads_by_id: Any, batch: Any) -> None:
        calls: list[Callable[[], object]] = [
            lambda: batch.checkpoint(2, 1),
            lambda: batch.checkpoint(1, 2),
            lambda: batch.checkpoint(1, True),
            lambda: batch.snooze(1, -1),
            lambda: batch.snooze(1, 1, payload={1}),
            lambda: batch.snooze(1, 1, payload="x" * 1_048_575),
        ]
        for call in calls:
            with pytest.raises(seriatim.Invalid) as error:
                call()
            refused.append(str(error.value))

    made = worker("Refused", perform)
    made.perform_async([{"id": 1}])
    serve(made)
    eventually(lambda: len(refused) == 6)
    assert "no id '2'" in refused[0]
    assert refused[1] == "checkpoint of 2 payloads: the id has 1 in this batch"
    assert refused[2].startswith("count must be an int")
    assert refused[3].startswith("seconds must be a number")
    assert refused[4].startswith("payload")
    assert refused[5] == "payload is 1048577 bytes long; at most 1048576 are allowed: store it elsewhere and pass its key"
