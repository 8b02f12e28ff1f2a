"""
Run by a debug interpreter: repeats what seriatim._native does and fails when references, or memory blocks, grow.

Usage: python3-dbg refleak.py FOLDER, which holds seriatim/_native*.so built for that interpreter.
"""

from __future__ import annotations

import gc
import importlib.util
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]


def load_native(folder: str) -> Any:
    """Puts the extension of this folder in the place of the one beside the package."""
    path = next(Path(folder, "seriatim").glob("_native*.so"))
    spec = importlib.util.spec_from_file_location("seriatim._native", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["seriatim._native"] = module
    spec.loader.exec_module(module)
    return module


native = load_native(sys.argv[1])

from seriatim import _errors  # noqa: E402
from support.native import link, queue_settings, row, runner, take  # noqa: E402
from support.redis_server import RedisServer  # noqa: E402


def raises(kind: type[BaseException], call: Callable[..., Any], *arguments: Any) -> None:
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"{call} did not raise {kind}")


def json() -> None:
    value = {"a": [1, 2.5, "é", None, True, {"b": []}], "c": 2**40}
    assert native.load(native.dump(value, "payload")) == value
    raises(_errors.Invalid, native.dump, {"a": [object()]}, "payload")
    raises(_errors.Invalid, native.dump, {"a": 1, 2: 3}, "payload")
    raises(_errors.Invalid, native.dump, ["\ud800"], "payload")
    raises(_errors.Invalid, native.dump, [2**64], "payload")
    raises(TypeError, native.dump, [])
    for text in (b"[1,", b'{"a":[{"b":tru', b'{"a":1', b'{"a"', b"[[1],2] x"):
        raises(_errors.Undecodable, native.load, text)
    native.back_off(3)
    native.split(10, 2, 0, 3)


def operators(one: Any, queue: int) -> None:
    one.push(queue, [row(b"a", {"n": 1}), row(b"a", 2), row(b"\xff", 3)])
    one.drive(10)
    for begin in (
        lambda: one.query(queue, 0, False, b"-", b"+", 10, -1, None),
        lambda: one.query(queue, 3, False, None, None, 10, -1, [b"a"]),
        lambda: one.metrics(queue),
        lambda: one.explain(queue, b"a"),
        lambda: one.check(queue, False),
        lambda: one.layout(queue),
        one.nodes,
        one.queues,
        one.health,
    ):
        begin()
        one.drive(10)
        one.result()


def refusals(one: Any, queue: int) -> None:
    raises(TypeError, one.push, queue, [row(b"a"), (1,)])
    raises(TypeError, one.push, queue, [("id", b"1", None, 0, 0.0, -1, None, None)])
    raises(_errors.Invalid, one.push, queue, [row(b"a"), row(b"")])
    raises(_errors.Invalid, one.query, queue, 77, False, None, None, 10, -1, [b"a"])
    raises(TypeError, one.action, queue, 7, [b"a", "b"])
    raises(_errors.Invalid, native.Link, "http://x", "ns", None, 0)
    raises(TypeError, one.queue, (1,))
    one.nodes()
    raises(RuntimeError, one.result)
    one.reset()
    raises(_errors.Closed, one.result)


def deliveries(node: Any) -> None:
    delivery = take(node)
    delivery.payloads_by_id()
    delivery.job(0)
    raises(IndexError, delivery.job, 99)
    raises(IndexError, delivery.reject, 0, [99], b"")
    delivery.fail(0, b"x", 1.0)
    delivery.reject(0, [0], b"x")
    delivery.extend(0, 1.0)
    delivery.done_all()
    delivery.settle()
    raises(_errors.Closed, delivery.settle)
    assert node.take(0, 0.001) is None
    node.stats()
    node.event()
    node.candidates(0, 5)


def lives(redis: RedisServer) -> None:
    closed = link(redis)
    closed.close()
    raises(_errors.Closed, closed.nodes)
    with runner(redis) as node:
        thread = threading.Thread(target=raises, args=(_errors.Closed, node.take, 0))
        thread.start()
        node.close()
        thread.join()


def grown(call: Callable[[], None], rounds: int) -> tuple[int, int]:
    """Of references and of memory blocks, after some rounds that fill caches."""
    for _ in range(20):
        call()
    gc.collect()
    before, blocks = sys.gettotalrefcount(), sys.getallocatedblocks()
    for _ in range(rounds):
        call()
    gc.collect()
    return sys.gettotalrefcount() - before, sys.getallocatedblocks() - blocks


def main() -> None:
    redis = RedisServer()
    failed = False
    try:
        one = link(redis)
        queue = one.queue(queue_settings())
        with runner(redis) as node:

            def taken() -> None:
                one.push(queue, [row(b"a", {"n": 1}), row(b"a", 2)])
                one.drive(10)
                deliveries(node)

            scenes: list[tuple[str, Callable[[], None], int]] = [
                ("json", json, 3000),
                ("refusals", lambda: refusals(one, queue), 1000),
                ("deliveries", taken, 1000),
            ]
            results = [(name, *grown(call, rounds), rounds) for name, call, rounds in scenes]
        results.append(("operators", *grown(lambda: operators(one, queue), 300), 300))
        results.append(("lives", *grown(lambda: lives(redis), 100), 100))
    finally:
        redis.remove()
    for name, references, blocks, rounds in results:
        print(f"{name}: {references} references, {blocks} blocks in {rounds} rounds")
        failed |= references > rounds // 10 or blocks > rounds // 10
    if failed:
        sys.exit(1)


main()
