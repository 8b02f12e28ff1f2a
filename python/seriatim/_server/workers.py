"""Chooses which workers a server runs."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from .. import _worker
from .._client import validate
from .._errors import ApplicationError, UsageError
from .._settings import settings
from .._worker import FunctionWorker, Worker


def chosen(given: Any = None, queues: Sequence[str | bytes] | None = None) -> list[type[Worker]]:
    """
    given: as seriatim.workers, whose value is the default; never set: every worker that was defined.
    queues: only the workers of these.

    Raises UsageError.
    """
    workers = list(dict.fromkeys([*map(find, _resolve(given)), *_worker.event_workers]))
    if not workers:
        raise UsageError("no workers: set seriatim.workers, or derive a class from seriatim.Worker")
    _refuse_double_queues(workers)
    if queues is not None:
        workers = _of_queues(workers, queues)
    for worker in workers:
        _refuse_without_perform(worker)
    return workers


def load_named() -> None:
    """Imports the workers that seriatim.workers names, for those who then look among all workers."""
    for worker in _resolve(None):
        find(worker)


def find(worker: Any) -> type[Worker]:
    """The class of a worker, of a decorated function or of "package.module:OrderWorker"."""
    found = _named(worker) if isinstance(worker, str) else worker
    if isinstance(found, FunctionWorker):
        return found.worker
    if isinstance(found, type) and issubclass(found, Worker):
        return found
    raise UsageError(f"workers: {worker!r} is not a seriatim.Worker")


def _named(name: str) -> object:
    module, _, path = name.partition(":") if ":" in name else name.rpartition(".")
    if not module:
        raise UsageError(f"workers: there is no {name}: a name has the form package.module:{path}")
    try:
        found: object = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"workers: there is no {name}: {error}") from error
    return found


def _resolve(given: Any) -> list[Any]:
    if given is None and settings.workers_set:
        given = settings.workers
    if callable(given):
        given = given()
    if given is None:
        return defined()
    return list(given) if isinstance(given, tuple) else validate.sequence("workers", given)


def defined() -> list[type[Worker]]:
    """
    Without base classes that have no perform of their own; of classes that a reload replaced, only the latest. A decorated
    function may share its name with others, whose queues differ.
    """
    candidates = [worker for worker in _worker.all_workers if not _is_base(worker)]
    return list({(worker.__module__, worker.__qualname__, worker.queue_name): worker for worker in candidates}.values())


def _is_base(worker: type[Worker]) -> bool:
    return bool(worker.__abstractmethods__) or (worker.perform is Worker.perform and bool(worker.__subclasses__()))


def _refuse_without_perform(worker: type[Worker]) -> None:
    """Its jobs would fail one by one, each until its retries are used up."""
    if worker.perform is Worker.perform or worker.__abstractmethods__:
        raise ApplicationError(
            f"workers: {worker.__qualname__} has no perform; write `def perform(self, payloads_by_id)` in it, "
            "or, if this process only pushes to it, name the workers to run in seriatim.workers"
        )


def _refuse_double_queues(workers: list[type[Worker]]) -> None:
    first: dict[str, type[Worker]] = {}
    for worker in workers:
        other = first.setdefault(worker.queue_name, worker)
        if other is not worker:
            names = " and ".join(f"{each.__module__}.{each.__qualname__}" for each in (other, worker))
            raise UsageError(f"workers: {names} have the same queue_name {worker.queue_name!r}")


def queue_names(queues: Sequence[str | bytes]) -> list[str]:
    return [name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else name for name in queues]


def _of_queues(workers: list[type[Worker]], queues: Sequence[str | bytes]) -> list[type[Worker]]:
    wanted = queue_names(queues)
    known = [worker.queue_name for worker in workers]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise UsageError(f"unknown queue {names}; there are {', '.join(map(repr, known))}")
    return [worker for worker in workers if worker.queue_name in wanted]
