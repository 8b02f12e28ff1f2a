"""The bytes that Redis keeps of an error."""

from __future__ import annotations

from typing import Any

from .. import _log
from .._settings import settings

ERROR_BYTES = 65_536  # the core keeps no more of a stored error: cutting what dump_error made would spoil it for load_error


def of(error: BaseException | str, queue: str) -> bytes:
    """Of what failed an id. queue: its name, for the log."""
    text: object = error
    if isinstance(error, BaseException):
        try:
            text = settings.format_error(error)
        except Exception as raised:
            _log.error("hook", f"format_error raised {_log.describe(raised)}", q=queue)
            text = None
    if not isinstance(text, (str, bytes)) or not text:
        text = _log.describe(error) if isinstance(error, BaseException) else ""
    return stored(_log.utf8(text), queue)


def stored(text: str, queue: str, caught: type[BaseException] = Exception) -> bytes:
    """
    The text through dump_error. Where that fails, the bytes of the first line and of the reason.

    caught: the exceptions of dump_error that become a line of the log; others are raised.
    """
    text = as_bytes(text)[:ERROR_BYTES].decode("utf-8", "ignore")
    dumped, reason = _dump(text, caught)
    if dumped is not None:
        return dumped
    _log.error("hook", reason, q=queue)
    note = f"{_log.brief(text)}\n({reason}; only the first line of this error is stored)"
    dumped, _ = _dump(note, caught)
    return as_bytes(note) if dumped is None else dumped


def loaded(error: str | bytes) -> Any:
    """The text of what is stored. What load_error cannot read stays as it is stored."""
    try:
        return settings.load_error(error)
    except Exception:
        return error


def _dump(text: str, caught: type[BaseException]) -> tuple[bytes | None, str]:
    """The bytes, or None and the reason."""
    try:
        dumped = as_bytes(settings.dump_error(text))
    except caught as error:
        return None, f"dump_error raised {_log.brief(error)}"
    if len(dumped) <= ERROR_BYTES:
        return dumped, ""
    return None, f"dump_error gave {len(dumped)} bytes, of which {ERROR_BYTES} may be stored"


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "replace")
