"""docs/start/c.md: what it installs, its programs by pkg-config and by CMake, and what the libraries export."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks_of, section
from processes import Started, shell
from sections import RUN
from support.redis_server import RedisServer

PAGE = "docs/start/c.md"
RUN.update((PAGE, title) for title in ("Build and install", "Push", "Work", "With CMake", "Without the shared library"))
FAILS_AGAIN = """
import time
import seriatim

class OrderWorker(seriatim.Worker):
    queue_name, shards_count = "OrderWorker", 24

    def perform(self, payloads_by_id, batch): ...

began = time.time()
OrderWorker.perform_async([{"id": "17", "payload": 1, "retry_count": 0}])
while not (found := OrderWorker.queries.range_by_retry_count(1, "+inf")):
    assert time.time() < began + 60
    time.sleep(0.05)
print(found[0]["perform_in"] - began, found[0]["perform_in"] - time.time())
"""
WARNINGS = "-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's own commands have installed it; the build folder is kept below tmp/."""
    folder = tmp_path_factory.mktemp("prefix")
    text = section(PAGE, "Build and install").take("sh").text
    assert text.count("/usr/local") == 1 and text.count(" build\n") == 2
    text = text.replace("sudo ldconfig\n", "").replace("sudo ", "").replace("/usr/local", str(folder))
    shell(re.sub(r" build\b(?=[ \n])", " tmp/docs-c", text), ROOT, {"CFLAGS": "-Werror"})
    return folder


@pytest.fixture
def env(prefix: Path, redis: RedisServer) -> dict[str, str]:
    return {"PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "LD_LIBRARY_PATH": f"{prefix}/lib", "REDIS_URL": redis.url}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the page's files."""
    for block in blocks_of(ROOT / PAGE):
        if block.name:
            (tmp_path / block.name).write_text(block.text)
    return tmp_path


def pushes_and_works(push: str, work: str, folder: Path, env: dict[str, str]) -> None:
    assert "added 1, folded 0, refused 0" in shell(push, folder, env)
    assert "added 0, folded 1, refused 0" in shell(push, folder, env)
    with Started(work, folder, env) as worker:
        worker.wait_for('order 17: {"status":"paid"}\n')
        assert worker.log.count("order 17") == 1
        assert worker.stop(signal.SIGINT) == 0


def test_the_page_shows_the_examples() -> None:
    shown = {block.name: block.text for block in blocks_of(ROOT / PAGE) if block.name}
    assert set(shown) == {"push.c", "work.c", "CMakeLists.txt"}
    for name, text in shown.items():
        assert text == (ROOT / "examples/c" / name).read_text(), name


def test_the_programs_by_pkg_config(programs: Path, env: dict[str, str]) -> None:
    build_push, push = section(PAGE, "Push").take("sh").text.splitlines()
    build_work, work = section(PAGE, "Work").take("sh").text.splitlines()
    for compiler in ("gcc", "clang"):
        for build in (build_push, build_work):
            assert shell(build.replace("cc -std=c99 -Wall", f"{compiler} -std=c99 -O2 {WARNINGS}"), programs, env) == ""
    pushes_and_works(push, work, programs, env)


def test_the_worker_waits_after_a_failure_as_the_other_languages(programs: Path, env: dict[str, str]) -> None:
    work = programs / "work.c"
    work.write_text(work.read_text().replace("return 1;\n}\n\nstatic void fail", "return 0;\n}\n\nstatic void fail"))
    build, run = section(PAGE, "Work").take("sh").text.splitlines()
    shell(build, programs, env)
    with Started(run, programs, env):
        said = shell(f"{sys.executable} - <<'END'\n{FAILS_AGAIN}\nEND", programs, {**env, "PYTHONPATH": f"{ROOT}/python"})
    longest, shortest = map(float, said.split())
    assert shortest <= 1 + 15 + 15 * (1 + 1) <= longest, "the second failure in a row makes retry_count 1"


def test_a_static_program_needs_no_library(programs: Path, env: dict[str, str]) -> None:
    build = section(PAGE, "Without the shared library").take("sh").text
    shell(build + build.replace("push", "work"), programs, env)
    assert "not a dynamic executable" in shell("ldd push-static 2>&1 || true", programs, {})
    pushes_and_works("./push-static 17 '{\"status\":\"paid\"}'", "./work-static", programs, {"REDIS_URL": env["REDIS_URL"]})


@pytest.mark.parametrize("kind", ["shared", "static"])
def test_the_programs_by_cmake(programs: Path, env: dict[str, str], prefix: Path, kind: str) -> None:
    lists = programs / "CMakeLists.txt"
    if kind == "static":
        lists.write_text(lists.read_text().replace("seriatim REQUIRED)", "seriatim REQUIRED COMPONENTS static)").replace("::seriatim", "::static"))
    shell(f"cmake -S . -B made -DCMAKE_PREFIX_PATH={prefix} && cmake --build made", programs, {})
    assert ("libseriatim.so" in shell("ldd made/push", programs, {})) == (kind == "shared")
    pushes_and_works("made/push 17 '{\"status\":\"paid\"}'", "made/work", programs, {"REDIS_URL": env["REDIS_URL"]})


def test_another_minor_version_and_an_unknown_component_are_refused(tmp_path: Path, prefix: Path) -> None:
    for words in ("0.0", "1.0", "REQUIRED COMPONENTS dynamic"):
        (tmp_path / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C)\nfind_package(seriatim {words})\n"
            "if(NOT seriatim_FOUND)\nmessage(FATAL_ERROR refused)\nendif()\n")
        ended = subprocess.run(["cmake", "-S", tmp_path, "-B", tmp_path / "made", f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True)
        assert ended.returncode != 0, words


@pytest.mark.parametrize("command", ["seriatim", "seriatim-lua"])
def test_the_manual_pages_and_the_completions_are_installed(prefix: Path, command: str) -> None:
    places = {"1": "man/man1", "bash": "bash-completion/completions", "fish": "fish/vendor_completions.d", "zsh": "seriatim"}
    for ending, place in places.items():
        name = f"{command}.{ending}"
        assert (prefix / "share" / place / name).read_text() == (ROOT / "core/package" / command / name).read_text()
    completion = prefix / "share/bash-completion/completions" / f"{command}.bash"
    assert shell(f"bash -c 'source {completion} && complete -p {command}'", prefix, {}).endswith(f" {command}\n")


def test_the_shared_library_exports_the_header_alone(prefix: Path) -> None:
    header = (ROOT / "core/include/seriatim.h").read_text()
    plain = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", header, flags=re.S | re.M)
    plain = re.sub(r"typedef [^;{]*;", "", plain)
    declared = set(re.findall(r"\b(seriatim_\w+)\([^()]*(?:\([^()]*\)[^()]*)*\);", plain))
    said = subprocess.run(["nm", "-D", "--defined-only", prefix / "lib/libseriatim.so"], check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1] for line in said.splitlines()}
    assert len(exported) > 90
    assert exported == declared
    dynamic = subprocess.run(["readelf", "-d", prefix / "lib/libseriatim.so"], check=True, capture_output=True, text=True).stdout
    version = re.search(r'SERIATIM_VERSION "(\d+\.\d+)', header)
    assert version is not None and f"[libseriatim.so.{version[1]}]" in dynamic


# The fixture prefix compiles it by gcc with -O2 and -Werror. All warnings of clang come before it makes code; with -O2 the system's
# headers are those of an optimized build.
def test_the_core_compiles_without_a_warning_by_clang_at_o2() -> None:
    command = f"clang -std=c99 -O2 {WARNINGS} -Icore/include -Icore/src -fsyntax-only core/src/all.c"
    assert shell(command, ROOT, {}) == ""
