"""
Runs spec/conformance/vectors and scenarios through the package's public API. See spec/conformance/README.md.

    PYTHONPATH=python python3 spec/conformance/runners/python/conformance.py [FILE or part of a NAME...]
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

SPEC = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SPEC.parents[1] / "python" / "tests"))

import seriatim  # noqa: E402
import vectors  # noqa: E402
from report import Report  # noqa: E402
from scenario import Scenario  # noqa: E402
from support.redis_server import RedisElsewhere, RedisServer  # noqa: E402


class Suite:
    """All files that the words select."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._report = Report()
        folder = os.environ.get("CONFORMANCE_REDIS")
        self._redis = RedisElsewhere(folder, os.environ["CONFORMANCE_URL"]) if folder else RedisServer()

    def run(self) -> bool:
        try:
            self._settings()
            for name, content in self._files("vectors"):
                self._vectors(name, content["rows"])
            for name, content in self._files("scenarios"):
                self._scenarios(name, content["scenarios"])
            return self._report.finish()
        finally:
            self._redis.remove()

    def _settings(self) -> None:
        if not os.environ.get("CONFORMANCE_LOG"):
            logging.getLogger("seriatim").addHandler(logging.NullHandler())
        seriatim.redis = self._redis.url
        seriatim.poll_interval = 5
        seriatim.lease_time = 10
    def _files(self, folder: str) -> Iterator[tuple[str, Any]]:
        for path in sorted((SPEC / folder).glob("*.json")):
            yield path.stem, json.loads(path.read_text())

    def _wanted(self, file: str, name: str = "") -> bool:
        return not self._words or any(word == file or word in name for word in self._words)

    def _vectors(self, file: str, rows: list[Any]) -> None:
        if not self._wanted(file):
            return
        self._report.scenario()
        for at, row in enumerate(rows):
            examine: Callable[[Any, RedisServer], list[str]] = getattr(vectors, file)
            self._report.check(f"{file}, row {at + 1}", lambda: examine(row, self._redis))

    def _scenarios(self, file: str, scenarios: list[Any]) -> None:
        for scenario in scenarios:
            if self._wanted(file, scenario["name"]):
                self._report.scenario()
                Scenario(file, scenario, self._redis, self._report).run()


if __name__ == "__main__":
    sys.exit(0 if Suite(sys.argv[1:]).run() else 1)
