"""What a server or a worker is given wrongly is refused by name, before a server has started anything."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

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
