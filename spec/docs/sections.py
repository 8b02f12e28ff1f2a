"""Which test runs which section of which page."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pages import section

# Run by another suite.
ELSEWHERE = {
    ("docs/start/openresty.md", "nginx and OpenResty"): "lua/spec/nginx/test_nginx.py",
}
RUN: set[tuple[str, str]] = set(ELSEWHERE)


def runs(page: str, title: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Hands the test the section's blocks as `blocks`; a block that it leaves fails it."""
    return runs_each((page, title))


def runs_each(*places: tuple[str, str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same for several sections (page, title), which the test runs one by one."""
    RUN.update(places)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(place: tuple[str, str], **fixtures: Any) -> None:
            blocks = section(*place)
            test(blocks, **fixtures)
            left = [str(block) for block in blocks.left if block.is_run]
            assert not left, f"never run: {left}"

        # pytest must see the fixtures and `place`, and not `blocks`.
        signature = inspect.signature(test)
        place = inspect.Parameter("place", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = signature.replace(parameters=[place, *list(signature.parameters.values())[1:]])  # type: ignore[attr-defined]
        del run.__wrapped__  # type: ignore[attr-defined]
        return pytest.mark.parametrize("place", places, ids=lambda place: "-".join(place).replace(" ", "_"))(run)

    return decorate
