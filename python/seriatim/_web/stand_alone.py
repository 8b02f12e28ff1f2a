"""
The HTTP server of `seriatim web`: one thread a connection, which serves requests one after another. A consumer's
pop that waits has its thread, which sleeps, and no connection to Redis.

A client has SECONDS to send its request and as many to take its answer; IDLE_SECONDS after an answer the connection is
closed. When all are in use, a new one takes the place of the one whose request is awaited for longest.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from contextlib import suppress
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from .. import _log
from .dashboard import MAX_BODY, Polls, refusal

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

SECONDS: Final = 10.0
IDLE_SECONDS: Final = 15.0  # for the next request to begin
CONNECTIONS: Final = 256  # beside those of pops that wait
LINGER_SECONDS: Final = 1.0


class Input(socket.SocketIO):
    """What comes until the deadline, however slowly; then TimeoutError."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection, "r")
        self._connection = connection
        self.give(SECONDS)

    def give(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(max(self._deadline - time.monotonic(), 0.001))
        return super().readinto(buffer)


class Answering(ServerHandler):
    server_software = "seriatim"
    http_version = "1.1"
    request_handler: Exchange

    def handle_error(self) -> None:
        """Whatever of an answer is missing, another one must not follow. A client that was too slow or has gone is no error."""
        self.request_handler.close_connection = True
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error()


class Exchange(WSGIRequestHandler):
    """A connection: requests, each with its answer."""

    server: WebServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        if self.connection.family != socket.AF_UNIX:  # an answer goes out in pieces
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._input = Input(self.connection)
        self.rfile = self._reader = io.BufferedReader(self._input)

    def handle(self) -> None:
        try:
            while self._serve_one() and self._awaits_another():
                pass
            self._linger()
        except OSError:  # the client has gone, or was too slow
            pass

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), "RAW_URI": self.path, "seriatim.socket": self.connection, "seriatim.polls": self.server.polls}

    def address_string(self) -> str:
        return str(self.client_address[0])

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """The message tells what came, which is not to be told."""
        self._refuse(code, HTTPStatus(code).phrase)

    def _refuse(self, code: int, text: str) -> None:
        """As the application answers."""
        self.request_version = "HTTP/1.1"  # without one there would be no headers
        status, headers, body = refusal(code, text)
        self.send_response_only(status)
        for name, value in [*headers, ("Content-Length", str(len(body))), ("Connection", "close")]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        _log.debug("web", f"{self.address_string()} {format % arguments}")

    def _serve_one(self) -> bool:
        """May another follow?"""
        self.close_connection = True
        body = self._read()
        self.server.has_sent(self.connection)
        self.connection.settimeout(SECONDS)
        if body is None:
            return False
        self._answer(body)
        return not self.close_connection

    def _awaits_another(self) -> bool:
        self._input.give(IDLE_SECONDS)
        self.server.awaits(self.connection)
        begun = bool(self._reader.peek(1))
        self._input.give(SECONDS)
        return begun

    def _read(self) -> bytes | None:
        """The body; None: what came is no request, and has been answered."""
        self.raw_requestline = self.rfile.readline(65_537)
        if len(self.raw_requestline) > 65_536:
            self._refuse(414, "the address is too long")
        elif self.raw_requestline and self.parse_request():
            if self.request_version != "HTTP/0.9":
                return self._read_body()
            self._refuse(400, "HTTP/0.9 is not supported")
        return None

    def _read_body(self) -> bytes | None:
        announced = self.headers.get("content-length", "0")
        if self.headers.defects or len(self.headers.get_all("content-length", [])) > 1:
            self.close_connection = True  # who stands between may see the end of the request elsewhere
        if "transfer-encoding" in self.headers:
            self._refuse(501, "Transfer-Encoding is not supported")
        elif not (announced.isascii() and announced.isdigit()):
            self._refuse(400, "Content-Length must be a number")
        elif len(announced) > 9 or int(announced) > MAX_BODY:
            self._refuse(413, f"the body is longer than {MAX_BODY} bytes")
        else:
            return self.rfile.read(int(announced))
        return None

    def _answer(self, body: bytes) -> None:
        answering = Answering(io.BytesIO(body), self.wfile, self.get_stderr(), self.get_environ(), multithread=True)
        answering.request_handler = self
        answering.run(self.server.app)

    def _linger(self) -> None:
        """A close with bytes unread would take the answer back."""
        self.connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + LINGER_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            self.connection.settimeout(left)
            if not self.connection.recv(65_536):
                return


class WebServer(ThreadingMixIn, WSGIServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, app: WSGIApplication, polls: int = 0, connections: int = CONNECTIONS) -> None:
        """listener: listens already. polls: how many pops may wait at once. connections: how many others may be open."""
        self.polls = Polls(polls)
        self._places = threading.BoundedSemaphore(connections + polls)
        self._lock = threading.Lock()
        self._sending: dict[socket.socket, None] = {}  # the oldest first
        self._open = 0
        TCPServer.__init__(self, ("", 0), Exchange, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        name = listener.getsockname()
        self.server_name, self.server_port = ("localhost", 0) if isinstance(name, str) else name[:2]
        self.setup_environ()
        self.app = app

    def start(self) -> None:
        threading.Thread(target=self.serve_forever, name="seriatim-web", daemon=True).start()

    def stop(self, seconds: float) -> None:
        """Accepts no more, and gives what is under way so long."""
        threading.Thread(target=self.shutdown, daemon=True).start()
        self.polls.end()
        deadline = time.monotonic() + seconds
        while self._open > len(self._sending) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.socket.close()

    def awaits(self, connection: socket.socket) -> None:
        """A request of it, its first or the next."""
        with self._lock:
            self._sending[connection] = None

    def has_sent(self, connection: socket.socket) -> None:
        """Its request is here, or is none."""
        with self._lock:
            self._sending.pop(connection, None)

    # ---- for socketserver

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = self.socket.accept()
        return connection, address or ("unix", 0)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self._drop_slowest()
            self._places.acquire()
        self.awaits(request)
        with self._lock:
            self._open += 1
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        self.has_sent(request)
        with self._lock:
            self._open -= 1
        super().close_request(request)
        self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.error("web", _log.describe(sys.exc_info()[1]))

    def _drop_slowest(self) -> None:
        with self._lock:
            slowest = next(iter(self._sending), None)
        if slowest is not None:
            with suppress(OSError):
                slowest.shutdown(socket.SHUT_RDWR)
