"""Faults inside a real nginx: jobs and hooks that misbehave, a Redis that stands still, a master that dies."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import LUA, Cluster, Nginx, Redis, free_ports, wait_until
from support.redis_server import Sentinel


@pytest.fixture
def faulty(folder: Path, server: Redis) -> Iterator[Nginx]:
    """With the workers of faulty.lua."""
    made = Nginx(folder, server, {"redis": server.url, "lease_time": "8", "faults": "true"}).start()
    yield made
    made.end()


def ways() -> list[str]:
    """Names of the ways that a server's thread, and nginx, survive; a yield is no failure in nginx."""
    text = (LUA / "spec" / "support" / "ways.lua").read_text()
    return [name for name in re.findall(r'^  \{ "([^"]+)"', text, re.MULTILINE) if name not in ("a yield", "os.exit in a coroutine")]


def records(nginx: Nginx, worker: str) -> list[dict[str, Any]]:
    status, text = nginx.get("/records", worker=worker)
    assert status == 200, text
    return list(json.loads(text))


def test_f9_every_way_to_leave_a_job(faulty: Nginx) -> None:
    workers = faulty.workers()
    names = [*ways(), "a killed light thread"]
    assert len(names) > 30
    for name in names:
        assert faulty.get("/content", worker="Leaves", id=name, payload=name) == (200, "ok")
        assert faulty.get("/content", worker="Leaves", id=f"good {name}", payload="good") == (200, "ok")
    wait_until(lambda: sum(bool(each["error"]) for each in records(faulty, "Leaves")) == len(names), "all runs")
    wait_until(lambda: len(records(faulty, "Leaves")) == len(names), "the good ones")
    left = {each["id"]: each for each in records(faulty, "Leaves")}
    assert set(left) == set(names)
    assert {each["retry_count"] for each in left.values()} == {0}
    assert "os.exit" in left["os.exit"]["error"]
    assert faulty.workers() == workers


HOOKS = ["retry_in raises", "retry_in gives NaN", "retry_in gives infinity", "retry_in gives a text", "retry_in sleeps",
         "retry_in exits", "retries_exhausted raises", "retries_exhausted sleeps"]


def test_f32_hooks_that_misbehave(faulty: Nginx) -> None:
    workers = faulty.workers()
    for name in HOOKS:
        faulty.get("/content", worker=name, id="bad")
        faulty.get("/content", worker=name, id="good")
    wait_until(lambda: len(faulty.lines()) == len(HOOKS), "the good ones")
    for name in HOOKS:
        expected = [] if "exhausted" in name else ["bad"]
        wait_until(lambda: [each["id"] for each in records(faulty, name) if each["error"]] == expected == [
            each["id"] for each in records(faulty, name)], name)
    assert faulty.workers() == workers


UNWILLING_SCHEDULER = """
    require "app"
    local is_open = true
    seriatim.build_scheduler = function()
      return function(candidates) return is_open and candidates[1] or nil end
    end
    require("app").Exhausted = seriatim.worker {
      name = "Exhausted",
      shards_count = 1,
      max_retry_count = 0,
      perform = function()
        is_open = false
        while not io.open("GATE") do ngx.sleep(0.01) end
        error("bad luck")
      end,
      retries_exhausted = function(jobs) ngx.log(ngx.NOTICE, "told ", jobs[1].id, ".") end,
    }
"""


def test_retries_exhausted_is_called_while_a_scheduler_will_not_choose(folder: Path, server: Redis) -> None:
    made = Nginx(folder, server, {"redis": server.url, "processes": "1"})
    made.configure('require "app"', UNWILLING_SCHEDULER.replace("GATE", str(folder / "gate"))).start()
    try:
        made.get("/content", worker="Exhausted", id="bad")
        wait_until(lambda: made.figures().get("stats", {}).get("running") == 1, "the run")
        made.get("/content", worker="Exhausted", id="held")
        wait_until(lambda: made.figures()["stats"]["claimed"] == 1, "the id that is ready")
        (folder / "gate").touch()
        wait_until(lambda: "told bad.," in made.log(), "retries_exhausted")
    finally:
        made.end()


FAILING_HOOK = """
    seriatim.on_server_init(function() ngx.log(ngx.NOTICE, "first hook") end)
    seriatim.on_thread_init(function()
      ngx.log(ngx.NOTICE, "second hook; os.exit is ", tostring(os.exit), ".")
      assert(io.open("GATE"), "the gate is closed")
    end)
    require "app"
"""


@pytest.fixture
def gated(folder: Path, server: Redis) -> Iterator[Nginx]:
    """Its on_thread_init fails until there is a file `gate` in its folder."""
    made = Nginx(folder, server, {"redis": server.url, "processes": "1"})
    made.configure('require "app"', FAILING_HOOK.replace("GATE", str(folder / "gate"))).start()
    wait_until(lambda: made.log().count("crash") >= 3, "the hook's failures")
    yield made
    made.end()


def test_f32_only_the_hook_that_fails_at_the_start_is_called_again(gated: Nginx) -> None:
    (gated.folder / "gate").touch()
    assert gated.get("/content", id="x", payload="0") == (200, "ok")
    wait_until(lambda: gated.lines(), "the run")
    seen = re.findall(r"second hook; os\.exit is (.+?)\.,", gated.log())
    assert (gated.log().count("first hook"), len(seen) >= 4, len(set(seen))) == (1, True, 1), seen


def test_livez_is_503_while_the_loop_cannot_begin(gated: Nginx) -> None:
    assert gated.get("/seriatim/livez") == (503, '{"error":"the worker loop is gone"}')
    (gated.folder / "gate").touch()
    wait_until(lambda: gated.get("/seriatim/livez")[0] == 200, "the loop")


def test_livez_is_503_while_a_setting_keeps_the_loop_from_its_begin(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"})
    nginx.configure('require "app"', 'seriatim.build_splitter = function() return 5 end require "app"').start()
    try:
        wait_until(lambda: "build_splitter must give a function" in nginx.log(), "the refusal")
        assert nginx.get("/seriatim/livez")[0] == 503
    finally:
        nginx.end()


def test_livez_is_503_from_a_crash_of_the_loop_to_its_next_begin(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        assert nginx.get("/content", worker="Bad", id="b", payload="exit") == (200, "ok")
        wait_until(lambda: nginx.lines(), "its run")
        os.kill(server.pid, signal.SIGSTOP)
        wait_until(lambda: "the worker loop ended; it is started again" in nginx.log(), "the guard")
        assert nginx.get("/seriatim/livez")[0] == 503
        os.kill(server.pid, signal.SIGCONT)
        wait_until(lambda: nginx.get("/seriatim/livez")[0] == 200, "the loop")
    finally:
        os.kill(server.pid, signal.SIGCONT)
        nginx.end()


def test_f22_a_job_that_holds_its_nginx_worker_loses_its_lease(faulty: Nginx) -> None:
    gate = faulty.folder / "gate"
    faulty.get("/content", worker="Spin", id="s", payload=str(gate))
    wait_until(lambda: len(faulty.lines()) >= 3, "the other worker's run")
    begins = [line[2] for line in faulty.lines() if line[0] == "begin"]
    assert len(set(begins)) == 2, "another nginx worker took it over"
    assert faulty.lines()[2][0] == "end" and faulty.lines()[2][2] == begins[1]
    gate.touch()

    def is_refused() -> bool:
        figures = faulty.figures()
        return figures["pid"] == int(begins[0]) and figures["stats"]["refused"] == 1

    wait_until(lambda: len(faulty.lines()) == 4 and is_refused(), "the refused report")
    time.sleep(0.5)
    assert Counter(line[0] for line in faulty.lines()) == {"begin": 2, "end": 2}


def test_f4_an_unknown_outcome_is_named(folder: Path, server: Redis) -> None:
    journal = Redis()
    nginx = Nginx(folder, journal, {"redis": server.url, "push_timeout": "1.5", "processes": "1"}).start()
    try:
        wait_until(lambda: nginx.get("/content", id="x", payload="0") == (200, "ok"), "a push")
        wait_until(lambda: nginx.lines(), "its run")
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
        status, text = nginx.get("/content", id="x", payload="1")
        assert 1.4 < time.monotonic() - began < 8  # 10 is the default
        os.kill(server.pid, signal.SIGCONT)
        assert status == 503 and text.startswith("UNKNOWN_OUTCOME: ") and "unknown" in text
        wait_until(lambda: nginx.get("/content", id="x", payload="2") == (200, "ok"), "the next push")
        wait_until(lambda: [line[1] for line in nginx.lines()][-1:] == ["2"], "its run")
        assert list(dict.fromkeys(line[1] for line in nginx.lines())) in (["0", "1", "2"], ["0", "2"])
    finally:
        os.kill(server.pid, signal.SIGCONT)
        nginx.end()
        journal.remove()


def test_f5_a_killed_redis_is_an_error_after_push_timeout(folder: Path) -> None:
    (port,) = free_ports(1)
    server = Redis("--port", str(port))
    nginx = Nginx(folder, server, {"redis": f"redis://127.0.0.1:{port}", "push_timeout": "1.5", "processes": "1"}).start()
    try:
        wait_until(lambda: nginx.get("/content", id="x", payload="0") == (200, "ok"), "a push")
        server.stop()
        began = time.monotonic()
        status, text = nginx.get("/content", id="x", payload="1")
        assert 1.4 < time.monotonic() - began < 8
        assert status == 503 and text.startswith("IO: cannot connect to ") and "refused; start Redis there, or correct seriatim.redis" in text
    finally:
        nginx.end()
        server.remove()


class Masters:
    """A master, a replica and a sentinel."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2)
        self.master = Redis("--port", str(ports[0]), "--repl-diskless-sync-delay", "0")
        self.replica = Redis("--port", str(ports[1]), "--replicaof", f"127.0.0.1 {ports[0]}")
        wait_until(lambda: self.master.client.info("replication").get("slave0", {}).get("state") == "online", "the replica")
        self.sentinel = Sentinel(folder, "mine", ports[0], down_after_milliseconds=8000, failover_timeout=2000)
        wait_until(lambda: str(ports[1]) in self.sentinel.ask("SENTINEL", "replicas", "mine"), "the sentinel")
        self.url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self.sentinel.port}/mine"

    def remove(self) -> None:
        self.sentinel.kill()
        for server in (self.replica, self.master):
            server.stop(signal.SIGKILL)  # which ends a frozen process, too
            server.remove()


@pytest.fixture
def masters(folder: Path) -> Iterator[Masters]:
    made = Masters(folder)
    yield made
    made.remove()


def test_f6_pushes_and_jobs_follow_the_master(folder: Path, masters: Masters) -> None:
    journal = Redis()
    nginx = Nginx(folder, journal, {"redis": masters.url}).start()
    try:
        for number in range(20):
            assert nginx.get("/content", id="x", payload=str(number), replicas="1") == (200, "ok")
        os.kill(masters.replica.pid, signal.SIGSTOP)
        status, text = nginx.get("/content", id="y", payload="0", replicas="1")
        assert status == 503 and text.startswith("NOT_REPLICATED: ") and "0 of 1" in text
        os.kill(masters.replica.pid, signal.SIGCONT)
        wait_until(lambda: len(nginx.lines()) >= 21, "what was pushed ran")
        time.sleep(0.3)
        masters.master.stop(signal.SIGKILL)
        number = 20
        deadline = time.monotonic() + 120
        while number < 40 and time.monotonic() < deadline:
            number += nginx.get("/content", id="x", payload=str(number))[0] == 200
        assert number == 40
        wait_until(lambda: {("x", str(each)) for each in range(40)} <= {(line[0], line[1]) for line in nginx.lines()}, "all runs")
        seen = list(dict.fromkeys(int(line[1]) for line in nginx.lines() if line[0] == "x"))
        assert seen == list(range(40))
    finally:
        nginx.end()
        journal.remove()


def test_f6_the_connection_for_wake_ups_comes_again_after_all_masters_of_a_cluster_were_away(
    folder: Path, server: Redis, cluster: Cluster
) -> None:
    def is_subscribed() -> bool:
        return any(each.call("PUBSUB", "CHANNELS") for each in cluster.masters)

    nginx = Nginx(folder, server, {"redis": f"redis+cluster://127.0.0.1:{cluster.ports[0]}", "processes": "1"}).start()
    try:
        wait_until(is_subscribed, "the subscriptions")
        for each in cluster.masters:
            each.stop(signal.SIGKILL)
        time.sleep(1)  # the supervisor looks ten times a second
        for each in cluster.masters:
            each.start()
        cluster.wait_until_ok()
        wait_until(is_subscribed, "the subscriptions to come again")
        wait_until(lambda: nginx.get("/content", id="x", payload="0") == (200, "ok"), "a push")
        wait_until(lambda: nginx.lines(), "its run")
        assert "aborted: runtime error" not in nginx.log()
    finally:
        nginx.end()
