"""
Fixtures of pytest for applications that use seriatim. An installed package brings them along; where it is only on the path, name
them: pytest_plugins = ["seriatim_pytest"].
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest


@pytest.fixture
def seriatim_fake() -> Iterator[ModuleType]:
    """Pushes wait in memory until the test runs them: seriatim.testing, in its mode fake."""
    from seriatim import testing

    with testing.fake():
        yield testing


@pytest.fixture
def seriatim_inline() -> Iterator[ModuleType]:
    """Pushes run at once: seriatim.testing, in its mode inline."""
    from seriatim import testing

    with testing.inline():
        yield testing
