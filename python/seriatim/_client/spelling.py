"""Finds the setting whose name is nearly the given one, for the error of a misspelt name."""

from __future__ import annotations

from collections.abc import Iterable


def distance(one: str, other: str) -> int:
    """How many characters must be inserted, removed or replaced to make one of the other (Levenshtein)."""
    row = list(range(len(other) + 1))
    for place, letter in enumerate(one, 1):
        before, row[0] = row[0], place
        for at, known in enumerate(other, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (letter != known))
    return row[-1]


def nearest(name: str, known: Iterable[str]) -> tuple[str, int]:
    """The known name with the smallest distance, and that distance. Known: at least one."""
    return min(((other, distance(name, other)) for other in known), key=lambda pair: pair[1])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What a message says behind an unknown name; "" where no known name is near."""
    other, apart = nearest(name, known)
    return f" (did you mean {other}?)" if apart <= max(2, len(other) // 3) else ""
