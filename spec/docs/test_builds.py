"""What a build without TLS says, one that fails, and a checkout that was never compiled: which commands help, and that they do.

The images of a page hold what they need.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, section
from processes import environment

HELP = "apt-get install libssl-dev pkg-config"


def said(*command: str | Path, folder: Path = ROOT, **env: str) -> str:
    """Both outputs, whatever the exit code."""
    ended = subprocess.run([str(word) for word in command], cwd=folder, env=environment(env), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return ended.stdout.decode("utf-8", "replace")


@pytest.fixture
def no_openssl(tmp_path: Path) -> str:
    """A PATH whose pkg-config knows no openssl."""
    program = tmp_path / "bin/pkg-config"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncase "$*" in *openssl*) exit 1;; esac\nexec {shutil.which("pkg-config")} "$@"\n')
    program.chmod(0o755)
    return f"{program.parent}:{environment({})['PATH']}"


def test_the_builds_say_that_there_will_be_no_tls(no_openssl: str, tmp_path: Path) -> None:
    assert HELP in said(sys.executable, "setup.py", "--version", PATH=no_openssl)
    assert HELP in said("script/build_lua", "5.4", PATH=no_openssl, CC="false", SERIATIM_LUA_LIB=str(tmp_path))
    assert "apt-get install libssl-dev" in said("cmake", "-S", ".", "-B", tmp_path / "made", PATH=no_openssl)
    program = """
      require "mkmf"
      singleton_class.prepend(Module.new { def have_header(name, *) = name != "openssl/ssl.h" && super })
      load ARGV.shift
    """
    assert HELP in said("ruby", "-e", program, ROOT / "bindings/ruby/ext/seriatim/extconf.rb", folder=tmp_path)


def test_pip_compiles_again_in_the_checkout_of_such_a_build(no_openssl: str, tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\necho "$*"\nwhile [ "$1" != -o ]; do shift; done\n: >"$2"\n')
    compiler.chmod(0o755)
    words = [sys.executable, "setup.py", "build_ext", "--build-lib", tmp_path / "lib", "--build-temp", tmp_path / "objects"]
    assert "-DSERIATIM_WITH_OPENSSL" not in said(*words, PATH=no_openssl, CC=str(compiler))
    text = said(*words, CC=str(compiler))
    assert "-DSERIATIM_WITH_OPENSSL" in text and "-lssl" in text, text


def test_rediss_in_such_a_build_says_what_to_install(tmp_path: Path) -> None:
    words = "-std=c99 -O0 -Icore/include -Icore/src examples/c/push.c core/src/all.c -lhiredis -lpthread -lm -o".split()
    assert said("cc", *words, tmp_path / "push") == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = said(tmp_path / "push", "1", "2", REDIS_URL=f"rediss://127.0.0.1:{server.getsockname()[1]}")
    assert "UNSUPPORTED" in text and f"not in this build: {HELP}, then reinstall" in text, text


@pytest.mark.parametrize("compiler", ["false", "/no/such/cc"])
def test_a_build_of_the_python_package_that_fails_says_what_it_needs(tmp_path: Path, compiler: str) -> None:
    text = said(sys.executable, "setup.py", "build_ext", "--build-lib", tmp_path, "--build-temp", tmp_path, CC=compiler)
    assert "needs a C compiler, Python's headers and hiredis" in text, text
    assert "apt-get install gcc python3-dev libhiredis-dev" in text and f"{compiler}' failed" in text, text


@pytest.mark.parametrize(("image", "needed"), [("ruby-dev", "libc6-dev"), ("python3", "ca-certificates")])
def test_an_image_of_the_page_holds_what_others_only_recommend(tmp_path: Path, image: str, needed: str) -> None:
    text = "".join(block.text for block in section("docs/guides/deployment.md", "Container").left).replace("\\\n", " ")
    packages = next(line for line in re.findall(r"apt-get install -y (--no-install-recommends .*)", text) if image in line.split())
    # As on a machine where nothing is installed.
    machine = ("-o", "Dir::State::status=/dev/null", "-o", f"Dir::Cache={tmp_path}")
    told = said("apt-get", "install", "--simulate", *machine, *packages.split()) if shutil.which("apt-get") else "no apt-get"
    if "Inst libhiredis" not in told:
        pytest.skip("no lists of the packages of Debian 12")
    assert f"Inst {needed} " in told


@pytest.mark.parametrize(("folder", "command", "help"), [
    ("ruby/lib", ["ruby", "-I", ".", "-e", 'require "seriatim"'], "run `rake compile` in "),
    ("python", [sys.executable, "-c", "import seriatim"], "setup.py build_ext --inplace"),
    ("lua", ["lua5.4", "-e", 'require "seriatim"'], "run script/build_lua in the checkout"),
    ("lua", ["luajit", "-e", 'require "seriatim"'], "run script/build_lua in the checkout"),
])
def test_what_was_never_compiled_says_how_to(tmp_path: Path, folder: str, command: list[str], help: str) -> None:
    shutil.copytree(ROOT / folder, tmp_path / "copy", ignore=shutil.ignore_patterns("*.so", "tests", "spec"))
    env = {"PYTHONPATH": "", "LUA_PATH": "./?.lua;;", "LUA_CPATH": "./?.so"}
    text = said(*command, folder=tmp_path / "copy", **env)
    assert help in text, text
