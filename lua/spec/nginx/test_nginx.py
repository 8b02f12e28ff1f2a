"""resty.seriatim inside a real nginx: pushes from its phases, the worker loop, reload, end, crash."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Nginx, Redis, free_port, wait_until

WITH_SOCKETS = ["/content", "/access", "/rewrite", "/timer"]
WITHOUT_SOCKETS = ["/log", "/header"]


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
            return self.nginx.get(self.path, id=job[0], payload=job[1])[0] == 200
        except OSError:
            time.sleep(0.01)
            return False

    def finish(self) -> list[tuple[str, str]]:
        self.ending.set()
        self.join()
        return self.pushed


def under_load(nginx: Nginx, seconds: float, trouble: object) -> list[tuple[str, str]]:
    loads = [Load(nginx, name) for name in "ab"]
    for load in loads:
        load.start()
    time.sleep(seconds / 2)
    trouble()  # type: ignore[operator]
    time.sleep(seconds / 2)
    return [job for load in loads for job in load.finish()]


@pytest.mark.parametrize("path", WITH_SOCKETS + WITHOUT_SOCKETS)
def test_push_from_each_phase(nginx: Nginx, path: str) -> None:
    for number in range(20):
        assert nginx.get(path, id="x", payload=str(number)) == (200, "ok")
    wait_until(lambda: len(nginx.lines()) >= 20, "20 runs")
    assert [line[1] for line in nginx.lines() if line[0] == "x"] == [str(number) for number in range(20)] or path != "/content"
    assert set(runs(nginx).values()) == {1}
    assert crashes(nginx) == []


def test_a_phase_without_sockets_is_named(nginx: Nginx) -> None:
    refused = nginx.request("/refused", id="x").headers["X-Refused"]
    assert refused.startswith("UNSUPPORTED: nginx allows no connection in its phase header_filter")


def test_later_is_counted_and_bounded(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": f"unix://{folder}/nowhere.sock"}).start()
    try:
        for number in range(30):
            nginx.get("/log", id="x", payload=str(number))
        counted = [nginx.figures() for _ in range(40)]
        by_worker = {each["pid"]: each["later"] for each in counted}
        assert sum(each["queued"] for each in by_worker.values()) == 30
        assert sum(each["pushed"] + each["failed"] + each["refused"] for each in by_worker.values()) == 0
    finally:
        nginx.end()


def test_in_order_and_once_by_two_workers(nginx: Nginx) -> None:
    wait_until(lambda: "shards" in nginx.figures()["stats"], "the loops")
    pushed = under_load(nginx, 3, lambda: None)
    wait_until(lambda: len(nginx.lines()) >= len(pushed), "all runs")
    time.sleep(0.3)
    assert runs(nginx) == Counter(pushed)
    for id in {job[0] for job in pushed}:
        assert [line[1] for line in nginx.lines() if line[0] == id] == [payload for of, payload in pushed if of == id]
    assert len({line[2] for line in nginx.lines()}) == 2, "both nginx workers ran jobs"
    assert crashes(nginx) == []


def test_ten_reloads_lose_nothing(nginx: Nginx) -> None:
    def reload() -> None:
        for _ in range(10):
            nginx.signal(signal.SIGHUP)
            time.sleep(0.4)

    first = nginx.workers()
    pushed = under_load(nginx, 2, reload)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")
    assert set(runs(nginx).values()) == {1}, "handed over, not run again"
    wait_until(lambda: len(nginx.workers()) == 2, "the old workers' end")
    assert not set(first) & set(nginx.workers())


def test_a_killed_worker_loses_nothing(nginx: Nginx) -> None:
    pushed = under_load(nginx, 3, lambda: os.kill(nginx.workers()[0], signal.SIGKILL))
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")
    for id in {job[0] for job in pushed}:
        seen = list(dict.fromkeys(line[1] for line in nginx.lines() if line[0] == id))
        assert seen == [payload for of, payload in pushed if of == id]


def test_a_sleeping_job_does_not_hold_a_reload(nginx: Nginx) -> None:
    nginx.get("/content", worker="Sleep", id="s", payload="20")
    wait_until(lambda: nginx.lines(), "the job's start")
    first = nginx.workers()
    started = time.monotonic()
    nginx.signal(signal.SIGHUP)
    wait_until(lambda: not set(first) & set(nginx.workers()), "the old workers' end")
    assert time.monotonic() - started < 2 + 3, "the grace time is 2 s"
    wait_until(lambda: len([line for line in nginx.lines() if line[0] == "begin"]) == 2, "the job's next start")
    assert "what still ran after 2 s was handed back" in nginx.log()


def test_quit_lets_jobs_finish(nginx: Nginx, server: Redis) -> None:
    nginx.get("/content", worker="Sleep", id="s", payload="1")
    wait_until(lambda: nginx.lines(), "the job's start")
    nginx.signal(signal.SIGQUIT)
    nginx.process.wait(10)
    assert [line[0] for line in nginx.lines()] == ["begin", "end"]
    assert server.client.zcard("seriatim:nodes:alive") == 0 or not server.client.exists("seriatim:nodes:alive")


def test_term_ends_at_once_and_writes_what_waits(nginx: Nginx) -> None:
    nginx.get("/content", worker="Sleep", id="s", payload="20")
    wait_until(lambda: nginx.lines(), "the job's start")
    nginx.signal(signal.SIGTERM)
    started = time.monotonic()
    nginx.process.wait(10)
    assert time.monotonic() - started < 3
    again = Nginx(nginx.folder, nginx.journal, {"redis": f"unix://{nginx.journal.path}"}).start()
    try:
        wait_until(lambda: len(nginx.lines()) >= 2, "the job's next start")
    finally:
        again.end()


def test_redis_restarts(nginx: Nginx, server: Redis) -> None:
    def restart() -> None:
        server.stop()
        server.start()

    pushed = under_load(nginx, 2, restart)
    wait_until(lambda: set(runs(nginx)) >= set(pushed), "all runs")


def test_failures_are_tried_again(nginx: Nginx) -> None:
    nginx.get("/content", worker="Bad", id="b", payload="error")
    wait_until(lambda: len(nginx.lines()) == 3, "three runs")
    assert nginx.lines() == [["bad", "b", "-1"], ["bad", "b", "0"], ["bad", "b", "1"]]
    assert "bad luck" in nginx.log()


def test_a_job_that_ends_the_timer_is_survived(nginx: Nginx) -> None:
    nginx.get("/content", worker="Bad", id="b", payload="exit")
    wait_until(lambda: "the worker loop is gone; it begins anew" in nginx.log(), "the guard")
    for number in range(20):
        nginx.get("/content", id=f"x{number}", payload="1")
    wait_until(lambda: all((f"x{number}", "1") in runs(nginx) for number in range(20)), "the runs of others")


def test_without_code_cache(folder: Path, server: Redis) -> None:
    nginx = Nginx(folder, server, {"redis": f"unix://{server.path}", "code_cache": "off"}).start()
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
    made = Redis(folder, "redis", "--tls-port", port, "--tls-cert-file", "cert.pem", "--tls-key-file", "key.pem",
                 "--tls-ca-cert-file", "cert.pem", "--tls-auth-clients", "no", "--requirepass", "secret")
    made.url = f"rediss://:secret@localhost:{port}/3"  # type: ignore[attr-defined]
    yield made  # type: ignore[misc]
    made.stop()


def test_tls_and_password(folder: Path, secure: Redis) -> None:
    journal = Redis(folder, "journal")
    nginx = Nginx(folder, journal, {"redis": secure.url, "certificate": "cert.pem"}).start()  # type: ignore[attr-defined]
    try:
        for number in range(20):
            assert nginx.get("/content", id="x", payload=str(number)) == (200, "ok")
        wait_until(lambda: len(nginx.lines()) >= 20, "20 runs")
        assert [line[1] for line in nginx.lines()] == [str(number) for number in range(20)]
        assert secure.client.dbsize() == 0, "database 3 is used"
        assert "secret" not in nginx.log()
    finally:
        nginx.end()
        journal.stop()


def test_an_unknown_certificate_is_refused(folder: Path, secure: Redis) -> None:
    journal = Redis(folder, "journal")
    nginx = Nginx(folder, journal, {"redis": secure.url}).start()  # type: ignore[attr-defined]
    try:
        status, text = nginx.get("/content", id="x")
        assert status == 503
        assert text.startswith("IO: cannot connect to rediss://:***@localhost:") and "TLS: " in text
    finally:
        nginx.end()
        journal.stop()
