"""The command `seriatim`. Exit codes: 0 stopped, 1 crashed, 2 usage, 3 no Redis."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any, Final

from .. import _held_signals, _log, _native
from .._client import private_redis, redis_url
from .._errors import ApplicationError, AuthError, Error, Invalid, UsageError
from .._version import __version__
from . import config_file, output
from .exit_codes import CRASHED, NO_REDIS, STOPPED, USAGE, no_redis
from .operators import Operators
from .options import Options, log_level
from .server_command import ServerCommand

OPTIONS: Final = {  # by verb, or by verb and action
    name: frozenset(keys.split())
    for name, _, keys in (line.partition(": ") for line in (_native.command_text("options") or "").splitlines())
}
VERBS: Final = tuple((_native.command_text("verbs") or "").split())  # the same words in each language: core/command/command.json


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code. Arguments: those of the command line, if None."""
    output.fill_closed()
    try:
        code = run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()  # here, so that a closed pipe is noticed before the interpreter ends
        return code
    except private_redis.Refused as error:
        return complain(NO_REDIS, str(error))
    except ApplicationError as error:
        return refuse_application(error)
    except Invalid as error:
        return complain(USAGE, str(error), "see seriatim help")
    except AuthError as error:  # Redis answers
        return complain(NO_REDIS, str(error))
    except Error as error:
        return complain(NO_REDIS, f"no Redis: {error}") if no_redis(error) else complain(CRASHED, str(error))
    except OSError as error:
        closed = error.errno == errno.EBADF and output.was_closed()
        if error.errno not in (errno.EPIPE, errno.ENOSPC) and not closed:
            raise
        output.discard()
        return complain(CRASHED, f"the output cannot be written: {error.strerror}") if error.errno == errno.ENOSPC else CRASHED


def run(arguments: list[str]) -> int:
    options, words = Options().parse(arguments)
    refuse_foreign_option(options, words)
    if "help" in options or "version" in options or (words and words[0] in ("help", "version", "man", "completion")):
        print(said_of_itself(options, words), end="")
        return STOPPED
    return dispatch(with_config_file(options), words, arguments)


def said_of_itself(options: dict[str, Any], words: list[str]) -> str:
    """help, version and the like, which need neither Redis nor an application."""
    verb = words[0] if words else None
    if "help" in options or verb == "help":
        about = words[1:2] if verb == "help" else words[:1]
        if about and about[0] not in VERBS:
            raise UsageError(unknown(about[0]))
        text = _native.command_text(" ".join(["help", *about]))
    elif "version" in options or verb == "version":
        return f"seriatim {__version__}\n"
    else:
        text = _native.command_text(" ".join(words))
    if text is None:
        raise UsageError("usage: seriatim completion bash|zsh|fish")
    return text.replace("{program}", "seriatim")


def refuse_foreign_option(options: dict[str, Any], words: list[str]) -> None:
    """An option of another verb or action. With -h and -V none is used."""
    name = next((name for name in (" ".join(words[:2]), words[0] if words else "server") if name in OPTIONS), None)
    if name is None or "help" in options or "version" in options:
        return
    foreign = min(options.keys() - OPTIONS[name] - {"parent"}, default=None)
    if foreign is not None:
        raise UsageError(f"{_native.command_text(f'option {foreign}')}, not of {name}")


def unknown(verb: str) -> str:
    return f"unknown command {verb}; there are {', '.join(VERBS)}"


def dispatch(options: dict[str, Any], words: list[str], arguments: list[str]) -> int:
    verb, *rest = words or ["server"]
    if verb not in VERBS:
        raise UsageError(unknown(verb))
    for variable in private_redis.ENVIRONMENT if "environment" in options else ():
        os.environ[variable] = options["environment"]
    if verb in ("server", "web") and output.was_closed():
        output.discard()  # they go on without anybody who reads what they say, and so do jobs that print
    if verb != "server":
        _held_signals.release()
        _log.Output(sys.stderr, options.get("log_format"), log_level(options))
        return Operators(options).call(verb, rest)
    if rest:
        raise UsageError(f"unexpected {' '.join(rest)}")
    return ServerCommand(options, arguments).run()


def with_config_file(options: dict[str, Any]) -> dict[str, Any]:
    """What the command line says wins."""
    path = options.pop("config", None)
    return options if path is None else {**config_file.read(path, options.get("environment")), **options}


def refuse_application(error: ApplicationError) -> int:
    """One line; with -v also the traceback of what the application raised."""
    complain(USAGE, str(error))
    if error.__cause__ is not None and _log.is_debug():
        print(_log.printable_lines("".join(traceback.format_exception(error.__cause__)).rstrip("\n")), file=sys.stderr)
    return USAGE


def complain(code: int, *lines: str) -> int:
    print("seriatim:", "\n          ".join(map(_log.one_line, lines)), file=sys.stderr)
    return code
