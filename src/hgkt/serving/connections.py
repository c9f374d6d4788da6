"""Connections, bounded in number, time and size of head.

uvicorn has no limit for heads that httptools parses, and no time in which a head must be complete
or an answer read. It takes another protocol class, though, and this is its own with those limits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from http.client import responses
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

PROTOCOL = f"{__name__}:BoundedProtocol"
STATE = "hgkt_connections"
"""Where the application's lifespan leaves the `ConnectionLimits` for the server."""

_MAX_PIPELINED = 16  # requests sent ahead on one connection; no client in use sends any
_MOST_READ = 256 * 1024  # bytes that an event loop hands over at once
_FRAMING = 16  # bytes of framing per byte of a chunked body; five are the usual for tiny chunks
_OWN_FILES = 64  # files and sockets that a worker has open for itself
_SWEEP_SECONDS = 1.0
_MIN_READ = 64 * 1024  # bytes of an answer that a client must read in its time


@dataclass
class ConnectionLimits:
    """What connections may do.

    Parameters
    ----------
    max_connections : int
        How many may be open.
    max_head_bytes : int
        The largest request line with all headers.
    patience : float
        Seconds for a whole head, and for an answer to be read.
    max_unread_bytes : int
        Bytes of all answers that wait for their clients to read them.
    sweeping : bool
        Whether slow clients are looked for at present.
    """

    max_connections: int = 1000
    max_head_bytes: int = 32 * 1024
    patience: float = 10.0
    max_unread_bytes: int = 256 * 2**20
    sweeping: bool = field(default=False, compare=False)

    @classmethod
    def of(cls, settings: ServiceSettings) -> ConnectionLimits:
        """Return the limits of a service; no more connections than there may be open files."""
        most = max(1, open_files_limit() - _OWN_FILES)
        return cls(
            min(settings.max_connections, most),
            settings.max_head_bytes,
            settings.client_seconds,
            settings.max_bodies_bytes,
        )


def open_files_limit() -> int:
    """Return how many files this process may have open, after asking for all it may get."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return 2**20
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**20
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if wanted > soft:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            return soft
    return max(soft, wanted)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is refused, hurried or closed where it asks too much.

    A new connection beyond the limit takes the place of the one that has kept the service waiting
    for the longest time. Connections whose request is being computed are left alone.
    """

    def __init__(self, config: Any, server_state: Any, app_state: Any, _loop: Any = None) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits: ConnectionLimits = app_state.get(STATE) or ConnectionLimits()
        self.since = self.loop.time()
        self._unread_since: float | None = None
        self._n_unread = 0
        self._n_head = self._n_wire = self._n_body = 0
        self._problem: Problem | None = None
        self._unanswered: deque[Any] = deque()  # cycles of requests, those sent ahead too

    # ------------------------------------------------------------------ number
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection in, in the place of an idle one where there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.max_connections:
            waiting = [each for each in self._all() if each is not self and each.waits_for_client()]
            if waiting:
                min(waiting, key=lambda each: each.since).drop()
            else:
                self._refuse(Problem.busy("too many connections are open"))
                return
        if not self.limits.sweeping:
            self.limits.sweeping = True
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def _all(self) -> set[BoundedProtocol]:
        return cast("set[BoundedProtocol]", self.connections)

    def waits_for_client(self) -> bool:
        """Return whether it is the client's turn."""
        cycle = self.cycle
        return (
            cycle is None
            or cycle.more_body
            or self.flow.write_paused
            or (cycle.response_complete and not self.pipeline)
        )

    # ------------------------------------------------------------------ time
    def _sweep(self) -> None:
        """Close connections whose clients take too long; goes on while there are any."""
        now, unread = self.loop.time(), 0
        for connection in sorted(self._all(), key=lambda each: each.since, reverse=True):
            size = connection.transport.get_write_buffer_size()
            unread += size
            if connection.overdue(now):
                connection.hurry()
            elif size and unread > self.limits.max_unread_bytes:
                connection.drop()
        self.limits.sweeping = bool(self.connections)
        if self.connections:
            self.loop.call_later(_SWEEP_SECONDS, self._sweep)

    def overdue(self, now: float) -> bool:
        """Return whether the client has had its time for a head, or for reading an answer.

        Time for a body is kept where it is read; see `hgkt.serving.intake`.
        """
        if self._unread_since is not None:
            size = self.transport.get_write_buffer_size()
            if size <= self._n_unread - _MIN_READ:  # slow, but it goes on
                self._n_unread, self._unread_since = size, now
            return now - self._unread_since > self.limits.patience
        cycle = self.cycle
        between = cycle is None or (cycle.response_complete and not self.pipeline)
        return now - self.since > self.limits.patience and (between or self.transport.is_closing())

    def hurry(self) -> None:
        """Close a connection that is overdue; one that still sends a head is told why."""
        if self._n_head and not self.transport.is_closing():
            self._refuse(Problem(408, "the head of the request was not complete in time"))
        else:
            self.drop()

    def drop(self) -> None:
        """Close at once, without another word."""
        self._abandon()
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that nobody waits for its answers."""
        self._abandon()
        super().connection_lost(exc)

    def _abandon(self) -> None:
        # uvicorn tells the last request alone; the answer to an earlier one would be written to
        # a connection that is closed.
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._unanswered.clear()

    def pause_writing(self) -> None:
        """Note since when the client does not read."""
        super().pause_writing()
        self._unread_since = self.loop.time()
        self._n_unread = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._unread_since = None

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self.since = self.loop.time()
        if self._unanswered:
            self._unanswered.popleft()
        super().on_response_complete()

    # ------------------------------------------------------------------ size of the head
    def data_received(self, data: bytes) -> None:
        """Read what came; refuse what is neither body nor a head of decent size."""
        super().data_received(data)
        # A header that never ends is not told by the parser; nor is what frames a chunk.
        self._n_wire += len(data)
        most = self.limits.max_head_bytes + _MOST_READ + _FRAMING * self._n_body
        if self._n_wire > most and not self.transport.is_closing():
            self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        """Begin to count."""
        super().on_message_begin()
        self.since = self.loop.time()
        self._n_head = self._n_wire = self._n_body = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the request line."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._count_head(len(name) + len(value) + 4)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request."""
        if len(self.pipeline) >= _MAX_PIPELINED:
            self._problem = Problem.busy("too many requests were sent ahead")
            raise ValueError(self._problem.detail)
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        self._n_head = 0

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._n_body += len(body)
        super().on_body(body)

    def _count_head(self, n_bytes: int) -> None:
        self._n_head += n_bytes
        if self._n_head > self.limits.max_head_bytes:
            self._problem = self._too_large()
            raise ValueError(self._problem.detail)  # ends the parsing

    def _too_large(self) -> Problem:
        most = self.limits.max_head_bytes
        return Problem(431, f"the head of the request is larger than {most:,} bytes")

    # ------------------------------------------------------------------ answers
    def send_400_response(self, msg: str) -> None:
        """Say why the request cannot be read."""
        self._refuse(self._problem or Problem(400, "this is not a request that HTTP knows"))

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and close."""
        self._abandon()
        response = problem.response()
        status = problem.status_code
        lines = [f"HTTP/1.1 {status} {responses[status]}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
        self.since = self.loop.time()
