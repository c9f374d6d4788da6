"""The server: uvicorn with a stated way to end, in one process or in several.

Told to stop, the service says so at /ready and goes on answering for a grace, so that load
balancers can turn elsewhere. Then uvicorn closes the listen queue, answers every request that it
has begun to read, and ends. Whom it turns away had no byte of the request read, and can safely ask
elsewhere.

Several server processes share one port. Their parent starts, replaces and ends them.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import logging.config
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import responses
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hgkt._processes import end_with_parent
from hgkt.exceptions import DataError, HGKTError, ModelFolderError
from hgkt.serving.metrics import MULTIPROCESS_FOLDER
from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

_MARGIN_SECONDS = 2.0  # for what is not a request: closing the registry and the process itself
_BACKLOG = 2048  # connections that wait to be accepted
_MAX_PIPELINED = 16  # requests sent ahead on one connection; no client in use sends any
_GOODBYE = (b"connection", b"close")
# What a name may stand for, and this machine lacks: often the address ::1.
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_CANNOT_START, _OTHER_MODEL = 3, 4  # exit codes of a worker
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 2.0  # between two starts of one worker
_STOPS = (signal.SIGINT, signal.SIGTERM)

logger = logging.getLogger(__name__)


class OtherModelError(ModelFolderError):
    """A model folder is not the one that the service was started with."""


# ---------------------------------------------------------------------- connections
class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's faster way to speak HTTP, with the bound of a head that only its slower one has.

    What cannot be read is answered as every other error is, and the connection closed.
    """

    _problem: Problem | None = None
    _n_unread = 0  # bytes since a head was complete or a part of a body came

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cycles: deque[Any] = deque()  # requests that are not answered, in order

    def data_received(self, data: bytes) -> None:
        """Read what came; refuse a header, a trailer or the frame of a chunk without an end."""
        self._n_unread += len(data)
        super().data_received(data)
        if self._n_unread > self._max_head and not self.transport.is_closing():
            self._problem = self._too_large()
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large or too many were sent ahead."""
        n_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if n_bytes > self._max_head:
            self._problem = self._too_large()
        elif len(self._cycles) > _MAX_PIPELINED:
            self._problem = Problem.busy("too many requests were sent ahead")
        if self._problem is not None:
            raise ValueError(self._problem.detail)  # ends the parsing
        super().on_headers_complete()
        self._n_unread = 0
        self._cycles.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._n_unread = 0
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the next request; close where the rest of this one is not wanted."""
        if self._cycles and self._cycles.popleft().more_body:
            self.transport.close()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all requests that nobody waits for them."""
        self._abandon()
        super().connection_lost(exc)

    def _abandon(self) -> None:
        # uvicorn tells the last request alone, and not that a bad one was answered for it.
        for cycle in self._cycles:
            cycle.disconnected = True
            cycle.message_event.set()

    def send_400_response(self, msg: str) -> None:
        """Say why the request cannot be read."""
        self._abandon()
        problem = self._problem or Problem(400, "this is not a request that HTTP knows")
        answer = problem.response()
        status = f"HTTP/1.1 {problem.status_code} {responses[problem.status_code]}".encode()
        headers = [name + b": " + value for name, value in [*answer.raw_headers, _GOODBYE]]
        self.transport.write(b"\r\n".join([status, *headers, b"", bytes(answer.body)]))
        self.transport.close()

    @property
    def _max_head(self) -> int:
        return self.config.h11_max_incomplete_event_size or 32 * 1024

    def _too_large(self) -> Problem:
        return Problem(431, f"the head of the request is larger than {self._max_head:,} bytes")


# ---------------------------------------------------------------------- one process
class ServiceServer(uvicorn.Server):
    """A uvicorn server that goes on answering for a grace after it was told to stop.

    A second signal skips the grace. In a worker SIGTERM is one signal however often it comes: a
    service manager sends it to all processes, and so does the parent.

    Parameters
    ----------
    app : FastAPI
        The service.
    settings : ServiceSettings
        Where it listens, its limits, and how long it may take to end.
    log_config : dict
        As `logging.config.dictConfig` takes it.
    alone : bool
        Whether this is the whole service, and not a worker.
    """

    def __init__(
        self, app: FastAPI, settings: ServiceSettings, log_config: dict[str, Any], alone: bool
    ) -> None:
        config = uvicorn.Config(
            app,
            host=settings.host,
            port=settings.port,
            log_config=log_config,
            access_log=False,  # the service writes its own lines
            server_header=False,
            ws="none",
            http=BoundedProtocol,
            h11_max_incomplete_event_size=settings.max_head_bytes,  # which that one reads too
            limit_concurrency=settings.max_connections,
            timeout_graceful_shutdown=settings.shutdown_seconds,  # type: ignore[arg-type]
        )
        super().__init__(config)
        self._app, self._settings, self._alone = app, settings, alone
        self._stop_at: float | None = None
        self._announced = False

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        try:
            super().run(sockets)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; that it came is all that is remembered, so that it is not raised again."""
        if self._stop_at is None:
            # While it starts nobody can have connected. It ends on its first look then, and not
            # by `should_exit`, with which uvicorn would leave the registry's thread running.
            grace = self._settings.grace_seconds if self.started else 0.0
            self._stop_at = time.monotonic() + grace
            self._app.state.running = False  # /ready says so from now on
            # Whatever hangs, the process ends, and says where it was.
            faulthandler.dump_traceback_later(_longest_end(self._settings), exit=True)
        elif self._alone or sig == signal.SIGINT:
            self._stop_at = 0.0

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether it is time to go."""
        over = await super().on_tick(counter)
        if self._stop_at is None:
            return over
        if self._alone and not self._announced:
            self._announced = True
            _announce_end(self._settings)
        # Clients shall not keep connections that are about to be closed; uvicorn writes the
        # headers anew every second.
        if _GOODBYE not in self.server_state.default_headers:
            self.server_state.default_headers = [*self.server_state.default_headers, _GOODBYE]
        return over or time.monotonic() >= self._stop_at


def _longest_end(settings: ServiceSettings) -> float:
    """Return after how many seconds a process that was told to stop has ended in any case."""
    return settings.grace_seconds + settings.shutdown_seconds + _MARGIN_SECONDS


def _announce_end(settings: ServiceSettings) -> None:
    """Say in the log what happens between a signal and the end; nothing without a grace."""
    if settings.grace_seconds > 0:
        logger.warning(
            "told to stop: requests are taken for %g s more; a second signal skips that",
            settings.grace_seconds,
        )


# ---------------------------------------------------------------------- sockets
def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Take a port at all addresses of a host.

    Parameters
    ----------
    host : str
        A name or an address.
    port : int
        The port; 0 takes a free one.
    """
    sockets: list[socket.socket] = []
    lacking: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in dict.fromkeys(found):
            # With port 0 the other addresses take the one that the first was given.
            own = sockets[0].getsockname()[1] if sockets else port
            try:
                place = (address[0], own, *address[2:])
                sockets.append(socket.create_server(place, family=family, backlog=_BACKLOG))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                lacking = error
        if not sockets and lacking is not None:
            raise lacking
    except OSError as error:
        close_sockets(sockets)
        # Python adds the address to the words of a number above 0; those of getaddrinfo are below.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise DataError(f"cannot listen at {host}, port {port}: {reason}") from None
    return sockets


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    """Give up what `bind_sockets` took."""
    for sock in sockets:
        sock.close()


# ---------------------------------------------------------------------- several processes
def _work(
    settings: ServiceSettings,
    sockets: list[socket.socket],
    log_config: dict[str, Any],
    news: Connection,
) -> None:
    """Be a worker: load the model, tell the parent of it or why not, and serve."""
    for sign in _STOPS:
        signal.signal(sign, signal.SIG_DFL)
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        os.setpgid(0, 0)  # what a terminal says is for the parent, which tells the workers
    end_with_parent(os.getppid())
    logging.config.dictConfig(log_config)
    from hgkt.serving.app import create_app

    try:
        app = create_app(settings)
    except (HGKTError, OSError) as error:
        logger.error("worker %d cannot start: %s", os.getpid(), error)
        with contextlib.suppress(OSError):
            news.send(str(error))
        sys.exit(_OTHER_MODEL if isinstance(error, OtherModelError) else _CANNOT_START)
    served = app.state.served
    edition = served.current()
    news.send((len(edition.names), edition.n_added, served.registry.database.file))
    news.close()
    ServiceServer(app, settings, log_config, alone=False).run(sockets)


@dataclass
class _Worker:
    """A worker's place: the process that fills it, and when it was started."""

    process: BaseProcess
    news: Connection
    started_at: float

    @property
    def alive(self) -> bool:
        """Whether the process runs; one that has ended is a zombie until it is cleared."""
        return self.process.exitcode is None


class Supervisor:
    """Keeps a number of workers serving until it is told to stop.

    uvicorn's own takes no other class of servers, starts workers anew without a pause where they
    cannot serve, and waits for hanging ones for ever at the end.

    Parameters
    ----------
    settings : ServiceSettings
        What they serve.
    sockets : sequence of socket
        Where they listen.
    log_config : dict
        As `logging.config.dictConfig` takes it.
    announce : callable
        Called with the numbers of classes and of added ones once the first worker has the model.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        sockets: Sequence[socket.socket],
        log_config: dict[str, Any],
        announce: Callable[[int, int], None],
    ) -> None:
        self._settings, self._sockets, self._log_config = settings, list(sockets), log_config
        self._announce = announce
        # On Linux workers are forked from this process, which has imported everything and done
        # nothing, so that one that died is replaced in a fraction of a second.
        self._context: Any = multiprocessing.get_context(
            "fork" if sys.platform == "linux" else "spawn"
        )
        self._workers: list[_Worker] = []
        self._announced = False
        self._signals: list[int] = []

    def run(self) -> bool:
        """Serve until SIGTERM or SIGINT; return whether every worker ended by itself."""
        before = {
            sign: signal.signal(sign, lambda own, _frame: self._signals.append(own))
            for sign in _STOPS
        }
        try:
            # One worker is started, and the others once it has the model: a mistake is told once.
            self._workers.append(self._start())
            while not self._signals:
                codes = [worker.process.exitcode for worker in self._workers]
                self._hear_first()
                self._replace_ended(codes)
                self._wait()
            return self._stop()
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _start(self) -> _Worker:
        news, theirs = self._context.Pipe(duplex=False)
        arguments = (self._settings, self._sockets, self._log_config, theirs)
        process = self._context.Process(target=_work, args=arguments, name="hgkt-worker")
        # A signal must not come before the worker is ready to die of it.
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
        process.start()
        if os.name == "posix":
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        theirs.close()  # so that the worker's end is the end of the pipe
        return _Worker(process, news, time.monotonic())

    def _hear_first(self) -> None:
        """Take in that the first worker has the model, or why it cannot start."""
        news = self._workers[0].news
        if self._announced or not news.poll():
            return
        try:
            told = news.recv()
        except EOFError:  # somebody killed it
            return
        if isinstance(told, str):
            raise DataError(told)
        n_classes, n_added, file = told
        self._announced = True
        self._settings = self._settings.model_copy(update={"database_id": file})
        self._announce(n_classes, n_added)
        self._workers += [self._start() for _ in range(self._settings.workers - 1)]

    def _replace_ended(self, codes: Sequence[int | None]) -> None:
        """Start a worker in the place of each that has ended; a short-lived one has to wait."""
        if all(code == _OTHER_MODEL for code in codes):
            raise OtherModelError(
                f"no worker can serve {self._settings.model} any more, since the folder is not "
                "the one that the service was started with"
            )
        for place, code in enumerate(codes):
            worker = self._workers[place]
            if code is not None and time.monotonic() >= worker.started_at + _PAUSE_SECONDS:
                logger.warning(
                    "worker %d ended with code %s; another is started", worker.process.pid, code
                )
                self._clear(worker)
                self._workers[place] = self._start()

    def _stop(self) -> bool:
        """Have the workers stop, each signal once more; kill those that do not in time."""
        _announce_end(self._settings)
        close_sockets(self._sockets)  # the last worker that closes them ends the queue
        limit = _longest_end(self._settings)
        end, n_told, in_time = time.monotonic() + limit, 0, True
        while alive := [worker.process for worker in self._workers if worker.alive]:
            if time.monotonic() > end:
                in_time = False
                for process in alive:
                    logger.error(
                        "worker %d did not end within %g s and is killed", process.pid, limit
                    )
                    process.kill()
            elif n_told < len(self._signals):
                for process in alive:  # the second one skips the grace
                    os.kill(process.pid or 0, signal.SIGINT if n_told else signal.SIGTERM)
                n_told += 1
            self._wait()
        for worker in self._workers:
            self._clear(worker)
        return in_time

    def _wait(self) -> None:
        """Wait a moment, or until a worker ends."""
        wait([one.process.sentinel for one in self._workers if one.alive], _LOOK_SECONDS)

    def _clear(self, worker: _Worker) -> None:
        if MULTIPROCESS_FOLDER in os.environ:
            mark_process_dead(worker.process.pid)  # its gauges count no more
        worker.process.join()
        worker.process.close()
        worker.news.close()
