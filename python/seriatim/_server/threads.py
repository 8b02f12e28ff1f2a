"""Threads for what may block, beside an event loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")
Call = tuple["Future[Any]", Callable[[], Any]]

# As good as no limit: middlewares of one delivery may need several threads, so a small number could deadlock.
MOST: Final = 100_000


class Threads(Executor):
    """An executor whose threads go on while the program ends, until `shutdown`, so that jobs can end with it. Those of
    ThreadPoolExecutor end before the functions of atexit are called."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._count = 0
        self._closed = False
        self._add()  # one at least: a program that ends can start no more of them

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads take no more calls")
            self._calls.put((future, partial(function, *arguments, **named)))
            if not self._idle.acquire(blocking=False) and self._count < MOST:
                self._add()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """wait: never; what runs goes on."""
        with self._lock:
            self._closed = True
            while cancel_futures:
                try:
                    call = self._calls.get_nowait()
                except Empty:
                    break
                if call:
                    call[0].cancel()
            for _ in range(self._count):
                self._calls.put(None)

    def _add(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}_{self._count}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # none can be started any more: those that are there take the calls
            if self._count == 0:
                raise
        else:
            self._count += 1

    def _work(self) -> None:
        while call := self._next():
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

    def _next(self) -> Call | None:
        try:
            return self._calls.get_nowait()
        except Empty:
            self._idle.release()
            return self._calls.get()
