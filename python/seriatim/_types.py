"""
Types that several modules need. This module imports none of them, so a shared type never makes two modules import each
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, NamedTuple, Protocol, SupportsFloat, TypedDict, Union
from uuid import UUID

from . import _native

# ---- jobs

Id = Union[str, bytes]
"""An id as it is handed out: bytes only where it is not UTF-8."""

AnyId = Union[str, int, bytes, UUID]


class _JobId(TypedDict):
    id: AnyId


class Job(_JobId, total=False):
    """
    One job of perform_async; only the id is mandatory.

    payload: what JSON can say (""). score: orders the payloads of an id (arrival order). perform_in or perform_at
    (Unix seconds or an aware datetime) or delay (seconds from now, or a timedelta). deliver_at (as perform_in) or deliver_in (as
    delay): the payload is not there before then, joins and blocks nothing, and arrives then as a push does. on_waiting: keep,
    earlier, later, replace, reject or unique. context: texts that stay with the payload. retry_count: for tests and migration.
    """

    payload: Any
    score: SupportsFloat | None
    perform_in: SupportsFloat | datetime | None
    perform_at: SupportsFloat | datetime | None
    delay: SupportsFloat | timedelta | None
    deliver_at: SupportsFloat | datetime | None
    deliver_in: SupportsFloat | timedelta | None
    on_waiting: str | None
    context: Mapping[str, str] | None
    retry_count: int | None


AnyJob = Job
"""What a push takes. Not any Mapping as well: a type checker would then accept a misspelled key."""

# ---- results

class PushResult(NamedTuple):
    """What a push did."""

    added: int
    """Jobs that made a new waiting id."""
    folded: int
    """Jobs that united with an id that waits."""
    refused: int
    """Jobs that on_waiting reject or unique turned away."""
    refused_at: list[int]
    """Their places in the call, from 0."""
    scheduled: int = 0
    """Jobs that arrive later, at their deliver_at."""
    stale: int = 0
    """Jobs whose score was not above the one that is remembered of their id (remember_score): they are not kept."""
    handles: list[str | Any] = []
    """
    One a job, where the push was given handle=True or has a job with deliver_at; else empty. It names the payload for
    actions.cancel and actions.reschedule. A job that was folded into an equal payload has that one's; None: it was not kept,
    which a type checker does not ask for.
    """

    @property
    def value(self) -> PushResult:
        """The same: code in a block of pipelined reads the result so, when the block has ended."""
        return self


class Figures(TypedDict):
    """Counts of ids, and of scheduled payloads; lag in seconds; first (when the oldest is due; 0.0: none waits) and now in Unix seconds."""

    length: int
    scheduled: int
    stale: int
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
    morgue_removed: int
    first: float
    now: float
    paused: int


class ShardFigures(Figures):
    """Those of one shard, with its owner."""

    lease: int
    fence: int
    owner: str | None


# Numbers of shards, before and after; shards that ids still leave; how many ids have moved, and an estimate of how many are left.
Resharding = TypedDict("Resharding", {"from": int, "to": int, "shards_left": int, "ids_moved": int, "ids_left": int})


class Metrics(Figures):
    """Those of a queue and of each of its shards; and how far actions.reshard is, None while no ids move."""

    shards: list[ShardFigures]
    resharding: Resharding | None


class Node(TypedDict):
    """
    A living server process; description is its own text (host, process and versions), expires_in is in seconds, state "working",
    "quiet" or "stopping"; what it does not tell is None.
    """

    name: str
    description: str
    expires_in: float
    state: str
    # definitions: node fields, written by script/embed from core/definitions/nodes.json

    language: str | None
    """Programming language of its workers and its version, "ruby 3.1.2"; "c" of a host in C."""
    version: str | None
    """Version of Seriatim that it runs, "0.1.0"."""
    threads: int | None
    """Number of threads that run jobs."""
    since: int | None
    """Unix time in seconds, by its own clock, at which it started."""
    rss: int | None
    """Resident memory of its process in bytes."""
    clock_skew: float | None
    """Seconds that its clock is ahead of the clock of Redis."""

    # end of definitions


class Finding(TypedDict):
    """Something that should not be; detail in one sentence."""

    shard: int
    kind: str
    detail: str
    id: Id | None
    repaired: bool


class CheckResult(TypedDict):
    """looked_at: how many records."""

    looked_at: int
    findings: list[Finding]


# ---- what the client knows of a worker

Dump = Callable[[Any], Union[bytes, str]]
Load = Callable[[bytes], Any]
CodecSetting = Union[str, tuple[Dump, Load], None]
"""json, raw, a pair (dump, load), or None: the module's dump_payload and load_payload."""

class Codec(Protocol):
    nothing: ClassVar[object]
    """The payload of a job without one."""

    def dump(self, payload: Any, where: str) -> bytes:
        """Raises Invalid, which names where."""

    def load(self, data: bytes) -> Any: ...


class QueueOwner(Protocol):
    """A worker's class, as far as pushes, queries and actions need it."""

    @property
    def queue_name(self) -> str: ...

    def _queue_settings(self) -> _native.QueueSettings: ...

    def _payload_codec(self) -> Codec: ...
