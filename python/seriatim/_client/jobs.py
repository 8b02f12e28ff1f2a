"""The job dicts of perform_async, checked and turned into what the core takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

from .. import _native
from .._errors import Invalid
from .._types import AnyId, AnyJob, Codec, Job
from . import validate
from .codec import JSON

# definitions: job fields, written by script/embed from core/definitions/jobs.json

KEYS = (
    "id", "payload", "score", "perform_in", "perform_at", "delay",
    "on_waiting", "context", "retry_count", "deliver_at", "deliver_in",
)

# end of definitions
TIMES = ("perform_in", "perform_at", "delay")
DELIVERY_TIMES = ("deliver_at", "deliver_in")
ON_WAITING = next(setting["words"] for setting in _native.worker_settings() if setting["name"] == "on_waiting")
NOW, AT, DELAY = 0, 1, 2


def normalize_jobs(jobs: Sequence[AnyJob]) -> list[Job]:
    """Dicts of known keys, the caller's left alone."""
    return [_known_keys(job, at) for at, job in enumerate(_listed(jobs))]


def read_jobs(jobs: Sequence[AnyJob], codec: Codec) -> _native.Jobs:
    """The jobs, checked, as a link takes them. C reads what is plain, and asks for the row of every other."""
    return _native.jobs(_listed(jobs), partial(_row, codec), codec is JSON)


def _listed(jobs: Sequence[AnyJob]) -> list[AnyJob]:
    if isinstance(jobs, list):
        return jobs
    if isinstance(jobs, (str, bytes)) or not isinstance(jobs, Sequence):
        raise Invalid(f"jobs must be a list of dicts, not {validate.kind(jobs)}")
    return list(jobs)


def _known_keys(job: AnyJob, at: int) -> Job:
    if not isinstance(job, Mapping):
        raise Invalid(f"jobs[{at}]: must be a dict, not {validate.kind(job)}")
    known = dict(job)
    for key in known:
        if key not in KEYS:
            raise Invalid(f"jobs[{at}]: unknown key {key!r}; known are {', '.join(KEYS)}")
    return cast(Job, known)


def _row(codec: Codec, any_job: AnyJob, at: int) -> _native.JobRow:
    job = _known_keys(any_job, at)
    moment, time = _time_of(job, at, TIMES)
    deliver_when, deliver_time = _time_of(job, at, DELIVERY_TIMES)
    payload = job["payload"] if "payload" in job else codec.nothing
    return (
        _id(job, at),
        codec.dump(payload, f"jobs[{at}].payload"),
        _number(job.get("score"), at, "score", "a number"),
        moment,
        time,
        _retry_count(job.get("retry_count"), at),
        _on_waiting(job.get("on_waiting"), at),
        _context(job.get("context"), at),
        deliver_when,
        deliver_time,
    )


def _id(job: Job, at: int) -> bytes:
    if "id" not in job:
        raise Invalid(f"jobs[{at}]: id is missing")
    return id_bytes(job["id"], f"jobs[{at}]: id")


def id_bytes(value: AnyId, field: str = "id") -> bytes:
    """The bytes of an id: of a str its UTF-8, of an int its decimal digits."""
    if isinstance(value, str):
        return utf8(value, field)
    if isinstance(value, bytes):
        return value
    if isinstance(value, UUID):
        return str(value).encode()
    if validate.is_int(value):
        return b"%d" % value
    raise validate.refusal(field, "a str, int, bytes or uuid.UUID", value)


def utf8(value: str, field: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise validate.refusal(field, "a str without lone surrogates", value) from None


def handle_bytes(handle: str) -> bytes:
    if not isinstance(handle, str):
        raise validate.refusal("handle", "a str", handle)
    return handle.encode("utf-8", "surrogatepass")


def ids_bytes(ids: Sequence[AnyId]) -> list[bytes]:
    """Of ids that an operator gives."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Sequence):
        raise Invalid(f"ids must be a list, not {validate.kind(ids)}")
    return [id_bytes(id, f"ids[{at}]") for at, id in enumerate(ids)]


def _number(value: object, at: int, key: str, rule: str) -> float | None:
    if value is None:
        return None
    given = validate.field_number(f"jobs[{at}]: {key}", value)
    if given is None:
        raise _refusal(at, key, rule, value)
    return given


def _time_of(job: Job, at: int, keys: tuple[str, ...]) -> tuple[int, float]:
    """A time that may be said in several ways, the last of which is seconds from now."""
    given = [(key, value) for key in keys if (value := cast(Any, job).get(key)) is not None]
    if not given:
        return NOW, 0.0
    if len(given) > 1:
        raise Invalid(f"jobs[{at}]: {' and '.join(key for key, _ in given)} exclude each other")
    key, value = given[0]
    if key == keys[-1]:
        seconds = value.total_seconds() if isinstance(value, timedelta) else value
        return DELAY, _number(seconds, at, key, "a number of seconds or a timedelta") or 0.0
    return AT, unix_time(value, f"jobs[{at}]: {key}")


def unix_time(value: object, field: str) -> float:
    """Unix seconds, of a number or an aware datetime."""
    rule = "a datetime with a time zone or a number of Unix seconds"
    if isinstance(value, datetime):
        given = None if value.utcoffset() is None else value.timestamp()
    else:
        given = validate.field_number(field, value)
    if given is None:
        raise validate.refusal(field, rule, value)
    return given


def _retry_count(count: object, at: int) -> int:
    if count is None:
        return -1
    if isinstance(count, int) and validate.is_int(count) and count >= -1:
        return count
    raise _refusal(at, "retry_count", "an int of -1 or more", count)


def _on_waiting(word: object, at: int) -> str | None:
    return None if word is None else validate.word(f"jobs[{at}]: on_waiting", word, ON_WAITING)


def _context(texts: object, at: int) -> bytes | None:
    if texts is None:
        return None
    if not isinstance(texts, Mapping):
        raise _refusal(at, "context", "a dict of str", texts)
    for key, value in texts.items():
        if not isinstance(value, str):
            raise Invalid(f"jobs[{at}].context[{key!r}]: must be a str, not {validate.kind(value)}")
    return _native.dump(dict(texts), f"jobs[{at}].context") if texts else None


def _refusal(at: int, key: str, rule: str, value: object) -> Invalid:
    return validate.refusal(f"jobs[{at}]: {key}", rule, value)
