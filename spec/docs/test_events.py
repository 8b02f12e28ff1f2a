"""docs/guides/events.md: each program as the application of its language's command."""

from __future__ import annotations

import sys
from pathlib import Path

from pages import ROOT, Section
from processes import Started
from sections import runs
from support.redis_server import RedisServer

PROGRAMS = {
    "ruby": ("app.rb", f"ruby -I {ROOT}/ruby/lib {ROOT}/ruby/exe/seriatim -r ./app", "remind of 17 (t1)\n"),
    "python": ("app.py", f"{sys.executable} -m seriatim -r ./app", "cancel 4 (t1)\n"),
    "lua": ("app.lua", f"lua5.4 {ROOT}/lua/bin/seriatim-lua -r app.lua", "send 9 (t1)\n"),
}


@runs("docs/guides/events.md", "How to use it")
def test_r_event_1_each_language_handles_an_event(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = {"REDIS_URL": redis.url, "PYTHONPATH": f"{ROOT}/python", "PYTHONDONTWRITEBYTECODE": "1",
           "LUA_PATH": f"./?.lua;{ROOT}/lua/?.lua;;", "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;"}
    for language, (name, command, output) in PROGRAMS.items():
        (tmp_path / name).write_text(blocks.take(language).text)
        with Started(command, tmp_path, env) as server:
            server.wait_for(output)
            assert server.stop() == 0
