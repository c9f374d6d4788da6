"""SAE: a linear autoencoder whose code is the attribute vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.shared_fit import (
    Setting,
    SharedFitClassifier,
    collect_statistics,
    group_settings,
)
from hgkt.baselines._shared.similarity import similarity_scores
from hgkt.estimators.base import ClassTable

DIRECTIONS = ("to-features", "to-attributes")
_RELATIVE_RANK = 1e-12  # eigenvalues below this share of the largest are rounding


class SAEClassifier(SharedFitClassifier):
    """Semantic autoencoder.

    Encoder W (d, D) and decoder Wᵀ are tied. With unit-length features X (N, D) and the
    attributes S (N, d) of each row's class,

        min_W ‖X − S W‖² + λ‖X Wᵀ − S‖²,  so  (SᵀS) W + λ W (XᵀX) = (1 + λ) SᵀX.

    The eigenvectors of SᵀS and XᵀX diagonalise this Sylvester equation for every λ at once.
    A class is recognised where the decoder takes it, score(x, c) = cos(x, Wᵀa_c), or where the
    encoder takes the features, score(x, c) = cos(W x, a_c).

    The authors' demonstrations for some sets do more: features replaced by ridge regression
    scores, and scores standardised over the test set. Neither is part of the model here.

    Parameters
    ----------
    direction : {"to-features", "to-attributes"}, default="to-features"
        Where features and classes are compared; the first is the better one in every re-run that
        reports both.
    encoder_weight : float, default=0.2
        λ; the authors' for CUB.
    normalize_attributes : bool, default=True
        Whether attribute vectors are scaled to unit length.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.

    Attributes
    ----------
    weights_ : ndarray of shape (n_attributes, n_features)
        W; of smallest norm where several solve the equation.

    References
    ----------
    Kodirov, Xiang, Gong, "Semantic autoencoder for zero-shot learning", CVPR 2017.

    Examples
    --------
    >>> X = np.array([[4.0, 0.1], [3.9, 0.0], [0.1, 4.1], [0.0, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = SAEClassifier().fit(X, y, class_attributes=attributes)
    >>> model = model.add_classes({"zebra": [1.0, 1.0]})
    >>> model.predict([[3.0, 3.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    _learned: ClassVar[tuple[str, ...]] = ("weights_",)

    def __init__(
        self,
        direction: str = "to-features",
        encoder_weight: float = 0.2,
        normalize_attributes: bool = True,
        calibration: float = 0.0,
    ) -> None:
        self.direction = direction
        self.encoder_weight = encoder_weight
        self.normalize_attributes = normalize_attributes
        self.calibration = calibration

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return a logarithmic grid of λ: its optimum lies far apart in the two directions."""
        return [{"encoder_weight": [10.0 ** (k / 2) for k in range(-10, 13)]}]

    def _check_params(self) -> None:
        check_choice("direction", self.direction, DIRECTIONS)
        check_number("encoder_weight", self.encoder_weight, low=0.0, open_low=True)

    def _fit_settings(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        settings: Sequence[Setting],
    ) -> Iterator[tuple[int, ClassTable]]:
        statistics = collect_statistics(X, codes, len(attributes), unit_rows)
        feature_values, feature_basis = _positive_part(statistics.second_moment)
        for indices in group_settings(settings, ("encoder_weight", "direction")):
            self.set_params(**settings[indices[0]])
            self._check_params()
            rows = self._attribute_rows(attributes)
            values, basis = _positive_part((rows * statistics.counts[:, None]).T @ rows)
            targets = basis.T @ (rows.T @ statistics.sums) @ feature_basis
            for index in indices:
                self.set_params(**settings[index])
                self._check_params()
                weight = self.encoder_weight
                solved = (1.0 + weight) * targets / (values[:, None] + weight * feature_values)
                self.weights_ = basis @ solved @ feature_basis.T
                yield index, self._embed_classes(attributes)

    def _attribute_rows(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        return unit_rows(attributes) if self.normalize_attributes else attributes

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        rows = self._attribute_rows(attributes)
        return {"embedding": rows @ self.weights_ if self.direction == "to-features" else rows}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        rows = X if self.direction == "to-features" else X @ self.weights_.T
        return similarity_scores(rows, table["embedding"], "cosine")


def _positive_part(
    matrix: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues (r,) that are not zero and their eigenvectors in columns (n, r).

    SᵀX vanishes along all others, and so does the solution of smallest norm.
    """
    values, basis = scipy.linalg.eigh(matrix)
    keep = values > _RELATIVE_RANK * max(values[-1], np.finfo(np.float64).tiny)
    return values[keep], basis[:, keep]
