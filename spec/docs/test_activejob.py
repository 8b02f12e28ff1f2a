"""docs/guides/activejob.md: its job, enqueued and scheduled in a Rails application, and run by the command."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, Section, section
from processes import Started, shell, wait_until
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/activejob.md"
RUBY = f"ruby -I {ROOT}/ruby/lib"


@pytest.fixture
def env(redis: RedisServer) -> dict[str, str]:
    return {"REDIS_URL": redis.url}


def application(folder: Path) -> None:
    """A Rails application with the job of the page."""
    job = section(PAGE, "Set it up").take("ruby", "class SyncOrderJob")
    environment = f'ENV["SERVE"] = "1"\nload {str(ROOT / "spec/docs/rails_app.rb")!r}\n'
    for name, text in {"config/environment.rb": environment, job.name: job.text}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run_program(folder: Path, name: str, text: str, env: dict[str, str]) -> str:
    (folder / name).write_text(text)
    return shell(f"{RUBY} -r ./config/environment.rb {name}", folder, env)


@runs(PAGE, "Set it up")
def test_r_job_1_jobs_of_one_order_run_in_their_order(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    application(tmp_path)
    blocks.take("ruby", "class SyncOrderJob")
    enqueue = blocks.take("ruby", "perform_later")
    run_program(tmp_path, enqueue.name, enqueue.text, env)
    with Started(f"{RUBY} {ROOT}/ruby/exe/seriatim -r ./config/environment.rb", tmp_path, env) as server:
        wait_until(lambda: (tmp_path / "trace").exists() and "archived" in (tmp_path / "trace").read_text(), lambda: server.log)
        assert server.stop() == 0
    assert (tmp_path / "trace").read_text() == "7 paid\n7 shipped\n7 archived\n"


FLAKY = {
    "app/jobs/flaky_job.rb": """class FlakyJob < ApplicationJob
  def perform
    File.write("trace", "job\\n", mode: "a")
    raise "flaky" if executions == 1
  end
end
""",
    "app/mailers/flaky_mailer.rb": """class FlakyMailer < ActionMailer::Base
  def hello
    File.write("trace", "mail\\n", mode: "a")
    raise "flaky" if File.read("trace").scan("mail").one?
    mail(to: "a@example.com", from: "b@example.com", subject: "", body: "hello")
  end
end
""",
}


@runs(PAGE, "Jobs that another queue retried")
def test_jobs_and_mails_with_retry_on_are_retried(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    application(tmp_path)
    files = {block.name: block.text for block in (blocks.take("ruby") for _ in range(3))}
    for name, text in {**files, **FLAKY}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environment = tmp_path / "config/environment.rb"
    environment.write_text(f'require "rails"\nrequire "action_mailer/railtie"\nENV["RAILS_ENV"] = "test"\n{environment.read_text()}')
    run_program(tmp_path, "enqueue.rb", "FlakyJob.perform_later; FlakyMailer.hello.deliver_later", env)
    with Started(f"{RUBY} {ROOT}/ruby/exe/seriatim -r ./config/environment.rb", tmp_path, env) as server:
        wait_until(lambda: (tmp_path / "trace").exists() and len((tmp_path / "trace").read_text().split()) == 4, lambda: server.log)
        assert server.stop() == 0
    assert sorted((tmp_path / "trace").read_text().split()) == ["job", "job", "mail", "mail"]


@runs(PAGE, "Scheduled jobs")
def test_r_job_4_scheduled_jobs_are_listed_and_cancelled(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    application(tmp_path)
    program = blocks.take("ruby")
    assert run_program(tmp_path, program.name, program.text, env) == '[[8, "expired"]]\ntrue\n'


@runs(PAGE, "Queues")
def test_r_job_8_the_queues_are_those_of_the_initializer(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    application(tmp_path)
    initializer = blocks.take("ruby")
    (tmp_path / "config/initializers").mkdir(parents=True)
    (tmp_path / initializer.name).write_text(initializer.text)
    shows = "p Seriatim::ActiveJob.workers.map { |worker| [worker.queue_name, worker.shards_count] }"
    assert run_program(tmp_path, "show.rb", shows, env) == '[["orders", 12], ["default", 5], ["mailers", 5]]\n'
