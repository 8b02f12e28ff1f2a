"""Event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Blind(asyncio.SelectorEventLoop):
    """A loop that cannot watch sockets, as on Windows."""

    def _refuse(self, *arguments: Any) -> Any:
        raise NotImplementedError

    add_reader = add_writer = remove_reader = remove_writer = _refuse


def run(loop: asyncio.AbstractEventLoop, main: Coroutine[Any, Any, Any]) -> Any:
    """As asyncio.run, on this loop."""
    try:
        return loop.run_until_complete(main)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
