"""F19: a child of fork has connections of its own and leaves the parent's alone."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import seriatim
from seriatim._client import pool as pools
from support.jobs import eventually, runs, serve, worker
from support.redis_server import RedisServer, free_ports


@pytest.fixture
def recorder() -> Any:
    return worker("Fork")


def child(function: Callable[[], object]) -> int:
    """A child of fork that ends with 0 when the function gives something true."""
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(120)
    code = 1
    try:
        code = 0 if function() else 2
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def codes(pids: list[int]) -> list[int]:
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def push_some(recorder: Any, name: str) -> bool:
    for number in range(20):
        recorder.perform_async([{"id": f"{name}-{number}"}])
    return len(recorder.queries.fetch(["parent"])) == 1


def test_f19_children_push_over_connections_of_their_own(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    children = [child(lambda name=f"child{place}": push_some(recorder, name)) for place in range(3)]  # type: ignore[misc]
    for number in range(50):
        recorder.perform_async([{"id": f"p{number}"}])
    assert codes(children) == [0, 0, 0]
    assert recorder.metrics["length"] == 111


def test_f19_the_parents_connection_outlives_its_children(recorder: Any, redis: RedisServer) -> None:
    seriatim.client_pool_size = 1
    recorder.perform_async([{"id": "parent"}])
    before = clients(redis)
    assert codes([child(lambda: recorder.metrics["length"] == 1) for _ in range(5)]) == [0] * 5
    recorder.perform_async([{"id": "again"}])
    assert before <= clients(redis)


def test_f19_a_fork_while_other_threads_push(recorder: Any) -> None:
    """Whatever lock or connection they held, the child has its own."""
    seriatim.client_pool_size = 2
    seriatim.pool_timeout = 60
    recorder.perform_async([{"id": "parent"}])
    ended = threading.Event()

    def push(place: int) -> None:
        number = 0
        while not ended.is_set():
            recorder.perform_async([{"id": f"{place}-{number}"}])
            number += 1

    threads = [threading.Thread(target=push, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    try:
        for place in range(20):
            assert codes([child(lambda: push_some(recorder, f"c{place}"))]) == [0]
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert all(recorder.queries.fetch([f"c{place}-19"]) for place in range(20))


def test_f19_a_fork_while_the_pools_locks_are_held(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    pool = pools.current()
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with pool._lock, pools._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    children = [child(lambda: push_some(recorder, "held"))]
    release.set()
    thread.join()
    assert codes(children) == [0]


def test_f19_a_fork_in_the_midst_of_a_use(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])

    def use() -> bool:
        return push_some(recorder, "midst") and pools.current() is not pool

    pool = pools.current()
    with pool.lend() as connection:
        children = [child(use)]
        assert codes(children) == [0]
        assert connection.metrics(recorder._queue_settings())["length"] == 21


def test_f19_processes_of_multiprocessing_push(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=push_some, args=(recorder, f"m{place}")) for place in range(3)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    assert [process.exitcode for process in children] == [0, 0, 0]
    assert recorder.metrics["length"] == 61
    assert recorder.perform_async([{"id": "after"}]).added == 1


class Spawned(seriatim.Worker):
    queue_name = "Fork"

    def perform(self, payloads_by_id: Any) -> None: ...


def push_spawned(url: str, name: str) -> None:
    """In a process that shares nothing but what it imports."""
    seriatim.redis = url
    assert push_some(Spawned, name)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_f19_processes_of_multiprocessing_without_fork_push(method: str, recorder: Any, redis: RedisServer) -> None:
    recorder.perform_async([{"id": "parent"}])
    context = multiprocessing.get_context(method)
    children = [context.Process(target=push_spawned, args=(redis.url, f"{method}{place}")) for place in range(2)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    assert [process.exitcode for process in children] == [0, 0]
    assert recorder.metrics["length"] == 41


def test_f19_a_pool_of_processes_pushes(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        pushed = [pool.apply_async(push_some, (Spawned, f"pool{place}")) for place in range(6)]
        assert all(result.get(120) for result in pushed)
    assert recorder.metrics["length"] == 121


LOADED = """
import os, random, sys, threading, time
import seriatim

class Busy(seriatim.Worker):
    shards_count = 3
    def perform(self, payloads_by_id):
        time.sleep(0.001)

class Child(seriatim.Worker):
    def perform(self, payloads_by_id):
        time.sleep(0.001)

def push(place):
    number = 0
    while not ended.is_set():
        Busy.perform_async([{"id": f"{place}-{number}-{at}"} for at in range(5)])
        number += 1

def live(place):
    assert Child.perform_async([{"id": f"child{place}-{at}"} for at in range(5)]).added == 5
    mine = seriatim.Server(workers=[Child], threads=2).start()
    assert mine.id != server.id
    while Child.metrics["processed"] < 5 * (place + 1):
        time.sleep(0.01)
    assert mine.stop()

seriatim.lease_time = 10
server = seriatim.Server(workers=[Busy], threads=3).start()
ended = threading.Event()
threads = [threading.Thread(target=push, args=(place,)) for place in range(3)]
for thread in threads:
    thread.start()
codes = []
for place in range(int(sys.argv[1])):
    time.sleep(random.random() * 0.02)
    pid = os.fork()
    if pid == 0:
        ended.set()
        live(place)
        sys.exit(5)  # an end as any program's: exit handlers, and the interpreter's own
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
ended.set()
for thread in threads:
    thread.join()
while Busy.metrics["length"] + Busy.metrics["busy"]:
    time.sleep(0.01)
stats = server.stats()
assert server.stop()
print(set(codes), stats["refused"], Busy.metrics["failed"], Child.metrics["processed"])
"""


def test_f19_children_of_a_loaded_server_live_and_end_as_programs_do() -> None:
    """Whatever its threads, Python's and the core's, held."""
    count = 200 if os.environ.get("SOAK") else 8
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    command = [sys.executable, "-c", LOADED, str(count)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == f"{{5}} 0 0 {5 * count}", ended.stdout + ended.stderr


SHOP = """
import os, threading
import seriatim

class Shop(seriatim.Worker):
    queue_name = "Fork"
    def perform(self, payloads_by_id): ...

Shop.perform_async([{"id": "preloaded"}])  # so the parent has a connection
parent = os.getpid()

def app(environ, start_response):
    assert os.getpid() != parent
    name = environ["QUERY_STRING"]
    added = Shop.perform_async([{"id": name, "payload": name}]).added
    [record] = Shop.queries.fetch([name])
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {added} {record['id']} {record['payloads'][0][0]}".encode()]
"""


@contextmanager
def gunicorn(folder: Path, url: str) -> Iterator[str]:
    """Two preloaded workers with four threads each; gives the address."""
    (port,) = free_ports(1)
    (folder / "shop.py").write_text(SHOP)
    words = ["--preload", "--workers", "2", "--threads", "4", "--bind", f"127.0.0.1:{port}", "shop:app"]
    environment = {**os.environ, "REDIS_URL": url}
    with open(folder / "log", "wb") as log:
        command = [sys.executable, "-m", "gunicorn", *words]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: (folder / "log").read_text().count("Booting worker") == 2)
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_f19_gunicorn_with_preload_pushes_from_each_process(recorder: Any, redis: RedisServer, tmp_path: Path) -> None:
    pytest.importorskip("gunicorn")
    count = 5000 if os.environ.get("SOAK") else 400

    def ask(number: int) -> tuple[str, bool]:
        with urllib.request.urlopen(f"{address}?job{number}", timeout=60) as answer:
            pid, *rest = answer.read().decode().split()
        return pid, rest == ["1", f"job{number}", f"job{number}"]

    ours = clients(redis)
    with gunicorn(tmp_path, redis.url) as address, ThreadPoolExecutor(8) as threads:
        parents = clients(redis) - ours
        answers = list(threads.map(ask, range(count)))
        assert len(parents) == 1 and parents <= clients(redis)
        pids = {pid for pid, _ in answers}
        eventually(lambda: len(pids) == 2 or pids.update([ask(0)[0]]))  # on a busy machine one of both may answer all
    assert [right for _, right in answers].count(False) == 0
    assert recorder.metrics["length"] == count + 1


def clients(redis: RedisServer) -> set[str]:
    """The ids of the package's connections."""
    return {line.split()[0] for line in redis.call("CLIENT", "LIST").splitlines() if "seriatim-client" in line}


def test_f19_an_event_loop_in_the_child_pushes(recorder: Any) -> None:
    asyncio.run(recorder.aperform_async([{"id": "parent"}]))

    async def push() -> bool:
        results = await asyncio.gather(*(recorder.aperform_async([{"id": f"a{number}"}]) for number in range(20)))
        return sum(result.added for result in results) == 20

    assert codes([child(lambda: asyncio.run(push()))]) == [0]
    assert recorder.metrics["length"] == 21


def test_f19_an_event_loop_in_the_child_pushes_through_a_def_middleware(recorder: Any) -> None:
    seriatim.client_middlewares.append(lambda worker, jobs, call_next: call_next())
    asyncio.run(recorder.aperform_async([{"id": "parent"}]))

    def push() -> bool:
        return bool(asyncio.run(recorder.aperform_async([{"id": "child"}])).added)

    assert codes([child(push)]) == [0]


def test_f19_a_child_of_a_child_pushes(recorder: Any) -> None:
    recorder.perform_async([{"id": "parent"}])

    def nested() -> bool:
        return push_some(recorder, "first") and codes([child(lambda: push_some(recorder, "second"))]) == [0]

    assert codes([child(nested)]) == [0]
    assert recorder.metrics["length"] == 41


def test_f19_a_server_is_its_processs_and_the_child_may_have_another(recorder: Any) -> None:
    server = serve(recorder)

    def another() -> bool:
        with pytest.raises(seriatim.Closed):
            server.stats()
        mine = seriatim.Server(workers=[recorder]).start()
        return mine.stop()

    assert codes([child(another)]) == [0]
    recorder.perform_async([{"id": 1}])
    runs(recorder)


def test_f19_a_server_that_was_made_before_a_fork_does_not_start_in_the_child(recorder: Any) -> None:
    server = seriatim.Server(workers=[recorder])

    def start() -> bool:
        with pytest.raises(seriatim.Closed, match="create another one after fork"):
            server.start()
        return server.stop()

    assert codes([child(start)]) == [0]
    server.start()
    assert server.stop()


def test_f19_a_child_that_ends_as_a_program_does_leaves_the_parents_server_alone(recorder: Any) -> None:
    server = serve(recorder)
    pid = os.fork()
    if pid == 0:
        import atexit

        try:
            atexit._run_exitfuncs()
        finally:
            os._exit(0)
    assert codes([pid]) == [0]
    assert server.running
    time.sleep(0.5)
    recorder.perform_async([{"id": 1}])
    runs(recorder)
    assert eventually(lambda: recorder.metrics["processed"] == 1)


FORKING = """
import asyncio, os, sys, time
import seriatim

def lives(pid):
    os.write(1, f"child {pid}\\n".encode())

class Forking(seriatim.Worker):
    max_retry_count = 0

    async def perform(self, payloads_by_id):
        pid = os.fork()
        if pid:
            return lives(pid)
        await LEAVE[sys.argv[1]]()

class Other(seriatim.Worker):
    def perform(self, payloads_by_id): ...

async def end(): ...

async def leave():
    sys.exit(3)

async def fail():
    raise KeyError("own")

async def go_on():
    while True:
        await asyncio.sleep(0.01)

LEAVE = {"end": end, "exit": leave, "error": fail, "await": go_on}
parent = os.getpid()
server = seriatim.Server(workers=[Forking, Other][:int(sys.argv[2])]).start()
Forking.perform_async([{"id": 1}])
while Forking.metrics["processed"] + Forking.metrics["failed"] == 0:
    time.sleep(0.01)
os.waitpid(-1, 0)
assert server.stop()
assert (Forking.metrics["processed"], Forking.metrics["failed"]) == (1, 0)
"""


@pytest.mark.parametrize("workers", ["1", "2"], ids=["async workers only", "beside a def"])
@pytest.mark.parametrize("how", ["end", "exit", "error", "await"])
def test_f19_a_child_of_an_async_perform_ends_when_it_leaves_perform(how: str, workers: str, redis: RedisServer) -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    with subprocess.Popen(
        [sys.executable, "-c", FORKING, how, workers], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline().split()[1])
        try:
            output, errors = program.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.kill(child, signal.SIGKILL)
            program.kill()
            raise
    assert (program.returncode, output) == (0, ""), errors
