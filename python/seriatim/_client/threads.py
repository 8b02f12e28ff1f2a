"""Threads for what may block, beside an event loop, and their waits for it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")
Call = tuple["Future[Any]", Callable[[], Any]]

# As good as no limit: the middlewares of one push or delivery may need several threads, so a small number could deadlock.
MOST: Final = 100_000
IDLE_SECONDS: Final = 10  # after many pushes at once


def wait_on_loop(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    """
    From another thread than the loop's: runs the coroutine, with this thread's context, to its end. Raises RuntimeError where
    the loop is closed: the coroutine has not run.
    """
    ended: Future[T] = Future()
    try:
        loop.call_soon_threadsafe(_begin, coroutine, loop, ended)
    except RuntimeError:
        coroutine.close()
        raise
    return ended.result()


def _begin(coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, ended: Future[T]) -> None:
    """As asyncio.run_coroutine_threadsafe, which replaces some exceptions, TimeoutError for one, by new objects."""
    try:
        task = loop.create_task(coroutine)
    except BaseException as error:
        ended.set_exception(error)
        raise
    task.add_done_callback(partial(_tell, ended))


def _tell(ended: Future[Any], task: asyncio.Task[Any]) -> None:
    try:
        error = task.exception()
    except asyncio.CancelledError as cancelled:
        error = cancelled
    if error is None:
        ended.set_result(task.result())
    else:
        ended.set_exception(error)


def in_threads(threads: Executor, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
    """
    From the loop: calls the function on one of the threads, with this context. As run_in_executor, which replaces the same
    exceptions.
    """
    loop = asyncio.get_running_loop()
    run: Callable[..., Any] = contextvars.copy_context().run
    call = threads.submit(run, function, *arguments)
    ended: asyncio.Future[Any] = loop.create_future()
    call.add_done_callback(partial(_tell_loop, loop, ended))
    ended.add_done_callback(lambda _: call.cancel())  # where the loop gave it up and no thread has taken it
    return ended


def _tell_loop(loop: asyncio.AbstractEventLoop, ended: asyncio.Future[Any], call: Future[Any]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(_end, ended, call)


def _end(ended: asyncio.Future[Any], call: Future[Any]) -> None:
    if ended.done():
        return
    if call.cancelled():
        ended.cancel()
    elif (error := call.exception()) is not None:
        ended.set_exception(error)
    else:
        ended.set_result(call.result())


def _run(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
        del future  # which the error's traceback would keep, and the future the error
    else:
        future.set_result(result)


class Threads(Executor):
    """An executor whose threads go on while the program ends, until `shutdown`, so that jobs can end with it. Those of
    ThreadPoolExecutor end before the functions of atexit are called."""

    def __init__(self, name: str, idle_seconds: float | None = None) -> None:
        """idle_seconds: after which a thread without a call ends, but for the last one; None: all stay."""
        self._name = name
        self._idle_seconds = idle_seconds
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._count = 0
        self._idle = 0  # threads without a call, those that begin among them
        self._waiting = 0  # calls that no thread has taken
        self._closed = False
        self._add()  # one at least: a program that ends can start no more of them

    def submit(self, function: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads take no more calls")
            self._calls.put((future, partial(function, *arguments, **named)))
            self._waiting += 1
            if self._waiting > self._idle and self._count < MOST:
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
                    self._waiting -= 1
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
            self._idle += 1

    def _work(self) -> None:
        while call := self._next():
            _run(*call)
            del call  # an idle thread keeps nothing of it
            with self._lock:
                self._idle += 1

    def _next(self) -> Call | None:
        while True:
            try:
                call = self._calls.get(timeout=self._idle_seconds)
            except Empty:
                if self._may_end():
                    return None
                continue
            with self._lock:
                self._idle -= 1
                self._waiting -= call is not None
            return call

    def _may_end(self) -> bool:
        """False for the last thread, and where a call waits for this one."""
        with self._lock:
            may = self._count > 1 and self._waiting < self._idle
            self._count -= may
            self._idle -= may
        return may


_lock = threading.Lock()
_own: Threads | None = None


def own() -> Threads:
    """
    Those of pushes. Not the loop's executor, which has few: the application may hold them all, or so may sync middlewares while
    they wait for what is inside them, which may need one, too. And those end before the functions of atexit are called.
    """
    global _own
    with _lock:
        if _own is None:
            _own = Threads("seriatim-client", IDLE_SECONDS)
        return _own


def in_thread(function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
    """From the loop: calls it on one of our own threads, with this context."""
    return in_threads(own(), function, *arguments)


def _forget() -> None:
    """In a child of fork, which has none of the threads."""
    global _lock, _own
    _lock, _own = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)
