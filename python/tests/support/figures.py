"""
How often a fault is made, and what came of it: as spec/support/figures.rb. SOAK=1 asks for the counts of the long run; FIGURES names
the file to which each figure is appended as a line of JSON.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

SOAK = os.environ.get("SOAK") == "1"


def count(short: int, soak: int) -> int:
    """The second in the long run, otherwise the first."""
    return soak if SOAK else short


def note(fault: str, what: str, value: int | float | str) -> None:
    """fault: "F1". what: what was counted."""
    path = os.environ.get("FIGURES")
    if path:
        with Path(path).open("a") as file:
            file.write(json.dumps({"fault": fault, "what": what, "value": value, "soak": SOAK}) + "\n")
