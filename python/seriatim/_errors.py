"""The exceptions: Invalid for wrong arguments and settings, Error and its subclasses for failures at run time."""

from __future__ import annotations

import builtins

from ._types import PushResult


class Invalid(ValueError):
    """
    A setting, a job or a payload is invalid. The message names the field and the rule; nothing was written. The same call fails
    again, so retrying cannot help: that is why it is a ValueError and not an Error.
    """


class Error(Exception):
    """A failure at run time, of the network or of Redis: the same call may succeed later."""


class ConnectionError(Error, builtins.ConnectionError):
    """There is no connection to Redis, or it broke."""


class TimeoutError(ConnectionError, builtins.TimeoutError):
    """Redis did not answer in time."""


class PoolTimeout(Error):
    """All connections were busy for pool_timeout seconds."""


class OutcomeUnknown(Error):
    """A push was sent and no answer came within push_timeout: the message names the chunks that may have been written."""


class NotReplicated(Error):
    """The push is written, all of it, but fewer replicas than wait_replicas said in wait_timeout that they have it."""

    def __init__(self, message: str, result: PushResult | None = None) -> None:
        """result: what the push did."""
        super().__init__(message)
        self.result = result


class Stale(Error):
    """
    A result came too late: another node has taken the lease under which the jobs ran, or the time of a popped id is over and
    somebody else may run it. Nothing was changed.
    """


class RedisFull(Error):
    """Redis is at its maxmemory and refuses writes."""


class GenerationChanged(Error):
    """The queue was deleted, made anew or resharded since this process read its layout."""


class ReadOnly(Error):
    """Redis is a read-only replica."""


class NotReady(Error):
    """Redis still loads its data."""


class AuthError(Error):
    """Redis refused user or password."""


class RedisError(Error):
    """Redis refused for another reason; the message holds Redis' own words."""


class Unsupported(Error):
    """This build cannot do it (rediss:// without OpenSSL, for one)."""


class Closed(Error):
    """Used after it was closed, or in another process than the one that made it."""


class Undecodable(Error):
    """A payload that its worker's codec cannot read."""


class UsageError(Invalid):
    """What the command line answers with exit code 2."""


class UnknownSetting(AttributeError):
    """seriatim.NAME = value, where there is no such setting."""


class ApplicationError(UsageError):
    """
    The application that the command loads is wrong, not the command line. The message begins with the file and the line
    where there is one.
    """


_CLASSES: dict[str, type[Exception]] = {
    "INVALID": Invalid,
    "IO": ConnectionError,
    "PROTOCOL": ConnectionError,
    "TIMEOUT": TimeoutError,
    "UNKNOWN_OUTCOME": OutcomeUnknown,
    "STALE": Stale,
    "FULL": RedisFull,
    "GENERATION": GenerationChanged,
    "READONLY": ReadOnly,
    "LOADING": NotReady,
    "AUTH": AuthError,
    "SERVER": RedisError,
    "UNSUPPORTED": Unsupported,
    "CLOSED": Closed,
    "NOMEM": MemoryError,
    "UNDECODABLE": Undecodable,
    "REPLICAS": NotReplicated,
}


def from_status(name: str, message: str) -> Exception:
    """The exception for a status of the core; the C module calls it."""
    return _CLASSES.get(name, Error)(message)
