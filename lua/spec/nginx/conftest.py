"""A real nginx with two workers and a real Redis in a temporary folder, for each test."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import redis

sys.path.append(str(Path(__file__).resolve().parents[3] / "python/tests"))
from support.redis_server import RedisServer, free_ports  # noqa: E402

HERE = Path(__file__).resolve().parent
LUA = HERE.parents[1]
PATIENCE = 60  # seconds
PING = ("/ping", (200, "pong"))


def wait_until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """What the condition gives once it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def free_port() -> int:
    return free_ports(1)[0]


class Redis(RedisServer):
    """A redis-server and a client of redis-py for it."""

    def __init__(self, *options: str) -> None:
        super().__init__(*options)
        password = options[options.index("--requirepass") + 1] if "--requirepass" in options else None
        self.client = redis.Redis(unix_socket_path=self.socket, password=password, decode_responses=True)


def subscribers(server: Redis, queue: str, shards: int = 5) -> int:
    """Of the wake-up channels of a queue's shards, the one with the fewest."""
    counts = server.client.pubsub_numsub(*(f"seriatim:{{{queue}/{shard}}}:wake" for shard in range(shards)))
    return min(count for _, count in counts)


def questions(server: Redis, queue: str, seconds: float) -> int:
    """How many commands Redis executes for a queue in this time."""
    command = ["timeout", str(seconds), "redis-cli", "-s", server.socket, "monitor"]
    text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return sum(f"{{{queue}/" in line and "lua" not in line.split("]")[0] for line in text.splitlines())


class Nginx:
    """nginx in its folder, by the tests' configuration."""

    def __init__(self, folder: Path, journal: Redis, words: dict[str, str]) -> None:
        self.folder = folder
        self.lua = LUA
        self.port = free_port()
        self.journal = journal
        text = (HERE / "nginx.conf").read_text()
        known = {"lua": str(LUA), "journal": journal.socket, "port": f"127.0.0.1:{self.port}", "code_cache": "on",
                 "certificate": "/etc/ssl/certs/ca-certificates.crt", "lease_time": "10", "stop_timeout": "15", "turn_jobs": "10000", "later": "10000",
                 "pool_size": "5", "pool_timeout": "30", "push_timeout": "50", "timers": "256", "resolver": "127.0.0.1",
                 "faults": "false", "processes": "2", **words}
        for name, value in known.items():
            text = text.replace(f"@{name}@", value)
        (folder / "nginx.conf").write_text(text)

    def configure(self, words: str, others: str) -> Nginx:
        """Writes others for these words of the configuration, before the start."""
        path = self.folder / "nginx.conf"
        text = path.read_text()
        assert text.count(words) == 1
        path.write_text(text.replace(words, others))
        return self

    def start(self, variables: dict[str, str] | None = None, ping: tuple[str, tuple[int, str]] = PING) -> Nginx:
        command = ["nginx", "-p", str(self.folder), "-c", "nginx.conf", "-e", "error.log"]
        self.process = subprocess.Popen(command, env={**os.environ, **(variables or {})})
        wait_until(lambda: self.is_up(*ping), "nginx")
        return self

    def is_up(self, path: str, answer: tuple[int, str]) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"nginx ended: {self.log()}")
        try:
            return self.get(path) == answer
        except OSError:
            return False

    def request(self, path: str, **query: str) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"{path}?{urlencode(query)}", headers={"Connection": "close"})
        return connection.getresponse()

    def get(self, path: str, **query: str) -> tuple[int, str]:
        answer = self.request(path, **query)
        return answer.status, answer.read().decode().strip()

    def figures(self) -> dict[str, Any]:
        return dict(json.loads(self.get("/figures")[1]))

    def workers(self) -> list[int]:
        return sorted(int(pid) for pid in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())

    def log(self) -> str:
        return (self.folder / "error.log").read_text()

    def lines(self) -> list[list[str]]:
        """The journal, split at spaces."""
        return [line.split(" ") for line in self.journal.client.lrange("journal", 0, -1)]

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> None:
        if self.process.poll() is None:
            self.signal(signal.SIGSTOP)
            workers = self.workers()
            self.process.kill()
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="seriatim-nginx-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def server(folder: Path) -> Iterator[Redis]:
    made = Redis()
    yield made
    made.remove()


class Cluster:
    """Three masters, each of which goes on without the others."""

    def __init__(self) -> None:
        words = "--cluster-enabled yes --cluster-require-full-coverage no".split()
        self.ports = free_ports(3)
        self.masters = [Redis("--port", str(port), *words) for port in self.ports]
        addresses = [f"127.0.0.1:{port}" for port in self.ports]
        subprocess.run(["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"], check=True, capture_output=True)
        self.wait_until_ok()

    def wait_until_ok(self) -> None:
        wait_until(lambda: all("cluster_state:ok" in str(each.call("CLUSTER", "INFO")) for each in self.masters), "the cluster")

    def remove(self) -> None:
        for each in self.masters:
            each.remove()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.remove()


@pytest.fixture
def nginx(folder: Path, server: Redis) -> Iterator[Nginx]:
    made = Nginx(folder, server, {"redis": server.url}).start()
    yield made
    made.end()
