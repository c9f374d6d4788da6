"""Queues with an end, and others that nobody jumps but who asks for the service's health."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from starlette.types import ASGIApp, Receive, Scope, Send

from hgkt.serving.problems import Problem

T = TypeVar("T")
_AT_ONCE = ("/health", "/ready")


class WorkQueue:
    """Runs work in a few threads; what would wait too long is refused at once with 503.

    Parameters
    ----------
    n_at_once : int
        Number of threads.
    max_waiting : int
        How many may wait for one of them.
    what : str
        What is computed, for messages.
    """

    def __init__(self, n_at_once: int, max_waiting: int, what: str) -> None:
        self._limiter = CapacityLimiter(n_at_once)
        self._most = n_at_once + max_waiting
        self._n_inside = 0
        self.what = what

    def check(self) -> None:
        """Refuse where the queue is full; ask before a body is read."""
        if self._n_inside >= self._most:
            raise Problem.busy(f"too many {self.what} are waiting")

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Return what `work` returns, computed in a thread."""
        self.check()
        self._n_inside += 1
        try:
            return await anyio.to_thread.run_sync(work, *arguments, limiter=self._limiter)
        finally:
            self._n_inside -= 1


class Pace:
    """Lets a few go on in each turn of the event loop, in their order.

    To begin a request takes the event loop a millisecond, and so does a part of a body. When
    hundreds come at the same moment, whoever asks for the service's health shall not wait for all
    of them.

    Parameters
    ----------
    n_per_turn : int
        How many go on in a turn.
    """

    def __init__(self, n_per_turn: int = 8) -> None:
        self.n_per_turn = n_per_turn
        self._n_begun = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def turn(self) -> None:
        """Wait for one's turn; mostly it has come."""
        loop = asyncio.get_running_loop()
        if self._n_begun == 0:
            loop.call_soon(self._next)
        self._n_begun += 1
        if self._n_begun > self.n_per_turn:
            future = loop.create_future()
            self._waiting.append(future)
            await future

    def _next(self) -> None:
        self._n_begun = 0
        while self._waiting and self._n_begun < self.n_per_turn:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                self._n_begun += 1
        if self._n_begun:
            asyncio.get_running_loop().call_soon(self._next)


class Paced:
    """ASGI middleware that begins requests at a pace, those for the service's health at once.

    Parameters
    ----------
    app : ASGI application
        What comes behind.
    pace : Pace
        Shared with others who keep the event loop busy.
    """

    def __init__(self, app: ASGIApp, pace: Pace) -> None:
        self.app, self.pace = app, pace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request when its turn comes."""
        if scope["type"] == "http" and scope["path"] not in _AT_ONCE:
            await self.pace.turn()
        await self.app(scope, receive, send)
