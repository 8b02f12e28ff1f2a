"""The entry point of the command `seriatim`, apart from the package because that is imported before any module of it runs."""

import signal


def main() -> int:
    """The exit code."""
    # The first act: the imports take a while, and SIGTERM would end the process meanwhile. The command unblocks them.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    from seriatim._cli.main import main as command

    return command()
