"""docs/guides/from-lowkiq.md: the application that was written for Lowkiq, and run by the command."""

from __future__ import annotations

from pathlib import Path

from pages import ROOT, Section
from processes import Started, shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/from-lowkiq.md"


@runs(PAGE, "Change one line")
def test_r_lowkiq_1_the_application_of_the_page_runs(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = {"REDIS_URL": redis.url, "RUBYLIB": f"{ROOT}/ruby/lib", "PATH": f"{ROOT}/ruby/exe:/usr/local/bin:/usr/bin:/bin"}
    for marker in ("module ATestWorker", "require \"./app\""):
        block = blocks.take("ruby", marker)
        (tmp_path / block.name).write_text(block.text)
    shell("ruby push.rb", tmp_path, env)
    with Started(blocks.take("sh").text.strip(), tmp_path, env) as server:
        server.wait_for("ATestWorker begins")
        assert "1: [{:status=>:paid, :at=>1970-01-01 00:00:00 UTC}, {:status=>:shipped}]" in server.log
        assert server.stop() == 0
