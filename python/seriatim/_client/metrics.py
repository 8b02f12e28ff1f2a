"""The metrics of queues, and the living nodes."""

from __future__ import annotations

from .._types import Metrics, Node, QueueOwner
from . import pool


def of(worker: QueueOwner) -> Metrics:
    return pool.ask(lambda connection: connection.metrics(worker._queue_settings()))


def nodes() -> list[Node]:
    """The living nodes."""
    return pool.ask(lambda connection: connection.nodes())
