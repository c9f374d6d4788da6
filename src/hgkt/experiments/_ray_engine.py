"""Cells on a Ray cluster: data sets travel once per node, dead workers are replaced."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, HGKTError
from hgkt.experiments._worker import died, failed, run_cell
from hgkt.experiments.base import Cell, CellResult
from hgkt.experiments.discovery import load_once
from hgkt.experiments.schedule import Schedule

LOCAL = "local"
_MAX_DEATHS = 2
_PATIENCE = 10.0  # seconds


class RayEngine:
    """Cells as Ray tasks; the driver loads the data and writes the results.

    A data set goes into the object store once: each node fetches it once and its workers share
    the memory, so that no node but this one needs the files. Where Ray is initialized already,
    that cluster is used and left as it is.

    Parameters
    ----------
    address : str
        Of the cluster ("auto", "ray://HOST:PORT", "HOST:PORT"); "local" starts one here.
    n_jobs : int or None
        Cells at a time; None for one per core of the cluster.
    n_cells : int
        Cells there are: no more are ever under way.
    device : str
        Where networks are trained; "cuda" shares the cluster's GPUs among the cells.
    """

    def __init__(self, address: str, n_jobs: int | None, n_cells: int, device: str = "cpu") -> None:
        self._ray = import_extra("ray", "ray")
        self._owns_cluster = not self._ray.is_initialized()
        if self._owns_cluster:
            self._connect(address, n_jobs)
        resources = self._ray.cluster_resources()
        n_cores = int(resources.get("CPU", 1))
        self.n_workers = max(1, min(n_jobs or n_cores, n_cores, n_cells))
        # Ray gives a task as many threads as cores.
        self._needs = {"num_cpus": max(1, n_cores // self.n_workers)}
        if device != "cpu" and resources.get("GPU", 0):
            self._needs["num_gpus"] = min(1.0, resources["GPU"] / self.n_workers)
        self.device = device

    def run(self, schedule: Schedule, started: Callable[[Cell], None]) -> Iterator[CellResult]:
        """Yield results as they come; a cell whose worker dies twice has failed."""
        ray = self._ray
        task = ray.remote(max_retries=0, **self._needs)(run_cell)
        deaths = Counter[str]()
        flying: dict[Any, Cell] = {}
        shared: dict[str, Any] = {}
        try:
            while schedule or flying:
                while len(flying) < self.n_workers and (cell := schedule.take()):
                    try:
                        data = self._share(cell, shared)
                    except HGKTError as problem:
                        yield failed(cell, str(problem))
                        continue
                    taken = schedule.taken(cell)
                    flying[task.remote(cell, self.device, data, taken)] = cell
                    started(cell)
                # A timeout, because a wait without end does not hear Ctrl-C.
                ready, _ = ray.wait(list(flying), num_returns=1, timeout=1.0)
                for reference in ready:
                    cell = flying.pop(reference)
                    try:
                        yield ray.get(reference)
                    except ray.exceptions.RayTaskError as problem:
                        yield failed(cell, f"the worker could not run it: {_last_line(problem)}")
                    except ray.exceptions.RayError:
                        deaths[cell.key] += 1
                        if deaths[cell.key] < _MAX_DEATHS:
                            schedule.put_back(cell)
                        else:
                            yield died(cell)
        finally:
            self._stop(list(flying))

    def _connect(self, address: str, n_jobs: int | None) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address == LOCAL:
            options |= {"include_dashboard": False, "num_cpus": n_jobs}
        try:
            _knock(address)
            self._ray.init(address=address, **options)
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(
                f"no Ray cluster answers at {address!r}: {_last_line(error)}"
            ) from error

    def _share(self, cell: Cell, shared: dict[str, Any]) -> Any:
        """Return the reference of the cell's data set, putting it into the store on first use."""
        name = repr(cell.data)
        if name not in shared:
            shared[name] = self._ray.put(load_once(cell.data))
        return shared[name]

    def _stop(self, references: list[Any]) -> None:
        for reference in references:
            self._ray.cancel(reference, force=True)
        if self._owns_cluster:
            self._ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError where nothing listens: Ray itself would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
