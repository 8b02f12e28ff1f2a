"""Warns if Redis is not configured to keep jobs."""

from __future__ import annotations

from .. import _log
from .._client.connection import Connection
from .._settings import settings

PATIENCE = 5.0  # seconds


def check(url: str) -> None:
    """Asks the Redis of this URL for its settings."""
    try:
        connection = Connection(url, settings.namespace)
        try:
            _judge(**connection.health(PATIENCE))
        finally:
            connection.close()
    except Exception as error:
        _warn(f"maxmemory-policy and appendonly cannot be checked: {_log.describe(error)}")


def _judge(maxmemory_policy: str | None, appendonly: bool | None, replicas: int | None) -> None:
    if maxmemory_policy is None and appendonly is None:
        _warn("Redis forbids INFO, so maxmemory-policy and appendonly cannot be checked")
    if maxmemory_policy not in (None, "noeviction"):
        _warn(f"maxmemory-policy is {maxmemory_policy}: Redis may throw jobs away; set it to noeviction")
    if appendonly is False:
        _warn("appendonly is no: what Redis has not saved is lost when it stops; set it to yes")
    wanted = settings.wait_replicas
    if replicas is not None and replicas < wanted:
        _warn(f"wait_replicas is {wanted}, but Redis has {replicas} replicas: every push will say NotReplicated")


def _warn(text: str) -> None:
    _log.warn("redis", text)
