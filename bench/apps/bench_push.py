"""bench_push.py APP single|bulk|fill|wait COUNT - pushes and prints the seconds that it took.

`single` is one job a call, all others are 10,000 a call; `fill` and `wait` leave exactly COUNT jobs, `wait` ones with a
payload of 30 bytes.
"""

import importlib
import sys

import count

BULK = 10_000
PAYLOAD = "x" * 28  # 30 bytes as JSON

app = importlib.import_module(f"bench_{sys.argv[1]}")
mode = sys.argv[2]
jobs = int(sys.argv[3])


def push() -> None:
    if mode == "single":
        for id in range(1, jobs + 1):
            app.single(id)
        return
    for start in range(1, jobs + 1, BULK):
        ids = range(start, min(start + BULK, jobs + 1))
        app.wait(ids, PAYLOAD) if mode == "wait" else app.bulk(ids)


if mode == "single":
    app.single(0)  # connects
elif mode == "bulk":
    app.bulk([0])
begin = count.now()
push()
print(count.now() - begin)
