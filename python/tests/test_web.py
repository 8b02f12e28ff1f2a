"""The dashboard through the WSGI and ASGI mounts and `seriatim web`, on real HTTP."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
import re
import select
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

import pytest

import seriatim
import seriatim.web
from seriatim import _native
from seriatim._web import dashboard, stand_alone
from support import command, web
from support.command import Command
from support.jobs import deaf, eventually, serve, stop_servers, worker
from support.redis_server import RedisServer
from support.web import SAME_ORIGIN, Site

MARK = "marker-4711"
ROUTES = [row for row in _native.web_routes() if "/consume/" not in row[1]]  # those are there only with consume
NOBODY, VIEWER, OPERATOR, ADMIN = range(4)
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HOSTILE = [
    '"><script>alert(1)</script>',
    "'onmouseover='alert(1)",
    "javascript:alert(1)",
    "\u2028</script><svg/onload=alert(1)>",
    "{{7*7}}\r\nSet-Cookie: a=b",
]
MOUNTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "wsgi": (seriatim.web.wsgi_app, web.wsgi),
    "asgi": (seriatim.web.asgi_app, web.asgi),
}

Mounted = Callable[..., Site]


@pytest.fixture(params=MOUNTS)
def mounted(request: pytest.FixtureRequest) -> Iterator[Mounted]:
    """A mount with these settings."""
    app, mount = MOUNTS[request.param]
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(mount(app(**settings)))


def address(pattern: str, queue: str = "W") -> str:
    """That of a route, with this queue."""
    return re.sub(":(worker|queue|node)", quote(queue, ""), pattern).replace(":fingerprint", "f")


def send(site: Site, method: str, pattern: str, **headers: str) -> web.Answer:
    """To a route, with all that it could ask for but the role."""
    ids = {"ids": ["1"]} if pattern.rsplit("/", 1)[-1] in ("delete", "park", "unpark", "morgue_queue_up", "morgue_delete") else {}
    return site.post(address(pattern), ids, **headers) if method == "POST" else site.get(address(pattern), **headers)


def fail(payloads_by_id: Any, batch: Any) -> None:
    raise RuntimeError(f"no {MARK}")


def state(redis: RedisServer) -> Any:
    """Without the tokens of pushes, which are gone after 60 s."""
    redis.call("EVAL", "for _, key in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', key) end", 0, "*}:push:*")
    return redis.call("DEBUG", "DIGEST")


def filled(name: str = "W") -> Any:
    """A worker with waiting, delayed and dead ids; its server has stopped."""
    made = worker(name, fail, max_retry_count=0)
    made.perform_async([{"id": f"dead{n}", "payload": {"secret": MARK}} for n in range(3)])
    serve(made)
    eventually(lambda: made.metrics["morgue_length"] == 3)
    stop_servers()
    made.perform_async([{"id": 1, "payload": {"secret": MARK}}, {"id": 2, "payload": MARK, "delay": 60}])
    return made


# ---- shapes


def test_r_web_3_stats_answers_with_the_figures(mounted: Mounted) -> None:
    filled()
    answer = mounted().get("/api/v1/stats")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/json")
    total = {"length": 2, "morgue_length": 3, "lag": answer.json["total"]["lag"]}
    assert answer.json == {"total": total, "by_worker": {"W": total}} and 0 <= total["lag"] < 60


def test_r_web_2_a_worker_s_name_stands_for_its_queue(mounted: Mounted) -> None:
    named = type(worker())("WQ", (seriatim.Worker,), {"queue_name": "other queue"})
    named.perform_async([{"id": 1}])
    assert list(mounted().get("/api/v1/stats").json["by_worker"]) == ["WQ"]
    for name in ("WQ", "other%20queue"):
        assert [record["id"] for record in mounted().get(f"/api/web/{name}/range_by_id").json] == ["1"]
    assert mounted().get("/api/web/QW/range_by_id").status == 404


def test_r_web_3_dashboard_answers_with_the_figures(mounted: Mounted) -> None:
    filled()
    answer = mounted(title="Ours", read_only=True, role=lambda _: "viewer").get("/api/web/dashboard").json
    (row,) = answer["queues"]
    expected = {"name": "W", "processed": 0, "failed": 3, "busy": 0, "enqueued": 2, "fresh": 2, "retries": 0, "dead": 3}
    assert expected.items() <= row.items() and row["lag"] >= 0
    info = answer["redis_info"]
    keys = {"url", "version", "uptime_in_days", "connected_clients", "used_memory_human", "used_memory_peak_human"}
    assert keys <= info.keys() and info["connected_clients"] >= 1
    assert (answer["title"], answer["read_only"], answer["role"]) == ("Ours", True, "viewer")


@pytest.mark.parametrize("reverse", ["", "rev_"])
@pytest.mark.parametrize("part", ["range_by_id", "range_by_perform_in", "range_by_retry_count"])
def test_r_web_4_what_waits_is_listed_by_each_index(mounted: Mounted, part: str, reverse: str) -> None:
    filled()
    bounds = ["-", "+"] if part == "range_by_id" else ["-inf", "+inf"]
    low, high = map(quote, bounds)
    records = mounted().get(f"/api/web/W/{reverse}{part}?min={low}&max={high}").json
    names = [record["id"] for record in records]
    assert sorted(names) == ["1", "2"]
    if part != "range_by_retry_count":
        assert names == (["2", "1"] if reverse else ["1", "2"])
    assert {"id", "perform_in", "retry_count", "payloads"} <= records[0].keys()
    assert records[names.index("1")]["payloads"][0][0] == json.dumps({"secret": MARK}, separators=(",", ":"))


@pytest.mark.parametrize("reverse", ["", "rev_"])
def test_r_web_4_the_dead_are_listed_by_each_index(mounted: Mounted, reverse: str) -> None:
    filled()
    site = mounted()
    names = [record["id"] for record in site.get(f"/api/web/W/morgue_{reverse}range_by_id?min=-&max=%2B").json]
    assert names == sorted(names, reverse=bool(reverse)) and len(names) == 3
    records = site.get(f"/api/web/W/morgue_{reverse}range_by_updated_at?min=-inf&max=%2Binf").json
    assert len(records) == 3 and {"id", "updated_at", "payloads", "error"} <= records[0].keys()
    assert records[0]["error"] == f"no {MARK}"


def test_r_web_4_what_runs_is_listed(mounted: Mounted) -> None:
    gate = threading.Event()
    busy = worker("W", lambda payloads_by_id, batch: gate.wait(60))
    busy.perform_async([{"id": "runs", "payload": 1}])
    serve(busy)
    site = mounted()
    try:
        records = eventually(lambda: site.get("/api/web/W/processing_data").json)
        assert [record["id"] for record in records] == ["runs"]
    finally:
        gate.set()


def test_r_web_5_actions_answer_with_their_outcome(mounted: Mounted) -> None:
    made = filled()
    site = mounted()
    assert site.post("/api/web/W/morgue_queue_up", {"ids": ["dead0", "unknown"]}).json == {"count": 1}
    assert site.post("/api/web/W/morgue_delete", {"ids": ["dead1"]}).json == {"count": 1}
    assert site.post("/api/web/W/morgue_queue_up_all_jobs").json == {"count": 1}
    assert site.post("/api/web/W/perform_all_jobs_now").json["count"] >= 1
    assert site.post("/api/web/W/park", {"ids": ["1"]}).json == {"count": 1}
    assert site.post("/api/web/W/unpark", {"ids": ["1"]}).json == {"count": 1}
    assert site.post("/api/web/W/pause").json == {"count": made.shards_count}
    assert site.post("/api/web/W/resume").json == {"count": made.shards_count}
    assert site.post("/api/web/W/delete", {"ids": ["2"]}).json == {"count": 1}
    assert site.post("/api/web/W/delete_all_failed_jobs").json["count"] >= 0
    assert site.post("/api/web/W/kill_all_failed_jobs").json == {"count": 0}
    assert site.post("/api/web/W/morgue_delete_all_jobs").json == {"count": 0}
    assert made.queries.range_by_id("-", "+")[0]["id"] == "1"


def test_r_web_9_a_refusal_says_what_is_wrong(mounted: Mounted) -> None:
    filled()
    site = mounted()
    for answer in (site.get("/api/web/Unknown/range_by_id?min=-&max=%2B"), site.post("/api/web/Unknown/pause")):
        assert answer.status == 404 and answer.json["error"]
    assert site.get("/api/nothing").json == {"error": "not found"}
    bad = site.get("/api/web/W/range_by_perform_in?min=x&max=%2Binf")
    assert bad.status == 400 and "min" in bad.json["error"]
    assert site.post("/api/web/W/delete", {}).status == 400
    assert site.ask("POST", "/api/web/W/delete", SAME_ORIGIN, b"{").status == 400


def test_r_web_10_bytes_that_are_no_text_are_shown_and_found(mounted: Mounted) -> None:
    seriatim.dump_payload, seriatim.load_payload = bytes, bytes
    made = worker("W")
    made.perform_async([{"id": b"\xff\xfe", "payload": b"\x00\xff"}])
    site = mounted()
    (record,) = site.get("/api/web/W/range_by_id?min=-&max=%2B").json
    assert record["id"] == {"base64": "//4="} and record["payloads"][0][0] == {"base64": "AP8="}
    assert site.post("/api/web/W/delete", {"ids": [{"base64": "//4="}]}).json == {"count": 1}


# ---- every route


def test_d2_every_route_refuses_nobody(mounted: Mounted, redis: RedisServer) -> None:
    filled()
    site, before = mounted(role=lambda _: None), state(redis)
    for method, pattern, role, _ in ROUTES:
        assert (send(site, method, pattern).status == 401) == (role > NOBODY), pattern
    assert site.get("/").status == 401
    assert state(redis) == before


def test_d2_every_route_refuses_without_the_token(mounted: Mounted, redis: RedisServer) -> None:
    filled()
    site, before = mounted(token="s3cret"), state(redis)
    for method, pattern, role, _ in ROUTES:
        for given in ({}, {"Authorization": "Bearer s3cre"}, {"Authorization": "Bearer s3crets"}, {"Authorization": "s3cret"}):
            assert (send(site, method, pattern, **given).status == 401) == (role > NOBODY), pattern
    assert state(redis) == before
    assert site.get("/").status == 200
    assert site.get("/api/v1/stats", Authorization="Bearer s3cret").status == 200


@pytest.mark.parametrize("word", ["viewer", "operator", "admin"])
def test_every_route_asks_for_its_role(mounted: Mounted, word: str) -> None:
    filled()
    site, level = mounted(role=lambda _: word), ("viewer", "operator", "admin").index(word) + 1
    for method, pattern, role, _ in ROUTES:
        status = send(site, method, pattern).status
        assert (status == 403) == (role > level), (pattern, status)
        assert status != 401


def test_every_route_that_changes_refuses_when_read_only(mounted: Mounted, redis: RedisServer) -> None:
    filled()
    site, before = mounted(read_only=True), state(redis)
    for method, pattern, _, mutates in ROUTES:
        assert (send(site, method, pattern).status == 403) == mutates, pattern
    assert state(redis) == before


def test_d5_every_route_that_changes_asks_for_the_same_origin(mounted: Mounted, redis: RedisServer) -> None:
    filled()
    site, before = mounted(), state(redis)
    kind = {"Content-Type": "application/json"}
    origin = f"http://{site.host}:{site.port}"
    foreign = [
        {},
        kind,
        {**kind, "Sec-Fetch-Site": "cross-site"},
        {**kind, "Sec-Fetch-Site": "same-site", "Origin": origin},
        {**kind, "Origin": "http://evil.example"},
        {**kind, "Origin": "null"},
        {**kind, "Origin": origin.replace("http", "https")},
    ]
    unknown = [{"Sec-Fetch-Site": "same-origin", **kind} for kind in ({}, {"Content-Type": "text/plain"})]
    changing = [pattern for _, pattern, _, mutates in ROUTES if mutates]
    assert len(changing) >= 12
    for pattern, headers in itertools.product(changing, foreign):
        assert site.ask("POST", address(pattern), headers, b'{"ids":["1"]}').status == 403, (pattern, headers)
    for pattern, headers in itertools.product(changing, unknown):
        assert site.ask("POST", address(pattern), headers, b'{"ids":["1"]}').status == 415, (pattern, headers)
    for pattern, method in itertools.product(changing, ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")):
        assert site.ask(method, address(pattern), SAME_ORIGIN).status == 405, (pattern, method)
    assert state(redis) == before
    assert site.ask("POST", "/api/web/W/pause", {**kind, "Origin": origin}, b"").status == 200


def test_d10_every_route_is_redacted_and_kept_nowhere(mounted: Mounted) -> None:
    filled()
    patterns = [pattern for method, pattern, *_ in ROUTES if method == "GET"]
    asked: dict[str, list[Any]] = {pattern: [] for pattern in patterns}

    def redact(queue: Any, id: Any, text: Any) -> Any:
        asked[pattern].append((queue, id, text))
        return text.replace(MARK, "***")

    site = mounted(redact=redact)
    for pattern in patterns:
        bounds = ("-", "%2B") if pattern.endswith("_id") else ("-inf", "%2Binf")
        for query in (f"min={bounds[0]}&max={bounds[1]}", "id=1", "id=dead0", "part=dead&by=time", "part=waiting&by=id", "q=1", ""):
            answer = site.get(f"{address(pattern)}?{query}")
            assert MARK.encode() not in answer.body, pattern
            assert answer.status < 500 and answer.status != 404, (pattern, answer.body)
            assert answer.headers["Cache-Control"] == "no-store"
    error, payload = ("W", "dead0", f"no {MARK}"), ("W", "2", f'"{MARK}"')
    assert error in asked["/api/web/:worker/morgue_range_by_id"] and payload in asked["/api/web/:worker/range_by_id"]
    assert error in asked["/api/v1/queues/:queue/records"] and payload in asked["/api/v1/queues/:queue/records"]
    assert error in asked["/api/v1/queues/:queue/id"]
    assert [text for _, _, text in asked["/api/v1/queues/:queue/errors"]][0] == f"no {MARK}"


def compressed() -> None:
    seriatim.dump_error = lambda text: zlib.compress(text.encode())
    seriatim.load_error = lambda data: zlib.decompress(data).decode()


def test_r_web_21_stored_errors_are_shown_and_grouped_by_what_load_error_gives(mounted: Mounted) -> None:
    compressed()
    made, site = filled(), mounted()
    first = f"no {MARK}"
    assert {record["error"].split("\n")[0] for record in site.get("/api/v1/queues/W/records?part=dead").json["records"]} == {first}
    assert site.get("/api/v1/queues/W/id?id=dead0").json["dead"]["error"].startswith(first)
    (group,) = site.get("/api/v1/queues/W/errors").json["groups"]
    assert (group["count"], group["error"]) == (3, first)
    (hidden,) = mounted(redact=lambda queue, id, text: text.replace(MARK, "***")).get("/api/v1/queues/W/errors").json["groups"]
    assert hidden["error"] == "no ***"
    changed, count = {"cursor": None, "more": True}, 0
    while changed["more"]:  # a slow machine needs more than one slice
        changed = site.post(f"/api/v1/queues/W/errors/{group['fingerprint']}/delete", {"cursor": changed["cursor"]}).json
        count += changed["count"]
    assert (count, changed["cursor"]) == (3, None)
    assert made.metrics["morgue_length"] == 0


def test_r_web_21_why_load_error_cannot_read_is_shown(mounted: Mounted) -> None:
    compressed()
    filled()
    site = mounted()
    for load, reason in ((broken, "load_error raised LookupError: cannot load"), (lambda data: 5, "load_error gave no text but int")):
        seriatim.load_error = load
        (group,) = site.get("/api/v1/queues/W/errors").json["groups"]
        assert group["error"].startswith(f"({reason}") and group["error"].endswith("; the stored error is no text)")
        assert site.get("/api/v1/queues/W/id?id=dead0").json["dead"]["error"].startswith(f"({reason}")
    seriatim.dump_error = lambda text: text
    filled("Text")
    error = site.get("/api/v1/queues/Text/id?id=dead0").json["dead"]["error"]
    assert error.startswith(f"(load_error gave no text but int; the error is shown as it is stored)\nno {MARK}")


def broken(data: Any) -> str:
    raise LookupError("cannot load")


EVIL = "a\nINFO forged\x1b[2J"


def audited(record: Any, how: str) -> Callable[..., Any]:
    """The host's function, plain or async."""

    async def aaudit(user: Any, change: Any) -> None:
        await asyncio.sleep(0)
        record(user, change)

    return aaudit if how == "async" else record


@pytest.mark.parametrize(("name", "how"), [("wsgi", "plain"), ("asgi", "plain"), ("asgi", "async")])
def test_d13_each_change_and_each_refusal_is_told(name: str, how: str) -> None:
    filled().perform_async([{"id": EVIL}])
    app, mount = MOUNTS[name]
    told: list[Any] = []

    def word(user: Any) -> Any:
        if name == "wsgi":
            return user.get("HTTP_X_ROLE")
        return dict(user["headers"]).get(b"x-role", b"").decode() or None

    def record(user: Any, change: Any) -> None:
        told.append((word(user), change))

    with mount(app(role=word, audit=audited(record, how))) as site:
        site.post("/api/web/W/delete", {"ids": ["1", "none", EVIL, {"base64": "/w=="}]}, **{"X-Role": "admin"})
        site.post("/api/web/W/delete", {"ids": ["2"]}, **{"X-Role": "viewer"})
        site.post("/api/web/W/pause", **{"X-Role": "operator", "Sec-Fetch-Site": "cross-site"})
        site.post("/api/v1/nodes/gone/quiet", **{"X-Role": "operator"})
        site.post("/api/web/W/pause")
        site.get("/api/v1/stats", **{"X-Role": "viewer"})
    w = {"queue": "W"}
    assert told == [
        ("admin", {"action": "delete", "role": "admin", **w, "ids": ["1", "none", EVIL, b"\xff"], "count": 2, "status": 200}),
        ("viewer", {"action": "delete", "role": "viewer", **w, "status": 403, "error": "this needs the role admin"}),
        ("operator", {"action": "pause", "role": "operator", **w, "status": 403, "error": "the request comes from another site"}),
        ("operator", {"action": "quiet_node", "role": "operator", "node": "gone", "status": 404, "error": "no such node is alive"}),
        (None, {"action": "pause", "role": "nobody", **w, "status": 401, "error": "you are not signed in"}),
    ]


def test_d13_a_line_of_the_log_that_no_id_can_break(mounted: Mounted, caplog: pytest.LogCaptureFixture) -> None:
    filled()
    site = mounted()
    with caplog.at_level("INFO", "seriatim"):
        site.post("/api/web/W/delete", {"ids": [EVIL]})
        site.post("/api/web/W/delete", {"ids": ["1"]})
    lines = [line for line in map(logging.LogRecord.getMessage, caplog.records) if line.startswith("web ")]
    assert lines == [
        'web delete by admin: queue "W", id "a\\u000aINFO forged\\u001b[2J": count 0',
        'web delete by admin: queue "W", id "1": count 1',
    ]


@pytest.mark.parametrize(("name", "how"), [("wsgi", "plain"), ("asgi", "plain"), ("asgi", "async")])
def test_d13_an_audit_that_raises_alters_nothing(name: str, how: str, caplog: pytest.LogCaptureFixture) -> None:
    made = filled()
    app, mount = MOUNTS[name]

    def broken(user: Any, change: Any) -> None:
        raise RuntimeError("boom")

    with mount(app(audit=audited(broken, how))) as site:
        answer = site.post("/api/web/W/park", {"ids": ["1"]})
    assert (answer.status, answer.json, made.metrics["parked"]) == (200, {"count": 1}, 1)
    (error,) = [line for line in map(logging.LogRecord.getMessage, caplog.records) if line.startswith("web ")]
    assert "audit raised RuntimeError: boom" in error and error.endswith('at: park by admin: queue "W", id "1": count 1')


def awaited(task: asyncio.Task[Any]) -> list[str]:
    """The coroutines that it is inside of."""
    names, coroutine = [], task.get_coro()
    while hasattr(coroutine, "cr_await"):
        names.append(coroutine.__name__)
        coroutine = coroutine.cr_await
    return names


def test_r_web_15_an_asgi_change_ends_when_its_client_leaves() -> None:
    made = worker("Left", fail)
    for start in range(0, 20_000, 1000):
        made.perform_async([{"id": start + n, "payload": n, "delay": 3600} for n in range(1000)])
    told: list[Any] = []
    app = seriatim.web.asgi_app(audit=lambda _, change: told.append(change))
    headers = [(b"content-type", b"application/json"), (b"sec-fetch-site", b"same-origin")]
    scope = {"type": "http", "method": "POST", "path": "/api/web/Left/perform_all_jobs_now", "headers": headers}
    messages = [{"type": "http.request", "body": b"{}"}]

    async def receive() -> dict[str, Any]:
        while not messages and not await asyncio.to_thread(made.queries.range_by_perform_in, 0, time.time() + 60, limit=1):
            await asyncio.sleep(0.01)
        return messages.pop() if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(f"nobody is there for {message}")

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 60))
    left = made.queries.range_by_perform_in(time.time() + 60, time.time() + 7200, limit=1)
    assert left and told == [{"action": "perform_all_jobs_now", "role": "admin", "queue": "Left"}]


@pytest.mark.parametrize("how", ["plain", "async"])
def test_d13_a_change_that_nobody_waits_for_is_told(redis: RedisServer, how: str) -> None:
    filled()
    told: list[Any] = []
    app = seriatim.web.asgi_app(audit=audited(lambda _, change: told.append(change), how))
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/api/web/W/pause",
        "headers": [(b"content-type", b"application/json"), (b"sec-fetch-site", b"same-origin")],
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        pass

    async def scenario() -> None:
        await app(scope, receive, send)  # there is a connection now
        with deaf():
            asking = asyncio.ensure_future(app(scope, receive, send))
            while not any("aweb" in awaited(task) for task in asyncio.all_tasks()):
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            while len(told) < 2:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(scenario(), 30))
    assert told == [
        {"action": "pause", "role": "admin", "queue": "W", "count": 5, "status": 200},
        {"action": "pause", "role": "admin", "queue": "W"},
    ]


def test_d3_every_answer_has_its_headers(mounted: Mounted) -> None:
    filled()
    site = mounted()
    paths = ["", "/", "/any/page", "/api/nothing", "/assets/0/nothing", *(address(pattern) for _, pattern, *_ in ROUTES)]
    for path in paths:
        headers = site.get(path).headers
        assert headers["Content-Security-Policy"] == CSP, path
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"


# ---- the page


def test_r_web_1_the_page_and_its_files_load_below_the_prefix(mounted: Mounted) -> None:
    site = mounted()
    moved = site.get("")
    assert (moved.status, moved.headers["Location"]) == (308, f"{site.prefix}/")
    for path in ("/", "/queues", "/queues/W/dead"):
        page = site.get(path)
        assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
        files = re.findall(r'(?:src|href)="([^"#]+)"', page.body.decode())
        files = [urljoin(site.prefix + path, file) for file in files if "assets/" in file]
        assert len(files) >= 2
        for file in files:
            assert file.startswith(site.prefix)
            loaded = site.get(file[len(site.prefix) :])
            assert loaded.status == 200 and "max-age=86400" in loaded.headers["Cache-Control"], file


def test_d4_nothing_of_a_request_is_echoed(mounted: Mounted) -> None:
    site = mounted()
    clean = site.get("/").body
    for text in HOSTILE:
        encoded = quote(text, "")
        for path in (f"/{encoded}", f"/?q={encoded}", f"/?{encoded}={encoded}"):
            page = site.get(path, Referer=quote(text)).body
            assert re.sub(rb'"(\.\./)+', b'"', page) == clean, path  # its files' addresses are relative
        for path in (f"/api/{encoded}", f"/api/web/{encoded}/range_by_id", f"/assets/{encoded}"):
            answer = site.get(path)
            assert answer.status == 404 and b"<" not in answer.body and b"alert" not in answer.body, path
            assert "Set-Cookie" not in answer.headers


def test_d4_a_hostile_prefix_is_not_echoed(redis: RedisServer) -> None:
    for prefix in ("//evil.example", '/"><script>', "/a\\b", "/a b", "/\x7f"):
        with web.wsgi(seriatim.web.wsgi_app(), "") as site:
            plain = site.get("/").body
        environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": prefix, "PATH_INFO": "", "wsgi.url_scheme": "http"}
        said: list[Any] = []
        seriatim.web.wsgi_app()(environ, lambda *words: said.append(words))  # type: ignore[arg-type]
        assert said[0][0].startswith("404") and "Location" not in dict(said[0][1]), prefix
        environ["PATH_INFO"] = "/"
        assert b"".join(seriatim.web.wsgi_app()(environ, lambda *words: None)) == plain  # type: ignore[arg-type]


def test_d6_foreign_hosts_are_refused(mounted: Mounted) -> None:
    site = mounted(hosts=["127.0.0.1", "jobs.example:80"])
    assert site.get("/").status == 200
    for host, status in {"evil.example": 403, "127.0.0.1.evil.example": 403, "jobs.example:80": 200, "jobs.example": 403}.items():
        assert site.get("/", Host=host).status == status, host
        assert site.get("/api/v1/stats", Host=host).status == status, host


def test_d7_no_way_out_of_the_table_of_files(mounted: Mounted) -> None:
    site = mounted()
    version = seriatim.__version__
    for name in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/app/app.js", "app/app.js%00.css", "..\\app\\app.js", "%c0%ae%c0%ae/app/app.js"):
        assert site.get(f"/assets/{version}/{name}").status == 404, name
    assert site.get("/assets//etc/passwd").status == 404


def test_d8_ids_and_bounds_are_never_commands(mounted: Mounted, redis: RedisServer) -> None:
    made = filled()
    evil = "x\r\n*1\r\n$8\r\nFLUSHALL\r\n"
    made.perform_async([{"id": evil}])
    site = mounted()
    found = site.get(f"/api/web/W/range_by_id?min={quote('[' + evil)}&max={quote('[' + evil)}").json
    assert [record["id"] for record in found] == [evil]
    assert site.post("/api/web/W/delete", {"ids": [evil]}).json == {"count": 1}
    for bound in (evil, "[", "(", "nan", "1 2", "\x00"):
        assert site.get(f"/api/web/W/range_by_perform_in?min={quote(bound)}&max=0").status == 400, bound
    assert made.metrics["length"] == 2


# ---- HTTP


def test_head_answers_the_headers_of_get(mounted: Mounted) -> None:
    filled()
    site = mounted()
    for path in ("/", "/api/web/W/range_by_id?min=-&max=%2B"):
        head, get = site.ask("HEAD", path), site.get(path)
        assert head.status == 200 and head.body == b""
        assert head.headers["Content-Length"] == str(len(get.body))


def test_d9_a_body_has_a_limit(mounted: Mounted) -> None:
    made = filled()
    site = mounted()
    body = json.dumps({"ids": ["1"]}).encode()
    full = body + b" " * ((1 << 20) - len(body))
    assert site.ask("POST", "/api/web/W/delete", SAME_ORIGIN, full + b" ").status == 413
    assert made.metrics["length"] == 2
    assert site.ask("POST", "/api/web/W/delete", SAME_ORIGIN, full).json == {"count": 1}


def test_a_client_that_leaves_in_the_midst_of_its_body_changes_nothing(mounted: Mounted, redis: RedisServer) -> None:
    filled()
    site, before = mounted(), state(redis)
    head = f"POST {site.prefix}/api/web/W/morgue_delete_all_jobs HTTP/1.0\r\nHost: x\r\nContent-Type: application/json\r\n"
    for sent in (b"", b"{"):
        with socket.create_connection((site.host, site.port), 10) as leaving:
            leaving.sendall(f"{head}Sec-Fetch-Site: same-origin\r\nContent-Length: 2\r\n\r\n".encode() + sent)
            leaving.shutdown(socket.SHUT_WR)
            leaving.recv(65536)
    assert site.get("/").status == 200
    assert state(redis) == before


def test_a_redis_that_is_gone_is_503_until_it_is_back(mounted: Mounted) -> None:
    own = RedisServer()
    try:
        seriatim.redis = own.url
        filled()
        site = mounted()
        assert site.get("/api/v1/stats").status == 200
        own.stop()
        for path in ("/api/v1/stats", "/api/web/W/range_by_id?min=-&max=%2B"):
            answer = site.get(path)
            assert answer.status == 503 and answer.json["error"] and own.folder not in answer.body.decode()
        assert site.get("/").status == 200
        own.start()
        assert eventually(lambda: site.get("/api/v1/stats").status == 200)
    finally:
        seriatim.redis = None
        own.remove()


def test_a_redis_that_does_not_answer_holds_up_no_other_request(mounted: Mounted) -> None:
    with deaf(), ThreadPoolExecutor(1) as threads:
        site = mounted()
        began = time.monotonic()
        slow = threads.submit(site.get, "/api/v1/stats")
        time.sleep(0.5)
        assert site.get("/").status == 200
        assert not slow.done()
        assert slow.result().status == 503
        assert time.monotonic() - began < 30  # a push would wait longer


def test_more_requests_than_connections_are_all_answered(mounted: Mounted) -> None:
    filled()
    site = mounted()
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: site.get("/api/web/dashboard").status, range(64)))
    assert answers == [200] * 64


def test_a_change_that_gets_no_connection_is_told_that_the_dashboard_is_busy(mounted: Mounted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard, "PATIENCE", 0.2)
    site = mounted()
    with deaf(), ThreadPoolExecutor(2) as threads:
        changes = [threads.submit(site.post, "/api/web/W/pause", {}) for _ in range(2)]
        time.sleep(1)
        answer = site.post("/api/web/W/pause", {})
        assert not any(change.done() for change in changes)
        assert (answer.status, answer.json) == (503, {"done": 0, "error": "the dashboard is busy; nothing was changed", "unknown": False})


def test_pushes_never_wait_for_the_dashboard(redis: RedisServer) -> None:
    """Its connections are its own."""
    seriatim.client_pool_size = 1
    seriatim.pool_timeout = 0.1
    with web.wsgi(seriatim.web.wsgi_app()) as site, seriatim._client.pool.current().lend():
        assert site.get("/api/v1/stats").status == 200


# ---- what the application says


def test_what_the_application_raises_is_500_without_details(mounted: Mounted) -> None:
    filled()

    def broken(*words: Any) -> Any:
        raise RuntimeError(MARK)

    for settings in ({"role": broken}, {"role": lambda _: "root"}, {"role": lambda _: False}, {"redact": broken}, {"redact": lambda *words: 1}):
        answer = mounted(**settings).get("/api/web/W/range_by_id?min=-&max=%2B")
        assert (answer.status, answer.json) == (500, {"error": "internal error"})
        assert answer.headers["Cache-Control"] == "no-store" and answer.headers["X-Content-Type-Options"] == "nosniff"


def test_role_is_asked_of_the_request(mounted: Mounted) -> None:
    def role(request: Any) -> str | None:
        headers = dict(request["headers"]) if "headers" in request else {b"x-user": request.get("HTTP_X_USER", "").encode()}
        return {b"ada": "admin", b"eve": "viewer"}.get(headers.get(b"x-user", b""))

    filled()
    site = mounted(role=role)
    assert [site.post("/api/web/W/pause", **{"X-User": user}).status for user in ("ada", "eve", "mallory")] == [200, 403, 401]


def test_a_role_may_be_async() -> None:
    async def role(scope: Any) -> str:
        await asyncio.sleep(0)
        return "viewer"

    with web.asgi(seriatim.web.asgi_app(role=role)) as site:
        assert site.get("/api/web/dashboard").json["role"] == "viewer"


def test_settings_are_checked() -> None:
    wrong: list[dict[str, Any]] = [
        {"title": 1},
        {"title": "a\0b"},
        {"read_only": 1},
        {"role": "admin"},
        {"redact": 1},
        {"hosts": "localhost"},
        {"hosts": [1]},
        {"token": ""},
        {"token": "x" * 1025},
    ]
    for app, settings in itertools.product((seriatim.web.wsgi_app, seriatim.web.asgi_app), wrong):
        with pytest.raises(seriatim.Invalid, match=next(iter(settings))):
            app(**settings)


def test_a_token_has_1024_bytes_at_most(mounted: Mounted) -> None:
    """As that of the command and in the other languages."""
    site = mounted(token="x" * 1024)
    assert site.get("/api/v1/stats", Authorization=f"Bearer {'x' * 1024}").status == 200
    with pytest.raises(seriatim.Invalid, match="token must be a text of 1 to 1024 bytes"):
        seriatim.web.wsgi_app(token="x" * 1025)


async def nothing(*_: Any) -> Any: ...


@pytest.mark.parametrize("field", ["role", "audit"])
def test_async_functions_are_refused_by_wsgi_alone(field: str) -> None:
    settings: dict[str, Any] = {field: nothing}
    with pytest.raises(seriatim.Invalid, match=f"^{field} is async: use asgi_app$"):
        seriatim.web.wsgi_app(**settings)
    assert seriatim.web.asgi_app(**settings)


@pytest.mark.parametrize("app", [seriatim.web.wsgi_app, seriatim.web.asgi_app])
def test_an_async_redact_is_refused(app: Any) -> None:
    with pytest.raises(seriatim.Invalid, match="^redact must not be async$"):
        app(redact=nothing)


# ---- mounts


@pytest.mark.parametrize("mount", [web.full_path, web.path_taken_off, web.no_raw_path])
def test_each_form_of_an_asgi_path_is_read(mount: web.Mount) -> None:
    filled("api")
    with web.asgi(seriatim.web.asgi_app(), "/api", mount) as site:
        assert site.get("").headers["Location"] == "/api/"
        assert site.get("/").status == 200
        assert site.get("/api/web/api/range_by_id?min=-&max=%2B").status == 200


def test_a_name_with_a_slash_is_found_by_the_raw_path() -> None:
    filled("a/b%2F")
    for mount in (web.full_path, web.path_taken_off):
        with web.asgi(seriatim.web.asgi_app(), "/jobs", mount) as site:
            assert site.get(f"/api/web/{quote('a/b%2F', '')}/processing_data").json == []


def test_asgi_closes_websockets() -> None:
    said: list[Any] = []

    async def send(message: Any) -> None:
        said.append(message)

    async def drive() -> None:
        await seriatim.web.asgi_app()({"type": "websocket"}, lambda: asyncio.sleep(0, {}), send)

    asyncio.run(drive())
    assert said == [{"type": "websocket.close", "code": 1000}]


def connected(path: Path) -> socket.socket | None:
    """A connection to who listens there; None: nobody does yet, though the file may be there."""
    connection = socket.socket(socket.AF_UNIX)
    if connection.connect_ex(str(path)) == 0:
        return connection
    connection.close()
    return None


def test_gunicorn_gives_the_raw_path(redis: RedisServer, tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    filled("a/b")
    (tmp_path / "mounted.py").write_text("import seriatim.web\napp = seriatim.web.wsgi_app()\n")
    path = tmp_path / "s"
    words = ["-m", "gunicorn", "--bind", f"unix:{path}", "--chdir", str(tmp_path), "mounted:app"]
    running = subprocess.Popen([sys.executable, *words], env=command.environment(redis.url, None), stderr=subprocess.DEVNULL)
    try:
        with eventually(lambda: connected(path)) as connection:
            connection.sendall(b"GET /api/web/a%2Fb/processing_data HTTP/1.0\r\nHost: x\r\n\r\n")
            answer = connection.makefile("rb").read()
        assert answer.split(b" ")[1] == b"200" and answer.endswith(b"[]"), answer
    finally:
        running.terminate()
        running.wait()


# ---- health


def test_metrics_are_answered_for_prometheus(mounted: Mounted) -> None:
    filled()
    answer = mounted().get("/metrics")
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain")
    assert re.search(rb'^seriatim_dead\{[^}]*queue="W"[^}]*\} 3$', answer.body, re.M), answer.body


def test_readyz_says_whether_redis_answers(mounted: Mounted) -> None:
    assert mounted().get("/readyz").status == 200
    with deaf():
        assert mounted().get("/readyz").status == 503


def test_the_probes_ask_nobody_for_a_role(mounted: Mounted) -> None:
    def role(_: object) -> str:
        raise RuntimeError("the database is away")

    site = mounted(role=role)
    assert [site.get(path).status for path in ("/livez", "/readyz", "/api/v1/stats")] == [200, 200, 500]


def test_livez_is_answered_while_all_connections_wait_for_a_redis_that_hangs(mounted: Mounted) -> None:
    site = mounted()
    with ThreadPoolExecutor(3) as threads, deaf():
        asking = [threads.submit(site.get, "/api/v1/stats") for _ in range(3)]
        time.sleep(0.3)
        assert site.get("/livez").status == 200
        assert not any(each.done() for each in asking)


def test_livez_says_whether_the_servers_of_the_process_get_on(mounted: Mounted, monkeypatch: pytest.MonkeyPatch) -> None:
    site = mounted(role=lambda _: None, token="t")
    assert site.get("/livez").status == 200
    server = serve(worker("W"))
    assert site.get("/livez").status == 200
    monkeypatch.setattr(server, "_moved", time.monotonic() - 3600)
    monkeypatch.setattr(server, "_note_moves", lambda: None)
    assert site.get("/livez").status == 503
    stop_servers()
    assert site.get("/livez").status == 200


def test_livez_succeeds_while_the_only_thread_runs_a_long_job(mounted: Mounted) -> None:
    """What was claimed and is not begun counts only while nothing runs."""
    site = mounted()
    gate = threading.Event()
    busy = worker("W", lambda payloads_by_id, batch: gate.wait(60), batch_size=1, shards_count=1)
    server = serve(busy, threads=1)
    try:
        busy.perform_async([{"id": n} for n in range(3)])
        eventually(lambda: server.stats()["running"] == 1 and server.stats()["claimed"] > 0)
        server._moved = time.monotonic() - 3600
        eventually(lambda: site.get("/livez").status == 200)
    finally:
        gate.set()


# ---- the command


@pytest.fixture
def standing(redis: RedisServer) -> Iterator[Callable[..., tuple[Site, Command]]]:
    """`seriatim web` with these words."""
    started: list[Command] = []

    def start(*words: str, env: Mapping[str, str] | None = None) -> tuple[Site, Command]:
        started.append(Command("web", "--port", "0", *words, redis=redis.url, env=env, wait=False))
        return Site(started[-1].wait_for(r"dashboard is at (http://\S+)")[1]), started[-1]

    yield start
    for running in started:
        running.remove()


def test_the_command_serves_until_a_signal(standing: Any) -> None:
    filled("a/b")
    for name in ("TERM", "INT"):
        site, running = standing()
        assert site.get("/").status == 200
        assert site.get("/api/web/a%2Fb/range_by_id?min=-&max=%2B").status == 200
        assert site.post("/api/web/a%2Fb/pause").status == 200
        assert site.ask("HEAD", "/").body == b""
        assert running.stop(name) == 0


def test_d2_the_command_is_for_this_machine_alone_or_asks_for_a_token(standing: Any, redis: RedisServer) -> None:
    for address in ("0.0.0.0", "::"):
        said, code = command.run("web", "--bind", address, redis=redis.url)
        assert code == 2 and "--token" in said and address in said
    site, _ = standing("--bind", "0.0.0.0", "--token", "s3cret")
    assert site.get("/api/v1/stats").status == 401
    assert site.get("/api/v1/stats", Authorization="Bearer s3cret", Host="any.example").status == 200


def test_d2_the_command_takes_the_token_of_a_variable_unless_one_is_given(standing: Any, redis: RedisServer) -> None:
    """Other users of the machine see the command line, and not the variables."""
    env = {"SERIATIM_WEB_TOKEN": "right"}
    for words, wrong, right in ((["--bind", "0.0.0.0"], "other", "right"), (["--token", "other"], "right", "other")):
        site, _ = standing(*words, env=env)
        assert site.get("/api/v1/stats", Authorization=f"Bearer {wrong}").status == 401
        assert site.get("/api/v1/stats", Authorization=f"Bearer {right}").status == 200
    said, code = command.run("web", "--port", "0", redis=redis.url, env={"SERIATIM_WEB_TOKEN": ""})
    assert code == 2 and "SERIATIM_WEB_TOKEN must be a text of 1 to 1024 bytes" in said


def test_the_command_exits_2_where_it_cannot_listen(standing: Any, redis: RedisServer) -> None:
    site, _ = standing()
    said, code = command.run("web", "--port", str(site.port), redis=redis.url)
    assert code == 2 and "cannot listen" in said
    for words in (["--bind", "unix:/x", "--port", "1"], ["--port", "70000"], ["--port", "x"], ["more"], ["--token", ""], ["--token", "x" * 1025]):
        assert command.run("web", *words, redis=redis.url)[1] == 2, words


def test_d6_the_command_answers_no_other_host(standing: Any) -> None:
    site, _ = standing("--read-only")
    assert site.get("/api/v1/stats", Host="evil.example").status == 403
    assert site.get("/api/v1/stats", Host=f"localhost:{site.port}").status == 200
    assert site.post("/api/web/W/pause").status == 403


def test_the_command_listens_on_a_unix_socket(redis: RedisServer, tmp_path: Path) -> None:
    path = tmp_path / "web"
    for _ in range(2):
        running = Command("web", "--bind", f"unix:{path}", redis=redis.url, wait=False)
        try:
            running.wait_for("dashboard is at unix:")
            assert os.stat(path).st_mode & 0o777 == 0o600
            said, code = command.run("web", "--bind", f"unix:{path}", redis=redis.url)
            assert code == 2 and "cannot listen" in said
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(path))
                connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: any\r\n\r\n")
                assert connection.makefile("rb").read().split(b" ")[1] == b"200"
            running.signal("KILL")
            running.wait()
            assert path.exists()
        finally:
            running.remove()


def test_the_command_serves_when_its_output_is_closed(redis: RedisServer, tmp_path: Path) -> None:
    path = tmp_path / "web"
    running = Command("web", "--bind", f"unix:{path}", redis=redis.url, wait=False, closed=">&-")
    try:
        eventually(path.exists)
        with socket.socket(socket.AF_UNIX) as connection:
            eventually(lambda: connection.connect_ex(str(path)) == 0)
            connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: any\r\n\r\n")
            assert connection.makefile("rb").read().split(b" ")[1] == b"200"
        assert (running.stop(), running.log) == (0, "")
    finally:
        running.remove()


def is_ended(connection: socket.socket) -> bool:
    """The server has answered it or closed it."""
    return bool(select.select([connection], [], [], 0)[0])


def test_d9_the_command_answers_beside_two_hundred_slow_clients(standing: Any) -> None:
    site, running = standing()
    with ExitStack() as stack:
        began = time.monotonic()
        slow = [stack.enter_context(socket.create_connection((site.host, site.port), 30)) for _ in range(200)]
        for connection in slow:
            connection.sendall(b"POST /api/web/W/pause HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        assert site.get("/").status == 200 and site.get("/api/v1/stats").status == 200
        assert not is_ended(slow[-1])  # it was answered before the slow ones lost their places
        slow[0].settimeout(30)
        while slow[0].recv(65536):
            pass
        assert 5 < time.monotonic() - began < 60
    assert running.stop() == 0


def test_d9_when_all_places_are_taken_the_slowest_client_gives_its_up(standing: Any) -> None:
    site, _ = standing()
    with ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection((site.host, site.port), 30)) for _ in range(260)]
        assert site.get("/").status == 200
        assert not is_ended(slow[-1])  # it was answered before all slow ones lost their places
        slow[0].settimeout(5)
        assert slow[0].recv(1) == b""


def test_the_command_refuses_what_is_no_request(standing: Any) -> None:
    site, _ = standing()
    for request, status in {
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n": 400,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n": 413,
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n": 501,
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n": 414,
        b"*1\r\n$8\r\nFLUSHALL\r\n": 400,
        b"GET /\r\n\r\n": 400,
    }.items():
        answer = site.raw(request)
        assert answer.split(b" ", 2)[1] == str(status).encode(), (request[:60], answer)
        assert b"Content-Security-Policy" in answer and b"FLUSH" not in answer


def test_d9_the_command_reads_a_head_of_the_greatest_size_in_time_linear_in_it(standing: Any) -> None:
    site, _ = standing()
    space = b" \t" * 32_000

    def took(fields: bytes) -> float:
        began = time.monotonic()
        answer = site.raw(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + fields + b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 ")
        return time.monotonic() - began

    for fields in (b"X:" + space + b"\x01", b"X:a" + space + b"b\x7f", b"X" + space, b"X:" + space, b"X" * 64_000 + b" ", b"X:\r\n" * 90 + b"X:"):
        assert any(took(fields) < 2 for _ in range(5))  # a machine may be busy with other things


class Visitor:
    """A connection to a server in this process."""

    def __init__(self, stack: ExitStack, port: int) -> None:
        self.connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))

    def send(self, text: str) -> None:
        self.connection.sendall(text.encode())

    def ask(self, path: str) -> str | None:
        self.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return self.answer()

    def answer(self) -> str | None:
        """The path that it names; None: the connection has ended."""
        head = b""
        with suppress(ConnectionResetError):
            while not head.endswith(b"\r\n\r\n") and (more := self.connection.recv(4096)):
                head += more
        found = re.search(rb"x-path: (\S+)", head)
        return found[1].decode() if found else None


def test_d9_the_connection_whose_request_is_awaited_for_longest_gives_way_to_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stand_alone, "SECONDS", 3600.0)  # nothing expires
    monkeypatch.setattr(stand_alone, "IDLE_SECONDS", 3600.0)

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("x-path", environ["PATH_INFO"]), ("content-length", "0")])
        return []

    listener = socket.create_server(("127.0.0.1", 0))
    server = stand_alone.WebServer(listener, app, connections=3)
    server.start()
    with ExitStack() as stack:
        stack.callback(server.stop, 1)

        def awaits(count: int) -> bool:
            """The server notes that it awaits a request after it has sent the answer."""
            return eventually(lambda: len(server._sending) == count)

        def opened(path: str) -> Visitor:
            visitor = Visitor(stack, server.server_port)
            assert visitor.ask(path) == path
            return visitor

        first = opened("/a")
        assert awaits(1)
        second = opened("/b")
        assert awaits(2)
        slow = Visitor(stack, server.server_port)
        slow.send("GET /slow HTTP/1.1\r\n")
        assert awaits(3)
        assert first.ask("/again") == "/again"
        assert awaits(3)
        kept = opened("/new")
        assert second.answer() is None
        slow.send("Host: localhost\r\n\r\n")
        assert slow.answer() == "/slow"
        assert [first.ask("/kept"), kept.ask("/kept")] == ["/kept", "/kept"]


def test_d9_an_answer_that_is_taken_too_slowly_ends_the_connection(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(stand_alone, "SECONDS", 0.5)
    monkeypatch.setattr(stand_alone, "IDLE_SECONDS", 3600.0)
    length = 64 << 20  # more than the two sockets hold
    begun = threading.Event()

    def app(environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [("content-length", str(length))])
        begun.set()
        return [bytes(length)]

    server = stand_alone.WebServer(socket.create_server(("127.0.0.1", 0)), app)
    server.start()
    with ExitStack() as stack:
        stack.callback(server.stop, 1)
        visitor = Visitor(stack, server.server_port)
        visitor.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert begun.wait(60)
        time.sleep(2)
        visitor.connection.settimeout(20)
        received = 0
        while more := visitor.connection.recv(1 << 20):
            received += len(more)
        assert 0 < received < length
    assert "Traceback" not in capsys.readouterr().err
