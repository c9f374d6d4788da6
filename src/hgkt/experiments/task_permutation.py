"""The task "permutation": the paper's network with the feature channels in another order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hgkt.experiments.network_runs import final_division, train_network
from hgkt.experiments.task_representatives import choose_and_join
from hgkt.experiments.tasks import build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.experiments.base import Cell


def run_permutation(
    cell: Cell, dataset: GZSLDataset
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
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
    >>> cell = Cell("permutation", DataSpec("digits", "digits"), "hgkt", "paper",
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
    model = cast("HGKTNetworkClassifier", build_estimator(cell, dataset))
    chosen, neighbors = choose_and_join(model, division)
    (metrics,) = train_network(model, division, representatives=chosen).metrics.values()
    values = {"metrics": metrics.to_dict(), "classes": list(division.seen)}
    return values, {"representatives": chosen, "neighbors": neighbors}
