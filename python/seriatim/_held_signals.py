"""
SIGTERM and SIGINT while the command imports its modules, which takes a while: they are blocked, and take effect once it is known
what they mean. The server's handlers end the process with 0; any other verb is ended by the signal.
"""

import signal
import sys
from typing import Final

STOPS: Final = (signal.SIGTERM, signal.SIGINT)


def hold_for_the_command() -> None:
    """`python -m seriatim` imports the package before any line of the command; its entry point, seriatim_command, holds them itself."""
    words = sys.orig_argv
    # argv[0] is "-m" only while Python looks for the module that it is to run; later, or in a program's own import, it is a path.
    if sys.argv[:1] == ["-m"] and "-m" in words and words[words.index("-m") + 1] == "seriatim":
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)


def release() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
