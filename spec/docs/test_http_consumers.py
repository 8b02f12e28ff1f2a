"""Consumers in curl, JavaScript and Go, on the mounts that the page shows."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pages import ROOT, Section, section
from processes import shell
from sections import runs
from support.redis_server import RedisServer, free_ports
from test_mounts import gunicorn, serve

PAGE = "docs/guides/http-consumers.md"
PUSH = """
import seriatim

class Orders(seriatim.Worker):
    queue_name = "orders"
    shards_count = 2

    def perform(self, payloads_by_id, batch): ...

Orders.perform_async([{"id": "later", "payload": 0, "delay": 600}])
"""


@pytest.fixture
def env(redis: RedisServer, tmp_path: Path) -> dict[str, str]:
    made = {"PATH": os.environ["PATH"], "REDIS_URL": redis.url, "PYTHONPATH": f"{ROOT}/python", "RUBYLIB": f"{ROOT}/ruby/lib",
            "CONSUMER_TOKEN": "secret", "ONCE": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    (tmp_path / "push.py").write_text(PUSH)
    shell(f"{sys.executable} push.py", tmp_path, made)
    return made


@contextmanager
def mounted(command: str, port: int, folder: Path, env: dict[str, str]) -> Iterator[dict[str, str]]:
    with serve(command, folder, env, port):
        yield {**env, "URL": f"http://127.0.0.1:{port}"}


@contextmanager
def python(blocks: Section, folder: Path, env: dict[str, str]) -> Iterator[dict[str, str]]:
    (folder / "app.py").write_text(blocks.take("python").text)
    port = free_ports(1)[0]
    with mounted(gunicorn(port), port, folder, env) as known:
        yield known


def curl(folder: Path, env: dict[str, str]) -> str:
    """The page's commands; what they answer."""
    (folder / "curl.sh").write_text(section(PAGE, "Push, pop, acknowledge").take("sh").text)
    return shell("sh curl.sh", folder, env)


def curl_pop(folder: Path, env: dict[str, str]) -> str:
    """The status of a pop that does not wait."""
    header = "-H \"Authorization: Bearer $CONSUMER_TOKEN\" -H 'Content-Type: application/json'"
    body = "-d '{\"queues\": [\"orders\"], \"wait\": 0}'"
    return shell(f'curl -sSf -o /dev/null -w "%{{http_code}}" {header} {body} "$URL/api/v1/consume/pop"', folder, env)


def works(said: str) -> None:
    assert '"added":1' in said and '"id":"17"' in said and '"payloads":[{"status":"paid"}]' in said and '{"ok":true}' in said, said


@runs(PAGE, "Switch it on")
def test_each_mount_answers_consumers(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    with python(blocks, tmp_path, env) as known:
        works(curl(tmp_path, known))
        assert "401" in shell('curl -s -o /dev/null -w "%{http_code}" "$URL/api/v1/stats"', tmp_path, known)
    (tmp_path / "config.ru").write_text(blocks.take("ruby").text)
    port = free_ports(1)[0]
    with mounted(f"puma -q -b tcp://127.0.0.1:{port} config.ru", port, tmp_path, env) as known:
        works(curl(tmp_path, known))
    command = blocks.take("sh").text.strip().replace("seriatim web", f"{sys.executable} -m seriatim web --port {port}")
    with mounted(command, port, tmp_path, env) as known:
        works(curl(tmp_path, known))
        assert curl_pop(tmp_path, known) == "204"


@runs(PAGE, "Push, pop, acknowledge")
def test_curl_pushes_pops_and_acknowledges(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    blocks.take("sh")
    with python(section(PAGE, "Switch it on"), tmp_path, env) as known:
        works(curl(tmp_path, known))


def consumer_works(command: str, said: str, folder: Path, env: dict[str, str]) -> None:
    """Pushes id 18; the consumer prints `said` about it and acknowledges it."""
    push = "-d '{\"queue\": \"orders\", \"jobs\": [{\"id\": 18, \"payload\": 1}]}'"
    with python(section(PAGE, "Switch it on"), folder, env) as known:
        header = "-H \"Authorization: Bearer $CONSUMER_TOKEN\" -H 'Content-Type: application/json'"
        shell(f'curl -sSf {header} {push} "$URL/api/v1/consume/push"', folder, known)
        assert shell(command, folder, known) == said
        assert curl_pop(folder, known) == "204"


@runs(PAGE, "In JavaScript")
def test_a_consumer_in_javascript_works(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "consumer.js").write_text(blocks.take("js").text)
    consumer_works("node consumer.js", "order 18: [1]\n", tmp_path, env)


@runs(PAGE, "In Go")
def test_a_consumer_in_go_works(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "consumer.go").write_text(blocks.take("go").text)
    # Without CGO_ENABLED=0, for which Debian's Go would have to compile its own packages.
    folders = {"GOCACHE": str(tmp_path / "cache"), "GOPATH": str(tmp_path / "path")}
    consumer_works("go run consumer.go", "order 18: 1 payloads\n", tmp_path, {**env, **folders})
