"""README.md and the pages without a test file of their own, each section with its blocks as they stand."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from pages import ROOT, Section, sections
from processes import Started, shell
from sections import RUN, runs
from support.redis_server import RedisServer
from test_mounts import flask_of_the_readme


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder: the checkout's ruby/ stands in it, and the commands are in PATH, from the checkout."""
    (tmp_path / "bin").mkdir()
    for name, command in {
        "python3": f"/usr/bin/env PYTHONPATH={ROOT}/python {sys.executable}",
        "ruby-seriatim": f"ruby -I {ROOT}/ruby/lib {ROOT}/ruby/exe/seriatim",
        "seriatim": f"/usr/bin/env PYTHONPATH={ROOT}/python {sys.executable} -m seriatim",
        "seriatim-lua": f"lua5.4 {ROOT}/lua/bin/seriatim-lua",
    }.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "ruby").symlink_to(ROOT / "ruby")
    return tmp_path


@pytest.fixture
def env(folder: Path, redis: RedisServer) -> dict[str, str]:
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "REDIS_URL": redis.url, "LUA_PATH": f"./?.lua;{ROOT}/lua/?.lua;;",
            "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def ran_in_order(work: str, folder: Path, env: dict[str, str]) -> None:
    with Started(work, folder, env) as server:
        server.wait_for("order 1: created -> paid\n")
        server.wait_for("order 2: created\n")
        assert server.stop() == 0


def test_every_section_with_a_program_is_run() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(path.stem)  # each names its sections
    shown = {key for key, blocks in sections().items() if any(block.language not in ("", "text") for block in blocks)}
    assert shown == RUN


@runs("README.md", "See it work")
def test_demo_and_test_are_there(blocks: Section) -> None:
    commands = [line.split()[0] for line in blocks.take("sh").text.splitlines() if not line.startswith(" ")]
    assert commands == ["script/demo", "script/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)


@runs("README.md", "Ruby in five minutes")
def test_the_ruby_quick_start_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "app.rb").write_text(blocks.take("ruby").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    ran_in_order(blocks.take("sh").text, folder, env)


@runs("README.md", "Python in five minutes")
def test_the_python_quick_start_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    installs(blocks.take("sh", "pip install").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    ran_in_order(blocks.take("sh").text, folder, env)
    (folder / "orders.py").write_text(blocks.take("python", "async def").text)
    shell('python3 -c "import asyncio, orders; asyncio.run(orders.sync_order.aperform_async([{\'id\': 1}]))"', folder, env)
    flask_of_the_readme(blocks.take("python", "flask").text, folder, {**env, "PYTHONPATH": f"{ROOT}/python"})


@runs("README.md", "Lua in five minutes")
def test_the_lua_quick_start_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    installs(blocks.take("sh", "luarocks").text)
    (folder / "app.lua").write_text(blocks.take("lua").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    push = 'require("app"):perform_async { { id = 1, payload = { status = "created" } }, { id = 1, payload = { status = "paid" } }, { id = 2, payload = { status = "created" } } }'
    ran_in_order(blocks.take("sh").text, folder, env)
    env = {**env, "LUA_CPATH": f"{ROOT}/lua/lib/5.1/?.so;;"}
    shell(f"luajit -e '{push}'", folder, env)
    ran_in_order(f"luajit {ROOT}/lua/bin/seriatim-lua -r app.lua", folder, env)


def installs(text: str) -> None:
    """Its programs are there; what it would install, other tests do."""
    for command in re.split(r"&&|\n", re.sub(r"#.*", "", text)):
        word = command.split()[0] if command.split() else "true"
        assert word in (".", "eval", "apt-get", "sudo") or shutil.which(word), word


@runs("README.md", "A push that survives a failover")
def test_waiting_for_replicas(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    worker = "require 'seriatim'\nmodule OrderWorker; extend Seriatim::Worker; end\n"
    (folder / "push.rb").write_text(f"{worker}begin\n{blocks.take('ruby').text}\nrescue Seriatim::NotReplicated => e\nputs e.message\nend\n")
    assert "replica" in shell("ruby -I ruby/lib push.rb", folder, env)


@runs("docs/guides/several-languages.md", "What must be the same")
def test_ruby_pushes_and_python_works(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "push.rb").write_text(blocks.take("ruby").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    shell("ruby -I ruby/lib push.rb", folder, env)
    with Started("seriatim -r app", folder, env) as server:
        server.wait_for("order 17 is paid")


@runs("docs/guides/dashboard.md", "Prometheus, KEDA and probes")
def test_configurations_are_yaml(blocks: Section) -> None:
    scrape, alerts, keda = (yaml.safe_load(blocks.take("yaml").text) for _ in range(3))
    assert scrape["scrape_configs"][0]["metrics_path"] == "/metrics"
    assert all(alert["expr"] for alert in alerts)
    assert keda["triggers"][0]["type"] == "prometheus"
