"""Connections of a real nginx: to a Redis that refuses writes."""

from __future__ import annotations

import time
from pathlib import Path

from conftest import Nginx, Redis, free_ports, wait_until


def test_a_redis_that_refuses_writes_is_connected_ever_less_often(folder: Path, server: Redis) -> None:
    (port,) = free_ports(1)
    server.client.config_set("port", port)
    journal = Redis()
    words = {"redis": f"redis://127.0.0.1:{port}", "push_timeout": "3", "processes": "1"}
    nginx = Nginx(folder, journal, words).start()

    def connections() -> int:
        return int(server.client.info("stats")["total_connections_received"])

    try:
        assert nginx.get("/content", id="x", payload="0") == (200, "ok")
        wait_until(lambda: nginx.lines(), "its run")
        server.client.config_set("min-replicas-to-write", 1)
        before = connections()
        time.sleep(4)
        of_the_loop = connections() - before
        before = connections()
        status, text = nginx.get("/content", id="x", payload="1")
        assert (status, "NOREPLICAS" in text) == (503, True)
        of_both = connections() - before
        server.client.config_set("min-replicas-to-write", 0)
        wait_until(lambda: nginx.get("/content", id="x", payload="2") == (200, "ok"), "a push")
        wait_until(lambda: len(nginx.lines()) >= 2, "its run")
        assert 1 <= of_the_loop <= 20  # after 25 to 50 ms, 50 to 100, ... 500 to 1000
        assert 1 <= of_both <= 25
    finally:
        nginx.end()
        journal.remove()
