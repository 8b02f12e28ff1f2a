"""
The connections of a process, made when they are needed. Threads and coroutines wait in one queue for a free connection.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any, Literal, TypeVar, cast

from .. import _native
from .._errors import Error, Invalid, PoolTimeout
from .._settings import settings
from . import redis_url
from .connection import Connection
from .threads import in_thread

T = TypeVar("T")

Use = Literal["calls", "pops"]
"""The pool of pops has no limit: a pop that waits takes no connection from the pushes."""

SIGNAL_STEP = 0.05  # seconds that a signal may wait for its handler

test_mode: Callable[[], Any] | None = None
"""Set by seriatim.testing: gives what stands in for the pools here, or None where Redis is used."""

_lock = threading.RLock()  # a signal handler may push, too
_pools: dict[Use, Pool] = {}


def current(use: Use = "calls") -> Pool:
    """The pool of this process: a child of fork and changed settings get a new one."""
    stand_in = in_tests()
    if stand_in is not None:
        return stand_in
    pool = _pools.get(use)
    if pool is not None and pool.fits():
        return pool
    with _lock:
        pool = _pools.get(use)
        if pool is not None and pool.fits():
            return pool
        made = _pools[use] = _configured(use)
        if pool is not None:
            pool.discard()
        return made


async def acurrent(use: Use = "calls") -> Pool:
    """The same, from an event loop: to find the URL may block (a private Redis starts)."""
    pool = in_tests() or _pools.get(use)
    if pool is not None and pool.fits():
        return pool
    made: Pool = await in_thread(current, use)
    return made


def in_tests() -> Pool | None:
    """What stands in for the pools, where a mode of seriatim.testing is on."""
    return None if test_mode is None else cast("Pool | None", test_mode())


def refuse_in_tests(name: str) -> None:
    """name: of what needs Redis. Raises Invalid where a mode of seriatim.testing is on."""
    stand_in: Any = in_tests()
    if stand_in is not None:
        stand_in.refuse(name)


def ask(question: Callable[[Connection], T]) -> T:
    """What the question says of a connection of the pool."""
    with current().lend() as connection:
        return question(connection)


def _configured(use: Use) -> Pool:
    version = settings.connection_changes
    url, namespace, url_from = redis_url.resolve(), settings.namespace, redis_url.named_by()
    kept = settings.client_pool_size
    size = kept if use == "calls" else math.inf
    return Pool(size, settings.pool_timeout, lambda: Connection(url, namespace, url_from), version, kept)


def _forget() -> None:
    """In a child of fork: no lock can be trusted, and the sockets are the parent's."""
    global _lock
    _lock = threading.RLock()
    _pools.clear()


os.register_at_fork(after_in_child=_forget)


class Pool:
    """
    A loan that is lost counts no more, nor does its connection: so nothing that ends a use, in whatever moment, can make
    the pool smaller.
    """

    def __init__(
        self, size: float, timeout: float, connect: Callable[[], Connection], version: int, kept: float = math.inf
    ) -> None:
        """
        timeout: seconds to wait for a connection. version: of the settings that it was made by. kept: how many connections stay
        open while nobody uses them.
        """
        self._size = size
        self._kept = kept
        self._timeout = timeout
        self._connect = connect
        self._version = version
        self._forks = _native.forks()
        self._lock = threading.RLock()
        self._idle: list[Connection] = []
        self._lent: set[weakref.ref[Loan]] = set()
        self._waiting: deque[Loan] = deque()
        self._discarded = False

    def fits(self) -> bool:
        return self._version == settings.connection_changes and self._forks == _native.forks()

    def lend(self, patience: float = math.inf) -> Loan:
        """For `with` and `async with`, which give the connection. patience: seconds to wait for a free one, at most pool_timeout."""
        return Loan(self, min(patience, self._timeout))

    def discard(self) -> None:
        """Closes what is idle now, and the rest when it comes back."""
        if self._forks == _native.forks():
            with self._lock:
                self._discarded = True
                self._close_idle()

    def begin(self, loan: Loan) -> None:
        """Gives the loan its connection, or a place in the line."""
        with self._lock:
            if not self._take(loan):
                loan.served = Future()
                self._waiting.append(loan)

    def give_up(self, loan: Loan) -> None:
        """After a wait without end: a connection that came in the last moment is taken all the same."""
        with self._lock:
            if loan.connection is None and not self._take(loan):
                text = f"no free connection in {round(loan.patience, 3)} s: all {self._size} are in use (client_pool_size)"
                raise PoolTimeout(text)
            self._leave_line(loan)

    def end(self, loan: Loan) -> None:
        """Takes the connection back, if there is one, and serves who waits."""
        if self._forks != _native.forks():
            loan.connection = None
            return
        with self._lock:
            self._leave_line(loan)
            connection, loan.connection = loan.connection, None
            self._lent.discard(weakref.ref(loan))
            if connection is not None and connection.usable:
                if len(self._idle) < self._kept:
                    self._idle.append(connection)
                else:
                    connection.close()
            self._serve()

    def _take(self, loan: Loan) -> bool:
        if self._idle:
            loan.connection = self._idle.pop()
        elif len(self._lent) < self._size or self._some_lost():
            loan.connection = self._connect()
        else:
            return False
        self._lent.add(weakref.ref(loan))
        return True

    def _some_lost(self) -> bool:
        self._lent = {loan for loan in self._lent if loan() is not None}
        return len(self._lent) < self._size

    def _serve(self) -> None:
        while self._waiting and self._take(self._waiting[0]):
            self._waiting.popleft().served.set_result(None)
        if self._discarded:
            self._close_idle()

    def _leave_line(self, loan: Loan) -> None:
        if loan in self._waiting:
            self._waiting.remove(loan)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


class Loan:
    """
    One use of a connection. Whatever ends it, the connection comes back; unless it was our own error, which leaves the
    connection as it should be, what was begun is dropped.
    """

    __slots__ = ("_pool", "patience", "connection", "served", "__weakref__")
    served: Future[None]  # of one that waits

    def __init__(self, pool: Pool, patience: float) -> None:
        self._pool = pool
        self.patience = patience
        self.connection: Connection | None = None

    def __enter__(self) -> Connection:
        try:
            self._pool.begin(self)
            if self.connection is None:
                self._wait()
        except BaseException:
            self._pool.end(self)
            raise
        return self._lent()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None and not issubclass(kind, (Error, Invalid)):
            self._lent().reset()
        self._pool.end(self)

    async def __aenter__(self) -> Connection:
        try:
            self._pool.begin(self)
            if self.connection is None:
                await self._await()
        except BaseException:
            self._pool.end(self)
            raise
        return self._lent()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def _wait(self) -> None:
        """The main thread waits in steps: a signal that the kernel gave to another thread does not interrupt its wait."""
        step = SIGNAL_STEP if threading.current_thread() is threading.main_thread() else self.patience
        deadline = time.monotonic() + self.patience
        while not self.served.done() and (left := deadline - time.monotonic()) > 0:
            wait([self.served], min(left, step))
        if not self.served.done():
            self._pool.give_up(self)

    async def _await(self) -> None:
        served = asyncio.wrap_future(self.served)
        await asyncio.wait([served], timeout=self.patience)
        if not self.served.done():
            self._pool.give_up(self)

    def _lent(self) -> Connection:
        assert self.connection is not None
        return self.connection
