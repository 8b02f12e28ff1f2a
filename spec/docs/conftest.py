"""Every test has a folder and an empty Redis of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python/tests"), str(Path(__file__).resolve().parent)]

from support.redis_server import RedisServer  # noqa: E402


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    yield server
    server.remove()
