"""
producer.py - a process that pushes numbers 1..count to each of its ids, one by one, and notes each push that returned. One that
too few replicas have goes again.
"""

import os
import time

from workload import SETTINGS, pushed, worker

import seriatim

seriatim.push_timeout = 50  # outlasts the faults of the crash kit
for name, value in SETTINGS.get("seriatim", {}).items():
    setattr(seriatim, name, value)

queue = SETTINGS["queue"]
to = worker(queue, SETTINGS["workers"][queue])
until = SETTINGS.get("until")


def push(id: str, number: int) -> None:
    while True:
        try:
            to.perform_async([{"id": id, "payload": {"n": number, **SETTINGS.get("payload", {})}}])
            return
        except seriatim.NotReplicated:
            pass


for number in range(1, SETTINGS["count"] + 1):
    for id in SETTINGS["ids"]:
        push(id, number)
        pushed(queue, id, [number])
    time.sleep(SETTINGS.get("pause", 0))
    if until and os.path.exists(until):
        break
