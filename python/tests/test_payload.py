"""Payloads, from canonical JSON to codecs of an application's own."""

from __future__ import annotations

import json
import math
import pickle
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

import seriatim
from seriatim import _native
from support.jobs import drained, eventually, runs, serve, worker

WRITTEN: list[tuple[Any, str]] = [
    (None, "null"),
    (True, "true"),
    ("", '""'),
    (1, "1"),
    (1.0, "1"),
    (1.5, "1.5"),
    (1e21, "1e+21"),
    (-0.0, "0"),
    (2**63 - 1, "9223372036854775807"),
    (-(2**63), "-9223372036854775808"),
    ({"b": 1, "a": [None, False]}, '{"a":[null,false],"b":1}'),
    ((1, (2,)), "[1,[2]]"),
    ("é\0\n", '"é\\u0000\\n"'),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN)
def test_writes_canonical_json(value: Any, text: str) -> None:
    assert _native.dump(value, "p") == text.encode()


cycle: list[Any] = []
cycle.append(cycle)
REFUSED: list[tuple[Any, str]] = [
    (math.nan, "p: NaN"),
    (2**63, r"p: int must be from -2\^63 to 2\^63-1"),
    (-(2**64), "p: int"),
    ([datetime.now()], r"p\[0\]: datetime cannot be written as JSON"),
    ({1: 2}, "int cannot be a key"),
    ({True: 2}, "bool cannot be a key"),
    ("\ud800", "p: .*(UTF-8|surrogate)"),
    (b"x", "p: bytes cannot be written as JSON"),
    ({"a": {1, 2}}, r"p\.a: set cannot"),
    (cycle, "contains itself"),
    (object(), "p: object cannot"),
    (Decimal(1), "p: .*Decimal cannot"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refuses_what_is_no_json(value: Any, message: str) -> None:
    with pytest.raises(seriatim.Invalid, match=message):
        _native.dump(value, "p")


def test_reads_back_what_it_wrote() -> None:
    value = {"a": [1, -2.5, None, True, "é"], "b": {"c": []}, "": 2**63 - 1}
    assert _native.load(_native.dump(value, "p")) == value


@pytest.mark.parametrize("text", [b'{"a":}', b"[1", b"", b"1 2", b"\xff", b'{"a":1,}', b"NaN"])
def test_cannot_read_what_is_no_json(text: bytes) -> None:
    with pytest.raises(seriatim.Undecodable, match="at byte"):
        _native.load(text)


def payload_of(recorder: Any, payload: Any) -> Any:
    recorder.perform_async([{"id": 1, "payload": payload}])
    serve(recorder)
    return runs(recorder)[0].payloads["1"][0]


def test_key_order_does_not_defeat_folding() -> None:
    recorder = worker()
    recorder.perform_async([{"id": 1, "payload": {"a": 1, "b": 2}}, {"id": 1, "payload": {"b": 2, "a": 1}}])
    serve(recorder)
    assert runs(recorder)[0].payloads["1"] == [{"a": 1, "b": 2}]


def test_raw_payloads_are_bytes() -> None:
    assert payload_of(worker(codec="raw"), b"\xff\x00") == b"\xff\x00"


def test_raw_refuses_other_types_than_bytes() -> None:
    with pytest.raises(seriatim.Invalid, match=r"^jobs\[0\]\.payload: must be bytes, not a str$"):
        worker(codec="raw").perform_async([{"id": 1, "payload": "text"}])


def test_a_raw_job_without_payload_has_no_bytes() -> None:
    recorder = worker(codec="raw")
    recorder.perform_async([{"id": 1}])
    assert recorder.queries.fetch([1])[0]["payloads"][0][0] == b""


def test_pickle_where_the_worker_names_it() -> None:
    payload = {"num": 1, "str": "str", "time": datetime(2026, 1, 1), "arr": (1, 2, 3)}
    assert payload_of(worker(codec=(pickle.dumps, pickle.loads)), payload) == payload


def test_a_dump_may_give_text() -> None:
    assert payload_of(worker(codec=[json.dumps, json.loads]), {"b": 1, "a": 2.5}) == {"b": 1, "a": 2.5}


def test_a_dump_that_gives_neither_bytes_nor_text_is_refused() -> None:
    with pytest.raises(seriatim.Invalid, match=r"^jobs\[0\]\.payload: dump_payload must return bytes or a str, not an int$"):
        worker(codec=(len, len)).perform_async([{"id": 1, "payload": "x"}])


def test_the_modules_pair_for_workers_that_name_none() -> None:
    seriatim.dump_payload = lambda payload: str(payload)[::-1]
    seriatim.load_payload = lambda data: int(data[::-1])
    assert payload_of(worker(), 123) == 123


def test_one_half_of_a_pair_leaves_the_other_to_json() -> None:
    seriatim.load_payload = lambda data: data.decode() + "!"
    assert payload_of(worker(), [1]) == "[1]!"


def test_f12_what_cannot_be_read_is_buried_and_the_rest_goes_on() -> None:
    raw = worker("Mixed", codec="raw")
    raw.perform_async([{"id": 1, "payload": b"{broken"}, {"id": 1, "payload": b"2"}, {"id": 2, "payload": b"3"}])
    recorder = worker("Mixed", batch_size=10)
    assert recorder.queries.fetch([1])[0]["payloads"][0][0] == b"{broken"
    serve(recorder)
    drained(recorder)
    done = {}
    while not recorder.runs.empty():
        done.update(recorder.runs.get().payloads)
    assert done == {"1": [2], "2": [3]}
    (dead,) = recorder.queries.morgue_fetch([1])
    assert dead["payloads"][0][0] == b"{broken"
    assert "undecodable payload" in dead["error"]


def test_the_reason_why_a_payload_cannot_be_read_passes_dump_error() -> None:
    seriatim.dump_error = lambda text: f"<{text}>"
    worker("Unread", codec="raw").perform_async([{"id": 1, "payload": b"{"}])
    recorder = worker("Unread")
    serve(recorder)
    (dead,) = eventually(lambda: recorder.queries.morgue_fetch([1]))
    assert dead["error"].startswith("<undecodable payload: ") and dead["error"].endswith(">")


@pytest.mark.parametrize("fold", ["merge", "last", "list"])
def test_f12_one_of_1000_cannot_be_read(fold: str) -> None:
    """Only it is buried, with its bytes; neither its shard nor the others of its call notice."""
    raw = worker("Thousand", codec="raw", fold=fold, shards_count=3)
    broken = b'{"id":\xff\x00'
    raw.perform_async([{"id": id, "payload": broken if id == 500 else b"%d" % id} for id in range(1000)])
    recorder = worker("Thousand", batch_size=10, fold=fold, shards_count=3)
    serve(recorder)
    drained(recorder)
    done: dict[Any, Any] = {}
    while not recorder.runs.empty():
        done.update(recorder.runs.get().payloads)
    assert done == {str(id): [id] for id in range(1000) if id != 500}
    assert recorder.metrics["morgue_length"] == 1
    assert raw.queries.morgue_fetch([500])[0]["payloads"][0][0] == broken


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, StopIteration, RecursionError])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_f12_a_codec_may_raise_anything(kind: str, error: type[BaseException]) -> None:
    def load(data: bytes) -> Any:
        if data == b"bad":
            raise error("load")
        return data.decode()

    async def perform(payloads_by_id: Any, batch: Any) -> None: ...

    body = perform if kind == "async def" else None
    recorder = worker("Codec", body, codec=(str.encode, load), batch_size=5, shards_count=1)
    recorder.perform_async([{"id": id, "payload": "bad" if id == 3 else "good"} for id in range(10)])
    serve(recorder)
    drained(recorder)
    assert (recorder.metrics["processed"], recorder.metrics["morgue_length"]) == (9, 1)
