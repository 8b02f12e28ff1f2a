"""The pool of connections: waiting, interrupts, URLs."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import seriatim
from seriatim._client import pool as pools
from seriatim._client.connection import Connection
from support.jobs import deaf, descriptors, eventually, worker
from support.redis_server import RedisServer


class Interrupted(BaseException):
    """What the handler of SIGUSR1 raises, as Ctrl-C would."""


@pytest.fixture
def recorder() -> Any:
    return worker("Pool")


def interrupt(after: float, number: int = signal.SIGUSR1) -> threading.Thread:
    """Sends the main thread a signal after `seconds`."""
    main = threading.get_ident()

    def send() -> None:
        time.sleep(after)
        signal.pthread_kill(main, number)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def in_thread(function: Callable[[], Any]) -> threading.Thread:
    """Runs it, whatever it raises."""

    def run() -> None:
        try:
            function()
        except Exception:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def whole() -> bool:
    """Can all connections of the pool be lent at once?"""
    pool = pools.current()
    loans = [pool.lend() for _ in range(seriatim.client_pool_size)]
    for loan in loans:
        loan.__enter__()
    for loan in loans:
        loan.__exit__(None, None, None)
    return True


def clients(redis: RedisServer) -> int:
    return str(redis.call("CLIENT", "LIST")).count("name=seriatim-client")


def test_an_error_says_that_all_connections_are_busy(recorder: Any) -> None:
    with deaf():
        seriatim.client_pool_size = 1
        seriatim.pool_timeout = 0.1
        in_thread(lambda: recorder.metrics)
        eventually(lambda: len(pools.current()._lent) == 1)
        with pytest.raises(seriatim.PoolTimeout, match=r"^no free connection in 0\.1 s: all 1 are in use \(client_pool_size\)$"):
            recorder.metrics


def test_f20_ctrl_c_resets_the_connection_and_gives_it_back(recorder: Any, redis: RedisServer) -> None:
    seriatim.client_pool_size = 1
    recorder.perform_async([{"id": "first"}])
    redis.call("CLIENT", "PAUSE", 60_000, "WRITE")
    try:
        for _ in range(3):
            begun = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                interrupt(0.1, signal.SIGINT)
                recorder.perform_async([{"id": "never", "payload": time.monotonic()}])
            assert time.monotonic() - begun < 25  # an answer is waited for 30
    finally:
        redis.call("CLIENT", "UNPAUSE")
    pool = pools.current()
    assert (len(pool._idle), len(pool._lent)) == (1, 0)
    assert recorder.perform_async([{"id": "last"}]).added == 1
    assert recorder.queries.fetch(["last"])[0]["id"] == "last"


def test_f20_ctrl_c_while_waiting_for_a_connection(recorder: Any) -> None:
    with deaf():
        seriatim.client_pool_size = 1
        seriatim.pool_timeout = 60
        in_thread(lambda: recorder.metrics)
        eventually(lambda: len(pools.current()._lent) == 1)
        with pytest.raises(KeyboardInterrupt):
            interrupt(0.1, signal.SIGINT)
            recorder.metrics
        assert not pools.current()._waiting


def test_f20_interrupts_at_any_moment_lose_no_connection_and_no_descriptor(recorder: Any) -> None:
    def raise_it(number: int, frame: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, raise_it)
    seriatim.client_pool_size = 2
    seriatim.pool_timeout = 60
    open_before = descriptors()
    try:
        for _ in range(100):
            try:
                interrupt(random.random() * 0.01)
                while True:
                    recorder.perform_async([{"id": n, "payload": "x"} for n in range(20)])
            except Interrupted:
                pass
            assert whole()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert descriptors() <= open_before + 2
    assert recorder.perform_async([{"id": "last"}]).added == 1
    assert recorder.queries.fetch(["last"])[0]["payloads"][0][0] == ""


def test_f20_a_signal_handler_may_push(recorder: Any) -> None:
    pushed = []

    def push(number: int, frame: object) -> None:
        pushed.append(recorder.perform_async([{"id": f"handler{len(pushed)}"}]))

    before = signal.signal(signal.SIGUSR1, push)
    try:
        for number in range(20):
            sender = interrupt(0.002)
            while sender.is_alive():
                recorder.perform_async([{"id": f"main{number}"}])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert len(pushed) == 20


def test_an_error_of_ours_keeps_the_connection(recorder: Any, redis: RedisServer) -> None:
    seriatim.client_pool_size = 1
    recorder.perform_async([{"id": 1}])
    for _ in range(5):
        with pytest.raises(seriatim.Invalid):
            recorder.queries.range_by_id("bad", "+")
        with pytest.raises(seriatim.Invalid):
            recorder.perform_async([{"id": "x" * 2000}])
    assert clients(redis) == 1
    assert recorder.metrics["length"] == 1


def test_other_threads_run_while_one_waits(recorder: Any) -> None:
    with deaf():
        in_thread(lambda: recorder.metrics)
        begun = time.monotonic()
        for _ in range(20):
            time.sleep(0.005)
        assert time.monotonic() - begun < 12  # the wait takes 15


def test_many_threads_over_few_connections(recorder: Any, redis: RedisServer) -> None:
    seriatim.client_pool_size = 2
    seriatim.pool_timeout = 60

    def push(place: int) -> None:
        for number in range(20):
            recorder.perform_async([{"id": f"{place}-{number}"}])

    threads = [threading.Thread(target=push, args=(place,)) for place in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorder.metrics["length"] == 400
    assert clients(redis) <= 2


def test_waiters_are_served_in_their_order() -> None:
    seriatim.client_pool_size = 1
    seriatim.pool_timeout = 60
    pool, served = pools.current(), []

    def use(place: int) -> None:
        with pool.lend():
            served.append(place)

    with pool.lend():
        threads = []
        for place in range(10):
            threads.append(threading.Thread(target=use, args=(place,)))
            threads[-1].start()
            while len(pool._waiting) <= place:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert served == list(range(10))


def test_other_settings_make_another_pool(recorder: Any, redis: RedisServer) -> None:
    recorder.perform_async([{"id": 1}])
    old = pools.current()
    with old.lend() as lent:
        seriatim.client_pool_size = 3
        recorder.perform_async([{"id": 2}])
        assert pools.current() is not old
    assert not old._idle
    with pytest.raises(seriatim.Closed):
        lent.metrics(recorder._queue_settings())


def test_a_callable_gives_the_url_and_an_invalid_one_is_refused(recorder: Any, redis: RedisServer) -> None:
    seriatim.redis = lambda: redis.url
    assert recorder.perform_async([{"id": 1}]).added == 1
    seriatim.redis = lambda: 5  # type: ignore[assignment, return-value]
    with pytest.raises(seriatim.Invalid, match=r"^redis must be a URL, or a callable that gives one, not 5 \(int\)$"):
        recorder.perform_async([{"id": 1}])
    seriatim.redis = lambda: "http://x"
    with pytest.raises(seriatim.Invalid, match="^redis must be a URL .*, not http://$"):
        recorder.perform_async([{"id": 1}])


def test_finds_the_url_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seriatim.redis = None
    for name in ("SERIATIM_REDIS_URL", "REDIS_PROVIDER", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REDIS_URL", "redis://third")
    assert seriatim.redis_url() == "redis://third"
    monkeypatch.setenv("REDIS_PROVIDER", "OURS")
    assert seriatim.redis_url() == "redis://third"
    monkeypatch.setenv("OURS", "redis://second")
    assert seriatim.redis_url() == "redis://second"
    monkeypatch.setenv("SERIATIM_REDIS_URL", "redis://first")
    assert seriatim.redis_url() == "redis://first"


def test_starts_no_private_redis_in_production(recorder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seriatim.redis = None
    for name in ("SERIATIM_REDIS_URL", "REDIS_PROVIDER", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("APP_ENV", "production")
    with pytest.raises(seriatim.UsageError, match=r"^no Redis: set REDIS_URL or seriatim\.redis"):
        recorder.perform_async([{"id": 1}])


def test_starts_a_private_redis_when_there_is_no_other(recorder: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    seriatim.redis = None
    for name in ("SERIATIM_REDIS_URL", "REDIS_PROVIDER", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SERIATIM_DATA", str(tmp_path))
    from seriatim._client import private_redis

    assert recorder.perform_async([{"id": 1}]).added == 1
    assert private_redis.is_used()
    seriatim.reset_settings()
    private_redis.release()
    assert not private_redis.is_used()


def test_names_a_refused_connection(recorder: Any) -> None:
    link = Connection("unix:///no/such/socket", "seriatim")
    with pytest.raises(seriatim.ConnectionError):
        link.layout(recorder._queue_settings(), limit=0.3)
    with pytest.raises(ConnectionError):
        link.layout(recorder._queue_settings(), limit=0.3)


def test_a_password_is_never_shown(recorder: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"redis://user:secret@127.0.0.1:{unused.getsockname()[1]}/0"
        link = Connection(url, "seriatim")
        assert "secret" not in link.url
        with pytest.raises(seriatim.ConnectionError) as raised:
            link.layout(recorder._queue_settings(), limit=0.3)
        assert "secret" not in str(raised.value)


def test_pickled_errors_keep_their_message() -> None:
    import pickle

    for error in (seriatim.Invalid("x"), seriatim.TimeoutError("x"), seriatim.PoolTimeout("x")):
        assert str(pickle.loads(pickle.dumps(error))) == "x"


def test_errors_are_subclasses_of_python_s_own() -> None:
    assert issubclass(seriatim.TimeoutError, TimeoutError) and issubclass(seriatim.TimeoutError, seriatim.ConnectionError)
    assert issubclass(seriatim.ConnectionError, ConnectionError) and issubclass(seriatim.ConnectionError, seriatim.Error)
    assert issubclass(seriatim.UsageError, ValueError) and not issubclass(seriatim.Invalid, seriatim.Error)
