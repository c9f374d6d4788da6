"""SAE: a linear autoencoder whose code is the attribute vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap, batches, unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, SumsClassifier, center_grid, parameters, powers
from hgkt.baselines._shared.rows import similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.estimators.methods import Preset
from hgkt.statistics import ClassStatistics, Sums

DIRECTIONS = ("to-features", "to-attributes")
_RELATIVE_RANK = 1e-12  # eigenvalues below this share of the largest are rounding


@parameters
class SAEClassifier(SumsClassifier):
    """Semantic autoencoder.

    Encoder W (d, D) and decoder Wᵀ are tied. With features X (N, D) and the
    attributes S (N, d) of each row's class,

        min_W ‖X − S W‖² + λ‖X Wᵀ − S‖²,  so  (SᵀS) W + λ W (XᵀX) = (1 + λ) SᵀX.

    The eigenvectors of SᵀS and XᵀX diagonalise this Sylvester equation for every λ at once.
    A class is recognised where the decoder takes it, score(x, c) = cos(x, Wᵀa_c), or where the
    encoder takes the features, score(x, c) = cos(W x, a_c).

    The authors' programs scale each row of W, the features of one attribute, to unit length
    before either comparison; `normalize_weights` does so. Those for some sets do more: features
    replaced by ridge regression scores, and scores standardised over the test set. Neither is part
    of the model here.

    Parameters
    ----------
    direction : {"to-features", "to-attributes"}, default="to-features"
        Where features and classes are compared; the first is the better one in every re-run that
        reports both.
    encoder_weight : float, default=0.2
        λ; the authors' for CUB.
    normalize_weights : bool, default=False
        Whether rows of W are scaled to unit length, as the authors' programs do; the paper does
        not mention it.
    feature_map, attribute_map, centering, calibration : ...

    Attributes
    ----------
    weights_ : ndarray of shape (n_attributes, n_features)
        W; of smallest norm where several solve the equation, its rows of unit length where
        `normalize_weights` says so.

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

    direction: str = "to-features"
    encoder_weight: float = 0.2
    normalize_weights: bool = False
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0

    mathematics_version: ClassVar[int] = 3  # 2: nothing centred, λ from 1e-5 on

    _learned = ("weights_",)
    _late = ("encoder_weight", "direction", "normalize_weights")
    named_presets: ClassVar[Mapping[str, Preset]] = {
        "released": Preset(
            {"normalize_weights": True},
            {"AWA1": {"encoder_weight": 5e5}, "AWA2": {"encoder_weight": 5e5}},
        )
    }

    def default_stages(self) -> list[Any]:
        """Return maps with λ, centring with λ, then λ more finely in both directions."""
        norms = {"normalize_weights": [False, True]}
        return [
            {"feature_map": list(MAPS), **norms, "encoder_weight": powers(-8, 8)},
            {**center_grid(), **norms, "encoder_weight": powers(-8, 8)},
            {**norms, "encoder_weight": powers(-8, 8, 2), "direction": list(DIRECTIONS)},
        ]

    def _check_params(self) -> None:
        check_choice("direction", self.direction, DIRECTIONS)
        check_number("encoder_weight", self.encoder_weight, low=0.0, open_low=True)

    def _gather(self, seen: Seen) -> Any:
        statistics = ClassStatistics(len(seen.attributes), seen.X.shape[1])
        for part in batches(len(seen.X)):
            statistics.update(seen.X[part].astype(np.float64), seen.codes[part])
        return seen.attributes, statistics, _positive_part(statistics.second_moment)

    def _gather_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> Any:
        statistics = self._statistics_of(sums)
        return attributes, statistics, _positive_part(statistics.second_moment)

    def _train(self, gathered: Any) -> Any:
        rows, statistics, (feature_values, feature_basis) = gathered
        values, basis = _positive_part((rows * statistics.counts[:, None]).T @ rows)
        targets = basis.T @ (rows.T @ statistics.sums) @ feature_basis
        return rows, targets, (values[:, None], feature_values), (basis, feature_basis)

    def _finish(self, trained: Any) -> ClassRows:
        rows, targets, (values, feature_values), (basis, feature_basis) = trained
        weight = self.encoder_weight
        solved = (1.0 + weight) * targets / (values + weight * feature_values)
        weights = basis @ solved @ feature_basis.T
        self.weights_ = unit_rows(weights) if self.normalize_weights else weights
        return self._embed_rows(rows)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows @ self.weights_ if self.direction == "to-features" else rows}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
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
