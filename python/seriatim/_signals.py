"""Signals as names that the main thread reads from a pipe: nothing runs in a handler that could lock or log."""

from __future__ import annotations

import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Final

from . import _native

STOPS: Final = (signal.SIGTERM, signal.SIGINT)
OTHER: Final = "other"


class Signals:
    """Made on the main thread."""

    def __init__(self, names: Iterable[str], at_once: Callable[[], None] | None = None) -> None:
        """
        names: "SIGTERM" and the like.
        at_once: what the second SIGTERM or SIGINT does; None: it ends this process with exit code 1, even while a
            thread holds the GIL.
        """
        self._at_once = at_once
        self._stops = 0
        self._heard: deque[int] = deque()
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        numbers = [signal.Signals[name] for name in names]
        self._previous = {number: signal.signal(number, self._note) for number in numbers}
        if at_once is None:
            _native.exit_on_second([int(number) for number in STOPS], 1)
        self._open = True
        os.register_at_fork(after_in_child=self._leave_to_parent)

    def wait(self, seconds: float, other: int | None = None) -> str | None:
        """The next signal's name; None after so many seconds; "other" when that descriptor becomes readable."""
        deadline = time.monotonic() + seconds
        while not self._heard and seconds >= 0:
            ready = self._poll(seconds, other)
            if self._reader in ready:
                self._drain()
            elif ready:
                return OTHER
            seconds = deadline - time.monotonic()
        return signal.Signals(self._heard.popleft()).name if self._heard else None

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
            self._heard.extend(number for number in os.read(self._reader, 4096) if number in self._previous)
        except BlockingIOError:
            pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        """Only what the byte in the pipe cannot do."""
        if self._at_once is not None and number in STOPS:
            self._stops += 1
            if self._stops > 1:
                self._at_once()

    def _leave_to_parent(self) -> None:
        """A forked child shares the pipe: what is sent to it must not reach the parent."""
        if self._open:
            self._give_back()

    def _give_back(self) -> None:
        self._open = False
        signal.set_wakeup_fd(-1)
        if self._at_once is None:
            _native.exit_on_second([], 0)
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
