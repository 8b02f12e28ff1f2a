"""
Splitters decide which shards a server runs: callables that get the list of all shards (workers in list order, shard 0
to n-1) and return groups of them, or None for no fixed groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from typing import Any, Union

from .. import _native
from .._client import validate
from .._errors import UsageError
from .._settings import settings


@dataclass(frozen=True)
class Shard:
    """A shard of a worker's queue, as splitters see it."""

    worker: Any
    index: int


Splitter = Callable[[Sequence[Shard]], Union[Sequence[Sequence[Shard]], None]]


_threads: ContextVar[int | None] = ContextVar("seriatim_threads", default=None)
"""Of the server that asks a splitter."""


def build() -> Splitter:
    """What seriatim.build_splitter gives. Raises UsageError: it cannot be called."""
    splitter: Splitter = settings.build_splitter()
    if callable(splitter):
        return splitter
    raise validate.misuse("build_splitter", "give a callable (list of shards -> list of groups of shards, or None)", splitter)


def groups(splitter: Splitter, shards: list[Shard], threads: int) -> list[list[Shard]] | None:
    """
    What the splitter gives this node, without empty groups; None: the nodes share the shards. Ours deal them to `threads`
    threads, also when a splitter of the application's own calls them.

    Raises UsageError: it is anything but groups of different shards, or no shard at all.
    """
    token = _threads.set(threads)
    try:
        given = splitter(shards.copy())  # which it may sort or shorten
    finally:
        _threads.reset(token)
    return None if given is None else _filled(given, set(shards))


def _filled(given: Any, known: set[Shard]) -> list[list[Shard]]:
    filled = [group for group in _lists(given) if group]
    if not filled:
        raise UsageError("build_splitter: the splitter gives this node no shard")
    seen: set[Shard] = set()
    for shard in chain.from_iterable(filled):
        if not isinstance(shard, Shard) or shard not in known:
            raise _no_groups(shard)
        if shard in seen:
            queue = shard.worker.queue_name
            raise UsageError(f"build_splitter: the splitter gives shard {shard.index} of queue {queue!r} twice")
        seen.add(shard)
    return filled


def _lists(given: Any) -> list[list[Any]]:
    try:
        return [list(group) for group in given]
    except TypeError:
        raise _no_groups(given) from None


def _no_groups(given: object) -> UsageError:
    rule = "give a list of groups, each a list of shards out of those it was given, or None"
    return validate.misuse("build_splitter: the splitter", rule, given)


def build_balanced_splitter() -> Splitter:
    """The living nodes share all shards evenly, anew whenever one joins, leaves or dies (default)."""
    return lambda shards: None


def build_default_splitter() -> Splitter:
    """All shards on this node, dealt to the server's threads."""
    return build_by_node_splitter(1, 0)


def build_by_node_splitter(number_of_nodes: int, node_number: int) -> Splitter:
    """Every number_of_nodes-th shard, from node_number (0 for the first node) on, dealt to the server's threads."""
    validate.integer("number_of_nodes", number_of_nodes, 1, 100_000)
    validate.integer("node_number", node_number, 0, number_of_nodes - 1)

    def split(shards: Sequence[Shard]) -> list[list[Shard]]:
        hands = _native.split(len(shards), number_of_nodes, node_number, _threads.get() or settings.threads_per_node)
        return [[shards[place] for place in hand] for hand in hands]

    return split


settings.set_default("build_splitter", build_balanced_splitter)
