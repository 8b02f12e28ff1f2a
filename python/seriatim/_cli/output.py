"""The standard files of the command, of which its caller may have closed some (`>&-`)."""

from __future__ import annotations

import os
import sys
from typing import Final

# Of the descriptors 0, 1 and 2. What is written to a closed standard output fails, so that the command does not say that all is well.
# A complaint has no other place to go to, so it is lost.
MODES: Final = (os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)


def fill_closed() -> None:
    """
    Opens /dev/null in place of what is closed. Otherwise a connection would get its number, and Python, which has None for such a
    file, would print complaints to standard output.
    """
    for descriptor, mode in enumerate(MODES):
        if is_closed(descriptor):
            os.set_inheritable(os.open(os.devnull, mode), True)  # the lowest number that is free, which is this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)


def is_closed(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
        return False
    except OSError:
        return True


def was_closed() -> bool:
    """Standard output, when Python started."""
    return sys.__stdout__ is None


def discard() -> None:
    """What is written from now on is lost, and so is what is still to be written: the interpreter flushes once more at its end."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
