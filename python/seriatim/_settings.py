"""The settings, which are attributes of the module seriatim. Each is checked when it is set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union

from . import _log, _native
from ._client import validate
from ._errors import Invalid

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Hooks:
    """Functions to call, in this order. It is a decorator that adds one."""

    def __init__(self) -> None:
        self.functions: list[Callable[..., Any]] = []

    def __call__(self, function: F) -> F:
        self.functions.append(validate.function("hook", function))
        return function

    def clear(self) -> None:
        self.functions.clear()


class Setting(Generic[T]):
    """
    The rules of one setting; its value is an attribute of the Settings. `connects`: with another value another pool of
    connections is needed.
    """

    def __init__(self, check: Callable[[str, Any], T], default: Callable[[], T], connects: bool = False) -> None:
        self.check = check
        self.default = default
        self.connects = connects

    if TYPE_CHECKING:

        def __get__(self, settings: Settings, owner: type) -> T: ...

        def __set__(self, settings: Settings, value: T) -> None: ...


def _integer(low: int, high: int) -> Callable[[str, Any], int]:
    return partial(validate.integer, low=low, high=high)


def _seconds(low: float, high: float) -> Callable[[str, Any], float]:
    return partial(validate.seconds, low=low, high=high)


check_wait_replicas = partial(_integer(0, 1000), "wait_replicas")
check_wait_timeout = partial(_seconds(0.001, 10.0), "wait_timeout")
check_push_timeout = partial(_seconds(0.1, 50.0), "push_timeout")


_URL = "a URL (str), a callable that gives one, or None"


def check_url(field: str, url: str) -> str:
    """By the rules of the core, whose errors show of a URL only what can be no password."""
    try:
        _native.Link(url, "seriatim", None, 0)  # opens nothing
    except ValueError as error:
        raise Invalid(f"{field} must be {_URL}: {str(error).removeprefix('Redis URL: ')}") from None
    return url


def _redis(field: str, value: Any) -> Any:
    if isinstance(value, str):
        return check_url(field, value)
    if value is None or callable(value):
        return value
    raise validate.refusal(field, _URL, value)


def _workers(field: str, value: Any) -> list[Any] | Callable[[], Any]:
    return value if callable(value) else validate.sequence(field, value)


def _hooks(field: str, value: Any) -> Hooks:
    if isinstance(value, Hooks):
        return value
    hooks = Hooks()
    if validate.function_or_none(field, value) is not None:
        hooks(value)
    return hooks


def _none() -> Any:
    """Until set_default gives the true one."""


def _same(text: str) -> str:
    return text


def _text(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "replace")


class Settings:
    """All settings of a process."""

    workers = Setting[Union["list[Any]", Callable[[], Any]]](_workers, list)
    poll_interval = Setting[float](_seconds(0.01, 3600.0), lambda: 1)
    threads_per_node = Setting[int](_integer(1, 10_000), lambda: 5)
    redis = Setting[Union[str, Callable[[], str], None]](_redis, lambda: None, connects=True)
    client_pool_size = Setting[int](_integer(1, 10_000), lambda: 5, connects=True)
    pool_timeout = Setting[float](_seconds(0.0, 3600.0), lambda: 5, connects=True)
    push_timeout = Setting[float](lambda _, value: check_push_timeout(value), lambda: 10)
    wait_replicas = Setting[int](lambda _, value: check_wait_replicas(value), lambda: 0)
    wait_timeout = Setting[float](lambda _, value: check_wait_timeout(value), lambda: 1)
    server_middlewares = Setting["list[Callable[..., Any]]"](validate.functions, list)
    client_middlewares = Setting["list[Callable[..., Any]]"](validate.functions, list)
    on_server_init = Setting[Hooks](_hooks, Hooks)
    last_words = Setting[Hooks](_hooks, Hooks)
    build_scheduler = Setting[Callable[[], Any]](validate.function, _none)  # set_default by _server.schedulers
    build_splitter = Setting[Callable[[], Any]](validate.function, _none)  # set_default by _server.splitters
    dump_payload = Setting[Union[Callable[[Any], Union[bytes, str]], None]](validate.function_or_none, lambda: None)
    load_payload = Setting[Union[Callable[[bytes], Any], None]](validate.function_or_none, lambda: None)
    format_error = Setting[Callable[[BaseException], str]](validate.function, lambda: _log.format_error)
    dump_error = Setting[Callable[[str], Union[str, bytes]]](validate.function, lambda: _same)
    load_error = Setting[Callable[[Any], str]](validate.function, lambda: _text)
    lease_time = Setting[float](_seconds(0.2, 3600.0), lambda: 10)
    stop_timeout = Setting[float](_seconds(0.0, 86_400.0), lambda: 25)
    namespace = Setting[str](partial(validate.plain_text, low=1, high=128), lambda: "seriatim", connects=True)

    def __init__(self) -> None:
        self.connection_changes = 0
        self.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        setting = SETTINGS.get(name)
        if setting is None:
            super().__setattr__(name, value)
            return
        checked = setting.check(name, value)
        if name not in self._set:
            self._defaults[name] = getattr(self, name)
            self._set.add(name)
        elif checked is self._defaults[name]:  # a mock puts it back at its end
            self._set.remove(name)
        super().__setattr__(name, checked)
        self._hidden.discard(name)
        self.connection_changes += setting.connects

    def set_default(self, name: str, default: Any) -> None:
        """For modules that need the settings themselves, so that this one cannot need them."""
        SETTINGS[name].default = lambda: default
        if name not in self._set:
            super().__setattr__(name, default)

    def reset(self) -> None:
        """Sets every attribute back to its default."""
        for name, setting in SETTINGS.items():
            super().__setattr__(name, setting.default())
        self._set: set[str] = set()
        self._defaults: dict[str, Any] = {}  # of those in _set
        self._hidden: set[str] = set()
        self.connection_changes += 1

    def hide(self, name: str) -> None:
        """Until it is set again: a mock sets the former value only where the attribute is gone after it was deleted."""
        self._hidden.add(name)

    def is_hidden(self, name: str) -> bool:
        return name in self._hidden

    @property
    def workers_set(self) -> bool:
        return "workers" in self._set or bool(self.workers)

    @property
    def threads_set(self) -> bool:
        return "threads_per_node" in self._set

    @property
    def server_init_hooks(self) -> list[Callable[..., Any]]:
        return self.on_server_init.functions

    @property
    def last_words_hooks(self) -> list[Callable[..., Any]]:
        return self.last_words.functions


SETTINGS: dict[str, Setting[Any]] = {name: value for name, value in vars(Settings).items() if isinstance(value, Setting)}
NAMES = list(SETTINGS)

settings = Settings()


def reset_settings() -> None:
    """Sets every attribute of the module back to its default; for tests."""
    settings.reset()


def loads_errors() -> bool:
    """Is load_error another one than the default? Else errors are stored as they are."""
    return settings.load_error is not _text
