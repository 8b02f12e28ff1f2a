"""
The verbs of the command for operators (queues, explain, dead and others). They need no application, only Redis and the
name of a queue.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NoReturn, TypeVar

from .. import _log, _native
from .._client import pool, validate
from .._client.delivery import Delivery
from .._client.metrics import nodes
from .._client.middlewares import is_async
from .._client.queries import MAX_RECORDS, ScheduledJob
from .._errors import AuthError, Error, RedisError, Undecodable, UsageError
from .._pull import pop
from .._server import application
from .._server.workers import load_named
from .._settings import settings
from .._types import Finding, Job, Node, PushResult
from .._worker import Worker, all_workers
from . import output
from .exit_codes import CRASHED, STOPPED, no_redis
from .reshard_command import ReshardCommand
from .web_command import WebCommand

T = TypeVar("T")

BOOT_SECONDS: Final = 10
FIGURES: Final = (
    "length",
    "fresh",
    "retries",
    "lag",
    "busy",
    "paused",  # shards
    "parked",
    "morgue_length",
    "processed",
    "failed",
    "refused",
    "stale",
)

QUEUE_FIGURES: Final = ("length", "lag", "busy", "paused", "parked", "morgue_length")
MORGUE: Final = ("morgue_length",)
RECORDS: Final = ("length", "busy", "parked", "morgue_length")  # of a queue
IMPORT_USAGE: Final = "import lowkiq QUEUE [--from URL] [--watch]"
QUEUES_USAGE: Final = "queues [list] | queues delete QUEUE [--force QUEUE]"
RESHARD_USAGE: Final = "reshard QUEUE N [--no-wait] | reshard QUEUE --status"
DELETE_USAGE: Final = "delete QUEUE ID..."
DEAD_PAGE: Final = 200  # records a query, whose payloads come with them
NODE: Final = ("node", "host", "pid", "state", "queues", "busy")
# Fields that each node reports, and how a table shows them.
# definitions: node fields, written by script/embed from core/definitions/nodes.json

NODE_FIELDS: Final = {
    "language": "text",
    "version": "text",
    "threads": "number",
    "since": "time",
    "rss": "bytes",
    "clock_skew": "ahead",
}

# end of definitions
CELLS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": lambda value: value,
    "number": lambda value: value,
    "bytes": lambda value: f"{value // 1_048_576} MiB",
    "time": _log.timestamp,
    "ahead": lambda value: f"{value:+.3f} s",
}
DESCRIPTION: Final = re.compile(r"\A(.*) pid (\d+) .* seriatim ", re.S)  # of a node
DEAD_USAGE: Final = "dead list|retry|delete QUEUE [ID...] [--error TEXT] [--all]"
POP_USAGE: Final = "pop QUEUE... [--wait SECONDS] [--ack]"
SCHEDULED_USAGE: Final = (
    "scheduled list QUEUE [--id ID] | scheduled cancel QUEUE HANDLE... | scheduled reschedule QUEUE HANDLE TIME"
)
PAYLOAD_SHOWN: Final = 60  # characters, in a table
KEYS: Final = (int, float, type(None))  # what json takes besides str as a key
UNIX_TIME: Final = re.compile(r"\+?[0-9]+(\.[0-9]+)?")
UTC: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?)Z")


class Operators:
    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options
        self._unread = False  # a queue could not be read, and was left out
        if "require" in options:
            application.load(options["require"])
            with application.errors_placed():
                load_named()  # a worker that is not imported yet would not be known by its queue

    def call(self, verb: str, words: list[str]) -> int:
        """The exit code. Bytes that are no UTF-8 stand in the words as Python hands them out (PEP 383)."""
        if verb == "push":
            self._push(*exactly(words, 2, 3, "push QUEUE ID [PAYLOAD]"))
        elif verb == "pop":
            return self._pop(exactly(words, 1, len(words), POP_USAGE))
        elif verb == "stats":
            self._stats(words)
        elif verb == "explain":
            self._explain(*exactly(words, 2, 2, "explain QUEUE ID"))
        elif verb == "dead":
            return self._dead(*exactly(words, 2, len(words), DEAD_USAGE))
        elif verb == "scheduled":
            return self._scheduled(*exactly(words, 2, len(words), SCHEDULED_USAGE))
        elif verb in ("pause", "resume"):
            return self._halt(verb, *exactly(words, 1, 2, f"{verb} QUEUE [ID]"))
        elif verb == "queues":
            self._queues(*exactly(words, 0, 2, QUEUES_USAGE))
        elif verb == "nodes":
            self._nodes(*exactly(words, 0, 0, "nodes"))
        elif verb == "delete":
            return self._delete(*exactly(words, 2, len(words), DELETE_USAGE))
        elif verb == "check":
            return self._check(words)
        elif verb == "reshard":
            return self._reshard(*exactly(words, *((1, 1) if "status" in self._options else (2, 2)), RESHARD_USAGE))
        elif verb == "import":
            refuse_import(exactly(words, 2, 2, IMPORT_USAGE))
        elif verb == "outbox":
            raise UsageError("outbox is for applications in Ruby: use the command of the Ruby gem")
        elif verb == "web":
            exactly(words, 0, 0, "web [--bind ADDRESS] [--port N]")
            return WebCommand(self._options).run()
        return CRASHED if self._unread else STOPPED

    # ---- queues

    def _worker(self, queue: str) -> type[Worker]:
        """The application's worker of that queue, or one made for its name."""
        return self._known(queue) or made_for(queue)

    def _known(self, queue: str) -> type[Worker] | None:
        known = [worker for worker in all_workers if worker.queue_name == queue and "require" in self._options]
        return known[-1] if known else None

    def _existing(self, queue: str, create: bool = False) -> type[Worker]:
        """A worker whose queue is there."""
        worker = self._worker(queue)
        shards = layout(worker, 0)
        if shards == 0:
            raise UsageError(f"unknown queue {quoted(queue)}; seriatim queues lists them{', --create makes it' if create else ''}")
        worker.shards_count = shards
        return worker

    def _chosen(self, names: list[str]) -> list[type[Worker]]:
        return [self._existing(name) for name in names]

    def _of_queues(self, names: list[str], each: Callable[[type[Worker]], T]) -> list[T]:
        """What `each` gives for them. Of all queues, where none is named, those that cannot be read are told of and left out."""
        if names:
            return [each(self._existing(name)) for name in names]
        found = []
        for name in all_queues():
            try:
                found.append(each(self._existing(name)))
            except Error as error:
                if no_redis(error):
                    raise
                self._unread = True
                print("seriatim:", _log.printable(f"queue {quoted(name)}: {error}"), file=sys.stderr)
        return found

    # ---- verbs

    def _push(self, queue: str, id: str, payload: str | None = None) -> None:
        job: Job = {"id": os.fsencode(id)}
        if "delay" in self._options:
            job["delay"] = self._options["delay"]
        if "score" in self._options:
            job["score"] = self._options["score"]
        if payload is not None:
            job["payload"] = parse(payload)
        result = push(self._pushed_to(queue), job)
        print(f"added {result.added}, folded {result.folded}, refused {result.refused}" + (f", stale {result.stale}" if result.stale else ""))

    def _pushed_to(self, queue: str) -> type[Worker]:
        """The application's worker, whose push makes its queue; or one of a queue that is there, or that --create makes."""
        known = self._known(queue)
        self._check_shards(known)
        if known:
            layout(known, known.shards_count)
            return known
        if "create" in self._options:
            layout(made_for(queue), self._options.get("shards", Worker.shards_count))
        return self._existing(queue, create=True)

    def _check_shards(self, known: type[Worker] | None) -> None:
        """With 0 the core only looks and makes no queue; a push that makes none, or that of the application's worker, would ignore the number."""
        if "shards" not in self._options:
            return
        shards = validate.integer("--shards", self._options["shards"], 1, 4096)
        if "create" not in self._options:
            raise UsageError("--shards needs --create; seriatim reshard gives a queue another number of shards")
        if known and known.shards_count != shards:
            raise UsageError(f"--shards {shards}: the application's worker has shards_count {known.shards_count}")

    def _pop(self, names: list[str]) -> int:
        """Without --ack the id is handed back."""
        delivery = pop(self._popped_from(names), wait=self._options.get("wait", 2))
        if delivery is None:
            if "json" in self._options:
                print_json(None)
            else:
                say("no id is due")
            return CRASHED
        try:
            self._show_delivery(delivery)
        except BaseException as error:
            if isinstance(error, OSError):
                output.discard()
            delivery.release()
            if not isinstance(error, Exception):
                raise
            why = "" if isinstance(error, OSError) else f" ({_log.brief(error)})"
            raise Error(f"what was popped cannot be printed{why}; it was handed back") from None
        if "ack" in self._options:
            delivery.ack()
        else:
            delivery.release()
        return STOPPED

    def _popped_from(self, names: list[str]) -> list[type[Worker]]:
        """
        Those of the application, or made for the names of queues that are there. What the latter hold and is not JSON is a
        text, so that no pop of the command sends it to the morgue.
        """
        found = self._chosen(names)
        for worker in found:
            if worker is not self._known(worker.queue_name):
                worker.codec = (json.dumps, json_or_text)
        return found

    def _show_delivery(self, delivery: Delivery) -> None:
        payloads = delivery.payloads
        if "json" in self._options:
            names = ("queue", "id", "fence", "deliveries", "payloads", "scores", "contexts")
            print_json({name: getattr(delivery, name) for name in names})
        else:
            head = f"queue {quoted(delivery.queue)}, id {quoted(delivery.id)}, fence {delivery.fence}, delivery {delivery.deliveries}"
            say(f"{head}: {len(payloads)} payload{'s' if len(payloads) > 1 else ''}")
            for payload in payloads:
                print_json(payload)
        sys.stdout.flush()

    def _stats(self, names: list[str]) -> None:
        figures = self._of_queues(names, figures_of)
        if "json" in self._options:
            print_json({"queues": figures, "nodes": nodes()})
        else:
            print_table([["queue", *FIGURES], *([each["name"], *map(each.get, FIGURES)] for each in figures)])

    def _explain(self, queue: str, id: str) -> None:
        answer = self._existing(queue).queries.explain(os.fsencode(id))
        if "json" in self._options:
            print_json(answer)
            return
        say(answer["text"])
        for part, told in (("job", answer["job"]), ("behind", answer["behind"]), ("dead", answer["dead"])):
            if told is not None and told.get("error"):
                say(f"{ERROR_OF[part]}: {first_line(told['error'])}")
        for entry in answer["history"]:
            say(": ".join(filter(None, [entry["text"], first_line(entry["error"] or "")])))

    def _delete(self, queue: str, *words: str) -> int:
        """Waiting and parked ids."""
        ids = [os.fsencode(word) for word in words]
        return changed("deleted", self._existing(queue).actions.delete(ids), ids, "was not found")

    def _nodes(self) -> None:
        """What each node serves is read off the owners of the shards."""
        queues = self._of_queues([], lambda worker: (_log.utf8(worker.queue_name), worker.metrics["shards"]))
        rows = [node_row(node, queues) for node in nodes()]
        if "json" in self._options:
            print_json({"nodes": rows})
        else:
            print_table([[*NODE, *NODE_FIELDS], *map(node_cells, rows)])

    def _queues(self, verb: str = "list", queue: str | None = None) -> None:
        if verb == "delete" and queue is not None:
            self._delete_queue(queue)
            return
        if verb != "list" or queue is not None:
            raise UsageError(f"usage: seriatim {QUEUES_USAGE}")
        figures = self._of_queues([], queue_row)
        if "json" in self._options:
            print_json({"queues": figures})
        else:
            print_table([["queue", "shards", *QUEUE_FIGURES], *(list(each.values()) for each in figures)])

    def _dead(self, action: str, queue: str, *words: str) -> int:
        if action not in ("list", "retry", "delete"):
            raise UsageError(f"usage: seriatim {DEAD_USAGE}")
        worker = self._existing(queue)
        ids = [os.fsencode(word) for word in words]
        if action == "list":
            self._dead_list(worker, ids)
            return STOPPED
        error = self._options.get("error")
        if error == "":
            raise UsageError('--error must be a text that is not empty, not ""')
        if not ids and error is None and "all" not in self._options:
            raise UsageError("name the ids, or --all, or --error TEXT")
        done = "queued up" if action == "retry" else "deleted"
        if error is not None:
            return changed(done, dead_by_error(worker, action, ids, error), ids, "is not dead with this error")
        actions = worker.actions
        if not ids:
            self._show_progress(f"dead {action} {queue}", worker, MORGUE)
        if action == "retry":
            count = actions.morgue_queue_up(ids) if ids else actions.morgue_queue_up_all_jobs()
        else:
            count = actions.morgue_delete(ids) if ids else actions.morgue_delete_all_jobs()
        return changed(done, count, ids, "is not dead")

    def _dead_list(self, worker: type[Worker], ids: list[bytes]) -> None:
        limit = validate.integer("limit", self._options.get("limit", 100), 1, MAX_RECORDS)
        records = self._dead_records(worker, ids, limit)
        if "json" in self._options:
            print_json(records)
        else:
            print_table([["id", "died", "payloads", "error"], *map(dead_row, records)])

    def _dead_records(self, worker: type[Worker], ids: list[bytes], limit: int) -> list[Any]:
        """All of the named ids, unless the limit was given."""
        queries = worker.queries
        wanted = self._options.get("error")
        if ids:
            return with_error(queries.morgue_fetch(ids), wanted)[: self._options.get("limit")]
        if wanted is None:
            return list(queries.morgue_range_by_updated_at("-inf", "+inf", limit=limit))
        found: list[Any] = []
        for page in pages_with_error(worker, wanted):
            found += page
            if len(found) >= limit:
                break
        return found[:limit]

    def _scheduled(self, action: str, queue: str, *handles: str) -> int:
        """Payloads whose deliver_at has not come."""
        least, most = {"list": (0, 0), "cancel": (1, len(handles)), "reschedule": (2, 2)}.get(action, (1, 0))
        if not least <= len(handles) <= most:
            raise UsageError(f"usage: seriatim {SCHEDULED_USAGE}")
        if action == "list":
            self._scheduled_list(self._existing(queue))
            return STOPPED
        if action == "cancel":
            actions = self._existing(queue).actions
            count, done = sum([actions.cancel(handle) for handle in handles]), "cancelled"
        else:
            at = unix_time(handles[1])
            count, done = int(self._existing(queue).actions.reschedule(handles[0], at)), "rescheduled"
            handles = handles[:1]
        named = [os.fsencode(handle) for handle in handles]
        return changed(done, count, named, f"names no payload that can be {done}", kind="handle")

    def _scheduled_list(self, worker: type[Worker]) -> None:
        id = os.fsencode(self._options["id"]) if "id" in self._options else None
        rows = worker.queries.range_by_deliver_at("-inf", "+inf", limit=self._options.get("limit", 100), id=id)
        if "json" in self._options:
            print_json(rows)
        else:
            print_table([["deliver_at", "pushed_at", "id", "handle", "payload"], *map(scheduled_row, rows)])

    def _halt(self, verb: str, queue: str, id: str | None = None) -> int:
        actions = self._existing(queue).actions
        if id is None:
            print(f"paused {actions.pause()} shards" if verb == "pause" else f"resumed {actions.resume()} shards")
            return STOPPED
        ids = [os.fsencode(id)]
        count = actions.park(ids) if verb == "pause" else actions.unpark(ids)
        if verb == "pause":
            return changed("parked", count, ids, "was not found")
        return changed("unparked", count, ids, "is not parked")

    def _delete_queue(self, queue: str) -> None:
        if self._options.get("force", queue) != queue:
            raise UsageError("--force must name the queue once more")
        self._existing(queue).actions.delete_queue(force="force" in self._options)
        say(f"deleted the queue {quoted(queue)}")

    def _reshard(self, queue: str, shards: str | None = None) -> int:
        if shards is not None and not re.fullmatch("[0-9]{1,9}", shards):
            raise UsageError(f"shards must be a whole number from 1 to 4096, not {quoted(os.fsencode(shards))}")
        return ReshardCommand(self._existing(queue), self._options).run(None if shards is None else int(shards))

    def _check(self, names: list[str]) -> int:
        repair = "repair" in self._options
        strays = [] if names else self._check_namespace(repair)
        workers = self._checkable(names, strays)
        results = [self._check_queue(worker, repair) for worker in workers]
        if "json" in self._options:
            print_json({"queues": results, "namespace": strays})
        else:
            say_findings(results, strays)
        findings = [*strays, *(finding for result in results for finding in result["findings"])]
        return STOPPED if all(finding["repaired"] for finding in findings) else CRASHED

    def _check_queue(self, worker: type[Worker], repair: bool) -> dict[str, Any]:
        self._show_progress(f"check {worker.queue_name}", worker, RECORDS)
        return {"name": worker.queue_name, **dict(worker.actions.check(repair=repair))}

    def _check_namespace(self, repair: bool) -> list[Finding]:
        """What lies below the namespace and is no queue's, and queues whose layout is not right."""
        layout(made_for("-"), 0)
        self._show_progress("check")
        return pool.ask(lambda connection: connection.check(None, repair))[1]

    def _show_progress(self, what: str, worker: type[Worker] | None = None, figures: Sequence[str] = ()) -> None:
        """
        The next action on all ids, or the next check, says on a terminal how far it is: by the connection that the pool lends
        next, which is this one, because the command has one thread.

        worker: of whose figures these are the total; None: it is not known.
        """
        words = os.fsencode(what)
        if "json" in self._options or not pool.ask(lambda connection: connection.progress(words, None)) or worker is None:
            return
        try:
            metrics: Any = worker.metrics
        except RedisError:
            return  # a queue with wrong keys has no figures, and is checked all the same
        total = sum(metrics[name] for name in figures)
        pool.ask(lambda connection: connection.progress(words, total))

    def _checkable(self, names: list[str], strays: list[Finding]) -> list[type[Worker]]:
        """A layout that cannot be read is a finding already."""
        if names:
            return self._chosen(names)
        broken = {os.fsdecode(finding["id"] or b"") for finding in strays if finding["kind"] == "layout"}
        return [self._existing(name) for name in all_queues() if name not in broken]


# ---- input


def refuse_import(words: list[str]) -> NoReturn:
    """The jobs of Lowkiq are in Ruby's own format."""
    if words[0] != "lowkiq":
        raise UsageError(f"usage: seriatim {IMPORT_USAGE}")
    raise UsageError("import needs Ruby, because the jobs of Lowkiq are in Ruby's own format: use the command of the gem seriatim")


def exactly(words: list[str], least: int, most: int, usage: str) -> list[str]:
    if not least <= len(words) <= most:
        raise UsageError(f"usage: seriatim {usage}")
    return words


def parse(payload: str) -> Any:
    data = os.fsencode(payload)
    try:
        value = _native.load(data)
        _native.check_json(data, "payload")  # the value may not tell: an integer beyond int64 reads as a float
        return value
    except Undecodable as error:
        text = f"the payload is not valid JSON ({error}); a text needs its quotes: '\"paid\"'"
        raise UsageError(text) from None


def json_or_text(data: bytes) -> Any:
    """What a payload says; the bytes of one that is not JSON."""
    try:
        return _native.load(data)
    except Undecodable:
        return data


def unix_time(text: str) -> float:
    """Of Unix seconds, +SECONDS from now, or UTC as _log.timestamp writes it, also without milliseconds."""
    if UNIX_TIME.fullmatch(text):
        return (time.time() if text.startswith("+") else 0) + float(text)
    found = UTC.fullmatch(text)
    try:
        if found:
            return datetime.fromisoformat(f"{found[1]}+00:00").timestamp()
    except ValueError:
        pass  # there is no 30 February
    raise UsageError(
        f"TIME must be Unix seconds, +SECONDS from now or UTC such as 2026-11-24T08:00:00Z, not {quoted(os.fsencode(text))}"
    )


# ---- queues


def settings_by_name(cls: type[Worker]) -> _native.QueueSettings:
    """With 0 shards, a worker acts by the settings in Redis and makes no queue."""
    known = cls._own_settings
    if known is not None and known["shards_count"] == 0:
        return known
    own: _native.QueueSettings = Worker._queue_settings.__func__(cls)  # type: ignore[attr-defined]
    cls._own_settings = {**own, "shards_count": 0}
    return cls._own_settings


def made_for(queue: str) -> type[Worker]:
    """The worker class of a queue for which the application defines none. It is not in all_workers."""
    made = type("Operated", (Worker,), {"queue_name": queue, "_queue_settings": classmethod(settings_by_name)})
    all_workers.remove(made)
    return made


def layout(worker: type[Worker], shards: int) -> int:
    """The first call of every verb, so it says soon when there is no Redis."""
    settings = {**worker._queue_settings(), "shards_count": shards}
    return pool.ask(lambda connection: connection.layout(settings, limit=BOOT_SECONDS))


def push(worker: type[Worker], job: Job) -> PushResult:
    """A sync push refuses async middlewares, which the application may have."""
    if any(map(is_async, settings.client_middlewares)):
        return asyncio.run(worker.aperform_async([job]))
    return worker.perform_async([job])


def all_queues() -> list[str]:
    """All that have a layout in Redis."""
    layout(made_for("-"), 0)
    try:
        return sorted(map(os.fsdecode, pool.ask(lambda connection: connection.queues())))
    except (AuthError, RedisError) as error:
        raise type(error)(f"cannot list the queues (name them where the verb takes names): {error}") from error


# ---- output


def quoted(value: object) -> str:
    return json.dumps(_log.utf8(value), ensure_ascii=False)


ERROR_OF: Final = {
    "job": "its last error",
    "behind": "the error of what waits behind the run",
    "dead": "the error of its death",
}


def changed(word: str, count: int, named: list[bytes], otherwise: str, *, kind: str = "id") -> int:
    """
    Says how many were changed, and of ids that were named how many were not; of ids or handles of which none was, that. The
    exit code.
    """
    of = len(set(named))
    left = of - count if kind == "id" else 0
    if count and left > 0:
        said = otherwise if left == 1 else re.sub("^was", "were", re.sub("^is", "are", otherwise))
        say(f"{word} {count}; {left} of {of} ids {said}")
        return CRASHED
    if count or not named:
        say(f"{word} {count}")
        return STOPPED
    say(f"the {kind} {quoted(named[0])} {otherwise}" if len(named) == 1 else f"each of the {len(named)} {kind}s {otherwise}")
    return CRASHED


def with_error(records: Iterable[Any], text: str | None) -> list[Any]:
    """Those whose error contains the text of --error."""
    return [record for record in records if text is None or text in _log.utf8(record.get("error", ""))]


def pages_with_error(worker: type[Worker], text: str) -> Iterator[list[Any]]:
    """
    Of the whole morgue as it is now, by the time of death: ids that die meanwhile come behind its end, also those that were
    retried. Each page begins at the last time of the one before, which many ids may share, without the ids of that time that
    are known.
    """
    queries = worker.queries
    since, known = -math.inf, set[Any]()
    latest = queries.morgue_rev_range_by_updated_at(math.inf, -math.inf, limit=1)
    while latest:
        page = queries.morgue_range_by_updated_at(since, latest[0]["updated_at"], limit=DEAD_PAGE + len(known))
        page = [record for record in page if record["id"] not in known]
        if not page:
            return
        if page[-1]["updated_at"] != since:
            since, known = page[-1]["updated_at"], set()
        known.update(record["id"] for record in page if record["updated_at"] == since)
        yield with_error(page, text)


def dead_by_error(worker: type[Worker], action: str, ids: list[bytes], text: str) -> int:
    """How many of those whose error contains the text were changed; of the named ids, if there are any."""
    change = worker.actions.morgue_queue_up if action == "retry" else worker.actions.morgue_delete
    pages = [with_error(worker.queries.morgue_fetch(ids), text)] if ids else pages_with_error(worker, text)
    return sum(change([record["id"] for record in page]) for page in pages if page)


def figures_of(worker: type[Worker]) -> dict[str, Any]:
    return {"name": worker.queue_name, **worker.metrics}


def queue_row(worker: type[Worker]) -> dict[str, Any]:
    metrics: Any = worker.metrics
    return {"queue": worker.queue_name, "shards": worker.shards_count, **{name: metrics[name] for name in QUEUE_FIGURES}}


def first_line(error: object) -> str:
    return re.split(r"[\r\n]", _log.utf8(error), maxsplit=1)[0]


def dead_row(record: Any) -> list[Any]:
    return [record["id"], _log.timestamp(record["updated_at"]), record["payloads_count"], first_line(record.get("error", ""))]


def scheduled_row(row: ScheduledJob) -> list[Any]:
    payload = json_text(row["payload"])
    brief = f"{payload[:PAYLOAD_SHOWN]}..." if len(payload) > PAYLOAD_SHOWN else payload
    return [_log.timestamp(row["deliver_at"]), _log.timestamp(row["pushed_at"]), row["id"], row["handle"], brief]


def node_row(node: Node, queues: list[tuple[str, Any]]) -> dict[str, Any]:
    told = DESCRIPTION.search(_log.utf8(node["description"]))
    host, pid = told.groups() if told else (None, None)
    owned = {name: [shard for shard in shards if shard["owner"] == node["name"]] for name, shards in queues}
    return {
        "node": node["name"],
        "host": host,
        "pid": pid and int(pid),
        "state": node["state"],
        "queues": [name for name, shards in owned.items() if shards],
        "busy": sum(shard["busy"] for shards in owned.values() for shard in shards),
        **{name: value for name, value in node.items() if name in NODE_FIELDS},
    }


def node_cells(row: dict[str, Any]) -> list[Any]:
    reported = {name: row[name] if row[name] is None else CELLS[shown](row[name]) for name, shown in NODE_FIELDS.items()}
    cells = {**row, "queues": ",".join(row["queues"]), **reported}
    return ["-" if value is None or value == "" else value for value in cells.values()]


def say_findings(results: list[Any], strays: list[Finding]) -> None:
    for stray in strays:
        say(f"namespace {finding_line(stray)}")
    for result in results:
        name = _log.utf8(result["name"])
        for finding in result["findings"]:
            say(f"{name}/{finding['shard']} {finding_line(finding)}")
        say(f"{name}: {result['looked_at']} records, {len(result['findings'])} findings")


def finding_line(finding: Finding) -> str:
    id = "" if finding["id"] is None else f" id {quoted(finding['id'])}"
    return f"{finding['kind']}{id}: {finding['detail']}{' (repaired)' if finding['repaired'] else ''}"


def say(text: str) -> None:
    """One line, whatever an id or an error holds."""
    print(_log.printable(text))


def print_json(value: object) -> None:
    """What JSON itself leaves as it is and a terminal would obey is escaped, which is the same JSON."""
    say(json_text(value))


def json_text(value: object) -> str:
    return json.dumps(readable(value), ensure_ascii=False, separators=(",", ":"), default=_log.utf8)


def readable(value: Any) -> Any:
    """
    JSON has no bytes: what is not UTF-8 is shown with question marks. A codec of the application's may give what JSON has not:
    keys that are shown as texts, and values, which json_text shows as texts.
    """
    if isinstance(value, Mapping):
        return {key if isinstance(key, KEYS) else _log.utf8(key): readable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable(item) for item in value]
    if isinstance(value, (str, bytes)):
        return _log.utf8(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def print_table(rows: list[list[Any]]) -> None:
    texts = [[f"{cell:.1f}" if isinstance(cell, float) else _log.printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    for row in texts:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
