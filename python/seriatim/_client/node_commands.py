"""Commands to a node, which its next heartbeat brings to it, wherever it runs."""

from __future__ import annotations

from typing import Final

from . import pool, validate

QUIET: Final = 1  # as the core numbers them
STOP: Final = 2


def quiet_node(name: str) -> bool:
    """
    Asks a node of seriatim.nodes() to claim nothing more; what runs goes on, until it is stopped. As TSTP does. False: no
    such node lives.
    """
    return _send(name, QUIET)


def stop_node(name: str) -> bool:
    """
    Asks a node of seriatim.nodes() to finish what runs within its deadline, hand the rest back and leave. As TERM does.
    False: no such node lives.
    """
    return _send(name, STOP)


def _send(name: str, command: int) -> bool:
    node = validate.text_bytes(validate.text("name", name, 1, 64))
    return pool.ask(lambda connection: connection.node_command(node, command))
