"""The task "training": the paper's network trained exactly or by sampling, with its exact loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.experiments.network_runs import final_division, train_network
from hgkt.experiments.task_representatives import choose_and_join
from hgkt.experiments.tasks import build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.experiments.base import Cell


def run_training(
    cell: Cell, dataset: GZSLDataset
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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
    >>> cell = Cell("training", DataSpec("digits", "digits"), "hgkt", "paper",
    ...             {"n_hidden": 16}, options={"steps": [1, 3]})
    >>> values, arrays = run_training(cell, load_dataset("digits"))
    >>> values["steps_per_epoch"], arrays["losses"].shape
    (1, (2,))
    """
    from hgkt._geometry import map_rows
    from hgkt.network.config import TrainingConfig
    from hgkt.network.objectives import SquaredObjective, Targets

    steps = sorted(int(step) for step in cell.options.get("steps", ()))
    if not steps:
        raise DataError("the task 'training' needs the option steps: a list of step counts")
    division = final_division(dataset)
    model = cast("HGKTNetworkClassifier", build_estimator(cell, dataset))
    settings = model._settings(division.X.dtype)
    config = TrainingConfig(**settings.training)
    chosen, _ = choose_and_join(model, division)
    targets = Targets.from_features(
        map_rows(division.X, settings.feature_map), division.codes, len(division.seen)
    )
    objective = SquaredObjective.build(targets, reduction=config.reduction)
    run = train_network(model, division, steps, chosen)
    values = {
        "metrics": run.metrics[steps[-1]].to_dict(),
        "loss": run.losses[steps[-1]],
        "constant": objective.constant,
        "seconds_per_step": run.seconds_per_step,
        "steps_per_epoch": config.steps_per_epoch(len(division.X)),
    }
    arrays = {
        "steps": np.array(steps),
        "losses": np.array([run.losses[step] for step in steps]),
        "H": np.array([run.metrics[step].H for step in steps]),
    }
    return values, arrays
