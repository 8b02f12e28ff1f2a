"""
Where signals (TERM, INT, TSTP, TTIN and others) arrive: the handler writes the name to a pipe, which the main thread
reads. A handler may neither lock nor log.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

from .. import _native
from .._held_signals import STOPS

SERVER: Final = ("SIGTERM", "SIGINT", "SIGTSTP", "SIGTTIN")
IGNORED: Final = ("SIGHUP", "SIGUSR1")  # only told of in the log, where the application does not handle them
WAITING: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGHUP, signal.SIGUSR1)  # blocked in a new process until it has handlers
OTHER: Final = "other"


class Signals:
    """Made on the main thread."""

    @classmethod
    def while_loading(cls) -> Signals:
        """
        While the application is loaded nothing can be handed back yet: SIGTERM and SIGINT end the process with 0, the others
        wait for begin().
        """
        signals = cls((*SERVER, *IGNORED), allowed=0, code=0)
        atexit.register(signals._leave)
        return signals

    def _leave(self) -> None:
        """The interpreter's end takes the handlers away: the second of two SIGTERM that are one must not become its end."""
        if self._has(signal.SIGTERM):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def __init__(
        self, names: Iterable[str], at_once: Callable[[], None] | None = None, allowed: int = 1, code: int = 1
    ) -> None:
        """
        names: "SIGTERM" and the like.
        at_once: what the second SIGTERM or SIGINT does; None: one beyond the allowed ones ends this process with the
            exit code, even while a thread holds the GIL.
        """
        self._previous: dict[int, Any] = {}
        self._heard: deque[int] = deque()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        self._take(names, at_once, allowed, code)
        self._open = True
        self._forking = threading.local()
        os.register_at_fork(before=self._hold_for_fork, after_in_parent=self._release_after_fork, after_in_child=self._leave_to_parent)

    def begin(self, names: Iterable[str], at_once: Callable[[], None] | None = None) -> None:
        """The end of loading, which may have set handlers of its own: takes the signals again, with another rule for the stops."""
        self._take(names, at_once, 1, 1)

    def _take(self, names: Iterable[str], at_once: Callable[[], None] | None, allowed: int, code: int) -> None:
        self._at_once = at_once
        _native.exit_beyond([], allowed, 0)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for name in names:
            number = signal.Signals[name]
            before = signal.getsignal(number)
            if name not in IGNORED or before in (signal.SIG_DFL, self._note):  # else it is the application's, or nohup's
                self._previous.setdefault(number, before)
                signal.signal(number, self._note)
        if at_once is None:
            _native.exit_beyond([int(number) for number in STOPS], allowed, code)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*WAITING, *STOPS))

    def wait(self, seconds: float, other: int | None = None) -> str | None:
        """The next signal's name; None when none came within `seconds`; "other" when that descriptor becomes readable."""
        deadline = time.monotonic() + seconds
        while not self._heard and seconds >= 0:
            ready = self._poll(seconds, other)
            if self._reader in ready:
                self._drain()
            elif ready:
                return OTHER
            seconds = deadline - time.monotonic()
        return signal.Signals(self._heard.popleft()).name if self._heard else None

    def has_heard(self, name: str) -> bool:
        """Is it among those that wait() will give?"""
        self._drain()
        return signal.Signals[name] in self._heard

    def close(self) -> None:
        """Gives the handlers back."""
        self._give_back()
        os.close(self._reader)
        os.close(self._writer)

    def _poll(self, seconds: float, other: int | None) -> list[int]:
        poll = select.poll()
        for descriptor in (self._reader, other):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]

    def _drain(self) -> None:
        try:
            self._heard.extend(number for number in os.read(self._reader, 4096) if self._hears(number))
        except BlockingIOError:
            pass

    def _hears(self, number: int) -> bool:
        """Python writes the byte of every signal that has a handler. The application may have set one for HUP or USR1."""
        return number in self._previous and (number not in (signal.SIGHUP, signal.SIGUSR1) or self._has(number))

    def _has(self, number: int) -> bool:
        return signal.getsignal(number) == self._note

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Only what the byte in the pipe cannot do."""
        if self._at_once is not None and number in STOPS and _native.ending_counts(number):
            self._at_once()

    def _hold_for_fork(self) -> None:
        """What is sent to a child before it has its handlers waits until then."""
        if self._open:
            self._forking.mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._previous)

    def _release_after_fork(self) -> None:
        mask = self._forking.__dict__.pop("mask", None)
        if mask is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def _leave_to_parent(self) -> None:
        """A forked child shares the pipe: what is sent to it must not reach the parent."""
        if self._open:
            self._give_back()
        self._release_after_fork()

    def _give_back(self) -> None:
        self._open = False
        signal.set_wakeup_fd(-1)
        if self._at_once is None:
            _native.exit_beyond([], 0, 0)
        for number, handler in self._previous.items():
            if self._has(number):  # else the application has set one of its own since
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
