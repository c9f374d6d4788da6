"""Bodies as they come in: none too large, none too slow, and not too many at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hgkt.serving.problems import Problem
from hgkt.serving.queues import Pace
from hgkt.serving.settings import ServiceSettings

MIN_BYTES_PER_SECOND = 64 * 1024
"""How fast a body must come, on the average, beyond the first seconds."""

_SMALL = 2**20
_UNKNOWN = 10**18
_TURNS = 3  # a body waits for room as long as three slow clients may take


@dataclass
class Lane:
    """Requests whose bodies share room.

    A body that finds none waits outside: the server does not read on, and so the client stops
    sending. The first to come is the first to be let in.

    Parameters
    ----------
    max_bytes : int
        The largest body.
    max_held : int
        Bytes of all bodies that are held at once; not less than `max_bytes`.
    max_waiting : int
        How many bodies may wait for room.
    prefix : str
        Which paths belong to it.
    max_length : int, optional
        Which announced lengths belong to it; all by default.
    unless : str, optional
        Paths that end so belong elsewhere.
    """

    max_bytes: int
    max_held: int
    max_waiting: int = 128
    prefix: str = ""
    max_length: int | None = None
    unless: str | None = None
    n_held: int = field(default=0, init=False)
    _waiting: deque[tuple[int, asyncio.Future[None]]] = field(default_factory=deque, init=False)

    def takes(self, path: str, length: int) -> bool:
        """Return whether a request belongs here."""
        fits = self.max_length is None or length <= self.max_length
        elsewhere = self.unless is not None and path.endswith(self.unless)
        return fits and path.startswith(self.prefix) and not elsewhere

    async def enter(self, n_bytes: int, patience: float) -> None:
        """Take room for a body, or wait for it; raise a Problem where there is none for long."""
        if not self._waiting and self.n_held + n_bytes <= self.max_held:
            self.n_held += n_bytes
            return
        if len(self._waiting) >= self.max_waiting:
            raise Problem.busy("too many bodies are waiting to be received")
        place = n_bytes, asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            async with asyncio.timeout(patience):
                await place[1]
        except BaseException as error:
            if place in self._waiting:
                self._waiting.remove(place)
            else:  # let in at the very moment
                self.leave(n_bytes)
            if isinstance(error, TimeoutError):
                raise Problem.busy("too many bodies are being received") from None
            raise

    def leave(self, n_bytes: int) -> None:
        """Give room back, and let in who waits for it."""
        self.n_held -= n_bytes
        while self._waiting and self.n_held + self._waiting[0][0] <= self.max_held:
            size, future = self._waiting.popleft()
            self.n_held += size
            if not future.done():
                future.set_result(None)


def lanes_of(settings: ServiceSettings) -> list[Lane]:
    """Return the lanes of a service, the last of them for whatever is in no other.

    Changes of classes have one of their own, so that no number of predictions keeps them out, and
    so have small bodies, that they need not wait for large ones.
    """
    most, waiting = settings.max_body_bytes, settings.max_waiting
    room = max(settings.max_bodies_bytes, most)
    changes, small = min(settings.max_class_bytes, most), min(_SMALL, most)
    return [
        Lane(changes, 4 * changes, waiting, "/v1/classes", unless="/examples"),
        Lane(small, max(room // 4, small), waiting, max_length=small),
        Lane(most, room, waiting),
    ]


class BodyIntake:
    """ASGI middleware that bounds bodies: their size, their time and their number.

    Nothing is read here. What the application takes is counted while it takes it, so that a
    request that is refused for its key costs no more than its head.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    lanes : list of Lane
        Tried in their order.
    patience : float
        Seconds that the next part of a body may take.
    pace : Pace, optional
        At which the parts of all bodies together are taken.
    """

    def __init__(
        self, app: ASGIApp, lanes: list[Lane], patience: float, pace: Pace | None = None
    ) -> None:
        self.app, self.lanes, self.patience = app, lanes, patience
        self.pace = pace or Pace()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        length = announced_length(dict(scope["headers"]))
        lane = next(each for each in self.lanes if each.takes(scope["path"], length))
        body = _Body(lane, min(length, lane.max_bytes), receive, self.patience, self.pace)
        if length > lane.max_bytes and length != _UNKNOWN:
            body.problem = body.too_large()
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            # Whatever the application made of the interruption, the client is told the reason.
            if body.problem is not None and not started:
                return
            started = True
            await send(message)

        try:
            if body.problem is None:
                await self.app(scope, body.receive, watched)
        except Problem:
            if body.problem is None:
                raise
        finally:
            body.release()
        if body.problem is not None and not started:
            await body.problem.response()(scope, receive, send)


def announced_length(headers: Mapping[bytes, bytes]) -> int:
    """Return how long a body is by its head: 0 where there is none, 10¹⁸ where it is not said.

    Examples
    --------
    >>> announced_length({b"content-length": b"5"}), announced_length({})
    (5, 0)
    """
    length = headers.get(b"content-length", b"")
    if length.isdigit():
        # Far more digits than any length has are not worth a conversion.
        return int(length) if len(length) <= 17 else _UNKNOWN - 1
    return _UNKNOWN if b"transfer-encoding" in headers else 0


class _Body:
    """The body of one request while it comes in."""

    def __init__(
        self, lane: Lane, room: int, receive: Receive, patience: float, pace: Pace
    ) -> None:
        self.lane, self.room, self._receive = lane, room, receive
        self.patience, self.pace = patience, pace
        self.problem: Problem | None = None
        self._n_bytes = 0
        self._start: float | None = None
        self._complete = False

    async def receive(self) -> Message:
        """Hand on the next part, counted; raise a Problem where there is one."""
        if self._complete:  # what comes now is that the client goes
            return await self._receive()
        try:
            if self._start is None:
                await self.lane.enter(self.room, _TURNS * self.patience)
                self._start = time.monotonic()
            else:
                await self.pace.turn()
            return await self._next(self._start)
        except Problem as problem:
            self.problem = problem
            raise

    async def _next(self, start: float) -> Message:
        try:
            async with asyncio.timeout(self.patience):
                message = await self._receive()
        except TimeoutError:
            raise self._too_slow() from None
        self._n_bytes += len(message.get("body", b""))
        if self._n_bytes > self.lane.max_bytes:
            raise self.too_large()
        self._complete = not message.get("more_body", False)
        allowed = self.patience + self._n_bytes / MIN_BYTES_PER_SECOND
        if not self._complete and time.monotonic() - start > allowed:
            raise self._too_slow()
        return message

    def release(self) -> None:
        """Give back the room of the body."""
        if self._start is not None:
            self.lane.leave(self.room)
            self._start = None

    def too_large(self) -> Problem:
        """Return what a client is told whose body is too large."""
        most = f"{self.lane.max_bytes:,} bytes, the most that is taken here"
        return Problem(413, f"the body is larger than {most}")

    def _too_slow(self) -> Problem:
        return Problem(
            408,
            f"the body came too slowly: more than {self.patience:g} s without a part of it, or "
            f"less than {MIN_BYTES_PER_SECOND:,} bytes per second",
        )
