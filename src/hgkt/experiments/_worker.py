"""What happens in a worker process: load the data once, run the task, never raise."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._plain import plain
from hgkt.evaluation.records import machine, versions
from hgkt.exceptions import HGKTError
from hgkt.experiments.base import Cell, CellResult
from hgkt.experiments.discovery import load_once
from hgkt.experiments.store import MATHEMATICS
from hgkt.experiments.tasks import load_task, use_device

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset


def run_cell(
    cell: Cell,
    device: str = "cpu",
    dataset: GZSLDataset | None = None,
    taken: Mapping[str, Any] | None = None,
) -> CellResult:
    """Run one cell; whatever it raises becomes its error, in one sentence.

    Parameters
    ----------
    cell : Cell
        The work.
    device : str
        Where networks are trained.
    dataset : GZSLDataset, optional
        The data where it is at hand; by default it is loaded, once per process.
    taken : mapping, optional
        Parameters that the cells it needs selected; those set by hand win.

    Returns
    -------
    CellResult

    Examples
    --------
    >>> from hgkt.experiments.base import DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), "eszsl", params={"rigde": 1})
    >>> run_cell(cell).error  # doctest: +ELLIPSIS
    "method 'eszsl' has no parameter 'rigde'; choose from: ..."
    """
    start = time.perf_counter()
    values: dict[str, Any] = {}
    arrays: dict[str, NDArray[Any]] = {}
    error = ""
    try:
        dataset = load_once(cell.data) if dataset is None else dataset
        work = replace(cell, params={**(taken or {}), **cell.params})
        with use_device(device):
            values, arrays = load_task(cell.task)(work, dataset)
        if cell.needs:
            values = {**values, "taken": dict(taken or {})}
    except HGKTError as problem:
        error = str(problem)
    except Exception as problem:
        where = traceback.extract_tb(problem.__traceback__)[-1]
        detail = " ".join(str(problem).split()) or "no message"
        place = f"{Path(where.filename).name}:{where.lineno}"
        error = f"{type(problem).__name__}: {detail} ({place})"
    return CellResult(
        cell,
        plain(values),
        {name: np.asarray(array) for name, array in arrays.items()},
        error,
        time.perf_counter() - start,
        _versions(cell),
        machine(),
    )


def failed(cell: Cell, error: str) -> CellResult:
    """Return the failure of a cell that no worker could report itself."""
    return CellResult(cell, error=error, versions=_versions(cell), machine=machine())


def died(cell: Cell) -> CellResult:
    """Return the failure of a cell whose process did not survive it."""
    reason = "it was killed, crashed, or ran out of memory"
    return failed(cell, f"the process that ran it died twice: {reason}")


def _versions(cell: Cell) -> dict[str, str]:
    return {**versions(), MATHEMATICS: cell.mathematics}
