"""A row of a vector file: each function gives what is wrong with it."""

from __future__ import annotations

import struct
from typing import Any

import seriatim
from recorder import worker
from seriatim import _native
from values import to_bytes, to_text

Row = dict[str, Any]


def shard_of(row: Row, redis: Any) -> list[str]:
    return same(row["shard"], _native.shard_of(to_bytes(row["id"]), row["shards_count"]))


def keys(row: Row, redis: Any) -> list[str]:
    redis.flush()
    seriatim.namespace = to_text(row["namespace"])
    worker("keys", {"name": row["queue"], "shards_count": row["shards_count"]}).perform_async([{"id": to_text(row["id"])}])
    return same([to_bytes(key) for key in row["keys"]], stored_keys(redis))


# Parts of keys that come and go by time and not by the steps: nodes, remembered pushes, and the history that a running server writes.
TIMED = (b":{/nodes}:", b":push:", b"}:history")


def stored_keys(redis: Any) -> list[bytes]:
    """The keys that the step keys compares."""
    found = [to_bytes(key) for key in redis.call("KEYS", "*")]
    return sorted(key for key in found if not any(part in key for part in TIMED))


def json(row: Row, redis: Any) -> list[str]:
    try:
        value = struct.unpack(">d", bytes.fromhex(row["double"]))[0] if "double" in row else _native.load(to_bytes(row["text"]))
        text = _native.dump(value, "payload").decode()
    except (seriatim.Invalid, seriatim.Undecodable) as error:
        return [] if row.get("refused") else [f"{type(error).__name__}: {error}"]
    if row.get("refused"):
        return [f"it was not refused, but written as {text}"]
    kind = {int: "integer", float: "float"}.get(type(value), type(value).__name__)
    return same(row["canonical"], text) + same(row.get("type", kind), kind)


def back_off(row: Row, redis: Any) -> list[str]:
    instance: Any = seriatim.Worker()
    samples: list[float] = [instance.retry_in(row["retry_count"]) for _ in range(1000)]
    return same(list(range(row["min"], row["max"] + 1, row["step"])), sorted(set(samples)))


def split(row: Row, redis: Any) -> list[str]:
    seriatim.threads_per_node = row["threads"]
    shards = [seriatim.Shard(None, index) for index in range(row["shards"])]
    if row["splitter"] == "default":
        splitter = seriatim.build_default_splitter()
    else:
        splitter = seriatim.build_by_node_splitter(row["nodes"], row["node"])
    return same(row["groups"], [[shard.index for shard in group] for group in splitter(shards) or []])


def same(wanted: Any, found: Any) -> list[str]:
    return [] if wanted == found else [f"it is {found!r}, not {wanted!r}"]
