"""An event loop on a thread of its own, for what is async on the server's side."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from .. import _log
from .._client.threads import wait_on_loop

T = TypeVar("T")


class LoopThread:
    """Made when it is first needed. Threads wait for coroutines on it; the async host lives on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._ending = False
        self._is_forked = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(target=self._run, name="seriatim-loop", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # there are no more threads
                    self._loop.close()
                    self._loop = None
                    raise
                self._thread = thread
            return self._loop

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """From another thread: runs the coroutine, with this thread's context, to its end."""
        return wait_on_loop(coroutine, self.loop)

    def tasks(self) -> list[tuple[str, list[str]]]:
        """Name and stack (innermost last) of what runs on the loop now."""
        if self._loop is None:
            return []
        return [(task.get_name(), _stack(task)) for task in asyncio.all_tasks(self._loop)]

    def close(self, seconds: float) -> None:
        """
        Cancels what still runs, which gets `seconds` to end, then ends the thread. Waits twice as long for that, where a task
        holds the loop; the thread ends when it goes on. May be called again, to wait again.
        """
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        with suppress(RuntimeError):  # it is closed, by an earlier call perhaps
            loop.call_soon_threadsafe(self._end, loop, seconds)
        if thread is not threading.current_thread():
            thread.join(2 * seconds)

    def _run(self) -> None:
        """Exits and interrupts of a task come out of the loop, and anybody may stop it: the others' tasks go on."""
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        _here.loop_thread = self
        while not self._ending:
            try:
                self._loop.run_forever()
            except BaseException as error:
                _log.error("crash", f"the event loop goes on after {_log.describe(error)}")
        if not self._is_forked:
            self._loop.close()

    def _leave(self) -> None:
        """
        In a child that a task has forked: the loop runs no further, for its tasks are the parent's. It is not closed, which would
        remove its descriptors from the parent's selector, too. This is the child's only thread, so the child ends.
        """
        assert self._loop is not None
        self._ending = self._is_forked = True
        self._loop.stop()

    def _end(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """On the loop. What will not be cancelled ends with the process."""
        if self._cancelling is None:
            self._cancelling = loop.create_task(_cancel_all())
            self._cancelling.add_done_callback(lambda _: self._stop(loop))
            loop.call_later(seconds, self._stop, loop)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ending = True
        loop.stop()


_here = threading.local()  # loop_thread: the one whose thread this is


def _leave_in_child() -> None:
    loop_thread: LoopThread | None = getattr(_here, "loop_thread", None)
    if loop_thread is not None:
        loop_thread._leave()


os.register_at_fork(after_in_child=_leave_in_child)


async def _cancel_all() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()


def _stack(task: asyncio.Task[Any]) -> list[str]:
    """The coroutine's line and those of all that it awaits in turn, of which Task.get_stack gives only the first."""
    lines: list[str] = []
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}:in {frame.f_code.co_name}")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return lines
