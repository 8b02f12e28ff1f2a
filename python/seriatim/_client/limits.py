"""What is said of one push."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from .connection import Wait

SHORTEST: Final = 0.001
"""Seconds."""


class Limits(NamedTuple):
    wait: Wait
    deadline: float
    """Of the monotonic clock."""
    handle: bool

    def left(self) -> float:
        """Seconds; a push whose time is over is tried with the least that the core takes."""
        return max(self.deadline - time.monotonic(), SHORTEST)
