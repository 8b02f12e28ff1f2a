"""
Runs one delivery. This is the error boundary: whatever way user code takes to leave, every id gets an outcome. The host
settles the delivery.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from .. import _log, _native
from .._client import codec, stored_error, validate
from .._client.middlewares import Link, Walk, is_async
from .._errors import Closed, Invalid, UsageError
from .._settings import settings
from .._types import Id
from .._worker import METHODS, Worker
from .batch import DONE, Batch, Snooze

RUN, DIED, EXHAUSTED = 0, 1, 2
WORKER_DIED = "worker died"


class Ref:
    """A worker as a server runs it."""

    def __init__(self, worker: type[Worker]) -> None:
        self.worker = worker
        self.queue_name = worker.queue_name
        self.instance = worker._instance()
        self.codec = worker._payload_codec()
        self.perform: Callable[..., Any] = self.instance.perform
        _refuse_other_parameters(worker, self.perform)
        _refuse_generators(worker, self.instance)
        self.is_async = is_async(self.perform)
        self.takes_batch = _takes_batch(self.perform)


def _refuse_other_parameters(worker: type[Worker], perform: Callable[..., Any]) -> None:
    """A perform without self, say, which would fail every job."""
    if callable(perform):
        try:
            signature = inspect.signature(perform)
            signature.bind(*([None, None] if _takes_batch(perform) else [None]))
            return
        except TypeError:
            pass
    rule = "(self, payloads_by_id) or (self, payloads_by_id, batch)"
    raise UsageError(f"workers: {worker.__qualname__}.perform must be a method with the parameters {rule}")


def _refuse_generators(worker: type[Worker], instance: Worker) -> None:
    """A call of a generator function only makes a generator: all jobs would count as done."""
    for name in sorted(METHODS):
        if validate.is_generator_function(getattr(instance, name)):
            raise UsageError(f"workers: {worker.__qualname__}.{name} {validate.NO_GENERATOR}")


def _takes_batch(perform: Callable[..., Any]) -> bool:
    """Does perform take a second positional argument?"""
    kinds = [parameter.kind for parameter in inspect.signature(perform).parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in positional for kind in kinds) > 1 or inspect.Parameter.VAR_POSITIONAL in kinds


class Server(Protocol):
    """What an execution needs of its server. The class itself needs the executions, so it is not imported here."""

    _refs: list[Ref]
    _abandoned: bool
    _telling: set[Execution]  # those that run retries_exhausted, whose ids the core does not count as running

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any: ...

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]: ...


class Execution:
    """One delivery, from its reading to its outcomes."""

    _payloads: dict[Id, list[Any]] | None = None
    _places: dict[Id, int] | None = None
    _batch: Batch | None = None
    _rows: list[_native.ClaimedRow] | None = None

    def __init__(self, server: Server, delivery: _native.Delivery) -> None:
        self._server = server
        self._delivery = delivery
        self._ref: Ref = server._refs[delivery.worker]
        self._debug = _log.is_debug()

    def call(self) -> None:
        """On a thread: all of it."""
        try:
            self._by_kind()
        except BaseException as error:
            if not self._server._abandoned:
                _log.error("crash", _log.describe(error), q=self._ref.queue_name)

    async def call_async(self) -> None:
        """On the event loop: what is async, and needs no thread, itself; all else on one of the server's threads."""
        error: BaseException | None = None
        try:
            if self._delivery.kind != RUN or not self._ref.is_async or not self._read_json():
                await self._in_thread(self._by_kind)
                return
            try:
                await self._perform_async()
            except BaseException as raised:
                error = raised
            if error is None and self._all_done():
                self._delivery.done_all()
                if self._debug:
                    self._log_event("done")
            elif not self._server._abandoned:
                await self._in_thread(self._conclude, error)
        except BaseException as raised:
            if not self._server._abandoned:
                _log.error("crash", _log.describe(raised), q=self._ref.queue_name)

    async def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What it returned, at its end: user code that cancels this task does not end the thread."""
        call = self._server._in_thread(function, *arguments)
        while not call.done():
            try:
                await asyncio.wait([call])
            except asyncio.CancelledError:
                if self._server._abandoned:
                    raise
        return call.result()

    # ---- run

    def _by_kind(self) -> None:
        kind = self._delivery.kind
        if kind == RUN:
            self._run()
        elif kind == DIED:
            self._died()
        else:
            self._exhausted()

    def _run(self) -> None:
        if not self._read_json() and not self._decode():
            return
        error: BaseException | None = None
        try:
            self._perform()
        except BaseException as raised:
            error = raised
        if error is None and self._all_done():
            self._delivery.done_all()
        elif not self._server._abandoned:
            self._conclude(error)
        if error is None and self._debug:
            self._log_event("done")

    def _perform(self) -> None:
        chain = settings.server_middlewares
        if chain:
            self._walk(chain).from_thread()
            return
        result = self._call()
        self._checked(self._server._wait(result) if inspect.iscoroutine(result) else result)

    async def _perform_async(self) -> None:
        chain = settings.server_middlewares
        if chain:
            await self._walk(chain).from_loop()
        else:
            self._checked(await self._call())

    def _walk(self, chain: Sequence[Link]) -> Walk:
        """An async perform runs on the loop wherever the walk began, so that what is async around it can cancel it."""
        wait = self._server._wait
        core = self._async_core if self._ref.is_async else self._core
        return Walk("server_middlewares", chain, self._ref.worker, self._the_batch(), core, wait, self._in_thread)

    def _core(self) -> Any:
        """What perform returned, or a coroutine that gives it."""
        result = self._call()
        return self._awaited(result) if inspect.iscoroutine(result) else self._checked(result)

    async def _async_core(self) -> Any:
        return self._checked(await self._call())

    async def _awaited(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._checked(await coroutine)

    def _call(self) -> Any:
        ref = self._ref
        return ref.perform(self._payloads, self._the_batch()) if ref.takes_batch else ref.perform(self._payloads)

    def _checked(self, result: Any) -> Any:
        """The same. Raises Invalid for what would have to be run or awaited: the jobs are not done."""
        if result is not None and isinstance(result, validate.UNFINISHED):
            kind = validate.kind(result)
            raise Invalid(f"{self._ref.worker.__qualname__}.perform returned {kind}, which a server neither runs nor awaits")
        return result

    def _the_batch(self) -> Batch:
        if self._batch is None:
            assert self._payloads is not None
            self._batch = Batch(self._ref.worker, self._delivery, self._payloads, self._places)
        return self._batch

    def _all_done(self) -> bool:
        """After a call that raised nothing: no id has an outcome of its own."""
        return self._places is None and (self._batch is None or not self._batch._outcomes)

    # ---- payloads

    def _read_json(self) -> bool:
        """False where the codec is another, or some payload cannot be read."""
        if self._ref.codec is not codec.JSON:
            return False
        self._payloads = self._delivery.payloads_by_id()
        if self._debug:
            self._log_event("start")
        return self._payloads is not None

    def _decode(self) -> bool:
        """Keeps the ids whose payloads can all be read. Of the others the unreadable payloads go to the morgue."""
        self._payloads, self._places = {}, {}
        for place, row in enumerate(self._all_rows()):
            values = self._decode_id(row, place)
            if values is not None:
                self._payloads[row[0]] = values
                self._places[row[0]] = place
        return bool(self._payloads)

    def _decode_id(self, row: _native.ClaimedRow, place: int) -> list[Any] | None:
        values, broken, first = [], [], None
        for at, (data, _, _) in enumerate(row[5]):
            try:
                values.append(self._ref.codec.load(data))
            except BaseException as error:
                first = first or error
                broken.append(at)
        if first is None:
            return values
        self._reject(place, broken, first)
        return None

    def _reject(self, place: int, broken: list[int], error: BaseException) -> None:
        """broken: the places of payloads that cannot be read; error: of the first."""
        reason = f"undecodable payload: {_log.describe(error)}"
        self._delivery.reject(place, broken, self._stored_error(reason))
        self._log_failure(place, f"{len(broken)} payloads cannot be read: {reason}", id=self._all_rows()[place][0])

    def _all_rows(self) -> list[_native.ClaimedRow]:
        if self._rows is None:
            self._rows = [self._delivery.job(place) for place in range(len(self._delivery))]
        return self._rows

    # ---- outcomes

    def _conclude(self, error: BaseException | None) -> None:
        """The outcome of every id, whatever user code made of the dict; without one of its own it shares the call's."""
        for place, row in enumerate(self._all_rows()):
            if self._places is not None and row[0] not in self._places:
                continue
            self._settle_id(place, error if self._batch is None else self._batch._outcome(row[0], error))

    def _settle_id(self, place: int, outcome: object) -> None:
        """What raises here is a failure of this id alone; without an outcome the core would hand it out again at once."""
        try:
            if outcome is None or outcome is DONE:
                self._delivery.done(place)
            elif isinstance(outcome, Snooze):
                self._delivery.snooze(place, outcome.seconds, outcome.payload)
            else:
                self._fail(place, outcome)
        except BaseException as raised:
            self._fail_plainly(place, raised)

    def _fail_plainly(self, place: int, error: BaseException) -> None:
        """As _fail, without the hooks of the worker."""
        id, count = self._all_rows()[place][0], self._failures_before(place)
        self._delivery.fail(place, self._stored_error(_log.describe(error)), _native.back_off(count))
        self._log_failure(place, error, id=id, n=count)

    def _fail(self, place: int, error: object) -> None:
        id, count = self._all_rows()[place][0], self._failures_before(place)
        self._delivery.fail(place, self._error_text(error), self._retry_in(count))
        elapsed = None if self._payloads is None else self._delivery.elapsed()
        self._log_failure(place, error, id=id, n=count, elapsed=elapsed)

    def _failures_before(self, place: int) -> int:
        """In a row: behind a checkpoint what is left counts as never failed."""
        if self._batch is not None and place in self._batch._checkpointed:
            return 0
        return self._all_rows()[place][2] + 1

    def _error_text(self, error: object) -> bytes:
        text: Any = error
        if isinstance(error, BaseException):
            text = self._hook("format_error", None, settings.format_error, error)
            if not isinstance(text, (str, bytes)) or not text:
                text = _log.describe(error)
        return self._stored_error(_log.utf8(text))

    def _stored_error(self, text: str) -> bytes:
        return stored_error.stored(text, self._ref.queue_name, BaseException)

    def _retry_in(self, count: int) -> float:
        """Seconds; the default formula where the worker's own gives none."""
        seconds = self._hook("retry_in", None, self._ref.instance.retry_in, count)
        number: float | None = self._hook("retry_in", None, validate.number, seconds)
        if number is not None and number == number:
            return number
        given = self._hook("retry_in", "no number", validate.describe, seconds)
        _log.error("hook", f"retry_in({count}) gave {given}; the default formula is used", q=self._ref.queue_name)
        return _native.back_off(count)

    def _hook(self, name: str, fallback: Any, function: Callable[..., Any], *arguments: Any) -> Any:
        """User code whose failure must not be more than a line in the log."""
        try:
            result = function(*arguments)
            return self._server._wait(result) if inspect.iscoroutine(result) else result
        except BaseException as error:
            _log.error("hook", f"{name} raised {_log.describe(error)}", q=self._ref.queue_name)
            return fallback

    # ---- what is not run

    def _died(self) -> None:
        for place in range(len(self._delivery)):
            self._settle_id(place, WORKER_DIED)

    def _exhausted(self) -> None:
        self._server._telling.add(self)
        try:
            jobs = [self._exhausted_job(row) for row in self._all_rows()]
            self._hook("retries_exhausted", None, self._ref.instance.retries_exhausted, jobs)
        finally:
            self._server._telling.discard(self)

    def _exhausted_job(self, row: _native.ClaimedRow) -> dict[str, Any]:
        id, _, _, _, error, payloads, count = row
        load = self._ref.codec.load
        return {
            "id": id,
            "payloads": [(self._hook("load_payload", data, load, data), score) for data, score, _ in payloads],
            "payloads_count": count,
            "error": error and self._hook("load_error", error, settings.load_error, error),
        }

    def _log_failure(self, place: int, error: object, **fields: Any) -> None:
        """One line each, which says whether it was the last one; of many in a second only their count, which the runner tells."""
        try:
            event = self._delivery.failure(place)
        except Closed:
            event = "fail"
        if event is not None:
            level = _log.WARN if event == "fail" else _log.ERROR
            _log.write(level, event, _log.brief(error), q=self._ref.queue_name, **fields)

    def _log_event(self, event: str) -> None:
        if self._payloads:
            elapsed = self._delivery.elapsed()
            _log.debug(event, q=self._ref.queue_name, id=next(iter(self._payloads)), n=len(self._payloads), elapsed=elapsed)
