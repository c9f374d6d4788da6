"""GFZSL: every class a Gaussian whose parameters are regressed from its attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._geometry import unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import Seen, StagedClassifier
from hgkt.estimators.base import ClassTable
from hgkt.statistics import class_sums

SEEN_PARAMETERS = ("regressed", "empirical")
_CHUNK_ROWS = 4096


class GFZSLClassifier(StagedClassifier):
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
    normalize_attributes : bool, default=True
        Whether attribute vectors are scaled to unit length.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.

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

    _learned = ("mean_weights_", "variance_weights_", "references_")
    _late = ("mean_ridge", "variance_ridge", "seen_parameters")

    def __init__(
        self,
        mean_ridge: float = 0.1,
        variance_ridge: float = 1e8,
        seen_parameters: str = "regressed",
        variance_offset: float = 1e-3,
        variance_floor: float = 0.05,
        normalize_attributes: bool = True,
        calibration: float = 0.0,
    ) -> None:
        self.mean_ridge = mean_ridge
        self.variance_ridge = variance_ridge
        self.seen_parameters = seen_parameters
        self.variance_offset = variance_offset
        self.variance_floor = variance_floor
        self.normalize_attributes = normalize_attributes
        self.calibration = calibration

    def default_stages(self) -> list[dict[str, list[Any]]]:
        """Return both ridges; the second from a real regression to the authors' constant."""
        return [{"mean_ridge": [0.01, 0.1, 1.0, 10.0], "variance_ridge": [0.1, 10.0, 1e3, 1e8]}]

    def _check_params(self) -> None:
        for name in ("mean_ridge", "variance_ridge", "variance_offset", "variance_floor"):
            check_number(name, getattr(self, name), low=0.0, open_low=True)
        check_choice("seen_parameters", self.seen_parameters, SEEN_PARAMETERS)

    def _gather(self, seen: Seen) -> Any:
        X, codes, attributes = seen
        return attributes, *class_means_and_variances(X, codes, len(attributes))

    def _train(self, gathered: Any) -> Any:
        attributes, means, variances = gathered
        self.references_ = self._attribute_rows(attributes)
        values, basis = scipy.linalg.eigh(_quadratic(self.references_, self.references_))
        logarithms = np.log(variances + self.variance_offset)
        targets = basis.T @ means, basis.T @ logarithms
        return gathered, np.maximum(values, 0.0)[:, None], basis, targets

    def _finish(self, trained: Any) -> ClassTable:
        (attributes, means, variances), values, basis, (mean_targets, variance_targets) = trained
        self.mean_weights_ = basis @ (mean_targets / (values + self.mean_ridge))
        self.variance_weights_ = basis @ (variance_targets / (values + self.variance_ridge))
        if self.seen_parameters == "empirical":
            return {"embedding": means, "variance": variances}
        return self._embed_classes(attributes)

    def _attribute_rows(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        return unit_rows(attributes) if self.normalize_attributes else attributes

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        kernel = _quadratic(self._attribute_rows(attributes), self.references_)
        variances = np.exp(kernel @ self.variance_weights_)
        return {"embedding": kernel @ self.mean_weights_, "variance": variances}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        X = np.asarray(X, dtype=np.float64)
        means, variances = table["embedding"], table["variance"] + self.variance_floor
        # Σ(x−μ)²/σ² multiplied out: three matrix products, and no array of n × classes × D.
        squares = X**2 @ (1.0 / variances).T - 2.0 * X @ (means / variances).T
        constants = (means**2 / variances + np.log(2.0 * np.pi * variances)).sum(axis=1)
        return -0.5 * (squares + constants)


def class_means_and_variances(
    X: NDArray[Any], codes: NDArray[np.intp], n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and unbiased variances of each class, (n_classes, D) both, in one pass.

    Paper gap: a class of one instance has no variance; it takes the pooled one of all classes.

    Examples
    --------
    >>> class_means_and_variances(np.array([[1.0], [3.0], [9.0]]), np.array([0, 0, 1]), 2)
    (array([[2.],
           [9.]]), array([[2.],
           [2.]]))
    """
    shift = np.asarray(X[0], dtype=np.float64)  # keeps the squares small against their differences
    counts, sums = np.zeros(n_classes), np.zeros((n_classes, X.shape[1]))
    squares = np.zeros_like(sums)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = np.asarray(X[start : start + _CHUNK_ROWS], dtype=np.float64) - shift
        labels = codes[start : start + _CHUNK_ROWS]
        counts += np.bincount(labels, minlength=n_classes)
        sums += class_sums(rows, labels, n_classes)
        squares += class_sums(rows**2, labels, n_classes)
    means = sums / np.maximum(counts, 1.0)[:, None]
    scatters = np.maximum(squares - counts[:, None] * means**2, 0.0)
    pooled = scatters.sum(axis=0) / max(float((counts - 1.0).clip(0.0).sum()), 1.0)
    variances = scatters / np.maximum(counts - 1.0, 1.0)[:, None]
    variances[counts < 2] = pooled
    return means + shift, variances


def _quadratic(rows: NDArray[np.float64], references: NDArray[np.float64]) -> NDArray[np.float64]:
    return (1.0 + rows @ references.T) ** 2
