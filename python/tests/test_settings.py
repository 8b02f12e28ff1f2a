"""The settings, which are the module's attributes."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

import seriatim
from seriatim._settings import NAMES, settings

REFUSED: dict[str, list[Any]] = {
    "poll_interval": [0, "1", math.nan, None, True],
    "threads_per_node": [0, 1.5],
    "redis": [5, "", "5", "http://x", "127.0.0.1:6379", "redis://h:99999", "a\0b", "redis://\udcff", "redis://a b"],
    "client_pool_size": [0],
    "pool_timeout": [-1],
    "wait_replicas": [-1, 1001, "1", 1.0, None],
    "push_timeout": [0.09, 51, math.nan, None],
    "wait_timeout": [0, 11, math.nan, None],
    "server_middlewares": [None, 5, ()],
    "client_middlewares": [{}],
    "on_server_init": [5],
    "last_words": [5],
    "build_scheduler": [None],
    "build_splitter": [5],
    "dump_payload": ["x"],
    "load_payload": [5],
    "format_error": [None],
    "dump_error": [None],
    "load_error": [None],
    "lease_time": [0.1, 4000],
    "stop_timeout": [-1],
    "namespace": ["", "x" * 129, "\u00e9" * 65, None, "a\0b", "\udcff", "\ud800", b"x"],
    "workers": [5, "x"],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in REFUSED.items() for value in values])
def test_an_invalid_value_is_refused(name: str, value: Any) -> None:
    before = getattr(seriatim, name)
    with pytest.raises(seriatim.Invalid, match=f"^{name} must be "):
        setattr(seriatim, name, value)
    assert getattr(seriatim, name) is before


URLS = [
    "redis://h",
    "REDIS://user:password@[::1]:6380/1",
    "rediss://h",
    "unix:///s?db=1",
    "unix:/s",
    "redis+sentinel://a,b/master",
    "rediss+sentinel://a/master/1",
    "redis+cluster://a,b",
    "rediss+cluster://a",
]


@pytest.mark.parametrize("url", URLS)
def test_every_kind_of_url_is_taken(url: str) -> None:
    seriatim.redis = url
    assert seriatim.redis_url() == url


def test_the_refusal_of_a_url_says_what_is_wrong_and_no_password() -> None:
    start = r"^redis must be a URL \(str\), a callable that gives one, or None: "
    for url, rule in (("http://user:secret@h", ".*, not http://$"), ("redis://user:secret@h:99999", ".*the port must be a whole number")):
        with pytest.raises(seriatim.Invalid, match=start + rule) as raised:
            seriatim.redis = url
        assert "secret" not in str(raised.value)
    with pytest.raises(seriatim.Invalid, match=r"^namespace must be a text of 1 to 128 bytes of UTF-8 without a zero byte, not 'a\\x00b' \(str\)$"):
        seriatim.namespace = "a\0b"


def test_a_url_of_the_environment_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERIATIM_REDIS_URL", "http://x")
    seriatim.redis = None
    assert seriatim.redis_url() == "http://x"
    with pytest.raises(seriatim.Invalid, match="^Redis URL: the scheme must be "):
        seriatim.nodes()


def test_every_setting_is_declared_and_said() -> None:
    assert set(REFUSED) == set(NAMES)
    assert set(NAMES) <= set(seriatim.__annotations__) | set(dir(seriatim))
    assert all(f"\n{name} " in str(seriatim.__doc__) for name in NAMES)


def test_settings_have_these_defaults() -> None:
    seriatim.reset_settings()
    assert (seriatim.poll_interval, seriatim.threads_per_node, seriatim.redis, seriatim.client_pool_size) == (1, 5, None, 5)
    assert (seriatim.pool_timeout, seriatim.lease_time, seriatim.stop_timeout, seriatim.namespace) == (5, 10, 25, "seriatim")
    assert (seriatim.wait_replicas, seriatim.wait_timeout) == (0, 1)
    assert seriatim.workers == seriatim.server_middlewares == seriatim.client_middlewares == []
    assert seriatim.on_server_init.functions == seriatim.last_words.functions == []
    assert (seriatim.dump_payload, seriatim.load_payload) == (None, None)
    assert seriatim.format_error(ValueError("text")) == "ValueError: text"
    assert seriatim.dump_error("text") == seriatim.load_error("text") == "text"
    assert seriatim.build_scheduler() == seriatim.build_lag_scheduler()
    assert seriatim.build_splitter()([]) is None


def test_a_name_that_is_no_setting_cannot_be_set() -> None:
    with pytest.raises(AttributeError, match="seriatim has no setting 'lease_tme' \\(did you mean lease_time\\?\\); there are workers, poll_interval"):
        seriatim.lease_tme = 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="module 'seriatim' has no attribute 'lease_tme'"):
        seriatim.lease_tme  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("worker", [], " (did you mean workers?)"),
        ("worker", lambda: [], " (did you mean workers?)"),
        ("Worker", [], " (did you mean workers?)"),
        ("build_lag_scheduler", lambda: None, " (did you mean build_scheduler?)"),
        ("pop", 5, ""),
        ("events", None, ""),
        ("NAMES", [], ""),
    ],
)
def test_what_the_module_gives_cannot_be_set_like_a_setting(name: str, value: Any, hint: str) -> None:
    before = getattr(seriatim, name)
    with pytest.raises(AttributeError, match="^" + re.escape(f"seriatim has no setting {name!r}{hint}; there are workers, ")):
        setattr(seriatim, name, value)
    assert getattr(seriatim, name) is before


def test_a_test_may_put_a_function_in_the_place_of_another() -> None:
    before = seriatim.nodes, seriatim.Server
    with mock.patch("seriatim.nodes", return_value=[]), mock.patch("seriatim.Server"):
        assert (seriatim.nodes(), seriatim.Server is before[1]) == ([], False)
    assert (seriatim.nodes, seriatim.Server) == before


def test_a_mock_sets_a_setting_and_sets_its_former_value_at_its_end() -> None:
    middlewares = seriatim.client_middlewares
    seriatim.push_timeout = 7
    with mock.patch.object(seriatim, "push_timeout", 1), mock.patch("seriatim.client_middlewares", []):
        with mock.patch("seriatim.push_timeout", 2):
            assert settings.push_timeout == seriatim.push_timeout == 2
        assert settings.push_timeout == seriatim.push_timeout == 1
        assert settings.client_middlewares is not middlewares
    assert settings.push_timeout == seriatim.push_timeout == 7
    assert settings.client_middlewares is seriatim.client_middlewares is middlewares


def test_workers_that_a_mock_set_are_as_if_never_set_at_its_end() -> None:
    with mock.patch.object(seriatim, "workers", ["mocked:Worker"]), mock.patch("seriatim.workers", []):
        assert settings.workers_set
    assert not settings.workers_set
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seriatim, "workers", ["mocked:Worker"])
        assert settings.workers_set
    assert not settings.workers_set
    seriatim.workers = []
    with mock.patch("seriatim.workers", ["mocked:Worker"]):
        pass
    assert settings.workers_set


def test_a_setting_that_was_deleted_is_gone_until_it_is_set_or_all_are_reset() -> None:
    for put_back in (lambda: setattr(seriatim, "lease_time", 3), seriatim.reset_settings):
        del seriatim.lease_time
        assert not hasattr(seriatim, "lease_time")
        put_back()
        assert seriatim.lease_time == settings.lease_time
    with pytest.raises(AttributeError):
        del seriatim.no_such_name  # type: ignore[attr-defined]


def test_lists_are_live_and_hooks_are_decorators() -> None:
    seriatim.server_middlewares.append(lambda worker, batch, call_next: call_next())
    assert len(settings.server_middlewares) == 1

    @seriatim.on_server_init
    def first() -> None: ...

    @seriatim.on_server_init
    async def second() -> None: ...

    assert settings.server_init_hooks == [first, second]
    seriatim.on_server_init = first  # type: ignore[assignment]
    assert settings.server_init_hooks == [first]
    seriatim.on_server_init = None  # type: ignore[assignment]
    assert settings.server_init_hooks == []
    seriatim.last_words(print)
    seriatim.last_words.clear()
    assert settings.last_words_hooks == []
    with pytest.raises(seriatim.Invalid, match="^hook must be callable"):
        seriatim.last_words(5)  # type: ignore[type-var]


def test_a_setting_knows_whether_it_was_set() -> None:
    seriatim.reset_settings()
    assert not settings.workers_set and not settings.threads_set
    seriatim.workers = []
    seriatim.threads_per_node = 5
    assert settings.workers_set and settings.threads_set


def test_the_module_is_one_to_the_tools() -> None:
    assert set(NAMES) <= set(dir(seriatim))
    program = "from seriatim import *; import seriatim, pydoc; pydoc.render_doc(seriatim); print(Worker, worker, lease_time)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "NameError: name 'lease_time' is not defined" in ended.stderr


def test_an_extension_of_another_version_is_refused(tmp_path: Any) -> None:
    program = "import seriatim._version as v"  # imports the package first, so the check is in the way
    spoiled = f"import sys, types; m = types.ModuleType('seriatim._native'); m.version = '0'; sys.modules[m.__name__] = m; {program}"
    ended = subprocess.run([sys.executable, "-c", spoiled], capture_output=True, text=True)
    assert "ImportError: seriatim" in ended.stderr and "compile it again" in ended.stderr
