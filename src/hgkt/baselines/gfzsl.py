"""GFZSL: every class a Gaussian whose parameters are regressed from its attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import (
    Seen,
    SumsClassifier,
    center_grid,
    map_grid,
    parameters,
    powers,
)
from hgkt.baselines._shared.rows import class_means_and_variances, variances_of
from hgkt.estimators.base import ClassRows
from hgkt.estimators.methods import Preset
from hgkt.statistics import Sums

SEEN_PARAMETERS = ("regressed", "empirical")


@parameters
class GFZSLClassifier(SumsClassifier):
    """Generative framework for zero-shot learning with Gaussian classes.

    A class is N(μ_c, diag σ_c²). Both parameters are kernel ridge regressions on attributes with
    k(a, a') = (1 + aᵀa')². With K = k(A, A), the seen means M (L, D) and variances Ŝ (L, D),

        μ(a) = k(a, A)(K + λ₁I)⁻¹ M,    σ²(a) = exp(k(a, A)(K + λ₂I)⁻¹ log(Ŝ + ε)),

    and score(x, c) = log N(x; μ_c, diag(σ_c² + f)). This is the inductive version; the one that
    adapts to the test set is left out.

    Parameters
    ----------
    mean_ridge : float, default=0.1
        λ₁; the authors' for AWA1 and SUN.
    variance_ridge : float, default=1e8
        λ₂; the authors' value. It carries every log-variance to zero: all regressed classes get
        a variance of one in each feature, and the method is a nearest mean.
    seen_parameters : {"regressed", "empirical"}, default="regressed"
        Whether seen classes take the regressed parameters as the others do, or their own means
        and variances. The second gives them densities on another scale, so that a generalized
        prediction rarely names an unseen class.
    variance_offset : float, default=1e-3
        ε.
    variance_floor : float, default=0.05
        f, in squared units of the features.
    feature_map, attribute_map, centering, calibration : ...

    Attributes
    ----------
    mean_weights_ : ndarray of shape (n_seen, n_features)
        (K + λ₁I)⁻¹ M.
    variance_weights_ : ndarray of shape (n_seen, n_features)
        (K + λ₂I)⁻¹ log(Ŝ + ε).
    references_ : ndarray of shape (n_seen, n_attributes)
        A.

    References
    ----------
    Verma, Rai, "A simple exponential family framework for zero-shot learning", ECML-PKDD 2017.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = GFZSLClassifier().fit(X, y, class_attributes=attributes)
    >>> model = model.add_classes({"zebra": [1.0, 1.0]})
    >>> model.predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    mean_ridge: float = 0.1
    variance_ridge: float = 1e8
    seen_parameters: str = "regressed"
    variance_offset: float = 1e-3
    variance_floor: float = 0.05
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0

    mathematics_version: ClassVar[int] = 3  # 2: nothing centred

    _learned = ("mean_weights_", "variance_weights_", "references_")
    _late = ("mean_ridge", "variance_ridge", "seen_parameters", "variance_floor")
    _needs_squares = True
    named_presets: ClassVar[Mapping[str, Preset]] = {
        # The authors' scripts for the proposed splits; AWA1 and SUN have the defaults.
        "released": Preset(
            {"mean_ridge": 0.1, "variance_ridge": 1e8},
            {
                "AWA2": {"mean_ridge": 0.01},
                "CUB": {"mean_ridge": 1.0, "variance_ridge": 1e7, "variance_offset": 1e-4},
            },
        )
    }

    def default_stages(self) -> list[Any]:
        """Return maps and centring with the first ridge, variances, the first ridge more finely.

        Variances are regressed or, by a large ridge, one; floor and offset have the squared unit
        of the features.
        """
        return [
            {**map_grid(), "mean_ridge": powers(-3, 2), "variance_ridge": [1.0, 1e8]},
            {**center_grid(), "mean_ridge": powers(-4, 3)},
            {
                "variance_ridge": [0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e8],
                "variance_floor": [0.05, 1e-3, 1e-4, 1e-5, 1e-6],
                "variance_offset": [1e-3, 1e-6],
            },
            {"mean_ridge": powers(-4, 3, 2)},
        ]

    def _check_params(self) -> None:
        for name in ("mean_ridge", "variance_ridge", "variance_offset", "variance_floor"):
            check_number(name, getattr(self, name), low=0.0, open_low=True)
        check_choice("seen_parameters", self.seen_parameters, SEEN_PARAMETERS)

    def _gather(self, seen: Seen) -> Any:
        X, codes, attributes = seen
        return attributes, *class_means_and_variances(X, codes, len(attributes))

    def _gather_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> Any:
        statistics, squares = sums.of(self.feature_map), sums.squares_of(self.feature_map)
        variances = variances_of(statistics.counts, statistics.means, squares)
        return attributes, self._center_features(statistics.means), variances

    def _train(self, gathered: Any) -> Any:
        self.references_, means, variances = gathered
        values, basis = scipy.linalg.eigh(_quadratic(self.references_, self.references_))
        logarithms = np.log(variances + self.variance_offset)
        targets = basis.T @ means, basis.T @ logarithms
        return gathered, np.maximum(values, 0.0)[:, None], basis, targets

    def _finish(self, trained: Any) -> ClassRows:
        (rows, means, variances), values, basis, (mean_targets, variance_targets) = trained
        self.mean_weights_ = basis @ (mean_targets / (values + self.mean_ridge))
        self.variance_weights_ = basis @ (variance_targets / (values + self.variance_ridge))
        if self.seen_parameters == "empirical":
            return {"embedding": means, "variance": variances}
        return self._embed_rows(rows)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        kernel = _quadratic(rows, self.references_)
        variances = np.exp(kernel @ self.variance_weights_)
        return {"embedding": kernel @ self.mean_weights_, "variance": variances}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        X = np.asarray(X, dtype=np.float64)
        means, variances = table["embedding"], table["variance"] + self.variance_floor
        # Σ(x−μ)²/σ² multiplied out: three matrix products, and no array of n × classes × D.
        squares = X**2 @ (1.0 / variances).T - 2.0 * X @ (means / variances).T
        constants = (means**2 / variances + np.log(2.0 * np.pi * variances)).sum(axis=1)
        densities: NDArray[np.float64] = -0.5 * (squares + constants)
        return densities


def _quadratic(rows: NDArray[np.float64], references: NDArray[np.float64]) -> NDArray[np.float64]:
    return (1.0 + rows @ references.T) ** 2
