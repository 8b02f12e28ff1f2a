"""The pages of the site: a copy of the tree's pages in a form that mkdocs understands, and pages that are made from code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import api

# A link or an image of a page: what stands before, the path, the fragment, what stands behind.
LINK = re.compile(r'(\]\(|(?:src|href)=")([^)"\s#]+)(#[^)"\s]*)?([)"])')
FENCE = re.compile(r"^```(\S+) +(\S.*)$", re.M)
HEADER = "core/include/seriatim.h"
MANUAL = "docs/reference/seriatim.1"
CONFIGURATION = """site_name: Seriatim
docs_dir: {docs}
theme: {{ name: readthedocs, highlightjs: false, navigation_depth: 2 }}
use_directory_urls: false
extra_css: [style.css]
markdown_extensions: [tables, fenced_code, sane_lists, {{ toc: {{ permalink: false }} }}]
plugins: [search]
nav:
{nav}
"""


def write_pages(root: Path, staging: Path) -> Path:
    """Writes all pages below staging, in the tree's own folders. Returns the path of mkdocs' configuration."""
    for path in tracked(root, "*.md"):
        write_page(root, staging, path)
    write(staging / "index.md", (staging / "README.md").read_text())
    (staging / "README.md").unlink()
    write(staging / f"{HEADER}.md", f"# The C header\n\n```c\n{(root / HEADER).read_text()}```\n")
    write(staging / f"{MANUAL}.md", f"# The manual page\n\n```text\n{manual(root)}```\n")
    write(staging / "docs/reference/ruby.md", "# Ruby API\n\n[The API reference of Ruby](../../api/ruby/index.html), by rdoc.\n")
    write(staging / "docs/reference/python.md", api.python_page(root))
    write(staging / "docs/reference/lua.md", api.lua_page(root))
    shutil.copy(Path(__file__).parent / "style.css", staging)
    configuration = staging.with_suffix(".yml")
    write(configuration, CONFIGURATION.format(docs=staging, nav=navigation(staging)))
    return configuration


def tracked(root: Path, pattern: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "--", pattern], cwd=root, check=True, stdout=subprocess.PIPE, text=True)
    return [path for path in listed.stdout.splitlines() if (root / path).exists()]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_page(root: Path, staging: Path, path: str) -> None:
    """A page of the tree, with the files that it links to."""
    folder = (root / path).parent
    text = FENCE.sub(fence, (root / path).read_text())

    def link(found: re.Match[str]) -> str:
        before, target, after = found[1], found[2], found[4]
        fragment = re.sub(r"-+", "-", found[3] or "")  # GitHub keeps several dashes in a heading's name, mkdocs one
        if re.match(r"[a-z]+:", target):
            return found[0]
        there = (folder / target).resolve()
        name = there.relative_to(root).as_posix()
        if there.is_dir():
            target = f"{target.rstrip('/')}/README.md"
            if not (there / "README.md").exists():
                write(staging / name / "README.md", contents(there, name))
        elif name == "README.md":
            target = target.replace("README.md", "index.md")
        elif name in (HEADER, MANUAL):
            target += ".md"
        elif not name.endswith(".md"):
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(there, staging / name)
        return f"{before}{target}{fragment}{after}"

    write(staging / path, LINK.sub(link, text))


def fence(found: re.Match[str]) -> str:
    """The name of a block's file goes in front of it, because mkdocs allows one word behind the backquotes, unless the text says it."""
    said = found[2] == "excerpt" or f"`{found[2]}`" in found.string[max(0, found.start() - 200) : found.start()]
    return f"```{found[1]}" if said else f"`{found[2]}`:\n\n```{found[1]}"


def manual(root: Path) -> str:
    shown = subprocess.run(["man", "-l", "-Tutf8", str(root / MANUAL)], env={"MANWIDTH": "100", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return re.sub(r".\x08|\x1b\[[0-9;]*m", "", shown.stdout) or (root / MANUAL).read_text()


def title(path: Path) -> str:
    return next((line[2:].strip() for line in path.read_text().splitlines() if line.startswith("# ")), path.stem)


def contents(folder: Path, name: str) -> str:
    """A page for a folder without one: its pages by their titles, its other files by their names."""
    paths = sorted(path for path in folder.iterdir() if path.is_file())
    lines = [f"- [{title(path)}]({path.name})" if path.suffix == ".md" else f"- `{path.name}`" for path in paths]
    return f"# {name.rsplit('/', 1)[-1].capitalize()}\n\n" + "\n".join(lines) + "\n"


def navigation(staging: Path) -> str:
    """The sections of docs/README.md, each with the pages that it links to, in that order."""
    lines = ["  - Home: index.md", "  - All pages: docs/README.md"]
    for section in re.split(r"^## ", (staging / "docs/README.md").read_text(), flags=re.M)[1:]:
        name, _, text = section.partition("\n")
        lines.append(f"  - {name}:")
        targets = dict.fromkeys((staging / "docs" / found[2]).resolve() for found in LINK.finditer(text) if ":" not in found[2])
        lines += [f"    - {title(path)!r}: {path.relative_to(staging).as_posix()}" for path in targets if path.suffix == ".md"]
        if name == "Reference":
            lines += ["    - Ruby API: docs/reference/ruby.md", "    - Python API: docs/reference/python.md", "    - Lua API: docs/reference/lua.md"]
    return "\n".join(lines)
