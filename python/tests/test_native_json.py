"""dump and load: canonical JSON, and what has no place in it."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import math
from typing import Any

import pytest

import seriatim
from seriatim import _native


class Number(enum.IntEnum):
    TWO = 2


class Word(str, enum.Enum):
    RED = "red"


class Half(float):
    pass


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value, text",
    [
        ({"b": 1, "a": [1, 2.5, None, True, False]}, '{"a":[1,2.5,null,true,false],"b":1}'),
        ({"\U0001f600": 1, "\ufb33": 2, "€": 3, "\r": 4, "1": 5}, '{"\\r":4,"1":5,"€":3,"\U0001f600":1,"\ufb33":2}'),
        ([1e21, 1e-7, 1e20, 0.1, -0.0, 5e-324, 1.0], "[1e+21,1e-7,100000000000000000000,0.1,0,5e-324,1]"),
        ([2**63 - 1, -(2**63), 2**53 + 1, 0, -1], "[9223372036854775807,-9223372036854775808,9007199254740993,0,-1]"),
        ('"\\\b\f\n\r\t\x00\x1f/é\u2028', '"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f/é\u2028"'),
        ((1, (2, [])), "[1,[2,[]]]"),
        (Point(1, 2), "[1,2]"),
        (collections.OrderedDict(b=1, a={}), '{"a":{},"b":1}'),
        ([Number.TWO, Word.RED, Half(0.5), True], '[2,"red",0.5,true]'),
        ("", '""'),
        (None, "null"),
    ],
)
def test_dump_is_canonical(value: Any, text: str) -> None:
    assert _native.dump(value, "payload") == text.encode()


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def cycle() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


REFUSED = [
    ({"a": [1, datetime.datetime(2024, 1, 1)]}, "jobs[0].payload.a[1]: datetime cannot be written as JSON"),
    (decimal.Decimal(1), "jobs[0].payload: Decimal cannot be written as JSON"),
    ([b"x"], "jobs[0].payload[0]: bytes cannot be written as JSON"),
    ({1: 2}, "jobs[0].payload: int cannot be a key: keys must be str"),
    ({"a": {None: 2}}, "jobs[0].payload.a: NoneType cannot be a key: keys must be str"),
    ({1, 2}, "jobs[0].payload: set cannot be written as JSON"),
    ([2**63], "jobs[0].payload[0]: int must be from -2^63 to 2^63-1"),
    ([-(2**63) - 1], "jobs[0].payload[0]: int must be from -2^63 to 2^63-1"),
    ({"two words": [math.nan]}, 'jobs[0].payload["two words"][0]: NaN has no place in JSON'),
    ({"x": math.inf}, "jobs[0].payload.x: "),
    (["\ud800"], "jobs[0].payload[0]: a string must be valid UTF-8"),
    ({"\udfff": 1}, "jobs[0].payload: a key must be valid UTF-8"),
    (nested(129), ": arrays and objects may lie 128 deep at most"),
    (cycle(), ": a value that contains itself cannot be written as JSON"),
]


@pytest.mark.parametrize("value, message", REFUSED, ids=[message for _, message in REFUSED])
def test_dump_refuses(value: Any, message: str) -> None:
    with pytest.raises(seriatim.Invalid) as caught:
        _native.dump(value, "jobs[0].payload")
    assert message in str(caught.value)
    assert len(str(caught.value)) < 400


def test_dump_takes_the_deepest_allowed_nesting() -> None:
    assert _native.load(_native.dump(nested(128), "payload")) == nested(128)


def test_dump_names_a_class_whose_name_has_a_dot_or_is_not_ascii() -> None:
    with pytest.raises(seriatim.Invalid, match="payload: Größe cannot be written as JSON"):
        _native.dump(type("Größe", (), {})(), "payload")


def test_a_refused_value_leaves_nothing_behind() -> None:
    text = "é" * 3
    for _ in range(3):
        with pytest.raises(seriatim.Invalid):
            _native.dump([text, "\ud800"], "payload")
    assert _native.dump(text, "payload") == '"ééé"'.encode()


@pytest.mark.parametrize(
    "text, value",
    [
        (b' {"a" : [1, -0, 1.5, 1e3, "\\u00e9\\ud83d\\ude00"] } ', {"a": [1, 0, 1.5, 1000, "é\U0001f600"]}),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", 2.0**63),
        (b"[true,false,null,[],{}]", [True, False, None, [], {}]),
        (b'"a\\u0000b"', "a\0b"),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_load_reads_json(text: bytes, value: Any) -> None:
    loaded = _native.load(text)
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    "text",
    [b"", b"[1,", b"[1", b'{"a":', b'{"a"', b"nan", b"[1] 2", b'"\\ud800"', b'"\xff"', b"[" * 129 + b"]" * 129],
)
def test_load_refuses(text: bytes) -> None:
    with pytest.raises(seriatim.Undecodable):
        _native.load(text)


def test_arguments_of_other_types_are_refused() -> None:
    with pytest.raises(TypeError):
        _native.load("[]")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _native.dump([])  # type: ignore[call-arg]
    with pytest.raises(ValueError):
        _native.dump([], "a\0b")


def test_what_is_written_reads_the_same() -> None:
    value = {"text": "a\u2028b", "numbers": [0.1, 1e300, -5e-324, 2**62], "nothing": None, "deep": [[[{"k": [True]}]]]}
    assert _native.load(_native.dump(value, "payload")) == value
