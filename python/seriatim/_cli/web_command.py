"""Serves the dashboard until TERM or INT."""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from contextlib import suppress
from typing import Any, Final

from .._client import private_redis, redis_url, validate
from .._errors import UsageError
from .._server.signals import Signals
from .._web.dashboard import LONGEST_TOKEN, POLLS
from .._web.stand_alone import WebServer
from ..web import wsgi_app
from .exit_codes import STOPPED

BIND: Final = "127.0.0.1"
PORT: Final = 9292
TOKEN: Final = "SERIATIM_WEB_TOKEN"  # the variable that sets the token where --token does not; empty is a mistake, not no token
BACKLOG: Final = 128
STOP_SECONDS: Final = 5.0
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "[::1]")


class WebCommand:
    def __init__(self, options: dict[str, Any]) -> None:
        self._bind: str = options.get("bind", BIND)
        self._port = validate.integer("--port", options.get("port", PORT), 0, 65_535)
        self._token = token(options)
        self._read_only = "read_only" in options
        self._consume = "consume" in options
        self._path = self._bind.removeprefix("unix:").removeprefix("//") if self._bind.startswith("unix:") else None
        if self._path is not None and "port" in options:
            raise UsageError("--port and a Unix socket exclude each other")

    def run(self) -> int:
        """The exit code."""
        app = wsgi_app(read_only=self._read_only, token=self._token, hosts=self._hosts(), consume=self._consume)
        listener = self._listen()
        try:
            if redis_url.is_none():
                private_redis.url()
            signals = Signals(("SIGTERM", "SIGINT"))
            server = WebServer(listener, app, POLLS if self._consume else 0)
            server.start()
            print(f"seriatim: the dashboard is at {self._address(listener)}", flush=True)
            while signals.wait(60) is None:
                pass
            server.stop(STOP_SECONDS)
        finally:
            if self._path is not None:
                with suppress(FileNotFoundError):
                    os.unlink(self._path)
        return STOPPED

    def _hosts(self) -> tuple[str, ...]:
        """A page of another site whose name was bound to 127.0.0.1 has that name as its Host; a token it has not."""
        return () if self._token or self._path is not None else (*LOCAL_HOSTS, literal(self._bind))

    def _listen(self) -> socket.socket:
        try:
            return self._listen_tcp() if self._path is None else listen_unix(self._path)
        except OSError as error:
            raise UsageError(f"cannot listen on {self._bind}: {error.strerror or error}") from error

    def _listen_tcp(self) -> socket.socket:
        family, *_, address = socket.getaddrinfo(self._bind, self._port, type=socket.SOCK_STREAM)[0]
        if not self._token and not ipaddress.ip_address(address[0]).is_loopback:
            text = f"--bind {self._bind} is not a loopback address: other machines could reach the dashboard; set {TOKEN} or --token"
            raise UsageError(text)
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)

    def _address(self, listener: socket.socket) -> str:
        if self._path is not None:
            return f"unix:{self._path}"
        return f"http://{literal(self._bind)}:{listener.getsockname()[1]}/"


def token(options: dict[str, Any]) -> str | None:
    if "token" in options:
        return validate.plain_text("--token", options["token"], 1, LONGEST_TOKEN)
    return validate.plain_text(TOKEN, os.environ[TOKEN], 1, LONGEST_TOKEN) if TOKEN in os.environ else None


def literal(address: str) -> str:
    """As it stands in a URL."""
    return f"[{address}]" if ":" in address else address


def listen_unix(path: str) -> socket.socket:
    """Only this user may connect. What a dead process left behind is in nobody's use."""
    if is_abandoned(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(path)
        listener.listen(BACKLOG)
        return listener
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(before)


def is_abandoned(path: str) -> bool:
    """A socket where nobody listens."""
    if not (os.path.exists(path) and stat.S_ISSOCK(os.stat(path).st_mode)):
        return False
    with socket.socket(socket.AF_UNIX) as attempt:
        try:
            attempt.connect(path)
        except ConnectionRefusedError:
            return True
    return False
