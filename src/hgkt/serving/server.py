"""The server of one process: uvicorn, with a stated way to end.

Told to stop, the service says so at /ready and goes on answering for a grace, so that load
balancers can turn elsewhere. Then it accepts those who wait in the listen queue, closes the queue,
answers every request that it has begun to read, and ends. Who connects while the queue closes is
refused before a request is read, and can safely ask elsewhere.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from hgkt.exceptions import DataError

_MARGIN_SECONDS = 2.0  # for what is not a request: closing the registry and the process itself
_MAX_QUEUED = 4096  # more than any system lets wait in a listen queue by default
_GOODBYE = (b"connection", b"close")
# What a name may stand for, and this machine lacks: often the address ::1.
_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

logger = logging.getLogger(__name__)


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
        self._counts_signals = alone
        self._stop_at: float | None = None
        self._told = threading.Event()

    # ------------------------------------------------------------------ being told to stop
    def stop(self) -> None:
        """Begin to end, where that has not begun; any thread and signal handler may call this."""
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
        if self._stop_at is not None and self._counts_signals:
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
        if self._alone:
            self._alone = False
            tell_stopping(self._ending)
        # Clients shall not keep connections that are about to be closed.
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


def tell_stopping(ending: Ending) -> None:
    """Say in the log what happens between a signal and the end; at once without a grace."""
    if ending.grace > 0:
        logger.warning(
            "told to stop: requests are taken for %g s more; a second signal skips that",
            ending.grace,
        )


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Take a port at all addresses of a host; they listen when a server takes them.

    Parameters
    ----------
    host : str
        A name or an address.
    port : int
        The port; 0 takes a free one.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise _cannot_listen(host, port, error) from None
    sockets: list[socket.socket] = []
    problem: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        # With port 0 the other addresses take the one that the first was given.
        chosen = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bind(family, (address[0], chosen, *address[2:])))
        except OSError as error:
            problem = problem or error
    taken = problem is not None and problem.errno not in _NO_SUCH_ADDRESS
    if problem is not None and (taken or not sockets):
        close_sockets(sockets)
        raise _cannot_listen(host, port, problem)
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


def _cannot_listen(host: str, port: int, error: OSError) -> DataError:
    return DataError(f"cannot listen at {host}, port {port}: {error.strerror or error}")
