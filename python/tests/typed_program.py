"""A user's program, which test_typing.py checks with mypy --strict; it is never run."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import seriatim
from seriatim import Batch, DeadRecord, ExhaustedJob, Job, PushResult, Record, Server, Worker, testing


class OrderWorker(Worker):
    shards_count = 24
    batch_size = 10
    fold = "list"
    on_waiting = "earlier"
    on_exhausted = "park"
    ttr = 30
    codec = (pickle.dumps, pickle.loads)

    def perform(self, payloads_by_id: dict[str, list[dict[str, int]]]) -> None:
        for id, payloads in payloads_by_id.items():
            print(id.upper(), payloads[0]["x"] + 1)

    def retry_in(self, count: int) -> float:
        return 10 * (count + 1)

    def retries_exhausted(self, jobs: list[ExhaustedJob]) -> None:
        for job in jobs:
            print(job["id"], job["payloads"][0], job["error"])

    @classmethod
    def perform_async(cls, jobs: Sequence[Mapping[str, Any]], **wait: Any) -> PushResult:
        rows: list[seriatim.Job] = [{"id": order["id"], "payload": order, "score": order["version"]} for order in jobs]
        return super().perform_async(rows, **wait)


class AsyncWorker(Worker):
    async def perform(self, payloads_by_id: dict[str, list[str]], batch: Batch) -> None:
        for id, payloads in batch.items():
            batch.done(id) if payloads else batch.fail(id, ValueError("none"))

    async def retry_in(self, count: int) -> float:
        return 1.5

    async def retries_exhausted(self, jobs: list[dict[str, Any]]) -> None:
        return None


@seriatim.worker
def send_mails(payloads_by_id: dict[str, list[str]]) -> int:
    return len(payloads_by_id)


@seriatim.worker(shards_count=2, queue_name="async", ttr=None, retry_in=lambda count: 2.0 * count)
async def send_later(payloads_by_id: dict[str, list[str]], batch: Batch) -> str:
    return ""


@seriatim.on_server_init
def connect() -> None: ...


@seriatim.on_server_init
async def connect_later() -> None: ...


@seriatim.last_words
def say(error: BaseException) -> None: ...


def around(worker: type[Worker], batch: Batch, call_next: Callable[[], Any]) -> Any:
    print(worker.queue_name, batch.fence(next(iter(batch))), batch.shard)
    return call_next()


async def around_push(worker: type[Worker], jobs: list[Job], call_next: Callable[[], Any]) -> Any:
    for job in jobs:
        job["context"] = {"tenant": "a"}
    return await call_next()


seriatim.workers = [OrderWorker, AsyncWorker, send_mails, "package.module:Worker"]
seriatim.workers = lambda: [OrderWorker]
seriatim.server_middlewares = [around]
seriatim.server_middlewares.append(lambda worker, batch, call_next: call_next())
seriatim.client_middlewares.append(around_push)
seriatim.redis = "redis://localhost"
seriatim.redis = lambda: "redis://localhost"
seriatim.redis = None
seriatim.lease_time = 2
seriatim.pool_timeout = 0.5
seriatim.threads_per_node = 5
seriatim.namespace = "mine"
seriatim.dump_payload, seriatim.load_payload = pickle.dumps, pickle.loads
seriatim.format_error = repr
seriatim.build_scheduler = seriatim.build_seq_scheduler
seriatim.build_splitter = lambda: seriatim.build_by_node_splitter(2, 0)
OrderWorker.batch_size = 3


def push() -> int:
    jobs: list[Job] = [{"id": 1}, {"id": "a", "payload": [1], "perform_in": datetime.now(timezone.utc), "delay": 1}]
    AsyncWorker.perform_async(jobs)
    AsyncWorker.perform_async([{"id": b"x", "score": 1, "context": {"a": "b"}, "on_waiting": "keep"}])
    AsyncWorker.perform_async([{"id": number, "payload": {"a": number}} for number in range(10)])
    AsyncWorker.perform_async(tuple({"id": text} for text in "ab"))
    result = send_mails.perform_async([{"id": 1}])
    added: int = result.added
    places: list[int] = result.refused_at
    return added + len(places) + send_mails({"a": ["b"]})


async def push_later() -> PushResult:
    text: str = await send_later({"a": []}, batch())
    await OrderWorker.aperform_async([{"id": text}])
    return await send_later.aperform_async([{"id": 1}])


def batch() -> Batch:
    raise NotImplementedError


def operate() -> None:
    queries = OrderWorker.queries
    records: list[Record] = queries.range_by_perform_in("-inf", math.inf, limit=5)
    records += queries.rev_range_by_id("+", "-") + send_mails.queries.fetch([1, "a", b"b"]) + queries.parked()
    for record in records:
        print(record["id"], record["perform_in"] + 1, record["retry_count"] + 1, record.get("error", "").upper())
        for payload, score in record["payloads"]:
            print(payload, score + 1.0)
    dead: list[DeadRecord] = queries.morgue_range_by_updated_at(5, 6.5)
    print(dead[0]["updated_at"] + 1.0)
    why = queries.explain(1)
    print(why["text"].upper(), why["job"] and why["job"]["state"], why["dead"] and why["dead"]["payloads_count"] + 1, why["owner"])
    changed: int = OrderWorker.actions.delete([1, "a"]) + send_mails.actions.pause()
    print(changed, OrderWorker.actions.check(repair=True)["findings"][0]["detail"].upper())
    figures = OrderWorker.metrics
    print(figures["lag"] + 1.0, figures["shards"][0]["owner"], send_mails.metrics["length"] + 1)
    print(OrderWorker.queue.shards_count + 1, OrderWorker.queue.name.upper(), seriatim.nodes()[0]["expires_in"] + 1.0)
    print(seriatim.redis_url().upper(), seriatim.__version__.upper())


def run() -> bool:
    try:
        server = Server(workers=[OrderWorker, send_mails], threads=2).start()
        return server.stop(5)
    except seriatim.Invalid as error:
        raise SystemExit(str(error)) from error
    except (seriatim.Error, seriatim.ConnectionError, seriatim.TimeoutError):
        return False


async def pull() -> None:
    delivery = seriatim.pop([OrderWorker, "other"], wait=0, ttr=30, max=10, weights={OrderWorker: 3, "other": 1})
    if delivery is not None:
        print(delivery.id, delivery.payloads[0], delivery.scores[0] + 1, delivery.contexts[0].keys(), delivery.fence + delivery.deliveries)
        acknowledged: bool = delivery.ack()
        delivery.fail(ValueError("x"), retry_in=timedelta(minutes=1))
        delivery.snooze(1.5, payload={"page": 2})
        delivery.extend(30)
        delivery.checkpoint(1)
        delivery.release()
        print(acknowledged, delivery.token)
    taken: seriatim.Delivery | None = await seriatim.apop("other")
    if taken is not None:
        await taken.aextend(30)
        await taken.aack()


def push_together() -> int:
    with seriatim.pipelined() as pipeline:
        orders = OrderWorker.perform_async([{"id": 19, "payload": "paid"}], handle=True)
        mails = send_mails.perform_async([{"id": 1}])
    OrderWorker.actions.cancel(orders.value.handles[0])
    return orders.value.added + mails.added + pipeline.results[0].value.folded


class Imports(Worker):
    def perform(self, payloads_by_id: dict[str, list[Any]], batch: Batch) -> None:
        for id, payloads in payloads_by_id.items():
            if payloads[-1]["busy"]:
                batch.snooze(id, 30)


class ImportsOfBytes(Worker):
    def perform(self, payloads_by_id: dict[str | bytes, list[dict[str, bool]]]) -> None: ...


def report_by_hand() -> None:
    batch = testing.batch(Imports, {7: [{"busy": True}], 8: [{"busy": False}]}, retry_count=2)
    Imports().perform(dict(batch), batch)
    ImportsOfBytes().perform(dict(testing.batch(ImportsOfBytes, {7: [{"busy": True}]})))
    assert batch.snoozed == {"7": 30.0}


async def tested() -> None:
    with testing.fake():
        ids: list[str | bytes] = [job.id for job in testing.pushed(OrderWorker)]
        batches: int = testing.drain(OrderWorker, at=datetime.now(timezone.utc), raises=False) + await testing.adrain()
        errors: list[str | bytes | None] = [job.error for job in testing.dead_jobs(OrderWorker)]
        print(ids, batches, errors, testing.perform_one(OrderWorker), await testing.aperform_one(OrderWorker))
    testing.set_mode("inline")
    batch = testing.batch(OrderWorker, {7: [{"x": 1}]}, scores={7: [1.5]})
    print(batch.snoozed, batch.failed, batch.finished, batch.extended, batch.checkpoints)
