"""Models and matrices by which predicting is compared with plain products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hgkt.benchmarks._common import Size, make_problem
from hgkt.estimators import HGKTClassifier

SEED = 7
GAMMA = 0.05
TOP = 5


@dataclass(frozen=True)
class Sizes:
    """How many rows, features and classes are predicted with."""

    n_rows: int
    n_features: int
    n_attributes: int
    n_seen: int
    n_classes: tuple[int, ...]


def fitted_problem(sizes: Sizes, device: str) -> tuple[HGKTClassifier, NDArray[np.float32]]:
    """Return a model of the seen classes that is fitted on a device, and rows to predict."""
    size = Size("", 4 * sizes.n_features, sizes.n_features, sizes.n_seen, sizes.n_attributes)
    problem = make_problem(size, n_test=sizes.n_rows)
    model = problem.fit(HGKTClassifier(calibration=GAMMA, device=device))
    return model, problem.X_test


def add_up_to(model: HGKTClassifier, n_classes: int, n_attributes: int) -> None:
    """Let the model have so many classes, the seen ones among them."""
    if len(model.unseen_classes_):
        model.remove_classes(model.unseen_classes_.tolist())
    n_new = n_classes - len(model.classes_)
    rows = np.random.default_rng(SEED).random((n_new, n_attributes))
    model.add_classes({f"added {number:06d}": row for number, row in enumerate(rows)})


def random_matrices(model: HGKTClassifier) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Random matrices of the sizes of the metric (D, D) and the class table (C, D)."""
    rng, width = np.random.default_rng(SEED), model.n_features_in_
    metric = rng.standard_normal((width, width), dtype=np.float32)
    return metric, rng.standard_normal((len(model.classes_), width), dtype=np.float32)
