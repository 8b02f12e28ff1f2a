"""
fork_server.py - a Python with Seriatim loaded that forks a server for each line of its input: [variables, arguments of the command,
log, program] as JSON. A program that is not null runs with these arguments in place of the command. It answers with the server's process id. Servers are orphans, so that the driver, a subreaper, inherits them.
"""

from __future__ import annotations

import asyncio  # noqa: F401 - what the workload needs is loaded once
import json
import os
import runpy
import sys
import traceback

from seriatim import _cli
from seriatim._cli.main import main


def serve(variables: dict[str, str], arguments: list[str], log: str, program: str | None) -> None:
    os.environ.update(variables)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        if program is None:
            sys.exit(main(arguments))
        sys.argv = [program, *arguments]
        sys.path.insert(0, os.path.dirname(program))
        runpy.run_path(program, run_name="__main__")
        sys.exit(0)
    except Exception:
        traceback.print_exc()
        sys.exit(1)


def orphan(request: str) -> int:
    """Forks twice; the process in between tells the grandchild's id and ends."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        grandchild = os.fork()
        if grandchild == 0:
            serve(*json.loads(request))
        os.write(writer, str(grandchild).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    pid = int(os.read(reader, 32))
    os.close(reader)
    return pid


assert _cli
for line in iter(sys.stdin.readline, ""):
    print(orphan(line), flush=True)
