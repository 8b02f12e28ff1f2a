"""What C reads of a job by itself is what seriatim._client.jobs would have said."""

from __future__ import annotations

import json
from collections import OrderedDict
from datetime import datetime, timezone
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

import pytest

import seriatim
from seriatim import _native
from seriatim._client import codec, jobs as client_jobs
from support.native import link, queue_settings
from support.redis_server import RedisServer

TIMES: list[dict[str, Any]] = [
    {},
    {"perform_in": 4e9},
    {"perform_at": 4_000_000_000},
    {"perform_in": datetime(2096, 10, 2, tzinfo=timezone.utc), "delay": None},
    {"delay": 3600},
    {"delay": Decimal("3600.5"), "perform_at": None},
]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"score": 7, "payload": {"b": [1, 2.5, None, True], "a": "\xe4"}},
    {"score": -1.5, "payload": None},
    {"score": None, "retry_count": 3, "context": {"k": "v"}, "payload": "x" * 3000},
    {"on_waiting": "earlier", "context": None, "retry_count": None},
    json.loads('{"score": 1e300, "payload": [[], {}]}'),
]
IDS: list[Any] = [99991, -(2**63), 2**70, "a", "\xe4:{}", b"\xff", "x" * 1024]

REFUSED: list[Any] = [
    {},
    {"payload": 1},
    {"id": None},
    {"id": True},
    {"id": "\ud800"},
    {"id": 1.5},
    {"id": 1, "payload": {1: 2}},
    {"id": 1, "payload": float("nan")},
    {"id": 1, "payload": object},
    {"id": 1, "payload": "\ud800"},
    {"id": 1, "score": "7"},
    {"id": 1, "score": 10**400},
    {"id": 1, "delay": True},
    {"id": 1, "delay": 1, "perform_in": 1},
    {"id": 1, "perform_in": 1, "perform_at": 1},
    {"id": 1, "perform_in": datetime(2026, 1, 1)},
    {"id": 1, "retry_count": -2},
    {"id": 1, "on_waiting": "never"},
    {"id": 1, "context": {"k": 1}},
    {"id": 1, "unknown": None},
    {1: 1, "id": 1},
    [("id", 1)],
    None,
]


def asked(jobs: list[Any]) -> _native.Jobs:
    """Nothing is read in C."""
    return _native.jobs(jobs, partial(client_jobs._row, codec.JSON), False)


def stored(redis: RedisServer, name: bytes, jobs: _native.Jobs) -> Any:
    one = link(redis)
    queue = one.queue(queue_settings(name))
    one.push(queue, jobs)
    one.drive(10)
    one.query(queue, "range_by_id", False, b"-", b"+", 1000, -1, None)
    return one.drive(10)


def comparable(record: dict[str, Any]) -> Any:
    """Without what depends on the time of the push."""
    now = 1e9
    payloads = [(data, None if now < score < 1e10 else score) for data, score in record["payloads"]]
    return record["id"], record["retry_count"], round(record["perform_in"] / 60), payloads


def test_both_readers_of_jobs_store_the_same(redis: RedisServer) -> None:
    jobs = [{"id": f"{place}"} | time | options for place, (time, options) in enumerate(product(TIMES, OPTIONS))]
    jobs += [{"id": id, "payload": 1} for id in IDS]
    plain = stored(redis, b"plain", client_jobs.read_jobs(jobs, codec.JSON))
    assert len(plain) == len(jobs)
    assert list(map(comparable, plain)) == list(map(comparable, stored(redis, b"asked", asked(jobs))))


@pytest.mark.parametrize("job", REFUSED, ids=repr)
def test_both_readers_of_jobs_refuse_with_the_same_message(job: Any) -> None:
    with pytest.raises(seriatim.Invalid) as plain:
        client_jobs.read_jobs([{"id": 1}, job], codec.JSON)
    with pytest.raises(seriatim.Invalid) as said:
        asked([{"id": 1}, job])
    assert str(plain.value) == str(said.value)
    assert str(said.value).startswith("jobs[1]")


def test_only_plain_jobs_are_read_without_asking() -> None:
    def never(job: Any, place: int) -> Any:
        raise AssertionError(job)

    plain: list[Any] = [{"id": 1}, {"id": "a", "payload": {"a": []}, "score": 1, "delay": 0.5, "perform_in": None}]
    plain.append({"id": b"a", "perform_in": 4e9})
    assert len(_native.jobs(plain, never, True)) == 3
    for job in (OrderedDict(id=1), {"id": 1, "context": {"k": "v"}}, {"id": 2**64}):
        with pytest.raises(AssertionError):
            _native.jobs([job], never, True)


def test_a_list_may_change_while_it_is_read() -> None:
    jobs: list[Any] = [{"id": 1}, OrderedDict(id=2), {"id": 3}, {"id": 4}]

    def shorten(job: Any, place: int) -> Any:
        jobs.clear()
        return client_jobs._row(codec.JSON, job, place)

    assert len(_native.jobs(jobs, shorten, True)) == 2
