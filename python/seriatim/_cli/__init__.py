"""The command `seriatim`. Exit codes: 0 stopped, 1 crashed, 2 usage, 3 no Redis."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from .. import _config_file, _log, _private_redis
from .._errors import AuthError, ConnectionError, Error, Invalid, NotReady, UsageError
from .._version import __version__
from .exit_codes import CRASHED, NO_REDIS, STOPPED, USAGE
from .operators import Operators
from .options import Options, log_level
from .server_command import ServerCommand

VERBS: Final = ("server", "push", "stats", "explain", "dead", "pause", "resume", "queues", "check", "reshard", "web")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Arguments: those of the command line, if None."""
    try:
        return run(sys.argv[1:] if arguments is None else list(arguments))
    except _private_redis.Refused as error:
        return complain(NO_REDIS, str(error))
    except Invalid as error:
        return complain(USAGE, str(error), "see seriatim --help")
    except (ConnectionError, AuthError, NotReady) as error:
        return complain(NO_REDIS, f"no Redis: {error}")
    except Error as error:
        return complain(CRASHED, str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return CRASHED


def run(arguments: list[str]) -> int:
    known = Options()
    options, words = known.parse(arguments)
    if "help" in options or "version" in options:
        print(known.help() if "help" in options else f"seriatim {__version__}", end="" if "help" in options else "\n")
        return STOPPED
    return dispatch(with_config_file(options), words, arguments)


def dispatch(options: dict[str, Any], words: list[str], arguments: list[str]) -> int:
    verb, *rest = words or ["server"]
    if verb not in VERBS:
        raise UsageError(f"unknown command {verb}; there are {', '.join(VERBS)}")
    for variable in _private_redis.ENVIRONMENT if "environment" in options else ():
        os.environ[variable] = options["environment"]
    if verb != "server":
        _log.Output(sys.stderr, options.get("log_format"), log_level(options))
        return Operators(options).call(verb, rest)
    if rest:
        raise UsageError(f"unexpected {' '.join(rest)}")
    return ServerCommand(options, arguments).run()


def with_config_file(options: dict[str, Any]) -> dict[str, Any]:
    """What the command line says wins."""
    path = options.pop("config", None)
    return options if path is None else {**_config_file.read(path, options.get("environment")), **options}


def complain(code: int, *lines: str) -> int:
    print("seriatim:", "\n          ".join(map(_log.one_line, lines)), file=sys.stderr)
    return code
