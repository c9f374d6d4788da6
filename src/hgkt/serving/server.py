"""The server: uvicorn with a stated way to end, in one process or in several.

Told to stop, the service says so at /ready and goes on answering for a grace, so that load
balancers can turn elsewhere. Then it accepts those who wait in the listen queue, closes the queue,
answers every request that it has begun to read, and ends. Who connects while the queue closes is
refused before a byte of the request is read, and can safely ask elsewhere.

Several server processes share one port. Their parent starts, watches, replaces and ends them; there
is no other process. It talks to a worker over a pipe and not by signals alone: a terminal and a
service manager signal all processes at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging.config
import multiprocessing
import os
import selectors
import signal
import socket
import sys
import threading
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
_MAX_QUEUED = 4096  # more than any system lets wait in a listen queue by default
_MAX_PIPELINED = 16  # requests sent ahead on one connection; no client in use sends any
_GOODBYE = (b"connection", b"close")
# What a name may stand for, and this machine lacks: often the address ::1.
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
_STOP, _STOP_NOW, _ALIVE = "stop", "stop now", "alive"
_OTHER_MODEL = 4  # exit code of a worker whose model folder is not the one of its parent
_BEAT_SECONDS = 1.0
_LOOK_SECONDS = 0.2
_SILENCE_SECONDS = 60.0  # a worker that says nothing for so long hangs
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

logger = logging.getLogger(__name__)


class OtherModelError(ModelFolderError):
    """A model folder is not the one that the service was started with."""


@dataclass(frozen=True)
class Ending:
    """How the service ends.

    Parameters
    ----------
    grace : float
        Seconds in which it goes on answering after it was told to stop.
    timeout : float
        Seconds that requests under way may take after that.
    """

    grace: float
    timeout: float

    @property
    def limit(self) -> float:
        """Seconds after which a process that was told to stop has ended, whatever happens."""
        return self.grace + self.timeout + _MARGIN_SECONDS

    def announce(self) -> None:
        """Say in the log what happens between a signal and the end; at once without a grace."""
        if self.grace > 0:
            logger.warning(
                "told to stop: requests are taken for %g s more; a second signal skips that",
                self.grace,
            )


def server_options(settings: ServiceSettings, log_config: dict[str, Any]) -> dict[str, Any]:
    """Return the limits of a service as uvicorn takes them."""
    return {
        "log_config": log_config,
        "host": settings.host,
        "port": settings.port,
        "access_log": False,  # the service writes its own lines
        "server_header": False,
        "ws": "none",
        "http": f"{__name__}:{BoundedProtocol.__name__}",
        "h11_max_incomplete_event_size": settings.max_head_bytes,  # which that one reads too
        "limit_concurrency": settings.max_connections,
    }


# ---------------------------------------------------------------------- connections
class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's faster way to speak HTTP, with the bound of a head that only its slower one has.

    What cannot be read is answered as every other error is, and the connection closed.
    """

    _problem: Problem | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._max_head = self.config.h11_max_incomplete_event_size or 32 * 1024
        self._n_unread = 0  # bytes since a head was complete or a part of a body came
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

    def _too_large(self) -> Problem:
        return Problem(431, f"the head of the request is larger than {self._max_head:,} bytes")


# ---------------------------------------------------------------------- one process
class ServiceServer(uvicorn.Server):
    """A uvicorn server that ends as `Ending` says; a second signal skips the grace.

    Parameters
    ----------
    app : FastAPI
        The service.
    ending : Ending
        How it ends.
    alone : bool
        Whether this is the whole service, and tells its operator that it is about to end.
    **options
        For ``uvicorn.Config``.
    """

    def __init__(self, app: FastAPI, ending: Ending, alone: bool = True, **options: Any) -> None:
        options["timeout_graceful_shutdown"] = ending.timeout
        super().__init__(uvicorn.Config(app, **options))
        self._app, self._ending, self._alone = app, ending, alone
        self._announced = False
        self._stop_at: float | None = None
        self._told = threading.Event()

    # ------------------------------------------------------------------ being told to stop
    def stop(self) -> None:
        """Begin to end, unless it has begun; any thread and signal handler may call this."""
        if self._stop_at is None:
            # While it starts nobody can have connected. It ends on its first look then, and not
            # by `should_exit`, with which uvicorn would leave the registry's thread running.
            grace = self._ending.grace if self.started else 0.0
            self._stop_at = time.monotonic() + grace
            self._app.state.running = False  # /ready says so from now on
            self._told.set()

    def stop_now(self) -> None:
        """Begin to end without the grace, or leave out what is left of it."""
        self.stop()
        self._stop_at = 0.0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal; that it came is all that is remembered, so that it is not raised again.

        A worker's parent counts for it: where all processes are signalled at once, the parent's
        word may come before the worker's own signal, which is no second one.
        """
        if self._stop_at is not None and self._alone:
            self.stop_now()
        else:
            self.stop()

    # ------------------------------------------------------------------ the way to the end
    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop."""
        threading.Thread(target=self._cut_off, name="hgkt-end", daemon=True).start()
        super().run(sockets)

    async def on_tick(self, counter: int) -> bool:
        """Look, ten times a second, whether it is time to go."""
        over = await super().on_tick(counter)
        if self._stop_at is None:
            return over
        if self._alone and not self._announced:
            self._announced = True
            self._ending.announce()
        # Clients shall not keep connections that are about to be closed; uvicorn writes the
        # headers anew every second.
        if _GOODBYE not in self.server_state.default_headers:
            self.server_state.default_headers = [*self.server_state.default_headers, _GOODBYE]
        return over or time.monotonic() >= self._stop_at

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let in who waits in the listen queue, close it, answer what was accepted, and end."""
        begin = time.monotonic()
        waiting = [client for sock in sockets or [] for client in _accept_all(sock)]
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        for client in waiting:
            await loop.connect_accepted_socket(self._protocol, client)
        # uvicorn closes connections on which no request has begun: first read what has arrived.
        await asyncio.sleep(0)  # whoever was accepted just now is counted from here on
        while self._unread() and time.monotonic() - begin < self._ending.timeout:
            await asyncio.sleep(0)
        left = begin + self._ending.timeout - time.monotonic()
        self.config.timeout_graceful_shutdown = max(0.0, left)  # type: ignore[assignment]
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        """Return what speaks HTTP on a connection, as uvicorn makes it on accepting one."""
        return self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    def _unread(self) -> bool:
        """Return whether bytes wait on a connection on which no request is under way."""
        connections: set[Any] = self.server_state.connections  # of HTTP: nothing here upgrades
        with selectors.DefaultSelector() as selector:
            for connection in connections:
                cycle, transport = connection.cycle, connection.transport
                if (cycle is None or cycle.response_complete) and not transport.is_closing():
                    selector.register(transport.get_extra_info("socket"), selectors.EVENT_READ)
            return bool(selector.select(timeout=0))

    def _cut_off(self) -> None:
        self._told.wait()
        time.sleep(self._ending.limit)
        logger.error("the process did not end within %g s and is cut off", self._ending.limit)
        os._exit(1)


def _accept_all(sock: socket.socket) -> list[socket.socket]:
    """Return the connections in the listen queue of a socket; at most its length of them."""
    clients: list[socket.socket] = []
    sock.setblocking(False)
    while len(clients) < _MAX_QUEUED:
        try:
            client, _ = sock.accept()
        except OSError:  # the queue is empty, or no file can be opened
            break
        client.setblocking(False)
        clients.append(client)
    return clients


# ---------------------------------------------------------------------- sockets
def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Take a port at all addresses of a host; they listen when a server takes them.

    Parameters
    ----------
    host : str
        A name or an address.
    port : int
        The port; 0 takes a free one.
    """
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for family, _, _, _, address in dict.fromkeys(found):
            # With port 0 the other addresses take the one that the first was given.
            chosen = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(_bind(family, (address[0], chosen, *address[2:])))
            except OSError as error:
                if error.errno not in _NO_SUCH_ADDRESS:
                    raise
                problem = error
        if problem is not None and not sockets:
            raise problem
    except OSError as error:
        close_sockets(sockets)
        raise DataError(
            f"cannot listen at {host}, port {port}: {error.strerror or error}"
        ) from None
    return sockets


def close_sockets(sockets: Sequence[socket.socket]) -> None:
    """Give up what `bind_sockets` took."""
    for sock in sockets:
        sock.close()


def _bind(family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock


# ---------------------------------------------------------------------- several processes
def _work(
    settings: ServiceSettings,
    sockets: list[socket.socket],
    control: Connection,
    options: dict[str, Any],
) -> None:
    """Be a worker: load the model, and serve until the parent says so or ends."""
    for sign in (signal.SIGINT, signal.SIGTERM):
        signal.signal(sign, signal.SIG_DFL)
    end_with_parent(os.getppid())
    logging.config.dictConfig(options["log_config"])
    started: list[ServiceServer] = []
    threading.Thread(target=_obey, args=(control, started), daemon=True).start()
    from hgkt.serving.app import create_app

    try:
        app = create_app(settings)
        served = app.state.served
        counts = len(served.current().names), served.current().n_added
        control.send((counts, served.registry.database.file))
        ending = Ending(settings.grace_seconds, settings.shutdown_seconds)
        server = ServiceServer(app, ending, alone=False, **options)
        started.append(server)
        server.run(sockets)
    except (HGKTError, OSError) as error:
        logger.error("worker %d cannot start: %s", os.getpid(), error)
        with contextlib.suppress(OSError):
            control.send(str(error))
        sys.exit(_OTHER_MODEL if isinstance(error, OtherModelError) else 3)


def _obey(control: Connection, started: list[ServiceServer]) -> None:
    """Do what the parent says, and say that this worker lives."""
    try:
        while True:
            if control.poll(_BEAT_SECONDS):
                message = control.recv()
                if not started:
                    os._exit(0)  # nothing has been accepted
                if message == _STOP:
                    started[0].stop()
                else:
                    started[0].stop_now()
            control.send(_ALIVE)
    except (EOFError, OSError):
        os._exit(1)  # the parent has gone


class _Worker:
    """A worker process and the pipe to it.

    Parameters
    ----------
    process : BaseProcess
        The process; it is started here.
    control, theirs : Connection
        The two ends of the pipe.
    """

    def __init__(self, process: BaseProcess, control: Connection, theirs: Connection) -> None:
        self.process, self.control = process, control
        process.start()
        theirs.close()  # so that the worker's end is the end of the pipe
        self.heard_at = time.monotonic()

    def tell(self, message: str) -> None:
        """Say something to a worker, which may have ended."""
        with contextlib.suppress(OSError):
            self.control.send(message)

    def messages(self) -> list[Any]:
        """Return what the worker has said, but that it lives."""
        found = []
        with contextlib.suppress(EOFError, OSError):
            while self.control.poll(0):
                found.append(self.control.recv())
                self.heard_at = time.monotonic()
        return [message for message in found if message != _ALIVE]

    def kill(self, reason: str) -> None:
        """End a worker that does not end by itself."""
        logger.error("worker %d %s", self.process.pid, reason)
        self.process.kill()
        self.process.join()


@dataclass
class _Place:
    """A worker's place: the one that fills it now, and how those before it fared."""

    worker: _Worker | None = None
    start_at: float = 0.0
    n_failures: int = 0
    closed: bool = False


class Supervisor:
    """Keeps a number of workers serving until it is told to stop.

    uvicorn's own starts workers anew without a pause where they cannot serve, waits for hanging
    ones for ever at the end, and needs a helper process.

    Parameters
    ----------
    settings : ServiceSettings
        What they serve.
    sockets : sequence of socket
        Where they listen.
    options : dict
        For ``uvicorn.Config``.
    announce : callable
        Called with the numbers of classes and of added ones once the first worker has the model.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        sockets: Sequence[socket.socket],
        options: dict[str, Any],
        announce: Callable[[int, int], None],
    ) -> None:
        self._settings, self._sockets, self._options = settings, list(sockets), options
        self._ending = Ending(settings.grace_seconds, settings.shutdown_seconds)
        # On Linux workers are forked from this process, which has imported everything and done
        # nothing, so that one that died is replaced in a fraction of a second.
        self._context: Any = multiprocessing.get_context(
            "fork" if sys.platform == "linux" else "spawn"
        )
        self._places = [_Place() for _ in range(settings.workers)]
        self._announce = announce
        self._announced = False
        self._stopped_at: float | None = None

    def run(self) -> bool:
        """Serve until SIGTERM or SIGINT; return whether every worker ended by itself."""
        came: list[int] = []
        stops = (signal.SIGINT, signal.SIGTERM)
        before = {sign: signal.signal(sign, lambda own, _frame: came.append(own)) for sign in stops}
        try:
            while True:
                while came:
                    came.pop()
                    self._stop()
                if self._stopped_at is None:
                    self._fill_places()
                elif time.monotonic() > self._stopped_at + self._ending.limit:
                    for worker in self._workers():
                        worker.kill(f"did not end within {self._ending.limit:g} s and is killed")
                    return False
                if not self._workers():
                    if self._stopped_at is not None:
                        return True
                    if all(place.closed for place in self._places):
                        raise OtherModelError(
                            f"no worker can serve {self._settings.model} any more, since the "
                            "folder is not the one that the service was started with"
                        )
                self._watch()
        finally:
            for sign, handler in before.items():
                signal.signal(sign, handler)

    def _workers(self) -> list[_Worker]:
        return [place.worker for place in self._places if place.worker is not None]

    def _stop(self) -> None:
        """Have the workers stop; without the grace where they were told so before."""
        message = _STOP if self._stopped_at is None else _STOP_NOW
        if self._stopped_at is None:
            self._stopped_at = time.monotonic()
            self._ending.announce()
            close_sockets(self._sockets)  # the last worker that closes them ends the queue
        for worker in self._workers():
            worker.tell(message)

    # ------------------------------------------------------------------ starting and watching
    def _fill_places(self) -> None:
        now = time.monotonic()
        for place in self._places if self._announced else self._places[:1]:
            if place.worker is None and not place.closed and now >= place.start_at:
                control, theirs = self._context.Pipe()
                arguments = (self._settings, self._sockets, theirs, self._options)
                process = self._context.Process(target=_work, args=arguments, name="hgkt-worker")
                place.worker = _Worker(process, control, theirs)

    def _watch(self) -> None:
        """Wait for something to happen, and take it in."""
        wait(
            [end for one in self._workers() for end in (one.control, one.process.sentinel)],
            timeout=_LOOK_SECONDS,
        )
        for place in self._places:
            worker = place.worker
            if worker is None:
                continue
            for message in worker.messages():
                self._hear(place, message)
            if worker.process.exitcode is not None:
                self._clear(place, worker)
            elif time.monotonic() - worker.heard_at > _SILENCE_SECONDS:
                worker.kill("hangs and is replaced")

    def _hear(self, place: _Place, message: Any) -> None:
        """Take in that a worker has the model, or why it cannot start."""
        if isinstance(message, str):
            if not self._announced:  # nothing ever worked: say why and end
                raise DataError(message)
            return
        counts, file = message
        place.n_failures = 0
        if not self._announced:
            self._announced = True
            self._settings = self._settings.model_copy(update={"database_id": file})
            self._announce(*counts)

    def _clear(self, place: _Place, worker: _Worker) -> None:
        """Clear the place of a worker that has ended, and say when another comes."""
        code, number = worker.process.exitcode, worker.process.pid
        worker.process.join()
        worker.process.close()
        worker.control.close()
        place.worker = None
        if MULTIPROCESS_FOLDER in os.environ:
            mark_process_dead(number)  # its gauges count no more
        if self._stopped_at is not None:
            return
        if code == _OTHER_MODEL:
            place.closed = True
            logger.error("worker %d found another model; its place stays empty", number)
            return
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**place.n_failures) if place.n_failures else 0.0
        place.n_failures += 1
        place.start_at = time.monotonic() + pause
        logger.warning("worker %d ended with code %s; another is started", number, code)
