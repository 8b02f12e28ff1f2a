"""script/docs: one site of all pages, with a search, that a browser can open as files."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT
from processes import shell


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shell(f"{sys.executable} script/docs {folder}", ROOT, {})
    return folder


def test_the_site_holds_every_page_and_the_api_of_each_language(site: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "docs/*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    pages = {page.replace("README.md", "index.md").replace(".md", ".html") for page in listed if (ROOT / page).exists()}
    assert {page for page in pages if not (site / page).exists()} == set()
    assert "perform_async" in (site / "docs/reference/python.html").read_text()
    assert "perform_async" in (site / "docs/reference/lua.html").read_text()
    assert (site / "api/ruby/Seriatim/Worker.html").exists()


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in (site / "index.html", site / "search.html", site / "docs/start/ruby.html"):
        assert re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//[^"]*"', page.read_text()) == []


def test_the_search_finds_a_page_that_was_opened_as_a_file(site: Path, tmp_path: Path) -> None:
    browser = f"chromium --headless --no-sandbox --disable-gpu --user-data-dir={tmp_path}/browser --virtual-time-budget=5000 --dump-dom"
    shown = shell(f"{browser} 'file://{site}/search.html?q=fencing+token'", tmp_path, {})
    assert re.search(r'<article><h3><a href="./docs/concepts/leases-and-fences.html#fences">Fences</a>', shown), shown[-2000:]


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("check_links", ROOT / "script/site/check_links.py")
    assert spec and spec.loader
    check_links = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(check_links)
    (tmp_path / "there.html").write_text('<h1 id="top">There</h1>')
    (tmp_path / "page.html").write_text('<a href="there.html#top">1</a> <a href="there.html#no">2</a> <a href="no.html">3</a> <a href="https://a.example/">4</a>')
    assert check_links.dead_links(tmp_path, skip="api/") == [("page.html", "there.html#no"), ("page.html", "no.html")]
