"""The module itself: policies, signals, the private Redis, interpreters, references, exported names."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import seriatim
from seriatim import _native
from support.command import is_pending

HERE = Path(__file__).parent


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *arguments]
    return subprocess.run(command, capture_output=True, text=True)  # the test's own limit ends one that hangs


def test_the_extension_has_the_package_s_version() -> None:
    assert _native.version == seriatim.__version__


def test_back_off_splits_and_shards_are_computed_as_in_the_core() -> None:
    assert 15 <= _native.back_off(0) <= 15 + 29
    assert 16 + 3**4 - 1 <= _native.back_off(3) <= 3**4 + 15 + 29 * 4
    assert len({_native.back_off(10) for _ in range(100)}) > 5
    assert _native.split(10, 2, 0, 3) == [[0, 6], [2, 8], [4]]
    assert _native.split(2, 1, 0, 5) == [[0], [1]]
    assert _native.split(0, 1, 0, 5) == []
    assert {_native.shard_of(b"%d" % i, 3) for i in range(50)} == {0, 1, 2}
    with pytest.raises(ValueError):
        _native.shard_of(b"a", 5000)


def test_two_users_share_one_private_redis(tmp_path: Path) -> None:
    folder = str(tmp_path / "data")
    one = _native.PrivateRedis(folder)
    two = _native.PrivateRedis(folder)
    assert (one.started, two.started, one.url) == (True, False, two.url)
    link = _native.Link(one.url, "ns", None, 0)
    link.nodes()
    assert link.drive() == []
    one.release()
    one.release()
    with pytest.raises(seriatim.Closed):
        one.url
    two.release()
    with pytest.raises(seriatim.Invalid):
        _native.PrivateRedis("/dev/null/x")


SECOND = """
    import ctypes, os, signal, sys, time
    from seriatim import _native

    signal.signal(signal.SIGTERM, lambda number, frame: os.write(1, b"first\\n"))
    signal.signal(signal.SIGINT, lambda number, frame: os.write(1, b"int\\n"))
    _native.exit_beyond([signal.SIGTERM, signal.SIGINT], 1, 7)
    print("ready", flush=True)
    if sys.argv[1] == "held":
        library, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(128)
        library.pthread_mutex_init(mutex, None)
        for _ in range(2):
            library.pthread_mutex_lock(mutex)  # the second one waits for ever, with the GIL
    else:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.1)
"""


@pytest.mark.parametrize("how", ["free", "held"])
def test_the_second_signal_ends_the_process(how: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(SECOND), how], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    if how == "free":
        assert process.stdout.readline() == "first\n"
    while is_pending(process.pid):  # two that wait would be one
        time.sleep(0.001)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)  # a second SIGTERM within a second would be none
    assert process.wait(30) == 7
    process.stdout.close()


def test_exit_beyond_ends_the_process_and_refuses_invalid_arguments() -> None:
    code = """
        import os, signal
        from seriatim import _native
        seen = []
        signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
        for _ in range(3):
            _native.exit_beyond([signal.SIGTERM], 1, 7)
            os.kill(os.getpid(), signal.SIGTERM)
        _native.exit_beyond([], 0, 0)
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        assert len(seen) == 6, seen
        for bad in (signal.SIGUSR1, 0, 65, -1):
            try:
                _native.exit_beyond([bad], 1, 7)
            except ValueError:
                continue
            raise AssertionError(bad)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    """
    done = run(code)
    assert (done.returncode, done.stderr) == (0, "")


INSIDE = """
import sys, types
package = sys.modules["seriatim"] = types.ModuleType("seriatim")  # without what else it imports
package.__path__ = [FOLDER]
from seriatim import _native
assert _native.load(_native.dump([1, {"a": "b"}], "x")) == [1, {"a": "b"}]
try:
    _native.dump(object(), "x")
except ValueError:
    pass
link = _native.Link("unix:///nowhere", "ns", None, 0)
"""


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the module has another name there")
def test_subinterpreters_load_the_extension_without_harm() -> None:
    code = """
        import sys
        import _xxsubinterpreters as interpreters
        for _ in range(20):
            one = interpreters.create()
            interpreters.run_string(one, sys.argv[1])
            interpreters.destroy(one)
    """
    done = run(code, INSIDE.replace("FOLDER", repr(str(HERE.parent / "seriatim"))))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not sys.platform.startswith("linux") or not shutil.which("nm"), reason="nm of ELF")
def test_the_extension_exports_its_init_function_alone() -> None:
    command = ["nm", "-D", "--defined-only", _native.__file__]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["PyInit__native"]


@pytest.mark.limit(300)
def test_no_reference_is_leaked(tmp_path: Path) -> None:
    """The debug interpreter counts all references; it needs an extension of its own."""
    debug = shutil.which("python3-dbg")
    if not debug or os.environ.get("LD_PRELOAD"):
        pytest.skip("no python3-dbg, or a sanitizer is loaded")
    build = ["setup.py", "-q", "build_ext", "--build-lib", str(tmp_path), "--build-temp", str(tmp_path / "objects")]
    subprocess.run([debug, *build], cwd=HERE.parent.parent, check=True, capture_output=True)
    done = subprocess.run([debug, str(HERE / "refleak.py"), str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
