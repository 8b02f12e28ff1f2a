"""The command `seriatim` in a process of its own."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tty
from collections.abc import Mapping
from pathlib import Path

NEUTRAL = ("RAILS_ENV", "RACK_ENV", "APP_ENV", "SERIATIM_ENV", "REDIS_URL", "SERIATIM_REDIS_URL", "REDIS_PROVIDER")


def environment(redis: str | None, more: Mapping[str, str] | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in NEUTRAL}
    return {**kept, **({} if redis is None else {"REDIS_URL": redis}), **(more or {})}


def words(*arguments: str, closed: str = "") -> list[str]:
    """closed: what closes some of its standard files in the shell, ">&-"."""
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh"] if closed else []
    return [*shell, sys.executable, "-m", "seriatim", *arguments]


def run(
    *arguments: str,
    redis: str | None,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    closed: str = "",
    seconds: float = 60,
) -> tuple[str, int]:
    """Runs it to its end. Gives what it wrote to both outputs, and its exit code."""
    ended = subprocess.run(
        words(*arguments, closed=closed),
        env=environment(redis, env),
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
    )
    return ended.stdout.decode("utf-8", "replace"), ended.returncode


def run_on_terminal(*arguments: str, redis: str | None, cwd: str | Path | None = None, seconds: float = 60) -> tuple[str, str, int]:
    """
    The same with stderr on a terminal, which changes no byte. Gives what it wrote to the terminal, to its standard
    output, and its exit code.
    """
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        ended = subprocess.run(
            words(*arguments),
            env=environment(redis, None),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=theirs,
            timeout=seconds,
        )
        os.set_blocking(ours, False)
        return read_terminal(ours), ended.stdout.decode("utf-8", "replace"), ended.returncode
    finally:
        os.close(ours)
        os.close(theirs)


def read_terminal(terminal: int) -> str:
    """What was written to it until now."""
    parts: list[bytes] = []
    try:
        while part := os.read(terminal, 4096):
            parts.append(part)
    except BlockingIOError:
        pass
    return b"".join(parts).decode("utf-8", "replace")


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_pending(pid: int) -> bool:
    """Does a signal wait for the process?"""
    try:
        waiting = re.search(r"^ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.M)
    except (FileNotFoundError, ProcessLookupError):
        return False
    return waiting is not None and int(waiting[1], 16) != 0


class Command:
    """A running one."""

    def __init__(
        self,
        *arguments: str,
        redis: str | None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        wait: bool = True,
        closed: str = "",
    ) -> None:
        """Starts it, and, if `wait`, waits until it says that it runs."""
        self._folder = tempfile.mkdtemp(prefix="seriatim-command")
        self._log_path = Path(self._folder, "log")
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                words(*arguments, closed=closed),
                env=environment(redis, env),
                cwd=cwd,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if wait:
            self.wait_for(r" start node")

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log_path.read_bytes().decode("utf-8", "replace")

    def wait_for(self, pattern: str, seconds: float = 60) -> re.Match[str]:
        """Until the log holds it."""
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log)):
            ended = self._process.poll() is not None
            if (ended and not re.search(pattern, self.log)) or time.monotonic() > deadline:
                raise AssertionError(f"no {pattern!r} in:\n{self.log}")
            time.sleep(0.002)
        return found

    def signal(self, name: str) -> None:
        self._process.send_signal(signal.Signals[f"SIG{name}"])

    def signal_taken(self, name: str) -> None:
        """Sends it and waits until its handler has it: two that wait would be one."""
        self.signal(name)
        deadline = time.monotonic() + 30
        while is_pending(self.pid) and time.monotonic() < deadline:
            time.sleep(0.001)

    def wait(self, seconds: float = 60) -> int:
        """The exit code."""
        deadline = time.monotonic() + seconds
        while (code := self._process.poll()) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"still runs after {seconds} s:\n{self.log}")
            time.sleep(0.001)
        return code

    def stop(self, name: str = "TERM", seconds: float = 60) -> int:
        self.signal(name)
        return self.wait(seconds)

    def remove(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
