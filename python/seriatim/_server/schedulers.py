"""
Chooses which shard of a group is next. The built-in schedulers are in the core. An application may give its own: a
callable that gets the list of candidates and returns one of them (or None, to wait). The list is the scheduler's own:
it may sort or shorten it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .._client import validate
from .._settings import settings


@dataclass(frozen=True)
class Candidate:
    """A shard that has something to run: lag in seconds since its oldest id became due, size in claimed ids."""

    worker: Any
    index: int
    lag: float
    size: int

    def is_same_shard(self, other: Candidate) -> bool:
        """A copy of a candidate (dataclasses.replace, say) stands for the same shard."""
        return self.worker is other.worker and self.index == other.index


@dataclass(frozen=True)
class Builtin:
    """One of the core's, by its number there."""

    number: int


OwnScheduler = Callable[[Sequence[Candidate]], Union[Candidate, None]]
Scheduler = Union[Builtin, OwnScheduler]

LAG, SEQ, PRIORITY = Builtin(0), Builtin(1), Builtin(2)


def build() -> Scheduler:
    """What seriatim.build_scheduler gives. Raises UsageError: it is no scheduler."""
    scheduler: Scheduler = settings.build_scheduler()
    if isinstance(scheduler, Builtin) or callable(scheduler):
        return scheduler
    rule = "give one of seriatim's schedulers or a callable (list of candidates -> one of them, or None)"
    raise validate.misuse("build_scheduler", rule, scheduler)


def build_lag_scheduler() -> Scheduler:
    """The shard that waits longest (default)."""
    return LAG


def build_seq_scheduler() -> Scheduler:
    """One shard after another."""
    return SEQ


def build_priority_scheduler() -> Scheduler:
    """The worker with the highest `priority`, among equals the shard that waits longest."""
    return PRIORITY


settings.set_default("build_scheduler", build_lag_scheduler)
