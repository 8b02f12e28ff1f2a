"""mypy --strict finds nothing in a user's program and in the package, and finds a user's mistakes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("mypy")

TESTS = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(os.path.dirname(TESTS), "seriatim")


def mypy(cache: Any, *arguments: str) -> str:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(cache), *arguments]
    environment = {**os.environ, "MYPYPATH": os.path.dirname(PACKAGE)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS)
    return ended.stdout + ended.stderr


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.limit(600)
def test_a_users_program_is_clean(cache: Any) -> None:
    assert mypy(cache, os.path.join(TESTS, "typed_program.py")) == ""


@pytest.mark.limit(600)
def test_the_package_is_clean(cache: Any) -> None:
    assert mypy(cache, PACKAGE) == ""
    assert mypy(cache, "--python-version", "3.10", PACKAGE) == ""


@pytest.mark.limit(600)
def test_a_users_mistakes_are_found(cache: Any) -> None:
    file = os.path.join(TESTS, "typed_mistakes.py")
    with open(file) as lines:
        wrong = {at for at, line in enumerate(lines, 1) if line.endswith("# wrong\n")}
    found = {int(at) for at in re.findall(r"typed_mistakes\.py:(\d+): error: ", mypy(cache, file))}
    assert wrong and found == wrong


def test_the_marker_of_a_typed_package_is_there() -> None:
    assert os.path.exists(os.path.join(PACKAGE, "py.typed"))
