"""A closed-form method and small data for the tests of this folder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hgkt.data import GZSLDataset
from hgkt.estimators.base import GZSLClassifier


class RidgeMeans(GZSLClassifier):
    """Ridge regression from attributes to class means; score is minus the squared distance."""

    _learned = ("coef_",)

    def __init__(
        self,
        alpha: float = 1.0,
        scale: float = 1.0,
        calibration: float = 0.0,
    ) -> None:
        self.calibration = calibration
        self.alpha = alpha
        self.scale = scale

    def _fit_seen(self, X: Any, codes: Any, attributes: Any) -> Any:
        means = np.stack([X[codes == c].mean(axis=0) for c in range(len(attributes))])
        gram = attributes.T @ attributes + self.alpha * np.eye(attributes.shape[1])
        self.coef_ = np.linalg.solve(gram, attributes.T @ means)
        return {"embedding": np.asarray(means, dtype=float)}

    def _embed_classes(self, attributes: Any) -> Any:
        return {"embedding": attributes @ self.coef_}

    def _score(self, X: Any, table: Any, seen: bool) -> Any:
        z = table["embedding"]
        return -self.scale * ((X[:, None, :] - z[None]) ** 2).sum(axis=2)

    def default_folds(self, n_classes: int) -> int:
        return 3

    def default_stages(self) -> list[dict[str, list[Any]]]:
        return [{"alpha": [1e3, 1e-2, 1.0]}]


def make_data(seed: int = 0, n_seen: int = 12, n_unseen: int = 4) -> GZSLDataset:
    rng = np.random.default_rng(seed)
    n_classes, per_class = n_seen + n_unseen, 15
    attributes = rng.normal(size=(n_classes, 6))
    means = attributes @ rng.normal(size=(6, 8)) + 0.5 * rng.normal(size=(n_classes, 8))
    labels = np.repeat(np.arange(n_classes), per_class)
    features = means[labels] + 1.5 * rng.normal(size=(len(labels), 8))
    within = np.tile(np.arange(per_class), n_classes)
    seen = labels < n_seen
    return GZSLDataset(
        name="toy",
        features=features,
        labels=labels,
        class_names=[f"c{i:02d}" for i in range(n_classes)],
        class_attributes=attributes,
        train=np.flatnonzero(seen & (within >= 3)),
        test_seen=np.flatnonzero(seen & (within < 3)),
        test_unseen=np.flatnonzero(~seen),
        about={"features": "made up"},
    )


@pytest.fixture
def toy() -> GZSLDataset:
    return make_data()


@pytest.fixture
def ridge() -> type[RidgeMeans]:
    return RidgeMeans
