"""
Two-phase commit sets, with the calls of the Redis::Ick gem. A set holds members with scores. Producers add members; of a
member that is there already the lower score counts. A consumer reserves the members with the lowest scores, processes
them and commits them; until then every reserve gives them again. A member that is added again while it is reserved is
reserved once more after the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar, Union

from .. import _native
from .._errors import Invalid
from .._settings import settings
from .._types import AnyId, Id
from . import pool, validate
from .connection import Connection
from .jobs import id_bytes, utf8

T = TypeVar("T")
Pairs = list[tuple[Id, float]]
"""(member, score), the lowest score first."""

CONSUMER = "consumer"
RESERVE_TIME = 30.0
MAX_SIZE = 2147483647
MAX_CONSUMER = 512  # bytes


class Statsd(Protocol):
    def increment(self, name: str, /) -> Any: ...
    def timing(self, name: str, value: float, /) -> Any: ...


class IckFuture(Generic[T]):
    """The value of a call that was made in Ick.pipelined."""

    def __init__(self, read: Callable[[_native.IckRow], T]) -> None:
        self._read = read
        self._row: _native.IckRow | None = None
        self._value: T

    @property
    def value(self) -> T:
        if self._row is None:
            raise Invalid("the value of this future is there when the block of pipelined has ended")
        return self._value

    def _take(self, row: _native.IckRow) -> None:
        self._value = self._read(row)
        self._row = row


class _Request(Generic[T]):
    def __init__(self, metric: str, call: _native.IckCall, read: Callable[[_native.IckRow], T], **sizes: int) -> None:
        """metric: the name of the call in statsd. sizes: what statsd gets beside it."""
        self.metric, self.call, self.read, self.sizes = metric, call, read, sizes


class _Requests:
    """The calls as what is sent. Raises Invalid by the name of the argument."""

    def __init__(self) -> None:
        self._tokens: dict[str, int] = {}  # of the last reserve of each set

    def add(self, name: str, pairs: tuple[Any, ...]) -> _Request[tuple[int, int]]:
        given = _listed(pairs)
        if len(given) % 2:
            raise Invalid(f"ickadd: a score and a member for each pair must be given, not {len(given)} arguments")
        members = [(_member(given[at + 1], at // 2), _score(given[at], at // 2)) for at in range(0, len(given), 2)]
        return _Request("ickadd", self._call("ickadd", name, members=members), _added, pairs=len(members))

    def reserve(self, name: str, max_size: int, backwash: bool) -> _Request[Pairs]:
        size = validate.integer("max_size", max_size, 0, MAX_SIZE)
        call = self._call("ickreserve", name, size, validate.flag("backwash", backwash))
        return _Request("ickreserve", call, partial(self._reserved, name), max_size=size)

    def commit(self, name: str, members: tuple[Any, ...]) -> _Request[int]:
        given = _members(members)
        return _Request("ickcommit", self._call("ickcommit", name, members=given), lambda row: row[2], members=len(given))

    def exchange(self, name: str, reserve_size: int, members: tuple[Any, ...], backwash: bool) -> _Request[Pairs]:
        size = validate.integer("reserve_size", reserve_size, 0, MAX_SIZE)
        given = _members(members)
        call = self._call("ickexchange", name, size, validate.flag("backwash", backwash), given)
        sizes = {"reserve_size": size, "commit_members": len(given)}
        return _Request("ickexchange", call, partial(self._reserved, name), **sizes)

    def stats(self, name: str) -> _Request[dict[str, Any] | None]:
        return _Request("ickstats", self._call("ickstats", name), partial(_stats, name))

    def delete(self, metric: str, name: str) -> _Request[int]:
        return _Request(metric, self._call("ickdel", name), lambda row: row[3])

    def load(self, name: str, source: str | None) -> _Request[tuple[int, int]]:
        key = _key("source", name if source is None else source)
        return _Request("import", self._call("import", name, members=[(key, 0.0)]), _added)

    def _call(
        self,
        kind: str,
        name: str,
        max_size: int = 0,
        backwash: bool = False,
        members: list[tuple[bytes, float]] | None = None,
    ) -> _native.IckCall:
        return kind, _key("name", name), self._tokens.get(name, 0), max_size, backwash, members or []

    def _reserved(self, name: str, row: _native.IckRow) -> Pairs:
        if row[4]:
            self._tokens[name] = row[4]
        return row[5]


class Ick:
    """
    The calls on two-phase commit sets.

        ick = seriatim.Ick()
        ick.ickadd("dirty", time.time(), "doc-1")
        batch = ick.ickreserve("dirty", 100)
        for member, score in batch:
            index(member)
        ick.ickcommit("dirty", *[member for member, score in batch])

    An object belongs to one consumer: it keeps the token of its last reserve of each set, and what it commits is what it
    has reserved under that token. Threads and tasks that reserve need an object and a consumer name each. The calls that
    begin with `a` are coroutines.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        statsd: Statsd | None = None,
        consumer: str = CONSUMER,
        reserve_time: float = RESERVE_TIME,
    ) -> None:
        """
        url: None: the Redis of the module.
        statsd: gets the metrics of the calls by increment(name) and timing(name, value); durations are in milliseconds.
        consumer: who reserves. A process that reserves as the same consumer takes over at once what the last one has not
        committed.
        reserve_time: seconds for which no other consumer gets what this one reserves.
        """
        self._url = None if url is None else validate.text("url", url, 1, 4096)
        if statsd is not None and not (callable(getattr(statsd, "increment", None)) and callable(getattr(statsd, "timing", None))):
            raise validate.refusal("statsd", "an object with increment and timing, or None", statsd)
        self._statsd = statsd
        self._consumer = validate.text_bytes(validate.text("consumer", consumer, 1, MAX_CONSUMER))
        self._reserve_time = float(validate.seconds("reserve_time", reserve_time, 0.1, 86400))
        self._requests = _Requests()
        self._pool: pool.Pool | None = None

    def ickadd(self, name: str, *pairs: Any) -> tuple[int, int]:
        """ickadd(name, score, member, score, member, ...), or the same in one list: new members, lowered scores."""
        return self._run(self._requests.add(name, pairs))

    def ickreserve(self, name: str, max_size: int = 0, *, backwash: bool = False) -> Pairs:
        """
        Reserves members until this consumer holds max_size of them, and gives the max_size lowest of these. backwash: what
        it holds goes back first, so that the lowest of all are reserved.
        """
        return self._run(self._requests.reserve(name, max_size, backwash))

    def ickcommit(self, name: str, *members: Any) -> int:
        """
        Ends the reservations of these members, or of a list of them: how many were ended. Members that this object has not
        reserved are ignored.
        """
        return self._run(self._requests.commit(name, members))

    def ickexchange(self, name: str, reserve_size: int, *members: Any, backwash: bool = False) -> Pairs:
        """ickcommit, then ickreserve, in one call."""
        return self._run(self._requests.exchange(name, reserve_size, members, backwash))

    def ickstats(self, name: str) -> dict[str, Any] | None:
        """key, ver, pset_size, cset_size, total_size and more; None: there is no such set."""
        return self._run(self._requests.stats(name))

    def ickdel(self, name: str) -> int:
        """Deletes the set: how many of the set, its members to be reserved and its reserved members there were, 0 to 3."""
        return self._run(self._requests.delete("ickdel", name))

    def ickunlink(self, name: str) -> int:
        """As ickdel: both free the memory in another thread of Redis."""
        return self._run(self._requests.delete("ickunlink", name))

    def import_(self, name: str, *, source: str | None = None) -> tuple[int, int]:
        """
        Adds all members of a set that Redis::Ick has stored in the same Redis at the key `source` (None: name): new
        members, lowered scores. Only reads the keys of the gem.
        """
        return self._run(self._requests.load(name, source))

    async def aimport_(self, name: str, *, source: str | None = None) -> tuple[int, int]:
        return await self._arun(self._requests.load(name, source))

    async def aickadd(self, name: str, *pairs: Any) -> tuple[int, int]:
        return await self._arun(self._requests.add(name, pairs))

    async def aickreserve(self, name: str, max_size: int = 0, *, backwash: bool = False) -> Pairs:
        return await self._arun(self._requests.reserve(name, max_size, backwash))

    async def aickcommit(self, name: str, *members: Any) -> int:
        return await self._arun(self._requests.commit(name, members))

    async def aickexchange(self, name: str, reserve_size: int, *members: Any, backwash: bool = False) -> Pairs:
        return await self._arun(self._requests.exchange(name, reserve_size, members, backwash))

    async def aickstats(self, name: str) -> dict[str, Any] | None:
        return await self._arun(self._requests.stats(name))

    async def aickdel(self, name: str) -> int:
        return await self._arun(self._requests.delete("ickdel", name))

    async def aickunlink(self, name: str) -> int:
        return await self._arun(self._requests.delete("ickunlink", name))

    def pipelined(self) -> IckPipeline:
        """
        For `with` and `async with`: the calls on what it gives return an IckFuture each, and are sent together at the end.
        A commit ends what this object reserved before the block, not what the block reserves. It has no import_.
        """
        return IckPipeline(self)

    def _run(self, request: _Request[T]) -> T:
        begun = self._count(request)
        try:
            return request.read(self._send([request.call])[0])
        finally:
            self._time(request.metric, begun)

    async def _arun(self, request: _Request[T]) -> T:
        begun = self._count(request)
        try:
            return request.read((await self._asend([request.call]))[0])
        finally:
            self._time(request.metric, begun)

    def _send(self, calls: list[_native.IckCall]) -> list[_native.IckRow]:
        lender = pool.current() if self._url is None else self._own_pool(self._url)
        with lender.lend() as connection:
            return connection.ick(self._consumer, self._reserve_time, calls)

    async def _asend(self, calls: list[_native.IckCall]) -> list[_native.IckRow]:
        lender = await pool.acurrent() if self._url is None else self._own_pool(self._url)
        async with lender.lend() as connection:
            return await connection.aick(self._consumer, self._reserve_time, calls)

    def _own_pool(self, url: str) -> pool.Pool:
        """A child of fork and changed settings get a new one."""
        pool.refuse_in_tests("ick")
        if self._pool is None or not self._pool.fits():
            namespace = settings.namespace
            version = settings.connection_changes
            self._pool = pool.Pool(
                settings.client_pool_size, settings.pool_timeout, lambda: Connection(url, namespace), version
            )
        return self._pool

    def _count(self, request: _Request[Any]) -> float:
        if self._statsd is not None and request.metric != "import":
            self._statsd.increment(f"profile.ick.{request.metric}.calls")
            for name, value in request.sizes.items():
                self._statsd.timing(f"profile.ick.{request.metric}.{name}", value)
        return time.monotonic()

    def _time(self, metric: str, begun: float) -> None:
        """The names of the gem, and profile.ick.time.ickdel beside profile.ick.ickdel.time."""
        if self._statsd is None or metric == "import":
            return
        took = (time.monotonic() - begun) * 1000
        self._statsd.timing(f"profile.ick.time.{metric}", took)
        if metric in ("ickdel", "ickunlink"):
            self._statsd.timing(f"profile.ick.{metric}.time", took)


class IckPipeline:
    """The calls of Ick, each of which returns a IckFuture at once."""

    def __init__(self, ick: Ick) -> None:
        self._ick = ick
        self._waiting: list[tuple[_Request[Any], IckFuture[Any]]] = []

    def ickadd(self, name: str, *pairs: Any) -> IckFuture[tuple[int, int]]:
        return self._later(self._ick._requests.add(name, pairs))

    def ickreserve(self, name: str, max_size: int = 0, *, backwash: bool = False) -> IckFuture[Pairs]:
        return self._later(self._ick._requests.reserve(name, max_size, backwash))

    def ickcommit(self, name: str, *members: Any) -> IckFuture[int]:
        return self._later(self._ick._requests.commit(name, members))

    def ickexchange(self, name: str, reserve_size: int, *members: Any, backwash: bool = False) -> IckFuture[Pairs]:
        return self._later(self._ick._requests.exchange(name, reserve_size, members, backwash))

    def ickstats(self, name: str) -> IckFuture[Union[dict[str, Any], None]]:
        return self._later(self._ick._requests.stats(name))

    def ickdel(self, name: str) -> IckFuture[int]:
        return self._later(self._ick._requests.delete("ickdel", name))

    def ickunlink(self, name: str) -> IckFuture[int]:
        return self._later(self._ick._requests.delete("ickunlink", name))

    def __enter__(self) -> IckPipeline:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None and self._waiting:
            self._take(self._ick._send([request.call for request, _ in self._waiting]))

    async def __aenter__(self) -> IckPipeline:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._waiting:
            self._take(await self._ick._asend([request.call for request, _ in self._waiting]))

    def _later(self, request: _Request[T]) -> IckFuture[T]:
        self._ick._time(request.metric, self._ick._count(request))
        future = IckFuture(request.read)
        self._waiting.append((request, future))
        return future

    def _take(self, rows: Iterable[_native.IckRow]) -> None:
        for (_, future), row in zip(self._waiting, rows):
            future._take(row)
        self._waiting = []


def _added(row: _native.IckRow) -> tuple[int, int]:
    return row[0], row[1]


def _stats(name: str, row: _native.IckRow) -> dict[str, Any] | None:
    return None if row[6] is None else {"key": name, **row[6]}


def _listed(arguments: tuple[Any, ...]) -> list[Any]:
    return list(arguments[0] if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else arguments)


def _members(arguments: tuple[Any, ...]) -> list[tuple[bytes, float]]:
    return [(_member(member, at), 0.0) for at, member in enumerate(_listed(arguments))]


def _member(member: AnyId, at: int) -> bytes:
    return id_bytes(member, f"member {at + 1}")


def _score(score: object, at: int) -> float:
    value = validate.number(score)
    if value is None or isinstance(score, (str, bytes)):
        raise validate.refusal(f"the score of member {at + 1}", "a number", score)
    return value


def _key(field: str, key: object) -> bytes:
    if isinstance(key, str):
        return utf8(key, field)
    raise validate.refusal(field, "a str", key)
