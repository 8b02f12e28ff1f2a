"""How the command ends."""

from typing import Final

from .._errors import AuthError, ConnectionError, NotReady

STOPPED: Final = 0
CRASHED: Final = 1
USAGE: Final = 2
NO_REDIS: Final = 3


def no_redis(error: BaseException) -> bool:
    """
    Does the error mean that Redis cannot be used? Redis answers those whose time has passed because no server moves the ids or shards
    that they wait for.
    """
    return isinstance(error, (AuthError, NotReady)) or (isinstance(error, ConnectionError) and not str(error).startswith("timed out: "))
