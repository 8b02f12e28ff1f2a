"""Mounts of the dashboard behind real HTTP, and a client that sends what it is told to."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import Any
from urllib.parse import unquote, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.validate import validator

SAME_ORIGIN = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
SECONDS = 60


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """Where a dashboard is mounted: "http://127.0.0.1:1234/prefix"."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self.host, self.port, self.prefix = at.hostname or "", at.port or 0, at.path.rstrip("/")

    def ask(self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Answer:
        """path: behind the prefix, as it is sent."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=SECONDS)
        try:
            connection.request(method, self.prefix + path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, headers)

    def post(self, path: str, value: object = None, **headers: str) -> Answer:
        return self.ask("POST", path, {**SAME_ORIGIN, **headers}, b"" if value is None else json.dumps(value).encode())

    def raw(self, data: bytes) -> bytes:
        """What comes back until the end."""
        with socket.create_connection((self.host, self.port), SECONDS) as connection:
            connection.sendall(data)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
            return b"".join(parts)


# ---- WSGI


class Threaded(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Silent(WSGIRequestHandler):
    def get_environ(self) -> Any:
        """With the client's connection, as gunicorn gives it."""
        return {**super().get_environ(), "gunicorn.socket": self.connection}

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@contextmanager
def wsgi(app: Any, prefix: str = "/admin/jobs") -> Iterator[Site]:
    """wsgiref's server, its own rules checked, and the mount of a framework around the application."""
    checked = validator(app)

    def mount(environ: Any, start_response: Any) -> Any:
        path = environ["PATH_INFO"]
        assert path.startswith(prefix), path
        return checked({**environ, "SCRIPT_NAME": prefix, "PATH_INFO": path[len(prefix) :]}, start_response)

    with make_server("127.0.0.1", 0, mount, Threaded, Silent) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield Site(f"http://127.0.0.1:{server.server_port}{prefix}")
        finally:
            server.shutdown()
            thread.join()


# ---- ASGI


Mount = Callable[[str, str, bytes], dict[str, Any]]


def full_path(prefix: str, path: str, raw: bytes) -> dict[str, Any]:
    """As the specification has it."""
    return {"root_path": prefix, "path": path, "raw_path": raw}


def path_taken_off(prefix: str, path: str, raw: bytes) -> dict[str, Any]:
    """As older frameworks had it."""
    return {"root_path": prefix, "path": path[len(prefix) :], "raw_path": raw}


def no_raw_path(prefix: str, path: str, raw: bytes) -> dict[str, Any]:
    return {"root_path": prefix, "path": path}


@contextmanager
def asgi(app: Any, prefix: str = "/admin/jobs", mount: Mount = full_path) -> Iterator[Site]:
    """A server on an event loop of its own that is strict in what it takes of the application."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = AsgiServer(app, prefix, mount)
    try:
        port = asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS)
        yield Site(f"http://127.0.0.1:{port}{prefix}")
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(SECONDS)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert not server.failures, server.failures


class AsgiServer:
    def __init__(self, app: Any, prefix: str, mount: Mount) -> None:
        self._app = app
        self._prefix = prefix
        self._mount = mount
        self.failures: list[BaseException] = []

    async def start(self) -> int:
        self._to_lifespan: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
        self._lifespan = asyncio.ensure_future(self._app(scope, self._to_lifespan.get, self._said.put))
        await self._to_lifespan.put({"type": "lifespan.startup"})
        assert await self._said.get() == {"type": "lifespan.startup.complete"}
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        self._server.close()
        await self._to_lifespan.put({"type": "lifespan.shutdown"})
        assert await self._said.get() == {"type": "lifespan.shutdown.complete"}
        await self._lifespan

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await AsgiExchange(self._app, reader, writer).run(self._prefix, self._mount)
        except BaseException as error:
            self.failures.append(error)
        finally:
            writer.close()


class AsgiExchange:
    def __init__(self, app: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._app = app
        self._reader = reader
        self._writer = writer
        self._left = 0
        self._has_body = False
        self._announced = -1
        self._state = "start"

    async def run(self, prefix: str, mount: Mount) -> None:
        lines = (await self._reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[:-2]
        method, target, _ = lines[0].split(b" ")
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(b":") for line in lines[1:])]
        self._left = int(dict(headers).get(b"content-length", 0))
        self._method = method.decode()
        raw, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._method,
            "scheme": "http",
            "query_string": query,
            "headers": headers,
            **mount(prefix, unquote(raw.decode()), raw),
        }
        await self._app(scope, self._receive, self._send)
        assert self._state in ("end", "gone"), self._state

    async def _receive(self) -> dict[str, Any]:
        """The next part of the body; when all of it was given, waits until the client closes its connection."""
        if self._has_body and not self._left:
            await self._reader.read()
            self._state = "gone" if self._state == "start" else self._state
            return {"type": "http.disconnect"}
        self._has_body = True
        data = await self._reader.read(min(self._left, 65536)) if self._left else b""
        if self._left and not data:
            self._state = "gone"
            return {"type": "http.disconnect"}
        self._left -= len(data)
        return {"type": "http.request", "body": data, "more_body": self._left > 0}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert self._state == "start"
            self._state = "body"
            self._write_head(message["status"], message["headers"])
        else:
            assert (message["type"], self._state) == ("http.response.body", "body")
            assert len(message["body"]) == (0 if self._method == "HEAD" else self._announced)
            assert not message.get("more_body", False)
            self._state = "end"
            self._writer.write(message["body"])
            await self._writer.drain()

    def _write_head(self, status: int, headers: Any) -> None:
        fields = dict(headers)
        self._announced = int(fields.get(b"content-length", 0) if status == 204 else fields[b"content-length"])
        for name, value in fields.items():
            assert isinstance(name, bytes) and isinstance(value, bytes) and name == name.lower() and b"\n" not in value
        lines = [b"HTTP/1.1 %d X" % status, *(b"%s: %s" % field for field in fields.items()), b"connection: close"]
        self._writer.write(b"\r\n".join([*lines, b"", b""]))
