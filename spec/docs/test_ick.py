"""docs/guides/ick.md: the programs, one after another, on one Redis."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import ROOT, Section
from processes import shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/ick.md"
PROGRAMS = {
    "ruby": ("ick.rb", f"ruby -I {ROOT}/ruby/lib ick.rb", '[2, 0]\n[0, 1]\n[["doc-1", 11.0], ["doc-2", 13.0]]\n2\n'),
    "python": ("ick.py", f"{sys.executable} ick.py", "(2, 0)\n(0, 1)\n[('doc-1', 11.0), ('doc-2', 13.0)]\n2\n"),
    "lua": ("ick.lua", "lua5.4 ick.lua", "2 0\n0 1\ndoc-1\t11.0\ndoc-2\t13.0\n2\n"),
}


@runs(PAGE, "How to use it")
def test_each_language_adds_reserves_and_commits(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = {"REDIS_URL": redis.url, "PYTHONPATH": f"{ROOT}/python", "PYTHONDONTWRITEBYTECODE": "1",
           "LUA_PATH": f"{ROOT}/lua/?.lua;;", "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;"}
    for language, (name, command, output) in PROGRAMS.items():
        (tmp_path / name).write_text(blocks.take(language).text)
        assert shell(command, tmp_path, env) == output


@runs(PAGE, "Monitoring")
def test_the_figures_of_a_set(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    (tmp_path / "stats.rb").write_text(blocks.take("ruby").text)
    said = shell(f"ruby -I {ROOT}/ruby/lib stats.rb", tmp_path, {"REDIS_URL": redis.url})
    assert said.startswith("waiting 1, reserved 0, delay ")
