"""
Who runs which shards: callables that get the list of all shards (workers in list order, shard 0 to n-1) and return
groups of them, or None for no fixed groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from . import _check, _native
from ._settings import settings


@dataclass(frozen=True)
class Shard:
    """A shard of a worker's queue, as splitters see it."""

    worker: Any
    index: int


Splitter = Callable[[Sequence[Shard]], Union[Sequence[Sequence[Shard]], None]]


def build_balanced_splitter() -> Splitter:
    """The living nodes share all shards evenly, anew whenever one joins, leaves or dies (default)."""
    return lambda shards: None


def build_default_splitter() -> Splitter:
    """All shards on this node, dealt to threads_per_node threads."""
    return build_by_node_splitter(1, 0)


def build_by_node_splitter(number_of_nodes: int, node_number: int) -> Splitter:
    """Every number_of_nodes-th shard, from node_number (0 for the first node) on, dealt to threads_per_node threads."""
    _check.integer("number_of_nodes", number_of_nodes, 1, 100_000)
    _check.integer("node_number", node_number, 0, number_of_nodes - 1)

    def split(shards: Sequence[Shard]) -> list[list[Shard]]:
        hands = _native.split(len(shards), number_of_nodes, node_number, settings.threads_per_node)
        return [[shards[place] for place in hand] for hand in hands]

    return split
