"""Connections of a real nginx: to a Redis that refuses writes, by a sentinel with old news, and while shards lack their layout."""

from __future__ import annotations

import http.client
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from conftest import PATIENCE, Cluster, Nginx, Redis, free_ports, wait_until


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
        assert nginx.get("/content", id="x", payload="1")[0] == 503
        of_both = connections() - before
        server.client.config_set("min-replicas-to-write", 0)
        wait_until(lambda: nginx.get("/content", id="x", payload="2") == (200, "ok"), "a push")
        wait_until(lambda: len(nginx.lines()) >= 2, "its run")
        assert 1 <= of_the_loop <= 20  # after 25 to 50 ms, 50 to 100, ... 500 to 1000
        assert 1 <= of_both <= 25
    finally:
        nginx.end()
        journal.remove()


def test_a_redis_that_stays_read_only_is_logged_once(folder: Path, server: Redis) -> None:
    def lines() -> tuple[int, ...]:
        log = nginx.log()
        return tuple(log.count(text) for text in ("connected to Redis", "warning Redis: ", "lost the connection to Redis"))

    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        wait_until(lambda: lines() == (1, 0, 0), "the connection")
        server.client.replicaof("127.0.0.1", "1")
        wait_until(lambda: lines() == (1, 1, 1), "the loss")
        time.sleep(3)
        assert lines() == (1, 1, 1)
        server.client.replicaof("no", "one")
        wait_until(lambda: lines() == (2, 1, 1), "the next connection")
    finally:
        nginx.end()


def test_a_queue_that_a_full_redis_refuses_at_the_start_is_logged_once(folder: Path, server: Redis) -> None:
    def lines() -> tuple[int, int]:
        log = nginx.log()
        return log.count("Redis is out of memory"), log.count("connected to Redis")

    server.client.config_set("maxmemory", 1)
    nginx = Nginx(folder, server, {"redis": server.url, "processes": "1"}).start()
    try:
        wait_until(lambda: lines()[0] > 0, "the refusal")
        time.sleep(4)
        assert lines() == (1, 0)
        server.client.config_set("maxmemory", 0)
        wait_until(lambda: lines() == (1, 1), "the connection")
        assert re.search(r" warning the worker loop has begun; \d+ more failures before it were not logged", nginx.log())
    finally:
        nginx.end()


@contextmanager
def sentinel_that_names(port: int) -> Iterator[int]:
    """The port of a server that answers each question with this address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                if connection.recv(4096):
                    connection.sendall(b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%d\r\n" % (len(str(port)), port))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def test_another_sentinel_is_asked_if_the_first_goes_on_naming_a_replica(folder: Path) -> None:
    ports = free_ports(2)
    master = Redis("--port", str(ports[0]), "--repl-diskless-sync-delay", "0")
    replica = Redis("--port", str(ports[1]), "--replicaof", f"127.0.0.1 {ports[0]}")
    wait_until(lambda: master.client.info("replication").get("slave0", {}).get("state") == "online", "the replica")
    try:
        with sentinel_that_names(ports[1]) as stale, sentinel_that_names(ports[0]) as good:
            words = {"redis": f"redis+sentinel://127.0.0.1:{stale},127.0.0.1:{good}/mine", "push_timeout": "5", "processes": "1"}
            nginx = Nginx(folder, master, words).start()
            try:
                wait_until(lambda: nginx.get("/content", id="x", payload="0") == (200, "ok"), "a push", 10)
                wait_until(lambda: nginx.lines(), "its run")
            finally:
                nginx.end()
    finally:
        replica.remove()
        master.remove()


def shards_without_layout(client: redis.Redis) -> None:
    """Queue Away gets a new layout, as by one who dies before any shard has it. No server of the queue lives."""
    generation, shards, *_ = str(client.get("seriatim:{Away}:layout")).split(" ")
    client.set("seriatim:{Away}:layout", f"{int(generation) + 1} {int(shards) + 1} 4 {shards} {int(shards) + 1}")


def test_a_call_ends_where_a_shard_never_gets_its_new_layout(nginx: Nginx, server: Redis) -> None:
    assert nginx.get("/push_to", queue="Away", id="x", payload="0") == (200, "ok")
    shards_without_layout(server.client)
    connection = http.client.HTTPConnection("127.0.0.1", nginx.port, timeout=PATIENCE)
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    began = time.monotonic()
    connection.request("POST", "/seriatim/api/web/Away/perform_all_jobs_now", "{}", headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert (answer.status, "does not have the new layout of its queue yet" in text) == (503, True), text
    assert 4 < time.monotonic() - began < 20


def check_waiting_pushes(folder: Path, journal: Redis, url: str, servers: list[Redis], client: redis.Redis) -> None:
    """Pushes to shards that lack their layout make few connections, and leave good ones to others."""
    nginx = Nginx(folder, journal, {"redis": url, "push_timeout": "2", "processes": "1"}).start()

    def connections() -> int:
        return sum(int(each.client.info("stats")["total_connections_received"]) for each in servers)

    try:
        assert nginx.get("/push_to", queue="Away", id="x", payload="0") == (200, "ok")
        shards_without_layout(client)
        nginx.end()
        nginx.start()  # it knows no layout yet
        for replicas in ("0", "1"):
            before = connections()
            assert nginx.get("/push_to", queue="Away", id="x", payload="1", replicas=replicas)[0] == 503
            assert connections() - before < 20, replicas
            assert nginx.get("/push_to", queue="Other", id="x", payload="2") == (200, "ok")
    finally:
        nginx.end()


def test_a_push_keeps_its_connection_while_a_shard_lacks_its_layout(folder: Path, server: Redis) -> None:
    check_waiting_pushes(folder, server, server.url, [server], server.client)


def test_a_push_to_a_cluster_keeps_its_connections_while_a_shard_lacks_its_layout(folder: Path, server: Redis, cluster: Cluster) -> None:
    url = f"redis+cluster://127.0.0.1:{cluster.ports[0]}"
    with redis.RedisCluster("127.0.0.1", cluster.ports[0], decode_responses=True) as client:
        check_waiting_pushes(folder, server, url, cluster.masters, client)
