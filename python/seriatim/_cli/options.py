"""Parses the command's options. The texts of --help are in core/command/command.json."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from .. import _log
from .._client.spelling import did_you_mean
from .._errors import UsageError

PARENT: Final = "--parent"  # the descriptor by which a process of -p hears that its supervisor is gone

NEGATIVE: Final = re.compile(r"-([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")  # a number, not an option


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
        self._parser = Raising(
            prog="seriatim", add_help=False, argument_default=argparse.SUPPRESS, exit_on_error=False, usage="seriatim"
        )
        self._parser._negative_number_matcher = NEGATIVE  # there is no public way; the parser's own knows no exponent
        self._long_names: list[str] = []
        self._parser.add_argument("words", nargs="*", default=[])
        self._parser.add_argument(PARENT, action=Value, convert=int)
        self._server_options()
        self._verb_options()
        self._flags("-V, --version", "-h, --help")

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The options by name, and the other words. Raises UsageError."""
        try:
            found, unknown = self._parser.parse_known_intermixed_args(arguments)
        except argparse.ArgumentError as error:
            reason = "missing argument" if error.message.startswith("expected") else error.message
            raise UsageError(f"{reason}: {error.argument_name}") from None
        if unknown:
            raise UsageError(f"invalid option: {unknown[0]}{self._nearest(unknown[0])}")
        options = vars(found)
        return options, options.pop("words", [])

    def _nearest(self, word: str) -> str:
        """What an error says behind an unknown option."""
        return did_you_mean(word.partition("=")[0], self._long_names) if word.startswith("--") else ""

    def _server_options(self) -> None:
        self._option("-r, --require")
        self._option("-C, --config")
        self._option("-c, --threads", int)
        self._option("-p, --processes", int)
        self._option("-q, --queue", action="append", dest="queues")
        self._option("-t, --timeout", finite)
        self._option("-e, --environment")
        self._flags("-v, --verbose")
        self._option("--log-format", log_format)

    def _verb_options(self) -> None:
        self._flags("--json", "--all", "--create", "--repair", "--read-only", "--consume", "--ack", "--watch", "--status", "--no-wait")
        for name in ("--limit", "--shards", "--port"):
            self._option(name, int)
        for name in ("--delay", "--score", "--wait"):
            self._option(name, finite)
        for name in ("--force", "--error", "--id", "--bind", "--token", "--from"):
            self._option(name)

    def _option(self, names: str, convert: Callable[[str], Any] = str, **other: Any) -> None:
        keywords = other if other else {"action": Value, "convert": convert}
        self._add(names, **keywords)

    def _flags(self, *all_names: str) -> None:
        for names in all_names:
            self._add(names, action="store_true")

    def _add(self, names: str, **keywords: Any) -> None:
        self._parser.add_argument(*names.split(", "), **keywords)
        self._long_names.append(names.split(", ")[-1])


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
