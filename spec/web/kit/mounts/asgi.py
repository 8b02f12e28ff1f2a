"""The dashboard as an ASGI application that lets programs consume, for spec/web."""

from __future__ import annotations

import re
from typing import Any

import seriatim.web


def role(scope: Any) -> str | None:
    found = re.search(rb"\brole=(\w+)", dict(scope["headers"]).get(b"cookie", b""))
    word = found[1].decode() if found else "admin"
    return None if word == "nobody" else word


application = seriatim.web.asgi_app(consume=True, role=role, hosts=["127.0.0.1"])
