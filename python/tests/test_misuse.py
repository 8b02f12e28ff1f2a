"""What a server or a worker is given wrongly is refused by name, before a server has started anything."""

from __future__ import annotations

import functools
import gc
import logging
import threading
import types
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest

import seriatim
from seriatim._server import workers as server_workers
from support.jobs import eventually, runs, serve, worker
from support.redis_server import RedisServer


def refused(text: str, *workers: Any, **options: Any) -> None:
    with pytest.raises(seriatim.Invalid, match=text):
        serve(*(workers or (worker(),)), **options)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith(("seriatim-heartbeat", "seriatim-host"))]


@pytest.mark.parametrize("given", [5, None, "lag"])
def test_refuses_a_builder_that_gives_no_scheduler_or_splitter(given: Any, redis: RedisServer) -> None:
    seriatim.build_scheduler = lambda: given
    refused("^build_scheduler must give one of seriatim's schedulers or a callable .*, not ")
    seriatim.build_scheduler = seriatim.build_lag_scheduler
    seriatim.build_splitter = lambda: given
    refused("^build_splitter must give a callable .*, not ")
    assert redis.call("KEYS", "*") == []


SPLITTERS: dict[str, Callable[[Any], Any]] = {
    "a number": lambda shards: 5,
    "a list of numbers": lambda shards: [5],
    "numbers in a group": lambda shards: [[5]],
    "shards without groups": lambda shards: shards,
    "a text": lambda shards: "all",
    "a shard that is none": lambda shards: [[seriatim.Shard(shards[0].worker, 99)]],
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_refuses_a_splitter_that_gives(name: str) -> None:
    seriatim.build_splitter = lambda: SPLITTERS[name]
    refused("^build_splitter: the splitter must give a list of groups, each a list of shards .*, not ")


def test_refuses_a_splitter_that_gives_no_shard_or_one_twice() -> None:
    seriatim.build_splitter = lambda: lambda shards: [[]]
    refused("^build_splitter: the splitter gives this node no shard$")
    seriatim.build_splitter = lambda: lambda shards: [shards[:2], shards[1:]]
    refused("^build_splitter: the splitter gives shard 1 of queue 'Recorder' twice$")


def test_refuses_the_scheduler_of_any_group() -> None:
    schedulers: list[Any] = [5, seriatim.build_lag_scheduler()]
    seriatim.build_scheduler = schedulers.pop
    seriatim.build_splitter = lambda: lambda shards: [[shard] for shard in shards]
    refused("^build_scheduler must give")


def test_takes_a_splitter_that_changes_its_list() -> None:
    def split(shards: Any) -> Any:
        return [[shards.pop(), shards.pop()], [shards.pop(), shards.pop()]]

    seriatim.build_splitter = lambda: split
    recorder = worker(shards_count=4)
    recorder.perform_async([{"id": id} for id in range(8)])
    serve(recorder)
    runs(recorder, 8)


def test_refuses_middlewares_that_cannot_be_called() -> None:
    recorder = worker()
    for field in ("server_middlewares", "client_middlewares"):
        text = rf"^{field}\[0\] must be callable, not 5 \(int\)$"
        with pytest.raises(seriatim.Invalid, match=text):
            setattr(seriatim, field, [5])
        getattr(seriatim, field).append(5)
        refused(text)
        if field == "client_middlewares":
            with pytest.raises(seriatim.Invalid, match=text):
                recorder.perform_async([{"id": 1}])
        getattr(seriatim, field).clear()


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_fails_jobs_by_name_when_a_server_middleware_that_cannot_be_called_is_added(kind: str) -> None:
    async def body(payloads_by_id: Any, batch: Any) -> None: ...

    recorder = worker(perform=None if kind == "def" else body, max_retry_count=0)
    serve(recorder)
    seriatim.server_middlewares.append(5)  # type: ignore[arg-type]
    recorder.perform_async([{"id": 1}])
    eventually(lambda: recorder.metrics["morgue_length"] == 1)
    assert recorder.queries.morgue_fetch([1])[0]["error"] == "server_middlewares[0] must be callable, not 5 (int)"


# ---- workers


def test_refuses_a_worker_without_perform() -> None:
    class Idle(seriatim.Worker):
        queue_name = "idle"

    refused(r"^workers: .*\.Idle has no perform; write `def perform\(self, payloads_by_id\)` in it", Idle)
    assert serve(Idle, worker(), queues=["Recorder"]).running


def test_refuses_a_worker_whose_perform_takes_other_parameters() -> None:
    class Selfless(seriatim.Worker):
        def perform(payloads_by_id): ...  # type: ignore[no-untyped-def,override]  # noqa: N805

    class Greedy(seriatim.Worker):
        def perform(self, payloads_by_id: Any, batch: Any, more: Any) -> None: ...  # type: ignore[override]

    for made in (Selfless, Greedy):
        refused(rf"^workers: .*\.{made.__name__}\.perform must be a method with the parameters \(self, payloads_by_id\)", made)


def generates(payloads_by_id: Any) -> Any:
    yield payloads_by_id


async def generates_async(payloads_by_id: Any) -> Any:
    yield payloads_by_id


class Generates:
    def __call__(self, payloads_by_id: Any) -> Any:
        yield payloads_by_id


GENERATORS: list[Any] = [
    generates,
    generates_async,
    Generates(),
    functools.partial(generates),
    functools.partial(functools.partial(generates_async)),
    types.coroutine(generates),
]


@pytest.mark.parametrize("name", ["perform", "retry_in", "retries_exhausted"])
def test_refuses_a_method_that_is_a_generator_function(name: str) -> None:
    for function in GENERATORS:
        members = {"perform": lambda self, payloads_by_id: None, name: staticmethod(function)}
        made = type("Generator", (seriatim.Worker,), members)
        refused(rf"^workers: Generator\.{name} must not be a generator function \(with yield\), of which a call runs nothing$", made)
    refused(r"^workers: generates\.perform must not be a generator function", seriatim.worker(generates))


def run_through(function: Any) -> Any:
    @functools.wraps(function)
    def run(payloads_by_id: Any) -> list[Any]:
        return list(function(payloads_by_id))

    return run


def test_takes_a_generator_that_a_decorator_runs() -> None:
    made: Any = type("Decorated", (seriatim.Worker,), {"perform": staticmethod(run_through(generates))})
    made.perform_async([{"id": 1}])
    serve(made)
    eventually(lambda: made.metrics["processed"] == 1)


class Awaitable:
    def __await__(self) -> Any:
        return generates(None)


async def returns_generator(payloads_by_id: Any) -> Any:
    return generates(payloads_by_id)


async def forgets_to_await(payloads_by_id: Any) -> Any:
    return returns_generator(payloads_by_id)


NOT_RUN: dict[str, Any] = {
    "a generator": lambda payloads_by_id: generates(payloads_by_id),
    "an async_generator": lambda payloads_by_id: generates_async(payloads_by_id),
    "a generator of an object": functools.partial(Generates()),
    "an Awaitable": lambda payloads_by_id: Awaitable(),
    "a generator of async def": returns_generator,
    "a generator of a coroutine": lambda payloads_by_id: returns_generator(payloads_by_id),
    "a coroutine of async def": forgets_to_await,
}


def middleware(worker: Any, batch: Any, call_next: Any) -> None:
    call_next()


async def async_middleware(worker: Any, batch: Any, call_next: Any) -> None:
    await call_next()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("chain", [[], [middleware], [async_middleware]], ids=["alone", "middleware", "async middleware"])
@pytest.mark.parametrize("beside", [False, True], ids=["one worker", "several workers"])
def test_fails_the_jobs_of_a_perform_that_returns_what_never_ran(chain: list[Any], beside: bool) -> None:
    seriatim.server_middlewares = chain
    made: list[Any] = []
    for text, function in NOT_RUN.items():
        kind = text.split(" of ")[0]
        made.append(type("Made", (seriatim.Worker,), {"queue_name": text, "perform": staticmethod(function), "max_retry_count": 0}))
        made[-1].perform_async([{"id": 1, "payload": f"Made.perform returned {kind}, which a server neither runs nor awaits"}])
    for some in [made] if beside else [[each] for each in made]:
        serve(*some)
    for each in made:
        [record] = eventually(lambda each=each: each.queries.morgue_fetch([1]))  # type: ignore[misc]
        assert record["error"] == record["payloads"][0][0], each.queue_name
    gc.collect()  # here, where Python's warning of a coroutine is expected


@pytest.mark.parametrize("result", [None, 5, [generates], {}])
def test_does_not_mind_what_else_perform_returns(result: Any) -> None:
    async def async_perform(payloads_by_id: Any) -> Any:
        return result

    for function in (lambda payloads_by_id: result, lambda payloads_by_id: async_perform(payloads_by_id), async_perform):
        made: Any = type("Returns", (seriatim.Worker,), {"perform": staticmethod(function)})
        made.perform_async([{"id": 1}])
        server = serve(made)
        eventually(lambda: made.metrics["length"] + made.metrics["busy"] == 0)
        assert (server.stop(), made.metrics["failed"]) == (True, 0)


@pytest.mark.parametrize("name", ["perform", "retry_in", "retries_exhausted"])
def test_refuses_a_method_that_cannot_be_called(name: str) -> None:
    text = rf"^\S+\.{name} must be callable, not 5 \(int\)$"
    with pytest.raises(seriatim.Invalid, match=text):
        type("Made", (seriatim.Worker,), {name: 5})
    made = worker()
    with pytest.raises(seriatim.Invalid, match=text):
        setattr(made, name, 5)
    if name != "perform":
        with pytest.raises(seriatim.Invalid, match=text):
            seriatim.worker(**{name: 5})(lambda payloads_by_id: None)


def test_names_both_workers_of_one_queue() -> None:
    made = [type("Z", (worker(),), {"queue_name": "z", "__qualname__": f"{outer}.Z"}) for outer in ("A", "B")]
    with pytest.raises(seriatim.UsageError, match=r"^workers: [\w.]+\.A\.Z and [\w.]+\.B\.Z have the same queue_name 'z'$"):
        server_workers.chosen(made)


MISSPELT = {
    "shard_count": "shards_count",
    "shards_cuont": "shards_count",
    "batchsize": "batch_size",
    "max_retries_count": None,
    "max_retry_counts": "max_retry_count",
    "tttr": "ttr",
    "folds": "fold",
    "tag": None,
    "folder": None,
    "table": None,
    "_shard_count": None,
}


@pytest.mark.parametrize("name", MISSPELT)
def test_refuses_a_class_attribute_that_is_nearly_a_setting(name: str) -> None:
    meant, made = MISSPELT[name], worker()
    if meant is None:
        assert getattr(type("Made", (seriatim.Worker,), {name: 3}), name) == 3
        setattr(made, name, 3)
        return
    for make in (lambda: type("Made", (seriatim.Worker,), {name: 3}), lambda: setattr(made, name, 3)):
        with pytest.raises(seriatim.Invalid, match=f"^\\w+: unknown setting '{name}' \\(did you mean {meant}\\?\\)$"):
            make()


@pytest.mark.parametrize("name", ["queue", "queries", "actions", "metrics"])
def test_refuses_a_class_attribute_that_hides_what_a_worker_gives(name: str) -> None:
    made, defaults = worker(), type("Defaults", (), {name: "orders"})
    hint = r" \(did you mean queue_name\?\)" if name == "queue" else ""
    for owner, make in (
        ("Made", lambda: type("Made", (seriatim.Worker,), {name: "orders"})),
        ("Defaults", lambda: type("Made", (defaults, seriatim.Worker), {})),
        (made.__name__, lambda: setattr(made, name, ["orders"])),
    ):
        with pytest.raises(seriatim.Invalid, match=rf"^{owner}\.{name} cannot be set to .*: every worker has a property of this name{hint}$"):
            make()
    with mock.patch.object(made, name):
        assert isinstance(getattr(made, name), mock.MagicMock)
    assert not isinstance(getattr(made, name), mock.MagicMock)


def test_takes_methods_whose_names_are_near_to_settings() -> None:
    class Made(seriatim.Worker):
        def folds(self) -> int:
            return 3

        @property
        def codecs(self) -> int:
            return 4

    assert (Made().folds(), Made().codecs) == (3, 4)


def test_names_the_nearest_option_of_a_decorator_and_of_the_module() -> None:
    with pytest.raises(seriatim.Invalid, match="^<lambda>: unknown option 'shard_count' \\(did you mean shards_count\\?\\); known are "):
        seriatim.worker(shard_count=3)(lambda payloads_by_id: None)  # type: ignore[call-overload]
    with pytest.raises(seriatim.Invalid, match="^<lambda>: unknown option 'colour'; known are "):
        seriatim.worker(colour=3)(lambda payloads_by_id: None)  # type: ignore[call-overload]
    with pytest.raises(AttributeError, match="seriatim has no setting 'lease_tme' \\(did you mean lease_time\\?\\); there are "):
        seriatim.lease_tme = 2  # type: ignore[attr-defined]


# ---- threads


@pytest.mark.parametrize(
    "builder",
    [
        seriatim.build_default_splitter,
        lambda: seriatim.build_by_node_splitter(1, 0),
        lambda: lambda shards: seriatim.build_default_splitter()(shards),
    ],
)
def test_starts_as_many_threads_as_the_server_was_told(builder: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "seriatim")
    seriatim.threads_per_node = 5
    seriatim.build_splitter = builder
    serve(worker(shards_count=8), threads=2)
    assert any("with 2 threads" in line for line in caplog.messages)
