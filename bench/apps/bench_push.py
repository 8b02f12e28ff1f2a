"""bench_push.py APP single|together|pipelined|bulk|fill|wait COUNT - pushes and prints the seconds that it took.

`single` is one job a call; `together` the same from 8 threads; `pipelined` from 8 threads, 100 calls in a pipeline; all
others are 10,000 jobs a call. `fill` and `wait` leave exactly COUNT jobs, `wait` ones with a payload of 30 bytes.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import count

BULK = 10_000
PIPELINE = 100
THREADS = 8
PAYLOAD = "x" * 28  # 30 bytes as JSON

app = importlib.import_module(f"bench_{sys.argv[1]}")
mode = sys.argv[2]
jobs = int(sys.argv[3])


def slices(ids: Sequence[int], length: int) -> list[Sequence[int]]:
    return [ids[start : start + length] for start in range(0, len(ids), length)]


def in_threads(push: Callable[[Sequence[int]], None], ids: Sequence[int]) -> None:
    """Each thread gets the same part of the ids."""
    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(push, slices(ids, -(-len(ids) // THREADS))))


def push_each(ids: Sequence[int]) -> None:
    for id in ids:
        app.single(id)


def push_pipelines(ids: Sequence[int]) -> None:
    for part in slices(ids, PIPELINE):
        app.pipelined(part)


def push(ids: Sequence[int]) -> None:
    if mode == "single":
        push_each(ids)
    elif mode in ("together", "pipelined"):
        in_threads(push_each if mode == "together" else push_pipelines, ids)
    else:
        for part in slices(ids, BULK):
            app.wait(part, PAYLOAD) if mode == "wait" else app.bulk(part)


if mode not in ("fill", "wait"):
    push([0] * (1 if mode in ("single", "bulk") else THREADS))  # connects
begin = count.now()
push(range(1, jobs + 1))
print(count.now() - begin)
