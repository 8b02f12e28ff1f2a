"""The dashboard as WSGI applications below three prefixes, for spec/web."""

from __future__ import annotations

import re
from typing import Any

import seriatim.web


def redact(queue: Any, id: Any, text: Any) -> Any:
    secret, stars = (b"SECRET\\w*", b"****") if isinstance(text, bytes) else ("SECRET\\w*", "****")
    return re.sub(secret, stars, text)


def role(environ: Any) -> str | None:
    found = re.search(r"\brole=(\w+)", environ.get("HTTP_COOKIE", ""))
    word = found[1] if found else "admin"
    return None if word == "nobody" else word


HOSTS = ["127.0.0.1"]
MOUNTED = {
    "/admin/jobs": seriatim.web.wsgi_app(consume=True, role=role, hosts=HOSTS, redact=redact),
    "/read-only": seriatim.web.wsgi_app(read_only=True, hosts=HOSTS, redact=redact),
    "/token": seriatim.web.wsgi_app(token="l\u00e4t me in", hosts=HOSTS, redact=redact),
}


def application(environ: Any, start_response: Any) -> Any:
    path = environ.get("PATH_INFO", "")
    for prefix, mounted in MOUNTED.items():
        if path == prefix or path.startswith(prefix + "/"):
            return mounted({**environ, "SCRIPT_NAME": prefix, "PATH_INFO": path[len(prefix) :]}, start_response)
    start_response("404 Not Found", [("Content-Type", "text/plain")])
    return [b"not here"]
