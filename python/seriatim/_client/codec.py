"""Turns payloads into bytes and back."""

from __future__ import annotations

from typing import Any, ClassVar

from .. import _native
from .._errors import Invalid
from .._settings import settings
from .._types import Codec, CodecSetting, Dump, Load
from . import validate

RULE = "json, raw or a pair of callables (dump, load)"


class Json:
    """Canonical JSON (RFC 8785, integers exact within int64)."""

    nothing: ClassVar[object] = ""

    def dump(self, payload: Any, where: str) -> bytes:
        return _native.dump(payload, where)

    def load(self, data: bytes) -> Any:
        return _native.load(data)


class Raw:
    """The bytes themselves."""

    nothing: ClassVar[object] = b""

    def dump(self, payload: Any, where: str) -> bytes:
        if isinstance(payload, (bytes, bytearray, memoryview)):
            return bytes(payload)
        raise Invalid(f"{where}: must be bytes, not {validate.kind(payload)}")

    def load(self, data: bytes) -> Any:
        return data


class Own:
    """A pair of callables of the application's."""

    nothing: ClassVar[object] = ""

    def __init__(self, dump: Dump, load: Load) -> None:
        self._dump = dump
        self._load = load

    def dump(self, payload: Any, where: str) -> bytes:
        data = self._dump(payload)
        if isinstance(data, str):
            return data.encode()
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        raise Invalid(f"{where}: dump_payload must return bytes or a str, not {validate.kind(data)}")

    def load(self, data: bytes) -> Any:
        return self._load(data)


JSON = Json()
RAW = Raw()


def of(setting: CodecSetting) -> Codec:
    """The codec of a worker's setting."""
    if setting is None:
        return _module_wide()
    if isinstance(setting, tuple):
        return Own(*setting)
    if setting == "raw":
        return RAW
    return JSON


def _module_wide() -> Codec:
    dump, load = settings.dump_payload, settings.load_payload
    if dump is None and load is None:
        return JSON
    return Own(dump or (lambda payload: _native.dump(payload, "payload")), load or _native.load)


def check(field: str, setting: Any) -> CodecSetting:
    if setting is None or setting in ("json", "raw"):
        return None if setting is None else str(setting)
    if isinstance(setting, (tuple, list)) and len(setting) == 2 and all(map(callable, setting)):
        return setting[0], setting[1]
    raise validate.refusal(field, RULE, setting)
