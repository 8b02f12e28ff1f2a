"""Counts the checks and prints those that failed."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable


class Report:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scenarios = self._checks = self._failed = self._failed_apart = 0
        self._ran_apart = False

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

    def apart(self, label: str, run: Callable[[], None]) -> None:
        """Counts what the function runs in a line of its own, and not in that of finish."""
        scenarios, checks, failed = self._scenarios, self._checks, self._failed
        run()
        counts = f"{self._scenarios - scenarios} scenarios, {self._checks - checks} checks, {self._failed - failed} failed"
        print(f"{label}: {counts}", flush=True)
        self._ran_apart = self._checks > checks
        self._failed_apart += self._failed - failed
        self._scenarios, self._checks, self._failed = scenarios, checks, failed

    def finish(self) -> bool:
        """Something ran and nothing failed."""
        print(f"{self._scenarios} scenarios, {self._checks} checks, {self._failed} failed", flush=True)
        return (self._checks > 0 or self._ran_apart) and self._failed + self._failed_apart == 0
