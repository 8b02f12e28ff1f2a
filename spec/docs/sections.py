"""Which test runs which section of which page."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pages import section

# Run by another suite.
ELSEWHERE = {
    ("docs/start/openresty.md", "nginx and OpenResty"): "lua/spec/nginx/test_nginx.py",
}
RUN: set[tuple[str, str]] = set(ELSEWHERE)


def runs(page: str, title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Hands the test the section's blocks as `blocks`; a block that it leaves fails it."""
    RUN.add((page, title))

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(*args: Any, **fixtures: Any) -> None:
            blocks = section(page, title)
            test(blocks, *args, **fixtures)
            left = [str(block) for block in blocks.left if block.language not in ("", "text")]
            assert not left, f"never run: {left}"

        # pytest must see the fixtures, and not `blocks`.


        signature = inspect.signature(test)
        run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        return run

    return decorate
