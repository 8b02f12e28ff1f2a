"""The step ick: calls on two-phase commit sets, each by the object that the step names."""

from __future__ import annotations

from typing import Any

import seriatim
from values import Values, number, to_text

Step = dict[str, Any]


class Sets:
    def __init__(self, values: Values) -> None:
        self._values = values
        self._objects: dict[str | None, seriatim.Ick] = {}

    def run(self, step: Step) -> list[str]:
        """What is wrong, as a list of texts."""
        ick = self._object(step)
        if "calls" not in step:
            return self._compare(step, self._call(ick, step))
        with ick.pipelined() as pipeline:
            futures = [self._call(pipeline, call) for call in step["calls"]]
        return [text for call, future in zip(step["calls"], futures) for text in self._compare(call, future.value)]

    def _object(self, step: Step) -> seriatim.Ick:
        label = step.get("object", step.get("as"))
        if label not in self._objects:
            options = {"consumer": step.get("as"), "reserve_time": step.get("reserve_time")}
            self._objects[label] = seriatim.Ick(**{key: value for key, value in options.items() if value is not None})
        return self._objects[label]

    def _call(self, ick: Any, step: Step) -> Any:
        call, name = step["call"], to_text(step.get("set", "k"))
        options = {"backwash": step["backwash"]} if "backwash" in step else {}
        if call == "ickadd":
            return ick.ickadd(name, self._pairs(step))
        if call == "ickcommit":
            return ick.ickcommit(name, self._members(step))
        if call == "ickreserve":
            return ick.ickreserve(name, step["size"], **options)
        if call == "ickexchange":
            return ick.ickexchange(name, step["size"], self._members(step), **options)
        if call == "import":
            return ick.import_(name, source=step["from"])
        return getattr(ick, call)(name)

    def _pairs(self, step: Step) -> list[Any]:
        if "numbers" in step:
            return [part for n in range(1, step["numbers"] + 1) for part in (n, str(n))]
        return [part for score, member in step.get("pairs", []) for part in (number(score), to_text(member))]

    def _members(self, step: Step) -> list[Any]:
        if "numbers" in step:
            return [str(n) for n in range(1, step["numbers"] + 1)]
        return [to_text(member) for member in step.get("members", [])]

    def _compare(self, step: Step, found: Any) -> list[str]:
        return self._values.compare(self._wanted(step), found, step["call"]) if "expect" in step else []

    def _wanted(self, step: Step) -> Any:
        expect = step["expect"]
        if step["call"] not in ("ickreserve", "ickexchange"):
            return expect
        if isinstance(expect, dict):
            return [[str(n), n] for n in range(1, expect["numbers"] + 1)]
        return [[member, number(score)] for member, score in expect]
