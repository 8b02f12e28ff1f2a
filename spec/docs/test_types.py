"""The programs in Python pass mypy, so that a reader may copy them into typed code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, sections

pytest.importorskip("mypy")

# What stands in another block of the page is not defined in this one; other packages are not there.
OPTIONS = ["--check-untyped-defs", "--no-error-summary", "--disable-error-code=name-defined", "--no-site-packages", "--ignore-missing-imports"]


def test_programs_in_python_pass_mypy(tmp_path: Path) -> None:
    for block in (block for blocks in sections().values() for block in blocks if block.language == "python" and block.is_run):
        (tmp_path / f"{Path(block.page).stem.replace('-', '_')}_line_{block.line}.py").write_text(block.text)
    programs = sorted(path.name for path in tmp_path.glob("*.py"))
    assert len(programs) > 20
    words = [sys.executable, "-m", "mypy", *OPTIONS, "--cache-dir", str(tmp_path / "cache"), *programs]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(ROOT / "python")})
    assert ended.stdout + ended.stderr == ""
