"""The fenced blocks of README.md and of the pages below docs/, by page and section."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = {"crash-results.md", "fault-tests.md"}  # written by script/soak and by spec/crash/faults
FENCE = re.compile(r"^```(\S*)(?: +(.*))?$")


@dataclass(frozen=True)
class Block:
    page: str
    section: str
    line: int
    language: str  # the first word of the fence, "" for none
    name: str      # the rest of the fence: the file that the block is, or "excerpt"
    text: str

    @property
    def is_run(self) -> bool:
        """Neither words or output, nor marked as an excerpt, which needs what the reader alone has."""
        return self.language not in ("", "text") and self.name != "excerpt"

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.section}, {self.language})"


def pages() -> list[Path]:
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED)]


def blocks_of(path: Path) -> list[Block]:
    blocks, section, opened, lines = [], "", None, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened, lines = (number, fence[1], fence[2] or ""), []
        elif opened is not None and line == "```":
            text = "".join(f"{each}\n" for each in lines)
            blocks.append(Block(path.relative_to(ROOT).as_posix(), section, *opened, text))
            opened = None
        elif opened is not None:
            lines.append(line)
        elif line.startswith("#"):
            section = line.lstrip("#").strip()
    assert opened is None, f"{path}: a fence is not closed"
    return blocks


class Section:
    """The blocks of one section, of which a test takes each once."""

    def __init__(self, blocks: list[Block]) -> None:
        self.left = blocks

    def take(self, language: str, containing: str = "") -> Block:
        """The next block in that language (that holds a text)."""
        block = next((each for each in self.left if each.language == language and containing in each.text), None)
        assert block is not None, f"no {language} block with {containing!r} is left"
        self.left = [each for each in self.left if each is not block]
        return block


def sections() -> dict[tuple[str, str], list[Block]]:
    found: dict[tuple[str, str], list[Block]] = {}
    for path in pages():
        for block in blocks_of(path):
            found.setdefault((block.page, block.section), []).append(block)
    return found


def section(page: str, title: str) -> Section:
    return Section(list(sections()[page, title]))
