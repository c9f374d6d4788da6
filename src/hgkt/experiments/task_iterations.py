"""The task "iterations": accuracy of the paper's network along its training steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.experiments.network_runs import final_division, train_network, validation_division
from hgkt.experiments.tasks import build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.evaluation import GZSLMetrics
    from hgkt.experiments.base import Cell

COLUMNS = ("ts", "tr", "H")


def run_iterations(
    cell: Cell, dataset: GZSLDataset
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Train on a validation fold and on all train rows, and test both at every step asked for.

    The stopping point is the step with the highest H on the validation fold. Test rows are looked
    at after every step asked for, but nothing is chosen by them.

    Parameters
    ----------
    cell : Cell
        ``options["steps"]``: the steps.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``stop``, the step chosen on validation classes, and ``metrics`` of the test at it.
    arrays : dict of ndarray
        ``steps`` (S,); ``validation`` and ``test`` (S, 3), columns ts, tr and H in percent.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("iterations", DataSpec("digits", "digits"), "hgkt", "paper",
    ...             {"n_hidden": 16}, options={"steps": [1, 2, 4]})
    >>> values, arrays = run_iterations(cell, load_dataset("digits"))
    >>> values["stop"] in (1, 2, 4), arrays["test"].shape
    (True, (3, 3))
    """
    steps = sorted(int(step) for step in cell.options.get("steps", ()))
    if not steps:
        raise DataError("the task 'iterations' needs the option steps: a list of step counts")
    model = cast("HGKTNetworkClassifier", build_estimator(cell, dataset))
    validation = train_network(model, validation_division(dataset, cell.seed), steps).metrics
    test = train_network(model, final_division(dataset), steps).metrics
    stop = max(steps, key=lambda step: validation[step].H)  # the first of equally good ones
    values = {"stop": stop, "metrics": test[stop].to_dict(), "validation_H": validation[stop].H}
    arrays = {
        "steps": np.array(steps),
        "validation": _table(validation, steps),
        "test": _table(test, steps),
    }
    return values, arrays


def _table(metrics: dict[int, GZSLMetrics], steps: list[int]) -> NDArray[np.float64]:
    return np.array([[getattr(metrics[step], name) for name in COLUMNS] for step in steps])
