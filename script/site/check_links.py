"""Which relative links of a built site lead nowhere."""

from __future__ import annotations

import urllib.parse
from html.parser import HTMLParser
from pathlib import Path


class Page(HTMLParser):
    """The links of a page, and the names that a link to it may end in."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.names.add(value)


def dead_links(site: Path, skip: str) -> list[tuple[str, str]]:
    """Pairs of page and link. Pages whose path begins with `skip` are not looked at, but may be linked to."""
    pages = {path: Page(path.read_text(errors="replace")) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        if name.startswith(skip) or name == "404.html":
            continue
        dead += [(name, link) for link in dict.fromkeys(page.links) if not leads(path, link, pages)]
    return dead


def leads(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urllib.parse.urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return False
    return target not in pages or urllib.parse.unquote(parts.fragment) in pages[target].names
