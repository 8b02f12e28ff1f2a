"""Loads the application and runs the server until TERM or INT."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from concurrent.futures import Future
from functools import partial
from types import FrameType
from typing import Any

from .. import _log
from .._client import private_redis, redis_url, validate
from .._errors import AuthError, Invalid, UsageError
from .._server import application, workers
from .._server.server import Server
from .._server.signals import IGNORED, OTHER, SERVER, Signals
from .._server.supervisor import Supervisor
from .._settings import settings
from .exit_codes import CRASHED, NO_REDIS, STOPPED, USAGE, no_redis
from .options import PARENT, log_level

SWITCH_INTERVAL = 0.001  # seconds: with 5 ms each of several busy threads can hold a signal up by 20 ms and more


class ServerCommand:
    def __init__(self, options: dict[str, Any], arguments: list[str]) -> None:
        """arguments: all of the command line, for the processes of -p."""
        self._options = options
        self._arguments = arguments

    def run(self) -> int:
        """The exit code."""
        path = self._options.get("require")
        if path is None:
            raise UsageError("-r is missing: name the application's file or folder")
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_INTERVAL))
        log = _log.Output(sys.stdout, self._options.get("log_format"), log_level(self._options))
        signals = Signals.while_loading()
        application.load(path)
        log.settle()
        self._apply()
        workers.chosen(None, self._options.get("queues"))
        if redis_url.is_none():
            private_redis.url()
        if self._processes() > 1:
            return Supervisor(self._processes(), settings.stop_timeout, self._child, signals).run()
        return self._serve(self._parent(), signals)

    def _apply(self) -> None:
        if "threads" in self._options:
            settings.threads_per_node = self._options["threads"]
        if "timeout" in self._options:
            settings.stop_timeout = self._options["timeout"]

    # ---- processes

    def _processes(self) -> int:
        """One below a supervisor."""
        count = validate.integer("-p", self._options.get("processes", 1), 1, 1000)
        return 1 if "parent" in self._options else count

    def _child(self, descriptor: int) -> list[str]:
        """The words that start one of several processes: those that started this one."""
        count = len(self._arguments)
        started_here = sys.orig_argv[-count:] == self._arguments
        program = sys.orig_argv[1:-count] if started_here else ["-m", "seriatim"]
        return [sys.executable, *program, PARENT, str(descriptor), *self._arguments]

    def _parent(self) -> int | None:
        """Readable when the supervisor is gone."""
        descriptor: int | None = self._options.get("parent")
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
        return descriptor

    # ---- one process

    def _serve(self, parent: int | None, signals: Signals) -> int:
        """signals: those of the time of loading, which ends when the server is about to claim."""
        server = None
        try:
            new = Server(queues=self._options.get("queues"))
            new._before_claims = partial(begin, new, signals, parent)
            server = new.start()
            watch(server, signals, parent)
            return stop(server, signals)
        except Invalid as error:
            return final(error, USAGE)
        except SystemExit:
            if server is None:
                raise
            return stop(server, signals)
        except BaseException as error:
            last_words(error)
            return final(error, NO_REDIS if no_redis(error) else CRASHED)


def leave_it() -> None:
    """
    Below a supervisor a second TERM does not mean haste: systemd, say, sends TERM to all of them, and the supervisor
    hands its own on. It is the supervisor that kills them at its second one.
    """


def begin(server: Server, signals: Signals, parent: int | None) -> None:
    """Before the first claim. Of a SIGTSTP that came earlier the log tells when the server runs."""
    signals.begin(SERVER, None if parent is None else leave_it)
    if signals.has_heard("SIGTSTP"):
        server._runner.quiet()


def watch(server: Server, signals: Signals, parent: int | None) -> None:
    """Until the server is to stop."""
    while True:
        name = signals.wait(1, parent)
        if name in ("SIGTERM", "SIGINT", OTHER):
            return
        if name == "SIGTSTP":
            server.quiet()
        elif name == "SIGTTIN":
            dump(server)
        elif name in IGNORED:
            _log.info("signal", f"{name} is ignored")
        if server.failure is not None:
            raise server.failure
        if server.stopping:  # the dashboard asked for it
            return


def stop(server: Server, signals: Signals) -> int:
    """
    Signals are heard while it stops: TTIN shows what it waits for, a second TERM or INT ends it at once.

    Jobs that still run would hold the interpreter's exit up, so the process ends without it then.
    """
    began = time.monotonic()
    stopped = in_background(server)
    while not stopped.done():
        if signals.wait(0.05) == "SIGTTIN":
            dump(server)
    clean = stopped.result()
    sys.stdout.flush()
    if not clean:
        os._exit(STOPPED)
    limit_exit(STOPPED, max(settings.stop_timeout - (time.monotonic() - began), 1))
    return STOPPED


def in_background(server: Server) -> Future[bool]:
    """The result of its stop."""
    stopped: Future[bool] = Future()

    def work() -> None:
        try:
            stopped.set_result(server.stop(settings.stop_timeout))
        except BaseException as error:
            stopped.set_exception(error)

    threading.Thread(target=work, name="seriatim-stop", daemon=True).start()
    return stopped


def limit_exit(code: int, seconds: float) -> None:
    """The application's own threads and exit handlers get so long, then the process ends."""

    def end() -> None:
        time.sleep(seconds)
        names = ", ".join(thread.name for thread in holders())
        _log.warn("exit", f"exits after {seconds:.0f} s; still running: {names}")
        os._exit(code)

    threading.Thread(target=end, name="seriatim-exit", daemon=True).start()


def holders() -> list[threading.Thread]:
    """The threads that the interpreter's exit waits for, daemon threads of executors among them. The main one only waits for others."""
    executors = sys.modules.get("concurrent.futures.thread")
    pooled = list(getattr(executors, "_threads_queues", ()))
    main = threading.main_thread()
    others = [thread for thread in threading.enumerate() if thread is not main and (not thread.daemon or thread in pooled)]
    return others or [main]


def dump(server: Server) -> None:
    """Where every thread and every task of the event loop is, innermost call first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    stacks = [("thread", names.get(ident, str(ident)), calls(frame)) for ident, frame in sys._current_frames().items()]
    try:
        stacks += [("task", name, lines[::-1]) for name, lines in server.tasks()]
    except RuntimeError:  # they change too quickly to be listed
        pass
    for kind, name, lines in stacks:
        _log.info(kind, f"{name}: {' | '.join(lines)}")


def calls(frame: FrameType | None) -> list[str]:
    found = []
    while frame is not None:
        found.append(f"{frame.f_code.co_filename}:{frame.f_lineno}:in {frame.f_code.co_name}")
        frame = frame.f_back
    return found


def last_words(error: BaseException) -> None:
    for hook in settings.last_words_hooks:
        try:
            hook(error)
        except BaseException as raised:
            _log.error("hook", f"last_words raised {_log.describe(raised)}")


def final(error: BaseException, code: int) -> int:
    _log.write(_log.FATAL, "exit", str(error) if code == USAGE else _log.describe(error))
    if code == CRASHED:
        print(_log.printable_lines("".join(traceback.format_exception(error)).rstrip("\n")), file=sys.stderr)
    else:
        silent = code == NO_REDIS and not isinstance(error, AuthError)  # Redis does not answer
        print("seriatim:", _log.one_line(f"no Redis: {error}" if silent else error), file=sys.stderr)
    limit_exit(code, 5)
    return code
