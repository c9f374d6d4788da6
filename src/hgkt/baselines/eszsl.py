"""ESZSL: a bilinear map from a squared loss, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, StagedClassifier
from hgkt.estimators.base import ClassTable
from hgkt.statistics import ClassStatistics

LABEL_CODINGS = ("binary", "signed")


class ESZSLClassifier(StagedClassifier):
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
    normalize_attributes : bool, default=True
        Whether attribute vectors are scaled to unit length.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.

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

    _learned = ("weights_",)
    _late = ("feature_ridge", "attribute_ridge")

    def __init__(
        self,
        feature_ridge: float = 1e3,
        attribute_ridge: float = 1.0,
        label_coding: str = "binary",
        normalize_attributes: bool = True,
        calibration: float = 0.0,
    ) -> None:
        self.feature_ridge = feature_ridge
        self.attribute_ridge = attribute_ridge
        self.label_coding = label_coding
        self.normalize_attributes = normalize_attributes
        self.calibration = calibration

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return the authors' grid, extended upwards: γ is often chosen at its edge."""
        return [
            {
                "feature_ridge": [10.0**k for k in range(-3, 7)],
                "attribute_ridge": [10.0**k for k in range(-3, 4)],
            }
        ]

    def _check_params(self) -> None:
        check_number("feature_ridge", self.feature_ridge, low=0.0, open_low=True)
        check_number("attribute_ridge", self.attribute_ridge, low=0.0, open_low=True)
        check_choice("label_coding", self.label_coding, LABEL_CODINGS)

    def _gather(self, seen: Seen) -> Any:
        statistics = ClassStatistics(len(seen.attributes), seen.X.shape[1])
        statistics.update(seen.X, seen.codes)
        return seen.attributes, statistics.sums, _eigen(statistics.second_moment)

    def _train(self, gathered: Any) -> Any:
        attributes, sums, (feature_values, feature_basis) = gathered
        rows = self._attribute_rows(attributes)
        values, basis = _eigen(rows.T @ rows)
        targets = feature_basis.T @ self._label_products(sums, rows) @ basis
        return attributes, targets, (feature_values, values), (feature_basis, basis)

    def _finish(self, trained: Any) -> ClassTable:
        attributes, targets, (feature_values, values), (feature_basis, basis) = trained
        scales = np.outer(feature_values + self.feature_ridge, values + self.attribute_ridge)
        self.weights_ = feature_basis @ (targets / scales) @ basis.T
        return self._embed_classes(attributes)

    def _label_products(
        self, sums: NDArray[np.float64], rows: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return XᵀY A (D, d) from the sums of each class (L, D)."""
        binary = sums.T @ rows
        if self.label_coding == "binary":
            return binary
        return 2.0 * binary - np.outer(sums.sum(axis=0), rows.sum(axis=0))

    def _attribute_rows(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        return unit_rows(attributes) if self.normalize_attributes else attributes

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return {"embedding": self._attribute_rows(attributes) @ self.weights_.T}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        return X @ table["embedding"].T


def _eigen(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues, none negative by rounding, and eigenvectors of a Gram matrix."""
    values, basis = scipy.linalg.eigh(matrix)
    return np.maximum(values, 0.0), basis
