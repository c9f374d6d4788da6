"""Tasks in this process, or in processes of this machine that end with it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hgkt._processes import start_worker
from hgkt.engines.base import Ended, Engine, Queue, as_problem, call, only_task
from hgkt.exceptions import HGKTError

T = TypeVar("T")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def usual_workers(n_workers: int | None = None, n_tasks: int | None = None) -> int:
    """Return how many processes to start: one per core by default, never more than tasks."""
    from joblib import cpu_count

    wanted = int(cpu_count()) if n_workers is None else n_workers
    return max(1, wanted if n_tasks is None else min(wanted, n_tasks))


def _threads_of_each(n_workers: int) -> int:
    """Return a process's share of the cores, or less where the environment asks for less."""
    from joblib import cpu_count

    asked = [os.environ.get(name, "") for name in _THREADS]
    limits = [int(number) for number in asked if number.isdecimal() and int(number) > 0]
    return max(1, min([int(cpu_count()) // n_workers, *limits]))


class SerialEngine(Engine):
    """One task after the other, in this process: a task that brings it down ends the run.

    Examples
    --------
    >>> from hgkt.engines import map_tasks
    >>> list(map_tasks(SerialEngine(), len, ["one", "three"]))
    [('one', 3), ('three', 5)]
    """

    n_workers = 1

    def run(
        self,
        function: Callable[..., Any],
        queue: Queue[T],
        *,
        arguments: Callable[[T], tuple[Any, ...]] = only_task,
        started: Callable[[T], None] | None = None,
        n_retries: int = 3,
    ) -> Iterator[Ended[T]]:
        """Yield the tasks as they end; see `Engine.run`."""
        while queue and (task := queue.take()) is not None:
            try:
                given = arguments(task)
                if started is not None:
                    started(task)
                value = call(function, *given)
            except HGKTError as problem:
                yield Ended(task, problem=problem)
            else:
                yield Ended(task, value)


class ProcessEngine(Engine):
    """Tasks in processes of joblib's loky; the processes share the cores, not threads.

    The executor is used directly and not through `joblib.Parallel`: what was done when a process
    died is kept, and which tasks are under way is known. When a process dies, nobody knows whose
    fault it was: what was under way is run again, each task alone, so that one is given up only
    for what it did itself.

    Parameters
    ----------
    n_workers : int
        Tasks at a time.
    """

    def __init__(self, n_workers: int) -> None:
        self.n_workers = n_workers
        self.n_threads = _threads_of_each(n_workers)
        self._executor: Any = None

    def run(
        self,
        function: Callable[..., Any],
        queue: Queue[T],
        *,
        arguments: Callable[[T], tuple[Any, ...]] = only_task,
        started: Callable[[T], None] | None = None,
        n_retries: int = 3,
    ) -> Iterator[Ended[T]]:
        """Yield the tasks as they end; see `Engine.run`."""

        def submit(executor: Any, task: T) -> Any:
            future = executor.submit(call, function, *arguments(task))
            if started is not None:
                started(task)
            return future

        while queue:
            lost: list[tuple[T, int]] = []
            yield from self._run_pool(submit, queue, lost)
            for task, n_deaths in lost:
                yield self._run_alone(submit, task, n_deaths, n_retries)
            if self._executor is not None:
                return  # nothing that waits can run

    def close(self) -> None:
        """Let the processes end."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
            self._executor = None

    def _run_pool(
        self,
        submit: Callable[[Any, T], Any],
        queue: Queue[T],
        lost: list[tuple[T, int]],
    ) -> Iterator[Ended[T]]:
        """Run tasks until none waits or a process dies.

        `lost` gets the tasks that were under way then, and how many deaths each may have caused.
        """
        from concurrent.futures import FIRST_COMPLETED, Future, wait
        from concurrent.futures.process import BrokenProcessPool

        if self._executor is None:
            self._executor = self._start(self.n_workers)
        flying: dict[Future[Any], T] = {}
        broken = False
        try:
            while flying or (queue and not broken):
                while len(flying) < self.n_workers and not broken:
                    if (task := queue.take()) is None:
                        break
                    try:
                        flying[submit(self._executor, task)] = task
                    except BrokenProcessPool:
                        broken = True  # its futures, if any, say so too
                        lost.append((task, 0))
                    except HGKTError as problem:
                        yield Ended(task, problem=problem)
                if not flying:
                    return  # broken before anything ran in it, or nothing can run
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    task = flying.pop(future)
                    try:
                        value = future.result()
                    except BrokenProcessPool:
                        broken = True
                        lost.append((task, 1))
                    except Exception as problem:  # of the task, or on the way there or back
                        yield Ended(task, problem=as_problem(problem))
                    else:
                        yield Ended(task, value)
        finally:
            if flying or broken:
                self._executor.shutdown(wait=True, kill_workers=True)
                self._executor = None

    def _run_alone(
        self, submit: Callable[[Any, T], Any], task: T, n_deaths: int, n_retries: int
    ) -> Ended[T]:
        """Run a task again, each time in a process in which nothing else runs."""
        from concurrent.futures.process import BrokenProcessPool

        while n_deaths <= n_retries:
            executor = self._start(1)
            done = False
            try:
                value = submit(executor, task).result()
                done = True
                return Ended(task, value)
            except BrokenProcessPool:
                n_deaths += 1
            except Exception as problem:
                return Ended(task, problem=as_problem(problem))
            finally:
                executor.shutdown(wait=True, kill_workers=not done)
        return Ended(task, n_deaths=n_deaths)

    def _start(self, n_workers: int) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        # loky replaces a process that has grown, as ours do when they keep a data set.
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        return ProcessPoolExecutor(
            n_workers,
            initializer=start_worker,
            # Not asked there: a parent that has been killed already has another number.
            initargs=(os.getpid(),),
            env={name: str(self.n_threads) for name in _THREADS},
        )
