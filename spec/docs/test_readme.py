"""README.md and the pages without a test file of their own, each section with its blocks as they stand."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pages import ROOT, Section, sections
from processes import Started, shell
from sections import RUN, runs, runs_each
from support.redis_server import RedisServer, free_ports


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The reader's folder; the commands are in PATH, from the checkout."""
    (tmp_path / "bin").mkdir()
    for name, command in {
        "python3": f"/usr/bin/env PYTHONPATH={ROOT}/python {sys.executable}",
        "ruby-seriatim": f"ruby -I {ROOT}/ruby/lib {ROOT}/ruby/exe/seriatim",
        "seriatim": f"/usr/bin/env PYTHONPATH={ROOT}/python {sys.executable} -m seriatim",
        "seriatim-lua": f"lua5.4 {ROOT}/lua/bin/seriatim-lua",
    }.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.fixture
def gem(folder: Path, env: dict[str, str]) -> dict[str, str]:
    """The environment of a reader who has installed the gem: `seriatim` is its command."""
    shutil.copy(folder / "bin/ruby-seriatim", folder / "bin/seriatim")
    return {**env, "RUBYLIB": f"{ROOT}/ruby/lib"}


@pytest.fixture
def env(folder: Path, redis: RedisServer) -> dict[str, str]:
    return {"PATH": f"{folder}/bin:{os.environ['PATH']}", "REDIS_URL": redis.url, "LUA_PATH": f"./?.lua;{ROOT}/lua/?.lua;;",
            "LUA_CPATH": f"{ROOT}/lua/lib/5.4/?.so;;", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def ran_in_order(work: str, folder: Path, env: dict[str, str]) -> None:
    with Started(work, folder, env) as server:
        # Without the newlines: print of two threads of Python may write both texts first.
        server.wait_for("order 1: created -> paid")
        server.wait_for("order 2: created")
        assert server.stop() == 0


def test_every_section_with_a_program_is_run() -> None:
    for path in Path(__file__).parent.glob("test_*.py"):
        importlib.import_module(path.stem)  # each names its sections
    shown = {key for key, blocks in sections().items() if any(block.is_run for block in blocks)}
    assert shown == RUN


@runs("README.md", "Seriatim")
def test_demo_and_test_are_there(blocks: Section) -> None:
    commands = [line.split()[0] for line in blocks.take("sh").text.splitlines()]
    assert commands == ["script/demo", "script/test"]
    assert all(os.access(ROOT / command, os.X_OK) for command in commands)


@runs("README.md", "Quick start")
def test_the_quick_start_runs(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    ruby_program(blocks, folder, gem)


def ruby_program(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "app.rb").write_text(blocks.take("ruby").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    ran_in_order(blocks.take("sh").text, folder, env)


@runs_each(("docs/start/ruby.md", "Install"), ("docs/start/python.md", "Install"), ("docs/start/lua.md", "Install"))
def test_the_installing_commands_exist(blocks: Section) -> None:
    while any(block.is_run for block in blocks.left):
        installs(blocks.take("sh").text)


@runs("docs/start/ruby.md", "First worker")
def test_the_first_ruby_worker_runs(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    ruby_program(blocks, folder, gem)


@runs("docs/start/ruby.md", "What perform gets")
def test_a_ruby_batch_fails_one_id(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    (folder / "app.rb").write_text(f"require 'seriatim'\n{blocks.take('ruby').text}")
    shell("ruby -r ./app -e 'PriceWorker.perform_async [{ id: 1, payload: {} }, { id: 2, payload: { price: 3 } }]'", folder, gem)
    with Started("seriatim -r ./app", folder, gem) as server:
        server.wait_for("no price")
        assert server.stop() == 0
    assert '"processed":1,' in shell("seriatim stats --json", folder, gem).replace(" ", "")


@runs("docs/start/ruby.md", "Middlewares and hooks")
def test_ruby_middlewares_and_hooks_are_called(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    worker = "module OrderWorker\n  extend Seriatim::Worker\n  def self.perform(_, batch) = p(batch.contexts(batch.ids.first))\nend\n"
    (folder / "app.rb").write_text(f"require 'seriatim'\n{worker}{blocks.take('ruby').text}")
    shell("ruby -r ./app -e '$PROGRAM_NAME = %(shop); OrderWorker.perform_async [{ id: 1 }]'", folder, gem)
    with Started("seriatim -r ./app", folder, gem) as server:
        server.wait_for(f"server process {server.pid} starts\n")
        server.wait_for('[{"by"=>"shop"}]\n')
        server.wait_for("OrderWorker: 0.")
        assert server.stop() == 0


@runs("docs/start/python.md", "First worker")
def test_the_first_python_worker_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "app.py").write_text(blocks.take("python").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    ran_in_order(blocks.take("sh").text, folder, env)


@runs("docs/start/python.md", "Functions and async")
def test_the_async_python_worker_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "orders.py").write_text(blocks.take("python", "async def").text)
    shell('python3 -c "import asyncio, orders; asyncio.run(orders.pay(1))"', folder, env)
    with Started("seriatim -v -r orders", folder, env) as server:
        server.wait_for(" done\n")
        assert server.stop() == 0


@runs("docs/start/python.md", "Calls in a coroutine")
def test_a_coroutine_calls_on_threads_what_would_block_it(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "orders.py").write_text("import seriatim\n@seriatim.worker\nasync def sync_order(payloads_by_id): ...\n")
    (folder / "figures.py").write_text(blocks.take("python", "to_thread").text)
    call = "orders.sync_order.perform_async([{'id': 1}]); print(asyncio.run(figures.figures()))"
    assert shell(f'python3 -c "import asyncio, figures, orders; {call}"', folder, env) == "(0, 1, 0)\n"


@runs("docs/start/python.md", "Middlewares and hooks")
@pytest.mark.parametrize("form", ["def", "async def"])
def test_a_trace_id_travels_in_python(blocks: Section, folder: Path, env: dict[str, str], form: str) -> None:
    block = blocks.take("python")
    assert typed(block.text, folder) == ""
    (folder / block.name).write_text(block.text)
    (folder / "app.py").write_text(f"from trace_ids import *\n@seriatim.worker\n{form} sync_order(payloads_by_id): print('trace', trace.get(), flush=True)\n")
    shell("python3 -c 'from app import *; trace.set(\"t1\"); sync_order.perform_async([{\"id\": 1}])'", folder, env)
    with Started("seriatim -r app", folder, env) as server:
        server.wait_for("trace t1\n")
        assert server.stop() == 0


@runs("docs/start/python.md", "Types")
def test_the_types_of_the_page_are_right(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    block = blocks.take("python")
    assert typed(block.text, folder) == ""
    (folder / block.name).write_text(block.text)
    shell("python3 -c 'import typed; print(typed.invoice(1, -1).added)'", folder, env)
    with Started("seriatim -r typed", folder, env) as server:
        server.wait_for("ValueError: the total is negative")
        assert server.stop() == 0


def typed(program: str, folder: Path) -> str:
    """What mypy --strict says of a program."""
    pytest.importorskip("mypy")
    (folder / "checked.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(folder / "mypy"), "checked.py"]
    return subprocess.run(command, cwd=folder, env={**os.environ, "MYPYPATH": f"{ROOT}/python"}, stdout=subprocess.PIPE, text=True).stdout


@runs("docs/concepts/retries-and-morgue.md", "Error tracking")
def test_format_error_reports_what_perform_raises_and_what_batch_fail_gets(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    workers = {
        "ruby": ("app.rb", "ruby-seriatim -r ./app", '''require "seriatim"
module Errors
  extend Seriatim::Worker
  def self.perform(payloads_by_id, batch)
    raise "raised" if payloads_by_id.key?("1")
    batch.fail("2", RuntimeError.new("given"))
  end
end
'''),
        "python": ("app.py", f"{sys.executable} -m seriatim -r app", '''import seriatim
class Errors(seriatim.Worker):
    def perform(self, payloads_by_id, batch):
        if "1" in payloads_by_id:
            raise RuntimeError("raised")
        batch.fail("2", RuntimeError("given"))
'''),
        "lua": ("app.lua", "seriatim-lua -r app.lua", '''local seriatim = require "seriatim"
seriatim.workers = { seriatim.worker { name = "Errors", perform = function(payloads_by_id, batch)
  if payloads_by_id["1"] then error("raised", 0) end
  batch:fail("2", "given")
end } }
'''),
    }
    for language, (name, command, worker) in workers.items():
        (folder / name).write_text(worker + blocks.take(language).text)
        shell("ruby-seriatim push Errors 1 --create && ruby-seriatim push Errors 2", folder, gem)
        with Started(command, folder, {**gem, "PYTHONPATH": f"{ROOT}/python"}) as server:
            server.wait_for("reported: raised")
            server.wait_for("reported: given")
            assert server.stop() == 0
        assert "RuntimeError: given" in shell("ruby-seriatim explain Errors 2", folder, gem) or language == "lua"
        shell("ruby-seriatim delete Errors 1 2", folder, gem)


@runs("docs/start/lua.md", "First worker")
def test_the_first_lua_worker_runs(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "app.lua").write_text(blocks.take("lua").text)
    shell(blocks.take("sh", "perform_async").text, folder, env)
    push = 'require("app"):perform_async { { id = 1, payload = { status = "created" } }, { id = 1, payload = { status = "paid" } }, { id = 2, payload = { status = "created" } } }'
    ran_in_order(blocks.take("sh").text, folder, env)
    env = {**env, "LUA_CPATH": f"{ROOT}/lua/lib/5.1/?.so;;"}
    shell(f"luajit -e '{push}'", folder, env)
    ran_in_order(f"luajit {ROOT}/lua/bin/seriatim-lua -r app.lua", folder, env)


@runs("docs/start/lua.md", "Take single jobs")
def test_a_lua_script_takes_the_next_job(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "pop.lua").write_text(blocks.take("lua").text)
    shell("seriatim push OrderWorker 17 --create", folder, env)
    assert shell("lua5.4 pop.lua", folder, env) == "17\t1\n"
    assert shell("seriatim explain OrderWorker 17", folder, env).startswith("nothing waits or runs under this id")


def installs(text: str) -> None:
    """Its programs are there; what it would install, other tests do."""
    for command in re.split(r"&&|\n", re.sub(r"#.*", "", text)):
        word = command.split()[0] if command.split() else "true"
        assert word in (".", "eval", "apt-get", "sudo") or shutil.which(word), word


@runs("docs/guides/failover.md", "Pushes that survive a failover")
def test_waiting_for_replicas(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    worker = "require 'seriatim'\nmodule OrderWorker; extend Seriatim::Worker; end\n"
    (folder / "push.rb").write_text(f"{worker}begin\n{blocks.take('ruby').text}\nrescue Seriatim::NotReplicated => e\nputs e.message\nend\n")
    assert "replica" in shell("ruby push.rb", folder, gem)


TROUBLES = "docs/guides/troubleshooting.md"


@runs(TROUBLES, "My id does not run")
def test_explain_says_what_the_page_lists(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    text = (ROOT / TROUBLES).read_text()
    explain = blocks.take("sh").text
    shell("seriatim push OrderWorker 1 --create", folder, env)

    def says(words: str) -> None:
        assert f"- **{words}**\n" in text
        assert words.removesuffix(" ...") in shell(explain, folder, env)

    says("nothing waits or runs under this id")
    says("no server knows this queue")
    shell("seriatim push OrderWorker 17 --delay 60", folder, env)
    says("it is due in ...")
    shell("seriatim pause OrderWorker", folder, env)
    says("its shard is paused")
    shell("seriatim resume OrderWorker; seriatim pause OrderWorker 17", folder, env)
    says("it is parked")


@runs(TROUBLES, "All ids wait for their retry")
def test_ids_in_back_off_are_listed_and_made_due(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    programs = {"app.rb": "require 'seriatim'\nmodule OrderWorker; extend Seriatim::Worker; end\n",
                "app.py": "import seriatim\nclass OrderWorker(seriatim.Worker): ...\n",
                "app.lua": "return require('seriatim').worker { name = 'OrderWorker' }\n"}
    for name, text in programs.items():
        (folder / name).write_text(text)
    (port,) = free_ports(1)
    env = {**gem, "PYTHONPATH": f"{ROOT}/python", "TOKEN": "secret"}

    def fail() -> None:
        shell("ruby -r ./app -e '2.times { Seriatim.pop(%(OrderWorker)).fail(%(db down)) }'", folder, env)

    shell("seriatim push OrderWorker 17 --create && seriatim push OrderWorker 18", folder, env)
    fail()
    assert sorted(shell(blocks.take("sh", "range_by_retry_count").text, folder, env).splitlines()) == ["17 0 db down", "18 0 db down"]
    for program in ("ruby", "python3", "lua5.4"):
        assert shell(blocks.take("sh", program).text, folder, env) == "2\n"
        fail()
    with Started(f"seriatim web --port {port} --token secret", folder, env) as server:
        server.wait_for("the dashboard is at")
        assert '{"count":2}' in shell(blocks.take("sh").text.replace("9292", str(port)).replace("curl", "curl -s"), folder, env)


@runs("docs/guides/upgrading.md", "Move to another Redis")
def test_the_keys_of_a_namespace_are_copied_alone(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    ports = free_ports(2)
    old, new = (RedisServer("--port", str(port)) for port in ports)
    try:
        urls = [f"redis://127.0.0.1:{port}" for port in ports]
        shell("seriatim push OrderWorker 17 --create && seriatim push OrderWorker 18 --delay 60", folder, {**env, "REDIS_URL": urls[0]})
        old.call("SET", "other", 1)
        shell(blocks.take("sh").text, folder, {**env, "OLD_URL": urls[0], "NEW_HOST": "127.0.0.1", "NEW_PORT": str(ports[1])})
        assert new.call("EXISTS", "other") == 0
        figures = [re.sub(r" \d+\.\d+ ", "", shell("seriatim stats", folder, {**env, "REDIS_URL": url})) for url in urls]
        assert figures[0] == figures[1] and "OrderWorker  2 " in figures[0]
        assert "0 findings" in shell("seriatim check", folder, {**env, "REDIS_URL": urls[1]})
    finally:
        old.remove()
        new.remove()


@runs_each((TROUBLES, "Jobs run late"), (TROUBLES, "I suspect damaged data"))
def test_the_commands_of_an_operator_run(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    shell("seriatim push OrderWorker 1 --create", folder, env)
    while any(block.is_run for block in blocks.left):
        shell(blocks.take("sh").text, folder, env)


@runs("docs/guides/several-languages.md", "What must be the same")
def test_ruby_pushes_and_python_works(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    (folder / "push.rb").write_text(blocks.take("ruby").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    shell(f"ruby -I {ROOT}/ruby/lib push.rb", folder, env)
    with Started("seriatim -r app", folder, env) as server:
        server.wait_for("order 17 is paid")


@runs("docs/guides/several-languages.md", "Several pushes in one round trip")
def test_r_pipe_5_each_program_pushes_to_two_queues(blocks: Section, folder: Path, env: dict[str, str]) -> None:
    for name, run in (("push.rb", f"ruby -I {ROOT}/ruby/lib"), ("push.py", sys.executable), ("push.lua", "lua5.4")):
        (folder / name).write_text(blocks.take({"rb": "ruby", "py": "python", "lua": "lua"}[name.split(".")[1]]).text)
        assert shell(f"{run} {name}", folder, {**env, "PYTHONPATH": f"{ROOT}/python"}).strip() == "2 orders, 1 mail"


def exported() -> set[str]:
    """The metrics that docs/reference/metrics.md lists."""
    return set(re.findall(r"^\| `(seriatim_\w+)` \|", (ROOT / "docs/reference/metrics.md").read_text(), re.M))


def test_the_page_lists_the_metrics_that_are_exported(folder: Path, env: dict[str, str]) -> None:
    shell("seriatim push OrderWorker 1 --create", folder, env)
    (port,) = free_ports(1)
    with Started(f"seriatim web --port {port}", folder, env) as server:
        server.wait_for("the dashboard is at")
        text = shell(f"python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:{port}/metrics\").read().decode())'", folder, env)
    assert set(re.findall(r"^# TYPE (\w+) ", text, re.M)) == exported()


def knows(query: str) -> None:
    """Every metric of a query is one that is exported."""
    assert set(re.findall(r"seriatim_\w+", query)) <= exported() and "seriatim_" in query


@runs_each(("docs/guides/monitoring.md", "Scrape the metrics"), ("docs/guides/monitoring.md", "Alarms"),
           ("docs/guides/monitoring.md", "Scale on lag with KEDA"), ("docs/guides/deployment.md", "Kubernetes"),
           ("docs/guides/deployment.md", "Scaling with KEDA"))
def test_the_yaml_is_valid_and_names_exported_metrics(blocks: Section) -> None:
    while any(block.is_run for block in blocks.left):
        configuration = yaml.safe_load(blocks.take("yaml").text)
        for alert in configuration if isinstance(configuration, list) else ():
            knows(alert["expr"])
        for each in triggers(configuration):
            knows(each["metadata"]["query"])
        for container in containers(configuration):
            assert shutil.which(container["command"][0].replace("seriatim", "sh"))
        for scrape in configuration.get("scrape_configs", ()) if isinstance(configuration, dict) else ():
            assert scrape["metrics_path"] == "/metrics"


def triggers(configuration: Any) -> Any:
    return (configuration.get("triggers") or configuration.get("spec", {}).get("triggers") or ()) if isinstance(configuration, dict) else ()


def containers(configuration: Any) -> Any:
    return configuration["spec"]["template"]["spec"]["containers"] if isinstance(configuration, dict) and configuration.get("kind") == "Deployment" else ()


TASKS = "docs/concepts/tasks-and-messages.md"


@runs(TASKS, "Checkpoints")
def test_r_checkpoint_1_each_program_repeats_only_the_task_that_failed(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    (folder / "app.rb").write_text(blocks.take("ruby").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    (folder / "app.lua").write_text(blocks.take("lua").text)
    push = blocks.take("sh").text
    python = {**gem, "PYTHONPATH": f"{ROOT}/python"}
    for server in ("ruby-seriatim -r ./app", f"{sys.executable} -m seriatim -r app", "seriatim-lua -r app.lua"):
        shell(push, folder, gem)
        with Started(server, folder, python) as started:
            started.wait_for("three\n")
            assert started.stop() == 0
            printed = [line for line in started.log.splitlines() if line in ("one", "two", "three")]
            assert printed == ["one", "two", "two", "three"], started.log


@runs("docs/concepts/ids-and-order.md", "A payload for later")
def test_each_program_cancels_one_payload_and_brings_the_other_one_forward(blocks: Section, folder: Path, gem: dict[str, str]) -> None:
    (folder / "app.rb").write_text(blocks.take("ruby").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    (folder / "app.lua").write_text(blocks.take("lua").text)
    python = {**gem, "PYTHONPATH": f"{ROOT}/python"}
    for server in ("ruby-seriatim -r ./app", f"{sys.executable} -m seriatim -r app", "seriatim-lua -r app.lua"):
        assert shell(blocks.take("sh").text, folder, gem).lower().split() == ["2", "true", "true", "false"]
        with Started(server, folder, python) as started:
            started.wait_for("order 17: rate\n")
            assert started.stop() == 0
            assert "order 17: pay" not in started.log


@runs("docs/concepts/ids-and-order.md", "Messages that come too late")
def test_r_stale_1_each_program_refuses_a_message_that_comes_too_late(blocks: Section, folder: Path, gem: dict[str, str], redis: RedisServer) -> None:
    (folder / "app.rb").write_text(blocks.take("ruby").text)
    (folder / "app.py").write_text(blocks.take("python").text)
    (folder / "app.lua").write_text(blocks.take("lua").text)
    python = {**gem, "PYTHONPATH": f"{ROOT}/python"}
    for server in ("ruby-seriatim -r ./app", f"{sys.executable} -m seriatim -r app", "seriatim-lua -r app.lua"):
        push = blocks.take("sh").text
        assert shell(push.replace("created", "paid").replace("1", "2"), folder, gem).split() == ["0"]
        with Started(server, folder, python) as started:
            started.wait_for("order 17: paid\n")
            assert started.stop() == 0
        assert shell(push, folder, gem).split() == ["1"]
        redis.flush()
