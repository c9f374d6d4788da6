"""ESZSL: a bilinear map from a squared loss, in closed form."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, SumsClassifier, center_grid, parameters, powers
from hgkt.estimators.base import ClassRows
from hgkt.statistics import ClassStatistics, Sums

LABEL_CODINGS = ("binary", "signed")


@parameters
class ESZSLClassifier(SumsClassifier):
    """Embarrassingly simple zero-shot learning.

    With features X (N, D), attributes A (L, d) and labels Y (N, L),

        min_V ‖X V Aᵀ − Y‖² + γ‖V Aᵀ‖² + λ‖X V‖² + γλ‖V‖²

    has the solution V = (XᵀX + γI)⁻¹ XᵀY A (AᵀA + λI)⁻¹, and score(x, c) = xᵀ V a_c. The
    eigenvectors of XᵀX and AᵀA serve all γ and λ, so a whole grid costs one decomposition.

    Parameters
    ----------
    feature_ridge : float, default=1e3
        γ. The default is what validation chose for three of the benchmark's sets on raw CNN
        features.
    attribute_ridge : float, default=1.0
        λ, with the same source.
    label_coding : {"binary", "signed"}, default="binary"
        Y in {0, 1} as in the authors' code, or in {−1, 1} as in the paper.
    feature_map, attribute_map, centering, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_features, n_attributes)
        V.

    References
    ----------
    Romera-Paredes, Torr, "An embarrassingly simple approach to zero-shot learning", ICML 2015.

    Examples
    --------
    >>> X = np.array([[4.0, 0.1], [3.9, 0.0], [0.1, 4.1], [0.0, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = ESZSLClassifier(feature_ridge=0.1, attribute_ridge=0.1)
    >>> model = model.fit(X, y, class_attributes=attributes).add_classes({"zebra": [1.0, 1.0]})
    >>> model.predict([[3.0, 3.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    feature_ridge: float = 1e3
    attribute_ridge: float = 1.0
    label_coding: str = "binary"
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0

    mathematics_version: ClassVar[int] = 3  # 2: nothing centred

    _learned = ("weights_",)
    _late = ("feature_ridge", "attribute_ridge")

    def default_stages(self) -> list[Any]:
        """Return maps and centring with both ridges, then these: γ has the unit of the features."""
        gammas = powers(-2, 10)
        return [
            {"feature_map": list(MAPS), "feature_ridge": gammas, "attribute_ridge": [0.1, 1.0]},
            {**center_grid(), "feature_ridge": gammas, "attribute_ridge": [0.1, 1.0, 10.0]},
            {"feature_ridge": powers(-2, 10, 2), "attribute_ridge": powers(-4, 3)},
        ]

    def _check_params(self) -> None:
        check_number("feature_ridge", self.feature_ridge, low=0.0, open_low=True)
        check_number("attribute_ridge", self.attribute_ridge, low=0.0, open_low=True)
        check_choice("label_coding", self.label_coding, LABEL_CODINGS)

    def _gather(self, seen: Seen) -> Any:
        statistics = ClassStatistics(len(seen.attributes), seen.X.shape[1])
        statistics.update(seen.X, seen.codes)
        return seen.attributes, statistics.sums, _eigen(statistics.second_moment)

    def _gather_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> Any:
        statistics = self._statistics_of(sums)
        return attributes, statistics.sums, _eigen(statistics.second_moment)

    def _train(self, gathered: Any) -> Any:
        rows, sums, (feature_values, feature_basis) = gathered
        values, basis = _eigen(rows.T @ rows)
        targets = feature_basis.T @ self._label_products(sums, rows) @ basis
        return rows, targets, (feature_values, values), (feature_basis, basis)

    def _finish(self, trained: Any) -> ClassRows:
        rows, targets, (feature_values, values), (feature_basis, basis) = trained
        scales = np.outer(feature_values + self.feature_ridge, values + self.attribute_ridge)
        self.weights_ = feature_basis @ (targets / scales) @ basis.T
        return self._embed_rows(rows)

    def _label_products(
        self, sums: NDArray[np.float64], rows: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return XᵀY A (D, d) from the sums of each class (L, D)."""
        binary = sums.T @ rows
        if self.label_coding == "binary":
            return binary
        return 2.0 * binary - np.outer(sums.sum(axis=0), rows.sum(axis=0))

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows @ self.weights_.T}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return X @ table["embedding"].T


def _eigen(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, none negative by rounding, and eigenvectors of a Gram matrix."""
    values, basis = scipy.linalg.eigh(matrix)
    return np.maximum(values, 0.0), basis
