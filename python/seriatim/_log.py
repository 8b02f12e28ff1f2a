"""One line an event: `LEVEL 2026-11-20T12:00:00.000Z pid= tid= q= id= n= elapsed= msg`, or the same as JSON.

Events go to the standard logger "seriatim". With a formatter of the application's own the fields are written behind the
message.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TextIO

from . import _native

DEBUG: Final = logging.DEBUG
INFO: Final = logging.INFO
WARN: Final = logging.WARNING
ERROR: Final = logging.ERROR
FATAL: Final = logging.CRITICAL

logger: Final = logging.getLogger("seriatim")
is_debug: Final = partial(logger.isEnabledFor, DEBUG)

LEVELS: Final = {DEBUG: "DEBUG", INFO: "INFO", WARN: "WARN", ERROR: "ERROR", FATAL: "FATAL"}
PLAIN: Final = re.compile(r'[^"=\s\x00-\x1f\x7f]+')
LINE_ENDS: Final = re.compile(r"[\r\n]+")
BRIEF: Final = 500  # characters
BACKTRACE_LINES: Final = 10
FORMATTED_BYTES: Final = 4096
PLACE: Final = re.compile(r" \([^()\r\n]+:\d+\)\Z")
DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Event:
    """What happened; `fields` holds some of q (queue), id (of several: the first), n (how many; of a failure: its
    retry_count) and elapsed (seconds)."""

    name: str | None
    text: str | None = None
    fields: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return one_line(" ".join([*filter(None, (self.name, self.text)), *pairs(self.fields)]))


class Line(logging.Formatter):
    """One line of text."""

    def format(self, record: logging.LogRecord) -> str:
        event = self._event(record)
        words = [level_name(record), timestamp(record.created), *pairs({**origin(record), **event.fields})]
        return one_line(" ".join([*words, *filter(None, (event.name, event.text))]))

    def _event(self, record: logging.LogRecord) -> Event:
        if isinstance(record.msg, Event):
            return record.msg
        text = utf8(record.getMessage())
        return Event(None, f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text)


class Json(Line):
    """One line of JSON, with ts, lvl, pid, tid, event, msg and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        event = self._event(record)
        line: dict[str, Any] = {"ts": timestamp(record.created), "lvl": level_name(record), **origin(record)}
        line.update(event=event.name, msg=event.text, **event.fields)
        known = {key: plain(value) for key, value in line.items() if value is not None}
        return printable(json.dumps(known, ensure_ascii=False, separators=(",", ":")))


def handler(output: TextIO, format: str | None = None) -> logging.Handler:
    """A handler that writes each line at once; as text, unless format is json."""
    if hasattr(output, "reconfigure"):
        output.reconfigure(errors="replace")
    made = logging.StreamHandler(output)
    made.setFormatter(Json() if format == "json" else Line())
    return made


class Output:
    """The command's log, for as long as the application has none of its own."""

    def __init__(self, output: TextIO, format: str | None, level: int) -> None:
        self._handler = handler(output, format)
        self._level = level
        logger.setLevel(level)
        self.settle()

    def settle(self) -> None:
        """To be called again when the application, which may have set up its own, is loaded. Its level counts; -v asks for more."""
        logger.disabled = False  # logging.config disables what it does not name
        if logger.level == logging.NOTSET or self._level < INFO:
            logger.setLevel(self._level)
        logger.removeHandler(self._handler)
        if not logger.hasHandlers():
            logger.addHandler(self._handler)


def write(
    level: int,
    name: str,
    text: object = None,
    *,
    q: str | None = None,
    id: object = None,
    n: int | None = None,
    elapsed: float | None = None,
) -> None:
    """Logs an event. Raises nothing but, on the main thread, what ends a program. `level` is one of logging's."""
    try:
        if logger.isEnabledFor(level):
            fields = {"q": q, "id": id, "n": n, "elapsed": elapsed}
            shown = None if text is None else utf8(text)
            logger.log(level, Event(name, shown, {key: value for key, value in fields.items() if value is not None}))
    except Exception:
        pass
    except BaseException:
        if threading.current_thread() is threading.main_thread():
            raise


def debug(name: str, text: object = None, **fields: Any) -> None:
    write(DEBUG, name, text, **fields)


def info(name: str, text: object = None, **fields: Any) -> None:
    write(INFO, name, text, **fields)


def notice(name: str, text: str) -> None:
    """
    What a person is to see although standard output, to which the server logs, may be read by a program: a line of our own
    format goes to standard error. Handlers of the application's own take it as any event.
    """
    ours = [handler.formatter for handler in logger.handlers if isinstance(handler.formatter, Line)]
    if not ours:
        info(name, text)
    elif logger.isEnabledFor(INFO):
        record = logger.makeRecord(logger.name, INFO, "", 0, Event(name, utf8(text)), (), None)
        print(ours[0].format(record), file=sys.stderr)


def warn(name: str, text: object = None, **fields: Any) -> None:
    write(WARN, name, text, **fields)


def error(name: str, text: object = None, **fields: Any) -> None:
    write(ERROR, name, text, **fields)


def describe(error: object) -> str:
    """ "ValueError: text (file:line)", whatever the error's own methods do."""
    try:
        if not isinstance(error, BaseException):
            return str(error)
        at = error.__traceback__
        while at and at.tb_next:
            at = at.tb_next
        place = f" ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})" if at else ""
        return f"{type(error).__qualname__}: {error}{place}"
    except BaseException:
        return type(error).__qualname__


def format_error(error: BaseException) -> str:
    """The default of the setting format_error. The innermost call comes first, as in the other languages."""
    calls: deque[str] = deque(maxlen=BACKTRACE_LINES)
    at = error.__traceback__
    while at:
        calls.appendleft(f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno} in {at.tb_frame.f_code.co_name}")
        at = at.tb_next
    text = "\n".join([f"{type(error).__qualname__}: {error}", *calls])
    return text.encode("utf-8", "replace")[:FORMATTED_BYTES].decode("utf-8", "ignore")


def brief(error: object) -> str:
    """The error's first line, cut where it is long, and the place where it was raised."""
    text = utf8(describe(error))
    first = re.split(r"[\r\n]", text, maxsplit=1)[0]
    if len(first) == len(text) <= BRIEF:
        return first
    place = PLACE.search(text) if isinstance(error, BaseException) else None
    return first[:BRIEF] + ("..." if len(first) > BRIEF else "") + (place[0] if place else "")


def level_name(record: logging.LogRecord) -> str:
    return LEVELS.get(record.levelno, record.levelname)


def origin(record: logging.LogRecord) -> dict[str, Any]:
    """pid, and tid as an unsigned number of base 36."""
    return {"pid": record.process, "tid": base36((record.thread or 0) ^ (record.process or 0))}


def timestamp(seconds: float) -> str:
    """Seconds since 1970 in UTC, with milliseconds."""
    milliseconds = int(seconds * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(milliseconds // 1000))}.{milliseconds % 1000:03d}Z"


def pairs(fields: dict[str, Any]) -> list[str]:
    return [f"{key}={quote(value)}" for key, value in fields.items()]


def quote(value: object) -> str:
    text = f"{value:.3f}" if isinstance(value, float) else utf8(value)
    return text if PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def plain(value: Any) -> Any:
    """As JSON takes it."""
    return value if isinstance(value, (int, float)) else utf8(value)


def printable(value: object) -> str:
    """The text as a terminal may show it: control characters, which could move its cursor or end a row of a table, are escaped."""
    return _native.printable(utf8(value))


def one_line(value: object) -> str:
    """The same as one line of a log."""
    return _native.printable(LINE_ENDS.sub(" | ", utf8(value)))


def printable_lines(value: object) -> str:
    """The same of a text of several lines, a traceback for one."""
    return "\n".join(_native.printable(line.replace("\t", "    ")) for line in utf8(value).split("\n"))


def utf8(value: object) -> str:
    """The text; a byte or surrogate that UTF-8 has not is a question mark."""
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
    return text.encode("utf-8", "replace").decode()


def base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text or "0"
