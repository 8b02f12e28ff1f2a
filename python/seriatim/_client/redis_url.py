"""
Finds the URL of Redis: seriatim.redis, then SERIATIM_REDIS_URL, then the variable that REDIS_PROVIDER names, then
REDIS_URL, then a private one.
"""

from __future__ import annotations

import os

from .._settings import check_url, settings
from . import private_redis, validate


def resolve() -> str:
    """The URL of the Redis in use; starts the private one if there is no other."""
    return _configured() or os.environ.get(_variable() or "") or private_redis.url()


redis_url = resolve


def is_none() -> bool:
    """Nothing names a Redis, so a private one would be used."""
    return named_by() is None


def named_by() -> str | None:
    """The setting or the variable that holds the URL; None: none does."""
    return _variable() if settings.redis is None else "seriatim.redis"


def _configured() -> str | None:
    given = settings.redis
    if given is None:
        return None
    url = given() if callable(given) else given
    if isinstance(url, str) and url:
        return url if url is given else check_url("redis", url)
    raise validate.refusal("redis", "a URL, or a callable that gives one", url)


def _variable() -> str | None:
    names = ("SERIATIM_REDIS_URL", os.environ.get("REDIS_PROVIDER", ""), "REDIS_URL")
    return next((name for name in names if os.environ.get(name)), None)
