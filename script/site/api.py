"""The API reference of Python and Lua, from the texts in the code. Ruby's is made by rdoc."""

from __future__ import annotations

import html
import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

PYTHON_HEAD = """# Python API

All public names of `seriatim` and `seriatim.web`, from the code. [Settings](../guides/configuration.md) lists the settings.
"""
LUA_HEAD = """# Lua API

The public functions and types of each module, from the code. [Settings](../guides/configuration.md) lists the settings.
"""


def python_page(root: Path) -> str:
    sys.path.insert(0, str(root / "python"))
    parts = [PYTHON_HEAD]
    for name in ("seriatim", "seriatim.web"):
        module = importlib.import_module(name)
        parts += [f"## {name}\n", text(module)]
        parts += [python_name(each, getattr(module, each)) for each in module.__all__]
    return "\n".join(parts)


def python_name(name: str, value: Any) -> str:
    parts = [f"### {name}\n"]
    if callable(value):
        parts.append(f"```python\n{'class ' if inspect.isclass(value) else ''}{name}{signature(value)}\n```\n")
    if inspect.isclass(value) or inspect.isroutine(value):
        parts.append(text(value))
    if inspect.isclass(value):
        parts += [python_member(name, each, member) for each, member in vars(value).items() if not each.startswith("_")]
    return "\n".join(part for part in parts if part)


def python_member(owner: str, name: str, member: Any) -> str:
    """Of a method or a property. Read from the class's dictionary, because a descriptor may ask Redis when it is read."""
    member = getattr(member, "__func__", member)
    if not (inspect.isroutine(member) or isinstance(member, property)):
        return ""
    shown = "" if isinstance(member, property) else signature(member)
    return f"```python\n{owner}.{name}{shown}\n```\n\n{text(member)}"


def signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("seriatim._", "_")
    except (TypeError, ValueError):
        return "(...)"


def text(value: Any) -> str:
    """The docstring as it is laid out in the code."""
    own = inspect.getdoc(value) or ""
    return f"<pre>{html.escape(own)}</pre>\n" if own else ""


# A comment of lines that begin with three dashes, and the first line of what it is about.
LUA_COMMENT = re.compile(r"((?:^[ \t]*---.*\n)+)(.*)", re.M)
LUA_FUNCTION = re.compile(r"^(?:local )?function ([\w.:]+)\((.*?)\)")


def lua_page(root: Path) -> str:
    parts = [LUA_HEAD]
    paths = [root / "lua/seriatim.lua", *sorted((root / "lua/seriatim").rglob("*.lua")), *sorted((root / "lua/resty").rglob("*.lua"))]
    for path in paths:
        entries = lua_entries(path.read_text())
        if entries:
            name = path.relative_to(root / "lua").with_suffix("").as_posix().replace("/", ".")
            parts += [f"## {name}\n", *entries]
    return "\n".join(parts)


def lua_entries(source: str) -> list[str]:
    """One entry for each documented function that the module gives out, and for each class."""
    entries = []
    for comment, line in LUA_COMMENT.findall(source):
        function = LUA_FUNCTION.match(line)
        private = line.startswith("local function") or "@private" in comment
        declared = re.search(r"@class ([\w.]+)", comment)
        if private or not (function or declared):
            continue
        heading = f"{function[1]}({function[2]})" if function else declared[1] if declared else ""
        body = re.sub(r"^[ \t]*--- ?", "", comment, flags=re.M).rstrip()
        entries.append(f"### {heading}\n\n<pre>{html.escape(body)}</pre>\n")
    return entries
