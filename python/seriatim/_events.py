"""
Delayed events: each type of event is a queue NAME:TYPE, whose handler ends an event by returning True.

    events = seriatim.events("billing")

    @events.on("InvoiceDue", max_running=5)
    def remind(event, context):
        invoices.remind(event["invoice"])
        return True

    events.enqueue("InvoiceDue", id="i-1", event={"invoice": 1}, delay=86_400)

Every server of the process runs the handlers, beside the workers that it was given.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast, overload

from . import _native, _worker
from ._client import validate
from ._client.middlewares import is_async
from ._definitions import Fold
from ._errors import Invalid
from ._server.server import running
from ._server.batch import Batch
from ._types import AnyId, Id, Job, PushResult
from ._worker import Worker, WorkerType, all_workers, event_workers

ATTEMPTS = 70
MAX_RUNNING = 10

Handler = Callable[[Any, dict[str, str]], Any]
RetryIn = Literal["delayed_queue"] | Callable[[int], float | Awaitable[float]] | Sequence[float]
H = TypeVar("H", bound=Handler)

# Process-wide state.
_named: dict[str, Events] = {}
_lock = threading.RLock()


def _new_lock() -> None:
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


class Events:
    """The events of one name; made by seriatim.events, the same object for each call with that name. For any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._types: dict[str, type[Worker]] = {}

    @property
    def name(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"<seriatim.Events {self._name}>"

    @overload
    def on(
        self,
        type: str,
        /,
        *,
        max_running: int = ...,
        attempts: int = ...,
        retry_in: RetryIn = ...,
        fold: Fold = ...,
    ) -> Callable[[H], H]: ...

    @overload
    def on(
        self,
        type: str,
        handler: H,
        /,
        *,
        max_running: int = ...,
        attempts: int = ...,
        retry_in: RetryIn = ...,
        fold: Fold = ...,
    ) -> H: ...

    def on(
        self,
        type: str,
        handler: Any = None,
        /,
        *,
        max_running: int = MAX_RUNNING,
        attempts: int = ATTEMPTS,
        retry_in: RetryIn = "delayed_queue",
        fold: Fold = "last",
    ) -> Any:
        """
        Handles the events of a type in this process: a decorator of the handler, or a call with it. A server that runs serves it
        from then on; it asks Redis for the queue first.

        handler: def or async def (event, context), what enqueue was given. Only True ends the event; anything else and what it
        raises are failures.
        max_running: how many events of the type this process handles at once, 1 to 100.
        attempts: after how many runs an event that always fails goes to the morgue, 1 to 100.
        retry_in: seconds until the next run: "delayed_queue", the table of the library of that name, a function that gets how
        many retries there were (from 0), or a list, whose last element goes for all later ones.
        fold: which events of one id are kept while it waits.

        Raises Invalid: the type has a handler already, or an argument is invalid; Error: a server runs, and Redis cannot be
        reached or refuses.
        """
        name = validate.text("type", type, 1, 500)
        options = {
            "max_running": validate.integer("max_running", max_running, 1, 100),
            "max_retry_count": validate.integer("attempts", attempts, 1, 100) - 1,
            "fold": fold,
        }
        back_off = _back_off_of(retry_in)

        def register(function: H) -> H:
            self._register(name, validate.function("handler", function), options, back_off)
            return function

        return register if handler is None else register(handler)

    def off(self, type: str) -> bool:
        """
        Handles the events of the type no more: servers of this process claim none, let those that run finish, and hand the
        queue over to the servers of other processes that handle the type. What is enqueued stays. False: it has no handler.
        """
        with _worker.events_lock:
            worker = self.worker(type)
            if worker not in event_workers:
                return False
            _unregister(worker)
            return True

    def enqueue(
        self,
        type: str,
        *,
        id: AnyId,
        event: Any,
        delay: float | timedelta = 0,
        context: Mapping[str, str] | None = None,
    ) -> PushResult:
        """
        Enqueues an event. If an event of this type and id waits already, its time stays, and the queue's fold decides which
        event is kept.

        event: what JSON can say, but None. delay: seconds from now. context: given to the handler with the event.

        Raises Invalid before anything is written; Error when Redis cannot be reached or refuses.
        """
        return self.worker(type).perform_async([_job(id, event, delay, context)])

    async def aenqueue(
        self,
        type: str,
        *,
        id: AnyId,
        event: Any,
        delay: float | timedelta = 0,
        context: Mapping[str, str] | None = None,
    ) -> PushResult:
        """The same for coroutines. It never blocks the event loop."""
        return await self.worker(type).aperform_async([_job(id, event, delay, context)])

    def worker(self, type: str) -> type[Worker]:
        """The worker of the type's queue, for its queries, actions and metrics."""
        name = validate.text("type", type, 1, 500)
        made = self._types.get(name)
        return made or self._types.setdefault(name, _new_worker(f"{self._name}:{name}"))  # the first of two threads makes it

    def _register(self, type: str, handler: Handler, options: dict[str, Any], back_off: Callable[[int], Any]) -> None:
        with _worker.events_lock:
            worker = self.worker(type)
            if worker in event_workers:
                raise Invalid(f"{worker.queue_name!r} has a handler already")
            setattr(worker, "_assumed", False)  # before the settings, which are put together anew
            for name, value in options.items():
                setattr(worker, name, value)
            setattr(worker, "perform", _perform_async(handler) if is_async(handler) else _perform(handler))
            setattr(worker, "retry_in", lambda self, count: back_off(count))
            _register(worker)


def events(name: str) -> Events:
    """The events whose queues' names begin with this name, which must not contain ":"."""
    text = validate.text("name", name, 1, 500)
    if ":" in text:
        raise Invalid(f'name must not contain ":", which separates it from the type, but is {text!r}')
    with _lock:
        return _named.setdefault(text, Events(text))


def _register(worker: type[Worker]) -> None:
    """Servers that run serve it from now on; if one of them cannot, none does."""
    event_workers.append(worker)
    try:
        for server in running():
            server._serve(worker)
    except BaseException:
        _unregister(worker)
        raise


def _unregister(worker: type[Worker]) -> None:
    event_workers.remove(worker)
    for server in running():
        server._withdraw(worker)


def _new_worker(queue_name: str) -> type[Worker]:
    """Not among the workers that a server runs unasked."""
    members = {
        "queue_name": queue_name,
        "fold": "last",
        "max_running": MAX_RUNNING,
        "max_retry_count": ATTEMPTS - 1,
        "_of_events": True,
        "_assumed": True,  # until the type is handled for the first time
        "__module__": __name__,
    }
    made = cast("type[Worker]", WorkerType(f"events {queue_name}", (Worker,), members))
    all_workers.remove(made)
    return made


def _job(id: AnyId, event: Any, delay: float | timedelta, context: Mapping[str, str] | None) -> Job:
    for name, value in (("id", id), ("event", event), ("delay", delay)):
        if value is None:
            raise Invalid(f"{name} must not be None")
    job: Job = {"id": id, "payload": event, "delay": delay, "on_waiting": "keep"}
    if context is not None:
        job["context"] = dict(context) if isinstance(context, Mapping) else context  # the push refuses what is no mapping
    return job


def _back_off_of(retry_in: Any) -> Callable[[int], Any]:
    if isinstance(retry_in, str) and retry_in == "delayed_queue":
        return _native.back_off_of_events
    if callable(retry_in):
        return cast("Callable[[int], Any]", retry_in)
    if not isinstance(retry_in, (list, tuple)) or not retry_in:
        raise validate.refusal("retry_in", '"delayed_queue", a function, or a list of seconds', retry_in)
    seconds = [validate.delay(f"retry_in[{place}]", each) for place, each in enumerate(retry_in)]
    return lambda count: seconds[min(count, len(seconds) - 1)]


def _perform(handler: Handler) -> Callable[..., None]:
    def perform(self: Worker, payloads_by_id: dict[Id, list[Any]], batch: Batch) -> None:
        for id, payloads in payloads_by_id.items():
            contexts = batch.contexts(id)
            for place, event in enumerate(payloads):
                if not _ended(batch, id, place, len(payloads), handler(event, contexts[place])):
                    break

    return perform


def _perform_async(handler: Handler) -> Callable[..., Any]:
    async def perform(self: Worker, payloads_by_id: dict[Id, list[Any]], batch: Batch) -> None:
        for id, payloads in payloads_by_id.items():
            contexts = batch.contexts(id)
            for place, event in enumerate(payloads):
                if not _ended(batch, id, place, len(payloads), await handler(event, contexts[place])):
                    break

    return perform


def _ended(batch: Batch, id: Id, place: int, count: int, result: object) -> bool:
    """Notes the outcome of one event. What is done of several events of an id stays done when a later one fails."""
    if result is not True:
        batch.fail(id, f"the handler returned {validate.describe(result)}, not True")
        return False
    if place + 1 < count:
        batch.checkpoint(id, place + 1)
    return True
