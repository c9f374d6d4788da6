"""The server: uvicorn with a stated way to end, in one process or in several.

Told to stop, the service says so at /ready and goes on answering for a grace, so that load
balancers can turn elsewhere. Then uvicorn closes the listen queue, answers every request that it
has begun to read, and ends. Whom it turns away had no byte of the request read, and can safely ask
elsewhere.

Several server processes share one port. Their parent starts, replaces and ends them.
"""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import logging.config
import math
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI
from prometheus_client.multiprocess import mark_process_dead
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from hgkt._processes import end_with_parent
from hgkt.exceptions import DataError, HGKTError
from hgkt.serving.app import check_folder, create_app
from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

_MARGIN_SECONDS = 2.0  # for what is not a request: closing the registry and the process itself
_BACKLOG = 2048  # connections that wait to be accepted
_MAX_PIPELINED = 16  # requests sent ahead on one connection; no client in use sends any
_GOODBYE = (b"connection", b"close")
# What a name may stand for, and this machine lacks: often the address ::1.
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_LOOK_SECONDS = 0.2
_PAUSE_SECONDS = 2.0  # between two starts of one worker
_STOPS = (signal.SIGINT, signal.SIGTERM)

logger = logging.getLogger(__name__)


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
        self._bound_head(self._n_unread)
        if self._problem is not None and not self.transport.is_closing():
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Start the request, unless its head is too large or too many were sent ahead."""
        n_bytes = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._bound_head(n_bytes)
        if len(self._cycles) > _MAX_PIPELINED:
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
        headers = [b"%b: %b\r\n" % pair for pair in [*answer.raw_headers, _GOODBYE]]
        head = STATUS_LINE[problem.status_code] + b"".join(headers)
        self.transport.write(head + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def _bound_head(self, n_bytes: int) -> None:
        most = self.config.h11_max_incomplete_event_size or 0
        if n_bytes > most:
            self._problem = Problem(431, f"the head of the request is larger than {most:,} bytes")


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
        Its limits, and how long it may take to end.
    alone : bool
        Whether this is the whole service, and not a worker.
    """

    def __init__(self, app: FastAPI, settings: ServiceSettings, alone: bool) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,  # it is as the command has said
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
        self._stop_at = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; that it came is all that is remembered, so that it is not raised again."""
        if self._stop_at == math.inf:
            # While it starts nobody can have connected. It ends on its first look then, and not
            # by `should_exit`, with which uvicorn would leave the registry's thread running.
            grace = self._settings.grace_seconds if self.started else 0.0
            self._stop_at = time.monotonic() + grace
            self._app.state.running = False  # /ready says so from now on
            # Clients shall not keep connections that are about to be closed; uvicorn makes the
            # headers of all answers anew every second, from those of its configuration.
            for headers in (self.server_state.default_headers, self.config.encoded_headers):
                headers.append(_GOODBYE)
            # Whatever hangs, the process ends, and says where it was.
            faulthandler.dump_traceback_later(_longest_end(self._settings), exit=True)
            if self._alone:  # not here: the signal may have come while a line is written
                loop = asyncio.get_running_loop()
                loop.call_soon_threadsafe(_announce_end, self._settings)
        elif self._alone or sig == signal.SIGINT:
            self._stop_at = 0.0

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether it is time to go."""
        return await super().on_tick(counter) or time.monotonic() >= self._stop_at


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
    try:
        found = dict.fromkeys(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        for number, (family, _, _, _, address) in enumerate(found, start=1):
            # With port 0 the other addresses take the one that the first was given.
            own = sockets[0].getsockname()[1] if sockets else port
            try:
                place = (address[0], own, *address[2:])
                sockets.append(socket.create_server(place, family=family, backlog=_BACKLOG))
            except OSError as error:
                others = sockets or number < len(found)
                if error.errno not in _NO_SUCH_ADDRESS or not others:
                    raise
    except OSError as error:
        close_sockets(sockets)
        raise DataError(f"cannot listen at {host}, port {port}: {error.strerror}") from None
    return sockets


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    """Give up what `bind_sockets` took."""
    for sock in sockets:
        sock.close()


# ---------------------------------------------------------------------- several processes
def _work(
    parent: int,
    settings: ServiceSettings,
    sockets: list[socket.socket],
    log_config: dict[str, Any],
    news: Connection | None,
) -> None:
    """Be a worker: load the model, tell the parent of it or why not, and serve."""
    for sign in _STOPS:
        signal.signal(sign, signal.SIG_DFL)
    if os.name == "posix":
        os.setpgid(0, 0)  # what a terminal says is for the parent, which tells the workers
    end_with_parent(parent)
    logging.config.dictConfig(log_config)
    try:
        app = create_app(settings)
    except (HGKTError, OSError) as error:
        if news is None:
            logger.error("worker %d cannot start: %s", os.getpid(), error)
        else:
            news.send(str(error))
        sys.exit(1)
    if news is not None:
        served = app.state.served
        edition = served.current()
        news.send((len(edition.names), edition.n_added, served.registry.database.file))
    ServiceServer(app, settings, alone=False).run(sockets)


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
    """

    def __init__(
        self, settings: ServiceSettings, sockets: list[socket.socket], log_config: dict[str, Any]
    ) -> None:
        # Workers serve the folder as it is now, or none.
        self._settings = settings.model_copy(update={"model_digest": check_folder(settings)})
        self._sockets, self._log_config = sockets, log_config
        # On Linux workers are forked from this process, which has imported everything and done
        # nothing, so that one that died is replaced in a fraction of a second.
        self._context: Any = multiprocessing.get_context(
            "fork" if sys.platform == "linux" else "spawn"
        )
        self._workers: dict[BaseProcess, float] = {}  # and when each was started
        self._signals: list[int] = []

    def run(self, announce: Callable[[int, int], None]) -> bool:
        """Serve until SIGTERM or SIGINT; return whether every worker ended by itself.

        Parameters
        ----------
        announce : callable
            Called with the numbers of classes and of added ones once a worker has the model.
        """
        for sign in _STOPS:
            signal.signal(sign, lambda own, _frame: self._signals.append(own))
        self._start_all(announce)
        while not self._signals:
            self._replace_ended()
            self._wait()
        return self._stop()

    def _start(self, news: Connection | None = None) -> BaseProcess:
        arguments = (os.getpid(), self._settings, self._sockets, self._log_config, news)
        worker: BaseProcess = self._context.Process(target=_work, args=arguments)
        worker.start()
        self._workers[worker] = time.monotonic()
        return worker

    def _start_all(self, announce: Callable[[int, int], None]) -> None:
        """Start one worker, and the others once it has the model: a mistake is told once."""
        news, theirs = self._context.Pipe(duplex=False)
        self._start(theirs)
        code = None
        while not news.poll():
            if self._signals:
                return
            if code is not None and code > 0:  # a killed one, with a code below 0, is replaced
                raise HGKTError(f"the first worker ended with code {code} while it started")
            self._replace_ended(theirs)
            self._wait()
            (first,) = self._workers
            code = first.exitcode
        told = news.recv()
        if isinstance(told, str):
            raise DataError(told)
        n_classes, n_added, file = told
        self._settings = self._settings.model_copy(update={"database_id": file})
        announce(n_classes, n_added)
        for _ in range(self._settings.workers - 1):
            self._start()

    def _replace_ended(self, news: Connection | None = None) -> None:
        """Start a worker for each that has ended; a short-lived one has to wait."""
        if not self._alive():
            check_folder(self._settings)  # where it is another one now, no worker can start
        for worker, started_at in list(self._workers.items()):
            if not worker.is_alive() and time.monotonic() >= started_at + _PAUSE_SECONDS:
                logger.warning(
                    "worker %d ended with code %s; another is started", worker.pid, worker.exitcode
                )
                mark_process_dead(worker.pid)  # its gauges count no more
                del self._workers[worker]
                self._start(news)

    def _stop(self) -> bool:
        """Have the workers stop; kill those that do not in time."""
        _announce_end(self._settings)
        close_sockets(self._sockets)  # the last worker that closes them ends the queue
        limit = _longest_end(self._settings)
        end, in_time = time.monotonic() + limit, True
        while alive := self._alive():
            in_time = time.monotonic() < end
            for worker in alive:
                if in_time:  # again and again: one that starts may have lost the first signal
                    skips_grace = len(self._signals) > 1
                    os.kill(worker.pid or 0, signal.SIGINT if skips_grace else signal.SIGTERM)
                else:
                    logger.error(
                        "worker %d did not end within %g s and is killed", worker.pid, limit
                    )
                    worker.kill()
            self._wait()
        return in_time

    def _alive(self) -> list[BaseProcess]:
        return [worker for worker in self._workers if worker.is_alive()]

    def _wait(self) -> None:
        """Wait a moment, or until a worker ends."""
        wait([worker.sentinel for worker in self._alive()], _LOOK_SECONDS)
