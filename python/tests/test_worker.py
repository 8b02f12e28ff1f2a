"""Workers: settings, defaults, functions, and which of them a server runs."""

from __future__ import annotations

import abc
import asyncio
import functools
import math
import os
import pickle
import threading
from fractions import Fraction
from queue import Queue
from typing import Any
from unittest import mock

import pytest

import seriatim
from seriatim import _native, _worker
from seriatim._server import workers
from support.jobs import runs, serve, worker


def test_a_worker_has_these_defaults() -> None:
    class Plain(seriatim.Worker):
        pass

    assert (Plain.shards_count, Plain.batch_size, Plain.max_retry_count, Plain.priority) == (5, 1, 25, 0)
    assert (Plain.fold, Plain.on_waiting, Plain.on_exhausted) == ("merge", "keep", "bury")
    assert (Plain.ttr, Plain.serial_shards, Plain.codec, Plain.queue_name) == (None, False, None, "Plain")


REFUSED: dict[str, list[Any]] = {
    "shards_count": [0, 4097, "5", None, 2.5, True],
    "batch_size": [0, 1001],
    "max_retry_count": [-1, 1_000_001, 1.5],
    "queue_name": ["", "x" * 513, "é" * 257, 5, None, b"x", "\ud800"],
    "fold": ["union", None, 1],
    "on_waiting": ["never"],
    "on_exhausted": ["explode"],
    "ttr": [0, -1, "5", math.nan, 1e9, True],
    "serial_shards": ["yes", 1, None],
    "morgue_max_age": [0, -1, "5", 3.2e9],
    "morgue_max_count": [0, 1.5, True, 1_000_000_001],
    "priority": [1.5, "high"],
    "codec": ["yaml", [1, 2], [pickle.dumps], 5],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_an_invalid_setting_is_refused(name: str, value: Any) -> None:
    class Plain(seriatim.Worker):
        pass

    with pytest.raises(seriatim.Invalid, match=rf"^\S+\.{name} must be "):
        setattr(Plain, name, value)
    with pytest.raises(seriatim.Invalid, match=rf"^\S+\.{name} must be "):
        type("Other", (seriatim.Worker,), {name: value})
    with pytest.raises(seriatim.Invalid, match=rf"^\S+\.{name} must be "):
        seriatim.worker(**{name: value})(lambda payloads_by_id: None)


def test_a_refusal_names_setting_rule_and_value() -> None:
    with pytest.raises(seriatim.Invalid, match=r"^\w+\.shards_count must be an int from 1 to 4096, not '5' \(str\)$"):
        worker(shards_count="5")
    with pytest.raises(seriatim.Invalid, match=r"^\w+\.fold must be one of merge, list, last, first, not None$"):
        worker(fold=None)
    with pytest.raises(seriatim.Invalid, match=r"^\w+\.ttr must be a number of seconds from 0\.001 to 31536000\.0, not -1 \(int\)$"):
        worker(ttr=-1)
    with pytest.raises(seriatim.Invalid, match=r"^\w+\.codec must be json, raw or a pair of callables \(dump, load\), not 'yaml' \(str\)$"):
        worker(codec="yaml")


def test_settings_are_inherited_but_for_the_name() -> None:
    class Parent(seriatim.Worker):
        batch_size = 7
        queue_name = "parents"

    class Child(Parent):
        pass

    assert (Child.batch_size, Child.queue_name) == (7, "Child")
    first = Child._queue_settings()
    assert first is Child._queue_settings()
    Parent.batch_size = 8
    assert Child._queue_settings()["batch_size"] == 8
    Child.batch_size = 9
    assert (Parent._queue_settings()["batch_size"], Child._queue_settings()["batch_size"]) == (8, 9)


def test_a_server_is_told_of_a_retries_exhausted_that_is_assigned_or_deleted_after_the_first_push() -> None:
    parent: Any = worker()
    child: Any = type("Child", (parent,), {})
    assert child._queue_settings()["exhausted_hook"] is False
    parent.retries_exhausted = lambda self, jobs: None
    assert child._queue_settings()["exhausted_hook"] is True
    del parent.retries_exhausted
    assert child._queue_settings()["exhausted_hook"] is False


def test_a_setting_has_its_inherited_value_again_after_a_mock() -> None:
    child: Any = type("Child", (worker(batch_size=7),), {})
    with mock.patch.object(child, "batch_size", 3):
        assert child._queue_settings()["batch_size"] == 3
    assert child._queue_settings()["batch_size"] == 7


def mixin(**members: Any) -> type:
    """A class that is no worker."""
    return type("Defaults", (), members)


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_an_invalid_setting_of_a_mixin_is_refused(name: str, value: Any) -> None:
    for bases in ((mixin(**{name: value}), seriatim.Worker), (type("Outer", (mixin(**{name: value}),), {}), worker())):
        with pytest.raises(seriatim.Invalid, match=rf"^Defaults\.{name} must be "):
            type("Mixed", bases, {})


def test_a_misspelt_setting_and_a_wrong_method_of_a_mixin_are_refused() -> None:
    with pytest.raises(seriatim.Invalid, match=r"^Defaults: unknown setting 'shard_count' \(did you mean shards_count\?\)$"):
        type("Mixed", (mixin(shard_count=5), seriatim.Worker), {})
    with pytest.raises(seriatim.Invalid, match=r"^Defaults\.retry_in must be callable, not 5 \(int\)$"):
        type("Mixed", (mixin(retry_in=5), seriatim.Worker), {})


def test_settings_of_a_mixin_are_taken_in_their_final_form() -> None:
    def dump(payload: Any) -> bytes:
        return b"X"

    def load(data: bytes) -> Any:
        return "Y"

    shared = mixin(codec=[dump, load], ttr=Fraction(1, 2), batch_size=7, serial_shards=True, _tag=1, colour="red")
    parent: Any = type("Parent", (shared, seriatim.Worker), {})
    child: Any = type("Child", (parent,), {"batch_size": 8})
    for made in (parent, child):
        assert (made.codec, made.ttr, made.serial_shards, made.colour) == ((dump, load), 0.5, True, "red")
        assert (type(made.ttr), made._queue_settings()["ttr"]) == (float, 0.5)
        made.perform_async([{"id": 1, "payload": "p"}])
        assert made.queries.fetch([1])[0]["payloads"][0][0] == "Y"
    assert (parent.batch_size, child.batch_size, parent.queue_name) == (7, 8, "Parent")
    over: Any = type("Over", (mixin(batch_size=9), child), {})
    assert (over.batch_size, over.serial_shards) == (9, True)
    under: Any = type("Under", (seriatim.Worker, mixin(batch_size=9, codec=[dump, load])), {})
    assert (under.batch_size, under.codec) == (1, None)  # Worker comes before it


def test_a_name_of_a_command_line_that_is_no_utf_8() -> None:
    assert worker("\udcff")._queue_settings()["queue_name"] == b"\xff"


def test_perform_must_be_defined() -> None:
    with pytest.raises(NotImplementedError, match="Worker must define perform"):
        seriatim.Worker().perform({})


def test_the_default_back_off_is_the_core_s() -> None:
    for count in (0, 3, 10):
        assert count**4 + 15 <= seriatim.Worker().retry_in(count) <= count**4 + 15 + 30 * (count + 1)  # type: ignore[operator]
    assert _native.back_off(2) > 0


def test_one_instance_a_process() -> None:
    made = []

    class Counted(seriatim.Worker):
        def __init__(self) -> None:
            made.append(self)

    class Child(Counted):
        pass

    threads = [threading.Thread(target=Counted._instance) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [Counted._instance()]
    assert isinstance(Child._instance(), Child)


def test_what_hangs_on_the_class_is_there_on_an_instance_too() -> None:
    recorder = worker()
    recorder._instance().perform_async([{"id": 1}])
    assert recorder._instance().metrics["length"] == 1
    assert recorder._instance().queries.fetch([1])[0]["id"] == "1"


def test_a_worker_may_be_abstract_or_have_class_arguments() -> None:
    class Base(seriatim.Worker, abc.ABC):
        def __init_subclass__(cls, tenant: str = "", **keywords: Any) -> None:
            super().__init_subclass__(**keywords)
            cls.tenant = tenant

        @abc.abstractmethod
        def perform(self, *arguments: Any) -> Any: ...

    class Mine(Base, tenant="a"):
        def perform(self, *arguments: Any) -> Any: ...

    assert Mine.tenant == "a"
    assert Mine in workers.defined() and Base not in workers.defined()


def test_a_function_is_a_worker() -> None:
    @seriatim.worker
    def send_mails(payloads_by_id: dict[Any, list[Any]]) -> int:
        """Sends them."""
        return len(payloads_by_id)

    assert send_mails({"a": [1]}) == 1
    assert (send_mails.queue_name, send_mails.__name__, send_mails.__doc__) == ("send_mails", "send_mails", "Sends them.")
    assert send_mails.perform_async([{"id": 1}]).added == 1
    assert asyncio.run(send_mails.aperform_async([{"id": 2}])).added == 1
    assert send_mails.metrics["length"] == len(send_mails.queries.range_by_id("-", "+")) == 2
    assert send_mails.actions.delete([1]) == 1
    assert send_mails.queue.name == "send_mails"
    assert send_mails.worker.__module__ == __name__ and send_mails.worker.__doc__ == "Sends them."
    assert "send_mails" in repr(send_mails)


class Sends:
    def __init__(self) -> None:
        self.sent: Queue[Any] = Queue()

    def __call__(self, payloads_by_id: dict[Any, list[Any]]) -> None:
        self.sent.put(("object", list(payloads_by_id)))


def test_what_has_no_name_is_a_worker_with_a_queue_name() -> None:
    sends = Sends()

    def send(kind: str, payloads_by_id: dict[Any, list[Any]]) -> None:
        sends.sent.put((kind, list(payloads_by_id)))

    made = [
        seriatim.worker(queue_name="object")(sends),
        *(seriatim.worker(queue_name=kind, batch_size=2)(functools.partial(send, kind)) for kind in ("first", "second")),
    ]
    assert [worker.queue_name for worker in made] == ["object", "first", "second"]
    assert {each.worker for each in made} <= set(workers.defined())
    assert [repr(each).split(".")[-1] for each in made] == ["Sends(object)>", "partial(first)>", "partial(second)>"]
    made[1]({"called": []})
    assert sends.sent.get() == ("first", ["called"])
    for worker in made:
        worker.perform_async([{"id": 1}])
    serve(*made)
    assert sorted(sends.sent.get(timeout=60) for _ in made) == [("first", ["1"]), ("object", ["1"]), ("second", ["1"])]


@pytest.mark.parametrize("function", [Sends(), functools.partial(print, "x")])
def test_what_has_no_name_is_refused_without_a_queue_name(function: Any) -> None:
    kind = type(function).__name__
    with pytest.raises(seriatim.Invalid, match=rf"^worker: a {kind} has no name, so the option queue_name must name its queue$"):
        seriatim.worker(function)
    with pytest.raises(seriatim.Invalid, match=rf"^{kind}\.queue_name must be a text of 1 to 512 bytes, not 5 \(int\)$"):
        seriatim.worker(queue_name=5)(function)  # type: ignore[call-overload]
    with pytest.raises(seriatim.Invalid, match=rf"^{kind}: unknown option 'batchsize' \(did you mean batch_size\?\)"):
        seriatim.worker(batchsize=5, queue_name="x")(function)  # type: ignore[call-overload]


def test_a_function_worker_takes_options() -> None:
    exhausted: list[Any] = []
    tried = []

    @seriatim.worker(
        queue_name="Functions",
        max_retry_count=1,
        retry_in=lambda count: tried.append(count) or 0.01,
        retries_exhausted=exhausted.extend,
    )
    def broken(payloads_by_id: dict[Any, list[Any]], batch: seriatim.Batch) -> None:
        raise RuntimeError(f"of {list(batch)}")

    broken.perform_async([{"id": 1, "payload": "p", "score": 2}])
    serve(broken)
    from support.jobs import eventually

    eventually(lambda: exhausted)
    assert exhausted == [{"id": "1", "payloads": [("p", 2.0)], "payloads_count": 1, "error": "of ['1']"}]
    assert tried[0] == 0


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(seriatim.Invalid, match=r"^print: unknown option 'batchsize' \(did you mean batch_size\?\); known are queue_name, "):
        seriatim.worker(batchsize=3)(print)  # type: ignore[call-overload]
    with pytest.raises(seriatim.Invalid, match=r"^worker must be a function, not 5 \(int\)$"):
        seriatim.worker(5)  # type: ignore[call-overload]


def test_a_server_runs_functions_and_classes() -> None:
    recorder = worker("Class")
    ran = threading.Event()

    @seriatim.worker(queue_name="Function")
    def function(payloads_by_id: dict[Any, list[Any]]) -> None:
        ran.set()

    serve(recorder, function)
    recorder.perform_async([{"id": 1}])
    function.perform_async([{"id": 1}])
    runs(recorder)
    assert ran.wait(30)


@seriatim.worker
def at_module_level(payloads_by_id: dict[Any, list[Any]]) -> None: ...


class AtModuleLevel(seriatim.Worker):
    class Inner(seriatim.Worker):
        def perform(self, payloads_by_id: dict[Any, list[Any]]) -> None: ...

    def perform(self, payloads_by_id: dict[Any, list[Any]]) -> None: ...


def test_workers_are_chosen_by_class_name_and_queue() -> None:
    chosen = workers.chosen
    assert chosen([AtModuleLevel, at_module_level, AtModuleLevel]) == [AtModuleLevel, at_module_level.worker]
    names = [f"{__name__}:at_module_level", f"{__name__}.AtModuleLevel", f"{__name__}:AtModuleLevel.Inner"]
    assert chosen(names) == [at_module_level.worker, AtModuleLevel, AtModuleLevel.Inner]
    assert chosen(lambda: [AtModuleLevel]) == [AtModuleLevel]
    assert chosen([AtModuleLevel, at_module_level], ["at_module_level"]) == [at_module_level.worker]
    assert chosen([AtModuleLevel, at_module_level], [b"AtModuleLevel"]) == [AtModuleLevel]
    seriatim.workers = [AtModuleLevel]
    assert chosen() == [AtModuleLevel]
    seriatim.reset_settings()
    assert AtModuleLevel in workers.defined()
    seriatim.workers.append(AtModuleLevel)  # type: ignore[union-attr]
    assert chosen() == [AtModuleLevel]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "^no workers: set seriatim.workers, or derive a class from seriatim.Worker$"),
        ([5], "^workers: 5 is not a seriatim.Worker$"),
        ([print], "^workers: .*print.* is not a seriatim.Worker$"),
        (["no.such:Thing"], "^workers: there is no no.such:Thing: No module named 'no'$"),
        (["Thing"], "^workers: there is no Thing: a name has the form package.module:Thing$"),
        ([":Thing"], "^workers: there is no :Thing: a name has the form package.module:Thing$"),
        ([f"{__name__}:Thing"], "^workers: there is no .*has no attribute 'Thing'$"),
        (5, "^workers must be a list, not 5"),
    ],
)
def test_invalid_workers_are_refused(given: Any, message: str) -> None:
    with pytest.raises(seriatim.Invalid, match=message):
        workers.chosen(given)


def test_two_workers_of_one_queue_and_unknown_queues_are_refused() -> None:
    with pytest.raises(seriatim.UsageError, match=r"^workers: \w+\.Twice and \w+\.Twice have the same queue_name 'Twice'$"):
        workers.chosen([worker("Twice"), worker("Twice")])
    with pytest.raises(seriatim.UsageError, match="^unknown queue 'b'; there are 'a'$"):
        workers.chosen([worker("a")], ["b"])


def test_only_the_latest_of_a_name_runs() -> None:
    def define() -> Any:
        class Again(seriatim.Worker):
            def perform(self, payloads_by_id: Any) -> None: ...

        return Again

    first, second = define(), define()
    assert second in workers.defined() and first not in workers.defined()
    assert first in _worker.all_workers


def test_workers_of_one_name_and_different_queues_all_run() -> None:
    def define(queue: str) -> Any:
        @seriatim.worker(queue_name=queue)
        def made(payloads_by_id: Any) -> None: ...

        return made.worker

    made = [define("first"), define("second"), seriatim.worker(queue_name="third")(lambda payloads_by_id: None).worker]
    made.append(seriatim.worker(queue_name="fourth")(lambda payloads_by_id: None).worker)
    assert [worker for worker in workers.defined() if worker in made] == made


def test_a_child_of_fork_has_an_instance_of_its_own() -> None:
    recorder = worker()
    parents = recorder._instance()
    pid = os.fork()
    if pid == 0:
        os._exit(0 if recorder._instance() is not parents else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
