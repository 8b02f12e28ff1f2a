"""Consuming in an nginx location: results, pops that wait without blocking the worker, and clients that leave."""

from __future__ import annotations

import http.client
import json
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import LUA, PATIENCE, Nginx, Redis, questions, subscribers, wait_until

MAKE = """
local queue = require("seriatim").worker { name = "Pulled", shards_count = 2, perform = function() end }
assert(queue:perform_async { { id = "for later", payload = 0, delay = 600 } })
"""
MAKE_MANY = """
local queue, jobs = require("seriatim").worker { name = "Many", shards_count = 2, perform = function() end }, {}
for id = 1, 100000 do
  jobs[id] = { id = id, payload = 0, delay = 600 }
end
assert(queue:perform_async(jobs))
"""


def consume(nginx: Nginx, name: str, mount: str = "/consume", **body: Any) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=PATIENCE)
    try:
        connection.request("POST", f"{mount}/api/v1/consume/{name}", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else answer.headers
    finally:
        connection.close()


def pop(nginx: Nginx, wait: float = 0) -> tuple[int, Any]:
    return consume(nginx, "pop", queues=["Pulled"], wait=wait)


def push(nginx: Nginx, id: str, payload: Any) -> None:
    assert consume(nginx, "push", queue="Pulled", jobs=[{"id": id, "payload": payload}])[0] == 200


@pytest.fixture
def nginx(folder: Path, server: Redis) -> Iterator[Nginx]:
    """With one worker process: each counts the pops that wait in it, and nginx decides which one gets a request."""
    made = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    yield made
    made.end()


def make(program: str, server: Redis) -> None:
    environment = {"LUA_PATH": f"{LUA}/?.lua;;", "LUA_CPATH": f"{LUA}/lib/5.1/?.so;;", "PATH": "/usr/bin:/bin", "REDIS_URL": server.url}
    subprocess.run(["luajit", "-e", program], env=environment, check=True)


@pytest.fixture
def queue(nginx: Nginx, server: Redis) -> Nginx:
    """With a queue that no server serves."""
    make(MAKE, server)
    return nginx


def test_a_consumer_pushes_pops_and_reports_results(queue: Nginx) -> None:
    push(queue, "a", {"x": 1})
    status, delivery = pop(queue)
    assert (status, delivery["id"], delivery["payloads"]) == (200, "a", [{"x": 1}])
    status, headers = pop(queue)
    assert (status, headers["Content-Length"]) == (204, None)
    assert consume(queue, "release", token=delivery["token"]) == (200, {"ok": True})
    assert consume(queue, "ack", token=delivery["token"])[0] == 409
    assert consume(queue, "ack", token=pop(queue)[1]["token"])[0] == 200
    assert consume(queue, "push", queue="None", jobs=[{"id": 1, "payload": 1}])[0] == 404


def admitted_pop(nginx: Nginx, wait: float) -> Any:
    """A pop that tries again while other pops have all places."""
    while (answer := pop(nginx, wait))[0] == 503:
        time.sleep(0.02)
    return answer


def test_r_http_7_pops_wait_without_blocking_the_worker(queue: Nginx) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = [pool.submit(admitted_pop, queue, 30) for _ in range(2)]
        wait_until(lambda: pop(queue, 0.3)[0] == 503, "a third pop to be refused")
        assert queue.get("/ping") == (200, "pong")
        assert consume(queue, "pop", "/more", queues=["Pulled"], wait=0.3)[0] == 204  # another mount
        assert not any(each.done() for each in waiting)
        push(queue, "late 1", 5)
        push(queue, "late 2", 6)
        assert sorted(each.result()[1]["payloads"][0] for each in waiting) == [5, 6]
    assert pop(queue, 0.2)[0] == 204


def test_r_http_8_a_pop_that_waits_sends_few_commands_and_is_woken_by_a_push(queue: Nginx, server: Redis) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pop, queue, 60)
        wait_until(lambda: subscribers(server, "Pulled", 2) >= 1, "subscriptions")
        wait_until(lambda: questions(server, "Pulled", 3) <= 4, "silence")  # of 2 shards; 60 if it asked every 100 ms
        push(queue, "late", 5)
        assert waiting.result(PATIENCE)[1]["payloads"] == [5]


def test_r_http_4_nothing_is_claimed_for_a_client_that_has_left(queue: Nginx) -> None:
    body = json.dumps({"queues": ["Pulled"], "wait": 30}).encode()
    head = f"POST /consume/api/v1/consume/pop HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with ThreadPoolExecutor() as pool:

        def waiting_client() -> socket.socket:
            client = socket.create_connection(("127.0.0.1", queue.port))
            client.sendall(head.encode() + body)
            return client

        def both_wait() -> bool:
            for i, client in enumerate(clients):
                if select.select([client], [], [], 0)[0]:  # it was refused, because the pop below had its place
                    client.close()
                    clients[i] = waiting_client()
            return bool(pop(queue, 0.3)[0] == 503)

        clients = [waiting_client(), waiting_client()]
        wait_until(both_wait, "both to wait")
        for client in clients:
            client.close()
        wait_until(lambda: pop(queue, 0.1)[0] == 204, "their places to be free")
        push(queue, "kept", 7)
        status, delivery = pool.submit(pop, queue, 10).result()
        assert (status, delivery["id"], delivery["deliveries"]) == (200, "kept", 1)


def test_an_ack_waits_for_no_action_on_a_whole_queue(queue: Nginx, server: Redis) -> None:
    make(MAKE_MANY, server)
    push(queue, "a", 1)
    token = pop(queue)[1]["token"]

    def act() -> int:
        connection = http.client.HTTPConnection("127.0.0.1", queue.port, timeout=PATIENCE)
        own = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
        connection.request("POST", "/seriatim/api/web/Many/perform_all_jobs_now", "{}", own)
        status = connection.getresponse().status
        connection.close()
        return status

    with ThreadPoolExecutor(2) as pool:
        actions = [pool.submit(act) for _ in range(2)]
        wait_until(lambda: server.client.zcount("seriatim:{Many/0}:due", "-inf", time.time() * 1e6), "an action to be under way")
        acknowledged = consume(queue, "ack", token=token)
        assert not any(action.done() for action in actions)
        assert acknowledged == (200, {"ok": True})
        assert [action.result() for action in actions] == [200, 200]
