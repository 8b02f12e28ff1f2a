"""Pushes jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from . import _jobs, _pool
from ._middlewares import call_async, call_sync
from ._settings import settings

if TYPE_CHECKING:
    from ._jobs import AnyJob, Job
    from ._worker import Worker


class PushResult(NamedTuple):
    """What a push did."""

    added: int
    """Jobs that made a new waiting id."""
    folded: int
    """Jobs that united with an id that waits."""
    refused: int
    """Jobs that on_waiting reject turned away."""
    refused_at: list[int]
    """Their places in the call, from 0."""


def push(worker: type[Worker], jobs: Sequence[AnyJob]) -> PushResult:
    """Checks everything, passes the jobs through the client middlewares, checks again and writes."""
    normal = _jobs.normalize(jobs)
    chain = settings.client_middlewares
    if not chain:
        return _write(worker, normal)
    _jobs.rows(normal, worker._payload_codec())
    result = _result(0, 0, [])

    def core() -> PushResult:
        nonlocal result
        result = _write(worker, _jobs.normalize(normal))
        return result

    call_sync(chain, worker, normal, core)
    return result


async def apush(worker: type[Worker], jobs: Sequence[AnyJob]) -> PushResult:
    """The same without blocking the running event loop."""
    normal = _jobs.normalize(jobs)
    chain = settings.client_middlewares
    if not chain:
        return await _awrite(worker, normal)
    _jobs.rows(normal, worker._payload_codec())
    result = _result(0, 0, [])

    async def core() -> PushResult:
        nonlocal result
        result = await _awrite(worker, _jobs.normalize(normal))
        return result

    await call_async(chain, worker, normal, core)
    return result


def _write(worker: type[Worker], jobs: list[Job]) -> PushResult:
    rows = _jobs.rows(jobs, worker._payload_codec())
    if not rows:
        return _result(0, 0, [])
    with _pool.current().lend() as connection:
        return _result(*connection.push(worker._queue_settings(), rows))


async def _awrite(worker: type[Worker], jobs: list[Job]) -> PushResult:
    rows = _jobs.rows(jobs, worker._payload_codec())
    if not rows:
        return _result(0, 0, [])
    async with (await _pool.acurrent()).lend() as connection:
        return _result(*await connection.apush(worker._queue_settings(), rows))


def _result(added: int, folded: int, places: list[int]) -> PushResult:
    return PushResult(added, folded, len(places), places)
