"""The command's options and its help."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from .. import _log
from .._errors import UsageError

BANNER: Final = """\
Usage: seriatim -r PATH [options]                    run the server
       seriatim push QUEUE ID [PAYLOAD]              enqueue; PAYLOAD is JSON
       seriatim stats [QUEUE...] [--json]            the figures of the queues
       seriatim explain QUEUE ID                     why this id is or is not running
       seriatim dead list|retry|delete QUEUE [ID...] [--all]
       seriatim pause|resume QUEUE [ID]              a queue, or one id of it
       seriatim queues delete QUEUE [--force QUEUE]  delete a queue that no node serves; with what it holds: --force
       seriatim check [QUEUE...] [--repair]          prove what is stored; exit code 1 if it is not right
       seriatim web [--bind ADDRESS] [--port N]      the dashboard, at http://127.0.0.1:9292/

Redis: SERIATIM_REDIS_URL, REDIS_URL or seriatim.redis; without any, a private one (not in production).

"""

PARENT: Final = "--parent"  # the descriptor by which a process of -p hears that its supervisor is gone


class Value(argparse.Action):
    """An option's value as `convert` gives it."""

    def __init__(self, option_strings: Sequence[str], dest: str, convert: Callable[[str], Any], **other: Any) -> None:
        super().__init__(option_strings, dest, **other)
        self._convert = convert

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        try:
            setattr(namespace, self.dest, self._convert(values))
        except ValueError:
            raise UsageError(f"invalid argument: {option_string} {values}") from None


class Raising(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


class Options:
    """What the command line says. Only what was given is among the options."""

    def __init__(self) -> None:
        self._rows: list[str] = []
        self._parser = Raising(
            prog="seriatim", add_help=False, argument_default=argparse.SUPPRESS, exit_on_error=False, usage="seriatim"
        )
        self._parser.add_argument("words", nargs="*", default=[])
        self._parser.add_argument(PARENT, action=Value, convert=int)
        self._server_options()
        self._verb_options()
        self._rows.append("")
        self._flag("-V, --version", "print the version")
        self._flag("-h, --help", "print this")

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The options by name, and the other words. Raises UsageError."""
        try:
            found, unknown = self._parser.parse_known_intermixed_args(arguments)
        except argparse.ArgumentError as error:
            reason = "missing argument" if error.message.startswith("expected") else error.message
            raise UsageError(f"{reason}: {error.argument_name}") from None
        if unknown:
            raise UsageError(f"invalid option: {unknown[0]}")
        options = vars(found)
        return options, options.pop("words", [])

    def help(self) -> str:
        return BANNER + "".join(f"{row}\n" for row in self._rows)

    def _server_options(self) -> None:
        application = "the application: a file, a folder with __init__.py, or a module"
        self._option("-r, --require PATH", application)
        self._option("-C, --config FILE", "settings from a YAML, TOML or JSON file")
        self._option("-c, --threads N", "threads a process (seriatim.threads_per_node)", int)
        self._option("-p, --processes N", "processes (1)", int)
        self._option("-q, --queue NAME", "only this queue; may be repeated", action="append", dest="queues")
        self._option("-t, --timeout SECONDS", "what a stop gives to running jobs (25)", finite)
        self._option("-e, --environment NAME", "production, development, ...")
        self._flag("-v, --verbose", "log every job")
        self._option("--log-format FORMAT", "text or json", log_format)

    def _verb_options(self) -> None:
        self._flag("--json", "stats, explain, dead list, check: print JSON")
        self._flag("--all", "dead retry, dead delete: all of them")
        self._option("--limit N", "dead list: at most so many (100)", int)
        self._flag("--create", "push: makes the queue if it is not there")
        self._option("--shards N", "push --create: how many shards a new queue gets (5)", int)
        self._option("--force QUEUE", "queues delete: also with what it holds; the name again")
        self._option("--delay SECONDS", "push: not before so many seconds", finite)
        self._option("--score SCORE", "push: the payload's place among the id's", finite)
        self._flag("--repair", "check: mend what can be mended without losing a payload")
        self._option("--bind ADDRESS", "web: a loopback address, unix:PATH, or with --token any (127.0.0.1)")
        self._option("--port N", "web: the TCP port; 0: a free one (9292)", int)
        self._option("--token TOKEN", "web: what `Authorization: Bearer` must say")
        self._flag("--read-only", "web: nothing can be changed through it")

    def _option(self, words: str, about: str, convert: Callable[[str], Any] = str, **other: Any) -> None:
        names = words.rsplit(" ", 1)[0].split(", ")
        keywords = other if other else {"action": Value, "convert": convert}
        self._parser.add_argument(*names, **keywords)
        self._row(words, about)

    def _flag(self, words: str, about: str) -> None:
        self._parser.add_argument(*words.split(", "), action="store_true")
        self._row(words, about)

    def _row(self, words: str, about: str) -> None:
        left = f"    {words}" if words.startswith("--") else words
        self._rows.append(f"    {left:<32} {about}")


def finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def log_format(text: str) -> str:
    if text not in ("text", "json"):
        raise ValueError
    return text


def log_level(options: dict[str, Any]) -> int:
    return _log.DEBUG if options.get("verbose") else _log.INFO
