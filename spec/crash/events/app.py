"""Handles the events of events_spec.rb: appends "NAME begin EVENT" to TRACE, waits until the file GATE exists, appends "NAME end EVENT"."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import seriatim

NAME, TRACE, GATE = (os.environ[name] for name in ("NAME", "TRACE", "GATE"))

seriatim.lease_time = 8
seriatim.poll_interval = 0.2


def note(text: str) -> None:
    with open(TRACE, "a") as trace:
        trace.write(f"{NAME} {text}\n")


def handle(event: object, context: dict[str, str]) -> bool:
    note(f"begin {event}")
    while not os.path.exists(GATE):
        time.sleep(0.01)
    note(f"end {event}")
    return True


events = seriatim.events("shop")
events.on("Paid", handle, max_running=5)
events.on("Slow", handle, max_running=1)
events.on("Last", handle, attempts=1)


def run(type: str, result: bool) -> Callable[[object, dict[str, str]], bool]:
    """Without a gate; TYPE.EVENT.CONTEXT is noted."""

    def handler(event: object, context: dict[str, str]) -> bool:
        note(f"ran {type}.{event}.{context.get('of')}")
        return result

    return handler


for name in ("One", "Two", "Three"):
    events.on(name, run(name, True), max_running=3)
events.on("Fails", run("Fails", False), attempts=10, retry_in=[0])
