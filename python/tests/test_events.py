"""Delayed events: types with handlers, on workers and servers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from typing import Any

import pytest

import seriatim
import seriatim.web
from seriatim._worker import event_workers
from support import web
from support.jobs import eventually, includes, serve, servers, worker

TYPES = ["Paid", "Sent", "Late"]


@pytest.fixture
def events() -> Iterator[seriatim.Events]:
    made = seriatim.events("shop")
    yield made
    for type in [*TYPES, *(f"Paid-{fold}" for fold in ("last", "first", "merge", "list"))]:
        made.off(type)


@pytest.fixture
def calls() -> Queue[Any]:
    return Queue()


def serve_events(**options: Any) -> seriatim.Server:
    """A server of events alone."""
    server = seriatim.Server(workers=[], **options)
    servers.append(server)
    return server.start()


def call(calls: Queue[Any]) -> Any:
    return calls.get(timeout=60)


def gone(events: seriatim.Events, type: str) -> None:
    eventually(lambda: sum(map(events.worker(type).metrics.get, ("length", "busy"))) == 0)  # of one reading


def noting(calls: Queue[Any], is_async: bool) -> Callable[[Any, dict[str, str]], Any]:
    """A handler, def or async def, that puts event, context and time into calls."""

    def handle(event: Any, context: dict[str, str]) -> bool:
        calls.put((event, context, time.time()))
        return True

    async def handle_async(event: Any, context: dict[str, str]) -> bool:
        await asyncio.sleep(0)
        return handle(event, context)

    return handle_async if is_async else handle


BOTH = pytest.mark.parametrize("is_async", [False, True])


@BOTH
def test_r_event_1_r_event_5_event_and_context_come_after_the_delay(events: Any, calls: Queue[Any], is_async: bool) -> None:
    events.on("Paid", noting(calls, is_async))
    events.enqueue("Paid", id=1, event={"sum": 5}, context={"trace": "t"})
    assert events.worker("Paid").queue_name == "shop:Paid"
    serve_events()
    assert call(calls)[:2] == ({"sum": 5}, {"trace": "t"})
    due = time.time() + 0.5
    asyncio.run(events.aenqueue("Paid", id="2", event="text", delay=0.5))
    event, context, at = call(calls)
    assert (event, context) == ("text", {})
    assert at >= due
    gone(events, "Paid")


@BOTH
def test_r_event_2_only_true_ends_an_event(events: Any, is_async: bool) -> None:
    outcomes: dict[str, Any] = {"true": True, "false": False, "none": None, "one": 1, "text": "True", "raise": OSError("lost")}

    def outcome(event: str) -> Any:
        if isinstance(outcomes[event], Exception):
            raise outcomes[event]
        return outcomes[event]

    if is_async:

        @events.on("Paid", retry_in=lambda count: 600)
        async def handle_async(event: str, context: dict[str, str]) -> Any:
            return outcome(event)
    else:

        @events.on("Paid", retry_in=[600])
        def handle(event: str, context: dict[str, str]) -> Any:
            return outcome(event)

    for id in outcomes:
        events.enqueue("Paid", id=id, event=id)
    serve_events()
    made = events.worker("Paid")
    eventually(lambda: made.metrics["retries"] == 5 and made.metrics["length"] == 5)
    errors = {record["id"]: record["error"] for record in made.queries.fetch(list(outcomes))}
    assert errors == {
        "false": "the handler returned False (bool), not True",
        "none": "the handler returned None, not True",
        "one": "the handler returned 1 (int), not True",
        "text": "the handler returned 'True' (str), not True",
        "raise": "lost",
    }


@pytest.mark.parametrize("attempts", [1, 2, 4])
def test_r_event_3_an_event_that_always_fails_runs_attempts_times(events: Any, calls: Queue[Any], attempts: int) -> None:
    @events.on("Paid", attempts=attempts, retry_in=[0.1, 0.2])
    def handle(event: Any, context: dict[str, str]) -> bool:
        calls.put(time.time())
        return False

    serve_events()
    events.enqueue("Paid", id=1, event=1)
    eventually(lambda: events.worker("Paid").queries.morgue_fetch([1]))
    times = [call(calls) for _ in range(attempts)]
    assert calls.empty()
    waits = [after - before for before, after in zip(times, times[1:])]
    assert all(wait >= least for wait, least in zip(waits, [0.1, 0.2, 0.2]))


@pytest.mark.parametrize("fold, kept", [("last", ["B"]), ("first", ["A"]), ("merge", ["A", "B"]), ("list", ["A", "B"])])
def test_r_event_4_the_time_of_a_waiting_event_stays(events: Any, calls: Queue[Any], fold: Any, kept: list[str]) -> None:
    type = f"Paid-{fold}"
    events.on(type, noting(calls, False), fold=fold)
    events.enqueue(type, id=1, event="A", delay=1)
    due = events.worker(type).queries.fetch([1])[0]["perform_in"]
    events.enqueue(type, id=1, event="B", delay=600)
    assert events.worker(type).queries.fetch([1])[0]["perform_in"] == due
    serve_events()
    assert [call(calls)[0] for _ in kept] == kept
    gone(events, type)


@BOTH
def test_r_event_4_of_several_events_those_that_ended_do_not_come_again(events: Any, calls: Queue[Any], is_async: bool) -> None:
    failures = ["once"]

    def run(event: str) -> bool:
        calls.put(event)
        return event != "B" or not failures or not failures.pop()

    if is_async:

        @events.on("Paid", fold="list", retry_in=[0])
        async def handle_async(event: str, context: dict[str, str]) -> bool:
            return run(event)
    else:

        @events.on("Paid", fold="list", retry_in=[0])
        def handle(event: str, context: dict[str, str]) -> bool:
            return run(event)

    for event in "ABC":
        events.enqueue("Paid", id=1, event=event)
    serve_events()
    gone(events, "Paid")
    assert [calls.get() for _ in range(calls.qsize())] == ["A", "B", "B", "C"]


@BOTH
def test_r_event_7_at_most_max_running_at_once(events: Any, is_async: bool) -> None:
    lock, running, most = threading.Lock(), 0, 0

    def enter(step: int) -> None:
        nonlocal running, most
        with lock:
            running += step
            most = max(most, running)

    if is_async:

        @events.on("Paid", max_running=2)
        async def handle_async(event: Any, context: dict[str, str]) -> bool:
            enter(1)
            await asyncio.sleep(0.02)
            enter(-1)
            return True
    else:

        @events.on("Paid", max_running=2)
        def handle(event: Any, context: dict[str, str]) -> bool:
            enter(1)
            time.sleep(0.02)
            enter(-1)
            return True

    for id in range(20):
        events.enqueue("Paid", id=id, event=1)
    serve_events(threads=5)
    gone(events, "Paid")
    assert most == 2


def test_r_event_8_what_cannot_be_is_refused(events: Any) -> None:
    def handle(event: Any, context: Any) -> bool:
        return True

    for options, message in [
        *(({"max_running": count}, "max_running must be") for count in (0, 101, 1.5, None)),
        *(({"attempts": count}, "attempts must be") for count in (0, 101)),
        *(({"retry_in": wait}, "retry_in must be") for wait in ("soon", [], None, 5)),
        ({"retry_in": [1, -1]}, r"retry_in\[1\] must be"),
        ({"fold": "never"}, "fold"),
    ]:
        with pytest.raises(seriatim.Invalid, match=message):
            events.on("Paid", handle, **options)
    for call, message in [
        (lambda: events.on("Paid", 5), "handler must be callable"),
        (lambda: events.on("", handle), "type must be"),
        (lambda: seriatim.events("a:b"), "name must not contain"),
        (lambda: events.enqueue("Paid", id=None, event=1), "id must not be None"),
        (lambda: events.enqueue("Paid", id=1, event=None), "event must not be None"),
        (lambda: events.enqueue("Paid", id=1, event=1, delay=None), "delay must not be None"),
        (lambda: events.enqueue("Paid", id=1, event=1, context=5), "context must be a dict of str"),
        (lambda: events.enqueue("Paid", id=1, event=1, context="ab"), "context must be a dict of str"),
        (lambda: events.enqueue("Paid", id=1, event=1, context=[("a", "b")]), "context must be a dict of str"),
    ]:
        with pytest.raises(seriatim.Invalid, match=message):
            call()
    assert events.off("Paid") is False
    events.on("Paid", handle)
    with pytest.raises(seriatim.Invalid, match="'shop:Paid' has a handler already"):
        seriatim.events("shop").on("Paid", handle)


async def other(payloads_by_id: Any, batch: Any) -> None:
    """The perform of a worker whose server has no threads."""


@BOTH
@pytest.mark.parametrize("beside", [None, other])
def test_r_event_9_a_server_that_runs_serves_and_hands_over(events: Any, calls: Queue[Any], is_async: bool, beside: Any) -> None:
    server = serve(worker("Other", beside))
    events.enqueue("Late", id=1, event="early")
    events.on("Late", noting(calls, is_async))
    assert call(calls)[0] == "early"
    assert events.off("Late") is True
    assert events.off("Late") is False
    eventually(lambda: server.stats()["shards"] == 5)
    events.enqueue("Late", id=2, event="after")
    metrics = events.worker("Late").metrics
    assert (metrics["length"], metrics["busy"]) == (1, 0)
    events.on("Late", noting(calls, not is_async), attempts=3)
    assert call(calls)[0] == "after"
    with pytest.raises(Empty):
        calls.get_nowait()


def test_r_event_9_on_is_refused_where_the_shards_are_fixed(events: Any, calls: Queue[Any]) -> None:
    seriatim.build_splitter = lambda: seriatim.build_default_splitter()
    serve(worker("Other"))
    with pytest.raises(seriatim.Invalid, match="build_splitter has fixed the shards"):
        events.on("Late", noting(calls, False))
    assert events.off("Late") is False


def test_r_event_9_handlers_that_on_server_init_adds_run_where_the_shards_are_fixed_too(events: Any, calls: Queue[Any]) -> None:
    @seriatim.on_server_init
    def add() -> None:
        events.on("Late", noting(calls, False))

    seriatim.build_splitter = lambda: seriatim.build_default_splitter()
    serve(worker("Other"))
    events.enqueue("Late", id=1, event="early")
    assert call(calls)[0] == "early"


def test_r_event_9_a_server_of_other_queues_does_not_run_a_handler_that_on_server_init_adds(events: Any, calls: Queue[Any]) -> None:
    @seriatim.on_server_init
    def add() -> None:
        events.on("Late", noting(calls, False))

    other = worker("Other")
    server = serve(other, queues=["Other"])
    events.enqueue("Late", id=1, event="early")
    other.perform_async([{"id": 1}])
    other.runs.get(timeout=60)
    assert (server.stats()["shards"], calls.qsize()) == (5, 0)


def test_r_event_9_a_server_whose_start_ends_while_another_thread_adds_a_handler_gets_it_once(
    events: Any, calls: Queue[Any], caplog: pytest.LogCaptureFixture
) -> None:
    raised: list[BaseException] = []

    def add() -> None:
        try:
            events.on("Late", noting(calls, False))
        except BaseException as error:
            raised.append(error)

    def look_up_shards(workers: list[Any]) -> list[Any]:
        found = original_look(workers)
        time.sleep(0.2 if server.running else 0)  # so that two would meet
        return found

    def serve_late() -> None:
        adding.start()
        eventually(lambda: event_workers or not adding.is_alive())
        original_late()

    server = seriatim.Server(workers=[worker("Other")])
    servers.append(server)
    original_look, original_late = server._look_up_shards, server._serve_late
    server._look_up_shards, server._serve_late = look_up_shards, serve_late  # type: ignore[method-assign]
    adding = threading.Thread(target=add)
    server.start()
    adding.join()
    assert raised == []
    assert "is not run" not in caplog.text
    events.enqueue("Late", id=1, event="late")
    assert call(calls)[0] == "late"


def test_a_start_that_fails_has_started_nothing(events: Any, calls: Queue[Any], redis: Any) -> None:
    @seriatim.on_server_init
    def add() -> None:
        events.on("Late", noting(calls, False))

    redis.call("RPUSH", "seriatim:{shop:Late}:layout", "a key of another type")
    server = seriatim.Server(workers=[worker("Other")])
    with pytest.raises(seriatim.Error):
        server.start()
    assert not server.running
    assert seriatim.nodes() == []
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("seriatim-host")]


def test_r_event_10_an_event_enqueued_while_its_id_runs_comes_afterwards(events: Any, calls: Queue[Any]) -> None:
    go_on = threading.Semaphore(0)

    @events.on("Paid")
    def handle(event: str, context: dict[str, str]) -> bool:
        calls.put(event)
        return go_on.acquire(timeout=60)

    serve_events()
    events.enqueue("Paid", id=1, event="A")
    assert call(calls) == "A"
    events.enqueue("Paid", id=1, event="B")
    go_on.release()
    assert call(calls) == "B"
    go_on.release()
    gone(events, "Paid")


def test_r_event_11_events_without_a_handler_wait(events: Any, calls: Queue[Any], capfd: Any) -> None:
    events.enqueue("Sent", id=1, event="A")
    events.enqueue("Sent", id=1, event="B")
    assert events.worker("Sent").metrics["length"] == 1
    assert events.worker("Sent") not in seriatim._worker.all_workers  # type: ignore[attr-defined]
    serve(worker("Other"))
    events.on("Sent", noting(calls, False))
    assert call(calls)[0] == "B"


def test_r_event_17_the_metrics_have_the_figures_of_events(events: Any) -> None:
    for id in range(5):
        events.enqueue("Paid", id=id, event=id, delay=600 if id < 3 else 0)
    with web.wsgi(seriatim.web.wsgi_app(role=lambda _: "viewer")) as site:
        text = site.get("/metrics").body.decode()
    figures = {line.split("{")[0]: line.split()[-1] for line in text.splitlines() if '{queue="shop:Paid"}' in line}
    assert includes(figures, seriatim_delayed="3", seriatim_ready="2", seriatim_retrying="0", seriatim_pushed_total="5")


@BOTH
def test_r_event_18_a_server_that_stopped_leaves_no_connection(events: Any, calls: Queue[Any], redis: Any, is_async: bool) -> None:
    def connections() -> int:
        return str(redis.call("CLIENT", "LIST")).count("name=seriatim")

    events.on("Paid", noting(calls, is_async))
    levels = []
    for id in range(10):
        server = serve_events(threads=2)
        events.enqueue("Paid", id=id, event=id)
        assert call(calls)[0] == id
        server.stop()
        eventually(lambda: connections() <= 1)
        levels.append(connections())
    assert levels == [1] * 10  # that of enqueue


def test_only_the_types_of_a_servers_queues_run(events: Any, calls: Queue[Any]) -> None:
    for type in ("Paid", "Sent"):
        events.on(type, noting(calls, False))
    serve_events(queues=["shop:Paid"])
    events.on("Late", noting(calls, False))
    for type in ("Late", "Sent", "Paid"):
        events.enqueue(type, id=1, event=type)
    assert call(calls)[0] == "Paid"
    assert [events.worker(type).metrics["length"] for type in ("Late", "Sent")] == [1, 1]


def test_only_who_has_handled_a_type_is_warned_of_other_settings_in_redis(
    events: Any, redis: Any, caplog: pytest.LogCaptureFixture
) -> None:
    for type in ("Alone", "Handled"):
        redis.call("HSET", f"seriatim:{{shop:{type}}}:settings", "max_retry_count", "3")
    events.enqueue("Alone", id=1, event="A")
    assert "other settings" not in caplog.text
    events.on("Handled", lambda event, context: True)
    events.enqueue("Handled", id=1, event="A")
    events.off("Handled")
    assert 'queue "shop:Handled" has other settings in Redis than in the code' in caplog.text
    assert "max_retry_count: 3, in the code 69" in caplog.text
