"""journal.py - one file that every process appends to: what was pushed, begun, ended and failed, in one order."""

import json
import os
from functools import cache


@cache
def file() -> int:
    return os.open(os.environ["DEMO_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


def write(event: str, **fields: object) -> None:
    """One write call a record, so that the records of several processes never mix."""
    os.write(file(), f"{json.dumps({'event': event, **fields})}\n".encode())
