"""Two-phase commit sets, with the calls of the Redis::Ick gem."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import seriatim
from seriatim import Ick, Invalid
from support import figures
from support.redis_server import RedisServer


@pytest.fixture
def ick() -> Ick:
    return Ick()


def test_r_ick_1_r_ick_14_adds_members_and_lowers_their_scores(ick: Ick) -> None:
    assert ick.ickstats("k") is None
    assert ick.ickadd("k") == (0, 0)
    assert ick.ickadd("k", 5, "foo") == (1, 0)
    assert ick.ickadd("k", 10, "foo", 13, "bar") == (1, 0)
    assert ick.ickadd("k", [4.5, "foo", Fraction(1), "baz"]) == (1, 1)
    assert ick.ickstats("k") == {
        "key": "k", "pset_key": "seriatim:{/ick/k}:pset", "cset_key": "seriatim:{/ick/k}:cset:consumer", "ver": "ick.v2",
        "cset_size": 0, "pset_size": 3, "total_size": 3, "consumers": 0,
        "pset_min": 1, "pset_max": 13, "total_min": 1, "total_max": 13,
    }  # fmt: skip


def test_r_ick_2_r_ick_14_gives_a_batch_again_until_it_is_committed(ick: Ick) -> None:
    ick.ickadd("k", 7, "a", 8.25, "b", 9, 42, 10, b"\xff")
    assert ick.ickreserve("k") == []
    assert ick.ickreserve("k", 2) == [("a", 7.0), ("b", 8.25)]
    assert ick.ickreserve("k", 2) == [("a", 7.0), ("b", 8.25)]
    assert ick.ickcommit("k", "b") == 1
    assert ick.ickexchange("k", 2, "a", "unknown") == [("42", 9.0), (b"\xff", 10.0)]
    assert ick.ickcommit("k", [42, b"\xff"]) == 2
    stats = ick.ickstats("k")
    assert stats is not None and stats["total_size"] == 0
    assert ick.ickdel("k") == 1
    assert ick.ickunlink("k") == 0


def test_r_ick_6_backwash_gives_the_lowest_of_all(ick: Ick) -> None:
    ick.ickadd("k", 5, "a")
    ick.ickreserve("k", 1)
    ick.ickadd("k", -math.inf, "first")
    assert ick.ickreserve("k", 1) == [("a", 5.0)]
    assert ick.ickreserve("k", 1, backwash=True) == [("first", -math.inf)]


def test_r_ick_4_r_ick_5_each_consumer_commits_only_what_it_has_reserved_last(ick: Ick, redis: RedisServer) -> None:
    other, restarted = Ick(consumer="other", reserve_time=5), Ick(redis.url)
    ick.ickadd("k", 1, "a")
    assert ick.ickreserve("k", 1) == [("a", 1.0)]
    ick.ickadd("k", 2, "a")
    assert other.ickreserve("k", 1) == []
    assert restarted.ickreserve("k", 1) == [("a", 1.0)]
    assert ick.ickcommit("k", "a") == 0
    assert restarted.ickcommit("k", "a") == 1
    assert other.ickreserve("k", 1) == [("a", 2.0)]


def test_r_ick_8_takes_calls_of_any_size(ick: Ick) -> None:
    pairs: list[Any] = []
    for number in range(100_000):
        pairs += [number, number]
    assert ick.ickadd("k", pairs) == (100_000, 0)
    batch = ick.ickreserve("k", 100_000)
    assert len(batch) == 100_000
    assert ick.ickcommit("k", [member for member, _ in batch]) == 100_000


def test_r_ick_9_r_ick_14_sends_the_calls_of_a_pipeline_together(ick: Ick) -> None:
    with ick.pipelined() as pipeline:
        added = pipeline.ickadd("k", 1, "a", 2, "b", 3, "c", 4, "d")
        batch = pipeline.ickreserve("k", 4)
        again = pipeline.ickadd("k", 5, "a")
        with pytest.raises(Invalid, match="block of pipelined has ended"):
            added.value  # noqa: B018
    assert added.value == (4, 0)
    assert batch.value == [("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", 4.0)]
    assert again.value == (1, 0)
    assert ick.ickcommit("k", "a", "b", "c", "d") == 4


def test_r_ick_9_a_commit_of_a_pipeline_has_the_token_that_the_object_had_before(ick: Ick) -> None:
    ick.ickadd("k", 1, "a", 2, "b")
    ick.ickreserve("k", 1)
    with ick.pipelined() as pipeline:
        first, batch, second = pipeline.ickcommit("k", "a"), pipeline.ickreserve("k", 1), pipeline.ickcommit("k", "b")
    assert (first.value, batch.value, second.value) == (1, [("b", 2.0)], 0)
    assert ick.ickcommit("k", "b") == 1


def test_r_ick_14_coroutines_give_the_same(ick: Ick) -> None:
    async def use() -> None:
        assert await ick.aickadd("k", 1, "a", 2, "b") == (2, 0)
        assert await ick.aickreserve("k", 1) == [("a", 1.0)]
        assert await ick.aickexchange("k", 1, "a") == [("b", 2.0)]
        async with ick.pipelined() as pipeline:
            ended, stats = pipeline.ickcommit("k", "b"), pipeline.ickstats("k")
        assert ended.value == 1
        assert stats.value is not None and stats.value["total_size"] == 0
        assert await ick.aickcommit("k", "b") == 0
        assert await ick.aickstats("none") is None
        assert await ick.aickdel("k") == 1
        assert await ick.aickunlink("k") == 0

    asyncio.run(use())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda ick: ick.ickadd("k", 1, "a", math.nan, "z"), "the score of member 2 is NaN"),
        (lambda ick: ick.ickadd("k", 1, "a", "2", "b"), "the score of member 2 must be a number, not '2'"),
        (lambda ick: ick.ickadd("k", 1), "a score and a member for each pair must be given, not 1 arguments"),
        (lambda ick: ick.ickadd("k", 1, None), "member 1 must be a str, int, bytes or uuid.UUID, not None"),
        (lambda ick: ick.ickadd("k", 1, "x" * 1025), "member 1 has 1025 bytes; it must have at most 1024"),
        (lambda ick: ick.ickadd(1, 1, "a"), "name must be a str"),
        (lambda ick: ick.ickadd("\ud800", 1, "a"), "name must be a str without lone surrogates"),
        (lambda ick: ick.import_("k", source="\udcff"), "source must be a str without lone surrogates"),
        (lambda ick: ick.ickreserve("k", -1), "max_size must be an int from 0"),
        (lambda ick: ick.ickreserve("k", 1, backwash=1), "backwash must be True or False"),
        (lambda ick: Ick(statsd=object()), "statsd must be an object with increment and timing"),  # type: ignore[arg-type]
        (lambda ick: Ick(consumer=""), "consumer must be a text of 1 to 512 bytes"),
        (lambda ick: Ick(reserve_time=0), "reserve_time must be a number of seconds from 0.1"),
        (lambda ick: ick.import_("none"), 'there is no set of Redis::Ick at the key "none"'),
    ],
)
def test_r_ick_10_refuses_wrong_arguments_by_name(ick: Ick, redis: RedisServer, call: Callable[[Ick], object], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        call(ick)
    assert redis.call("DBSIZE") == 0


def test_r_ick_12_imports_what_the_gem_has_stored(ick: Ick, redis: RedisServer) -> None:
    redis.call("SET", "old", "ick.v1")
    redis.call("ZADD", "old/ick/{old}/pset", "1.5", "a")
    redis.call("ZADD", "old/ick/{old}/cset", "0.5", "a", "7", "b")
    assert ick.import_("k", source="old") == (2, 1)
    assert ick.ickreserve("k", 5) == [("a", 0.5), ("b", 7.0)]

    async def again() -> tuple[int, int]:
        return await ick.aimport_("k2", source="old")

    assert asyncio.run(again()) == (2, 1)


class Recorder:
    """Notes what a statsd client is asked for."""

    def __init__(self) -> None:
        self.increments: list[str] = []
        self.timings: dict[str, float] = {}

    def increment(self, name: str) -> None:
        self.increments.append(name)

    def timing(self, name: str, value: float) -> None:
        self.timings[name] = value


def test_r_ick_14_tells_statsd_of_each_call_once_with_its_sizes() -> None:
    statsd = Recorder()
    ick = seriatim.Ick(statsd=statsd)
    ick.ickadd("k", 1, "a", 2, "b")
    ick.ickreserve("k", 7)
    ick.ickcommit("k", "a")
    ick.ickexchange("k", 3, "b")
    ick.ickstats("k")
    ick.ickdel("k")
    ick.ickunlink("k")
    names = ["ickadd", "ickreserve", "ickcommit", "ickexchange", "ickstats", "ickdel", "ickunlink"]
    assert statsd.increments == [f"profile.ick.{name}.calls" for name in names]
    durations = {f"profile.ick.time.{name}" for name in names} | {"profile.ick.ickdel.time", "profile.ick.ickunlink.time"}
    assert all(statsd.timings.pop(name) >= 0 for name in durations)
    assert statsd.timings == {
        "profile.ick.ickadd.pairs": 2, "profile.ick.ickreserve.max_size": 7, "profile.ick.ickcommit.members": 1,
        "profile.ick.ickexchange.reserve_size": 3, "profile.ick.ickexchange.commit_members": 1,
    }  # fmt: skip


class Walk:
    """
    Random steps of two to four consumers on one set. Two of the objects have one name: each is the other's zombie, which
    goes on with a batch that it was given long ago. A member that was added after the last reserve whose batch was
    committed must be given once more. core/test/test_ick_walk.c does the same and looks into Redis after each step.
    """

    END_ALL = "for _, who in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 1, who) end return 0"

    def __init__(self, name: str, chance: random.Random, redis: RedisServer) -> None:
        self.name, self.chance, self.redis = name, chance, redis
        names = ["one", "one", "two", "three"][: chance.randint(2, 4)]
        self.users = [Ick(consumer=name) for name in names]
        self.batches: list[tuple[list[Any], int]] = [([], 0) for _ in names]  # members, the step of the reserve
        self.added: dict[str, int] = {}
        self.done: dict[str, int] = {}

    def step(self, number: int) -> None:
        at = self.chance.randrange(len(self.users))
        user, what, size, backwash = self.users[at], self.chance.randrange(10), self.chance.randrange(6), not self.chance.randrange(5)
        if what < 4:
            member = f"m{self.chance.randrange(12)}"
            user.ickadd(self.name, self.chance.randrange(50), member)
            self.added[member] = number
        elif what < 6:
            self.batches[at] = members(user.ickreserve(self.name, size, backwash=backwash)), number
        elif what < 8:
            user.ickcommit(self.name, self.processed(at))
        else:
            self.batches[at] = members(user.ickexchange(self.name, size, self.processed(at), backwash=backwash)), number
        if not self.chance.randrange(32):
            self.end_reservations()

    def processed(self, at: int) -> list[Any]:
        """The consumer has processed its batch, whatever becomes of the commit."""
        batch, step = self.batches[at]
        for member in batch:
            self.done[member] = max(self.done.get(member, 0), step)
        self.batches[at] = [], step
        return batch

    def end_reservations(self) -> None:
        self.redis.call("EVAL", self.END_ALL, "1", "seriatim:{/ick/" + self.name + "}:ends")

    def forgotten(self) -> set[Any]:
        """Members that should have been given once more, and were not."""
        self.end_reservations()
        last = Ick(consumer="last")
        given = members(last.ickreserve(self.name, 100))
        last.ickdel(self.name)
        return {member for member, step in self.added.items() if step > self.done.get(member, 0)} - set(given)


def members(pairs: Any) -> list[Any]:
    return [member for member, _ in pairs]


@pytest.mark.limit(1800)
def test_r_ick_13_gives_each_member_again_that_was_added_after_the_reserve_that_gave_it(redis: RedisServer) -> None:
    seed = figures.count(1, random.randrange(1 << 32))
    chance = random.Random(seed)
    walks = figures.count(3, 500)
    for number in range(walks):
        walk = Walk(f"walk{number}", chance, redis)
        for step in range(1, 201):
            walk.step(step)
        assert (seed, number, walk.forgotten()) == (seed, number, set())
    figures.note("R-ICK-13", "steps of consumers of a set in Python, one of them old; members forgotten", f"{walks * 200}; 0")
