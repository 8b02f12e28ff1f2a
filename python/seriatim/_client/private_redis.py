"""
The private Redis, for development: started only if no URL is set, never in production. It lies in a data folder, on a
Unix socket, with its append-only file on; all processes that use the folder share it, and it ends with the last of
them. The folder is SERIATIM_DATA, or seriatim below XDG_DATA_HOME (~/.local/share).
"""

from __future__ import annotations

import os
import threading
from typing import Final

from .. import _log, _native
from .._errors import UsageError

ENVIRONMENT: Final = ("SERIATIM_ENV", "RAILS_ENV", "RACK_ENV", "APP_ENV")


class Refused(UsageError):
    """
    Nothing names a Redis, and in production none is started. The command ends with exit code 3 then, as for a Redis that
    cannot be reached.
    """

    def __init__(self) -> None:
        super().__init__("no Redis: set REDIS_URL or seriatim.redis (in production Seriatim starts no private one)")


_lock = threading.RLock()
_redis: _native.PrivateRedis | None = None


def url() -> str:
    """
    Starts or joins it and gives its URL.

    Raises UsageError in a production environment.
    """
    global _redis
    with _lock:
        if _redis is None:
            _redis = _start(folder())
        return _redis.url


def is_used() -> bool:
    """By this process."""
    return _redis is not None


def release() -> None:
    """Ends this process' use; the last one stops Redis."""
    global _redis
    with _lock:
        used, _redis = _redis, None
        if used is not None:
            used.release()


def folder() -> str:
    """Where it lies."""
    if given := os.environ.get("SERIATIM_DATA"):
        return os.path.abspath(os.path.expanduser(given))
    home = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(home, "seriatim")


def environment() -> str:
    """The first that is set of SERIATIM_ENV, RAILS_ENV, RACK_ENV and APP_ENV, or "development"."""
    return next((value for name in ENVIRONMENT if (value := os.environ.get(name))), "development")


def _start(folder: str) -> _native.PrivateRedis:
    if environment() == "production":
        raise Refused
    redis = _native.PrivateRedis(folder)
    begun = "started" if redis.started else "joined"
    _log.notice("redis", f"{begun} the private Redis in {folder}; set REDIS_URL to use another")
    return redis


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)
