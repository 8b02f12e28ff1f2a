"""resty.seriatim inside a real nginx that drops timers, because as many run as lua_max_running_timers allows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Nginx, Redis, subscribers, wait_until
from test_pop import pop_that_waits, push

DROPPED = "lua_max_running_timers are not enough"
REFUSED = "nginx refuses a timer: too many pending timers"
START = 'require("resty.seriatim").start'


@pytest.fixture
def nginx(folder: Path, server: Redis) -> Iterator[Nginx]:
    """Its loop ends a turn after each job. One timer of four is the loop's."""
    made = Nginx(folder, server, {"redis": server.url, "processes": "1", "timers": "4", "turn_jobs": "1"}).start()
    wait_until(lambda: made.figures().get("stats"), "the loop")
    yield made
    made.end()


def fill_timers(nginx: Nginx, seconds: float) -> None:
    assert nginx.get("/busy", seconds=str(seconds)) == (200, "busy")
    assert DROPPED in nginx.log()


def test_push_later_writes_when_its_timer_was_dropped(nginx: Nginx) -> None:
    fill_timers(nginx, 5)
    nginx.get("/log", id="x", payload="0")
    time.sleep(6.5)
    assert nginx.figures()["later"]["queued"] == 1
    nginx.get("/log", id="x", payload="1")
    wait_until(lambda: nginx.figures()["later"] == {"queued": 0, "pushed": 2, "refused": 0, "failed": 0}, "the push", 10)
    wait_until(lambda: [line[1] for line in nginx.lines()] == ["0", "1"], "the runs", 10)


def test_a_pop_that_waits_is_woken_by_messages_when_their_timer_was_dropped(nginx: Nginx, server: Redis) -> None:
    fill_timers(nginx, 1)
    with pop_that_waits(nginx):
        wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions", 10)
        push(nginx, "Pulled", "b")


def test_f1_the_loop_loses_no_result_when_the_timer_of_its_next_turn_was_dropped(nginx: Nginx) -> None:
    for id, seconds in [("short", 0.5), ("long", 2)]:
        assert nginx.get("/content", worker="Sleep", id=id, payload=str(seconds)) == (200, "ok")
    wait_until(lambda: len(nginx.lines()) >= 2, "the begins")
    fill_timers(nginx, 8)
    wait_until(lambda: len(nginx.lines()) == 4, "the ends")
    for number in range(5):
        assert nginx.get("/content", worker="Sleep", id=f"x{number}", payload="0") == (200, "ok")
    wait_until(lambda: len(nginx.lines()) == 14, "the runs while no other timer can run", 5)
    time.sleep(8)
    assert nginx.get("/content", worker="Sleep", id="last", payload="0") == (200, "ok")
    wait_until(lambda: len(nginx.lines()) == 16, "the last run", 10)
    assert set(Counter((line[0], line[1]) for line in nginx.lines()).values()) == {1}
    assert "the worker loop ended" not in nginx.log()


def test_the_loop_begins_when_the_timer_of_its_first_turn_was_dropped(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1", "timers": "4"})
    nginx.configure(START, f"for _ = 1, 4 do ngx.timer.at(0, function() ngx.sleep(2) end) end {START}").start()
    try:
        assert nginx.get("/content", id="x", payload="0") == (200, "ok")
        wait_until(lambda: nginx.lines(), "the run", 10)
        assert DROPPED in nginx.log()
    finally:
        nginx.end()


def with_pending_timers(nginx: Nginx, count: int, most: int) -> Nginx:
    """This many timers wait for two seconds when the loop asks for its own; nginx lets `most` wait."""
    others = f"for _ = 1, {count} do assert(ngx.timer.at(2, function() end)) end"
    nginx.configure("lua_max_running_timers", f"lua_max_pending_timers {most}; lua_max_running_timers")
    return nginx.configure(START, f"{others} {START}").start()


def test_the_loop_begins_when_nginx_refused_the_timer_of_its_first_turn(folder: Path, server: Redis) -> None:
    nginx = with_pending_timers(Nginx(folder, server, {"redis": server.url, "processes": "1"}), 1, 2)
    try:
        assert nginx.get("/content", id="x", payload="0") == (200, "ok")
        wait_until(lambda: nginx.lines(), "the run", 10)
        assert REFUSED in nginx.log() and "init_worker_by_lua error" not in nginx.log()
    finally:
        nginx.end()


def test_the_log_says_that_nginx_refuses_the_guard_its_timer(folder: Path, server: Redis) -> None:
    nginx = with_pending_timers(Nginx(folder, server, {"redis": server.url, "processes": "1"}), 2, 2)
    try:
        assert f": seriatim: start: {REFUSED}" in nginx.log()
    finally:
        nginx.end()


def test_the_loop_goes_on_in_one_timer_beside_a_job_that_outlives_many_turns(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1", "timers": "6", "turn_jobs": "1"}).start()
    try:
        assert nginx.get("/content", worker="Sleep", id="long", payload="12") == (200, "ok")
        wait_until(lambda: nginx.lines(), "its begin")
        for number in range(12):
            assert nginx.get("/content", worker="Sleep", id=f"x{number}", payload="0") == (200, "ok")
            wait_until(lambda: ["end", f"x{number}"] in [line[:2] for line in nginx.lines()], "the run", 10)
            time.sleep(0.2)
        assert ["end", "long"] not in [line[:2] for line in nginx.lines()]
        wait_until(lambda: ["end", "long"] in [line[:2] for line in nginx.lines()], "its end")
        assert DROPPED not in nginx.log()
    finally:
        nginx.end()
