"""Selection of HGKT's parameters: its grids, and how a whole grid shares its work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hgkt._validation import attribute_matrix
from hgkt.estimators._closed_form_grid import GridData, score_grid
from hgkt.estimators._network import NetworkTransfer
from hgkt.estimators.base import ClassTable, Progress
from hgkt.model.kernels import simplex_grid

if TYPE_CHECKING:
    from hgkt.estimators.hgkt import HGKTClassifier


class SelectionMixin:
    """Adds the grids and `fit_score_grid` to HGKTClassifier."""

    def default_folds(self: Any) -> int:
        """Return 3, or 1 for the network: its whole grid then takes minutes on two cores."""
        return 1 if self.transfer == "network" else 3

    def default_stages(self: Any) -> list[Any]:
        """Return the grids of the closed form, or the paper's grids of μ and k."""
        if self.transfer == "network":
            steps = [100, 200, 400, 800]
            return [
                {"mu": [0.01, 0.1, 0.5, 1.0], "n_steps": steps},
                {"n_neighbors": [1, 2, 5, 10, 50], "n_steps": steps},
            ]
        shared = {
            "attribute_map": ["l2", "sqrt+l2"],
            "ridge": [0.01, 0.03, 0.1],
            "shrinkage": [0.3, 0.5, 0.7],
            "norm_power": [1.0, 1.2],
            "feature_map": ["l2", "sqrt+l2"],
        }
        kernels: list[dict[str, list[Any]]] = [
            {"kernel": ["rbf"], "kernel_scale": [0.5, 1.0]},
            {"kernel": ["quadratic"]},
        ]
        stages: list[Any] = [[{**kernel, **shared} for kernel in kernels]]
        if self.attribute_blocks and len(self.attribute_blocks) > 1:
            weights = simplex_grid(len(self.attribute_blocks), 4)
            stages.insert(0, {"block_weights": weights, "ridge": [0.01, 0.03, 0.1]})
        return stages

    def fit_score_grid(
        self: Any,
        grid: Sequence[Mapping[str, Any]],
        X: NDArray[Any],
        y: NDArray[Any],
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Score a grid with the work shared: one decomposition, or one run for all step counts."""
        models = [clone(self).set_params(**params) for params in grid]
        features, codes, _, attributes = self._check_training_data(X, y, class_attributes)
        new = attribute_matrix(new_attributes, list(new_attributes), attributes.shape[1])
        data = GridData(features, codes, attributes, new, X_eval)
        closed = [i for i, model in enumerate(models) if model.transfer == "closed-form"]
        settings = [models[i]._closed_form_settings() for i in closed]
        for done, (position, scores) in enumerate(score_grid(settings, data), start=1):
            yield closed[position], scores
            if progress is not None:
                progress("select", done, len(grid), {})
        representatives: dict[Any, NDArray[np.intp]] = {}
        for indices in _same_but_steps(models, closed):
            yield from _score_path(models, indices, data, representatives, progress)


def _same_but_steps(models: Sequence[HGKTClassifier], skip: Sequence[int]) -> list[list[int]]:
    """Group network models that differ in their number of steps only."""
    groups: dict[str, list[int]] = {}
    for index, model in enumerate(models):
        if index not in skip:
            key = repr({k: v for k, v in model.get_params().items() if k != "n_steps"})
            groups.setdefault(key, []).append(index)
    return list(groups.values())


def _score_path(
    models: Sequence[HGKTClassifier],
    indices: Sequence[int],
    data: GridData,
    representatives: dict[Any, NDArray[np.intp]],
    progress: Progress | None,
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Train once to the largest number of steps and score at each smaller one on the way.

    `representatives` keeps what was chosen for settings that choose alike.
    """
    longest = models[max(indices, key=lambda i: models[i].n_steps)]
    settings = longest._network_settings()
    steps = tuple(sorted({models[i].n_steps for i in indices}))
    training = {**settings.training, "snapshot_steps": steps}
    training |= {"checkpoint": None, "tensorboard": None}
    results: dict[int, NDArray[Any]] = {}

    def score(step: int, transfer: NetworkTransfer, seen: ClassTable) -> None:
        added = transfer.embed(data.new_attributes)
        results[step] = transfer.score(data.X_eval, seen, added)

    transfer = NetworkTransfer(replace(settings, training=training))
    key = settings.representative_key
    if key not in representatives:
        representatives[key] = transfer.choose_representatives(data.X, data.codes, progress)
    transfer.fit(
        data.X, data.codes, data.attributes, progress, representatives[key], on_snapshot=score
    )
    for index in indices:
        yield index, results[models[index].n_steps]
