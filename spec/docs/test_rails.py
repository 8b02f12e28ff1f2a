"""docs/guides/rails.md: its files and programs, in a Rails application."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import Started, shell, wait_until
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/rails.md"
RUBY = f"ruby -I {ROOT}/ruby/lib"


@pytest.fixture
def env(redis: RedisServer) -> dict[str, str]:
    return {"REDIS_URL": redis.url}


def application(folder: Path, files: dict[str, str]) -> None:
    environment = f'ENV["SERVE"] = "1"\nload {str(ROOT / "spec/docs/rails_app.rb")!r}\n'
    for name, text in {"config/environment.rb": environment, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(folder: Path, program: str, env: dict[str, str]) -> str:
    (folder / "program.rb").write_text(program)
    return shell(f"{RUBY} -r ./config/environment.rb program.rb", folder, env)


@runs(PAGE, "Settings")
def test_r_rails_1_the_file_has_settings_of_each_environment(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    file = blocks.take("yaml")
    application(tmp_path, {file.name: file.text})
    shows = "puts [Seriatim.namespace, Seriatim.threads_per_node, Seriatim.stop_timeout].join(' ')"
    assert run(tmp_path, shows, env) == "shop-development 5 25\n"
    assert run(tmp_path, shows, {**env, "RAILS_ENV": "production"}) == "shop 20 25\n"


WORKER = """module OrderWorker
  extend Seriatim::Worker
  def self.perform(payloads_by_id) = payloads_by_id.each { |id, payloads| Rails.logger.info("runs #{payloads.size}") }
end
"""
FILES = {"app/models/order.rb": "class Order < ApplicationRecord\nend\n", "app/workers/order_worker.rb": WORKER}


@runs(PAGE, "Logs and errors")
def test_r_rails_3_a_subscriber_is_told_of_runs(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    initializer = blocks.take("ruby")
    application(tmp_path, {**FILES, initializer.name: initializer.text})
    run(tmp_path, "OrderWorker.perform_async([{ id: 17, payload: 1 }])", env)
    with Started(f"{RUBY} {ROOT}/ruby/exe/seriatim", tmp_path, env) as server:
        wait_until(lambda: "ms for 1 ids" in (tmp_path / "rails.log").read_text(), lambda: server.log)
        assert server.stop() == 0
    log = (tmp_path / "rails.log").read_text()
    assert "[OrderWorker] [17] runs 1" in log
    assert re.search(r"OrderWorker took \d+ ms for 1 ids", log)


@runs(PAGE, "Transactions")
def test_r_rails_8_pushes_follow_the_commit(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    program = blocks.take("ruby")
    application(tmp_path, FILES)
    shows = "\np OrderWorker.queries.fetch(['1']).map { |job| job[:payloads].map(&:first) }"
    assert run(tmp_path, program.text + shows, env) == 'order 1 is committed\n[[{"status"=>"new"}, {"status"=>"paid"}]]\n'


CURRENT = "class Current < ActiveSupport::CurrentAttributes\n  attribute :user\nend\n"


@runs(PAGE, "Current attributes")
def test_r_rails_10_attributes_travel_with_the_job(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    initializer, worker = blocks.take("ruby"), blocks.take("ruby")
    application(tmp_path, {"app/models/current.rb": CURRENT, initializer.name: initializer.text, worker.name: worker.text})
    run(tmp_path, "%w[ann bob].each { |user| Current.set(user: user) { VisitWorker.perform_async([{ id: 1, payload: 'visit' }]) } }", env)
    with Started(f"{RUBY} {ROOT}/ruby/exe/seriatim", tmp_path, env) as server:
        wait_until(lambda: "visit of bob" in (tmp_path / "rails.log").read_text(), lambda: server.log)
        assert server.stop() == 0
    assert "visit of ann" in (tmp_path / "rails.log").read_text()
