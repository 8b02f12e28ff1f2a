"""Every test has a Redis that is empty, default settings but for a short lease, and a time limit."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, PACKAGE)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PACKAGE, os.environ.get("PYTHONPATH", "")]))

import seriatim  # noqa: E402
from support.jobs import stop_servers  # noqa: E402
from support.redis_server import RedisServer  # noqa: E402

LIMIT = 240  # seconds

# A shell's background job ignores INT and nohup ignores HUP, and so would what the tests start; a signal with a handler
# has its default action there.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "limit(seconds): the test's own time limit")


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """The server of all tests; every test begins with it empty."""
    server = RedisServer()
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def settings(redis: RedisServer) -> Iterator[None]:
    redis.flush()
    seriatim.reset_settings()
    seriatim.format_error = str  # most tests compare what is stored with what was raised
    seriatim.redis = redis.url
    seriatim.push_timeout = 50  # a loaded machine may hold a push up
    seriatim.poll_interval = 0.2
    seriatim.lease_time = 5
    yield
    stop_servers()
    seriatim.reset_settings()


@pytest.fixture(autouse=True)
def limit(request: pytest.FixtureRequest, settings: None) -> Iterator[None]:
    marker = request.node.get_closest_marker("limit")

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("the test's time is up")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(marker.args[0] if marker else LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
