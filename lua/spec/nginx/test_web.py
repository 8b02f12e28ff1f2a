"""The dashboard in an nginx location: every route, its prefix, who may, redaction, a broken Redis, one load beside pushes."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import LUA, PATIENCE, Nginx, Redis, wait_until

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
OWN = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
QUERY = "?id=late&q=late&queue=Count&span=1h&part=dead&by=id"  # what a route may need beside its path
LIST = (
    'for _, r in ipairs(require("seriatim.native").web_routes()) do '
    'print(r.method .. " " .. r.pattern .. " " .. r.role .. " " .. tostring(r.mutates)) end'
)


class Route(NamedTuple):
    method: str
    pattern: str
    role: int
    mutates: bool

    @property
    def path(self) -> str:
        path = re.sub(r":(worker|queue|node)", "Count", self.pattern)
        return "/seriatim" + path.replace(":fingerprint", "0123456789abcdef")


def routes() -> list[Route]:
    environment = {"LUA_PATH": f"{LUA}/?.lua;;", "LUA_CPATH": f"{LUA}/lib/5.1/?.so;;", "PATH": "/usr/bin:/bin"}
    said = subprocess.run(["luajit", "-e", LIST], env=environment, check=True, capture_output=True, text=True).stdout
    rows = [line.split(" ") for line in said.splitlines()]
    made = [Route(method, pattern, int(role), mutates == "true") for method, pattern, role, mutates in rows]
    return [route for route in made if "/consume/" not in route.pattern]  # those are there only with consume


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def ask(nginx: Nginx, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=PATIENCE)
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    answer = Answer(response.status, response.headers, response.read())
    connection.close()
    return answer


def get(nginx: Nginx, path: str, **headers: str) -> Answer:
    return safe(ask(nginx, "GET", path, {name.replace("_", "-"): value for name, value in headers.items()}))


def post(nginx: Nginx, path: str, body: Any = None, headers: dict[str, str] = OWN) -> Answer:
    return safe(ask(nginx, "POST", path, headers, json.dumps(body or {}).encode()))


def safe(answer: Answer) -> Answer:
    assert answer.headers["Content-Security-Policy"] == CSP
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    return answer


@pytest.fixture
def filled(nginx: Nginx) -> Iterator[Nginx]:
    """One id of Count that waits for its time, with a secret; ids that wait in a paused queue."""
    wait_until(lambda: " light threads runs " in nginx.log(), "the queues")
    assert post(nginx, "/seriatim/api/web/Count/pause").json()["count"] == 8
    for name in ("late", "a"):
        assert nginx.get("/content", id=name, payload="SECRET-1") == (200, "ok")
    yield nginx


def figures(nginx: Nginx) -> dict[str, Any]:
    (row,) = [row for row in get(nginx, "/seriatim/api/web/dashboard").json()["queues"] if row["name"] == "Count"]
    return {name: row[name] for name in ("enqueued", "retries", "dead", "parked", "paused")}


def test_the_page_and_its_files_load_at_both_prefixes(nginx: Nginx) -> None:
    moved = get(nginx, "/seriatim")
    assert (moved.status, moved.headers["Location"].endswith("/seriatim/")) == (308, True)
    for prefix in ("/seriatim/", "/admin/jobs/"):
        for path in (prefix, prefix + "queues/Count"):
            page = get(nginx, path)
            assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
            files = re.findall(r'(?:src|href)="([^"]+)"', page.body.decode())
            assert files and all(file.startswith("../" * (path.count("/") - prefix.count("/")) + "assets/") for file in files)
            for file in files:
                answer = get(nginx, prefix + file[file.index("assets/") :])
                assert (answer.status, answer.headers["Cache-Control"]) == (200, "public, max-age=86400")
                assert int(answer.headers["Content-Length"]) == len(answer.body) > 0
    assert get(nginx, "/admin/jobs/api/web/dashboard").json()["title"] == "Ours"
    unknown = get(nginx, "/seriatim/api/nothing")
    assert (unknown.status, unknown.json()) == (404, {"error": "not found"})
    assert get(nginx, "/%73eriatim/api/v1/stats").status == 404


def test_every_route_that_reads_answers(filled: Nginx) -> None:
    before = figures(filled)
    read = [route for route in routes() if not route.mutates]
    assert len(read) >= 13
    for route in read:
        answer = get(filled, route.path + QUERY)
        assert (route.pattern, answer.status, answer.headers["Cache-Control"]) == (route.pattern, 200, "no-store")
        assert b"SECRET" not in answer.body
        head = safe(ask(filled, "HEAD", route.path + QUERY))
        assert (route.pattern, head.status, head.body) == (route.pattern, 200, b"")
    assert figures(filled) == before
    records = get(filled, "/seriatim/api/web/Count/range_by_id").json()
    assert [(record["id"], record["payloads"][0][0]) for record in records] == [("a", '"*"'), ("late", '"*"')]
    stats = get(filled, "/seriatim/api/v1/stats").json()
    assert (stats["total"]["length"], set(stats["by_worker"]["Count"])) == (2, {"length", "morgue_length", "lag"})


def test_r_web_21_errors_are_shown_and_grouped_by_what_load_error_gives(nginx: Nginx) -> None:
    assert nginx.get("/content", worker="Bad", id="bad", payload="exit") == (200, "ok")

    def groups() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = get(nginx, "/seriatim/api/v1/queues/Bad/errors?part=retrying").json()["groups"]
        return found

    wait_until(lambda: groups() != [], "a failure")
    post(nginx, "/seriatim/api/web/Bad/pause")
    wait_until(lambda: get(nginx, "/seriatim/api/web/Bad/processing_data").json() == [], "the end of the run")
    (group,) = groups()
    assert (group["count"], group["ids"]) == (1, ["bad"])
    assert group["error"] and not group["error"].startswith(("dumped", "(load_error"))
    (record,) = get(nginx, "/seriatim/api/web/Bad/range_by_id").json()
    assert record["error"].startswith(group["error"])
    killed, count = {"cursor": None, "more": True}, 0
    while killed["more"]:  # a slow machine needs more than one slice
        killed = post(nginx, f"/seriatim/api/v1/queues/Bad/errors/{group['fingerprint']}/kill", {"cursor": killed["cursor"]}).json()
        count += killed["count"]
    assert (count, killed["cursor"]) == (1, None)


def test_actions_answer_with_their_outcome(filled: Nginx) -> None:
    base = "/seriatim/api/web/Count/"
    assert post(filled, base + "park", {"ids": ["a", "none"]}).json() == {"count": 1}
    assert figures(filled)["parked"] == 1
    assert post(filled, base + "unpark", {"ids": ["a"]}).json() == {"count": 1}
    assert post(filled, base + "delete", {"ids": ["late"]}).json() == {"count": 1}
    assert post(filled, base + "resume").json() == {"count": 8}
    wait_until(lambda: filled.lines(), "the run")
    assert get(filled, "/seriatim/api/web/None/range_by_id").status == post(filled, "/seriatim/api/web/None/pause").status == 404
    assert get(filled, base + "range_by_perform_in?min=x").status == 400


def states(nginx: Nginx) -> dict[int, str]:
    """Of each node, by the process id of its nginx worker."""
    nodes = get(nginx, "/seriatim/api/v1/nodes").json()["nodes"]
    return {int(node["description"].split(" pid ")[1].split()[0]): node["state"] for node in nodes}


def order(nginx: Nginx, pid: int, word: str) -> None:
    nodes = get(nginx, "/seriatim/api/v1/nodes").json()["nodes"]
    (name,) = [node["name"] for node in nodes if f" pid {pid} " in node["description"]]
    assert post(nginx, f"/seriatim/api/v1/nodes/{name}/{word}").json() == {"count": 1}


def test_a_node_is_quieted_and_stopped_and_its_nginx_worker_serves_on(nginx: Nginx) -> None:
    wait_until(lambda: list(states(nginx).values()) == ["working"] * 2, "both nodes")
    nginx.get("/content", worker="Sleep", id="s", payload="10")
    busy = int(wait_until(lambda: nginx.lines(), "the job's start")[0][2])
    other = next(pid for pid in states(nginx) if pid != busy)
    order(nginx, busy, "quiet")
    wait_until(lambda: states(nginx) == {busy: "quiet", other: "working"}, "the quiet node")
    order(nginx, busy, "stop")
    wait_until(lambda: states(nginx).get(busy) == "stopping", "the stopping node")
    for number in range(40):
        nginx.get("/content", id=f"x{number}", payload="1")
    wait_until(lambda: states(nginx) == {other: "working"}, "its end")
    wait_until(lambda: len(nginx.lines()) == 42, "all runs")
    assert [line[0] for line in nginx.lines() if line[1] == "s"] == ["begin", "end"]
    assert {line[2] for line in nginx.lines() if line[1] == "1"} == {str(other)}
    wait_until(lambda: nginx.log().count(" stop stopped") == 1, "the line of its end")
    assert nginx.log().count("requested from the dashboard") == 2
    pids: set[int] = set()
    wait_until(lambda: pids.add(nginx.figures()["pid"]) or pids == {busy, other}, "answers of both nginx workers")
    assert get(nginx, "/seriatim/livez").status == 200
    order(nginx, other, "stop")
    wait_until(lambda: states(nginx) == {}, "the other's end")
    nginx.signal(signal.SIGHUP)
    wait_until(lambda: len(states(nginx)) == 2 and not {busy, other} & set(states(nginx)), "the nodes of new nginx workers")


def test_d2_d5_d6_changes_need_role_origin_and_host(filled: Nginx) -> None:
    before = figures(filled)
    foreign: list[dict[str, str]] = [
        {**OWN, "Sec-Fetch-Site": "cross-site"}, {"Content-Type": "application/json"},
        {"Content-Type": "application/json", "Origin": "http://evil.example"}, {**OWN, "Host": "evil.example"},
    ]
    for route in routes():
        for number, role in enumerate(("viewer", "operator"), 1):
            if number < route.role:
                assert post(filled, route.path, headers={**OWN, "X-Role": role}).status == 403
        if route.mutates:
            assert [post(filled, route.path, headers=fields).status for fields in foreign] == [403] * len(foreign)
            assert post(filled, route.path, headers={**OWN, "Content-Type": "text/plain"}).status == 415
            assert get(filled, route.path).status == 405
    assert get(filled, "/seriatim/api/v1/stats", Host="evil.example").status == 403
    assert get(filled, "/seriatim/api/v1/stats", Host="jobs.example:81").status == 200
    assert get(filled, "/seriatim/api/v1/stats", X_Role="root").status == 500
    assert "role's result must be viewer, operator, admin, consumer or nil" in filled.log()
    own = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{filled.port}"}
    assert post(filled, "/seriatim/api/web/Count/pause", headers=own).status == 200
    assert figures(filled) == before


def test_d4_d8_nothing_is_repeated_or_injected(filled: Nginx) -> None:
    coded = "xss%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
    for path in (f"/{coded}", f"/api/{coded}", f"/api/web/{coded}/range_by_id", f"/api/v1/stats?{coded}={coded}", f"/assets/1/{coded}"):
        answer = get(filled, "/seriatim" + path, Referer="http://xss/", X_Forwarded_Host="xss")
        assert b"xss" not in answer.body and "xss" not in str(answer.headers)
    evil = "\r\n*1\r\n$8\r\nFLUSHALL\r\n"
    assert filled.get("/content", id=evil, payload="") == (200, "ok")
    assert post(filled, "/seriatim/api/web/Count/delete", {"ids": [evil, "+", "-"]}).json() == {"count": 1}
    assert figures(filled)["enqueued"] == 2


def test_nodes_show_memory_and_clock_skew(filled: Nginx) -> None:
    def told() -> list[dict[str, Any]]:
        return [node for node in get(filled, "/seriatim/api/v1/nodes").json()["nodes"] if node["clock_skew"] is not None]

    wait_until(lambda: len(told()) == 2, "the second heartbeats")
    assert all(1e6 < node["rss"] < 1e10 for node in told())
    wait_until(lambda: all(abs(node["clock_skew"]) < 0.9 for node in told()), "heartbeats that were answered soon")


def test_d13_changes_and_refusals_are_reported_to_the_host(filled: Nginx) -> None:
    evil = "a\nINFO forged\x1b[2J"
    assert filled.get("/content", id=evil, payload="") == (200, "ok")
    assert post(filled, "/seriatim/api/web/Count/delete", {"ids": [evil]}, {**OWN, "X-User": "ada"}).json() == {"count": 1}
    assert post(filled, "/seriatim/api/web/Count/delete", {"ids": ["a"]}, {**OWN, "X-Role": "viewer"}).status == 403
    assert post(filled, "/seriatim/api/web/Count/park", {"ids": ["a"]}, {**OWN, "X-User": "break"}).json() == {"count": 1}
    assert post(filled, "/admin/jobs/api/web/Count/unpark", {"ids": [evil, "a"]}).json() == {"count": 1}
    wait_until(lambda: " web unpark " in filled.log(), "the line")
    log = filled.log()
    for line in (
        f"audit: delete by admin of ada, queue Count, 1 ids, first {json.dumps(evil)}, count 1, status 200",
        "audit: delete by viewer of nobody, queue Count, 0 ids, first null, count -, status 403",
        'at: park by admin: queue "Count", id "a": count 1',
        'web unpark by admin: queue "Count", ids "a\\u000aINFO forged\\u001b[2J", "a": count 1',
    ):
        assert line in log, line
    assert "\x1b" not in log and "\nINFO forged" not in log


def test_long_bodies_are_refused_or_read_whole(filled: Nginx) -> None:
    ids = ["x" * 1000] * 900
    assert post(filled, "/seriatim/api/web/Count/delete", {"ids": ids}).json() == {"count": 0}
    assert ask(filled, "POST", "/seriatim/api/web/Count/delete", OWN, b"x" * 1048577).status == 413


def test_health_and_metrics_are_answered(filled: Nginx) -> None:
    assert get(filled, "/seriatim/livez").status == get(filled, "/seriatim/readyz").status == 200
    assert b'seriatim_ready{queue="Count"} 2' in get(filled, "/seriatim/metrics").body


def test_a_change_that_gets_no_connection_is_told_that_the_dashboard_is_busy(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1", "pool_timeout": "0.3"}).start()
    try:
        nginx.get("/content", id="x", payload="0")
        assert post(nginx, "/seriatim/api/web/Count/pause").status == 200
        os.kill(server.pid, signal.SIGSTOP)
        with ThreadPoolExecutor(4) as threads:
            asked = [threads.submit(post, nginx, "/seriatim/api/web/Count/pause") for _ in range(4)]
            wait_until(lambda: sum(each.done() for each in asked) == 2, "the two that get no connection")
            os.kill(server.pid, signal.SIGCONT)
            answers = [each.result() for each in asked]
        busy = [answer.json() for answer in answers if answer.status == 503]
        assert busy == [{"done": 0, "error": "the dashboard is busy; nothing was changed", "unknown": False}] * 2
        assert post(nginx, "/seriatim/api/web/Count/pause").status == 200
    finally:
        os.kill(server.pid, signal.SIGCONT)
        nginx.end()


def test_readers_wait_for_a_connection_even_if_pushes_may_not(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1", "pool_timeout": "0"}).start()
    try:
        assert get(nginx, "/seriatim/api/v1/stats").status == 200
        server.client.client_pause(300)
        with ThreadPoolExecutor(6) as threads:
            answers = list(threads.map(lambda _: get(nginx, "/seriatim/api/v1/stats").status, range(6)))
        assert answers == [200] * 6
    finally:
        nginx.end()


def test_f15_an_unreachable_redis_is_answered_with_503(folder: Path, server: Redis) -> None:
    other = Redis()
    nginx = Nginx(folder, server, {"redis": other.url}).start()
    try:
        assert get(nginx, "/seriatim/api/v1/stats").status == 200
        other.stop()
        began = time.monotonic()
        answer = get(nginx, "/seriatim/api/v1/stats")
        assert (answer.status, "Redis" in answer.json()["error"], time.monotonic() - began < 15) == (503, True, True)
        assert get(nginx, "/seriatim/readyz").status == 503
        assert get(nginx, "/seriatim/").status == get(nginx, "/seriatim/livez").status == 200
        other.start()
        wait_until(lambda: get(nginx, "/seriatim/api/v1/stats").status == 200, "Redis")
    finally:
        nginx.end()
        other.remove()


def test_f15_a_replica_shows_its_figures(folder: Path, server: Redis) -> None:
    other = Redis()
    other.client.replicaof("127.0.0.1", "1")
    nginx = Nginx(folder, server, {"redis": other.url, "processes": "1"}).start()
    try:
        for path in ("/seriatim/api/web/dashboard", "/seriatim/metrics"):
            assert (path, get(nginx, path).status) == (path, 200)
        assert get(nginx, "/seriatim/readyz").status == 503
    finally:
        nginx.end()
        other.remove()


def test_f15_a_worker_process_that_finds_no_redis_at_its_start_is_alive(folder: Path, server: Redis) -> None:
    other = Redis()
    other.stop()
    nginx = Nginx(folder, server, {"redis": other.url}).start()
    try:
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            assert get(nginx, "/seriatim/livez").status == 200
            time.sleep(0.2)
    finally:
        nginx.end()
        other.remove()


def test_many_readers_take_no_connection_from_pushes(filled: Nginx) -> None:
    def read() -> bool:
        answer = get(filled, "/seriatim/api/web/dashboard")
        assert answer.status in (200, 503)  # on a busy machine a reader waits too long for its turn
        return answer.status == 200

    with ThreadPoolExecutor(20) as pool:
        reads = [pool.submit(wait_until, read, "the page") for _ in range(200)]
        for number in range(50):
            assert filled.get("/content", id="x", payload=str(number)) == (200, "ok")
        assert all(each.result() for each in reads)
    names = [client["name"] for client in filled.journal.client.client_list()]
    assert names.count("seriatim-client") <= 2 * (5 + 2)


def test_requests_are_answered_during_a_reload(filled: Nginx) -> None:
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(get, filled, "/seriatim/api/v1/stats") for _ in range(100)]
        filled.signal(signal.SIGHUP)
        statuses = []
        for read in reads:
            try:
                statuses.append(read.result().status)
            except ConnectionError:
                continue  # accepted by a worker that ends
        assert set(statuses) == {200}
