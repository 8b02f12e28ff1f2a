"""The settings of a worker as types: written by script/embed from core/definitions/; do not edit."""

from __future__ import annotations

from typing import ClassVar, Literal

from ._types import CodecSetting

Fold = Literal["merge", "list", "last", "first"]
OnWaiting = Literal["keep", "earlier", "later", "replace", "reject", "unique"]
OnExhausted = Literal["bury", "park", "drop"]


class WorkerSettings:
    """Class attributes of a worker. Their defaults come from the core."""

    queue_name: ClassVar[str]
    """Names the queue, in every language. Default: the worker's name. 1 to 512 bytes."""
    shards_count: ClassVar[int]
    """How many parts the queue has, and the most servers that share it. Default: 5. 1 to 4096."""
    fold: ClassVar[Fold]
    """Which payloads of one id are kept while it waits. Default: merge. merge, list, last, first."""
    on_waiting: ClassVar[OnWaiting]
    """What a push to a waiting id does. Default: keep. keep, earlier, later, replace, reject, unique."""
    on_exhausted: ClassVar[OnExhausted]
    """What happens to an id whose retries are used up. Default: bury. bury, park, drop."""
    max_retry_count: ClassVar[int]
    """How often a failed id is retried; then on_exhausted says what happens. Default: 25. 0 to 1000000."""
    ttr: ClassVar[float | None]
    """How long a delivery may run before its ids run again; nil: no limit. Default: nil. 0.001 to 31536000."""
    remember_score: ClassVar[float | None]
    """How long jobs not scored above a run are refused; nil: never. Default: nil. 0.001 to 31536000."""
    serial_shards: ClassVar[bool]
    """Whether ids of one shard run one after another. Default: false."""
    morgue_max_age: ClassVar[float | None]
    """How long a dead id is kept in the morgue; nil: for ever. Default: nil. 0.001 to 3153600000."""
    morgue_max_count: ClassVar[int | None]
    """How many dead ids the morgue keeps; nil: all. Default: nil. 1 to 1000000000."""
    history_per_id: ClassVar[int]
    """How many of the last events of an id explain shows, for seven days; 0: none. Default: 0. 0 to 100."""
    batch_size: ClassVar[int]
    """How many ids one call of perform gets at most. Default: 1. 1 to 1000."""
    max_running: ClassVar[int]
    """How many ids of the worker run at once in one process; 0: no limit. Default: 0. 0 to 100000."""
    priority: ClassVar[int]
    """Which worker goes first under build_priority_scheduler: the higher one. Default: 0. -1000000 to 1000000."""
    codec: ClassVar[CodecSetting]
    """How payloads become bytes; nil: dump_payload and load_payload of the module. Default: nil."""
