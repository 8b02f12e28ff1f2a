"""resty.seriatim inside a real nginx: pushes from its phases, the worker loop, reload, end, crash."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import LUA, PATIENCE, Cluster, Nginx, Redis, free_port, wait_until
from support import command

PYTHON = LUA.parent / "python"

WITH_SOCKETS = ["/content", "/access", "/rewrite", "/timer"]
WITHOUT_SOCKETS = ["/log", "/header"]
# How many jobs were pushed to the shards of Count that are here, as their states say.
PUSHED = """
local pushed = 0
for _, key in ipairs(redis.call('keys', 'seriatim:{Count/*:state')) do
  pushed = pushed + struct.unpack('<d', redis.call('get', key), 73)
end
return pushed
"""


def runs(nginx: Nginx) -> Counter[tuple[str, str]]:
    """How often each (id, payload) ran."""
    return Counter((line[0], line[1]) for line in nginx.lines())


def crashes(nginx: Nginx) -> list[str]:
    return [line for line in nginx.log().splitlines() if "[error]" in line or "[crit]" in line or "[alert]" in line]


class Load(threading.Thread):
    """Pushes numbers to ten ids until it is stopped; a refused connection is tried again."""

    def __init__(self, nginx: Nginx, name: str, path: str = "/content") -> None:
        super().__init__()
        self.nginx, self.prefix, self.path = nginx, name, path
        self.pushed: list[tuple[str, str]] = []
        self.refused: list[str] = []
        self.ending = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.ending.is_set():
            job = (f"{self.prefix}{number % 10}", str(number))
            if self.push(job):
                self.pushed.append(job)
                number += 1

    def push(self, job: tuple[str, str]) -> bool:
        try:
            status, text = self.nginx.get(self.path, id=job[0], payload=job[1])
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)
            return False
        self.refused += [text] if status != 200 else []
        return status == 200

    def finish(self) -> list[tuple[str, str]]:
        self.ending.set()
        self.join()
        assert self.refused == []
        return self.pushed


def under_load(nginx: Nginx, seconds: float, trouble: object) -> list[tuple[str, str]]:
    loads = [Load(nginx, name) for name in "ab"]
    for load in loads:
        load.start()
    time.sleep(seconds / 2)
    trouble()  # type: ignore[operator]
    enough = [len(load.pushed) + 2 for load in loads]  # the first of them may have been sent before the trouble ended
    try:
        time.sleep(seconds / 2)
        wait_until(lambda: all(len(load.pushed) >= count for load, count in zip(loads, enough)), "pushes after the trouble")
    finally:
        for load in loads:
            load.ending.set()
    return [job for load in loads for job in load.finish()]


@pytest.mark.parametrize("path", WITH_SOCKETS + WITHOUT_SOCKETS)
def test_each_phase_of_a_request_can_push(nginx: Nginx, path: str) -> None:
    for number in range(20):
        assert nginx.get(path, id="x", payload=str(number)) == (200, "ok")
    wait_until(lambda: len(nginx.lines()) >= 20, "20 runs")
    assert [line[1] for line in nginx.lines() if line[0] == "x"] == [str(number) for number in range(20)] or path != "/content"
    assert set(runs(nginx).values()) == {1}
    assert crashes(nginx) == []


def test_r_pipe_5_pushes_of_requests_side_by_side_are_written_together(nginx: Nginx) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: nginx.get("/pipelined", id=f"p{number}"), range(40)))
    assert answers == [(200, "1 1")] * 40
    wait_until(lambda: len(nginx.lines()) >= 160, "80 payloads, and 40 sleeps that begin and end")
    for number in range(40):
        assert [line[1] for line in nginx.lines() if line[0] == f"p{number}"] == ["1", "2"]
    assert crashes(nginx) == []


def leave_pipelined(nginx: Nginx, how: str, of: str = "jobs") -> None:
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=PATIENCE)
    connection.request("GET", f"/leave_pipelined?how={how}&of={of}&id=x&payload=0", headers={"Connection": "close"})
    if how == "sleep":
        time.sleep(0.05)  # it sleeps in its function
    else:
        assert connection.getresponse().status == (400 if how == "exit" else 200)
    connection.close()


@pytest.mark.parametrize("how", ["exit", "sleep", "kill"])
def test_r_pipe_5_pushes_after_a_request_that_nginx_ended_in_pipelined_are_written(folder: Path, server: Redis, how: str) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        for number in range(1, 11):
            leave_pipelined(nginx, how)
            assert nginx.get("/content", id="x", payload=str(number)) == (200, "ok")
            assert nginx.get("/pipelined", id=f"p{number}") == (200, "1 1")
        wait_until(lambda: {line[1] for line in nginx.lines() if line[0] == "x"} >= {str(number) for number in range(1, 11)}, "the runs", 10)
        assert ("x", "0") in runs(nginx) or how != "kill"
        assert not [line for line in nginx.lines() if line[0] == "left"], "what was not written when nginx ended the function"
    finally:
        nginx.end()


@pytest.mark.parametrize("how", ["exit", "sleep"])
def test_calls_of_ick_after_a_request_that_nginx_ended_in_pipelined_are_made(folder: Path, server: Redis, how: str) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        for number in range(10):
            leave_pipelined(nginx, how, "ick")
            assert nginx.get("/add_to_set", id=str(number)) == (200, "1 new")
    finally:
        nginx.end()


def test_a_phase_without_sockets_is_named(nginx: Nginx) -> None:
    refused = nginx.request("/refused", id="x").headers["X-Refused"]
    assert refused.startswith("UNSUPPORTED: nginx allows no connection in its phase header_filter")


PUSH_IN_INIT = """
    require "app"
    local seriatim = require "resty.seriatim"
    local function try(phase, push, ...)
      local ok, result, err = pcall(push, ...)
      ngx.log(ngx.WARN, phase, ": ", tostring(ok), " ", tostring(result), " ", tostring(err), ".")
    end
    function TRY(phase)
      try(phase .. " later", seriatim.push_later, require("app").Count, { { id = "x", payload = "0" } })
      try(phase .. " now", require("app").Count.perform_async, require("app").Count, { { id = "x", payload = "0" } })
    end
    TRY "init"
"""
EXIT = 'require("resty.seriatim").exit()'


def test_a_phase_without_timers_takes_nothing_for_later(
    folder: Path, server: Redis, capfd: pytest.CaptureFixture[str]
) -> None:
    nginx = Nginx(folder, server, {"redis": server.url}).configure('require "app"', PUSH_IN_INIT)
    nginx.configure(EXIT, f'TRY "exit" {EXIT}').start()
    try:
        assert later(nginx) == {}, "each count is 0"
        assert nginx.get("/content", id="y", payload="0") == (200, "ok")
        wait_until(lambda: nginx.lines(), "a run")
        nginx.signal(signal.SIGQUIT)
        nginx.process.wait(60)
        logged = nginx.log() + capfd.readouterr().err  # where nginx writes while it begins
        refused = "true nil UNSUPPORTED: nginx allows no connection and no timer in its phase"
        for phase, name, advice in [("init", "init", "push in init_worker_by_lua_block, by seriatim.push_later"),
                                    ("exit", "exit_worker", "push before the nginx worker ends")]:
            for call in ("later", "now"):
                assert f"{phase} {call}: {refused} {name}: {advice}." in logged
        assert set(runs(nginx)) == {("y", "0")}
    finally:
        nginx.end()


def later(nginx: Nginx) -> Counter[str]:
    """What push_later counts in both workers: asked until both have answered."""
    found: dict[int, dict[str, int]] = {}
    wait_until(lambda: found.update({(each := nginx.figures())["pid"]: each["later"]}) or len(found) == 2, "both workers")
    return sum((Counter(each) for each in found.values()), Counter())


def wait_until_shared(nginx: Nginx) -> None:
    """Until the loops of both workers have shards."""
    found: dict[int, int] = {}
    wait_until(lambda: found.update({(each := nginx.figures())["pid"]: (each.get("stats") or {}).get("shards", 0)})
               or len(found) == 2 and all(found.values()), "the loops")


def test_r_event_9_a_worker_process_serves_a_type_from_its_on_to_its_off(folder: Path, server: Redis) -> None:
    def call(name: str, **arguments: str) -> str:
        return nginx.get("/event", call=name, **arguments)[1]

    def shards() -> int:
        return int((nginx.figures().get("stats") or {}).get("shards", 0))

    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        before = 23  # of Count, Sleep, Ticks and Bad
        wait_until(lambda: shards() == before, "the loop")
        for id in "12":
            assert call("enqueue", id=id) == "enqueued"
            assert call("on") == "given"
            wait_until(lambda: nginx.lines()[-1:] and nginx.lines()[-1][:2] == ["late", id], "the event")
            assert "'shop:Late' has a handler already" in call("on")
            assert (call("off"), call("off")) == ("true", "false")
            wait_until(lambda: shards() == before, "the end of the type's shards")
        assert len(nginx.lines()) == 2 and crashes(nginx) == []
    finally:
        nginx.end()


HANDLER_OF_A_HOOK = """
    require "app"
    seriatim.build_splitter = function() return seriatim.build_by_node_splitter(2, ngx.worker.id()) end
    seriatim.on_server_init(function()
      seriatim.events("shop"):on("Late", function(event)
        ngx.log(ngx.NOTICE, "late ", event, ".")
        return true
      end)
    end)
"""


def test_r_event_9_handlers_that_on_server_init_adds_run_where_the_shards_are_fixed_too(folder: Path, server: Redis) -> None:
    made = Nginx(folder, server, {"redis": server.url}).configure('require "app"', HANDLER_OF_A_HOOK).start()
    try:
        for number in range(12):
            assert made.get("/event", call="enqueue", id=str(number)) == (200, "enqueued")
        wait_until(lambda: made.log().count(": late ") == 12, "12 runs")
    finally:
        made.end()


# It fails twice. The third run ends its light thread behind a checkpoint.
ABORTED_BEHIND_A_CHECKPOINT = """
    require "app"
    local runs = 0
    require("app").Counted = seriatim.worker {
      name = "Counted",
      shards_count = 1,
      fold = "list",
      retry_in = function(count)
        ngx.log(ngx.NOTICE, "retry_in ", count, " after run ", runs, ".")
        return runs < 3 and 1 or 3600 -- until both payloads are there
      end,
      perform = function(_, batch)
        runs = runs + 1
        if runs < 3 then error("bad luck") end
        batch:checkpoint(batch.ids[1], 1)
        coroutine.wrap(function() error("in a coroutine") end)()
      end,
    }
"""


def test_r_checkpoint_4_a_failure_behind_a_checkpoint_is_the_first_in_a_row_where_nginx_ended_the_run(folder: Path, server: Redis) -> None:
    made = Nginx(folder, server, {"redis": server.url, "processes": "1"}).configure('require "app"', ABORTED_BEHIND_A_CHECKPOINT).start()
    try:
        for payload in "ab":
            made.get("/content", worker="Counted", id="x", payload=payload)
        wait_until(lambda: "after run 3." in made.log(), "the failures")
        assert re.findall(r"retry_in (\d+) after run (\d)\.", made.log()) == [("0", "1"), ("1", "2"), ("0", "3")]
    finally:
        made.end()


def test_later_is_counted_and_bounded(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": f"unix://{folder}/late.sock", "later": "5"}).start()
    try:
        for number in range(30):
            nginx.get("/log", id="x", payload=str(number))
        counts = later(nginx)
        assert counts["queued"] <= 10 and counts["queued"] + counts["refused"] == 30
        assert "QUEUE_FULL: 5 jobs wait for a connection to Redis, the most is 5; these 1 were not taken" in nginx.log()
        os.link(server.socket, folder / "late.sock")
        wait_until(lambda: later(nginx)["pushed"] == counts["queued"], "the pushes")
    finally:
        nginx.end()


def check_later_waits_until(nginx: Nginx, redis_takes_it: Callable[[], Any]) -> None:
    """One job of push_later: it waits while Redis does not take it, and is written when Redis does."""
    nginx.start()
    try:
        nginx.get("/log", id="x", payload="0")
        wait_until(lambda: "1 jobs of push_later wait: " in nginx.log(), "the end of a push")
        time.sleep(2)
        assert nginx.figures()["later"] == {"queued": 1, "pushed": 0, "refused": 0, "failed": 0}
        redis_takes_it()
        wait_until(lambda: nginx.figures()["later"]["queued"] == 0, "the push")
        assert nginx.figures()["later"] == {"queued": 0, "pushed": 1, "refused": 0, "failed": 0}
    finally:
        nginx.end()


def test_later_waits_while_redis_is_a_replica(folder: Path, server: Redis) -> None:
    server.client.replicaof("127.0.0.1", "1")
    nginx = Nginx(folder, server, {"redis": server.url, "push_timeout": "0.5", "processes": "1"})
    check_later_waits_until(nginx, lambda: server.client.replicaof("no", "one"))


def test_later_waits_while_redis_is_full(folder: Path, server: Redis) -> None:
    server.client.config_set("maxmemory", 1)
    nginx = Nginx(folder, server, {"redis": server.url, "push_timeout": "0.5", "processes": "1"})
    check_later_waits_until(nginx, lambda: server.client.config_set("maxmemory", 0))


# Of the jobs of the first push, Redis refuses the first and the last one and takes the second one.
REFUSED_IN_PART = """
    require "app"
    local Connection = require "seriatim.client.connection"
    local call, is_full = Connection.call, true
    function Connection:call(name, ...)
      if name == "pipeline" and is_full then
        is_full = false
        return { { 1, 0, {}, "FULL", "Redis is out of memory", 0, 0, nil, "-n-" } }
      end
      return call(self, name, ...)
    end
"""
PUSH_THREE = """
    local seriatim = require "resty.seriatim"
    seriatim.push_later(require("app").Count, { { id = "x", payload = 1 }, { id = "x", payload = 2 }, { id = "y", payload = 1 } })
    seriatim.start { threads = 4 }
"""


def test_later_writes_nothing_behind_a_later_job_of_the_id(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).configure('require "app"', REFUSED_IN_PART)
    nginx.configure('require("resty.seriatim").start { threads = 4 }', PUSH_THREE).start()
    try:
        wait_until(lambda: nginx.figures()["later"]["queued"] == 0, "the pushes")
        assert nginx.figures()["later"] == {"queued": 0, "pushed": 2, "refused": 0, "failed": 1}
        assert "1 jobs of push_later are lost: Redis is out of memory" in nginx.log()
        wait_until(lambda: runs(nginx) == {("y", "1"): 1}, "the run")
    finally:
        nginx.end()


def test_later_waits_while_no_connection_is_answered(folder: Path, server: Redis) -> None:
    with socket.create_server(("127.0.0.1", free_port()), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]  # the backlog is full: the system drops what comes
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))

        def listen() -> None:
            for each in [deaf, *waiting]:
                each.close()
            server.client.config_set("port", port)

        nginx = Nginx(folder, server, {"redis": f"redis://127.0.0.1:{port}", "push_timeout": "0.5", "processes": "1"})
        check_later_waits_until(nginx, listen)


def test_later_writes_again_only_what_was_not_written(folder: Path, server: Redis, cluster: Cluster) -> None:
    """Of a batch, the jobs of the masters that live are written once, and those of the one that is away wait."""
    masters, ports = cluster.masters, cluster.ports
    url = f"redis+cluster://127.0.0.1:{ports[1]},127.0.0.1:{ports[2]}"
    nginx = Nginx(folder, server, {"redis": url, "push_timeout": "2", "processes": "1"}).start()
    try:
        assert nginx.get("/content", id="x", payload="0") == (200, "ok")
        before = sum(int(each.call("EVAL", PUSHED, 0)) for each in masters[1:])
        masters[0].stop(signal.SIGKILL)
        for number in range(20):
            nginx.get("/log", id=f"id-{number}", payload="1")
        wait_until(lambda: " jobs of push_later wait: " in nginx.log(), "the end of a push")
        time.sleep(6)
        counts = nginx.figures()["later"]
        assert counts["queued"] > 0 and counts["queued"] + counts["pushed"] == 20 and counts["failed"] == 0
        assert sum(int(each.call("EVAL", PUSHED, 0)) for each in masters[1:]) - before == counts["pushed"] > 0
    finally:
        nginx.end()


def test_what_later_holds_at_quit_has_one_deadline(folder: Path, server: Redis) -> None:
    """Of two workers in turn, so that each job is a batch of its own."""
    nginx = Nginx(folder, server, {"redis": f"unix://{folder}/late.sock", "push_timeout": "2", "processes": "1"}).start()
    try:
        for number in range(12):
            nginx.get("/log", worker=("Count", "Sleep")[number % 2], id="x", payload="0")
        assert nginx.figures()["later"]["queued"] == 12
        began = time.monotonic()
        nginx.signal(signal.SIGQUIT)
        nginx.process.wait(60)
        assert time.monotonic() - began < 15, "12 batches take 24 seconds"
        lost = [int(count) for count in re.findall(r"(\d+) jobs of push_later are lost: ", nginx.log())]
        assert (sum(lost), lost[1:]) == (12, [11]), "the first batch, and the rest in one line"
    finally:
        nginx.end()


def test_term_writes_what_later_holds(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": f"unix://{folder}/late.sock"}).start()
    try:
        for number in range(10):
            nginx.get("/log", id="x", payload=str(number))
        os.link(server.socket, folder / "late.sock")
        nginx.signal(signal.SIGTERM)
        nginx.process.wait(60)
        records = server.client.eval("return #redis.call('keys', 'seriatim:{Count/*:jobs')", 0)
        assert records == 1
    finally:
        nginx.end()


def runs_after_term(folder: Path, server: Redis) -> list[str]:
    """Of the jobs 1 and 2, of which one is sent and one waits when nginx gets TERM, and of 3, which is pushed later."""
    server.client.flushall()
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        nginx.get("/log", id="y", payload="0")
        wait_until(lambda: nginx.figures()["later"]["pushed"] == 1, "the first push")
        os.kill(server.pid, signal.SIGSTOP)
        for payload in ("1", "2"):
            nginx.get("/log", id="x", payload=payload)
            time.sleep(0.3)
        assert nginx.figures()["later"]["queued"] == 2, "1 is sent, and 2 waits for its answer"
        nginx.signal(signal.SIGTERM)
        wait_until(lambda: "1 jobs of push_later are lost: outcome unknown: " in nginx.log() or nginx.process.poll() is not None,
                   "the end of the worker")
        os.kill(server.pid, signal.SIGCONT)
        nginx.process.wait(60)
    finally:
        os.kill(server.pid, signal.SIGCONT)
        nginx.end()
    again = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        assert again.get("/content", id="x", payload="3") == (200, "ok")
        wait_until(lambda: ("x", "3") in runs(again), "the last run")
        return [line[1] for line in again.lines() if line[0] == "x"]
    finally:
        again.end()


def test_f20_term_does_not_write_again_what_later_has_sent(folder: Path, server: Redis) -> None:
    for _ in range(3):
        found = runs_after_term(folder, server)
        assert found in (["1", "2", "3"], ["1", "3"])
        if "2" in found:
            return
    # A worker has a second for its end, within which a Redis that goes on late may not answer: but not each time.
    pytest.fail("2 was lost each time")


def test_a_full_pool_is_waited_for_and_named(folder: Path, server: Redis) -> None:
    # One process: another would have to connect while Redis is paused.
    words = {"redis": server.url, "processes": "1", "pool_size": "1", "pool_timeout": "0.3"}
    nginx = Nginx(folder, server, words).start()
    try:
        nginx.get("/content", id="x", payload="0")
        server.client.client_pause(5000)
        loads = [Load(nginx, name) for name in "abcdef"]
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda load: nginx.get("/content", id=load.prefix), loads))
        assert sorted(status for status, _ in answers)[0] == 200, answers
        full = [text for status, text in answers if status == 503]
        assert full and all(text.startswith("POOL_TIMEOUT: no free connection in 0.3 s: all 1 are in use") for text in full)
        assert nginx.get("/content", id="x", payload="1") == (200, "ok")
    finally:
        nginx.end()


def test_pushes_outlast_an_outage_if_their_worker_was_connected_before(folder: Path, server: Redis) -> None:
    other = Redis()
    words = {"redis": other.url, "processes": "1", "pool_size": "2"}
    nginx = Nginx(folder, server, words).start()
    try:
        assert nginx.get("/content", id="x", payload="0") == (200, "ok")
        other.stop()
        with ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(nginx.get, "/content", id=str(number)) for number in range(8)]
            time.sleep(7)  # a connection that was never made gives up after 5
            other.start()
            assert [each.result() for each in answers] == [(200, "ok")] * 8
    finally:
        nginx.end()
        other.remove()


def test_operations_that_wait_for_a_place_collect_garbage_together(nginx: Nginx) -> None:
    status, count = nginx.get("/crowd", seconds="2.5")
    assert (status, 1 <= int(count) <= 4) == (200, True), count


def test_lost_connections_lose_nothing(nginx: Nginx, server: Redis) -> None:
    def cut() -> None:
        for _ in range(20):
            for kind in ("normal", "pubsub"):
                server.client.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
            time.sleep(0.1)

    pushed = under_load(nginx, 1, cut)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")


def test_pushes_beside_a_reshard_are_written_once(nginx: Nginx, server: Redis) -> None:
    def reshard() -> None:
        for count in ("3", "11", "2", "9", "5"):
            said, code = command.run("reshard", "Count", count, redis=server.url, env={"PYTHONPATH": str(PYTHON)})
            assert code == 0, said

    pushed = under_load(nginx, 2, reshard)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")
    assert set(runs(nginx).values()) == {1}
    assert crashes(nginx) == []


def test_two_nginx_workers_run_jobs_in_order_and_once(nginx: Nginx) -> None:
    wait_until_shared(nginx)
    pushed = under_load(nginx, 3, lambda: None)
    wait_until(lambda: len(nginx.lines()) >= len(pushed), "all runs")
    time.sleep(0.3)
    assert runs(nginx) == Counter(pushed)
    for id in {job[0] for job in pushed}:
        assert [line[1] for line in nginx.lines() if line[0] == id] == [payload for of, payload in pushed if of == id]
    assert len({line[2] for line in nginx.lines()}) == 2, "both nginx workers ran jobs"
    assert crashes(nginx) == []


def test_the_loop_goes_on_in_the_next_timer(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "turn_jobs": "10"}).start()
    try:
        nginx.get("/content", worker="Sleep", id="s", payload="1")
        pushed = under_load(nginx, 2, lambda: None)
        wait_until(lambda: sum(runs(nginx).values()) >= len(pushed) + 2, "all runs")
        assert set(runs(nginx)) >= set(pushed)
        assert [line[0] for line in nginx.lines() if line[1] == "s"] == ["begin", "end"], "it outlived its turn"
        assert set(runs(nginx).values()) == {1}
        assert crashes(nginx) == []
    finally:
        nginx.end()


def test_f19_ten_reloads_lose_nothing(nginx: Nginx) -> None:
    def reload() -> None:
        for _ in range(10):
            nginx.signal(signal.SIGHUP)
            time.sleep(0.4)

    first = nginx.workers()
    pushed = under_load(nginx, 2, reload)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")
    assert set(runs(nginx).values()) == {1}, "handed over, not run again"
    wait_until(lambda: len(nginx.workers()) == 2 and not set(first) & set(nginx.workers()), "the old workers' end")
    assert "what still ran" not in nginx.log()


def test_f1_a_killed_worker_loses_nothing(nginx: Nginx) -> None:
    pushed = under_load(nginx, 3, lambda: os.kill(nginx.workers()[0], signal.SIGKILL))
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")
    for id in {job[0] for job in pushed}:
        seen = list(dict.fromkeys(line[1] for line in nginx.lines() if line[0] == id))
        assert seen == [payload for of, payload in pushed if of == id]


def test_f22_a_sleeping_job_does_not_hold_a_reload(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "stop_timeout": "2"}).start()
    try:
        nginx.get("/content", worker="Sleep", id="s", payload="60")
        wait_until(lambda: nginx.lines(), "the job's start")
        first = nginx.workers()
        started = time.monotonic()
        nginx.signal(signal.SIGHUP)
        wait_until(lambda: not set(first) & set(nginx.workers()), "the old workers' end")
        assert time.monotonic() - started < 40, "the grace time is 2 s, the job takes 60"
        wait_until(lambda: len([line for line in nginx.lines() if line[0] == "begin"]) == 2, "the job's next start")
        assert "what still ran after 2 s: " in nginx.log()
        assert " fail " not in nginx.log(), "it was stopped, which is no failure"
    finally:
        nginx.end()


def test_a_job_of_an_earlier_turn_has_ended_before_it_is_handed_back(folder: Path, server: Redis) -> None:
    words = {"redis": server.url, "processes": "1", "stop_timeout": "1", "turn_jobs": "10"}
    nginx = Nginx(folder, server, words).start()
    try:
        nginx.get("/content", worker="Ticks", id="t", payload="100000")
        under_load(nginx, 1, lambda: None)  # ends its turn
        first = nginx.workers()
        nginx.signal(signal.SIGHUP)
        wait_until(lambda: len({line[2] for line in nginx.lines() if line[0] == "tick"}) == 2, "the job's next run")
        wait_until(lambda: not set(first) & set(nginx.workers()), "the old worker's end")
        pids = [int(line[2]) for line in nginx.lines() if line[0] == "tick"]
        assert pids == sorted(pids, key=first.__contains__, reverse=True), "the first run went on beside the second"
    finally:
        nginx.end()


def test_f21_quit_lets_jobs_finish(nginx: Nginx, server: Redis) -> None:
    wait_until_shared(nginx)
    nginx.get("/content", worker="Sleep", id="s", payload="1")
    wait_until(lambda: nginx.lines(), "the job's start")
    nginx.signal(signal.SIGQUIT)
    nginx.process.wait(60)
    assert [line[0] for line in nginx.lines()] == ["begin", "end"]
    assert nginx.log().count(" stop stopped") == 2, "both nodes left in time"
    assert [key for key in server.client.keys() if "nodes" in key] in ([], ["seriatim:{/nodes}:sampler"])  # which ends by itself


def test_f20_term_ends_at_once_and_writes_what_waits(nginx: Nginx) -> None:
    nginx.get("/content", worker="Sleep", id="s", payload="60")
    wait_until(lambda: nginx.lines(), "the job's start")
    started = time.monotonic()
    nginx.signal(signal.SIGTERM)
    nginx.process.wait(60)
    assert time.monotonic() - started < 40, "the job takes 60 s"
    again = Nginx(nginx.folder, nginx.journal, {"redis": nginx.journal.url}).start()
    try:
        wait_until(lambda: len(nginx.lines()) >= 2, "the job's next start")
    finally:
        again.end()


def test_f6_jobs_go_on_when_redis_restarts(nginx: Nginx, server: Redis) -> None:
    def restart() -> None:
        server.stop()
        server.start()

    pushed = under_load(nginx, 2, restart)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")


def test_f9_failures_are_tried_again(nginx: Nginx) -> None:
    nginx.get("/content", worker="Bad", id="b", payload="error")
    wait_until(lambda: len(nginx.lines()) == 3, "three runs")
    assert nginx.lines() == [["bad", "b", "-1"], ["bad", "b", "0"], ["bad", "b", "1"]]
    assert "bad luck" in nginx.log()


def test_f9_a_job_that_ends_the_timer_is_survived(nginx: Nginx) -> None:
    nginx.get("/content", worker="Bad", id="b", payload="exit")
    wait_until(lambda: "the worker loop ended; it is started again" in nginx.log(), "the guard")
    for number in range(20):
        nginx.get("/content", id=f"x{number}", payload="1")
    wait_until(lambda: all((f"x{number}", "1") in runs(nginx) for number in range(20)), "the runs of others")


def test_f9_a_job_that_ends_the_timer_of_an_earlier_turn_is_survived(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1", "turn_jobs": "1"}).start()

    def begun() -> set[str]:
        return {line[1] for line in nginx.lines() if line[0] == "begin"}

    try:
        nginx.get("/content", worker="Bad", id="b", payload="exit late")
        nginx.get("/content", worker="Sleep", id="beside", payload="60")
        wait_until(lambda: nginx.lines() and "beside" in begun(), "their begin")
        nginx.get("/content", id="x", payload="ends the turn")
        wait_until(lambda: ["bad", "b", "0"] in nginx.lines(), "its next run")
        wait_until(lambda: "ngx.exit" in json.loads(nginx.get("/records", worker="Sleep")[1])[0]["error"], "the failure of the job beside it")
        for number in range(4):
            nginx.get("/content", worker="Sleep", id=f"s{number}", payload="20")
        wait_until(lambda: {f"s{number}" for number in range(4)} <= begun(), "jobs on all four light threads", 15)
        assert "the worker loop ended" not in nginx.log()
    finally:
        nginx.end()


@pytest.mark.parametrize(("options", "said"), [
    ('{ queues = { "None" } }', "unknown queue 'None'; there are 'Count', 'Sleep', 'Ticks', 'Bad'"),
    ('{ workers = {} }', "no workers: set seriatim.workers, or define one with seriatim.worker"),
    ('{ workers = { require("seriatim").worker { name = "Pushed" } } }', "workers: Pushed has no perform; "),
])
def test_the_log_says_why_start_is_refused(folder: Path, server: Redis, options: str, said: str) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).configure("start { threads = 4 }", f"start {options}").start()
    try:
        assert f": seriatim: {said}" in nginx.log()
    finally:
        nginx.end()


def test_jobs_run_without_lua_code_cache(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "code_cache": "off"}).start()
    try:
        for path in WITH_SOCKETS + WITHOUT_SOCKETS:
            for number in range(5):
                assert nginx.get(path, id=path, payload=str(number)) == (200, "ok")
        wait_until(lambda: sum(runs(nginx).values()) >= 30, "all runs")
        assert set(runs(nginx).values()) == {1}
    finally:
        nginx.end()


def make_certificate(folder: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
               "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def secure(folder: Path) -> Redis:
    make_certificate(folder)
    port = str(free_port())
    made = Redis("--tls-port", port, "--tls-cert-file", str(folder / "cert.pem"), "--tls-key-file", str(folder / "key.pem"),
                 "--tls-ca-cert-file", str(folder / "cert.pem"), "--tls-auth-clients", "no", "--requirepass", "secret")
    made.url = f"rediss://:secret@localhost:{port}/3"
    yield made  # type: ignore[misc]
    made.remove()


def test_redis_is_reached_by_tls_and_password(folder: Path, secure: Redis) -> None:
    journal = Redis()
    nginx = Nginx(folder, journal, {"redis": secure.url, "certificate": "cert.pem"}).start()
    try:
        for number in range(20):
            assert nginx.get("/content", id="x", payload=str(number)) == (200, "ok")
        wait_until(lambda: len(nginx.lines()) >= 20, "20 runs")
        assert [line[1] for line in nginx.lines()] == [str(number) for number in range(20)]
        assert secure.client.dbsize() == 0, "database 3 is used"
        assert "secret" not in nginx.log()
    finally:
        nginx.end()
        journal.remove()


def test_an_unknown_certificate_is_refused(folder: Path, secure: Redis) -> None:
    journal = Redis()
    nginx = Nginx(folder, journal, {"redis": secure.url}).start()
    try:
        status, text = nginx.get("/content", id="x")
        assert status == 503
        assert text.startswith("IO: cannot connect to rediss://:***@localhost:") and "TLS: " in text
    finally:
        nginx.end()
        journal.remove()


def block(page: str, language: str) -> str:
    return page.split(f"```{language}\n")[1].split("```")[0]


def test_the_configuration_of_the_page_runs_as_printed(folder: Path, server: Redis) -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/start/openresty.md").read_text()
    nginx = Nginx(folder, server, {})
    text = block(page, "nginx").replace("/srv/seriatim/lua", str(nginx.lua)).replace("/srv/orders", str(folder))
    text = text.replace("listen 8080", f"listen 127.0.0.1:{nginx.port}").replace("logs/error.log", "error.log")
    (folder / "nginx.conf").write_text("daemon off; pid nginx.pid; user root;\n" + text)
    (folder / "orders.lua").write_text(block(page, "lua"))
    nginx.start({"REDIS_URL": server.url}, ("/", (204, "")))
    try:
        connection = http.client.HTTPConnection("127.0.0.1", nginx.port)
        connection.request("POST", "/orders?id=17", "paid")
        assert connection.getresponse().read() == b"1 new, 0 folded\n"
        for path in ("/orders", "/orders?id=", "/orders?id"):
            connection.request("POST", path, "paid")
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (400, b"id is missing\n"), path
        wait_until(lambda: "order 17 is paid" in nginx.log(), "the order")
        wait_until(lambda: " visits of /," in nginx.log(), "the visits")
        assert "OrderWorker" in nginx.get("/seriatim/api/v1/stats")[1]
        assert crashes(nginx) == []
    finally:
        nginx.end()
