"""Mistakes that mypy must see, in the lines that end so; test_typing.py runs mypy on it."""

import seriatim


@seriatim.worker
def send_mails(payloads_by_id: dict[str, list[str]]) -> int:
    return len(payloads_by_id)


class OrderWorker(seriatim.Worker):
    shards_count = "5"  # wrong
    fold = "union"  # wrong


seriatim.lease_tme = 2  # wrong
seriatim.lease_time = "2"  # wrong
seriatim.server_middlewares.append(5)  # wrong
send_mails(5)  # wrong
send_mails({}, 1)  # wrong
OrderWorker.perform_async({"id": 1})  # wrong
OrderWorker.perform_async("x")  # wrong
OrderWorker.perform_async([{"id": 1, "payloads": 3}])  # wrong
OrderWorker.perform_async([{"payload": 3}])  # wrong
OrderWorker.perform_async([{"id": 1.5}])  # wrong
OrderWorker.perform_async([{"id": 1, "delay": "5"}])  # wrong
OrderWorker.queries.range_by_id("-", "+", 5)  # wrong
OrderWorker.queries.fetch([1])[0]["perform_at"]  # wrong
OrderWorker.metrics["lenght"]  # wrong
OrderWorker.actions.delete(1)  # wrong
OrderWorker.on_waiting = "never"  # wrong
seriatim.worker(batchsize=3)  # wrong
seriatim.pop(5)  # wrong
seriatim.pop("a", timeout=3)  # wrong
seriatim.pop("a").ack()  # wrong
