"""Models and matrices by which predicting is compared with plain products."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators import HGKTClassifier

SEED = 7


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
