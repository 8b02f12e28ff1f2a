"""seriatim.worker, the decorator: written by script/embed from core/definitions/; do not edit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar, overload

from ._definitions import Fold, OnExhausted, OnWaiting
from ._types import CodecSetting
from ._worker import FunctionWorker

P = ParamSpec("P")
R = TypeVar("R")


@overload
def worker(function: Callable[P, R], /) -> FunctionWorker[P, R]: ...


@overload
def worker(
    *,
    queue_name: str = ...,
    shards_count: int = ...,
    fold: Fold = ...,
    on_waiting: OnWaiting = ...,
    on_exhausted: OnExhausted = ...,
    max_retry_count: int = ...,
    ttr: float | None = ...,
    remember_score: float | None = ...,
    serial_shards: bool = ...,
    morgue_max_age: float | None = ...,
    morgue_max_count: int | None = ...,
    history_per_id: int = ...,
    batch_size: int = ...,
    max_running: int = ...,
    priority: int = ...,
    codec: CodecSetting = ...,
    retry_in: Callable[[int], float | Awaitable[float]] = ...,
    retries_exhausted: Callable[[list[Any]], Awaitable[None] | None] = ...,
) -> Callable[[Callable[P, R]], FunctionWorker[P, R]]: ...


def worker(function: Any = None, /, **options: Any) -> Any:
    """
    Makes a function (payloads_by_id) or (payloads_by_id, batch), `def` or `async def`, a worker. Options are the settings
    of Worker, and retry_in (count -> seconds) and retries_exhausted (jobs). The queue has the function's name.
    """
    if function is None:
        return lambda function: FunctionWorker(function, dict(options))
    return FunctionWorker(function, options)
