"""A redis-server of the tests' own, on a Unix socket in a folder of its own, stopped by its pid."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any, BinaryIO


def free_ports(count: int) -> list[int]:
    """Below those that the system gives to outgoing connections, so that none of these takes one before its server does."""
    found: dict[int, socket.socket] = {}
    while len(found) < count:
        listening = socket.socket()
        try:
            listening.bind(("127.0.0.1", random.randrange(12_000, 32_000)))
        except OSError:
            listening.close()
        else:
            found[listening.getsockname()[1]] = listening
    for listening in found.values():
        listening.close()
    return list(found)


class RedisServer:
    def __init__(self, *arguments: str) -> None:
        """arguments: of redis-server, beside ours."""
        self.folder = tempfile.mkdtemp(prefix="seriatim-test")
        self.socket = os.path.join(self.folder, "s")
        self.url = f"unix://{self.socket}"
        self._arguments = arguments
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        program = next((name for name in ("redis-server", "valkey-server") if shutil.which(name)), None)
        assert program is not None, "no redis-server"
        words = "--port 0 --appendonly yes --appendfsync no --maxmemory-policy noeviction --enable-debug-command yes"
        command = [program, *words.split(), "--save", "", "--unixsocket", self.socket, "--dir", self.folder]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdout=log,
                stderr=log,
                env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
                start_new_session=True,
            )
        self._wait_until_ready()

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        if self._owner == os.getpid():
            self.stop()
            shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words: object) -> Any:
        """One command; bulk strings as str (surrogateescape), integers as int, errors raised."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(self.socket)
            parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
            request = b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
            connection.sendall(b"*%d\r\n%s" % (len(parts), request))
            with connection.makefile("rb") as answer:
                return _read(answer)

    def flush(self) -> None:
        self.call("FLUSHALL")

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if self.call("PING") == "PONG":
                    return
            except (OSError, RuntimeError):
                pass
            time.sleep(0.02)
        with open(os.path.join(self.folder, "log")) as log:
            raise RuntimeError(f"redis-server does not answer: {log.read()}")


def _read(answer: BinaryIO) -> Any:
    line = answer.readline().decode("utf-8", "surrogateescape").rstrip("\r\n")
    kind, rest = line[:1], line[1:]
    if kind == "-":
        raise RuntimeError(rest)
    if kind == ":":
        return int(rest)
    if kind == "$":
        return None if rest == "-1" else answer.read(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
    if kind == "*":
        return [_read(answer) for _ in range(max(int(rest), 0))]
    return rest
