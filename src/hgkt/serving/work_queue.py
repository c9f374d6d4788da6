"""Work in threads, behind queues with an end: what would wait too long is refused at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from joblib import cpu_count

from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

T = TypeVar("T")
LONGEST_REST = 5.0
REVISION_SHARE = 0.25
"""Share of one processor that strangers may take for editions of earlier revisions."""
_QUICK_SCORES, _QUICK_RANKED, _QUICK_EXPLAINED = 500_000, 2000, 2


class WorkQueue:
    """Runs work in a few threads; refuses with 503 and Retry-After where too much waits.

    Parameters
    ----------
    n_at_once : int
        Number of threads.
    max_waiting : int
        How many may wait for one of them.
    what : str
        What is computed, for messages.
    share : float
        Share of its time that a single thread works at most; it rests before the next work.
    """

    def __init__(self, n_at_once: int, max_waiting: int, what: str, share: float = 1.0) -> None:
        self._threads = ThreadPoolExecutor(n_at_once, f"hgkt-{what.split()[0]}")
        self._most = n_at_once + max_waiting
        self._n_inside = 0
        self._share = share
        self._rests_until = 0.0
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
            # Lines of the log name the request.
            run = partial(copy_context().run, self._work, work, *arguments)
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        finally:
            self._n_inside -= 1

    def _work(self, work: Callable[..., T], *arguments: Any) -> T:
        """Work, after the rest that the work before asks for."""
        if self._share == 1.0:
            return work(*arguments)
        time.sleep(min(max(0.0, self._rests_until - time.monotonic()), LONGEST_REST))
        start = time.monotonic()
        try:
            return work(*arguments)
        finally:
            end = time.monotonic()
            self._rests_until = end + (end - start) * (1.0 / self._share - 1.0)


@dataclass(frozen=True)
class Queues:
    """The queues of one process; none takes the threads of another.

    Parameters
    ----------
    quick, costly : WorkQueue
        Predictions of little and of much work: one row never waits behind a thousand.
    images, texts : WorkQueue
        Images to be decoded, texts to be encoded.
    revisions : WorkQueue
        Editions of earlier revisions to be made.
    changes : WorkQueue
        Changes of classes, one after another.
    """

    quick: WorkQueue
    costly: WorkQueue
    images: WorkQueue
    texts: WorkQueue
    revisions: WorkQueue
    changes: WorkQueue

    @classmethod
    def of(cls, settings: ServiceSettings) -> Self:
        """Make the queues of a service."""
        n, waiting = cpu_count(), settings.max_waiting
        return cls(
            # More threads than processors would only take the models' arrays from each other.
            quick=WorkQueue(n, waiting, "predictions"),
            costly=WorkQueue(n, waiting, "predictions"),
            images=WorkQueue(1, settings.max_waiting_images, "images"),
            texts=WorkQueue(1, min(32, waiting), "texts"),
            revisions=WorkQueue(
                1, min(8, waiting), "questions about earlier revisions", REVISION_SHARE
            ),
            changes=WorkQueue(1, waiting, "changes"),
        )

    def of_cost(self, n_rows: int, n_classes: int, top_k: int, explain: bool) -> WorkQueue:
        """Return the queue of a prediction: little work does not wait behind much.

        Parameters
        ----------
        n_rows, n_classes : int
            Instances, and classes that each is compared with.
        top_k : int
            Classes per row of the answer.
        explain : bool
            Whether each row is explained.
        """
        quick = (
            n_rows * n_classes <= _QUICK_SCORES
            and n_rows * min(top_k, n_classes) <= _QUICK_RANKED
            and (not explain or n_rows <= _QUICK_EXPLAINED)
        )
        return self.quick if quick else self.costly
