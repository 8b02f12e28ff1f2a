"""
popper.py - the crash kit's popper in Python: what popper.c does.

  popper.py QUEUE ttr_seconds max [async]      async: by a coroutine
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "interop"))
from workload import pack, write  # noqa: E402

import seriatim  # noqa: E402

WAIT = 0.5


class Popper:
    def __init__(self, queue: str, ttr: str, most: str) -> None:
        self.queue = queue
        self.settings: dict[str, Any] = {"wait": WAIT, "ttr": float(ttr), "max": int(most)}
        self.runs = 0
        self.ending = False
        self.point, _, self.die_in = os.environ.get("DIE", "").partition(":")

    def begin(self) -> None:
        signal.signal(signal.SIGTERM, self.end)
        write("popper", os.getpid(), self.settings["ttr"])
        print("popper start ", file=sys.stderr, flush=True)

    def end(self, *_: object) -> None:
        self.ending = True

    def run(self) -> None:
        self.begin()
        while not self.ending:
            try:
                delivery = seriatim.pop(self.queue, **self.settings)
                if delivery and self.work_on(delivery):
                    self.report(delivery, delivery.ack)
                elif delivery:
                    self.report(delivery, delivery.release)
            except seriatim.Error as error:
                print("pop:", error, file=sys.stderr)
                time.sleep(0.1)

    async def arun(self) -> None:
        self.begin()
        while not self.ending:
            try:
                delivery = await seriatim.apop(self.queue, **self.settings)
                if delivery and self.work_on(delivery):
                    await self.areport(delivery, delivery.aack)
                elif delivery:
                    await self.areport(delivery, delivery.arelease)
            except seriatim.Error as error:
                print("pop:", error, file=sys.stderr)
                time.sleep(0.1)

    def work_on(self, delivery: Any) -> bool:
        """Returns whether to acknowledge: every tenth run ends without that, and its id comes again."""
        self.runs += 1
        done = self.runs % 10 != 0
        self.step("popped")
        numbers = pack([payload["n"] for payload in delivery.payloads])
        write("start", os.getpid(), self.queue, delivery.id, delivery.fence, -1, numbers, time.monotonic())
        for payload in delivery.payloads:
            time.sleep(payload.get("sleep", 0))
        self.step("perform_during")
        self.note("end" if done else "fail", delivery)
        self.step("acknowledge")
        return done

    def report(self, delivery: Any, send: Any) -> None:
        try:
            send()
            self.note("reported", delivery)
        except seriatim.Stale:
            self.note("refused", delivery)
        self.step("acknowledged")

    async def areport(self, delivery: Any, send: Any) -> None:
        try:
            await send()
            self.note("reported", delivery)
        except seriatim.Stale:
            self.note("refused", delivery)
        self.step("acknowledged")

    def note(self, kind: str, delivery: Any) -> None:
        write(kind, os.getpid(), self.queue, delivery.id, delivery.fence, time.monotonic())

    def step(self, point: str) -> None:
        if point == self.point and self.runs == int(self.die_in):
            os.kill(os.getpid(), signal.SIGKILL)


if sys.argv[4:] == ["async"]:
    asyncio.run(Popper(*sys.argv[1:4]).arun())
else:
    Popper(*sys.argv[1:4]).run()
