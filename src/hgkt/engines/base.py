"""The contract of engines, and the one call that most of their users need."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from hgkt._typing import Progress
from hgkt._validation import check_choice, check_number
from hgkt.exceptions import HGKTError, WorkerError

ENGINES = ("local", "ray")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Ended(Generic[T]):
    """How a task ended.

    Parameters
    ----------
    task : object
        The task.
    value : object
        What the function returned.
    problem : Exception, optional
        What it raised instead: an `HGKTError`, or a `WorkerError` that describes anything else.
    n_deaths : int
        How often its worker died before it was given up; 0 otherwise.
    """

    task: T
    value: Any = None
    problem: HGKTError | None = None
    n_deaths: int = 0


class Queue(Protocol[T_co]):
    """Tasks that wait. A task may become ready only after another has ended."""

    def __bool__(self) -> bool:
        """Whether tasks wait, ready or not."""
        ...

    def take(self) -> T_co | None:
        """Return the next task that can run, or None while none can."""
        ...


def only_task(task: T) -> tuple[T]:
    """Return the arguments of a function that takes a task."""
    return (task,)


class Engine(ABC):
    """Runs tasks; no more than `n_workers` are under way at a time."""

    n_workers: int

    @abstractmethod
    def run(
        self,
        function: Callable[..., Any],
        queue: Queue[T],
        *,
        arguments: Callable[[T], tuple[Any, ...]] = only_task,
        started: Callable[[T], None] | None = None,
        n_retries: int = 3,
    ) -> Iterator[Ended[T]]:
        """Yield the tasks as they end; closing the iterator stops what is under way.

        Parameters
        ----------
        function : callable
            What runs for each task; it, its arguments and its results must be picklable.
        queue : Queue
            The tasks.
        arguments : callable, optional
            Returns the function's arguments for a task when it is about to start; by default
            the task itself. What it raises of `HGKTError` ends that task.
        started : callable, optional
            Called with each task as it starts.
        n_retries : int
            How often a task whose worker dies is run again.
        """

    def share(self, value: Any) -> Any:
        """Return what to hand to tasks as an argument in place of a large value."""
        return value

    def close(self) -> None:  # noqa: B027
        """Let the workers go, where there are some."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_engine(
    name: str = "local",
    n_workers: int | None = None,
    address: str | None = None,
    n_tasks: int | None = None,
) -> Engine:
    """Return an engine by its name; use it in a `with` block.

    Parameters
    ----------
    name : {"local", "ray"}
        Processes of this machine, or tasks of a Ray cluster.
    n_workers : int, optional
        Tasks at a time; by default one per core. With 0 or 1 of "local", and on a single core,
        tasks run in this process.
    address : str, optional
        Of the Ray cluster ("auto", "ray://HOST:PORT", "HOST:PORT"); by default one is started on
        this machine.
    n_tasks : int, optional
        How many tasks there are, where that is known: more workers are never started.

    Examples
    --------
    >>> with open_engine("local", n_workers=1) as engine:
    ...     sorted(map_tasks(engine, abs, [-2, 3]))
    [(-2, 2), (3, 3)]
    """
    check_choice("engine", name, ENGINES)
    if n_workers is not None:
        check_number("n_workers", n_workers, low=0, integer=True)
    if name == "ray":
        from hgkt.engines.ray_tasks import LOCAL, RayEngine

        return RayEngine(address or LOCAL, n_workers or None, n_tasks)
    from hgkt.engines.local import ProcessEngine, SerialEngine, usual_workers

    wanted = usual_workers(n_workers, n_tasks)
    return SerialEngine() if wanted <= 1 else ProcessEngine(wanted)


def map_tasks(
    engine: Engine,
    function: Callable[[T], Any],
    tasks: Iterable[T],
    *,
    describe: Callable[[T], str] = str,
    n_retries: int = 3,
    progress: Progress | None = None,
    stage: str = "tasks",
) -> Iterator[tuple[T, Any]]:
    """Call a function for each task and yield ``(task, result)`` as they end, in any order.

    Tasks are taken from the iterable only as workers become free. Results travel to this
    process: keep them small (a number, the path of a file).

    Parameters
    ----------
    engine : Engine
        Where the tasks run.
    function : callable
        Takes a task. It, the tasks and the results must be picklable.
    tasks : iterable
        The work.
    describe : callable
        Names a task in messages.
    n_retries : int
        How often a task whose worker dies is run again.
    progress : callable, optional
        Called as ``progress(stage, done, total, {})`` after each task.
    stage : str
        The name of the work there.

    Raises
    ------
    HGKTError
        What a task raised of that kind, as it is.
    WorkerError
        Where a task raised anything else, or its worker died once more than `n_retries` times.
    """
    total = len(tasks) if isinstance(tasks, Sized) else 0
    with closing(engine.run(function, _Waiting(tasks), n_retries=n_retries)) as ends:  # type: ignore[type-var]
        for done, end in enumerate(ends, start=1):
            if end.problem is not None or end.n_deaths:
                raise _failure(end, describe(end.task)) from end.problem
            if progress is not None:
                progress(stage, done, max(total, done), {})
            yield end.task, end.value


def _failure(end: Ended[Any], name: str) -> HGKTError:
    if isinstance(end.problem, HGKTError) and not isinstance(end.problem, WorkerError):
        return end.problem
    if end.problem is not None:
        return WorkerError(f"{name}: {end.problem}")
    times = "once" if end.n_deaths == 1 else f"{end.n_deaths} times"
    return WorkerError(
        f"{name}: the process that ran it died {times}: it was killed, crashed, or ran out of "
        "memory"
    )


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker; what it raises can travel back and says where it was raised."""
    try:
        return function(*arguments)
    except HGKTError:
        raise
    except Exception as problem:
        detail = " ".join(str(problem).split()) or "no message"
        where = traceback.extract_tb(problem.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        raise WorkerError(f"{type(problem).__name__}: {detail} ({place})") from problem


def as_problem(error: BaseException) -> HGKTError:
    """Return an error of a task as it is, and one of the way there or back as a `WorkerError`."""
    if isinstance(error, HGKTError):
        return error
    return WorkerError(f"{type(error).__name__}: {' '.join(str(error).split())}")


class _Waiting(Generic[T]):
    """The queue of any iterable, read only as far as tasks are taken."""

    def __init__(self, tasks: Iterable[T]) -> None:
        self._tasks = iter(tasks)
        self._next: list[T] = []

    def __bool__(self) -> bool:
        if not self._next:
            self._next.extend(islice(self._tasks, 1))
        return bool(self._next)

    def take(self) -> T | None:
        return self._next.pop() if self else None
