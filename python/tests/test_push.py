"""What a push does, and what it refuses."""

from __future__ import annotations

import math
import uuid
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest

import seriatim
from seriatim import PushResult
from support.jobs import drained, eventually, includes, now, runs, serve, worker
from support.redis_server import RedisServer

UTC = timezone.utc


@pytest.fixture
def recorder() -> Any:
    return worker("Orders")


def record(recorder: Any, id: Any) -> Any:
    return next(iter(recorder.queries.fetch([id])), None)


def test_r_push_1_a_job_is_run_once_then_gone(recorder: Any) -> None:
    assert recorder.perform_async([{"id": 1, "payload": "v1"}]) == PushResult(1, 0, 0, [])
    serve(recorder)
    assert runs(recorder)[0].payloads == {"1": ["v1"]}
    drained(recorder)
    assert includes(recorder.metrics, length=0, busy=0, processed=1, failed=0)
    assert recorder.queries.fetch(["1"]) == []
    assert recorder.runs.empty()


def test_r_push_3_payload_score_and_time_have_defaults(recorder: Any) -> None:
    recorder.perform_async([{"id": "x"}])
    found = record(recorder, "x")
    assert found == {
        "id": "x",
        "retry_count": -1,
        "perform_in": pytest.approx(now(), abs=20),
        "payloads": [("", pytest.approx(now(), abs=20))],
        "payloads_count": 1,
    }


def test_r_push_4_nothing_is_written_without_an_id(recorder: Any, redis: RedisServer) -> None:
    with pytest.raises(seriatim.Invalid, match=r"jobs\[1\]: id is missing"):
        recorder.perform_async([{"id": "a"}, {"payload": 1}])
    assert redis.call("DBSIZE") == 0


def test_an_id_may_be_a_uuid_and_a_delay_a_timedelta(recorder: Any) -> None:
    id = uuid.UUID(int=5)
    recorder.perform_async([{"id": id, "delay": timedelta(minutes=2, milliseconds=500)}])
    (record,) = recorder.queries.fetch([id])
    assert record["id"] == str(id) and record["perform_in"] == pytest.approx(now() + 120.5, abs=20)
    with pytest.raises(seriatim.Invalid, match=r"^jobs\[0\]: delay must be a number of seconds or a timedelta, not 'soon' \(str\)$"):
        recorder.perform_async([{"id": 1, "delay": "soon"}])
    with pytest.raises(seriatim.Invalid, match=r"^jobs\[0\]: perform_in must be a datetime .*, not datetime\.timedelta"):
        recorder.perform_async([{"id": 1, "perform_in": timedelta(seconds=1)}])
    assert recorder.actions.delete([id]) == 1


def test_a_batch_knows_an_id_by_its_uuid() -> None:
    id = uuid.UUID(int=5)
    recorder = worker("Uuids", lambda payloads_by_id, batch: batch.fail(id, "no"), max_retry_count=0)
    recorder.perform_async([{"id": id}])
    serve(recorder)
    eventually(lambda: recorder.metrics["morgue_length"] == 1)


def test_r_order_1_payloads_come_by_score(recorder: Any) -> None:
    recorder.perform_async([{"id": "o", "score": score, "payload": text} for score, text in ((3, "c"), (1, "a"), (2, "b"))])
    serve(recorder)
    assert runs(recorder)[0].payloads == {"o": ["a", "b", "c"]}


def test_r_order_2_equal_scores_come_in_the_order_of_arrival(recorder: Any) -> None:
    recorder.perform_async([{"id": "one", "score": 1, "payload": "b"}, {"id": "one", "score": 1, "payload": "a"}])
    for payload in "ba":
        recorder.perform_async([{"id": "two", "score": 1, "payload": payload}])
    for id in ("one", "two"):
        assert [payload for payload, _ in record(recorder, id)["payloads"]] == ["b", "a"]


def test_r_order_3_many_pushes_of_one_id_run_in_order_and_never_side_by_side(recorder: Any) -> None:
    for _ in range(2):
        serve(recorder, threads=4)
    ids = list("abcde")
    for number in range(300):
        recorder.perform_async([{"id": id, "payload": number} for id in ids])
    drained(recorder, 100)
    done = [recorder.runs.get() for _ in range(recorder.runs.qsize())]
    for id in ids:
        mine = sorted((run for run in done if id in run.payloads), key=lambda run: run.started)
        assert [payload for run in mine for payload in run.payloads[id]] == list(range(300))
        assert all(first.ended <= second.started for first, second in pairwise(mine))


def test_r_fold_1_a_push_onto_a_waiting_id_unites_payloads_keeping_time_and_retry_count(recorder: Any) -> None:
    time = round(now() + 600)
    first = {"id": "1", "retry_count": 0, "perform_in": time}
    recorder.perform_async([{**first, "payload": "v1", "score": 1}, {**first, "payload": "v2", "score": 2}])
    later = {"id": "1", "perform_in": time + 2}
    result = recorder.perform_async([{**later, "payload": "v2", "score": 3}, {**later, "payload": "v3", "score": 4}])
    assert (result.added, result.folded) == (0, 2)
    assert record(recorder, "1") == {
        "id": "1",
        "payloads": [("v1", 1.0), ("v2", 2.0), ("v3", 4.0)],
        "payloads_count": 3,
        "retry_count": 0,
        "perform_in": time,
    }


def test_r_fold_2_equal_payloads_keep_the_smaller_score(recorder: Any) -> None:
    for score in (2, 1, 5):
        recorder.perform_async([{"id": "1", "payload": "v", "score": score}])
    assert record(recorder, "1")["payloads"] == [("v", 1.0)]


def test_r_waiting_1_earlier_brings_an_id_forward_without_it_the_time_stays(recorder: Any) -> None:
    recorder.perform_async([{"id": "1", "perform_in": datetime.now(UTC) + timedelta(hours=1)}])
    recorder.perform_async([{"id": "1", "perform_in": now()}])
    assert record(recorder, "1")["perform_in"] > now() + 3000
    recorder.perform_async([{"id": "1", "perform_in": now(), "on_waiting": "earlier"}])
    assert record(recorder, "1")["perform_in"] == pytest.approx(now(), abs=20)


def test_r_waiting_4_rejected_jobs_are_counted_and_their_indexes_given(recorder: Any) -> None:
    recorder.perform_async([{"id": "a", "delay": 60}])
    result = recorder.perform_async([{"id": "b"}, {"id": "a", "payload": 2, "on_waiting": "reject"}])
    assert result == PushResult(added=1, folded=0, refused=1, refused_at=[1])


def test_r_due_1_a_delayed_job_runs_in_time_and_not_before(recorder: Any) -> None:
    far = datetime.now(UTC) + timedelta(days=3650)
    begun = now()
    recorder.perform_async(
        [{"id": "soon", "perform_in": begun + 1}, {"id": "far", "perform_at": far}, {"id": "past", "perform_in": -1}]
    )
    serve(recorder)
    past, soon = runs(recorder, 2)
    assert [list(past.payloads), list(soon.payloads)] == [["past"], ["soon"]]
    assert soon.started - begun >= 0.9
    assert record(recorder, "far")["id"] == "far"


def test_r_refusal_3_milliseconds_are_refused_and_the_message_says_so(recorder: Any) -> None:
    with pytest.raises(seriatim.Invalid, match="millisecond"):
        recorder.perform_async([{"id": 1, "perform_in": int(now() * 1000)}])


def test_r_names_1_names_of_any_bytes_are_taken(recorder: Any) -> None:
    queues = [worker(name, shards_count=2) for name in ("Q", "Q:processing", "Q:morgue", "{Q}", "Q\n}{\0 é")]
    ids = ["a:b", "{a}", " ", "a\0b", "é", "x" * 1024]
    for queue in queues:
        queue.perform_async([{"id": id, "payload": queue.queue_name} for id in ids])
    for queue in queues:
        records = queue.queries.range_by_id("-", "+", limit=100)
        found = {record["id"]: [payload for payload, _ in record["payloads"]] for record in records}
        assert found == {id: [queue.queue_name] for id in ids}
    with pytest.raises(seriatim.Invalid, match="id"):
        recorder.perform_async([{"id": "x" * 1025}])


REFUSED: dict[str, tuple[Any, str]] = {
    "no list": ({"id": 1}, r"^jobs must be a list of dicts, not a dict$"),
    "a str": ("jobs", r"^jobs must be a list of dicts, not a str$"),
    "no dict": ([1], r"^jobs\[0\]: must be a dict, not an int$"),
    "an unknown key": ([{"id": 1}, {"id": 1, "paylaod": 1}], r"^jobs\[1\]: unknown key 'paylaod'; known are id, payload"),
    "a None id": ([{"id": None}], r"^jobs\[0\]: id must be a str, int, bytes or uuid.UUID, not None$"),
    "a float id": ([{"id": 1}, {"id": 1.5}], r"^jobs\[1\]: id must be"),
    "a bool id": ([{"id": True}], r"^jobs\[0\]: id must be .* not True \(bool\)"),
    "a lone surrogate": ([{"id": "\ud800"}], r"^jobs\[0\]: id must be a str without lone surrogates"),
    "an empty id": ([{"id": ""}], "id"),
    "two times": ([{"id": 1, "perform_in": 1, "delay": 1}], r"^jobs\[0\]: perform_in and delay exclude each other"),
    "a text time": ([{"id": 1, "perform_at": "soon"}], r"^jobs\[0\]: perform_at must be a datetime with a time zone or a"),
    "a naive datetime": ([{"id": 1, "perform_in": datetime(2030, 1, 1)}], r"^jobs\[0\]: perform_in must be a datetime with"),
    "a datetime delay": ([{"id": 1, "delay": datetime.now(UTC)}], r"^jobs\[0\]: delay must be a number of seconds"),
    "a text score": ([{"id": 1, "score": "1"}], r"^jobs\[0\]: score must be a number"),
    "a bool score": ([{"id": 1, "score": True}], r"^jobs\[0\]: score must be a number"),
    "a huge score": ([{"id": 1, "score": 10**400}], r"^jobs\[0\]: score is a number that no float can hold$"),
    "a NaN score": ([{"id": 1, "score": math.nan}], "score"),
    "an infinite time": ([{"id": 1, "perform_in": math.inf}], r"jobs\[0\]"),
    "an unknown on_waiting": ([{"id": 1, "on_waiting": "later_on"}], r"^jobs\[0\]: on_waiting must be one of keep"),
    "a list context": ([{"id": 1, "context": [1]}], r"^jobs\[0\]: context must be a dict of str"),
    "a number in a context": ([{"id": 1, "context": {"tenant": 7}}], r"^jobs\[0\]\.context\['tenant'\]: must be a str, not an int"),
    "a number as a context's key": ([{"id": 1, "context": {7: "x"}}], r"^jobs\[0\]\.context: int cannot be a key"),
    "a fraction as retry_count": ([{"id": 1, "retry_count": 0.5}], r"^jobs\[0\]: retry_count must be an int of -1 or more"),
    "a datetime in a payload": (
        [{"id": 1}, {"id": 2, "payload": {"items": [{"at": datetime.now(UTC)}]}}],
        r"^jobs\[1\]\.payload\.items\[0\]\.at: datetime cannot be",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused_before_anything_is_written(recorder: Any, redis: RedisServer, name: str) -> None:
    jobs, message = REFUSED[name]
    with pytest.raises(seriatim.Invalid, match=message):
        recorder.perform_async(jobs)
    assert redis.call("KEYS", "*:w:*") == []
    assert recorder.metrics["length"] == 0


def test_takes_tuples_bytes_ids_and_every_kind_of_number(recorder: Any) -> None:
    jobs = (
        {"id": b"a", "payload": 1, "delay": Fraction(60)},
        {"id": 2, "perform_at": now() + 60, "score": Decimal("0.5")},
        {"id": b"\xff", "delay": 60, "score": None, "perform_in": None},
    )
    recorder.perform_async(jobs)
    records = recorder.queries.range_by_id("-", "+")
    assert [record["id"] for record in records] == ["2", "a", b"\xff"]
    assert all(record["perform_in"] == pytest.approx(now() + 60, abs=20) for record in records)
    assert recorder.queries.fetch([b"\xff"]) == recorder.queries.fetch(["\udcff".encode("utf-8", "surrogateescape")])


def test_the_callers_dicts_are_left_alone(recorder: Any) -> None:
    job = {"id": 1, "payload": {"a": [1]}}
    seriatim.client_middlewares.append(lambda worker, jobs, call_next: jobs[0].update(payload=2) or call_next())
    recorder.perform_async([job])
    assert job == {"id": 1, "payload": {"a": [1]}}
    assert record(recorder, 1)["payloads"][0][0] == 2


def test_a_worker_may_override_perform_async_and_call_super() -> None:
    class Versioned(seriatim.Worker):
        @classmethod
        def perform_async(cls, jobs: Any) -> PushResult:
            return super().perform_async([{"id": job["id"], "payload": job, "score": job["version"]} for job in jobs])

    Versioned.perform_async([{"id": 1, "version": 7}])
    assert record(Versioned, "1")["payloads"] == [({"id": 1, "version": 7}, 7.0)]


def test_an_empty_list_pushes_nothing(recorder: Any) -> None:
    assert recorder.perform_async([]) == PushResult(0, 0, 0, [])


def test_a_middleware_that_does_not_continue_writes_nothing(recorder: Any) -> None:
    seriatim.client_middlewares.append(lambda worker, jobs, call_next: None)
    assert recorder.perform_async([{"id": 1}]) == PushResult(0, 0, 0, [])
    assert recorder.metrics["length"] == 0


def test_what_a_middleware_made_is_checked_again(recorder: Any) -> None:
    seriatim.client_middlewares.append(lambda worker, jobs, call_next: jobs.append({"id": None}) or call_next())
    with pytest.raises(seriatim.Invalid, match=r"jobs\[1\]: id must be"):
        recorder.perform_async([{"id": 1}])
    assert recorder.metrics["length"] == 0


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"score": 10**400}, "score is a number that no float can hold"),
        ({"delay": -(10**400)}, "delay is a number that no float can hold"),
        ({"deliver_at": 10**400}, "deliver_at is a number that no float can hold"),
        ({"retry_count": 2**70}, "retry_count must be from -1 to 1000000"),
        ({"deliver_at": datetime(9999, 12, 31, tzinfo=timezone.utc)}, "deliver_at is more than 100 years ahead"),
    ],
)
def test_names_what_is_wrong_with_a_number_that_is_too_great(fields: Any, text: str) -> None:
    with pytest.raises(seriatim.Invalid, match=rf"^jobs\[0\]: {text}$"):
        worker().perform_async([{"id": 1, **fields}])
