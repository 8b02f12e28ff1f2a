"""bench_time.py APP - pushes BENCH_JOBS jobs, 20 ms apart, each with the time just before its push."""

import importlib
import sys
import time

import count

app = importlib.import_module(f"bench_{sys.argv[1]}_latency")

for id in range(count.JOBS):
    app.timed(id)
    time.sleep(0.02)
