"""Asks a node, in whatever process it runs, to be quiet or to stop. The node hears of it with its next heartbeat."""

from __future__ import annotations

from .. import _native
from . import pool, validate


def quiet_node(name: str) -> bool:
    """
    Asks a node of seriatim.nodes() to claim nothing more; what runs goes on, until it is stopped. As TSTP does. False: no
    such node lives.
    """
    return _send(name, "quiet")


def stop_node(name: str) -> bool:
    """
    Asks a node of seriatim.nodes() to finish what runs within its deadline, hand the rest back and leave. As TERM does.
    False: no such node lives.
    """
    return _send(name, "stop")


def _send(name: str, command: _native.OrderName) -> bool:
    node = validate.text_bytes(validate.text("name", name, 1, 64))
    return pool.ask(lambda connection: connection.node_command(node, command))
