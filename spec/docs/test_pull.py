"""docs/guides/pull-consumers.md: its consumers, each of which takes what was pushed before."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/pull-consumers.md"


@pytest.fixture
def env(redis: RedisServer) -> dict[str, str]:
    """Of a reader who has installed the packages."""
    return {"REDIS_URL": redis.url, "RUBYLIB": f"{ROOT}/ruby/lib", "PYTHONPATH": f"{ROOT}/python", "PYTHONDONTWRITEBYTECODE": "1",
            "LUA_PATH": f"{ROOT}/lua/?.lua;{ROOT}/lua/?/init.lua;;", "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;"}


@runs(PAGE, "A consumer")
def test_r_pop_1_each_consumer_takes_what_was_pushed(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    push = blocks.take("sh").text
    for language, run in (("ruby", "ruby consumer.rb"), ("python", f"{sys.executable} consumer.py"), ("lua", "lua5.4 consumer.lua")):
        block = blocks.take(language)
        (tmp_path / block.name).write_text(block.text)
        shell(push, tmp_path, env)
        assert shell(run, tmp_path, env) == "1: a b\n"


@runs(PAGE, "asyncio")
def test_coroutines_take_what_was_pushed(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    block = blocks.take("python")
    (tmp_path / block.name).write_text(block.text)
    push = "module Letters; extend Seriatim::Worker; end; Letters.perform_async((1..30).map { |n| { id: n, payload: 'a' } })"
    shell(f'ruby -r seriatim -e "{push}"', tmp_path, env)
    printed = shell(f"{sys.executable} {block.name}", tmp_path, env).splitlines()
    assert sorted(printed) == sorted(f"{n}: a" for n in range(1, 31))
