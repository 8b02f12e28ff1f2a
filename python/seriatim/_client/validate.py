"""Early validation: each returns the value it was given, or raises Invalid naming the field and the rule."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from datetime import timedelta
from functools import partial
from numbers import Rational
from typing import Any, SupportsFloat, TypeVar

from .. import _native
from .._errors import Invalid, UsageError

F = TypeVar("F", bound=Callable[..., Any])


def refusal(field: str, rule: str, value: object) -> Invalid:
    return Invalid(f"{field} must be {rule}, not {describe(value)}")


def misuse(field: str, rule: str, value: object) -> UsageError:
    """What the command answers with exit code 2: seen at the start of a server."""
    return UsageError(f"{field} must {rule}, not {describe(value)}")


def integer(field: str, value: Any, low: int, high: int) -> int:
    if is_int(value) and low <= value <= high:
        return int(value)
    raise refusal(field, f"an int from {low} to {high}", value)


def seconds(field: str, value: Any, low: float, high: float) -> float:
    given = number(value)
    if given is not None and low <= given <= high:
        return value if isinstance(value, int) else given
    raise refusal(field, f"a number of seconds from {low} to {high}", value)


LONGEST_DELAY = 100 * 365.25 * 86_400  # seconds


def delay(field: str, value: Any) -> float:
    """How long an id that comes back waits: seconds, also of a timedelta."""
    given = value.total_seconds() if isinstance(value, timedelta) else value
    return float(seconds(field, given, 0.0, LONGEST_DELAY))


def payload_bytes(field: str, data: bytes) -> bytes:
    """What a codec has made of a payload."""
    if len(data) <= _native.MAX_PAYLOAD:
        return data
    most = _native.MAX_PAYLOAD
    raise Invalid(f"{field} is {len(data)} bytes long; at most {most} are allowed: store it elsewhere and pass its key")


def time_to_run(field: str, value: Any) -> float:
    return float(seconds(field, value, 0.0, 31_536_000.0))


def is_int(value: object) -> bool:
    """An int, but not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: object) -> float | None:
    """The value as a float, if it is a real number (int, float, Fraction, Decimal …), else None."""
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def field_number(field: str, value: object) -> float | None:
    """As number. Raises Invalid for a number that is too great for a float."""
    given = number(value)
    if given is None and isinstance(value, Rational) and not isinstance(value, bool):
        raise Invalid(f"{field} is a number that no float can hold")
    return given


def word(field: str, value: Any, words: Sequence[str]) -> str:
    if isinstance(value, str) and value in words:
        return value
    raise refusal(field, f"one of {', '.join(words)}", value)


def flag(field: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise refusal(field, "True or False", value)


UNFINISHED = (Generator, AsyncGenerator, Awaitable)  # what a function returned that is still to be run or awaited
NO_GENERATOR = "must not be a generator function (with yield), of which a call runs nothing"


def is_generator_function(value: object) -> bool:
    """Does calling it only make a generator?"""
    functions = (value, getattr(value, "__call__", None))
    return any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in functions)


def function(field: str, value: F, rule: str = "callable") -> F:
    if not callable(value):
        raise refusal(field, rule, value)
    if is_generator_function(value):
        raise Invalid(f"{field} {NO_GENERATOR}")
    return value


def function_or_none(field: str, value: Any) -> Any:
    return None if value is None else function(field, value, "callable or None")


def sequence(field: str, value: Any) -> list[Any]:
    if isinstance(value, list):
        return value
    raise refusal(field, "a list", value)


def functions(field: str, value: Any) -> list[Any]:
    """A list of callables; an item that is appended later is checked when the list is used."""
    given = sequence(field, value)
    for place, item in enumerate(given):
        function(f"{field}[{place}]", item)
    return given


def text(field: str, value: Any, low: int, high: int) -> str:
    """A str of `low` to `high` bytes. Bytes of a command line that are not UTF-8 come as Python hands them out (PEP 383)."""
    if isinstance(value, str) and low <= len(text_bytes(value)) <= high:
        return value
    raise refusal(field, f"a text of {low} to {high} bytes", value)


def plain_text(field: str, value: Any, low: int, high: int) -> str:
    """A str of `low` to `high` bytes of UTF-8, none of which is zero."""
    try:
        if isinstance(value, str) and "\0" not in value and low <= len(value.encode()) <= high:
            return value
    except UnicodeEncodeError:
        pass
    raise refusal(field, f"a text of {low} to {high} bytes of UTF-8 without a zero byte", value)


def text_bytes(value: str) -> bytes:
    """The text's bytes; none where it has no encoding (a lone surrogate)."""
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return b""


def of_setting(setting: _native.WorkerSetting) -> Callable[[str, Any], object]:
    """The check of a worker's setting, called with the field and the value."""
    low, high = setting["low"], setting["high"]
    checks: dict[str, Callable[[str, Any], object]] = {
        "text": partial(text, low=low, high=high),
        "word": partial(word, words=setting["words"]),
        "integer": partial(integer, low=low, high=high),
        "seconds": partial(seconds, low=low, high=high),
        "flag": flag,
    }
    required = checks[setting["kind"]]
    return (lambda field, value: None if value is None else required(field, value)) if setting["optional"] else required


def kind(value: object) -> str:
    """The type of a value, with its article."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def describe(value: object) -> str:
    try:
        shown = repr(value)
    except Exception:
        return kind(value)
    if value is None:
        return shown
    return f"{shown[:60]}... ({type(value).__name__})" if len(shown) > 63 else f"{shown} ({type(value).__name__})"
