"""Nearest class mean, with the means of unseen classes regressed from their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, SumsClassifier, map_grid, parameters, powers
from hgkt.baselines._shared.rows import METRICS, similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.statistics import Sums, class_counts_and_means


@parameters
class RidgeClassMeanClassifier(SumsClassifier):
    """Nearest class mean; the least that a method has to beat.

    A seen class is the mean x̄_c of its features. The mean of any other class is a linear
    function of its attributes, z(a) = Wᵀa + b, from a ridge regression on the seen means,

        min_{W,b} Σ_c ‖Wᵀa_c + b − x̄_c‖² + λ‖W‖²,

    every class counting the same. score(x, c) = −‖x − z_c‖² or cos(x, z_c).

    Parameters
    ----------
    ridge : float, default=0.1
        λ, on attributes of unit length; chosen on validation classes of CUB.
    metric : {"euclidean", "cosine"}, default="euclidean"
        What is compared.
    feature_map, attribute_map, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_attributes, n_features)
        W.
    intercept_ : ndarray of shape (n_features,)
        b.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = RidgeClassMeanClassifier().fit(X, y, class_attributes=attributes)
    >>> model = model.add_classes({"zebra": [1.0, 1.0]})
    >>> model.predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    ridge: float = 0.1
    metric: str = "euclidean"
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0

    _learned = ("weights_", "intercept_")
    _late = ("ridge", "metric")

    def default_stages(self) -> list[Any]:
        """Return maps, λ on a logarithmic grid and both metrics."""
        return [{**map_grid(), "ridge": powers(-6, 3, 2), "metric": list(METRICS)}]

    def _check_params(self) -> None:
        check_number("ridge", self.ridge, low=0.0, open_low=True)
        check_choice("metric", self.metric, METRICS)

    def _gather(self, seen: Seen) -> Any:
        _, means = class_counts_and_means(seen.X, seen.codes, len(seen.attributes))
        return seen.attributes, means

    def _gather_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> Any:
        return attributes, sums.of(self.feature_map).means

    def _train(self, gathered: Any) -> Any:
        rows, means = gathered
        origin, center = rows.mean(axis=0), means.mean(axis=0)
        values, basis = scipy.linalg.eigh((rows - origin) @ (rows - origin).T)
        targets = basis.T @ (means - center)
        return means, (rows - origin, origin, center), (np.maximum(values, 0.0), basis, targets)

    def _finish(self, trained: Any) -> ClassRows:
        means, (centred, origin, center), (values, basis, targets) = trained
        self.weights_ = centred.T @ (basis @ (targets / (values + self.ridge)[:, None]))
        self.intercept_ = center - origin @ self.weights_
        return {"embedding": means}

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows @ self.weights_ + self.intercept_}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return similarity_scores(X, table["embedding"], self.metric)
