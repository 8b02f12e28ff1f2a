"""pop and apop: single ids, without a server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest

import seriatim
from seriatim import Delivery
from seriatim._client import pool as pools
from seriatim._worker import all_workers
from support.jobs import deaf, eventually, includes, now, worker
from support.loops import Blind, run
from support.redis_server import RedisServer


def pop(queues: Any, **options: Any) -> Delivery | None:
    return seriatim.pop(queues, **{"wait": 0, **options})


def popped(queues: Any, **options: Any) -> Delivery:
    """The first one that is due, soon."""
    delivery = eventually(lambda: pop(queues, **options))
    assert delivery is not None
    return delivery


def emptied(name: str) -> Any:
    """A worker whose queue exists and is empty: a pop that waits subscribes to its channels."""
    queue = worker(name)
    queue.perform_async([{"id": "first"}])
    popped(queue).ack()
    return queue


def until_asleep(redis: RedisServer, count: int = 1) -> None:
    """Until as many pops of this process sleep, which are subscribed then."""
    eventually(lambda: subscribers(redis) >= count)


def subscribers(redis: RedisServer) -> int:
    return str(redis.call("CLIENT", "LIST", "TYPE", "pubsub")).count("name=seriatim-client")


def test_r_pop_1_gives_one_id_with_its_payloads_scores_and_contexts_and_ack_ends_it() -> None:
    queue = worker("Pulled", fold="list")
    jobs = [{"id": 1, "payload": {"n": 2}, "score": 2}, {"id": 1, "payload": {"n": 1}, "score": 1, "context": {"trace": "t"}}]
    queue.perform_async(jobs)
    delivery = popped("Pulled")
    assert (delivery.id, delivery.queue, delivery.payloads) == ("1", "Pulled", [{"n": 1}, {"n": 2}])
    assert (delivery.scores, delivery.contexts, delivery.deliveries) == ([1.0, 2.0], [{"trace": "t"}, {}], 1)
    assert delivery.fence > 0 and isinstance(delivery.token, str)
    assert pop(["Pulled"]) is None
    assert delivery.ack() is True
    assert includes(queue.metrics, length=0, busy=0, processed=1)


@pytest.mark.parametrize(
    "report",
    [
        lambda late: late.ack(),
        lambda late: late.fail("x"),
        lambda late: late.release(),
        lambda late: late.extend(1),
        lambda late: late.snooze(1),
        lambda late: late.checkpoint(1),
        lambda late: asyncio.run(late.aack()),
        lambda late: asyncio.run(late.afail("x")),
        lambda late: asyncio.run(late.arelease()),
        lambda late: asyncio.run(late.aextend(1)),
        lambda late: asyncio.run(late.asnooze(1)),
        lambda late: asyncio.run(late.acheckpoint(1)),
    ],
)
def test_r_pop_2_what_comes_too_late_raises_stale_and_changes_nothing(report: Callable[[Delivery], Any]) -> None:
    queue = worker("Late")
    queue.perform_async([{"id": 1}])
    first = popped(queue, ttr=0.05)
    second = popped(queue)
    assert second.deliveries == 2 and second.fence > first.fence
    with pytest.raises(seriatim.Stale, match="not this consumer's any more"):
        report(first)
    assert second.ack() is True
    with pytest.raises(seriatim.Stale):
        second.ack()


def test_r_pop_3_a_failed_id_has_the_text_of_format_error_through_dump_error_and_comes_again_after_retry_in() -> None:
    seriatim.format_error = lambda error: f"F:{error}"
    seriatim.dump_error = lambda text: f"D:{text}"
    queue = worker("Fails", max_retry_count=1)
    queue.perform_async([{"id": 1}])
    popped(queue).fail(RuntimeError("no"), retry_in=timedelta(minutes=10))
    record = queue.queries.fetch([1])[0]
    assert record["error"] == "D:F:no" and record["retry_count"] == 0 and abs(record["perform_in"] - now() - 600) < 60
    queue.actions.perform_now([1])
    popped(queue).fail("again")
    assert queue.queries.morgue_fetch([1])[0]["error"] == "D:again"


def test_r_pop_3_a_fail_without_retry_in_waits_for_the_default_back_off() -> None:
    queue = worker("Backs")
    queue.perform_async([{"id": 1}])
    asyncio.run(popped(queue).afail("no"))
    assert abs(queue.queries.fetch([1])[0]["perform_in"] - now() - 30) < 60


def test_an_error_is_stored_where_format_error_or_dump_error_raises(caplog: pytest.LogCaptureFixture) -> None:
    def format_error(error: BaseException) -> str:
        raise RuntimeError("format")

    def dump_error(text: str) -> str:
        raise RuntimeError("dump")

    seriatim.format_error, seriatim.dump_error = format_error, dump_error
    queue = worker("Hooks")
    queue.perform_async([{"id": 1}])
    popped(queue).fail(ValueError("no"))
    stored = queue.queries.fetch([1])[0]["error"]
    assert "ValueError: no" in stored and "dump_error raised" in stored


def test_r_pop_4_release_and_snooze_hand_an_id_back_and_count_no_failure() -> None:
    queue = worker("Back", fold="list")
    queue.perform_async([{"id": 1, "payload": "a"}, {"id": 1, "payload": "b"}])
    popped(queue).release()
    popped(queue).snooze(0, payload="c")
    delivery = popped(queue)
    assert (delivery.payloads, delivery.deliveries) == (["c", "b"], 3)
    delivery.snooze(timedelta(minutes=10))
    record = queue.queries.fetch([1])[0]
    assert record["retry_count"] == -1 and [payload for payload, _ in record["payloads"]] == ["c", "b"]
    assert pop(queue) is None


def test_r_pop_5_with_ttr_0_it_has_ended() -> None:
    queue = worker("Once")
    queue.perform_async([{"id": 1, "payload": "only"}])
    delivery = popped(queue, ttr=0)
    assert (delivery.payloads, delivery.token, delivery.ack()) == (["only"], None, True)
    assert asyncio.run(delivery.aack()) is True
    with pytest.raises(seriatim.Invalid, match="popped with ttr=0"):
        delivery.release()
    with pytest.raises(seriatim.Invalid, match="popped with ttr=0"):
        delivery.fail("x")
    assert includes(queue.metrics, length=0, busy=0)


def test_r_pop_6_r_pop_15_gives_at_most_max_payloads_and_a_checkpoint_keeps_what_is_done() -> None:
    queue = worker("Some", fold="list")
    queue.perform_async([{"id": 1, "payload": payload} for payload in "abcd"])
    delivery = popped(queue, max=3)
    assert delivery.payloads == ["a", "b", "c"]
    with pytest.raises(seriatim.Invalid, match="count must be an int from 0 to 3, not 4"):
        delivery.checkpoint(4)
    delivery.checkpoint(0)
    asyncio.run(delivery.acheckpoint(0))
    asyncio.run(delivery.acheckpoint(2))
    delivery.checkpoint(1)
    delivery.release()
    delivery = popped(queue)
    assert (delivery.payloads, delivery.deliveries) == (["c", "d"], 1)
    delivery.ack()
    assert pop(queue) is None


def test_r_pop_7_the_first_queue_goes_first_by_names_workers_and_functions() -> None:
    @seriatim.worker(queue_name="Function")
    def function(payloads_by_id: Any) -> None: ...

    queues = [function, worker("High"), worker("Low")]
    for queue in queues:
        queue.perform_async([{"id": 1}, {"id": 2}])
    found = [popped([function, queues[1], "Low"]).queue for _ in range(6)]
    assert found == ["Function", "Function", "High", "High", "Low", "Low"]


def test_a_queue_has_one_weight() -> None:
    recorder = worker("Twice")
    with pytest.raises(seriatim.Invalid, match="^weights: 'Twice' is named twice$"):
        seriatim.pop("Twice", weights={recorder: 1, "Twice": 2})


def test_r_pop_8_queues_take_turns_by_weights() -> None:
    queues = [worker("Heavy"), worker("Light")]
    for queue in queues:
        queue.perform_async([{"id": id} for id in range(8)])
    turns = [popped(["Heavy", "Light"], weights={queues[0]: 3, "Light": 1}).queue for _ in range(8)]
    assert (turns.count("Heavy"), turns.count("Light")) == (6, 2)


def test_r_pop_8_the_turns_belong_to_all_connections_of_the_process() -> None:
    for name in ("Most", "Few"):
        worker(name).perform_async([{"id": id} for id in range(6)])
    turns = []
    for at in range(6):
        with pools.current("pops").lend() if at % 2 else nullcontext():
            turns.append(popped(["Most", "Few"], weights={"Most": 2, "Few": 1}).queue)
    assert turns == ["Most", "Few", "Most", "Most", "Few", "Most"]


def test_extend_moves_the_end_of_the_time_to_run() -> None:
    queue = worker("Extends")
    queue.perform_async([{"id": 1}])
    delivery = popped(queue, ttr=3)
    delivery.extend(60)
    time.sleep(4)
    assert pop(queue) is None
    assert delivery.ack() is True


def test_r_pop_13_waits_for_an_id_without_the_gil_and_ends_its_wait_in_time(redis: RedisServer) -> None:
    queue = emptied("Awaited")
    found: list[Delivery | None] = []
    thread = threading.Thread(target=lambda: found.append(seriatim.pop(queue, wait=60)))
    thread.start()
    until_asleep(redis)
    queue.perform_async([{"id": 1, "payload": "come"}])
    thread.join()
    assert found[0] is not None and found[0].payloads == ["come"]
    started = time.monotonic()
    assert seriatim.pop(queue, wait=0.5) is None
    assert 0.45 < time.monotonic() - started < 20


def test_a_pop_that_waits_takes_no_connection_from_the_others_and_few_are_kept(redis: RedisServer) -> None:
    seriatim.client_pool_size = 1
    queue = emptied("Unlimited")
    threads = [threading.Thread(target=lambda: seriatim.pop(queue, wait=60)) for _ in range(3)]
    for thread in threads:
        thread.start()
    until_asleep(redis, 3)
    queue.perform_async([{"id": id} for id in range(3)])
    for thread in threads:
        thread.join()
    eventually(lambda: subscribers(redis) <= 1)


def test_a_signals_handler_runs_while_it_waits_and_may_end_it(redis: RedisServer) -> None:
    queue = emptied("Signalled")

    def interrupt() -> None:
        until_asleep(redis)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        thread.start()
        seriatim.pop(queue, wait=60)
    thread.join()
    assert time.monotonic() - started < 50
    queue.perform_async([{"id": 1}])
    assert popped(queue).ack() is True


def test_r_pop_16_payloads_that_cannot_be_read_go_to_the_morgue_and_the_pop_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    for call in (pop, lambda queue: asyncio.run(seriatim.apop(queue, wait=0))):
        raw = worker("Broken", codec="raw", fold="list")
        jobs: list[Any] = [{"id": "bad", "payload": b"no JSON %d" % n} for n in range(300)]
        raw.perform_async([*jobs, {"id": "bad", "payload": b'"good"'}])
        raw.codec = "json"
        seriatim.dump_error = lambda text: f"D:{text}"
        delivery = call(raw)
        assert delivery is not None and (delivery.id, delivery.payloads) == ("bad", ["good"])
        assert raw.queries.morgue_fetch(["bad"])[0]["error"].startswith("D:undecodable payload")
        assert includes(raw.metrics, busy=1, morgue_length=1)
        delivery.ack()
        raw.actions.delete_queue(force=True)
    assert "payloads cannot be read" in caplog.text


def test_r_pop_16_a_pop_ends_its_wait_amid_deliveries_of_which_nothing_can_be_read() -> None:
    for call in (pop, lambda queue: asyncio.run(seriatim.apop(queue, wait=0))):
        raw = worker("Broken", codec="raw")
        raw.perform_async([{"id": n, "payload": b"no JSON"} for n in range(150)])
        raw.codec = "json"
        assert call(raw) is None
        assert includes(raw.metrics, busy=0, morgue_length=100)
        assert call(raw) is None
        assert includes(raw.metrics, morgue_length=150)
        raw.actions.delete_queue(force=True)


def test_r_pop_16_what_can_be_read_is_given_where_ttr_0_has_ended_the_delivery() -> None:
    raw = worker("Lossy", codec="raw", fold="list")
    raw.perform_async([{"id": 1, "payload": b"no JSON"}, {"id": 2, "payload": b"no JSON"}, {"id": 2, "payload": b"2"}])
    raw.codec = "json"
    delivery = popped(raw, ttr=0)
    assert (delivery.id, delivery.payloads, len(delivery.scores)) == ("2", [2], 1)
    assert pop(raw, ttr=0) is None


def test_payloads_are_read_with_the_workers_codec_or_with_the_modules_where_no_worker_is_known() -> None:
    seriatim.dump_payload = lambda payload: f"m{payload}"
    seriatim.load_payload = lambda data: data.decode()[1:]
    worker("Own", codec="raw").perform_async([{"id": 1, "payload": b"bytes"}])
    assert popped("Own").payloads == [b"bytes"]
    module_wide = worker("Gone")
    module_wide.perform_async([{"id": 1, "payload": "text"}])
    all_workers.remove(module_wide)
    delivery = popped("Gone")
    assert delivery.payloads == ["text"]
    delivery.snooze(0, payload="next")
    assert popped("Gone").payloads == ["next"]


def test_makes_no_queue(redis: RedisServer) -> None:
    assert pop([worker("Never"), "Unknown"]) is None
    assert redis.call("KEYS", "*") == []


def test_any_thread_and_a_child_of_fork_can_report() -> None:
    queue = worker("Shared")
    queue.perform_async([{"id": 1}, {"id": 2}])
    first, second = popped(queue), popped(queue)
    thread = threading.Thread(target=first.ack)
    thread.start()
    thread.join()
    child = os.fork()
    if child == 0:
        os._exit(0 if second.ack() and pop(queue) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert pop(queue) is None
    assert includes(queue.metrics, length=0, busy=0)


def test_r_pop_20_makes_a_delivery_from_a_token_with_the_workers_codec_and_without_payloads() -> None:
    queue = worker("Named", codec="raw")
    queue.perform_async([{"id": 1, "payload": b"a"}, {"id": 1, "payload": b"b"}])
    first = popped(queue)
    assert first.token is not None
    made = seriatim.delivery(first.token)
    assert (made.id, made.queue, made.fence, made.token) == (first.id, "Named", first.fence, first.token)
    assert (made.payloads, made.scores, made.contexts, made.deliveries) == ([], [], [], 0)
    assert (made.retry_count, made.error, made.more) == (-1, None, False)
    with pytest.raises(seriatim.Invalid, match="count must be an int from 0 to 2, not 3"):
        made.checkpoint(3)
    asyncio.run(made.asnooze(0, payload=b"c"))
    assert popped("Named").payloads == [b"c", b"b"]
    with pytest.raises(seriatim.Stale):
        made.ack()


def test_an_error_comes_through_load_error() -> None:
    seriatim.load_error = lambda text: f"L:{text}"
    queue = worker("Loads")
    queue.perform_async([{"id": 1}])
    popped(queue).fail("no", retry_in=0)
    assert popped(queue).error == "L:no"


@pytest.mark.parametrize(
    ("token", "message"),
    [(None, "token must be a str"), (b"x", "token must be a str"), *((text, "no token of a delivery") for text in ("", "x" * 100, "\0" * 5000, "é"))],
)
def test_what_is_no_token_is_refused(token: Any, message: str) -> None:
    with pytest.raises(seriatim.Invalid, match=message):
        seriatim.delivery(token)


def test_no_middleware_runs() -> None:
    called: list[str] = []

    def client(worker: Any, jobs: Any, call_next: Callable[[], Any]) -> Any:
        called.append("client")
        return call_next()

    def server(worker: Any, batch: Any, call_next: Callable[[], None]) -> None:
        called.append("server")
        call_next()

    seriatim.client_middlewares, seriatim.server_middlewares = [client], [server]
    queue = worker("Plainly")
    queue.perform_async([{"id": 1}])
    popped(queue).ack()
    assert called == ["client"]


@pytest.mark.parametrize(
    ("queues", "options", "message"),
    [
        ([], {}, "queues must be 1 to 1000 queues, not 0"),
        (None, {}, r"queues\[0\] must be the name of a queue or a worker, not None"),
        (["a", 1], {}, r"queues\[1\] must be the name of a queue or a worker, not 1"),
        ("", {}, r"queues\[0\] must be a text of 1 to 512 bytes"),
        (["a", "a"], {}, "queues: 'a' is named twice"),
        ("a", {"wait": 61}, r"wait must be a number of seconds from 0.0 to 60.0, not 61"),
        ("a", {"wait": float("nan")}, "wait must be"),
        ("a", {"ttr": -1}, "ttr must be a number of seconds from 0.0"),
        ("a", {"ttr": 0.0001}, "ttr must be 0 or a number of seconds from 0.001, not 0.0001"),
        ("a", {"max": 0}, "max must be an int from 1 to 1000, not 0"),
        ("a", {"weights": [1]}, "weights must be a dict from queue to weight"),
        (["a", "b"], {"weights": {"a": 1}}, r"weights\['b'\] must be an int from 1 to 1000000, not None"),
        ("a", {"weights": {"a": 1, "c": 1}}, "weights: 'c' is none of the queues"),
        ("a", {"weights": {"a": 0}}, r"weights\['a'\] must be an int"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_sent(queues: Any, options: dict[str, Any], message: str) -> None:
    seriatim.redis = "redis://127.0.0.1:1"
    with pytest.raises(seriatim.Invalid, match=message):
        seriatim.pop(queues, **options)
    with pytest.raises(seriatim.Invalid, match=message):
        asyncio.run(seriatim.apop(queues, **options))


def test_what_a_report_cannot_say_is_refused_before_anything_is_sent() -> None:
    queue = worker("Refuses")
    queue.perform_async([{"id": 1}])
    delivery: Any = popped(queue)
    for report, message in [
        (lambda: delivery.fail(7), "error must be an exception or a str, not 7"),
        (lambda: delivery.fail("x", retry_in=-1), "retry_in must be a number of seconds"),
        (lambda: delivery.snooze("x"), "seconds must be a number of seconds"),
        (lambda: delivery.snooze(1, payload=object()), "payload"),
        (lambda: delivery.extend(-1), "seconds must be"),
        (lambda: delivery.checkpoint(2), "count must be an int from 0 to 1, not 2"),
    ]:
        with pytest.raises(seriatim.Invalid, match=message):
            report()
    assert delivery.ack() is True


# ---- apop


async def goes_on(running: asyncio.Future[Any]) -> None:
    """The loop turns, while it waits: one that blocked the loop would have ended first."""
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not running.done()


def test_apop_waits_without_blocking_the_loop_and_is_woken(redis: RedisServer) -> None:
    queue = emptied("Awoken")

    async def main() -> Any:
        waiting = asyncio.ensure_future(seriatim.apop(queue, wait=60))
        await asyncio.get_running_loop().run_in_executor(None, until_asleep, redis)
        await goes_on(waiting)
        await queue.aperform_async([{"id": 1, "payload": "come"}])
        delivery = await waiting
        assert delivery is not None
        await delivery.aextend(60)
        return delivery.payloads, await delivery.aack()

    assert asyncio.run(main()) == (["come"], True)


def test_apop_ends_its_wait_in_time_and_many_wait_at_once(redis: RedisServer) -> None:
    seriatim.client_pool_size = 2
    queue = emptied("Many")

    async def main() -> list[Any]:
        waiting = [asyncio.ensure_future(seriatim.apop(queue, wait=60)) for _ in range(20)]
        await asyncio.get_running_loop().run_in_executor(None, until_asleep, redis, 20)
        await queue.aperform_async([{"id": id} for id in range(20)])
        deliveries = await asyncio.gather(*waiting)
        assert await seriatim.apop(queue, wait=0.2) is None
        for delivery in deliveries:
            await delivery.aack()
        return deliveries

    assert sorted(int(delivery.id) for delivery in asyncio.run(main())) == list(range(20))


@pytest.mark.parametrize("loop", [asyncio.SelectorEventLoop, Blind])
def test_a_cancelled_apop_takes_nothing_and_leaves_the_pool_whole(loop: Callable[[], Any], redis: RedisServer) -> None:
    queue = emptied("Cancelled")

    async def main() -> None:
        waiting = asyncio.ensure_future(seriatim.apop(queue, wait=60))
        await asyncio.get_running_loop().run_in_executor(None, until_asleep, redis)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert not len(pools.current("pops")._lent)
        # A pop that went on in a thread would take one of them, which would come again after its ttr, as a second delivery.
        await queue.aperform_async([{"id": id} for id in range(20)])
        deliveries = [await seriatim.apop(queue, wait=60) for _ in range(20)]
        assert [delivery and delivery.deliveries for delivery in deliveries] == [1] * 20

    run(loop(), main())


def test_many_apops_wait_at_once_on_a_loop_that_cannot_watch_sockets(redis: RedisServer) -> None:
    queue = emptied("Blind")

    async def main() -> list[Any]:
        waiting = [asyncio.ensure_future(seriatim.apop(queue, wait=60)) for _ in range(20)]
        await queue.aperform_async([{"id": id} for id in range(20)])
        return await asyncio.gather(*waiting)

    assert sorted(int(delivery.id) for delivery in run(Blind(), main())) == list(range(20))


def test_apop_does_not_block_the_loop_while_redis_does_not_answer() -> None:
    async def main() -> None:
        waiting = asyncio.ensure_future(seriatim.apop("Deaf", wait=0))
        await goes_on(waiting)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    with deaf():
        asyncio.run(main())
