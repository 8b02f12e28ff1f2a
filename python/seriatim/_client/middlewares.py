"""Chains of callables (worker, subject, call_next), sync and async in any mixture."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from .._errors import Invalid
from . import validate
from .threads import in_thread, wait_on_loop

Link = Callable[[Any, Any, Callable[[], Any]], Any]
Wait = Callable[[Coroutine[Any, Any, Any]], Any]
InThread = Callable[..., Awaitable[Any]]


def is_async(function: object) -> bool:
    """Does calling it give a coroutine?"""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))


class Walk:
    """
    One walk through a chain to the core, the first link outermost. A sync link runs on a thread and waits for what is
    inside it; an async one runs on the event loop and awaits it. Either way call_next gives the inner result.
    """

    def __init__(
        self,
        field: str,
        chain: Sequence[Link],
        worker: object,
        subject: object,
        core: Callable[[], Any],
        wait: Wait,
        in_thread: InThread,
    ) -> None:
        """
        field: the setting that holds the chain, for errors.
        wait: from a thread, runs a coroutine on the loop to its end.
        in_thread: from the loop, calls a function on a thread, which must not wait for another walk to give one back.

        Raises Invalid when one of the links cannot be called; then none was.
        """
        self._field = field
        self._chain = validate.functions(field, list(chain))
        self._worker = worker
        self._subject = subject
        self._core = core
        self._wait = wait
        self._in_thread = in_thread

    def from_thread(self, place: int = 0) -> Any:
        """Calls the link at this place (behind the last: the core) and what is inside it; blocks."""
        result = self._call(place)
        return self._checked(place, self._wait(result) if inspect.iscoroutine(result) else result)

    async def from_loop(self, place: int = 0) -> Any:
        """The same, awaited."""
        if is_async(self._chain[place] if place < len(self._chain) else self._core):
            return self._checked(place, await self._call(place))
        return await self._in_thread(self._from_thread, place)

    def _from_thread(self, place: int) -> Any:
        """No future can hold a StopIteration: who awaited it would wait for ever."""
        try:
            return self.from_thread(place)
        except StopIteration as error:
            raise RuntimeError("a middleware raised StopIteration") from error

    def _call(self, place: int) -> Any:
        if place == len(self._chain):
            return self._core()
        link = self._chain[place]
        if is_async(link):
            return self._await_link(place, link)
        return link(self._worker, self._subject, partial(self.from_thread, place + 1))

    async def _await_link(self, place: int, link: Link) -> Any:
        """What an async link returned. Raises Invalid if it left the coroutine of call_next() unfinished: the core has not run."""
        calls: list[Coroutine[Any, Any, Any]] = []

        def call_next() -> Coroutine[Any, Any, Any]:
            calls.append(self.from_loop(place + 1))
            return calls[-1]

        result = await link(self._worker, self._subject, call_next)
        for call in calls:
            state = inspect.getcoroutinestate(call)
            if state == inspect.CORO_CREATED:
                call.close()
            if state != inspect.CORO_CLOSED:
                raise Invalid(f"{self._field}[{place}] must await what call_next() gives")
        return result

    def _checked(self, place: int, result: Any) -> Any:
        """The same. Raises Invalid for a link's result that would have to be run or awaited: the core has not run."""
        if result is not None and place < len(self._chain) and isinstance(result, validate.UNFINISHED):
            raise Invalid(f"{self._field}[{place}] returned {validate.kind(result)}, which nothing runs or awaits")
        return result


def call_sync(chain: Sequence[Link], worker: object, subject: object, core: Callable[[], Any]) -> Any:
    """
    The chain around a core, all of it sync.

    Raises Invalid for an async link.
    """
    if not chain:
        return core()
    for place, link in enumerate(chain):
        if is_async(link):
            raise Invalid(f"client_middlewares[{place}] is async: use aperform_async")
    return Walk("client_middlewares", chain, worker, subject, core, _no_loop, in_thread).from_thread()


async def call_async(chain: Sequence[Link], worker: object, subject: object, core: Callable[[], Any]) -> Any:
    """The chain around an async core, on the running loop; sync links run on a thread."""
    if not chain:
        return await core()
    loop = asyncio.get_running_loop()

    def wait(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return wait_on_loop(coroutine, loop)

    return await Walk("client_middlewares", chain, worker, subject, core, wait, in_thread).from_loop()


def _no_loop(coroutine: Coroutine[Any, Any, Any]) -> Any:
    coroutine.close()
    raise Invalid("client_middlewares: one of them gave a coroutine: use aperform_async")
