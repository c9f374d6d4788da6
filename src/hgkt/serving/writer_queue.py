"""The queue of one process's writers: one at a time, in the order they came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class WriterQueue:
    """Lets threads write one after another.

    A plain lock lets a latecomer pass those who wait, and the database's own lock knows no order
    at all: of 64 clients some would wait until they are told that it is busy.

    Examples
    --------
    >>> queue = WriterQueue()
    >>> with queue.turn(1.0):
    ...     with queue.turn(0.0):
    ...         pass
    Traceback (most recent call last):
    TimeoutError: others were writing for 0 s
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()  # the first one is writing

    @contextmanager
    def turn(self, seconds: float) -> Iterator[None]:
        """Wait for one's turn, at most so long, and have it until the block ends."""
        ticket = threading.Event()
        with self._lock:
            self._waiting.append(ticket)
            if self._waiting[0] is ticket:
                ticket.set()
        try:
            if not ticket.wait(seconds):
                raise TimeoutError(f"others were writing for {seconds:g} s")
            yield
        finally:
            self._leave(ticket)

    def _leave(self, ticket: threading.Event) -> None:
        with self._lock:
            self._waiting.remove(ticket)
            if self._waiting:
                self._waiting[0].set()
