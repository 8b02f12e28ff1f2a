"""
Run by a debug interpreter: repeats what seriatim._native does and fails when references, or memory blocks, grow.

Usage: python3-dbg refleak.py FOLDER, which holds seriatim/_native*.so built for that interpreter.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import sys
import tempfile
import threading
import time
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

from seriatim import _errors
from support.native import jobs, link, queue_settings, row, runner, take  # noqa: E402
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
    one.push(queue, jobs(row(b"a", {"n": 1}), row(b"a", 2), row(b"\xff", 3)))
    one.drive(10)
    for begin in (
        lambda: one.query(queue, "range_by_id", False, b"-", b"+", 10, -1, None),
        lambda: one.query(queue, "fetch", False, None, None, 10, -1, [b"a"]),
        lambda: one.metrics(queue),
        lambda: one.explain(queue, b"a"),
        lambda: one.check(queue, False),
        lambda: one.layout(queue),
        one.nodes,
        one.queues,
        one.health,
        lambda: one.node_command(b"n", "quiet"),
    ):
        begin()
        one.drive(10)
        one.result()


def web(one: Any, path: bytes = b"/api/web/q/range_by_id", shown: Any = "shown") -> Any:
    """The answer, where each text is asked of a function."""
    fields = (b"", path, b"min=-&max=%2B", b"localhost", None, None, None, None, None, None, b"", False, 0, 3, 1, 0)
    one.web((None, False, ("localhost", "other"), None, None, (b"W", b"q"), False, False), ("GET", *fields))
    one.drive(10)
    return one.answer(lambda queue, id, text: shown(text) if callable(shown) else shown, None)


def webs(one: Any) -> None:
    assert web(one)[0] == 200 and b"shown" in web(one)[2]
    assert web(one, shown=b"\xff")[0] == 200
    assert web(one, b"/")[0] == 200 and web(one, b"/api/nothing")[0] == 404
    raises(TypeError, web, one, b"/api/web/q/range_by_id", 1)
    raises(TypeError, web, one, b"/api/web/q/range_by_id", lambda: "too few")
    raises(ValueError, one.web, (None, False, ("a\0b",), None, None, (), False, False), ("GET", *[b""] * 11, False, 0, 3, 1, 0))
    raises(TypeError, one.web, (None, False, [], None, None, (), False, False), ("GET", *[b""] * 11, False, 0, 3, 1, 0))
    raises(TypeError, one.web, (None, False, (1,), None, None, (), False, False), ("GET", *[b""] * 11, False, 0, 3, 1, 0))
    one.nodes()
    raises(RuntimeError, one.answer, None, None)
    raises(_errors.Invalid, one.web, (None, False, (), None, None, (), False, False), ("GET", *[b""] * 11, False, 0, 3, 1, 0))
    one.drive(10)
    raises(RuntimeError, one.answer, None, None)
    assert native.web_routes()


def plain() -> None:
    every = {"id": "\xe4", "payload": {"a": [1, "b"]}, "score": 1, "perform_in": 2.0, "delay": None, "context": None}
    read = native.jobs([every, {"id": 1}, {"id": b"a", "delay": 10**400}, {"id": "a", "payload": {1: 2}}], asked, True)
    assert len(read) == 4
    for value in ({}, {"id": "\ud800"}, {"id": 1, "payload": object()}, {"id": 1, "unknown": 1}, 7):
        raises(ValueError, native.jobs, [every, value], refused, True)


def asked(job: Any, place: int) -> Any:
    return row(b"asked")


def refused(job: Any, place: int) -> Any:
    raise ValueError(job)


def refusals(one: Any, queue: int) -> None:
    raises(TypeError, one.push, queue, [row(b"a")])
    raises(TypeError, jobs, row(b"a"), (1,))
    raises(TypeError, jobs, ("id", b"1", None, 0, 0.0, -1, None, None, 0, 0.0))
    raises(_errors.Invalid, one.push, queue, jobs(row(b"a"), row(b"")))
    raises(_errors.Invalid, one.query, queue, b"none", False, None, None, 10, -1, [b"a"])
    raises(TypeError, one.action, queue, 7, [b"a", "b"])
    raises(_errors.Invalid, native.Link, "http://x", "ns", None, 0)
    raises(TypeError, one.queue, (1,))
    garbage(one)
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
    (delivery.ids(), delivery.elapsed())
    raises(TypeError, node.take, 0, 0, node)
    assert node.take(0, 0.001, delivery) is None
    raises(_errors.Closed, delivery.settle)
    raises(_errors.Closed, node.take, 0, 0, delivery)
    node.stats()
    node.event()
    node.candidates(0, 5)
    garbage(node)
    node.fileno(0)
    node.clear(0)
    node.stopped()
    node.asked()
    assert node.take_from(0, 0, 0) is None


def lives(redis: RedisServer) -> None:
    closed = link(redis)
    closed.close()
    after_the_end(closed, "nodes", "queues", "health", "step", "result", "drive", "may_resolve", "fileno", "wants", "timeout")
    closed.close()
    with runner(redis) as node:
        thread = threading.Thread(target=raises, args=(_errors.Closed, node.take, 0))
        thread.start()
        node.close()
        thread.join()
        after_the_end(node, "start", "stats", "event")
        raises(_errors.Closed, node.take, 0)


WRONG: list[tuple[Any, ...]] = [
    (object(),),
    (None, None),
    ("\ud800", -1),
    (object(),) * 3,
    ([], {}, b"", 2**70),
    (0, [b"a", object()], -1, float("nan")),
    (2**70, object(), b"", []),
    (object(),) * 9,
]


def garbage(thing: Any) -> None:
    """Every method with what it does not take: each says no, and keeps nothing."""
    for name in [name for name in dir(thing) if not name.startswith("_") and callable(getattr(thing, name))]:
        for arguments in WRONG:
            try:
                getattr(thing, name)(*arguments)
            except (TypeError, ValueError, IndexError, OverflowError, RuntimeError, _errors.Error):
                continue
            raise AssertionError(f"{name}{arguments} was taken")


def after_the_end(thing: Any, *names: str) -> None:
    for name in names:
        raises(_errors.Closed, getattr(thing, name))


def stepped(one: Any, queue: int) -> None:
    """As an event loop drives it; and a wait that ends early."""
    one.push(queue, jobs(row(b"s")), 0, 1.0)
    while not one.step():
        one.may_resolve(), one.fileno(), one.wants(), one.timeout()
        time.sleep(0.001)
    one.result()
    one.url
    one.push(queue, jobs(row(b"s")), 1, 0.001)  # there is no replica
    assert "0 of 1" in one.drive(10)[3]
    raises(_errors.Invalid, one.push, queue, jobs(row(b"s")), -1, 1.0)
    with contextlib.suppress(_errors.TimeoutError):
        one.metrics(queue)
        one.drive(0)
    one.metrics(queue)
    raises(TypeError, lambda: one.drive(minutes=1))
    raises(TypeError, one.drive, "soon")
    one.drive(seconds=None)


def unreadable(node: Any, one: Any, queue: int) -> None:
    one.push(queue, jobs((b"u", b"{broken", None, 0, 0.0, -1, None, None, 0, 0.0), row(b"u", 1)))
    one.drive(10)
    delivery = take(node)
    assert delivery.payloads_by_id() is None
    (delivery.kind, delivery.worker, delivery.shard, len(delivery))
    garbage(delivery)
    delivery.release(0)
    delivery.fail(0, b"\xff", float("inf"))
    delivery.done(0)
    del delivery  # settled as it is collected


def private_redis(folder: str) -> None:
    joined = native.PrivateRedis(folder)
    assert not joined.started and joined.url
    joined.release()
    joined.release()
    raises(_errors.Closed, lambda: joined.url)
    raises(_errors.Invalid, native.PrivateRedis, "/dev/null/x")
    raises(TypeError, native.PrivateRedis, 5)
    raises(TypeError, joined.release, 1)


def functions() -> None:
    native.shard_of(b"a", 3)
    raises(ValueError, native.shard_of, b"a", 5000)
    native.exit_beyond([], 0, 0)
    raises(ValueError, native.exit_beyond, [0], 1, 1)
    raises(TypeError, native.exit_beyond, [None], 1, 1)
    for function in (native.dump, native.back_off, native.split, native.shard_of, native.exit_beyond, native.load):
        for arguments in ((), (object(),), (object(),) * 4):
            raises(Exception, function, *arguments)
    raises(TypeError, native.Runner, 1)
    raises(_errors.Invalid, native.Runner, "http://x", "ns", "n", "id", "", 2000, 100, 4, 0)


def grown(call: Callable[[], None], rounds: int) -> tuple[int, int]:
    """Of references and of memory blocks, after some rounds that fill caches; what leaks grows each of three times."""
    for _ in range(20):
        call()
    for _ in range(3):
        gc.collect()
        before, blocks = sys.gettotalrefcount(), sys.getallocatedblocks()
        for _ in range(rounds):
            call()
        gc.collect()
        grew = sys.gettotalrefcount() - before, sys.getallocatedblocks() - blocks
        if max(grew) <= rounds // 10:
            break
    return grew


def fakes() -> None:
    """Queues in memory."""
    fake = native.Fake()
    queue = fake.queue({**queue_settings(), "exhausted_hook": True, "max_retry_count": 0})
    pushed = jobs(row(b"a", {"n": 1}), row(b"a", 2), row(b"\xff", 3), row(b"later", 1, 2, 60.0))
    assert len(pushed.rows()) == 4
    names = fake.push(queue, pushed, True, 1_000)[5]
    raises(_errors.Invalid, fake.push, queue, jobs(row(b"")), False, 1_000)
    raises(TypeError, fake.push, queue, [], False, 1_000)
    assert fake.next(queue, 1_000) is not None and len(fake.rows(queue)) == 4
    assert fake.reschedule(queue, names[3].encode(), b"2000000000", 1_000) in (True, False)
    assert fake.cancel(queue, names[3].encode()) is True
    for claimed in fake.take(queue, 10, 2_000)[1]:
        id = claimed[0].encode() if isinstance(claimed[0], str) else claimed[0]
        fake.settle(queue, id, claimed[1], native.FAKE_CHECKPOINT, 0.0, None, 0, 2_000)
        fake.settle(queue, id, claimed[1], native.FAKE_FAIL, 0.0, b"no", None, 2_000)
        raises(_errors.Stale, fake.settle, queue, id, claimed[1], native.FAKE_DONE, 0.0, None, None, 2_000)
        raises(TypeError, fake.settle, queue, id, claimed[1], native.FAKE_REJECT, 0.0, b"no", [None], 2_000)
        raises(ValueError, fake.settle, queue, id, claimed[1], 99, 0.0, None, None, 2_000)
    while fake.take_exhausted(queue):
        pass
    fake.clear(queue)


def main() -> None:
    redis = RedisServer()
    failed = False
    try:
        one = link(redis)
        queue = one.queue(queue_settings())
        with runner(redis) as node:

            def taken() -> None:
                one.push(queue, jobs(row(b"a", {"n": 1}), row(b"a", 2)))
                one.drive(10)
                deliveries(node)

            scenes: list[tuple[str, Callable[[], None], int]] = [
                ("json", json, 3000),
                ("plain", plain, 1000),
                ("refusals", lambda: refusals(one, queue), 200),
                ("deliveries", taken, 300),
                ("unreadable", lambda: unreadable(node, one, queue), 300),
                ("functions", functions, 1000),
                ("stepped", lambda: stepped(one, queue), 100),
            ]
            results = [(name, *grown(call, rounds), rounds) for name, call, rounds in scenes]
        results.append(("operators", *grown(lambda: operators(one, queue), 300), 300))
        results.append(("webs", *grown(lambda: webs(one), 100), 100))
        results.append(("fakes", *grown(fakes, 300), 300))
        redis.flush()
        results.append(("lives", *grown(lambda: lives(redis), 100), 100))
        with tempfile.TemporaryDirectory() as folder:
            first = native.PrivateRedis(folder)
            results.append(("private redis", *grown(lambda: private_redis(folder), 50), 50))
            first.release()
    finally:
        redis.remove()
    for name, references, blocks, rounds in results:
        print(f"{name}: {references} references, {blocks} blocks in {rounds} rounds")
        failed |= references > rounds // 10 or blocks > rounds // 10
    if failed:
        sys.exit(1)


main()
