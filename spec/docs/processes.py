"""Programs that a page starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

NEUTRAL = ("RAILS_ENV", "RACK_ENV", "APP_ENV", "SERIATIM_ENV", "REDIS_URL", "SERIATIM_REDIS_URL", "REDIS_PROVIDER", "DJANGO_SETTINGS_MODULE")
PATIENCE = 120.0  # seconds; the machine may be loaded


def environment(more: Mapping[str, str]) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in NEUTRAL}, **more}


def shell(text: str, folder: Path, env: Mapping[str, str]) -> str:
    """Runs it to its end, in bash, and gives its output; it fails with the first command that does."""
    ended = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment(env), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200)
    said = ended.stdout.decode("utf-8", "replace")
    assert ended.returncode == 0, f"{text}\nended with {ended.returncode}:\n{said}"
    return said


def wait_until(condition: Callable[[], bool], what: Callable[[], str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.05)


class Started:
    """A command in a process group of its own. For `with`: whatever still runs is killed.

    Each of its outputs has a file of its own, so a line of one does not stand within a line of the other.
    """

    def __init__(self, text: str, folder: Path, env: Mapping[str, str]) -> None:
        self._files = [tempfile.NamedTemporaryFile(prefix="seriatim-docs-", suffix=f".{name}") for name in ("stdout", "stderr")]
        self.text = text
        line = re.sub(r'^(\w+="[^"]*" )?', r"\1exec ", text)  # behind the variable that the line sets
        self._process = subprocess.Popen(["bash", "-c", line], cwd=folder, env=environment(env), stdin=subprocess.DEVNULL,
                                         stdout=self._files[0], stderr=self._files[1], start_new_session=True)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *ignored: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for file in self._files:
            file.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        return "".join(Path(file.name).read_bytes().decode("utf-8", "replace") for file in self._files)

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.log or self._process.poll() is not None, lambda: f"no {text!r} from {self.text}:\n{self.log}")
        assert text in self.log, f"{self.text} ended without {text!r}:\n{self.log}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)
