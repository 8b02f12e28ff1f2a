"""seriatim.pop inside a real nginx: it waits without blocking the worker, without a connection of the pool, and is woken by messages."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import PATIENCE, Nginx, Redis, questions, subscribers, wait_until


def pop(nginx: Nginx, queues: str, **query: str) -> dict[str, Any]:
    status, text = nginx.get("/pop", queues=queues, **query)
    assert status == 200
    return dict(json.loads(text))


def push(nginx: Nginx, queue: str, id: str, payload: str = "p") -> None:
    assert nginx.get("/push_to", queue=queue, id=id, payload=payload) == (200, "ok")


def make_empty_queue(nginx: Nginx) -> None:
    push(nginx, "Pulled", "a")
    pop(nginx, "Pulled")


@contextmanager
def pop_that_waits(nginx: Nginx, queues: str = "Pulled") -> Iterator[Future[dict[str, Any]]]:
    """A pop of these queues, of which "Pulled" is empty. When the block has ended, the pop gets the id "b"."""
    make_empty_queue(nginx)
    with ThreadPoolExecutor(1) as pool:
        wait = pool.submit(pop, nginx, queues, wait="60")
        yield wait
        assert wait.result(PATIENCE)["id"] == "b"


def test_pops_and_reports(nginx: Nginx) -> None:
    assert "id" not in pop(nginx, "Pulled")
    push(nginx, "Pulled", "a")
    got = pop(nginx, "Others Pulled")
    assert (got["id"], got["payloads"], got["queue"], got["done"]) == ("a", ["p"], "Pulled", True)
    assert "id" not in pop(nginx, "Pulled")


def test_a_delivery_is_released_and_comes_again(nginx: Nginx) -> None:
    push(nginx, "Pulled", "a")
    assert pop(nginx, "Pulled", op="release")["deliveries"] == 1
    assert pop(nginx, "Pulled")["deliveries"] == 2


def test_what_is_not_acknowledged_comes_again(nginx: Nginx) -> None:
    push(nginx, "Pulled", "a")
    assert pop(nginx, "Pulled", ttr="0.2", op="nothing")["deliveries"] == 1
    assert pop(nginx, "Pulled", wait="60")["deliveries"] == 2


def test_a_wait_ends_in_time(nginx: Nginx) -> None:
    got = pop(nginx, "Pulled", wait="0.5")
    assert "id" not in got and got["took"] >= 0.5


def test_waits_do_not_block_the_worker_and_hold_no_connection(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": server.url, "pool_size": "1"}).start()
    try:
        make_empty_queue(nginx)
        with ThreadPoolExecutor(30) as pool:
            waits = [pool.submit(pop, nginx, "Pulled", wait="60") for _ in range(30)]
            wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions")
            for number in range(30):
                push(nginx, "Pulled", str(number))
            got = [wait.result(PATIENCE) for wait in waits]
        assert sorted(int(each["id"]) for each in got) == list(range(30))
        assert subscribers(server, "Pulled") <= 2  # one connection of each nginx worker
    finally:
        nginx.end()


def test_a_wait_sends_few_commands_and_is_woken_by_a_push(nginx: Nginx, server: Redis) -> None:
    with pop_that_waits(nginx):
        wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions")
        # Of 5 shards; 150 if it asked every 100 ms.
        wait_until(lambda: questions(server, "Pulled", 3) <= 10, "the question that follows the confirmation to be over")
        push(nginx, "Pulled", "b")


def test_a_wait_survives_the_loss_of_its_subscription(nginx: Nginx, server: Redis) -> None:
    with pop_that_waits(nginx) as wait:
        wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions")
        server.client.client_kill_filter(_type="pubsub")
        wait_until(lambda: subscribers(server, "Pulled") == 0 or wait.done(), "the loss")
        push(nginx, "Pulled", "b")


def test_a_wait_hears_of_a_queue_that_is_made_meanwhile(nginx: Nginx, server: Redis) -> None:
    with pop_that_waits(nginx, "Pulled Later"):
        wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions")
        push(nginx, "Later", "b")


def test_a_wait_listens_as_the_user_of_the_url_that_has_no_password(folder: Path, server: Redis) -> None:
    server.client.execute_command("ACL", "SETUSER", "free", "on", "nopass", "~*", "&*", "+@all")
    nginx = Nginx(folder, server, {"redis": server.url.replace("unix://", "unix://free@")}).start()
    try:
        with pop_that_waits(nginx):
            wait_until(lambda: subscribers(server, "Pulled") >= 1, "subscriptions")
            assert {client["user"] for client in server.client.client_list(_type="pubsub")} == {"free"}
            push(nginx, "Pulled", "b")
    finally:
        nginx.end()


def test_a_wait_polls_where_no_channel_is_allowed(folder: Path, server: Redis) -> None:
    server.client.execute_command("ACL", "SETUSER", "mute", "on", ">pass", "~*", "+@all", "resetchannels")
    nginx = Nginx(folder, server, {"redis": server.url.replace("unix://", "unix://mute:pass@")}).start()
    try:
        with pop_that_waits(nginx):
            time.sleep(0.5)
            push(nginx, "Pulled", "b")
        assert subscribers(server, "Pulled") == 0
    finally:
        nginx.end()
