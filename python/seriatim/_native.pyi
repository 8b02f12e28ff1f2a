"""The C glue: convert, call, convert. Everything public lies above it."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypedDict, Union

version: Final[str]

MAX_PAYLOAD: Final[int]
"""Bytes."""

Id = Union[str, bytes]
"""An id as it is handed out: str where its bytes are UTF-8, else bytes."""

QueueSettings = dict[str, Any]
"""By name; queue_name is bytes. What is missing or None is the default."""

# definitions: names, written by script/embed from core/definitions/operations.json

ActionName = Literal[
    "perform_now", "perform_all_jobs_now", "perform_all_failed_jobs_now", "park", "unpark", "unpark_all", "delete",
    "delete_all_failed_jobs", "kill", "kill_all_failed_jobs", "morgue_queue_up", "morgue_queue_up_all_jobs",
    "morgue_delete", "morgue_delete_all_jobs", "cancel", "reschedule", "drop_payload", "morgue_drop_payload", "pause",
    "resume", "reshard", "import", "delete_queue",
]
QueryName = Literal[
    "range_by_id", "range_by_perform_in", "range_by_retry_count", "fetch", "morgue_range_by_id",
    "morgue_range_by_updated_at", "morgue_fetch", "processing_data", "parked", "range_by_deliver_at",
]
OrderName = Literal[
    "quiet", "stop",
]

# end of definitions

class WorkerSetting(TypedDict):
    """low and high: the range, of a text that of its bytes; words: of kind "word", else empty. None may be said where it is optional."""

    name: str
    kind: Literal["text", "word", "integer", "seconds", "flag"]
    optional: bool
    default: Any
    low: Any
    high: Any
    words: tuple[str, ...]

JobRow = tuple[bytes, bytes, float | None, int, float, int, str | None, bytes | None, int, float]
"""id, payload, score, when (0 now, 1 at, 2 delay), time, retry_count, on_waiting, context (a JSON object), deliver_when,
deliver_time."""

ClaimedRow = tuple[Id, int, int, float, str | bytes | None, list[tuple[bytes, float, bytes | None]], int]
"""id, fence, retry_count, perform_in, error, [(payload, score, context)]."""

PoppedPayload = tuple[bytes, float, bytes | None, float]
"""payload, score, context, stamp."""

PoppedRow = tuple[int, Id, int, int, bytes | None, int, str | bytes | None, bool, list[PoppedPayload]]
"""queue, id, fence, deliveries, token, retry_count, error, more, payloads."""

POPPED_ACK: Final[int]
POPPED_FAIL: Final[int]
POPPED_RELEASE: Final[int]
POPPED_EXTEND: Final[int]
POPPED_SNOOZE: Final[int]
POPPED_CHECKPOINT: Final[int]
POPPED_REJECT: Final[int]

FAKE_DONE: Final[int]
FAKE_FAIL: Final[int]
FAKE_RELEASE: Final[int]
FAKE_SNOOZE: Final[int]
FAKE_REJECT: Final[int]
FAKE_CHECKPOINT: Final[int]

FakeRow = tuple[
    Literal["waiting", "running", "scheduled", "parked", "dead"], Id, bytes, float | None, bytes | None, int, int, str | bytes | None,
]
"""state, id, payload, score, context, time in Unix microseconds, retry_count, error."""

WebSettings = tuple[Union[str, None], bool, tuple[str, ...], Union[str, None], Union[str, None], tuple[bytes, ...], bool, bool]
"""title, read_only, hosts, token, why /livez answers 503, workers as name, queue, name, queue, ..., answer gets a load_error, consume."""

WebRequest = tuple[
    str, bytes, bytes, bytes, Union[bytes, None], Union[bytes, None], Union[bytes, None], Union[bytes, None],
    Union[bytes, None], Union[bytes, None], Union[bytes, None], bytes, bool, int, int, int, int,
]
"""
method, prefix, path, query, host, origin, sec_fetch_site, content_type, authorization, accept, accept_encoding, body, secure,
the descriptor of the visitor's connection or 0, role, how many pops the host lets wait or 0, milliseconds that it has waited.
"""

WebResponse = tuple[int, list[tuple[str, str]], bytes]
"""status, [(name, value)] without Content-Length, body."""

WebAnswer = tuple[int, list[tuple[str, str]], bytes, int]
"""The same, and milliseconds after which a pop is asked again, or 0."""

def dump(value: object, root: str, /) -> bytes:
    """Canonical JSON of the value; raises Invalid, whose path begins with root."""

def load(data: bytes, /) -> Any:
    """What the JSON text says; raises Undecodable."""

def check_json(data: bytes, root: str, /) -> None:
    """Raises Invalid, whose path begins with root, for what a push would refuse of the JSON text."""

def forks() -> int:
    """How many forks lie between this process and the one that imported this module."""

def command_text(topic: str, /) -> str | None:
    """What the command says of itself: "help", "help VERB", "completion bash", "completion zsh", "completion fish", "man", "verbs"."""

def printable(text: str, /) -> str:
    """As a terminal and a log of lines may show it: control characters are escaped. No lone surrogates."""

def worker_settings() -> list[WorkerSetting]:
    """What the core says of each setting that the users of a worker may write."""

def back_off(count: int, /) -> float:
    """Seconds of the default back-off after the failure that made retry_count `count`."""

def token_parts(token: bytes, /) -> tuple[Id, Id, int, int] | None:
    """queue, id, fence and number of payloads of a delivery; None: it is no token."""

def back_off_of_events(count: int, /) -> float:
    """The same by the table of delayedQueue."""

def split(shards: int, nodes: int, node: int, threads: int, /) -> list[list[int]]:
    """The places of this node's shards, dealt to its threads; empty hands are left out."""

def shard_of(id: bytes, shards_count: int, /) -> int: ...

def web_routes() -> list[tuple[str, str, int, bool]]:
    """method, pattern, the least role (0: anybody, 1 viewer, 2 operator, 3 admin), whether it changes anything."""

def jobs(jobs: list[Any], row: Callable[[Any, int], JobRow], json: bool, /) -> Jobs:
    """
    Reads them one by one. json: what is a dict of plain values is read as row(job, place) would, its payload as JSON;
    row is asked for all others.
    """

class Jobs:
    """The jobs of a push, as a link takes them."""

    def __len__(self) -> int: ...
    def rows(self) -> list[JobRow]: ...

class Fake:
    """Queues in memory, for tests of applications: no Redis is asked. now: Unix time in microseconds, of the caller's choice."""

    def __init__(self) -> None: ...
    def queue(self, settings: QueueSettings, /) -> int: ...
    def push(self, queue: int, jobs: Jobs, handles: bool, now: int, /) -> tuple[int, int, list[int], int, int, list[str | None]]:
        """added, folded, [places of refused jobs], scheduled, stale, [handles or None]."""
    def cancel(self, queue: int, handle: bytes, /) -> bool: ...
    def reschedule(self, queue: int, handle: bytes, at: bytes, now: int, /) -> bool:
        """at: decimal text, Unix seconds."""
    def next(self, queue: int, now: int, /) -> int | None:
        """When the next id is due; None: nothing will be."""
    def take(self, queue: int, limit: int, now: int, /) -> tuple[int, list[ClaimedRow]]:
        """Claims ids of one shard that are due, as a server does: the shard, and what was claimed; []: nothing is due."""
    def take_exhausted(self, queue: int, /) -> list[ClaimedRow]:
        """What retries_exhausted is to be told next: one, or none."""
    def settle(
        self, queue: int, id: bytes, fence: int, kind: int, seconds: float, text: bytes | None, which: list[int] | int | None, now: int, /
    ) -> None:
        """kind: a FAKE_*. which: the places of payloads (FAKE_REJECT) or their count (FAKE_CHECKPOINT). Raises Stale."""
    def rows(self, queue: int, /) -> list[FakeRow]:
        """All payloads, dead ones too, by time."""
    def clear(self, queue: int, /) -> None: ...

# The call, the set, the token, max_size, backwash, [(member, score)].
IckCall = tuple[str, bytes, int, int, bool, list[tuple[bytes, float]]]
# New members, lowered scores, reservations ended, keys deleted, token, [(member, score)], statistics.
IckRow = tuple[int, int, int, int, int, list[tuple[Id, float]], Union[dict[str, Any], None]]


class Link:
    """One connection. Each of push to nodes only begins something; drive it to its end, or step it."""

    def __init__(self, url: str, namespace: str, name: str | None, max_payload: int, url_from: str | None = None) -> None: ...
    @property
    def url(self) -> str: ...
    def queue(self, settings: QueueSettings, /) -> int: ...
    def push(self, queue: int, jobs: Jobs, replicas: int = 0, wait_timeout: float = 1.0, push_timeout: float = 10.0, handles: bool = False, /) -> None:
        """Result: (added, folded, [places of refused jobs], what was said of too few replicas or None, warning or None, scheduled, stale, [handles or None])."""
    def pipeline(self, pushes: list[tuple[int, Jobs, int, float, float, bool]], /) -> None:
        """
        Several pushes, each as push takes it. Result: ([what push gives, of each, but an exception or None in the place of what was said of
        replicas], an exception or None, warning or None).
        """
    def check_jobs(self, queue: int, jobs: Jobs, /) -> None:
        """Raises what a push of them would before it is sent; sends nothing."""
    def pop(self, queues: list[int], weights: list[int] | None, wait: float, ttr: float, max: int, /) -> None:
        """Result: PoppedRow, or None: no id was due."""
    def popped(self, token: bytes, kind: int, seconds: float, text: bytes | None, payloads: int | list[float] | None, /) -> None:
        """Result: None. kind: a POPPED_*; payloads: (score, stamp) of those that are meant."""
    def layout(self, queue: int, /) -> None:
        """Result: shards_count as Redis has it, 0 when there is no such queue."""
    def query(
        self,
        queue: int,
        name: QueryName,
        reverse: bool,
        min: bytes | None,
        max: bytes | None,
        limit: int,
        shard: int,
        ids: list[bytes] | None,
    ) -> None:
        """Result: a list of dicts with all fields of each record; shard -1: all."""
    def action(self, queue: int, name: ActionName, texts: list[bytes] | None, /) -> None:
        """Result: what the action returns."""
    def metrics(self, queue: int, /) -> None:
        """Result: a dict of the queue's figures; its shards' at "shards"."""
    def explain(self, queue: int, id: bytes, /) -> None:
        """Result: a dict."""
    def check(self, queue: int, repair: bool, /) -> None:
        """Result: (how many records it looked at, [findings])."""
    def nodes(self) -> None:
        """Result: a list of seriatim.Node."""
    def node_command(self, node: bytes, command: OrderName, /) -> None:
        """Result: such a node is alive."""
    def queues(self) -> None:
        """Result: [names], bytes where they are not UTF-8."""
    def ick(self, consumer: bytes, reserve_time: float, calls: list[IckCall], /) -> None:
        """Result: a list with an IckRow for each call."""
    def health(self) -> None:
        """Result: {"maxmemory_policy": str or None, "appendonly": bool or None, "replicas": int or None}."""
    def web(self, settings: WebSettings, request: WebRequest, /) -> None:
        """Result: None. Whatever comes of it, there is an answer."""
    def answer(self, redact: Callable[[Id, Id, Id], Id] | None, load_error: Callable[[Id], Id] | None, /) -> WebAnswer | None:
        """To the web request, once it has ended, well or not; raises what the functions raise. None: it goes on, so drive again."""
    def change(self) -> tuple[Any, str] | None:
        """What the web request asked to change, as far as that is known, and its line for a log; None: nothing."""
    def drive(self, seconds: float | None = None) -> Any:
        """Waits for the end of what was begun, without the GIL; returns its result or raises its failure."""
    def step(self) -> bool:
        """Goes on without waiting; True when what was begun has ended, well or not."""
    def expire(self) -> None:
        """Ends what was begun and has not ended yet, because the caller's time for it is over; the result raises the cause."""
    def may_resolve(self) -> bool:
        """May the next step ask the resolver, which blocks? Then step elsewhere than on an event loop."""
    def result(self) -> Any:
        """After the end: the result, or raises the failure."""
    def fileno(self) -> int:
        """-1: there is no socket now; wait for the timeout."""
    def wants(self) -> int:
        """Bits: 1 to read, 2 to write."""
    def timeout(self) -> float | None:
        """Seconds after which to step at the latest; None: only the socket matters."""
    def reset(self) -> None: ...
    def progress(self, what: bytes, total: int | None, /) -> bool:
        """Is the next action on a whole queue, or the next check, shown on stderr? It is where that is a terminal."""
    def close(self) -> None: ...

class Runner:
    """A node with a native thread of its own."""

    def __init__(
        self,
        url: str,
        namespace: str,
        name: str,
        id: str,
        description: str,
        lease_ms: int,
        poll_ms: int,
        threads: int,
        scheduler: int,
    ) -> None: ...
    def worker(self, settings: QueueSettings, /) -> int:
        """Also while it runs. Its number; of a queue that was withdrawn, the earlier one."""
    def withdraw(self, worker: int, /) -> bool:
        """Claims nothing more of its queue, and hands the shards over. False: it was withdrawn before."""
    def group(self, scheduler: int, shards: list[tuple[int, int]], /) -> int: ...
    def start(self) -> None: ...
    def take(self, group: int, /, seconds: float | None = None, settled: Delivery | None = None) -> Delivery | None:
        """
        The group's next delivery; None: there was none in time (0: at once; None: as long as it takes; waits without the
        GIL). Raises Closed when there will be no more. `settled`, which goes by place, is settled first.
        """
    def take_from(self, group: int, worker: int, shard: int, /) -> Delivery | None:
        """As take, from that shard alone and at once."""
    def take_unscheduled(self, group: int, seconds: float, /) -> Delivery | None:
        """
        As take, but only dead ids and ids in doubt, which no scheduler chooses. If there are no such ids, it waits up to
        `seconds` until a take may give something, and returns None.
        """
    def candidates(self, group: int, cap: int, /) -> list[tuple[int, int, float, int]]:
        """worker, shard, lag in seconds, claimed ids; oldest due first."""
    def fileno(self, group: int, /) -> int:
        """Readable when a take may give something; after a take gave None, wait for it and call clear before the next."""
    def clear(self, group: int, /) -> None: ...
    def event(
        self,
    ) -> tuple[Literal["lease", "lost", "refused", "recovered", "link", "warning", "failures", "morgue", "stale"], int, str] | None: ...
    def pulse(self) -> None: ...
    def quiet(self) -> None: ...
    def stop(self) -> None: ...
    def abandon(self) -> None: ...
    def asked(self) -> Literal["quiet", "stop"] | None: ...
    def stopped(self) -> bool: ...
    def unfinished(self) -> str:
        """What threads have in hand, in one line for the log: "3 ids: Orders 17, Orders 18 and 1 more"."""
    def stats(self) -> dict[str, int | bool]: ...
    def close(self) -> None: ...

class Delivery:
    """What a thread has to do. One that is collected unsettled is settled; ids without an outcome are released."""

    kind: Final[Literal[0, 1, 2]]  # run, died, exhausted
    worker: Final[int]
    shard: Final[int]

    def __len__(self) -> int: ...
    def job(self, place: int, /) -> ClaimedRow: ...
    def ids(self) -> list[Id]:
        """In their places."""
    def payloads_by_id(self) -> dict[Id, list[Any]] | None:
        """What each payload's JSON says; None when one of them cannot be read."""
    def done(self, place: int, /) -> None: ...
    def done_all(self) -> None: ...
    def fail(self, place: int, error: bytes, retry_in: float, /) -> None: ...
    def release(self, place: int, /) -> None: ...
    def reject(self, place: int, places: list[int], reason: bytes, /) -> None: ...
    def extend(self, place: int, seconds: float, /) -> None: ...
    def checkpoint(self, place: int, count: int, /) -> None: ...
    def flush(self, seconds: float, /) -> bool:
        """Has Redis confirmed all checkpoints? Waits at most so many seconds, of which it takes 60. Raises Stale."""
    def snooze(self, place: int, seconds: float, payload: bytes | None, /) -> None: ...
    def failure(self, place: int, /) -> str | None:
        """May a failure of its queue be logged now? Those that may not are counted, and an event tells how many."""
    def settle(self) -> None:
        """Hands it back; every later call but elapsed raises Closed."""
    def elapsed(self) -> float:
        """Seconds since it was taken."""

class PrivateRedis:
    """This process' use of the Redis that Seriatim starts for itself."""

    def __init__(self, folder: str) -> None: ...
    @property
    def url(self) -> str: ...
    @property
    def started(self) -> bool: ...
    def release(self) -> None: ...

def exit_beyond(signals: list[int], allowed: int, code: int, /) -> None:
    """
    So many of these signals go on to Python's handlers, which must be set before; a further one ends the process at once with this
    exit code, whoever holds the GIL. A SIGTERM within a second of the latest that counted does not count. An empty list ends that.
    """

def ending_counts(number: int, /) -> bool:
    """In a handler of SIGTERM or SIGINT, where exit_beyond has an empty list: is this one beyond the allowed ones?"""

def write_stderr(data: bytes, /) -> None:
    """What standard error takes of it at once, without a lock: for handlers of signals."""
