"""The same as settings_probe.rb, in Python."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import seriatim
from seriatim import _log, _settings, _worker
from seriatim._cli import config_file
from seriatim._errors import Invalid, UsageError


class OrderWorker(seriatim.Worker):
    queue_name = "orders"


def refusal(target: Any, name: str, value: Any) -> str | None:
    try:
        setattr(target, name, value)
    except Invalid as error:
        return str(error)
    return None


def refusals(target: Any, values: dict[str, list[Any]]) -> dict[str, list[str | None]]:
    return {name: [refusal(target, name, value) for value in given] for name, given in values.items()}


def plain(value: Any) -> Any:
    if isinstance(value, _settings.Hooks):
        return None if value.functions == [] else "built in"
    return value if isinstance(value, (bool, int, float, str, type(None), list)) else "built in"


def unknown_key() -> str | None:
    try:
        config_file.read(sys.argv[1], None)
    except UsageError as error:
        return str(error)
    return None


def log_line(format: str) -> str:
    output = io.StringIO()
    handler = _log.handler(output, format)
    _log.logger.addHandler(handler)
    _log.warn("fail", "no stock", q="orders", id="17", n=0, elapsed=0.5)
    _log.logger.removeHandler(handler)
    return output.getvalue()


asked = json.load(sys.stdin)
answer = {
    "module": {name: plain(getattr(seriatim, name)) for name in _settings.NAMES},
    "worker": {name: plain(getattr(OrderWorker, name)) for name in _worker.CHECKS},
    "functions": sorted(_worker.METHODS),
    "exhausted_job": list(_worker.ExhaustedJob.__annotations__),
    "refusals": {"module": refusals(seriatim, asked["module"]), "worker": refusals(OrderWorker, asked["worker"])},
    "unknown_key": unknown_key(),
    "text": log_line("text"),
    "json": log_line("json"),
}
print(json.dumps(answer))
