"""Counts the checks and prints those that failed."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable


class Report:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scenarios = self._checks = self._failed = 0

    def scenario(self) -> None:
        self._scenarios += 1

    def check(self, where: str, examine: Callable[[], list[str] | None]) -> None:
        """One check: the function gives what was wrong, a list of texts."""
        try:
            wrong = examine() or []
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            wrong = [f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"]
        with self._lock:
            self._checks += 1
            if wrong:
                self._failed += 1
                print(f"FAILED {where}: {'; '.join(wrong)[:2000]}", flush=True)

    def finish(self) -> bool:
        """Something ran and nothing failed."""
        print(f"{self._scenarios} scenarios, {self._checks} checks, {self._failed} failed", flush=True)
        return self._checks > 0 and self._failed == 0
