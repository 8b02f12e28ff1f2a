"""
Workers: a class with perform, or a decorated function.

    class OrderWorker(seriatim.Worker):
        shards_count = 24

        def perform(self, payloads_by_id): ...

    @seriatim.worker(shards_count=24)
    def send_mails(payloads_by_id): ...
"""

from __future__ import annotations

import os
import threading
from abc import ABCMeta
from collections.abc import Awaitable, Callable, Sequence
from functools import update_wrapper
from typing import Any, ClassVar, Generic, ParamSpec, TypedDict, TypeVar, cast

from . import _native
from ._client import codec, push, spelling, validate
from ._client.actions import Actions
from ._client.metrics import of as metrics_of
from ._client.queries import Queries
from ._client.queue import Queue
from ._definitions import WorkerSettings
from ._errors import Invalid
from ._types import AnyJob, Codec, Id, Metrics, PushResult

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class ExhaustedJob(TypedDict):
    """What retries_exhausted is called with; payloads as (payload, score): the first of payloads_count, up to some 256 KiB."""

    id: Id
    payloads: list[tuple[Any, float]]
    payloads_count: int
    error: str | None


SETTINGS = _native.worker_settings()
DEFAULTS: dict[str, Any] = {**{setting["name"]: setting["default"] for setting in SETTINGS}, "queue_name": "Worker", "codec": None}
CHECKS: dict[str, Callable[[str, Any], object]] = {
    **{setting["name"]: validate.of_setting(setting) for setting in SETTINGS},
    "codec": codec.check,
}

all_workers: list[type[Worker]] = []
"""All classes that were derived from Worker, in that order, but for those of events."""

event_workers: list[type[Worker]] = []
"""Those of the types of events that have a handler in this process: every server of it runs them."""

events_lock = threading.RLock()
"""For those who change event_workers, and who give them to a server: it would get a worker twice."""

_lock = threading.RLock()


class _OfClass(Generic[T]):
    """A property of the class, also to be read on its instances."""

    def __init__(self, read: Callable[[type[Worker]], T]) -> None:
        self._read = read

    def __get__(self, instance: object, owner: type[Worker]) -> T:
        return self._read(owner)


HOOKS = {"retry_in", "retries_exhausted"}
METHODS = {"perform", *HOOKS}
PROPERTIES = {"queries", "actions", "metrics", "queue"}


def _is_plain(value: object) -> bool:
    """Neither a function nor a descriptor, which are taken for the worker's own methods."""
    return not (callable(value) or hasattr(type(value), "__get__"))


def _refuse_hiding(cls: type, name: str, value: object) -> None:
    if name in PROPERTIES and _is_plain(value):
        hint = " (did you mean queue_name?)" if name == "queue" else ""
        text = f"{cls.__name__}.{name} cannot be set to {validate.describe(value)}: every worker has a property of this name"
        raise Invalid(text + hint)


def _refuse_misspelt(cls: type, name: str, value: object) -> None:
    """
    A class attribute whose name differs from a setting's in one or two characters is a misspelt setting: it would be
    silence. In short names, which are near to many a word (ttr: tag, top), one character makes the difference.
    """
    if name.startswith("_") or name in METHODS or not _is_plain(value):
        return
    known, apart = spelling.nearest(name, CHECKS)
    if 0 < apart <= (1 if len(known) <= 5 else 2):
        raise Invalid(f"{cls.__name__}: unknown setting {name!r} (did you mean {known}?)")


def _checked(cls: type, name: str, value: Any) -> Any:
    """The value of a class attribute in its final form. Raises Invalid, which names the class."""
    if name in CHECKS:
        return CHECKS[name](f"{cls.__name__}.{name}", value)
    if name in METHODS and not hasattr(type(value), "__get__"):  # functions, and what binds itself to an instance
        return validate.function(f"{cls.__name__}.{name}", value)
    _refuse_hiding(cls, name, value)
    _refuse_misspelt(cls, name, value)
    return value


def _mixins(cls: type[Worker]) -> list[type]:
    """Bases that are no workers, whose attributes nobody has checked yet."""
    return [base for base in cls.__mro__ if Worker not in base.__mro__ and base not in Worker.__mro__]


def _forget_setting(cls: type[Worker], name: str) -> None:
    """Hooks count: the settings say whether there is a retries_exhausted."""
    if name in CHECKS or name in HOOKS:
        _forget_settings(cls)


class WorkerType(ABCMeta):
    """Checks settings when they are assigned."""

    def __setattr__(cls, name: str, value: Any) -> None:
        super().__setattr__(name, _checked(cls, name, value))
        _forget_setting(cast("type[Worker]", cls), name)

    def __delattr__(cls, name: str) -> None:
        """So mocks undo what they have set in place of what is inherited."""
        super().__delattr__(name)
        _forget_setting(cast("type[Worker]", cls), name)


class Worker(WorkerSettings, metaclass=WorkerType):
    """
    Settings are class attributes, checked when they are set and inherited, but for queue_name: WorkerSettings lists them. They
    may also come from a base that is no worker and stands before this class; those are checked when the class is made.

    perform, retry_in and retries_exhausted are methods of one instance per process, and may be async.
    """

    _of_events: ClassVar[bool] = False  # made for a type of events, of which it may have no handler
    _assumed: ClassVar[bool] = False  # the program chose none of the settings: no push warns that Redis has others
    _own_settings: ClassVar[_native.QueueSettings | None] = None
    _own_instance: ClassVar[tuple[int, Worker] | None] = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for owner in (cls, *_mixins(cls)):
            for name, value in list(vars(owner).items()):
                checked = _checked(owner, name, value)
                if name in CHECKS and (owner is cls or (checked is not value and getattr(cls, name) is value)):
                    setattr(cls, name, checked)
        if "queue_name" not in vars(cls):
            cls.queue_name = cls.__name__
        cls._own_settings = cls._own_instance = None
        all_workers.append(cls)

    def perform(self, *args: Any, **kwargs: Any) -> Any:
        """
        perform(payloads_by_id) or perform(payloads_by_id, batch) runs the jobs. Whatever it raises fails all ids that it
        did not report one by one through batch. It must not be a generator function; what it returns is ignored, but a
        generator or an awaitable, which nobody runs, fails the ids.

        payloads_by_id: {id: [payload, ...]}, each id's payloads by score, then by arrival.
        batch: seriatim.Batch, the outcome of single ids, fences, scores, contexts.
        """
        raise NotImplementedError(f"{type(self).__name__} must define perform")

    def retry_in(self, count: int) -> float | Awaitable[float]:
        """Seconds until the next run after the (count + 1)-th failure in a row; count is the new retry_count, from 0."""
        return _native.back_off(count)

    def retries_exhausted(self, jobs: list[Any]) -> Awaitable[None] | None:
        """
        Called for jobs whose retries are used up, each an ExhaustedJob, for payloads that the codec could not read (as their
        bytes), and for ids that kill or kill_all_failed_jobs has buried; at most 100 a call. Called at least once: again, in
        another process, if this one dies before the call has returned or raised.
        """
        return None

    @classmethod
    def perform_async(
        cls,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """
        Pushes jobs: see Job. May be overridden, and call super; an override that takes no keywords goes by the settings.

        wait_replicas: how many replicas must have it; seriatim.wait_replicas.
        wait_timeout: seconds they may take; seriatim.wait_timeout.
        push_timeout: seconds that all of it may take; seriatim.push_timeout.
        handle: answer a handle for each job; a push with deliver_at or deliver_in always does.

        Raises Invalid, naming the job and the field, before anything is written; NotReplicated when it is written, and too
        few replicas have it; Error when Redis cannot be reached or refuses.
        """
        return push.push(
            cls,
            jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout,
            push_timeout=push_timeout, handle=handle,
        )

    @classmethod
    async def aperform_async(
        cls,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """The same for coroutines. It never blocks the event loop."""
        return await push.apush(
            cls, jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout, push_timeout=push_timeout, handle=handle
        )

    queries = _OfClass(Queries)
    """What is in the queue."""

    actions = _OfClass(Actions)
    """What an operator does to it."""

    metrics = _OfClass(metrics_of)
    """The queue's figures now, and at "shards" those of each."""

    queue = _OfClass(Queue)
    """The queue in Redis."""

    @classmethod
    def _queue_settings(cls) -> _native.QueueSettings:
        """The settings as the core takes them, by name; the same object until one changes."""
        made = cls._own_settings
        if made is None:
            made = cls._own_settings = {
                **{setting["name"]: getattr(cls, setting["name"]) for setting in SETTINGS},
                "queue_name": cls.queue_name.encode("utf-8", "surrogateescape"),
                "exhausted_hook": cls.retries_exhausted is not Worker.retries_exhausted,
                "assumed": cls._assumed,
            }
        return made

    @classmethod
    def _payload_codec(cls) -> Codec:
        return codec.of(cls.codec)

    @classmethod
    def _instance(cls) -> Worker:
        """The one of this process, made on first use."""
        with _lock:
            made = cls._own_instance
            if made is None or made[0] != os.getpid():
                made = cls._own_instance = (os.getpid(), cls())
            return made[1]


for _name, _default in DEFAULTS.items():
    type.__setattr__(Worker, _name, _default)


def _forget_settings(cls: type[Worker]) -> None:
    type.__setattr__(cls, "_own_settings", None)
    for inheriting in cls.__subclasses__():
        _forget_settings(inheriting)


def _new_locks() -> None:
    global _lock, events_lock
    _lock, events_lock = threading.RLock(), threading.RLock()


os.register_at_fork(after_in_child=_new_locks)


class FunctionWorker(Generic[P, R]):
    """
    A function with a queue. Calling it calls the function; `worker` is the class that was made for it. A callable without a name,
    as a functools.partial, needs the option queue_name.
    """

    __name__: str

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        if not callable(function):
            raise validate.refusal("worker", "a function", function)
        update_wrapper(self, function)
        self._function = function
        label = getattr(function, "__name__", type(function).__name__)
        known = [*CHECKS, *sorted(HOOKS)]
        for name in options.keys() - known:
            raise Invalid(f"{label}: unknown option {name!r}{spelling.did_you_mean(name, known)}; known are {', '.join(known)}")
        named = hasattr(function, "__name__")
        if not named and "queue_name" not in options:
            raise Invalid(f"worker: {validate.kind(function)} has no name, so the option queue_name must name its queue")
        methods: dict[str, Any] = {
            name: staticmethod(validate.function(f"{label}.{name}", options.pop(name))) for name in HOOKS & options.keys()
        }
        same = {name: getattr(function, name, None) for name in ("__module__", "__qualname__", "__doc__")}
        if not named:
            same["__qualname__"] = f"{label}({options['queue_name']})"  # it has none of its own
        members: dict[str, Any] = {**same, **options, **methods, "perform": staticmethod(function)}
        self.worker = cast("type[Worker]", WorkerType(label, (Worker,), members))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<seriatim.worker {self.worker.__module__}.{self.worker.__qualname__}>"

    @property
    def queue_name(self) -> str:
        return self.worker.queue_name

    @property
    def queries(self) -> Queries:
        """What is in the queue."""
        return self.worker.queries

    @property
    def actions(self) -> Actions:
        """What an operator does to it."""
        return self.worker.actions

    @property
    def metrics(self) -> Metrics:
        """The queue's figures now, and at "shards" those of each."""
        return self.worker.metrics

    @property
    def queue(self) -> Queue:
        """The queue in Redis."""
        return self.worker.queue

    def perform_async(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """As Worker.perform_async."""
        return self.worker.perform_async(
            jobs,
            wait_replicas=wait_replicas, wait_timeout=wait_timeout,
            push_timeout=push_timeout, handle=handle,
        )

    async def aperform_async(
        self,
        jobs: Sequence[AnyJob],
        *,
        wait_replicas: int | None = None,
        wait_timeout: float | None = None,
        push_timeout: float | None = None,
        handle: bool = False,
    ) -> PushResult:
        """As Worker.aperform_async."""
        return await self.worker.aperform_async(
            jobs, wait_replicas=wait_replicas, wait_timeout=wait_timeout, push_timeout=push_timeout, handle=handle
        )
