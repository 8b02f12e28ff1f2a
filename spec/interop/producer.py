"""producer.py - a process that pushes numbers 1..count to each of its ids, one by one, and notes each push that returned."""

import os
import time

from workload import SETTINGS, pushed, worker

queue = SETTINGS["queue"]
to = worker(queue, SETTINGS["workers"][queue])
until = SETTINGS.get("until")

for number in range(1, SETTINGS["count"] + 1):
    for id in SETTINGS["ids"]:
        to.perform_async([{"id": id, "payload": {"n": number, **SETTINGS.get("payload", {})}}])
        pushed(queue, id, [number])
    time.sleep(SETTINGS.get("pause", 0))
    if until and os.path.exists(until):
        break
