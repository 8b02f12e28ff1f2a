"""The file of -C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seriatim import UsageError
from seriatim._cli import config_file
from seriatim._client import validate

WRONG: dict[str, tuple[list[Any], str]] = {
    "require": ([5, {"a": 1}, None, ["app"]], "a text"),
    "threads": (["many", 1.5, True, None, {"a": 1}, [1]], "an integer"),
    "processes": (["2", 2.0, None], "an integer"),
    "queues": (["OrderWorker", 5, ["A", 5], {"A": 1}, None, [["A"]]], "a list of texts"),
    "timeout": (["soon", "25", float("nan"), float("inf"), True, None, {"a": 1}], "a number of seconds"),
    "environment": ([5, None, {"a": 1}], "a text"),
    "verbose": (["yes", 1, None], "true or false"),
    "log_format": (["xml", 5, None, ["json"]], "text or json"),
}


def refusal(path: Path, settings: object) -> str:
    path.write_text(json.dumps(settings))
    with pytest.raises(UsageError) as raised:
        config_file.read(str(path), "test")
    return str(raised.value)


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_type_is_refused_by_file_key_rule_and_value(key: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    values, rule = WRONG[key]
    for value in values:
        said = f"{path}: {key} must be {rule}, not {validate.describe(value)}"
        assert refusal(path, {key: value}) == said
        assert refusal(path, {"test": {key: value}}) == said


def test_what_is_right_is_read_by_environment(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    right = {"queues": ["A", "b c"], "threads": 2, "timeout": 1.5, "log_format": "json", "verbose": False}
    path.write_text(json.dumps({**right, "staging": {"threads": 3}}))
    assert config_file.read(str(path), None) == right
    assert config_file.read(str(path), "staging") == {**right, "threads": 3}
