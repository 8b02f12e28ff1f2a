"""resty.seriatim inside a real nginx whose Redis has a host name: the resolver of nginx answers late."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Nginx, Redis, free_port, wait_until

HOST = "redis.example"
QUESTION_AT, QUESTION_END = 12, 5  # of a message: behind its head; and the NUL, the type and the class behind the name


class NameServer(threading.Thread):
    """Answers 127.0.0.1 to every question, while `answers` is true."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.answers = False
        self.asked = 0

    def run(self) -> None:
        while True:
            asked, client = self.socket.recvfrom(512)
            if not asked:
                return
            self.asked += 1
            if self.answers:
                self.socket.sendto(self.answer(asked), client)

    @staticmethod
    def answer(asked: bytes) -> bytes:
        end = asked.index(b"\0", QUESTION_AT) + QUESTION_END
        record = b"\xc0\x0c" + b"\0\x01\0\x01" + b"\0\0\0\x01" + b"\0\x04" + bytes([127, 0, 0, 1])
        return asked[:2] + b"\x81\x80\0\x01\0\x01\0\0\0\0" + asked[QUESTION_AT:end] + record

    def end(self) -> None:
        self.socket.sendto(b"", self.socket.getsockname())
        self.join()
        self.socket.close()


@pytest.fixture
def names() -> Iterator[NameServer]:
    made = NameServer()
    made.start()
    yield made
    made.end()


@pytest.fixture
def nginx(folder: Path, names: NameServer) -> Iterator[Nginx]:
    port = free_port()
    server, journal = Redis("--port", str(port)), Redis()
    words = {"processes": "1", "pool_size": "2", "push_timeout": "2", "resolver": names.address}
    made = Nginx(folder, journal, {"redis": f"redis://{HOST}:{port}", **words}).start()
    yield made
    made.end()
    for each in (server, journal):
        each.remove()


def test_a_push_ends_in_time_though_the_resolver_does_not_answer(nginx: Nginx, names: NameServer) -> None:
    for _ in range(3):
        began = time.monotonic()
        status, text = nginx.get("/content", id="x", payload="0")
        assert 1.9 < time.monotonic() - began < 20  # nginx alone gives its resolver 30
        assert status == 503
        assert text.startswith(f"TIMEOUT: cannot connect to redis://{HOST}:"), text
        assert re.search(rf": no answer in (2|1\.\d+) s from {re.escape(HOST)}, or from the resolver that looks it up; "
                         r"start Redis there, or correct seriatim\.redis", text), text
    assert names.asked > 0
    names.answers = True
    wait_until(lambda: nginx.get("/content", id="x", payload="1") == (200, "ok"), "the name", 30)
    wait_until(lambda: nginx.lines(), "the run")
    answers = [nginx.get("/content", id="x", payload=str(number)) for number in range(20)]
    assert answers.count((200, "ok")) >= 18  # a busy machine may hold up one for push_timeout


def test_the_dashboard_answers_in_time_and_names_the_cause_though_the_resolver_does_not_answer(nginx: Nginx) -> None:
    began = time.monotonic()
    status, text = nginx.get("/seriatim/readyz")
    assert time.monotonic() - began < 20
    assert (status, json.loads(text)) == (503, {"error": f"Redis cannot be asked now: no answer in 4.5 s from {HOST}, or from the resolver that "
                                                         "looks it up; start Redis there, or correct seriatim.redis"})
