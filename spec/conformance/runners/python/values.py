"""The values of the files, and the comparison with what was found."""

from __future__ import annotations

import time
from typing import Any

FLOATS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
BYTES = ({"hex"}, {"repeat", "times"})


def to_bytes(value: Any) -> bytes:
    """The bytes that a text, {"hex"} or {"repeat", "times"} means."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    repeated: str = value["repeat"] * value["times"]
    return repeated.encode()


def to_text(value: Any) -> Any:
    """The same as str where they are UTF-8; anything else as it is."""
    if not isinstance(value, (str, bytes, dict)):
        return value
    found = to_bytes(value)
    try:
        return found.decode()
    except UnicodeDecodeError:
        return found


def number(value: Any) -> Any:
    return FLOATS.get(value, value) if isinstance(value, str) else value


def same(wanted: Any, found: Any) -> bool:
    texts = (str, bytes)
    if isinstance(wanted, texts) and isinstance(found, texts):
        return to_bytes(wanted) == to_bytes(found)
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return bool(wanted == found)


def equal(wanted: Any, found: Any) -> bool:
    """Whole values; unlike ==, True is not 1."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(equal(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(equal, wanted, found))
    return same(wanted, found)


def differs(wanted: Any, found: Any, where: str) -> list[str]:
    return [f"{where} is {repr(found)[:300]}, not {repr(wanted)[:300]}"]


class Values:
    def __init__(self, start: float = 0.0) -> None:
        """start: T."""
        self.start = start

    def compare(self, wanted: Any, found: Any, where: str) -> list[str]:
        """What is wrong with `found`, as a list of texts."""
        if isinstance(wanted, dict):
            return self._compare_dict(wanted, found, where)
        if isinstance(wanted, list):
            return self._compare_list(wanted, found, where)
        return [] if same(wanted, found) else differs(wanted, found, where)

    def compare_payloads(self, wanted: list[Any], found: Any, where: str, raw: bool) -> list[str]:
        """Payloads are compared whole."""
        if raw:
            wanted = [to_bytes(value) for value in wanted]
        return [] if found is not None and equal(wanted, list(found)) else differs(wanted, found, where)

    def compare_scored(self, wanted: list[Any], found: list[Any], where: str, raw: bool) -> list[str]:
        """[(payload, score), ...]"""
        payloads, scores = [list(half) for half in zip(*found)] if found else ([], [])
        return self.compare_payloads([pair[0] for pair in wanted], payloads, where, raw) + self.compare(
            [pair[1] for pair in wanted], scores, f"{where}, scores"
        )

    def compare_record(self, wanted: dict[str, Any], found: Any, where: str, raw: bool, scored: bool = False) -> list[str]:
        """The members of an object that a list of records or jobs is made of."""
        wrong = []
        for key, value in wanted.items():
            at = f"{where}.{key}"
            if key != "payloads":
                wrong += self.compare(value, found.get(key), at)
            elif scored and value and isinstance(value[0], list):
                wrong += self.compare_scored(value, found[key], at, raw)
            else:
                wrong += self.compare_payloads(value, found.get(key), at, raw)
        return wrong

    def _compare_dict(self, wanted: dict[str, Any], found: Any, where: str) -> list[str]:
        if set(wanted) in BYTES:
            return [] if same(to_text(wanted), found) else differs(wanted, found, where)
        fits = self._special(wanted, found)
        if fits is not None:
            return [] if fits else differs(wanted, found, where)
        if not isinstance(found, dict):
            return differs(wanted, found, where)
        return [text for key, value in wanted.items() for text in self.compare(value, found.get(key), f"{where}.{key}")]

    def _special(self, wanted: dict[str, Any], found: Any) -> bool | None:
        """None: it is none of them."""
        if "has" in wanted:
            return to_bytes(wanted["has"]) in to_bytes(found if found is not None else "")
        if "at" in wanted:
            return self._near(found, self.start + wanted["at"], wanted["within"])
        if "from" in wanted:
            return isinstance(found, (int, float)) and wanted["from"] <= found - self.start <= wanted["to"]
        if "from_now" in wanted:
            return self._near(found, time.time() + wanted["from_now"], wanted["within"])
        if not wanted or set(wanted) - {"min", "max"}:
            return None
        return isinstance(found, (int, float)) and wanted.get("min", -FLOATS["Infinity"]) <= found <= wanted.get("max", FLOATS["Infinity"])

    def _near(self, found: Any, moment: float, within: float) -> bool:
        return isinstance(found, (int, float)) and abs(found - moment) <= within

    def _compare_list(self, wanted: list[Any], found: Any, where: str) -> list[str]:
        if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
            return differs(wanted, found, where)
        return [text for at, value in enumerate(wanted) for text in self.compare(value, found[at], f"{where}[{at}]")]
