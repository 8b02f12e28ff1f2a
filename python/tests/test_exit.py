"""F23: an interpreter that ends while threads wait ends soon, with its own exit code, and whole."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import seriatim
from support.jobs import deaf

PROGRAM = """
import asyncio, atexit, os, sys, threading, time
import seriatim

class Idle(seriatim.Worker):
    def perform(self, payloads_by_id):
        time.sleep(0.001)

class Awaiting(seriatim.Worker):
    async def perform(self, payloads_by_id):
        await asyncio.sleep(0.001)

def server(workers, scheduler=seriatim.build_lag_scheduler):
    seriatim.build_scheduler = scheduler
    seriatim.Server(workers=workers).start()

def pushes():
    def push():
        number = 0
        while True:
            Idle.perform_async([{"id": number}])
            number += 1
    for _ in range(4):
        threading.Thread(target=push, daemon=True).start()
    time.sleep(0.05)

def waits():
    "For answers of a Redis that gives none."
    for _ in range(4):
        threading.Thread(target=lambda: Idle.metrics, daemon=True).start()
    threading.Thread(target=lambda: asyncio.run(Idle.aperform_async([{"id": 1}])), daemon=True).start()
    time.sleep(0.05)

def loaded():
    server([Idle])
    pushes()

def fail():
    raise KeyError("own")

THREADS = {
    "a server": lambda: server([Idle]),
    "an async server": lambda: server([Awaiting]),
    "a server with a scheduler of its own": lambda: server([Idle], lambda: lambda candidates: None),
    "pushes": pushes,
    "pushes and their server": loaded,
    "waits": waits,
}
LEAVE = {"end": lambda: None, "exit": lambda: sys.exit(7), "error": fail, "interrupt": lambda: os.kill(os.getpid(), 2)}

seriatim.stop_timeout = 30
THREADS[sys.argv[1]]()
time.sleep(float(sys.argv[3]))
print(time.monotonic(), flush=True)
LEAVE[sys.argv[2]]()
time.sleep(0.2 if sys.argv[2] == "interrupt" else 0)
"""

CODES = {"end": 0, "exit": 7, "error": 1, "interrupt": -2}
THREADS = ["a server", "an async server", "a server with a scheduler of its own", "pushes", "pushes and their server", "waits"]
ROUNDS = 9 if os.environ.get("SOAK") else 1
SOON = 25  # seconds: what is 0.2 on a quiet machine; what waits for its threads takes 30, or for ever


def leave(threads: str, how: str) -> None:
    environment = {**os.environ, "REDIS_URL": seriatim.redis_url()}
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", PROGRAM, threads, how, str(random.random() * 0.05)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    took = time.monotonic() - float(ended.stdout.splitlines()[0])
    assert ended.returncode == CODES[how], (threads, how, ended.returncode, ended.stderr)
    assert "Fatal Python error" not in ended.stderr and "Segmentation" not in ended.stderr, ended.stderr
    assert took < SOON, (threads, how, took)


@pytest.mark.limit(600)
def test_f23_the_interpreter_ends_while_threads_wait() -> None:
    ways = [(threads, how) for threads in THREADS if threads != "waits" for how in CODES] * ROUNDS
    with ThreadPoolExecutor(3) as several:
        list(several.map(lambda way: leave(*way), ways))


@pytest.mark.limit(600)
def test_f23_the_interpreter_ends_while_threads_wait_for_a_redis_that_does_not_answer() -> None:
    with deaf(), ThreadPoolExecutor(2) as several:
        list(several.map(lambda how: leave("waits", how), list(CODES) * ROUNDS))
