"""What the mounts of the dashboard share: requests go to the core, over connections of their own, and answers back."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Union
from urllib.parse import quote_from_bytes, unquote_to_bytes

from .. import _log, _native
from .._client import redis_url, validate
from .._client.connection import Connection
from .._client.middlewares import is_async
from .._client.pool import Pool, refuse_in_tests
from .._client.threads import in_thread
from .._errors import Error, Invalid, PoolTimeout
from .._server import server
from .._settings import loads_errors, settings
from .._worker import all_workers

if TYPE_CHECKING:
    from .._client.connection import Change, Noted, Redact, Text, WebAsked, WebHooks

CONNECTIONS: Final = 2  # for what reads, and as many for what changes something; those that push are never taken
CONSUMERS: Final = 4  # connections for the requests of consumers, which bulk actions must not hold up
POLLS: Final = 1000  # pops that may wait, at most
KEPT: Final = 4  # connections of pops that have waited, which stay open while none waits
CONSUME: Final = b"/api/v1/consume/"
LIVEZ: Final = b"/livez"  # is answered without Redis
PROBES: Final = (LIVEZ, b"/readyz")  # open to all: nobody is asked for a role
TURNS: Final = 10  # of the event loop, in which an ASGI server tells that a client has left before its pop asks again
CONSUMER_PATIENCE: Final = 60.0  # seconds, for one of CONSUMERS: a thousand that ask at once wait for their turn, and none is refused
PATIENCE: Final = 5.0  # seconds, for what reads; a change has as long as Redis goes on with it
MAX_BODY: Final = 1 << 20  # bytes
LONGEST_TOKEN: Final = 1024  # bytes
FIELDS: Final = ("host", "origin", "sec-fetch-site", "content-type", "authorization", "accept", "accept-encoding")
# definitions: roles, written by script/embed from core/definitions/operations.json

ROLES: Final = ("viewer", "operator", "admin", "consumer")

# end of definitions; the core counts them from 1; 0 is nobody

Role = Callable[[Any], Union[str, None, Awaitable[Union[str, None]]]]
Audit = Callable[[Any, "Change"], object]


class Dashboard:
    def __init__(
        self,
        title: str | None,
        read_only: bool,
        role: Role | None,
        redact: Redact | None,
        audit: Audit | None,
        hosts: Sequence[str],
        token: str | None,
        consume: bool,
        polls: int,
    ) -> None:
        """Raises Invalid."""
        self._title = None if title is None else plain("title", title)
        self._read_only = validate.flag("read_only", read_only)
        self._role = validate.function_or_none("role", role)
        self._redact = validate.function_or_none("redact", redact)
        if is_async(redact):  # the core calls it, and awaits nothing
            raise Invalid("redact must not be async")
        self._audit = validate.function_or_none("audit", audit)
        self._hosts = tuple(plain("hosts", host) for host in validate.sequence("hosts", listed(hosts)))
        self._token = None if token is None else plain("token", token, LONGEST_TOKEN)
        self._consume = validate.flag("consume", consume)
        polls = validate.integer("polls", polls, 1, POLLS)
        # What reads must not wait for what takes long.
        self._sizes = {"livez": CONNECTIONS, "read": CONNECTIONS, "change": CONNECTIONS, "consume": CONSUMERS, "poll": polls}
        self._pools: dict[str, Pool] = {}
        self._telling: set[asyncio.Future[object]] = set()

    def answer(self, request: Request, user: Any) -> _native.WebResponse:
        """user: of whom the role is asked. Whatever happens, there is an answer."""
        noted: Noted = []
        try:
            asked = self._asked(request, self._role_of(request, user))
            began = time.monotonic()
            with self._connections(request.kind).lend() as connection:
                answer = connection.web(asked, self._hooks(), noted, request.patience)
            if answer[3] and request.polls:
                return self._ask_again(asked, began, noted, answer, request.polls)
            return self._poll(asked, began, noted) if answer[3] else answer[:3]
        except Exception as error:
            return failure(error, request.kind)
        finally:
            with self._untouched(noted):
                self._tell(user, noted)

    async def aanswer(self, request: Request, user: Any) -> _native.WebResponse:
        """The same without blocking the running event loop."""
        noted: Noted = []
        try:
            role = self._role_of(request, user)
            asked = self._asked(request, await role if inspect.isawaitable(role) else role)
            began = time.monotonic()
            async with (await self._aconnections(request.kind)).lend() as connection:
                answer = await connection.aweb(asked, self._hooks(), noted, request.patience)
            return await self._apoll(asked, began, noted) if answer[3] else answer[:3]
        except Exception as error:
            return failure(error, request.kind)
        finally:
            with self._untouched(noted):
                await self._atell(user, noted)

    def _poll(self, asked: WebAsked, began: float, noted: Noted) -> _native.WebResponse:
        """Of a pop that finds nothing: it waits, on a connection of its own."""
        try:
            with self._connections("poll").lend(0) as connection:
                return connection.web(waiting(asked, began), self._hooks(), noted, None)[:3]
        except PoolTimeout:
            return busy(self._sizes["poll"])

    def _ask_again(self, asked: WebAsked, began: float, noted: Noted, answer: _native.WebAnswer, polls: Polls) -> _native.WebResponse:
        """The same in a host that has a thread for each request: without a connection while it waits."""
        if not polls.enter():
            return busy(polls.most)
        try:
            while answer[3] and polls.rest(answer[3] / 1000):
                with self._connections("consume").lend() as connection:
                    answer = connection.web(waiting(asked, began, polls.count), self._hooks(), noted, None)
            return answer[:3]
        finally:
            polls.leave()

    async def _apoll(self, asked: WebAsked, began: float, noted: Noted) -> _native.WebResponse:
        try:
            async with (await self._aconnections("poll")).lend(0) as connection:
                return (await connection.aweb(waiting(asked, began), self._hooks(), noted, None, TURNS))[:3]
        except PoolTimeout:
            return busy(self._sizes["poll"])

    def close(self) -> None:
        """Its connections; the next request makes others."""
        while self._pools:
            self._pools.popitem()[1].discard()

    def _tell(self, user: Any, noted: Noted) -> object:
        """What the host's function returns."""
        if not noted:
            return None
        change, line = noted[-1]
        if self._audit:
            return self._audit(user, change)
        _log.info("web", line)
        return None

    async def _atell(self, user: Any, noted: Noted) -> None:
        """A request that is cancelled meanwhile leaves it to go on."""
        told = self._tell(user, noted)
        if inspect.isawaitable(told):
            task = asyncio.ensure_future(told)
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)
            await asyncio.shield(task)

    @contextmanager
    def _untouched(self, noted: Noted) -> Iterator[None]:
        """The change is made: what the host's function raises is logged, and the answer stands."""
        try:
            yield
        except Exception as error:
            _log.error("web", f"audit raised {_log.describe(error)} at: {noted[-1][1]}")

    def _hooks(self) -> WebHooks:
        return self._redact, loaded if loads_errors() else None

    def _role_of(self, request: Request, user: Any) -> str | Awaitable[str | None] | None:
        if request.is_probe:
            return None
        return self._role(user) if self._role else "admin"

    def _asked(self, request: Request, role: object) -> WebAsked:
        number = 0 if role is None else ROLES.index(validate.word("role", role, ROLES)) + 1
        own = (self._title, self._read_only, self._hosts, self._token, server.stalled(), renamed(), loads_errors(), self._consume)
        return own, request.with_role(number)

    def _connections(self, kind: str) -> Pool:
        """Two threads may make one each at first; that of the last is kept."""
        refuse_in_tests("the dashboard")
        pool = self._pools.get(kind)
        if pool is None or not pool.fits():
            if pool is not None:
                pool.discard()
            version, url, namespace = settings.connection_changes, redis_url.resolve(), settings.namespace
            url_from = redis_url.named_by()
            connect = lambda: Connection(url, namespace, url_from)  # noqa: E731
            patience = CONSUMER_PATIENCE if kind == "consume" else PATIENCE
            pool = self._pools[kind] = Pool(self._sizes[kind], patience, connect, version, KEPT)
        return pool

    async def _aconnections(self, kind: str) -> Pool:
        """To find the URL may block."""
        refuse_in_tests("the dashboard")
        pool = self._pools.get(kind)
        if pool is not None and pool.fits():
            return pool
        made: Pool = await in_thread(self._connections, kind)
        return made


class Polls:
    """The pops that wait in a host that has a thread for each request."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def enter(self) -> bool:
        """False: as many as allowed wait already."""
        with self._lock:
            if self.count >= self.most:
                return False
            self.count += 1
            return True

    def leave(self) -> None:
        with self._lock:
            self.count -= 1

    def rest(self, seconds: float) -> bool:
        """False: the host stops."""
        return not self._ended.wait(seconds)

    def end(self) -> None:
        self._ended.set()


class Request:
    """One of HTTP, as the hosts hand it on."""

    def __init__(
        self,
        method: str,
        prefix: bytes,
        path: bytes,
        query: bytes,
        field: Callable[[str], bytes | None],
        body: bytes,
        secure: bool,
        socket: int = 0,
        polls: Polls | None = None,
    ) -> None:
        """
        prefix: where the dashboard is mounted. path: behind it, percent-encoded. field: of the header, by small name.
        body: what is longer than MAX_BODY only has to be longer.
        socket: the descriptor of the visitor's connection, whose end ends a change; 0: the host does not tell it.
        polls: of a host that has a thread for each request; None: a pop that waits does so on a connection of its own.
        """
        self.polls = polls
        self.is_probe = path in PROBES
        if method == "POST":
            self.kind = "consume" if path.startswith(CONSUME) else "change"
        else:
            self.kind = "livez" if path == LIVEZ else "read"
        self.patience = None if method == "POST" else PATIENCE
        host, origin, site, kind, authorization, accept, encoding = map(field, FIELDS)
        method = "GET" if method == "HEAD" else method  # whose body is dropped when its length is known
        self._before = (method, prefix, path, query, host, origin, site, kind, authorization, accept, encoding, body, secure, socket)

    def with_role(self, role: int) -> _native.WebRequest:
        return (*self._before, role, 1, 0)


def waiting(asked: WebAsked, began: float, polls: int = 0) -> WebAsked:
    """The same question, whose pop waits on its connection, or, if `polls` of them wait in the host, does not wait."""
    own, request = asked
    return own, (*request[:-2], polls, int((time.monotonic() - began) * 1000))


def busy(polls: int) -> _native.WebResponse:
    status, headers, body = refusal(503, f"{polls} pops wait already, as many as this mount lets wait (polls)")
    return status, [*headers, ("Retry-After", "1")], body


def encoded(path: bytes, prefix: bytes, raw: bytes | None) -> bytes:
    """
    The path behind the prefix as it came, percent-encoded.

    path: decoded, so that %2F in a name cannot be told from a slash any more.
    raw: what the host has of the whole path as it came, if that is so.
    """
    head = quote_from_bytes(prefix).encode()
    for tail in () if raw is None else (raw, raw.removeprefix(head)):
        if unquote_to_bytes(tail) == path:
            return tail
    return quote_from_bytes(path).encode()


def refusal(status: int, text: str, more: dict[str, object] | None = None) -> _native.WebResponse:
    """What the core cannot be asked for. more: members of the body."""
    headers = [
        ("Content-Type", "application/json"),
        ("Cache-Control", "no-store"),
        ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'"),
        ("X-Content-Type-Options", "nosniff"),
        ("X-Frame-Options", "DENY"),
        ("Referrer-Policy", "no-referrer"),
    ]
    return status, headers, json.dumps({"error": text, **(more or {})}, separators=(",", ":"), sort_keys=True).encode()


def failure(error: Exception, kind: str) -> _native.WebResponse:
    """The log tells it, the answer does not. kind: of the request."""
    if isinstance(error, PoolTimeout):
        if kind != "change":
            return refusal(503, "the dashboard is busy")
        return refusal(503, "the dashboard is busy; nothing was changed", {"done": 0, "unknown": False})
    _log.error("web", _log.describe(error))
    return refusal(503, "Redis cannot be asked now") if isinstance(error, Error) else refusal(500, "internal error")


def loaded(stored: Text) -> Text:
    """The text of a stored error, or why load_error cannot read it, with what is stored if that is text."""
    try:
        text = settings.load_error(stored)
        if isinstance(text, (str, bytes)):
            return text.encode("utf-8", "replace") if isinstance(text, str) else text
        failed = f"load_error gave no text but {type(text).__name__}"
    except Exception as error:
        failed = f"load_error raised {_log.brief(error)}"
    return f"({failed}; the error is shown as it is stored)\n{stored}" if isinstance(stored, str) else f"({failed}; the stored error is no text)"


def renamed() -> tuple[bytes, ...]:
    """Name, queue, name, queue, ... of the workers whose name is not that of their queue."""
    found = dict.fromkeys((worker.__name__, worker.queue_name) for worker in all_workers)
    return tuple(text.encode("utf-8", "surrogateescape") for pair in found if pair[0] != pair[1] for text in pair)


def listed(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, set, frozenset)) else value


def plain(field: str, value: Any, most: int = 256) -> str:
    """Without NUL, which ends a text of C. most: bytes."""
    if "\0" in validate.text(field, value, 1, most):
        raise validate.refusal(field, "a text without NUL", value)
    return str(value)
