"""
The file of -C: YAML, TOML or JSON. Keys are require, threads, processes, queues, timeout, environment, verbose and
log_format; any other key must hold a map and is the name of an environment, whose keys win there.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable
from typing import Any, Final

from .._client import private_redis, validate
from .._errors import UsageError


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


RULES: Final[dict[str, tuple[str, Callable[[object], bool]]]] = {
    "require": ("a text", _is_text),
    "threads": ("an integer", _is_integer),
    "processes": ("an integer", _is_integer),
    "queues": ("a list of texts", _is_texts),
    "timeout": ("a number of seconds", _is_number),
    "environment": ("a text", _is_text),
    "verbose": ("true or false", lambda value: isinstance(value, bool)),
    "log_format": ("text or json", lambda value: value in ("text", "json")),
}


def read(path: str, environment: str | None) -> dict[str, Any]:
    """Its settings in that environment (of -e). Raises UsageError."""
    root = parse(path)
    sections = {key: value for key, value in root.items() if isinstance(value, dict) and key not in RULES}
    plain = checked(path, {key: value for key, value in root.items() if key not in sections})
    name = environment or plain.get("environment") or private_redis.environment()
    return {**plain, **checked(path, sections.get(name, {}))}


def parse(path: str) -> dict[str, Any]:
    parse_text = parser(path)
    try:
        with open(path, encoding="utf-8-sig") as file:
            root = parse_text(file.read())
    except OSError as error:
        raise UsageError(f"-C {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"-C {path}: {error}") from None
    if root is None:
        return {}
    if not isinstance(root, dict):
        raise UsageError(f"{path}: must be a map of settings")
    return root


def parser(path: str) -> Callable[[str], Any]:
    if path.endswith((".yml", ".yaml")):
        return yaml(path)
    if path.endswith(".toml"):
        return toml(path)
    if path.endswith(".json"):
        return json.loads
    raise UsageError(f"-C {path}: the name must end in .yml, .yaml, .toml or .json")


def yaml(path: str) -> Callable[[str], Any]:
    try:
        module = importlib.import_module("yaml")
    except ModuleNotFoundError:
        raise UsageError(f"-C {path}: YAML needs the package PyYAML; TOML and JSON need none") from None

    def load(text: str) -> Any:
        try:
            return module.safe_load(text)
        except module.YAMLError as error:
            raise ValueError(" ".join(str(error).replace("<unicode string>", path).split())) from None

    return load


def toml(path: str) -> Callable[[str], Any]:
    try:
        loads: Callable[[str], Any] = importlib.import_module("tomllib").loads
    except ModuleNotFoundError:
        raise UsageError(f"-C {path}: TOML needs Python 3.11; JSON does not") from None
    return loads


def checked(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    unknown = [str(key) for key in settings if key not in RULES]
    if unknown:
        raise UsageError(f"{path}: unknown key {', '.join(unknown)}; known are {', '.join(RULES)}")
    for key, value in settings.items():
        rule, holds = RULES[key]
        if not holds(value):
            raise UsageError(f"{path}: {key} must be {rule}, not {validate.describe(value)}")
    return settings
