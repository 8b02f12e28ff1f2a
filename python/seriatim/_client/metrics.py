"""The figures of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from . import pool
from .connection import Connection

if TYPE_CHECKING:
    from .._worker import Worker


class Figures(TypedDict):
    """Counts of ids; lag in seconds; first (when the oldest is due; 0.0: none waits) and now in Unix seconds."""

    length: int
    fresh: int
    retries: int
    morgue_length: int
    lag: float
    processed: int
    failed: int
    busy: int
    parked: int
    unproven: int
    suspect: int
    refused: int
    first: float
    now: float
    paused: int


class ShardFigures(Figures):
    """Those of one shard, with its owner."""

    lease: int
    fence: int
    owner: str | None


class Metrics(Figures):
    """Those of a queue and of each of its shards."""

    shards: list[ShardFigures]


class Node(TypedDict):
    """A living server process; expires_in is in seconds, state "working", "quiet" or "stopping", rss in bytes, since in Unix
    seconds; what it does not tell is None."""

    name: str
    description: str
    expires_in: float
    state: str
    rss: int | None
    threads: int | None
    since: int | None


def of(worker: type[Worker]) -> Metrics:
    return pool.ask(lambda connection: connection.metrics(worker._queue_settings()))


def nodes() -> list[Node]:
    """The living nodes."""
    return pool.ask(Connection.nodes)
