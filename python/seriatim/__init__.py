"""
Background jobs in order, per id, folded, on Redis.

    class OrderWorker(seriatim.Worker):
        def perform(self, payloads_by_id):
            for id, payloads in payloads_by_id.items():
                ...

    OrderWorker.perform_async([{"id": 1, "payload": {"status": "paid"}}])

The module's attributes are its settings:

workers             what the command runs: workers, their names ("package.module:OrderWorker", found when the server
                    starts), or a callable that gives such a list. Never set: every worker that was defined.
poll_interval       1; fallback polling interval in seconds: nodes are normally woken by pub/sub, this catches a missed message
threads_per_node    5; how many deliveries a server process runs at once
redis               a URL, a callable that gives one, or None: SERIATIM_REDIS_URL, the variable that REDIS_PROVIDER names,
                    REDIS_URL, or else a private Redis
client_pool_size    5; connections of a process for pushes and queries
pool_timeout        5; seconds to wait for a free one before PoolTimeout
push_timeout        10; seconds after which a push fails, from its call to its return, pool_timeout and wait_timeout included;
                    from 0.1 to 50
wait_replicas       0; how many replicas of Redis must have a push before it returns; too few: NotReplicated
wait_timeout        1; seconds that a push waits for its replicas, for each 256 KB of jobs
server_middlewares  [(worker, batch, call_next)] around every delivery, the first outermost; not calling call_next means
                    that the jobs are done
client_middlewares  [(worker, jobs, call_next)] around every push; they may change the job dicts; not calling call_next
                    means that nothing is written
on_server_init      decorator: called in each server process, after the application is loaded and before any job
last_words          decorator: called with the error that ends a server process
build_scheduler     gives the scheduler of a group of shards: build_lag_scheduler (default), build_seq_scheduler,
                    build_priority_scheduler, or a function whose result is called with the candidates
build_splitter      gives the splitter: build_balanced_splitter (default), build_default_splitter,
                    lambda: build_by_node_splitter(nodes, node), or a function whose result is called with the shards
dump_payload        object -> bytes, and
load_payload        bytes -> object: the codec of workers that name none. None: canonical JSON
format_error        exception -> str, what is kept of a failure: "Class: message" and its ten innermost calls, at most 4 KiB
dump_error          str -> str or bytes, and
load_error          back, around stored errors, to compress them, say; gets bytes where they are not UTF-8
lease_time          10; seconds without a heartbeat after which other nodes take over the shards of a node
stop_timeout        25; seconds that a stopping server waits for running jobs
namespace           "seriatim"; what every key in Redis begins with
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import _held_signals

_held_signals.hold_for_the_command()

try:
    from . import _native
except ImportError as error:
    if importlib.util.find_spec(f"{__name__}._native") is not None:
        raise  # it is there, but cannot be loaded: the message says why
    raise ImportError(
        "the C extension of seriatim is not compiled for this Python: in a checkout run "
        f"`{sys.executable} setup.py build_ext --inplace`, or install the package: pip install ."
    ) from error

from ._version import __version__

# Before the other modules, which ask the extension already while they are loaded.
if _native.version != __version__:
    raise ImportError(f"seriatim {__version__} was loaded with the extension of {_native.version}; compile it again")

from ._client.actions import Actions
from ._client.delivery import Delivery
from ._client.ick import Ick, IckFuture, IckPipeline
from ._client.metrics import nodes
from ._client.node_commands import quiet_node, stop_node
from ._client.pipeline import Pipeline, PushFuture, apipelined, pipelined
from ._client.queries import DeadRecord, Explanation, Queries, Record, Scheduled, ScheduledJob, ScheduledPayload
from ._client.queue import Queue
from ._client.redis_url import redis_url
from ._client.spelling import did_you_mean
from ._decorator import worker
from ._errors import (
    AuthError,
    Closed,
    ConnectionError,
    Error,
    GenerationChanged,
    Invalid,
    NotReady,
    NotReplicated,
    OutcomeUnknown,
    PoolTimeout,
    ReadOnly,
    RedisError,
    RedisFull,
    Stale,
    TimeoutError,
    Undecodable,
    UnknownSetting as _UnknownSetting,
    Unsupported,
    UsageError,
)
from ._events import Events, events
from ._pull import apop, delivery, pop
from ._server.batch import Batch
from ._server.schedulers import Candidate, build_lag_scheduler, build_priority_scheduler, build_seq_scheduler
from ._server.server import Server
from ._server.splitters import Shard, build_balanced_splitter, build_by_node_splitter, build_default_splitter
from ._settings import NAMES, reset_settings, settings
from ._types import CheckResult, Figures, Finding, Id, Job, Metrics, Node, PushResult, ShardFigures
from ._worker import ExhaustedJob, FunctionWorker, Worker

if TYPE_CHECKING:
    from ._server.schedulers import Scheduler
    from ._server.splitters import Splitter
    from ._settings import Hooks

    _AnyWorker = type[Worker] | FunctionWorker[..., Any] | str
    _ServerMiddleware = Callable[[type[Worker], Batch, Callable[[], Any]], Any]
    _ClientMiddleware = Callable[[type[Worker], list[Job], Callable[[], Any]], Any]

    workers: list[_AnyWorker] | Callable[[], Sequence[_AnyWorker]]
    poll_interval: float
    threads_per_node: int
    redis: str | Callable[[], str] | None
    client_pool_size: int
    pool_timeout: float
    push_timeout: float
    wait_replicas: int
    wait_timeout: float
    server_middlewares: list[_ServerMiddleware]
    client_middlewares: list[_ClientMiddleware]
    on_server_init: Hooks
    last_words: Hooks
    build_scheduler: Callable[[], Scheduler]
    build_splitter: Callable[[], Splitter]
    dump_payload: Callable[[Any], bytes | str] | None
    load_payload: Callable[[bytes], Any] | None
    format_error: Callable[[BaseException], str]
    dump_error: Callable[[str], str | bytes]
    load_error: Callable[[Any], str]
    lease_time: float
    stop_timeout: float
    namespace: str

__all__ = [
    "Actions",
    "AuthError",
    "Batch",
    "Candidate",
    "CheckResult",
    "Closed",
    "ConnectionError",
    "DeadRecord",
    "Delivery",
    "Error",
    "Events",
    "ExhaustedJob",
    "Explanation",
    "Figures",
    "Finding",
    "FunctionWorker",
    "GenerationChanged",
    "Ick",
    "IckFuture",
    "IckPipeline",
    "Id",
    "Invalid",
    "Job",
    "Metrics",
    "Node",
    "NotReady",
    "NotReplicated",
    "OutcomeUnknown",
    "Pipeline",
    "PoolTimeout",
    "PushFuture",
    "PushResult",
    "Queries",
    "Queue",
    "ReadOnly",
    "Record",
    "RedisError",
    "RedisFull",
    "Server",
    "Shard",
    "ShardFigures",
    "Stale",
    "TimeoutError",
    "Undecodable",
    "Unsupported",
    "UsageError",
    "Worker",
    "__version__",
    "apipelined",
    "apop",
    "build_balanced_splitter",
    "build_by_node_splitter",
    "build_default_splitter",
    "build_lag_scheduler",
    "build_priority_scheduler",
    "build_seq_scheduler",
    "delivery",
    "events",
    "nodes",
    "pipelined",
    "pop",
    "quiet_node",
    "redis_url",
    "reset_settings",
    "stop_node",
    "worker",
]


class _Module(ModuleType):
    """The module with its settings; a name that is none of them cannot be set by mistake."""

    def __getattr__(self, name: str) -> Any:
        if name in NAMES and not settings.is_hidden(name):
            return getattr(settings, name)
        raise AttributeError(f"module 'seriatim' has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in NAMES:
            setattr(settings, name, value)
        elif name.startswith("_") or isinstance(value, ModuleType) or self._may_replace(name, value):
            super().__setattr__(name, value)
        else:
            raise _UnknownSetting(f"seriatim has no setting {name!r}{did_you_mean(name, NAMES)}; there are {', '.join(NAMES)}")

    def __delattr__(self, name: str) -> None:
        """For mocks: the value of a setting stays in effect until another one is set."""
        if name in NAMES:
            settings.hide(name)
        else:
            super().__delattr__(name)

    def _may_replace(self, name: str, value: Any) -> bool:
        """Tests put functions in the place of others; a name that is nearly a setting's is taken for a misspelt one."""
        return name in self.__dict__ and callable(value) and not did_you_mean(name, NAMES)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *NAMES])


sys.modules[__name__].__class__ = _Module
