"""Pushes jobs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from .._errors import NotReplicated
from .._settings import check_push_timeout, check_wait_replicas, check_wait_timeout, settings
from .._types import AnyJob, PushResult, QueueOwner
from . import pipeline, pool, validate
from .limits import Limits
from .jobs import normalize_jobs, read_jobs
from .middlewares import call_async, call_sync


def push(
    worker: QueueOwner,
    jobs: Sequence[AnyJob],
    *,
    wait_replicas: int | None = None,
    wait_timeout: float | None = None,
    push_timeout: float | None = None,
    handle: bool = False,
) -> PushResult:
    """
    Checks everything, passes the jobs through the client middlewares, checks again and writes.

    wait_replicas, wait_timeout, push_timeout: None: as the module's settings say.
    """
    limits = _limits(wait_replicas, wait_timeout, push_timeout, handle)
    block = pipeline.current()
    chain = settings.client_middlewares
    if not chain:
        return _write(worker, jobs, limits) if block is None else block.add(worker, jobs, limits)
    normal = normalize_jobs(jobs)
    read_jobs(normal, worker._payload_codec())
    result = _result(0, 0, [])

    def core() -> PushResult:
        nonlocal result
        result = _write(worker, normal, limits) if block is None else block.add(worker, normal, limits)
        return result

    call_sync(chain, worker, normal, core)
    return result


async def apush(
    worker: QueueOwner,
    jobs: Sequence[AnyJob],
    *,
    wait_replicas: int | None = None,
    wait_timeout: float | None = None,
    push_timeout: float | None = None,
    handle: bool = False,
) -> PushResult:
    """The same without blocking the running event loop."""
    limits = _limits(wait_replicas, wait_timeout, push_timeout, handle)
    block = pipeline.current()  # a middleware may call the rest in another task
    chain = settings.client_middlewares
    if not chain:
        return await _awrite(worker, jobs, limits) if block is None else block.add(worker, jobs, limits)
    normal = normalize_jobs(jobs)
    read_jobs(normal, worker._payload_codec())
    result = _result(0, 0, [])

    async def core() -> PushResult:
        nonlocal result
        result = await _awrite(worker, normalize_jobs(normal), limits) if block is None else block.add(worker, normal, limits)
        return result

    await call_async(chain, worker, normal, core)
    return result


def _write(worker: QueueOwner, jobs: Sequence[AnyJob], limits: Limits) -> PushResult:
    read = read_jobs(jobs, worker._payload_codec())
    if not len(read):
        return _result(0, 0, [])
    with pool.current().lend(limits.left()) as connection:
        return _written(*connection.push(worker._queue_settings(), read, limits.wait, limits.left(), limits.handle))


async def _awrite(worker: QueueOwner, jobs: Sequence[AnyJob], limits: Limits) -> PushResult:
    read = read_jobs(jobs, worker._payload_codec())
    if not len(read):
        return _result(0, 0, [])
    async with (await pool.acurrent()).lend(limits.left()) as connection:
        return _written(*await connection.apush(worker._queue_settings(), read, limits.wait, limits.left(), limits.handle))


def _limits(replicas: int | None, wait_timeout: float | None, push_timeout: float | None, handle: bool) -> Limits:
    seconds = settings.push_timeout if push_timeout is None else check_push_timeout(push_timeout)
    wait = (
        settings.wait_replicas if replicas is None else check_wait_replicas(replicas),
        settings.wait_timeout if wait_timeout is None else check_wait_timeout(wait_timeout),
    )
    return Limits(wait, time.monotonic() + seconds, validate.flag("handle", handle))


def _written(
    added: int,
    folded: int,
    places: list[int],
    shortage: str | None,
    warning: str | None,
    scheduled: int,
    stale: int,
    handles: list[str | None],
) -> PushResult:
    if warning is not None:
        pipeline.warn_once(warning)
    result = PushResult(added, folded, len(places), places, scheduled, stale, handles)
    if shortage is not None:
        raise NotReplicated(shortage, result)
    return result


def _result(added: int, folded: int, places: list[int]) -> PushResult:
    return PushResult(added, folded, len(places), places, 0, 0, [])
