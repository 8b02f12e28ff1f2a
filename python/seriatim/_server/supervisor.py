"""Runs several server processes: hands signals on to them and starts a crashed one again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .. import _log, _native
from .signals import IGNORED, SERVER, WAITING, Signals

QUICK: Final = 5  # seconds: a process that ends sooner is started again only after a pause
LONGEST_PAUSE: Final = 30
GIVE_UP: Final = (2, 3)  # exit codes that a new start would only repeat: usage, no Redis
SECOND_LOOK: Final = 60  # seconds: after so long those codes are a crash as any other


@dataclass(frozen=True)
class Child:
    place: int
    process: subprocess.Popen[bytes]
    started: float


class Supervisor:
    """Each process gets a descriptor that becomes readable when the supervisor is gone."""

    def __init__(self, count: int, stop_timeout: float, command: Callable[[int], list[str]], signals: Signals) -> None:
        """
        signals: those of the time of loading.
        stop_timeout: seconds that a process takes to stop.
        command: the words that start one, given the number of its descriptor.
        """
        self._count = count
        self._signals = signals
        self._stop_timeout = stop_timeout
        self._command = command
        self._children: list[Child] = []
        self._due: dict[int, float] = {}  # place: when to start it
        self._quick: Counter[int] = Counter()
        self._code = 0
        self._stopping = self._quiet = False

    def run(self) -> int:
        """The exit code, when all have ended."""
        self._alive, self._held = os.pipe()
        self._signals.begin([*SERVER, "SIGCHLD"], at_once=self._kill_all)
        try:
            for place in range(self._count):
                self._start(place)
            while not self._stopping or self._children:
                self._supervise()
            return self._code
        finally:
            self._signals.close()

    def _supervise(self) -> None:
        self._act(self._signals.wait(0.2 if self._due or self._stopping else 60))
        self._reap()
        self._start_due()
        self._enforce_deadline()

    def _act(self, name: str | None) -> None:
        if name in ("SIGTERM", "SIGINT"):
            self._stop()
        elif name in ("SIGTSTP", "SIGTTIN"):
            self._quiet = self._quiet or name == "SIGTSTP"
            self._forward(signal.Signals[name])
        elif name in IGNORED:
            _log.info("signal", f"{name} is ignored")

    def _start(self, place: int) -> None:
        """In a session of its own, so that a terminal's Ctrl-C reaches the supervisor alone, which hands it on."""
        command = self._command(self._alive)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, WAITING)  # inherited, until the process has handlers
        try:
            process = subprocess.Popen(command, pass_fds=[self._alive], start_new_session=True)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if self._quiet:
            process.send_signal(signal.SIGTSTP)
        self._children.append(Child(place, process, time.monotonic()))
        _log.info("start", f"process {place + 1} of {self._count} has pid {process.pid}")

    def _reap(self) -> None:
        for child in self._children.copy():
            code = child.process.poll()
            if code is not None:
                self._children.remove(child)
                self._ended(child, code)

    def _ended(self, child: Child, code: int) -> None:
        if self._stopping:
            self._note_code(code)
            return
        lived = time.monotonic() - child.started
        text = f"process {child.place + 1} (pid {child.process.pid}) ended: {how(code)}"
        if code == 0:  # the dashboard asked for it
            _log.info("stop", text)
        else:
            _log.error("crash", text)
        if code in GIVE_UP and not any(map(is_long_lived, [child, *self._children])):
            self._code = code
            self._stop()
            return
        self._quick[child.place] = self._quick[child.place] + 1 if lived < QUICK else 0
        self._due[child.place] = time.monotonic() + min(self._quick[child.place] ** 2, LONGEST_PAUSE)

    def _note_code(self, code: int) -> None:
        """One that TERM itself ended had not begun to serve."""
        if self._code == 0 and code not in (0, -signal.SIGTERM):
            self._code = 1

    def _start_due(self) -> None:
        for place in [place for place, at in self._due.items() if time.monotonic() >= at]:
            del self._due[place]
            try:
                self._start(place)
            except OSError as error:  # no memory or no process left, perhaps only for now
                if not self._children:
                    raise
                _log.error("crash", f"process {place + 1} of {self._count} cannot be started: {_log.describe(error)}")
                self._due[place] = time.monotonic() + LONGEST_PAUSE

    def _stop(self) -> None:
        self._stopping = True
        self._due.clear()
        self._deadline = time.monotonic() + self._stop_timeout + 5
        self._forward(signal.SIGTERM)
        self._forward(signal.SIGCONT)  # one that a signal stopped before it had handlers would not hear of it

    def _enforce_deadline(self) -> None:
        if not self._stopping or not self._children or time.monotonic() <= self._deadline:
            return
        pids = ", ".join(str(child.process.pid) for child in self._children)
        _log.error("stop", f"killing processes that did not stop in {self._stop_timeout + 5} s: {pids}")
        self._forward(signal.SIGKILL)
        self._deadline = time.monotonic() + 5

    def _forward(self, number: signal.Signals) -> None:
        for child in self._children:
            child.process.send_signal(number)

    def _kill_all(self) -> None:
        """In a handler of a signal, which must not log."""
        pids = ", ".join(str(child.process.pid) for child in self._children)
        _native.write_stderr(f"seriatim: a second signal ended the server at once; killed: {pids}\n".encode())
        self._forward(signal.SIGKILL)
        os._exit(1)


def is_long_lived(child: Child) -> bool:
    """While such a process serves, the others may get what it got: an error of Redis passes, say."""
    return time.monotonic() - child.started >= SECOND_LOOK


def how(code: int) -> str:
    """A process' end, of a code as subprocess gives it."""
    names = {number.value: number.name for number in signal.Signals}
    return f"exit {code}" if code >= 0 else f"{names.get(-code, '')} (signal {-code})".strip()
