"""Starts the redis-servers and sentinels of every Python test: python/tests, spec/docs and lua/spec/nginx."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO


ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # without the sanitizers


def free_ports(count: int) -> list[int]:
    """Ports below those that the system gives to outgoing connections, so that no connection takes one before its server does."""
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
    """A private redis-server on a Unix socket in a temporary folder. The process is stopped by its pid."""

    def __init__(self, *arguments: str) -> None:
        """arguments: options of redis-server, which override those of `start`."""
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
        """Returns when it answers, which it does not while it loads its file."""
        program = next((name for name in ("redis-server", "valkey-server") if shutil.which(name)), None)
        assert program is not None, "no redis-server"
        words = "--port 0 --appendonly yes --appendfsync no --maxmemory-policy noeviction --enable-debug-command yes"
        command = [program, *words.split(), "--save", "", "--unixsocket", self.socket, "--dir", self.folder]
        with open(os.path.join(self.folder, "log"), "ab") as log:
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                start_new_session=True,
            )
        self._wait_until_ready()

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Does nothing in a forked child, whose parent owns the process."""
        if self._process is not None and self._owner == os.getpid():
            self._process.send_signal(number)
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Ends it and removes its folder."""
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
            except OSError:
                pass
            except RuntimeError as error:
                if str(error).startswith("NOAUTH"):  # it has a password, and answers
                    return
            time.sleep(0.02)
        with open(os.path.join(self.folder, "log")) as log:
            raise RuntimeError(f"redis-server does not answer: {log.read()}")


class RedisElsewhere(RedisServer):
    """A Redis that another process started, by the folder of its socket."""

    def __init__(self, folder: str, url: str) -> None:
        self.folder = folder
        self.socket = os.path.join(folder, "s")
        self.url = url

    def remove(self) -> None:
        """Leaves it to the other process."""


class Sentinel:
    """A sentinel on a port of loopback that watches one master."""

    def __init__(self, folder: Path, name: str, master_port: int, **options: int) -> None:
        """folder: of its configuration and log, which the caller removes. name: of the master. options: further settings of
        the master, as down_after_milliseconds."""
        (self.port,) = free_ports(1)
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {folder}", f"sentinel monitor {name} 127.0.0.1 {master_port} 1"]
        lines += [f"sentinel {option.replace('_', '-')} {name} {value}" for option, value in options.items()]
        config = folder / "sentinel.conf"
        config.write_text("\n".join(lines) + "\n")
        with open(folder / "sentinel.log", "wb") as log:
            self._process = subprocess.Popen(["redis-server", str(config), "--sentinel"], stdout=log, stderr=log, env=ENVIRONMENT)

    def ask(self, *words: str) -> str:
        """The bytes of its reply as text; empty while it cannot be reached."""
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as connection:
                connection.sendall(" ".join(words).encode() + b"\r\n")
                return connection.recv(65_536).decode()
        except (ConnectionRefusedError, ConnectionResetError):
            return ""

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


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
