"""pop and apop: single ids of queues, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _native
from ._client import codec, validate
from ._client.delivery import Delivery, of_token
from ._client.pop import Pop, Source
from ._errors import Invalid
from ._worker import FunctionWorker, Worker, all_workers

AnyQueue = Union[str, type[Worker], FunctionWorker[..., Any]]
"""The name of a queue, or a worker, which stands for its queue."""

_NAME = next(setting for setting in _native.worker_settings() if setting["name"] == "queue_name")
_unknown: dict[str, _native.QueueSettings] = {}
"""
Of queues without a worker in this process: as Redis has them. A connection knows by the identity of a dict that it has
these settings already.
"""


def pop(
    queues: AnyQueue | Sequence[AnyQueue],
    *,
    wait: float = 2,
    ttr: float = 30,
    max: int = 1000,
    weights: Mapping[Any, int] | None = None,
) -> Delivery | None:
    """
    Takes the first id that is due: all shards of the first queue go before the second. None: no id was due, or the wait
    ended after 100 deliveries of which nothing could be read.

    queues: one queue or up to 1000, by names or workers.
    wait: seconds to wait if no id is due, 0 to 60.
    ttr: seconds until the id comes again, to whoever asks next, unless it is acknowledged: 0.001 to 31,536,000. That counts as a
        failure. 0: the id is taken and ended at once, and is lost if this process dies.
    max: the most payloads of a delivery, 1 to 1000; it also ends at 1 MiB. The others come when these have ended.
    weights: of each queue that is named, 1 to 1,000,000: the queues take turns by them, and an empty one loses its turn.

    Raises Invalid, naming the argument, before anything is sent; Error when Redis cannot be reached or refuses.
    """
    return _pop(queues, weights, wait, ttr, max).call()


async def apop(
    queues: AnyQueue | Sequence[AnyQueue],
    *,
    wait: float = 2,
    ttr: float = 30,
    max: int = 1000,
    weights: Mapping[Any, int] | None = None,
) -> Delivery | None:
    """The same for coroutines. It never blocks the event loop."""
    return await _pop(queues, weights, wait, ttr, max).acall()


def delivery(token: str) -> Delivery:
    """
    The delivery that has this token, in any process: to report its result. It has no payloads here, deliveries is 0, retry_count -1
    and more False, because the token says only queue, id and fence. Redis is not asked. Raises Invalid.
    """
    if not isinstance(token, str):
        raise validate.refusal("token", "a str", token)
    data = token.encode("utf-8", "replace")
    parts = _native.token_parts(data)
    if parts is None:
        raise Invalid("token: the text is no token of a delivery")
    queue, id, fence, count = parts
    source = _source(queue if isinstance(queue, str) else queue.decode("utf-8", "surrogateescape"), "token")
    return of_token(source.name, source.codec, id, fence, data, count)


def _pop(queues: Any, weights: Any, wait: Any, ttr: Any, max: Any) -> Pop:
    listed = queues if isinstance(queues, (list, tuple)) else [queues]
    if weights is not None and not isinstance(weights, Mapping):
        raise validate.refusal("weights", "a dict from queue to weight", weights)
    return Pop([_source(queue, f"queues[{at}]") for at, queue in enumerate(listed)], _by_name(weights), wait, ttr, max)


def _by_name(weights: Mapping[Any, Any] | None) -> dict[str, Any] | None:
    if weights is None:
        return None
    found: dict[str, Any] = {}
    for queue, weight in weights.items():
        name = _source(queue, "a queue of weights").name
        if name in found:
            raise Invalid(f"weights: {name!r} is named twice")
        found[name] = weight
    return found


def _source(queue: Any, field: str) -> Source:
    worker = queue.worker if isinstance(queue, FunctionWorker) else queue
    if isinstance(worker, type) and issubclass(worker, Worker):
        return Source(worker.queue_name, worker._queue_settings(), worker._payload_codec())
    if not isinstance(queue, str):
        raise validate.refusal(field, "the name of a queue or a worker", queue)
    name = validate.text(field, queue, _NAME["low"], _NAME["high"])
    for known in reversed(all_workers):
        if known.queue_name == name:
            return _source(known, field)
    settings = _unknown.setdefault(name, {"queue_name": validate.text_bytes(name), "shards_count": 0})
    return Source(name, settings, codec.of(None))
