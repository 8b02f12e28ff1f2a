"""docs/guides/pull-consumers.md: its consumers, each of which takes what was pushed before."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import Started, shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/pull-consumers.md"
Push = Callable[[int], None]


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


@pytest.fixture
def letters(tmp_path: Path, env: dict[str, str]) -> Iterator[Callable[[int], None]]:
    """Pushes that many ids with a payload each."""

    def push(count: int) -> None:
        jobs = "module Letters; extend Seriatim::Worker; end; Letters.perform_async((1..%d).map { |n| { id: n, payload: 'a' } })" % count
        shell(f'ruby -r seriatim -e "{jobs}"', tmp_path, env)

    yield push


def write(blocks: Section, folder: Path, *languages: str) -> list[str]:
    """The names of the files."""
    names = []
    for language in languages:
        block = blocks.take(language)
        (folder / block.name).write_text(block.text)
        names.append(block.name)
    return names


@runs(PAGE, "Reports from another process")
def test_r_pop_20_another_process_acknowledges(blocks: Section, letters: Push, tmp_path: Path, env: dict[str, str]) -> None:
    write(blocks, tmp_path, "ruby", "python")
    letters(1)
    shell(blocks.take("sh").text.replace("python3", sys.executable), tmp_path, env)
    assert shell('ruby -r seriatim -e "module Letters; extend Seriatim::Worker; end; print Letters.metrics[:processed]"', tmp_path, env) == "1"


@runs(PAGE, "Stop a consumer")
def test_a_signal_ends_a_consumer_after_its_delivery(blocks: Section, letters: Push, tmp_path: Path, env: dict[str, str]) -> None:
    write(blocks, tmp_path, "ruby", "python")
    for run in ("ruby stop.rb", f"{sys.executable} stop.py"):
        with Started(run, tmp_path, env) as consumer:
            letters(1)
            consumer.wait_for("1")
            assert consumer.stop() == 0
            assert consumer.log.split() == ["1", "stopped"]


@runs(PAGE, "Several processes")
def test_forked_processes_share_the_ids(blocks: Section, letters: Push, tmp_path: Path, env: dict[str, str]) -> None:
    (name,) = write(blocks, tmp_path, "ruby")
    letters(30)
    assert sorted(shell(f"ruby {name}", tmp_path, env).split(), key=int) == [str(n) for n in range(1, 31)]


@runs(PAGE, "Which ids are held")
def test_explain_says_that_an_id_was_popped(blocks: Section, letters: Push, tmp_path: Path, env: dict[str, str]) -> None:
    (name,) = write(blocks, tmp_path, "ruby")
    letters(1)
    assert "it was popped and is not acknowledged yet" in shell(f"ruby {name}", tmp_path, env)


@runs(PAGE, "Tests of a consumer")
def test_the_test_of_a_consumer_passes(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (name,) = write(blocks, tmp_path, "python")
    assert "1 passed" in shell(f"{sys.executable} -m pytest -q {name}", tmp_path, env)
