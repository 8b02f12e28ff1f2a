"""
A node inside this process: takes its share of the shards and runs their jobs.

    server = seriatim.Server(workers=[OrderWorker]).start()
    server.stop()

The command `seriatim` is one with signals around it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import logging
import os
import platform
import re
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Literal

from .. import _log, _native, _worker
from .._client import pool, redis_url, validate
from .._client.connection import Connection
from .._client.threads import Threads, in_threads, own as own_threads
from .._errors import Closed, ConnectionError, Error, Invalid
from .._settings import settings
from .._version import __version__
from .._worker import Worker, event_workers
from . import health, splitters
from .event_loop import LoopThread
from .execution import Execution, Ref
from .host import AsyncHost, Host, Source
from .schedulers import LAG, Builtin, Scheduler, build as build_scheduler
from .splitters import Shard, Splitter
from .workers import chosen as chosen_workers, queue_names

BOOT_SECONDS = 10  # how long a start waits for Redis
EVENT_NAMES = {"recovered": "recover", "failures": "fail"}  # in the log, where they differ
STALLED_SECONDS = 30  # without a begun id while some are claimed and none runs

_running: weakref.WeakSet[Server] = weakref.WeakSet()


class Server:
    """
    threads_per_node is how many deliveries run at once. `def` performs run on that many threads; `async def` ones on one
    event loop, for which a thread waits unless all workers are async.
    """

    def __init__(
        self,
        workers: object = None,
        queues: Sequence[str | bytes] | None = None,
        threads: int | None = None,
    ) -> None:
        """
        workers: as seriatim.workers, whose value is the default.
        queues: only the workers of these.
        threads: seriatim.threads_per_node.

        Raises UsageError: no worker, one without perform, two of one queue, an unknown queue.
        """
        self._threads_count = settings.threads_per_node if threads is None else validate.integer("threads", threads, 1, 10_000)
        self._queues = queues
        self._workers = chosen_workers(workers, queues)
        host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:24]
        self._pid = os.getpid()
        self._id = f"{host}-{self._pid}-{secrets.token_hex(8)}"
        self._host_threads: list[threading.Thread] = []
        self._host_done: list[Callable[[], bool]] = []
        self._ended = threading.Event()
        self._ending = threading.RLock()  # a signal handler may interrupt a stop by another one
        self._finishing = False
        self._clean: bool | None = None  # until it has stopped
        self._stopping = self._abandoned = self._started = self._told_to_stop = False
        self._failure: BaseException | None = None
        self._before_claims: Callable[[], None] = lambda: None  # the command's, whose signals mean something else from then on
        self._moved = time.monotonic()
        self._telling: set[Execution] = set()
        self._loop_thread = LoopThread()
        self._parallel = ""
        self._runner: _native.Runner
        self._context: contextvars.Context
        self._refs: list[Ref]

    # ---- what others may ask

    @property
    def id(self) -> str:
        """The node's id, unique for ever."""
        return self._id

    @property
    def running(self) -> bool:
        return self._started and not self._stopping

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def failure(self) -> BaseException | None:
        """What ended the heartbeat thread, if something did: nothing renews the lease any more, so the process should end."""
        return self._failure

    @property
    def stalled(self) -> str | None:
        """Why the process should be started anew, if it should: what is due was claimed, and is not begun although Redis answers."""
        if self._failure is not None:
            return f"the heartbeat thread ended: {_log.describe(self._failure)}"
        waits = time.monotonic() - self._moved
        return f"nothing was begun for {waits:.0f} s" if waits > STALLED_SECONDS else None

    def stats(self) -> dict[str, int | bool]:
        """
        Figures of the node: commands, processed, failed, refused, shards, running, claimed, connected (and Redis has answered within
        the last lease_time). Raises Closed before the start.
        """
        return self._started_runner().stats()

    def tasks(self) -> list[tuple[str, list[str]]]:
        """Name and stack of what runs on the event loop."""
        return self._loop_thread.tasks()

    # ---- life

    def start(self) -> Server:
        """
        Calls on_server_init, looks up the queues, then claims and runs. Returns when that has begun.

        Raises seriatim.Error when Redis does not answer or refuses a queue, or there is no thread or descriptor; seriatim.Invalid when
        a middleware, scheduler or splitter is not callable: nothing has been started then. Closed: it was started before, or another
        process made it.
        """
        if os.getpid() != self._pid:
            raise Closed("the server belongs to the process that created it; create another one after fork")
        if self._started:
            raise Closed("a server starts once")
        pool.refuse_in_tests("a server")
        try:
            self._begin()
        except BaseException:
            if not self._started:
                self._loop_thread.close(1)
                self._loop_thread = LoopThread()  # for another start
            raise
        queues = ", ".join(_log.utf8(worker.queue_name) for worker in self._workers)
        _log.info("start", f"node {self._id} with {self._parallel} runs {queues} on {self._redacted_url}")
        return self

    def quiet(self) -> Server:
        """Claims nothing more; what runs goes on. The dashboard may ask for it, too. Raises Closed before the start."""
        self._started_runner().quiet()
        _log.info("quiet", "no more jobs are claimed")
        return self

    def stop(self, timeout: float | None = None) -> bool:
        """
        Claims no more, waits up to `timeout` seconds (seriatim.stop_timeout) for running jobs, hands the rest back, releases all shards
        and leaves. Where another thread stops it already, or the dashboard asked for it, this waits for that. In a signal handler
        that interrupted a stop it returns False at once, since that stop goes on when the handler returns. Where an exception
        ended a stop, as Ctrl-C does, the next one finishes it. True: everything finished in time. Raises Invalid for a timeout
        that cannot be.
        """
        seconds = settings.stop_timeout if timeout is None else validate.seconds("timeout", timeout, 0.0, 86_400.0)
        if not self._started or os.getpid() != self._pid:
            return True
        self._stopping = True
        with self._ending:
            if self._finishing:  # by this very thread
                return False
            try:
                self._finishing = True
                if self._clean is None:
                    self._finish(seconds)
                return bool(self._clean)
            finally:
                self._finishing = False

    def _started_runner(self) -> _native.Runner:
        if not self._started:
            raise Closed("the server has not started")
        return self._runner

    def _serve(self, worker: type[Worker]) -> None:
        """
        Runs one more worker from now on, or one that was withdrawn, unless this server was told to run other queues. Raises
        Error: Redis cannot be reached or refuses the queue.
        """
        if not self._may_run(worker):
            return
        self._look_up_shards([worker])
        added = worker not in self._workers
        if added:
            self._workers.append(worker)
            self._refs.append(Ref(worker))  # before the runner knows it: the first delivery may come before this returns
        else:
            self._refs[self._workers.index(worker)] = Ref(worker)
        try:
            self._runner.worker(worker._queue_settings())
        except Exception as error:
            if added:
                self._workers.pop()
                self._refs.pop()
            if not isinstance(error, Closed):  # it stops
                raise
        else:
            _log.info("start", f"node {self._id} runs {_log.utf8(worker.queue_name)}, too")

    def _serve_late(self) -> None:
        """Handlers of events that another thread added while this started. Its call of `on` has returned, so errors are logged."""
        with _worker.events_lock:
            for worker in self._event_workers():
                try:
                    self._serve(worker)
                except (Error, Invalid) as error:
                    _log.error("start", f"{_log.utf8(worker.queue_name)} is not run: {_log.describe(error)}")

    def _event_workers(self) -> list[type[Worker]]:
        """The workers of events that this server is to run and does not run yet."""
        return [worker for worker in event_workers if worker not in self._workers and self._may_run(worker)]

    def _may_run(self, worker: type[Worker]) -> bool:
        return self._queues is None or worker.queue_name in queue_names(self._queues)

    def _withdraw(self, worker: type[Worker]) -> None:
        """Runs the worker no more: claims nothing of its queue, and hands the shards over when what runs has finished."""
        try:
            if worker in self._workers and self._runner.withdraw(self._workers.index(worker)):
                _log.info("stop", f"node {self._id} runs {_log.utf8(worker.queue_name)} no more")
        except Closed:
            pass  # it stops

    # ---- start

    def _begin(self) -> None:
        for hook in settings.server_init_hooks:
            result = hook()
            if asyncio.iscoroutine(result):
                self._wait(result)
        self._workers += self._event_workers()  # handlers that on_server_init has added
        splitter, scheduler = self._check_hooks()
        self._context = contextvars.copy_context()
        self._refs = [Ref(worker) for worker in self._workers]
        self._url = redis_url.resolve()
        shards = self._look_up_shards(self._workers)
        self._shards_count = len(shards)
        health.check(self._url)
        self._start_runner(splitters.groups(splitter, shards, self._threads_count), scheduler)
        _running.add(self)
        _stop_before_executors()
        self._serve_late()

    def _check_hooks(self) -> tuple[Splitter, Scheduler]:
        """Whatever can be refused before Redis is asked; on_server_init may have changed it."""
        validate.functions("server_middlewares", settings.server_middlewares)
        validate.functions("client_middlewares", settings.client_middlewares)
        return splitters.build(), build_scheduler()

    def _look_up_shards(self, workers: list[type[Worker]]) -> list[Shard]:
        """The shards as Redis has them, which it does even for the first start of a queue."""
        connection = Connection(self._url, settings.namespace, redis_url.named_by())
        try:
            self._redacted_url = connection.url
            return [
                Shard(worker, index)
                for worker in workers
                for index in range(connection.layout(worker._queue_settings(), limit=BOOT_SECONDS))
            ]
        finally:
            connection.close()

    def _start_runner(self, groups: list[list[Shard]] | None, scheduler: Scheduler) -> None:
        schedulers = [scheduler, *(build_scheduler() for _ in (groups or [])[1:])]
        self._runner = self._native_runner(len(groups) if groups else self._threads_count, schedulers[0])
        for worker in self._workers:
            self._runner.worker(worker._queue_settings())
        sources = self._sources(groups, schedulers)
        threads = None
        try:
            own_threads()  # for pushes of jobs that run while the program ends, which can start none
            self._before_claims()
            self._threads = threads = Threads("seriatim-thread")
            self._runner.start()
        except BaseException as error:
            if threads:
                threads.shutdown()
            self._runner.close()
            if isinstance(error, (RuntimeError, ConnectionError)):  # Redis has answered: a thread or a descriptor is missing
                raise Error(str(error)) from None
            raise
        self._started = True
        self._moved = time.monotonic()
        self._heartbeat_thread = threading.Thread(target=self._heartbeat_loop, name="seriatim-heartbeat", daemon=True)
        try:
            self._heartbeat_thread.start()
            self._start_hosts(sources, groups is not None)
        except (RuntimeError, OSError) as error:  # there are no more threads or descriptors
            self.stop(0)
            raise Error(str(error)) from None

    def _native_runner(self, threads: int, scheduler: Scheduler) -> _native.Runner:
        description = f"{socket.gethostname()} pid {self._pid} python {platform.python_version()} seriatim {__version__}"
        lease_ms, poll_ms = int(settings.lease_time * 1000), int(settings.poll_interval * 1000)
        number = _builtin(scheduler)
        return _native.Runner(
            self._url, settings.namespace, "seriatim-server", self._id, description, lease_ms, poll_ms, threads, number
        )

    def _sources(self, groups: list[list[Shard]] | None, schedulers: list[Scheduler]) -> list[Source]:
        if groups is None:
            return [Source(self, 0, schedulers[0])]
        places = {worker: place for place, worker in enumerate(self._workers)}
        pairs = [[(places[shard.worker], shard.index) for shard in group] for group in groups]
        return [
            Source(self, self._runner.group(_builtin(scheduler), own), scheduler)
            for own, scheduler in zip(pairs, schedulers)
        ]

    def _start_hosts(self, sources: list[Source], fixed_groups: bool) -> None:
        if not fixed_groups and all(ref.is_async for ref in self._refs):
            self._parallel = f"{self._threads_count} tasks"
            self._start_async_host(sources[0])
            return
        hosts = sources if fixed_groups else sources * self._threads_count
        self._parallel = f"{len(hosts)} threads"
        for place, source in enumerate(hosts):
            self._start_host(Host(self, source), place)

    def _start_host(self, host: Host, place: int) -> None:
        thread = threading.Thread(target=host.run, name=f"seriatim-host-{place + 1}", daemon=True)
        thread.start()
        self._host_done.append(lambda: not thread.is_alive())

    def _start_async_host(self, source: Source) -> None:
        host, loop = AsyncHost(self, source, self._threads_count), self._loop_thread.loop
        ended = asyncio.run_coroutine_threadsafe(host.run(), loop)
        self._host_done.append(ended.done)

    # ---- for executions

    def _wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop_thread.wait(coroutine)

    def _in_thread(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        """From the loop: calls it on a thread, with this context."""
        return in_threads(self._threads, function, *arguments)

    # ---- the heartbeat thread

    def _heartbeat_loop(self) -> None:
        """Says that this process' threads answer, and writes the runner's events to the log."""
        interval = min(settings.lease_time / 5.0, 1.0)
        try:
            while not self._ended.is_set():
                self._runner.pulse()
                self._obey(self._runner.asked())
                self._note_moves()
                self._log_events()
                self._ended.wait(interval)
        except Closed:
            pass
        except BaseException as error:
            self._failure = error

    def _obey(self, order: Literal["quiet", "stop"] | None) -> None:
        """As the command does at TSTP and TERM; it ends the process when the server stops."""
        if order is None or self._told_to_stop:
            return
        _log.info(order, "requested from the dashboard")
        if order == "quiet":
            self.quiet()
        else:
            self._told_to_stop = True
            threading.Thread(target=self.stop, name="seriatim-stop", daemon=True).start()

    def _note_moves(self) -> None:
        """While Redis is away, nothing can be begun, and a new process could begin nothing either."""
        stats = self._runner.stats()
        if stats["running"] or self._telling or not stats["claimed"] or not stats["connected"]:
            self._note_move()

    def _note_move(self) -> None:
        self._moved = time.monotonic()

    def _log_events(self) -> None:
        while (event := self._runner.event()) is not None:
            kind, number, text = event
            bad = kind in ("lost", "refused", "recovered", "warning", "failures") or (kind == "link" and number <= 0)
            count = number if number > 0 and kind != "link" else None
            name = EVENT_NAMES.get(kind, kind)
            _log.write(logging.WARNING if bad else logging.INFO, name, text, n=count)

    # ---- end

    def _finish(self, timeout: float) -> None:
        """May be called again where it raised before it noted its result: what was handed back then stays unfinished."""
        self._runner.stop()
        clean = not self._abandoned and self._await(timeout, self._has_stopped)
        unfinished = self._runner.unfinished()
        if not clean:
            self._abandon()
        self._close()
        _log.info("stop", "stopped" if clean else f"stopped; what still ran after {timeout} s: {unfinished}")
        self._clean = clean
        self._runner.close()

    def _has_stopped(self) -> bool:
        return self._runner.stopped() and all(done() for done in self._host_done)

    def _await(self, seconds: float, condition: Callable[[], bool]) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.005)
        return True

    def _abandon(self) -> None:
        """What is on the event loop is cancelled; threads may end with the process."""
        self._abandoned = True
        self._runner.abandon()
        self._await(3, self._runner.stopped)  # which it is after 2 s, whether Redis answers or not
        self._loop_thread.close(1)

    def _close(self) -> None:
        self._ended.set()
        if self._heartbeat_thread.ident is not None:
            self._heartbeat_thread.join(1)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._loop_thread.close(1)
        self._log_events()
        _running.discard(self)


def _builtin(scheduler: Scheduler) -> int:
    """The core's number; of a scheduler of the application's own the core knows nothing."""
    return scheduler.number if isinstance(scheduler, Builtin) else _builtin(LAG)


def running() -> list[Server]:
    """The servers of this process that have started and not stopped."""
    return [server for server in list(_running) if server._pid == os.getpid()]


def stalled() -> str | None:
    """Why /livez is to answer that this process should be started anew; None: its servers get on, or it has none."""
    return next((why for server in running() if (why := server.stalled) is not None), None)


@atexit.register
def _stop_all() -> None:
    """A program that ends while a server runs lets its jobs finish, as the command does."""
    for server in list(_running):
        server.stop()


@cache
def _stop_before_executors() -> None:
    """
    Jobs that run while the program ends may need the threads of executors, asyncio.to_thread for one. Python ends those before
    it calls the functions of atexit, but after the functions that were registered here later than theirs.
    """
    with suppress(AttributeError, RuntimeError):  # this Python has no such functions, or the program ends already
        import concurrent.futures.thread as executors

        def stop() -> None:
            """The main thread has ended. If the program goes on in threads of its own, the servers do, too, until atexit."""
            own = [thread for thread in threading.enumerate() if not thread.daemon and thread not in executors._threads_queues]
            if own == [threading.main_thread()]:
                atexit.unregister(_stop_all)  # or else a Ctrl-C that ends this stop would begin another one
                _stop_all()

        threading._register_atexit(stop)  # type: ignore[attr-defined]
