"""Metrics, queries and actions."""

from __future__ import annotations

import enum
import itertools
import math
import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest

import seriatim
from support.jobs import eventually, ids, includes, now, serve, worker
from support.redis_server import RedisServer


def held(gate: threading.Event, id: str) -> Callable[[Any, Any], None]:
    """A perform that waits with this id and fails with every other."""

    def perform(payloads_by_id: Any, batch: Any) -> None:
        if id not in payloads_by_id:
            raise RuntimeError(f"of {list(payloads_by_id)}")
        gate.wait(60)

    return perform


def test_r_metrics_1_metrics_count_what_waits_fails_runs_and_is_dead() -> None:
    gate = threading.Event()
    recorder = worker("Figures", held(gate, "busy"), max_retry_count=0)
    assert includes(recorder.metrics, length=0, fresh=0, retries=0, morgue_length=0, lag=0.0, processed=0, failed=0, busy=0)
    recorder.perform_async([*({"id": f"dead{n}"} for n in range(4)), {"id": "busy"}])
    serve(recorder)
    eventually(lambda: includes(recorder.metrics, morgue_length=4, busy=1))
    recorder.actions.pause()
    recorder.perform_async(
        [
            {"id": "a", "perform_in": now() - 10},
            {"id": "b", "delay": 60},
            {"id": "c", "delay": 60},
            {"id": "d", "retry_count": 0, "delay": 60},
            {"id": "e", "retry_count": 3, "delay": 60},
        ]
    )
    time.sleep(0.5)
    figures = recorder.metrics
    assert includes(figures, fresh=3, retries=2, length=5, busy=1, morgue_length=4, failed=4)
    assert sum(shard["length"] for shard in figures["shards"]) == 5
    gate.set()


def test_r_metrics_2_jobs_that_are_due_later_have_no_lag() -> None:
    recorder = worker("Ahead")
    recorder.perform_async([{"id": 1, "delay": 60}])
    assert includes(recorder.metrics, lag=0.0, length=1)


def test_r_query_2_queries_list_what_waits_up_and_down() -> None:
    recorder = worker("Queries")
    queries = recorder.queries
    assert queries.range_by_id("-", "+") == queries.rev_range_by_id("+", "-") == []
    base = round(now() + 1000)
    jobs = (("a", 2, 0), ("b", 1, 1), ("c", 3, -1))
    recorder.perform_async(
        [{"id": id, "perform_in": base + at, "retry_count": count, "payload": id, "score": at} for id, at, count in jobs]
    )
    assert ids(queries.range_by_id("-", "+")) == ["a", "b", "c"]
    assert ids(queries.rev_range_by_id("+", "-")) == ["c", "b", "a"]
    assert ids(queries.range_by_id("(a", b"[c", limit=1)) == ["b"]
    assert ids(queries.range_by_perform_in("-inf", "+inf")) == ["b", "a", "c"]
    assert ids(queries.rev_range_by_perform_in(math.inf, base + 2)) == ["c", "a"]
    assert ids(queries.range_by_perform_in(datetime.fromtimestamp(base + 2, timezone.utc), base + 2.5)) == ["a"]
    assert ids(queries.range_by_retry_count(-1, math.inf)) == ["c", "a", "b"]
    assert ids(queries.range_by_retry_count(-math.inf, "(0")) == ["c"]
    assert ids(queries.rev_range_by_retry_count("+inf", 0)) == ["b", "a"]
    assert queries.fetch(["c", "nobody", "a"]) == [
        {"id": "c", "perform_in": base + 3.0, "retry_count": -1, "payloads": [("c", 3.0)], "payloads_count": 1},
        {"id": "a", "perform_in": base + 2.0, "retry_count": 0, "payloads": [("a", 2.0)], "payloads_count": 1},
    ]


def test_r_query_5_invalid_bounds_are_refused() -> None:
    queries = worker("Queries").queries
    for bounds in (("a", "+"), ("-", 5)):
        with pytest.raises(seriatim.Invalid):
            queries.range_by_id(*bounds)
    bad: list[Any] = ["soon", "\ud800", math.nan, True, [1], datetime(2030, 1, 1)]
    for bound in bad:
        with pytest.raises(seriatim.Invalid):
            queries.range_by_perform_in(bound, "+inf")
    unfit: list[Any] = [None, 10**400, -(10**400), 10**5000, Decimal(5)]
    names = ("range_by_id", "range_by_perform_in", "range_by_retry_count", "range_by_deliver_at", "morgue_range_by_id", "morgue_range_by_updated_at")
    for bound, name in itertools.product(unfit, names):
        for each in (name, name.replace("range", "rev_range")):
            for bounds in ((bound, "+"), ("-", bound)):
                with pytest.raises(seriatim.Invalid, match=r"^(min|max) must be a str, a number or an aware datetime, not "):
                    getattr(queries, each)(*bounds)
    with pytest.raises(seriatim.Invalid, match=r"^limit must be an int from 1 to 100000, not 0 \(int\)$"):
        queries.range_by_id("-", "+", limit=0)


def test_r_query_5_numbers_of_every_kind_are_bounds() -> None:
    class Level(enum.IntEnum):
        LOW = 1

    class Seconds(float):
        def __repr__(self) -> str:
            return f"Seconds({float(self)})"

    recorder = worker("Bounds")
    recorder.perform_async([{"id": "a", "retry_count": 1, "perform_in": now() + 1000}])
    assert ids(recorder.queries.range_by_retry_count(Level.LOW, 1)) == ["a"]
    assert ids(recorder.queries.range_by_perform_in(-5, Seconds(now() + 2000))) == ["a"]
    assert ids(recorder.queries.range_by_perform_in(0, 10**300)) == ["a"]


@pytest.mark.parametrize("given", [None, "ab", b"ab", 5, {"a": 1}])
def test_r_query_5_ids_that_are_no_list_are_refused(given: Any) -> None:
    queries = worker("Queries").queries
    for fetch in (queries.fetch, queries.morgue_fetch, worker("Queries").queue.fetch):
        with pytest.raises(seriatim.Invalid, match=r"^ids must be a list, not an? \w+$"):
            fetch(given)
    assert queries.fetch([]) == queries.morgue_fetch([]) == []


@pytest.mark.parametrize("flag", ["false", "true", "", 0, 1, None, []])
def test_flags_of_actions_are_true_or_false(flag: Any) -> None:
    recorder = worker("Flags")
    recorder.perform_async([{"id": 1}])
    with pytest.raises(seriatim.Invalid, match=r"^force must be True or False, not "):
        recorder.actions.delete_queue(force=flag)
    with pytest.raises(seriatim.Invalid, match=r"^repair must be True or False, not "):
        recorder.actions.check(repair=flag)
    assert recorder.metrics["length"] == 1


def test_r_morgue_5_r_query_6_queries_list_the_dead_and_what_runs() -> None:
    gate = threading.Event()
    recorder = worker("Dead", held(gate, "run"), max_retry_count=0)
    queries = recorder.queries
    serve(recorder, threads=2)
    for id in "ba":
        recorder.perform_async([{"id": id, "score": 1}])
        eventually(lambda: queries.morgue_fetch([id]))
    recorder.perform_async([{"id": "run", "payload": 1}])
    eventually(lambda: recorder.metrics["busy"] == 1)
    assert [(record["id"], record["retry_count"]) for record in queries.processing_data()] == [("run", -1)]
    assert sum(len(queries.processing_data(shard)) for shard in range(5)) == 1
    assert ids(queries.morgue_range_by_id("-", "+")) == ["a", "b"]
    assert ids(queries.morgue_rev_range_by_id("+", "-")) == ["b", "a"]
    assert ids(queries.morgue_range_by_updated_at("-inf", "+inf")) == ["b", "a"]
    assert ids(queries.morgue_rev_range_by_updated_at("+inf", "-inf")) == ["a", "b"]
    (dead,) = queries.morgue_fetch(["a", "x"])
    stored = {"payloads": [("", 1.0)], "payloads_count": 1}
    expected = {"id": "a", "updated_at": pytest.approx(now(), abs=30), **stored, "error": "of ['a']"}
    assert dead == expected
    gate.set()


def test_stored_errors_pass_load_error() -> None:
    recorder = worker("Errors", held(threading.Event(), "none"), retry_in=lambda self, count: 60)
    seriatim.dump_error = lambda text: text[::-1]
    recorder.perform_async([{"id": 1}])
    serve(recorder)
    assert eventually(lambda: [record["error"] for record in recorder.queries.fetch([1]) if "error" in record]) == ["]'1'[ fo"]
    seriatim.load_error = lambda text: text[::-1]
    assert recorder.queries.fetch([1])[0]["error"] == "of ['1']"


def test_acts_and_says_on_how_many() -> None:
    recorder = worker("Acts")
    actions = recorder.actions
    failed = [{"id": f"f{n}", "retry_count": 1, "delay": 60} for n in range(3)]
    recorder.perform_async([*failed, {"id": "n", "delay": 60}])
    assert actions.kill_all_failed_jobs() == 3
    assert includes(recorder.metrics, length=1, morgue_length=3)
    assert actions.morgue_queue_up(["f0", "nobody"]) == 1
    assert actions.morgue_delete(["f1"]) == 1
    assert actions.morgue_delete_all_jobs() == 1
    assert actions.perform_all_jobs_now() >= 1
    assert recorder.metrics["lag"] < 100
    assert actions.park(["n"]) == 1
    assert ids(recorder.queries.parked()) == ["n"]
    assert actions.unpark(["n"]) == 1
    assert actions.delete(["n", b"f0"]) == 2
    assert actions.pause() == actions.resume() == 5
    assert actions.check(repair=True)["findings"] == []
    assert actions.delete([]) == 0
    with pytest.raises(seriatim.Invalid, match=r"^ids must be a list, not a str$"):
        actions.delete("n")
    with pytest.raises(seriatim.Invalid, match=r"^ids\[0\] must be a str, int, bytes or uuid.UUID, not 1\.5 \(float\)$"):
        actions.delete([1.5])


def test_actions_park_pause_resume_and_delete() -> None:
    recorder = worker("Acts")
    recorder.perform_async([{"id": n, "retry_count": 1, "delay": 60} for n in range(4)])
    assert recorder.actions.park([0]) == 1
    assert recorder.actions.delete_all_failed_jobs() == 3
    recorder.perform_async([{"id": 9, "retry_count": 1, "delay": 60}])
    assert recorder.actions.kill_all_failed_jobs() == 1
    assert recorder.actions.morgue_queue_up_all_jobs() == 1
    assert ids(recorder.queries.range_by_id("-", "+")) == ["9"]


def test_performs_chosen_ids_now_and_unparks_all() -> None:
    recorder = worker("Chosen")
    recorder.perform_async([{"id": 1, "delay": 600, "retry_count": 2}, {"id": b"a", "delay": 600}, {"id": "other", "delay": 600}])
    assert recorder.actions.perform_now([1, b"a", "nobody"]) == 2
    (record,) = recorder.queries.fetch([1])
    assert includes(record, retry_count=2, perform_in=pytest.approx(now(), abs=60))
    with pytest.raises(seriatim.Invalid, match=r"^ids\[1\] must be a str, int, bytes or uuid.UUID, not None$"):
        recorder.actions.perform_now(["other", None])
    assert recorder.queries.fetch(["other"])[0]["perform_in"] > now() + 500
    assert recorder.actions.perform_now([]) == 0
    assert recorder.actions.park([1, "a"]) == 2
    assert recorder.actions.unpark_all() == 2
    assert recorder.queries.parked() == []


def test_drops_a_payload_by_its_value_in_the_workers_codec() -> None:
    recorder = worker("Drops", codec=(lambda payload: payload[::-1], lambda data: data.decode()[::-1]))
    recorder.perform_async([{"id": 1, "payload": "ab", "delay": 600}, {"id": 1, "payload": "cd", "delay": 600}])
    assert recorder.actions.drop_payload("1", "ba") == 0
    assert recorder.actions.drop_payload(b"1", "ab") == 1
    assert recorder.actions.morgue_drop_payload(1, "cd") == 0
    assert [payload for payload, _ in recorder.queries.fetch([1])[0]["payloads"]] == ["cd"]
    with pytest.raises(seriatim.Invalid, match=r"^id must be a str, int, bytes or uuid.UUID, not 1\.5 \(float\)$"):
        recorder.actions.drop_payload(1.5, "cd")
    with pytest.raises(seriatim.Invalid, match=r"must be 1 to 1024 bytes, not 0$"):
        recorder.actions.drop_payload("", "cd")
    with pytest.raises(seriatim.Invalid, match=r"^payload"):
        worker("Json").actions.drop_payload(1, {"at": object()})
    with pytest.raises(seriatim.Invalid, match=r"^payload: must be bytes, not "):
        worker("Bytes", codec="raw").actions.drop_payload(1, 7)


def test_explain_says_where_an_id_stands() -> None:
    recorder = worker("Why")
    recorder.perform_async([{"id": 1, "delay": 60}])
    answer = recorder.queries.explain(1)
    assert answer["text"] and answer["dead"] is None and answer["paused"] is False
    assert includes(answer["job"], id="1", state="delayed")
    assert recorder.queries.explain("nobody")["job"] is None
    recorder.perform_async([{"id": 1, "payload": payload} for payload in range(2)])
    job = recorder.queries.explain(1)["job"]
    assert job and (job["payloads_count"], "payloads" in job) == (3, False)
    recorder.actions.park([1])
    assert recorder.queries.explain(1)["job"]["state"] == "parked"


def test_a_shard_that_nobody_owns_has_no_owner() -> None:
    recorder = worker("Ownerless")
    recorder.perform_async([{"id": 1, "delay": 60}])
    assert [shard["owner"] for shard in recorder.metrics["shards"]] == [None] * 5
    answer = recorder.queries.explain(1)
    assert (answer["owner"], answer["owner_alive"]) == (None, False)
    serve(recorder)
    eventually(lambda: all(shard["owner"] for shard in recorder.metrics["shards"]))
    assert recorder.queries.explain(1)["owner"] == recorder.metrics["shards"][0]["owner"]


def test_a_queue_has_name_shards_and_records() -> None:
    recorder = worker("Names")
    queue = recorder.queue
    assert (queue.name, queue.shards_count, queue.worker) == ("Names", 0, recorder)
    assert queue.push([{"id": 1}]).added == 1
    assert (ids(queue.fetch([1])), queue.shards_count, queue.metrics["length"]) == (["1"], 5, 1)


def test_redis_decides_about_shards() -> None:
    worker("Shards", shards_count=3).perform_async([{"id": 1}])
    other = worker("Shards", shards_count=7)
    other.perform_async([{"id": 2}])
    assert other.queue.shards_count == 3
    assert len(other.metrics["shards"]) == 3


def test_shows_the_living_nodes() -> None:
    server = serve(worker("Nodes"))
    node = eventually(lambda: next((node for node in seriatim.nodes() if node["name"] == server.id), None))
    assert node is not None and re.match(r"[^|]* pid \d+ python ", node["description"]) and node["expires_in"] > 0


def test_asks_a_server_inside_another_process_to_be_quiet_and_to_stop() -> None:
    server = serve(worker("Nodes"))

    def state() -> str | None:
        return next((node["state"] for node in seriatim.nodes() if node["name"] == server.id), None)

    eventually(lambda: state() == "working")
    assert seriatim.quiet_node(server.id)
    eventually(lambda: state() == "quiet")
    assert server.running
    assert seriatim.stop_node(server.id)
    eventually(lambda: server.stopping)
    assert (server.stop(), state(), seriatim.stop_node(server.id)) == (True, None, False)


@pytest.mark.parametrize("name", [None, 1, "", "x" * 65])
def test_an_invalid_node_name_is_refused_by_name(name: Any) -> None:
    with pytest.raises(seriatim.Invalid, match="^name must be a text of 1 to 64 bytes"):
        seriatim.stop_node(name)


def test_f6_health_warns_when_pushes_want_more_replicas(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    from seriatim._server import health

    seriatim.wait_replicas = 2
    health.check(redis.url)
    assert "wait_replicas is 2, but Redis has 0 replicas" in caplog.text


def test_health_warns_and_never_fails(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    from seriatim._server import health

    health.check(redis.url)
    assert not caplog.records
    redis.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    try:
        health.check(redis.url)
    finally:
        redis.call("CONFIG", "SET", "maxmemory-policy", "noeviction")
    assert "maxmemory-policy is allkeys-lru: Redis may throw jobs away; set it to noeviction" in caplog.text
    caplog.clear()
    health.check("unix:///no/such/socket")
    assert "cannot be checked" in caplog.text


@pytest.mark.parametrize(
    ("id", "text"), [("", "^id must be 1 to 1024 bytes, not 0$"), (1.5, r"^id must be a str, int, bytes or uuid.UUID, not 1\.5 \(float\)$")]
)
def test_names_the_id_of_scheduled_payloads_as_its_caller_does(id: Any, text: str) -> None:
    with pytest.raises(seriatim.Invalid, match=text):
        worker().queries.range_by_deliver_at(0, "+inf", id=id)
