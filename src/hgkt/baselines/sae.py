"""SAE: a linear autoencoder whose code is the attribute vector."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, StagedClassifier
from hgkt.baselines._shared.rows import similarity_scores
from hgkt.estimators.base import ClassTable
from hgkt.statistics import ClassStatistics

DIRECTIONS = ("to-features", "to-attributes")
_CHUNK_ROWS = 4096
_RELATIVE_RANK = 1e-12  # eigenvalues below this share of the largest are rounding


class SAEClassifier(StagedClassifier):
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

    _learned = ("weights_",)
    _late = ("encoder_weight", "direction")

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

    def _gather(self, seen: Seen) -> Any:
        statistics = ClassStatistics(len(seen.attributes), seen.X.shape[1])
        for start in range(0, len(seen.X), _CHUNK_ROWS):
            part = slice(start, start + _CHUNK_ROWS)
            statistics.update(unit_rows(seen.X[part].astype(np.float64)), seen.codes[part])
        return seen.attributes, statistics, _positive_part(statistics.second_moment)

    def _train(self, gathered: Any) -> Any:
        attributes, statistics, (feature_values, feature_basis) = gathered
        rows = self._attribute_rows(attributes)
        values, basis = _positive_part((rows * statistics.counts[:, None]).T @ rows)
        targets = basis.T @ (rows.T @ statistics.sums) @ feature_basis
        return attributes, targets, (values[:, None], feature_values), (basis, feature_basis)

    def _finish(self, trained: Any) -> ClassTable:
        attributes, targets, (values, feature_values), (basis, feature_basis) = trained
        weight = self.encoder_weight
        solved = (1.0 + weight) * targets / (values + weight * feature_values)
        self.weights_ = basis @ solved @ feature_basis.T
        return self._embed_classes(attributes)

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
