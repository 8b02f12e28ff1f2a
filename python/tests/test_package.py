"""The sdist holds what it needs, installs in a fresh venv without a network, and the README's Python start works as printed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = re.compile(
    r"(core/(include|src|scripts|package/seriatim)/.*|bindings/python/.*|python/seriatim/.*|python/seriatim_(command|pytest)\.py|setup\.py|pyproject\.toml|MANIFEST\.in|"
    r"README\.md|CHANGELOG\.md|LICENSE)"
)


def run(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    ended = subprocess.run(words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("package")


@pytest.fixture(scope="module")
def sdist(folder: Path) -> Path:
    """Made in a copy: setup.py leaves its traces where it runs."""
    copy = folder / "copy"
    unwanted = shutil.ignore_patterns(".git", "tmp", "*.so", "*.o", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    run(sys.executable, "setup.py", "-q", "sdist", "-d", str(folder), cwd=copy)
    [made] = folder.glob("seriatim-*.tar.gz")
    return made


@pytest.fixture(scope="module")
def venv(folder: Path, sdist: Path) -> dict[str, str]:
    """The environment of a shell in which it is installed."""
    run(sys.executable, "-m", "venv", "--system-site-packages", str(folder / "venv"), cwd=folder)
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "REDIS_URL")}
    environment = {**kept, "PATH": f"{folder / 'venv' / 'bin'}:{os.environ['PATH']}"}
    words = ("install", "-q", "--no-build-isolation", "--no-index", "--disable-pip-version-check", str(sdist))
    run(str(folder / "venv" / "bin" / "pip"), *words, cwd=folder, env=environment)
    return environment


@pytest.mark.limit(300)
def test_the_sdist_holds_what_git_has(sdist: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {name for name in listed.stdout.split("\0") if OURS.fullmatch(name)} <= names


@pytest.mark.limit(300)
def test_the_manual_page_and_the_completions_are_installed(folder: Path, venv: dict[str, str]) -> None:
    share = folder / "venv" / "share"
    for file, topic in {
        "man/man1/seriatim.1": ["man"],
        "bash-completion/completions/seriatim.bash": ["completion", "bash"],
        "seriatim/seriatim.zsh": ["completion", "zsh"],
        "fish/vendor_completions.d/seriatim.fish": ["completion", "fish"],
    }.items():
        assert (share / file).read_text() == run("seriatim", *topic, cwd=folder, env=venv)
    asked = f"source {share}/bash-completion/completions/seriatim.bash && complete -p seriatim"
    assert "-F _seriatim seriatim" in run("bash", "-c", asked, cwd=folder)


def test_the_fixtures_of_pytest_come_along(folder: Path, venv: dict[str, str]) -> None:
    (folder / "test_fixture.py").write_text("def test_fake(seriatim_fake):\n    assert seriatim_fake.pushed() == []\n")
    run(str(folder / "venv" / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_fixture.py", cwd=folder, env=venv)


def page_blocks() -> dict[str, str]:
    """The program of docs/start/python.md, and the commands that push and work."""
    section = re.search(r"^## First worker$(.*?)^## ", (ROOT / "docs/start/python.md").read_text(), re.S | re.M)
    assert section
    blocks = re.findall(r"^```(\w+)[^\n]*\n(.*?)^```$", section[1], re.S | re.M)
    return {
        "app": next(text for kind, text in blocks if kind == "python"),
        "push": next(text for kind, text in blocks if kind == "sh" and "perform_async" in text),
        "work": next(text for kind, text in blocks if kind == "sh" and "seriatim -r" in text),
    }


@pytest.fixture
def server_log(folder: Path, venv: dict[str, str]) -> Iterator[Path]:
    blocks, here, log = page_blocks(), folder / "app", folder / "app" / "log"
    here.mkdir()
    (here / "app.py").write_text(blocks["app"])
    environment = {**venv, "SERIATIM_DATA": str(here / "data"), "PYTHONUNBUFFERED": "1"}
    run("sh", "-c", blocks["push"], cwd=here, env=environment)
    with open(log, "w") as output:
        server = subprocess.Popen(blocks["work"].split(), cwd=here, env=environment, stdout=output, stderr=output)
    yield log
    server.send_signal(signal.SIGINT)
    assert server.wait(30) == 0, log.read_text()


@pytest.mark.limit(300)
def test_the_first_page_works_as_printed(server_log: Path) -> None:
    deadline = time.monotonic() + 30
    while not all(line in server_log.read_text() for line in ("order 1: created -> paid", "order 2: created")):
        assert time.monotonic() < deadline, server_log.read_text()
        time.sleep(0.05)
