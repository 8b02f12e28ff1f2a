"""The log: its two forms, and loggers of the application's own."""

from __future__ import annotations

import io
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.jobs import eventually, serve, worker
from support.redis_server import RedisServer

from seriatim import _log


class Written:
    """The logger "seriatim", whose lines are kept."""

    def __init__(self, format: str | None) -> None:
        self.output = io.StringIO()
        self.handler = _log.handler(self.output, format)
        _log.logger.addHandler(self.handler)
        _log.logger.setLevel(logging.DEBUG)
        _log.logger.propagate = False

    def lines(self) -> list[str]:
        return self.output.getvalue().splitlines()

    def remove(self) -> None:
        _log.logger.removeHandler(self.handler)
        _log.logger.setLevel(logging.NOTSET)
        _log.logger.propagate = True


@pytest.fixture
def written(request: pytest.FixtureRequest) -> Iterator[Written]:
    kept = Written(getattr(request, "param", None))
    yield kept
    kept.remove()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not that either")


def test_an_event_is_one_line_of_text(written: Written) -> None:
    _log.info("done", "all of it", q="Orders", id="a b", n=3, elapsed=0.12345)
    _log.warn("lost", None, id=b"\xffx")
    done, lost = written.lines()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(
        rf'INFO {stamp} pid={os.getpid()} tid=[0-9a-z]+ q=Orders id="a b" n=3 elapsed=0\.123 done all of it', done
    )
    assert re.fullmatch(rf"WARN {stamp} pid=\d+ tid=\w+ id=\?x lost", lost)


def test_no_id_sends_control_characters_to_the_terminal(written: Written) -> None:
    _log.info("done", None, id="a\x1b[2J")
    assert written.lines()[0].endswith(r' id="a\u001b[2J" done')


def test_any_text_stays_on_one_line(written: Written) -> None:
    _log.error("thread", "first\r\n\nsecond \udcff", id='say "hi"')
    _log.write(_log.FATAL, "exit")
    first, second = written.lines()
    assert first.endswith(r'id="say \"hi\"" thread first | second ?')
    assert second.startswith("FATAL ") and second.endswith(" exit")


@pytest.mark.parametrize("written", ["json"], indirect=True)
def test_an_event_is_one_line_of_json(written: Written) -> None:
    _log.debug("start", "one\ntwo é", q="Q", id="7", n=1, elapsed=0.5)
    _log.info("quiet")
    first, second = (json.loads(line) for line in written.lines())
    assert {key: first[key] for key in ("lvl", "pid", "event", "msg", "q", "id", "n", "elapsed")} == {
        "lvl": "DEBUG",
        "pid": os.getpid(),
        "event": "start",
        "msg": "one\ntwo é",
        "q": "Q",
        "id": "7",
        "n": 1,
        "elapsed": 0.5,
    }
    assert list(second) == ["ts", "lvl", "pid", "tid", "event"]


def test_messages_of_other_code_keep_their_text(written: Written) -> None:
    _log.logger.info("%d of %s", 3, "them")
    try:
        raise ValueError("boom")
    except ValueError:
        _log.logger.exception("it failed")
    plain, failed = written.lines()
    assert plain.endswith(" 3 of them")
    assert re.search(r" it failed \| Traceback .* \| ValueError: boom$", failed)


def test_a_formatter_of_the_application_is_used(written: Written) -> None:
    written.handler.setFormatter(logging.Formatter("%(levelname)s:%(name)s:%(message)s"))
    _log.warn("refused", "too large", q="Orders", id="x")
    assert written.lines() == ["WARNING:seriatim:refused too large q=Orders id=x"]


def test_events_below_the_level_are_left_out(written: Written) -> None:
    assert _log.is_debug()
    _log.logger.setLevel(logging.WARNING)
    assert not _log.is_debug()
    _log.info("start")
    assert written.lines() == []


def test_it_never_raises(written: Written) -> None:
    def refuse(_record: Any) -> bool:
        raise RuntimeError("a filter that fails")

    _log.info("done", Unspeakable())
    written.handler.addFilter(refuse)
    _log.info("done")
    assert written.lines() == []


def test_describe_names_any_error() -> None:
    def fail(error: Exception) -> Exception:
        try:
            raise error
        except Exception as e:
            return e

    assert re.fullmatch(r"ValueError: text \(.*test_log\.py:\d+\)", _log.describe(fail(ValueError("text"))))
    assert _log.describe(KeyError("x")) == "KeyError: 'x'"
    assert _log.describe(fail(Unspeakable())) == "Unspeakable"
    assert _log.describe("a text") == "a text"


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_an_error_is_one_line_of_bounded_length() -> None:
    assert _log.brief("one") == "one"
    assert _log.brief("one\r\ntwo") == "one"
    assert _log.brief("x" * 501) == "x" * 500 + "..."
    assert re.fullmatch(r"ValueError: one \(.*test_log\.py:\d+\)", _log.brief(raised(ValueError("one\ntwo"))))
    assert re.fullmatch(r"ValueError: x{488}\.\.\. \(.*test_log\.py:\d+\)", _log.brief(raised(ValueError("x" * 3000))))


def test_of_many_failures_in_a_second_only_the_count_is_logged(written: Written, redis: RedisServer) -> None:
    def fail_long(payloads_by_id: Any, batch: Any) -> None:
        raise RuntimeError("x" * 3000 + "\nsecond line")

    crowded = worker("Crowded", fail_long, max_retry_count=0, batch_size=60)
    crowded.perform_async([{"id": id} for id in range(300)])
    server = serve(crowded)

    def told() -> list[str]:
        return [line for line in written.lines() if re.search("ERROR .*q=Crowded .*dead RuntimeError: x", line)]

    def counted() -> int:
        found = re.findall(r" n=(\d+) fail \d+ more failures in queue Crowded are not", "\n".join(written.lines()))
        return sum(map(int, found))

    eventually(lambda: bool(crowded.metrics["morgue_length"] == 300 and counted() + len(told()) >= 300))
    server.stop()
    assert counted() + len(told()) == 300
    assert not any(re.search(" fail RuntimeError: x| dead x", line) for line in written.lines())
    assert 10 <= len(told()) < 300 and max(map(len, told())) < 800
    assert not any("second line" in line for line in written.lines())


def test_it_says_how_many_dead_ids_the_limits_of_the_morgue_removed(written: Written, redis: RedisServer) -> None:
    def fail(payloads_by_id: Any, batch: Any) -> None:
        raise RuntimeError("x")

    mortal = worker("Mortal", fail, shards_count=1, max_retry_count=0, morgue_max_count=1)
    mortal.perform_async([{"id": id} for id in range(3)])
    server = serve(mortal)
    eventually(lambda: bool(mortal.metrics["morgue_removed"] == 2))
    server.stop()
    line = r"INFO .* n=(\d) morgue removed \1 dead ids? from shard .*Mortal"
    assert sum(int(found) for found in re.findall(line, "\n".join(written.lines()))) == 2


@pytest.mark.parametrize(
    ("option", "own", "counts"),
    [
        (logging.INFO, logging.NOTSET, logging.INFO),
        (logging.INFO, logging.WARNING, logging.WARNING),
        (logging.INFO, logging.DEBUG, logging.DEBUG),
        (logging.DEBUG, logging.NOTSET, logging.DEBUG),
        (logging.DEBUG, logging.WARNING, logging.DEBUG),
    ],
)
def test_the_level_that_the_application_gave_the_logger_counts_without_v(option: int, own: int, counts: int) -> None:
    output = io.StringIO()
    try:
        log = _log.Output(output, None, option)
        assert _log.logger.level == option
        _log.logger.setLevel(own)
        log.settle()
        assert _log.logger.level == counts
    finally:
        _log.logger.removeHandler(log._handler)
        _log.logger.setLevel(logging.NOTSET)
