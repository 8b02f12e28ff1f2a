"""docs/guides/testing.md: the tests that it shows, by RSpec, Minitest, pytest and busted, on a private Redis."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import shell
from sections import runs

PAGE = "docs/guides/testing.md"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Of a reader who has installed the packages; no URL names a Redis."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/pytest").write_text(f'#!/bin/sh\nexec {sys.executable} -m pytest -p no:cacheprovider "$@"\n')
    (tmp_path / "bin/pytest").chmod(0o755)
    return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SERIATIM_DATA": str(tmp_path / "redis"), "RUBYLIB": f"{ROOT}/ruby/lib",
            "PYTHONPATH": f"{ROOT}/python", "PYTHONDONTWRITEBYTECODE": "1", "LUA_PATH": f"./?.lua;{ROOT}/lua/?.lua;;",
            "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;"}


def write(blocks: Section, folder: Path, language: str, count: int) -> None:
    for _ in range(count):
        block = blocks.take(language)
        (folder / block.name).write_text(block.text)


@runs(PAGE, "Test modes")
def test_the_test_modes_need_no_redis(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    env = {**env, "REDIS_URL": "redis://127.0.0.1:1"}
    write(blocks, tmp_path, "ruby", 3)
    assert "5 examples, 0 failures" in shell(blocks.take("sh", "rspec").text, tmp_path, env)
    assert "1 runs, 2 assertions, 0 failures, 0 errors" in shell(blocks.take("sh").text, tmp_path, env)


@runs(PAGE, "A batch for `perform`")
def test_a_batch_remembers_what_was_reported(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "batch.rb").write_text(blocks.take("ruby").text)
    shell("ruby batch.rb", tmp_path, env)


@runs(PAGE, "Test modes in Python")
def test_the_test_modes_of_python(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    env = {**env, "REDIS_URL": "redis://127.0.0.1:1"}
    write(blocks, tmp_path, "python", 2)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["seriatim_pytest"]\n')  # which an installed package brings along
    assert "5 passed" in shell(blocks.take("sh").text, tmp_path, env)
    (tmp_path / "batch.py").write_text(blocks.take("python").text)
    shell(f"{sys.executable} batch.py", tmp_path, env)


@runs(PAGE, "Test modes in Lua")
def test_the_test_modes_of_lua(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    env = {**env, "REDIS_URL": "redis://127.0.0.1:1"}
    write(blocks, tmp_path, "lua", 3)
    assert "5 successes / 0 failures" in shell(blocks.take("sh").text, tmp_path, env)
    of_nginx = blocks.take("sh").text
    by_luajit = {**env, "LUA_CPATH": env["LUA_CPATH"].replace("/5.4/", "/5.1/")}
    for command, variables in [(of_nginx, env), (of_nginx.replace("lua5.4", "luajit"), by_luajit)]:
        found = shell(command, tmp_path, variables)
        assert "1 visits of /" in found.replace("\t", "") and "1 success / 0 failures" in found


@runs(PAGE, "A Redis for the tests")
def test_the_folder_is_set(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    folder = shell(f"{blocks.take('sh').text}echo $SERIATIM_DATA", tmp_path, env).strip()
    assert Path(folder).is_dir()
    Path(folder).rmdir()


@runs(PAGE, "Ruby")
def test_rspec_and_minitest(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    write(blocks, tmp_path, "ruby", 3)
    assert "4 examples, 0 failures" in shell(blocks.take("sh", "rspec").text, tmp_path, env)
    assert "1 runs, 1 assertions, 0 failures, 0 errors" in shell(blocks.take("sh").text, tmp_path, env)


@runs(PAGE, "Python")
def test_pytest(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    write(blocks, tmp_path, "python", 2)
    assert "4 passed" in shell(blocks.take("sh").text, tmp_path, env)


@runs(PAGE, "Lua")
def test_busted(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    write(blocks, tmp_path, "lua", 2)
    assert "4 successes / 0 failures" in shell(blocks.take("sh").text, tmp_path, env)
