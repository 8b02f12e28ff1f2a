"""Ids, names of queues and errors come from elsewhere: whatever they hold, a terminal and a log show it as text of one line."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from support import command
from support.jobs import eventually, serve, worker
from support.redis_server import RedisServer

from seriatim import _log

ID = "a\nb\x1b[31m\x9b1m\u202e\a\x7f\t\r"
SHOWN = r"\u001b[31m\u009b1m\u202e\u0007\u007f"
QUEUE = f"Q{ID}"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f]")

Run = Callable[..., str]


@pytest.fixture
def seriatim(redis: RedisServer) -> Run:
    def run(*arguments: str, code: int = 0) -> str:
        output, status = command.run(*arguments, redis=redis.url)
        assert (arguments[0], CONTROL.findall(output), status) == (arguments[0], [], code), output
        return output

    def fail(payloads_by_id: Any, batch: Any) -> None:
        raise RuntimeError(f"\x1b]0;pwn\a{ID}")

    dying = worker(QUEUE, fail, max_retry_count=0)
    server = serve(dying)
    dying.perform_async([{"id": ID, "payload": ID}])
    eventually(lambda: bool(dying.metrics["morgue_length"] == 1))
    server.stop()
    return run


def test_it_moves_no_cursor_and_ends_no_row_in_any_verb(seriatim: Run, redis: RedisServer) -> None:
    listed = seriatim("dead", "list", QUEUE)
    assert listed.count("\n") == 2 and SHOWN in listed and re.search(r" 1  +\S*\\u001b\]0;pwn\\u0007a$", listed, re.MULTILINE), listed
    assert seriatim("push", QUEUE, f"{ID}2") == "added 1, folded 0, refused 0\n"
    assert seriatim("stats").count("\n") == 2
    assert seriatim("explain", QUEUE, f"{ID}2").count("\n") == 1
    assert seriatim("pause", QUEUE) == "paused 5 shards\n"
    assert seriatim("pause", QUEUE, f"{ID}2") == "parked 1\n"
    assert re.fullmatch(r"the id \".*\" is not parked\n", seriatim("resume", QUEUE, ID, code=1))
    assert re.fullmatch(r"Qa\\u000ab.*: \d+ records, 0 findings\n", seriatim("check"))
    redis.call("SET", f"seriatim:{ID}", "1")
    assert re.match(r"namespace .*\\u", seriatim("check", code=1))
    assert seriatim("dead", "retry", QUEUE, ID) == "queued up 1\n"
    assert seriatim("dead", "delete", QUEUE, "--all") == "deleted 0\n"


def test_it_stays_the_same_in_json(seriatim: Run) -> None:
    (record,) = json.loads(seriatim("dead", "list", QUEUE, "--json"))
    assert record["id"] == ID and f"\x1b]0;pwn\a{ID}" in record["error"]
    assert json.loads(seriatim("stats", "--json"))["queues"][0]["name"] == QUEUE
    dead = json.loads(seriatim("explain", QUEUE, ID, "--json"))["dead"]
    assert (dead["id"], dead["payloads_count"]) == (ID, 1)
    assert json.loads(seriatim("check", "--json"))["queues"][0]["name"] == QUEUE


def test_it_is_shown_in_what_is_refused(seriatim: Run) -> None:
    refused = seriatim("stats", f"{ID}none", code=2)
    assert "unknown queue" in refused and "u202e" in refused
    assert f"unknown command a | b{SHOWN}" in seriatim(ID, code=2)
    assert "no such file" in seriatim("-r", ID, code=2)
    assert "-C a | b" in seriatim("-C", ID, code=2)


def test_it_is_one_line_of_a_log_also_with_a_formatter_of_the_application_s_own() -> None:
    event = _log.Event("fail", f"\x1b]0;pwn\a{ID}", {"q": QUEUE, "id": ID})
    record = logging.LogRecord("seriatim", logging.WARNING, "file.py", 1, event, None, None)
    for line in (_log.Line().format(record), _log.Json().format(record), logging.Formatter("%(message)s").format(record)):
        assert not CONTROL.search(line) and "\n" not in line, line
    assert json.loads(_log.Json().format(record))["msg"] == f"\x1b]0;pwn\a{ID}"
