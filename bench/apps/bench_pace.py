"""bench_pace.py APP - pushes jobs by the schedule of count.pace, each with the time from which it counts."""

import importlib
import sys

import count

app = importlib.import_module(f"bench_{sys.argv[1]}_latency")

for number, pushed in count.pace():
    app.timed(number, pushed)
