"""
The dashboard, its JSON API and the metrics, for an application of one's own.

    import seriatim.web

    # Flask, with Werkzeug's DispatcherMiddleware
    app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/admin/jobs": guarded(seriatim.web.wsgi_app())})
    # Starlette, FastAPI
    app.mount("/admin/jobs", guarded(seriatim.web.asgi_app()))

By default everyone who can reach it is an admin: protect the mount with the sign-in of the application, or give `role`.

Both take

title       what the page is called: "Seriatim"
read_only   True: nothing can be changed
role        asked for each request, of the WSGI environ or the ASGI scope (where it may be async): "viewer", who reads;
            "operator", who also performs now, queues up, reschedules, pauses, parks and quiets a node; "admin", who also
            kills, deletes, cancels, drops payloads, reshards, stops a node, pushes and consumes; "consumer", who pushes
            and consumes and nothing else; or None: 401. Not given: all are "admin"
redact      (queue, id, text) -> the text to show instead, asked for each payload, context and error before any answer
            has it; each is str, or bytes where it is not UTF-8. What it raises makes the answer a 500
audit       (environ or scope, change), where it may be async for ASGI: told of each change that was asked for, before
            the answer is sent, and of each that was refused; `Change` says what there is. What it raises is logged with
            the change and alters nothing. Not given: a line of the log, at info
hosts       the Host fields that are answered, as ["jobs.example", "localhost:9292"]; without a port: with any. Empty:
            all
token       asked for as `Authorization: Bearer TOKEN`, by the page as well; 1 to 1,024 bytes
consume     True: programs push and consume by /api/v1/consume/, with the role "consumer" or "admin"
polls       how many pops may wait at once, each on connections of its own; more are 503: 2, each of which takes a thread,
            and 1,000 of asgi_app

and give an application that can stand under any prefix (SCRIPT_NAME, root_path). It has connections to Redis of its own,
made by the module's settings: at most two for what reads, two for what changes, and two for each pop that waits. Without
an application: the command `seriatim web`.

/metrics is for Prometheus. Two probes need neither role nor token: /readyz says whether Redis takes writes, and /livez
whether a server that runs in this process gets on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, MutableMapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from . import _native
from ._client.connection import Change
from ._client.middlewares import is_async
from ._errors import Invalid
from ._web.dashboard import MAX_BODY, Dashboard, Request, encoded, refusal

if TYPE_CHECKING:
    import socket
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    from ._client.connection import Redact
    from ._web.dashboard import Audit, Role

__all__ = ["Change", "asgi_app", "wsgi_app"]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
ASGIApplication = Callable[[Scope, Receive, Send], Awaitable[None]]


def wsgi_app(
    *,
    title: str | None = None,
    read_only: bool = False,
    role: Role | None = None,
    redact: Redact | None = None,
    audit: Audit | None = None,
    hosts: Sequence[str] = (),
    token: str | None = None,
    consume: bool = False,
    polls: int = 2,
) -> WSGIApplication:
    """A WSGI application; see the module. Raises Invalid."""
    for name, function in (("role", role), ("audit", audit)):
        if is_async(function):  # nothing here would await it: an audit would silently be none
            raise Invalid(f"{name} is async: use asgi_app")
    dashboard = Dashboard(title, read_only, role, redact, audit, hosts, token, consume, polls)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = _of_environ(environ)
        answer = refusal(400, "the body ends too soon") if request is None else dashboard.answer(request, environ)
        status, headers, body = answer
        start_response(f"{status} {HTTPStatus(status).phrase}", _with_length(status, headers, body))
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else body]

    return application


def asgi_app(
    *,
    title: str | None = None,
    read_only: bool = False,
    role: Role | None = None,
    redact: Redact | None = None,
    audit: Audit | None = None,
    hosts: Sequence[str] = (),
    token: str | None = None,
    consume: bool = False,
    polls: int = 1000,
) -> ASGIApplication:
    """An ASGI 3 application, which never blocks the loop; see the module. Raises Invalid."""
    dashboard = Dashboard(title, read_only, role, redact, audit, hosts, token, consume, polls)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await _answer_http(dashboard, scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(dashboard, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})

    return application


def _with_length(status: int, headers: list[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
    return headers if status == HTTPStatus.NO_CONTENT else [*headers, ("Content-Length", str(len(body)))]


# ---- WSGI


def _of_environ(environ: WSGIEnvironment) -> Request | None:
    """None: the body ends too soon."""
    body = _body_of_environ(environ)
    if body is None:
        return None
    prefix = _latin(environ.get("SCRIPT_NAME", "")).rstrip(b"/")
    uri = environ.get("RAW_URI", environ.get("REQUEST_URI"))
    raw = None if uri is None else _latin(uri).partition(b"?")[0]
    path = encoded(_latin(environ.get("PATH_INFO", "")), prefix, raw)
    query = _latin(environ.get("QUERY_STRING", ""))

    def field(name: str) -> bytes | None:
        key = name.upper().replace("-", "_")
        value = environ.get(key if name == "content-type" else f"HTTP_{key}")
        return None if value is None else _latin(value)

    secure = environ["wsgi.url_scheme"] == "https"
    descriptor, polls = _socket_of_environ(environ), environ.get("seriatim.polls")
    return Request(environ["REQUEST_METHOD"], prefix, path, query, field, body, secure, descriptor, polls)


def _socket_of_environ(environ: WSGIEnvironment) -> int:
    """The descriptor of the visitor's connection; 0: the server does not tell it."""
    connection: socket.socket | None = environ.get("seriatim.socket") or environ.get("gunicorn.socket")
    return 0 if connection is None else max(connection.fileno(), 0)


def _body_of_environ(environ: WSGIEnvironment) -> bytes | None:
    """No more of it than shows that it is too long. None: it ends too soon."""
    if environ["REQUEST_METHOD"] != "POST":
        return b""
    announced = environ.get("CONTENT_LENGTH") or ("0" if not environ.get("wsgi.input_terminated") else None)
    if announced is None:
        return bytes(environ["wsgi.input"].read(MAX_BODY + 1))
    if not (announced.isascii() and announced.isdigit()):
        return None
    length = min(int(announced), MAX_BODY + 1)
    body = bytes(environ["wsgi.input"].read(length))
    return body if len(body) == length else None


def _latin(text: str) -> bytes:
    """As PEP 3333 hands bytes out."""
    return text.encode("latin-1", "replace")


# ---- ASGI


async def _answer_http(dashboard: Dashboard, scope: Scope, receive: Receive, send: Send) -> None:
    body = await _body_of_messages(receive) if scope["method"] == "POST" else b""
    if body is None:
        return
    answered = await _while_listening(dashboard.aanswer(_of_scope(scope, body), scope), scope, receive)
    if answered is None:
        return
    status, headers, answer = answered
    pairs = [(name.lower().encode(), value.encode()) for name, value in _with_length(status, headers, answer)]
    try:
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer})
    except OSError:  # so newer servers say that the client has gone
        pass


async def _while_listening(
    answering: Coroutine[Any, Any, _native.WebResponse], scope: Scope, receive: Receive
) -> _native.WebResponse | None:
    """A change ends when its client has gone, which is None; what was done before stays."""
    if scope["method"] != "POST":
        return await answering
    answer, gone = asyncio.ensure_future(answering), asyncio.ensure_future(_until_disconnect(receive))
    try:
        await asyncio.wait({answer, gone}, return_when=asyncio.FIRST_COMPLETED)
        has_left = not answer.done() and gone.exception() is None
        return None if has_left else await answer
    finally:
        for task in (answer, gone):
            task.cancel()
        await asyncio.gather(answer, gone, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    if (await receive())["type"] != "http.disconnect":
        await asyncio.Event().wait()  # this server has something else to say, and is not asked again


async def _body_of_messages(receive: Receive) -> bytes | None:
    """No more of it than shows that it is too long. None: the client has gone."""
    body = bytearray()
    while len(body) <= MAX_BODY:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if not message.get("more_body", False):
            break
    return bytes(body)


def _of_scope(scope: Scope, body: bytes) -> Request:
    """Several fields of one name are none of ours to choose from, so they are joined, as WSGI does."""
    fields: dict[str, bytes] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        fields[key] = b", ".join([fields[key], value]) if key in fields else value
    prefix, path = _prefix_and_path(scope)
    return Request(
        scope["method"], prefix, path, scope.get("query_string", b""), fields.get, body, scope.get("scheme") == "https"
    )


def _prefix_and_path(scope: Scope) -> tuple[bytes, bytes]:
    """Today a path begins with root_path; some older frameworks have taken that off, which only the raw path shows."""
    prefix, path = _utf8(scope.get("root_path", "")).rstrip(b"/"), _utf8(scope["path"])
    raw: bytes | None = scope.get("raw_path")
    raw = None if raw is None else raw.partition(b"?")[0]
    taken_off = raw is not None and unquote_to_bytes(raw) == prefix + path
    if prefix and not taken_off and (path + b"/").startswith(prefix + b"/"):
        path = path[len(prefix) :]
    return prefix, encoded(path, prefix, raw)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


async def _live(dashboard: Dashboard, receive: Receive, send: Send) -> None:
    """From the start of the server to its end."""
    while (await receive())["type"] == "lifespan.startup":
        await send({"type": "lifespan.startup.complete"})
    dashboard.close()
    await send({"type": "lifespan.shutdown.complete"})
