"""How the command ends."""

from typing import Final

STOPPED: Final = 0
CRASHED: Final = 1
USAGE: Final = 2
NO_REDIS: Final = 3
