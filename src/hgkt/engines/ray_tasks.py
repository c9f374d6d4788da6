"""Tasks of a Ray cluster: what a dead worker or node was running is run again elsewhere."""

from __future__ import annotations

import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from hgkt._validation import import_extra
from hgkt.engines.base import Ended, Engine, Queue, as_problem, call, only_task
from hgkt.exceptions import DataError, HGKTError, WorkerError

LOCAL = "local"
T = TypeVar("T")
_PATIENCE = 10.0  # seconds


class RayEngine(Engine):
    """Tasks on a Ray cluster. Where Ray is initialized already, that cluster is used and left.

    Parameters
    ----------
    address : str
        Of the cluster ("auto", "ray://HOST:PORT", "HOST:PORT"); "local" starts one here.
    n_workers : int or None
        Tasks at a time; None for one per core of the cluster.
    n_tasks : int, optional
        Tasks there are: no more are ever under way.
    gpu : bool
        Whether the cluster's GPUs, if it has any, are shared among the tasks.
    """

    def __init__(
        self,
        address: str = LOCAL,
        n_workers: int | None = None,
        n_tasks: int | None = None,
        gpu: bool = False,
    ) -> None:
        self._ray = import_extra("ray", "ray")
        self._owns_cluster = not self._ray.is_initialized()
        if self._owns_cluster:
            self._connect(address, n_workers)
        cores = _cores_of_nodes(self._ray)
        self.n_workers = max(1, min(n_workers or sum(cores), sum(cores), n_tasks or sum(cores)))
        # Ray gives a task as many threads as cores; a task must fit on every node.
        threads = max(1, min(sum(cores) // self.n_workers, min(cores)))
        self._needs: dict[str, float] = {"num_cpus": threads}
        n_gpus = self._ray.cluster_resources().get("GPU", 0)
        if gpu and n_gpus:
            self._needs["num_gpus"] = min(1.0, n_gpus / self.n_workers)

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
        ray = self._ray
        # Retries are counted here, because Ray's own would not show in messages.
        remote = ray.remote(max_retries=0, **self._needs)(call)
        # Each task with how often its worker has died; those to run again go first.
        again: deque[tuple[T, int]] = deque()
        flying: dict[Any, tuple[T, int]] = {}

        def take() -> tuple[T, int] | None:
            if again:
                return again.popleft()
            task = queue.take()
            return None if task is None else (task, 0)

        try:
            while again or queue or flying:
                while len(flying) < self.n_workers and (taken := take()):
                    task = taken[0]
                    try:
                        given = arguments(task)
                    except HGKTError as problem:
                        yield Ended(task, problem=problem)
                        continue
                    flying[remote.remote(function, *given)] = taken
                    if started is not None:
                        started(task)
                if not flying:
                    return  # nothing can run
                # A timeout, because a wait without end does not hear Ctrl-C.
                ready, _ = ray.wait(list(flying), num_returns=1, timeout=1.0)
                for reference in ready:
                    task, n_deaths = flying.pop(reference)
                    end = self._end(reference, task)
                    if end is not None:
                        yield end
                    elif n_deaths < n_retries:
                        again.append((task, n_deaths + 1))
                    else:
                        yield Ended(task, n_deaths=n_deaths + 1)
        finally:
            for reference in flying:
                ray.cancel(reference, force=True)

    def share(self, value: Any) -> Any:
        """Put a value into the object store: each node fetches it once, its workers share it."""
        return self._ray.put(value)

    def close(self) -> None:
        """Leave the cluster; end it where it was started here."""
        if self._owns_cluster:
            self._ray.shutdown()
            self._owns_cluster = False

    def _end(self, reference: Any, task: T) -> Ended[T] | None:
        """Return how a task ended, or None where its worker died."""
        errors = self._ray.exceptions
        try:
            return Ended(task, self._ray.get(reference))
        except errors.RayTaskError as problem:
            cause = getattr(problem, "cause", None)
            if not isinstance(cause, Exception):
                cause = WorkerError(f"the worker could not run it: {_last_line(problem)}")
            return Ended(task, problem=as_problem(cause))
        except errors.RayError:  # the worker, or its whole node
            return None

    def _connect(self, address: str, n_workers: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == LOCAL:
            options |= {"include_dashboard": False, "num_cpus": n_workers}
        try:
            _knock(address)
            self._ray.init(address=address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"no Ray cluster answers at {address!r}: {_last_line(error)}"
            ) from error


def _cores_of_nodes(ray: Any) -> list[int]:
    """Return how many cores each node offers, of those that offer any."""
    nodes = [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]
    return [cores for cores in nodes if cores] or [1]


def _knock(address: str) -> None:
    """Raise OSError where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
