"""docs/guides/from-lowkiq.md: the application that was written for Lowkiq, and run by the command."""

from __future__ import annotations

from pathlib import Path

from pages import ROOT, Section, section
from processes import Started, shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/from-lowkiq.md"


def environment(redis: RedisServer) -> dict[str, str]:
    return {"REDIS_URL": redis.url, "RUBYLIB": f"{ROOT}/ruby/lib", "PATH": f"{ROOT}/ruby/exe:/usr/local/bin:/usr/bin:/bin"}


@runs(PAGE, "Change one line")
def test_r_lowkiq_1_the_application_of_the_page_runs(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = environment(redis)
    for marker in ("module ATestWorker", "require \"./app\""):
        block = blocks.take("ruby", marker)
        (tmp_path / block.name).write_text(block.text)
    shell("ruby push.rb", tmp_path, env)
    with Started(blocks.take("sh").text.strip(), tmp_path, env) as server:
        server.wait_for("ATestWorker begins")
        assert "1: [{:status=>:paid, :at=>1970-01-01 00:00:00 UTC}, {:status=>:shipped}]" in server.log
        assert server.stop() == 0


@runs(PAGE, "Move the jobs")
def test_r_lowkiq_6_the_jobs_of_the_application_are_moved(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    block = section(PAGE, "Change one line").take("ruby", "module ATestWorker")
    (tmp_path / block.name).write_text(block.text)
    redis.call("ZADD", "lowkiq:A:v1:ATestWorker:all_ids_lex", 0, "7")
    redis.call("ZADD", "lowkiq:A:v1:ATestWorker:payloads:7", 1, b"\x04\x08i\n")  # the number 5 in Ruby's format
    said = shell(blocks.take("sh").text, tmp_path, {**environment(redis), "OLD_REDIS_URL": redis.url})
    assert "imported waiting 1, retrying 0, in process 0, dead 0, orphans 0, without payload 0, payloads 1, known 0, refused 0" in said
