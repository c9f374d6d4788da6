"""Tasks that train the paper's network: "iterations", "training" and "permutation"."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.experiments.tasks import Outputs
from hgkt.experiments.tasks.network import (
    final_division,
    network_of,
    train_network,
    validation_division,
)
from hgkt.experiments.tasks.representatives import choose_and_join

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.evaluation import GZSLMetrics
    from hgkt.experiments.base import Cell

COLUMNS = ("ts", "tr", "H")


def run_iterations(cell: Cell, dataset: GZSLDataset) -> Outputs:
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
    >>> cell = Cell("iterations", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_hidden": 16}, options={"steps": [1, 2, 4]})
    >>> values, arrays = run_iterations(cell, load_dataset("digits"))
    >>> values["stop"] in (1, 2, 4), arrays["test"].shape
    (True, (3, 3))
    """
    steps = _steps(cell)
    model = network_of(cell, dataset)
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


def run_training(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Train and take the exact loss over all instances and the accuracies on the way.

    Parameters
    ----------
    cell : Cell
        ``params["n_sampled"]``: None, or how many neighbours are drawn;
        ``options["steps"]``: where to look.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``metrics`` of the test after the last step, its ``loss``, ``constant`` (the part of the
        loss that no weight can change), ``seconds_per_step``, ``steps_per_epoch``.
    arrays : dict of ndarray
        ``steps``, ``losses`` and ``H`` (S,).

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("training", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_hidden": 16}, options={"steps": [1, 3]})
    >>> values, arrays = run_training(cell, load_dataset("digits"))
    >>> values["steps_per_epoch"], arrays["losses"].shape
    (1, (2,))
    """
    from hgkt.network.train import TrainingConfig

    steps = _steps(cell)
    division = final_division(dataset)
    model = network_of(cell, dataset)
    chosen, _ = choose_and_join(model, division)
    run = train_network(model, division, steps, chosen)
    values = {
        "metrics": run.metrics[steps[-1]].to_dict(),
        "loss": run.losses[steps[-1]],
        "constant": run.floor,
        "seconds_per_step": run.seconds_per_step,
        "steps_per_epoch": TrainingConfig(**run.transfer.settings.training).steps_per_epoch(
            len(division.X)
        ),
    }
    arrays = {
        "steps": np.array(steps),
        "losses": np.array([run.losses[step] for step in steps]),
        "H": np.array([run.metrics[step].H for step in steps]),
    }
    return values, arrays


def run_permutation(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Choose representatives, join them and train, with permuted feature columns.

    Means, distances and the loss do not depend on the order of the columns, and the initial
    weights of the output are drawn alike for each of them: of all that is computed, only the
    Wasserstein distances see the order. The draw itself is another one, as with another seed.

    Parameters
    ----------
    cell : Cell
        ``options["permutation"]``: 0 for the order as it is, else the seed of a permutation.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``metrics`` of the test and ``classes``.
    arrays : dict of ndarray
        ``representatives`` (L,) and ``neighbors`` (L, k).

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("permutation", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_steps": 2, "n_hidden": 16}, options={"permutation": 1})
    >>> values, arrays = run_permutation(cell, load_dataset("digits"))
    >>> arrays["neighbors"].shape, sorted(values)
    ((8, 2), ['classes', 'metrics'])
    """
    division = final_division(dataset)
    number = int(cell.options.get("permutation", 0))
    if number:
        order = np.random.default_rng(number).permutation(division.X.shape[1])
        division = division.permuted(order)
    model = network_of(cell, dataset)
    chosen, neighbors = choose_and_join(model, division)
    (metrics,) = train_network(model, division, representatives=chosen).metrics.values()
    values = {"metrics": metrics.to_dict(), "classes": list(division.seen)}
    return values, {"representatives": chosen, "neighbors": neighbors}


def _steps(cell: Cell) -> list[int]:
    steps = sorted(int(step) for step in cell.options.get("steps", ()))
    if not steps:
        raise DataError(f"the task {cell.task!r} needs the option steps: a list of step counts")
    return steps
