"""Consuming through the WSGI and ASGI mounts, on real HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

import seriatim
import seriatim.web
from seriatim._web.dashboard import CONNECTIONS, CONSUMERS, KEPT, Dashboard, Request
from support import web
from support.jobs import eventually, worker
from support.redis_server import RedisServer
from support.web import Site

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


def consume(site: Site, name: str, **body: Any) -> web.Answer:
    return site.ask("POST", f"/api/v1/consume/{name}", {"Content-Type": "application/json"}, json.dumps(body).encode())


def subscribers(redis: RedisServer) -> bool:
    return any(re.search(r" sub=[1-9]", line) for line in str(redis.call("CLIENT", "LIST")).splitlines())


def test_r_http_1_a_consumer_pushes_pops_and_reports_results(mounted: Mounted) -> None:
    queue = worker("Pulled", lambda payloads, batch: None, shards_count=2)
    queue.perform_async([{"id": "later", "payload": 0, "delay": 600}])
    site = mounted(consume=True, role=lambda _: "consumer")
    pushed = consume(site, "push", queue="Pulled", jobs=[{"id": "a", "payload": {"x": 1}}, {"id": "a", "payload": 2}])
    assert (pushed.status, pushed.json) == (200, {"added": 1, "folded": 1, "refused": [], "scheduled": 0, "stale": 0})
    delivery = consume(site, "pop", queues=["Pulled"], wait=0).json
    assert (delivery["id"], delivery["payloads"], delivery["deliveries"]) == ("a", [{"x": 1}, 2], 1)
    empty = consume(site, "pop", queues=["Pulled"], wait=0)
    assert (empty.status, empty.body, empty.headers["Content-Type"]) == (204, b"", None)
    assert consume(site, "release", token=delivery["token"]).json == {"ok": True}
    assert consume(site, "ack", token=delivery["token"]).status == 409
    again = consume(site, "pop", queues=["Pulled"], wait=0).json
    assert consume(site, "ack", token=again["token"]).status == 200
    assert site.get("/api/v1/stats").status == 403


def test_consuming_is_off_by_default(mounted: Mounted) -> None:
    answer = consume(mounted(), "pop", queues=["W"], wait=0)
    assert answer.status == 404 and "consume: true" in answer.json["error"]
    with pytest.raises(seriatim.Invalid, match="polls"):
        mounted(polls=0)


def test_r_http_7_as_many_pops_wait_as_the_mount_allows(mounted: Mounted, redis: RedisServer) -> None:
    queue = worker("Pulled", lambda payloads, batch: None, shards_count=2)
    queue.perform_async([{"id": "later", "payload": 0, "delay": 600}])
    site = mounted(consume=True, polls=1)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(consume, site, "pop", queues=["Pulled"], wait=30)
        eventually(lambda: subscribers(redis))
        busy = consume(site, "pop", queues=["Pulled"], wait=30)
        assert (busy.status, busy.headers["Retry-After"]) == (503, "1")
        queue.perform_async([{"id": "late", "payload": 5}])
        assert waiting.result().json["payloads"] == [5]
    assert consume(site, "pop", queues=["Pulled"], wait=0.1).status == 204


def test_few_connections_stay_open_after_many_pops_have_waited(redis: RedisServer) -> None:
    queue = worker("Pulled", lambda payloads, batch: None, shards_count=2)
    queue.perform_async([{"id": "later", "payload": 0, "delay": 600}])

    def connections() -> int:
        return int(re.findall(r"connected_clients:(\d+)", redis.call("INFO", "clients"))[0])

    with web.asgi(seriatim.web.asgi_app(consume=True, role=lambda _: "consumer", polls=20)) as site, ThreadPoolExecutor(20) as threads:
        before = connections()
        popped = [threads.submit(consume, site, "pop", queues=["Pulled"], wait=3) for _ in range(20)]
        eventually(lambda: connections() >= before + 2 * 20)  # one that is subscribed, one that asks
        assert {each.result().status for each in popped} == {204}
        eventually(lambda: connections() <= before + CONSUMERS + 2 * KEPT, 10)


def pop_request(site: Site, wait: float) -> bytes:
    body = json.dumps({"queues": ["Pulled"], "wait": wait})
    head = f"POST {site.prefix}/api/v1/consume/pop HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def test_r_http_4_nothing_is_claimed_for_a_client_that_has_left(mounted: Mounted, redis: RedisServer) -> None:
    queue = worker("Pulled", lambda payloads, batch: None, shards_count=2)
    queue.perform_async([{"id": "later", "payload": 0, "delay": 600}])
    site = mounted(consume=True, polls=1)
    with socket.create_connection((site.host, site.port)) as client:
        client.sendall(pop_request(site, 60))
        eventually(lambda: subscribers(redis))
    eventually(lambda: consume(site, "pop", queues=["Pulled"], wait=0.05).status == 204, 30)  # its place is free, before its time is over
    queue.perform_async([{"id": "kept", "payload": 6}])
    delivery = consume(site, "pop", queues=["Pulled"], wait=0).json
    assert (delivery["id"], delivery["deliveries"]) == ("kept", 1)


def test_r_http_4_a_client_that_leaves_a_busy_event_loop_gets_nothing(redis: RedisServer) -> None:
    queue = worker("Pulled", lambda payloads, batch: None, shards_count=2)
    queue.perform_async([{"id": "later", "payload": 0, "delay": 600}])
    loops: list[asyncio.AbstractEventLoop] = []
    is_busy, pushed = threading.Event(), threading.Event()

    def role(scope: Any) -> str:
        loops.append(asyncio.get_running_loop())
        return "consumer"

    def be_busy() -> None:
        is_busy.set()
        pushed.wait(60)

    with web.asgi(seriatim.web.asgi_app(consume=True, role=role)) as site:
        with socket.create_connection((site.host, site.port)) as client:
            client.sendall(pop_request(site, 60))
            eventually(lambda: subscribers(redis))
            loops[0].call_soon_threadsafe(be_busy)
            assert is_busy.wait(60)
        queue.perform_async([{"id": "kept", "payload": 6}])
        pushed.set()  # only now the loop hears of both
        delivery = consume(site, "pop", queues=["Pulled"], wait=5).json
        assert (delivery["id"], delivery["deliveries"]) == ("kept", 1)


def test_r_http_7_consumers_wait_for_no_connection_of_bulk_actions(redis: RedisServer) -> None:
    worker("Pulled", lambda payloads, batch: None, shards_count=2).perform_async([{"id": "first"}])
    dashboard = Dashboard(None, False, lambda _: "consumer", None, None, (), None, True, 2)
    field = {"content-type": b"application/json", "host": b"localhost"}.get
    body = json.dumps({"queue": "Pulled", "jobs": [{"id": "a", "payload": 1}]}).encode()
    push = Request("POST", b"", b"/api/v1/consume/push", b"", field, body, False)
    with ExitStack() as stack:
        for _ in range(CONNECTIONS):
            stack.enter_context(dashboard._connections("change").lend())
        assert dashboard.answer(push, None)[0] == 200
    dashboard.close()
