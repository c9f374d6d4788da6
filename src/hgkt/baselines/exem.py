"""EXEM: visual exemplars of classes, predicted from attributes by support vector regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from sklearn import config_context
from sklearn.svm import NuSVR

from hgkt._arrays import FeatureMap, distance_scores
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, map_grid, parameters
from hgkt.baselines._shared.rows import class_means_and_variances
from hgkt.estimators.base import ClassRows

VARIANTS = ("nns", "nn")
_RELATIVE_RANK = 1e-12  # eigenvalues below this share of the largest are rounding
_LEAST_SPREAD = 1e-6


@parameters
class EXEMClassifier(GridClassifier):
    """Predict the visual exemplar of each class and take the nearest one.

    Features are projected on the first principal components P of the training rows. The exemplar
    of a seen class is its mean there, and one regression per component j carries attributes to
    exemplars,

        ψ_j(a) = Σ_c β_cj exp(−g‖a − a_c‖²/m²) + b_j,

    a ν-support vector regression on the L seen means; m is the median distance between the
    attributes of two seen classes (the authors' loader takes it over all classes; here unseen ones
    stay unknown), which makes g free of scale. Every class, seen or not, is represented by ψ(a_c):

    - ``"nns"``: score(x, c) = −‖(Px − ψ(a_c))/σ‖, with σ_j the mean over the seen classes of the
      standard deviation of component j within a class,
    - ``"nn"``: score(x, c) = −‖Px − ψ(a_c)‖.

    Parameters
    ----------
    variant : {"nns", "nn"}, default="nns"
        Whether distances are standardised within classes.
    C : float, default=1.0
        Weight of the loss of the regressions, on exemplars scaled to a mean distance of one from
        their centre, so that it is free of the unit of the features; the authors search 2**-5 to
        2**5 on exemplars as they are.
    nu : float, default=0.5
        ν, the share of seen classes that may become support vectors at least; the authors search
        2**-8 to 1.
    kernel_scale : float, default=0.5
        g; the authors search 2**-4 to 2**4.
    n_components : int, default=500
        Number of principal components, at most the rank of the features; the authors take 500 and
        1000.
    feature_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length. The authors do nothing.
    attribute_map : ...
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes, as the
        authors do.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        Mean of the mapped training rows.
    components_ : ndarray of shape (n_features, n_components)
        P, divided by σ where the variant is "nns".
    dual_weights_ : ndarray of shape (n_seen, n_components)
        β, in the units of `components_`.
    intercept_ : ndarray of shape (n_components,)
        b.
    positions_ : ndarray of shape (n_seen, n_attributes)
        Attributes of seen classes in units of `attribute_unit_`.
    attribute_unit_ : float
        m.

    References
    ----------
    Changpinyo, Chao, Sha, "Predicting visual exemplars of unseen classes for zero-shot learning",
    ICCV 2017. Changpinyo, Chao, Gong, Sha, "Classifier and exemplar synthesis for zero-shot
    learning", IJCV 2020.

    Examples
    --------
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = EXEMClassifier(C=100.0).fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    variant: str = "nns"
    C: float = 1.0
    nu: float = 0.5
    kernel_scale: float = 0.5
    n_components: int = 500
    feature_map: FeatureMap = "none"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0

    _learned = (
        "center_",
        "components_",
        "dual_weights_",
        "intercept_",
        "positions_",
        "attribute_unit_",
    )
    _late = ("variant", "n_components")

    def default_stages(self) -> list[Any]:
        """Return maps with the width of the kernel, then C with it, ν, and the components."""
        variants = {"variant": list(VARIANTS)}
        widths = [2.0**k for k in range(-4, 4)]
        return [
            {**map_grid(), **variants, "kernel_scale": [0.125, 0.5, 2.0]},
            {**variants, "C": [0.25, 0.5, 1.0, 2.0, 4.0], "kernel_scale": widths},
            {**variants, "nu": [2.0**k for k in range(-6, 1)]},
            {**variants, "n_components": [125, 250, 500, 1000, 2000]},
        ]

    def _check_params(self) -> None:
        check_choice("variant", self.variant, VARIANTS)
        for name in ("C", "kernel_scale"):
            check_number(name, getattr(self, name), low=0.0, open_low=True)
        check_number("nu", self.nu, low=0.0, high=1.0, open_low=True)
        check_number("n_components", self.n_components, low=1, integer=True)

    def _gather(self, seen: Seen) -> Any:
        X, codes, attributes = seen
        median = float(np.median(pdist(attributes))) if len(attributes) > 1 else 0.0
        self.attribute_unit_ = median if median > 0 else 1.0
        self.positions_ = attributes / self.attribute_unit_
        rows = np.asarray(X, dtype=np.float64)
        self.center_ = rows.mean(axis=0)
        rows = rows - self.center_
        values, basis = scipy.linalg.eigh(rows.T @ rows)
        basis = basis[:, values > _RELATIVE_RANK * max(values[-1], np.finfo(np.float64).tiny)]
        basis = basis[:, ::-1] if basis.shape[1] else np.eye(len(values))[:, :1]
        means, variances = class_means_and_variances(rows @ basis, codes, len(attributes))
        spreads = np.sqrt(variances).mean(axis=0)
        # A component in which no class varies would outweigh all others.
        floor = max(_LEAST_SPREAD * float(spreads.max()), np.finfo(np.float64).tiny)
        return basis, means, np.maximum(spreads, floor)

    def _train(self, gathered: Any) -> Any:
        _, means, _ = gathered
        kernel = self._kernel(self.positions_)
        return gathered, ExemplarRegressions(kernel, means, self.C, self.nu)

    def _finish(self, trained: Any) -> ClassRows:
        (basis, _, spreads), regressions = trained
        n = min(self.n_components, basis.shape[1])
        scales = 1.0 / spreads[:n] if self.variant == "nns" else np.ones(n)
        weights, intercepts = regressions.first(n)
        self.components_ = basis[:, :n] * scales
        self.dual_weights_, self.intercept_ = weights * scales, intercepts * scales
        return {"embedding": self._exemplars(self.positions_)}

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": self._exemplars(rows / self.attribute_unit_)}

    def _exemplars(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        kernel = self._kernel(positions)
        exemplars: NDArray[np.float64] = kernel @ self.dual_weights_ + self.intercept_
        return exemplars

    def _kernel(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        squared = cdist(positions, self.positions_, "sqeuclidean")
        kernel: NDArray[np.float64] = np.exp(-self.kernel_scale * squared)
        return kernel

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        rows = (X - self.center_.astype(X.dtype)) @ self.components_.astype(X.dtype)
        squared = -distance_scores(rows, table["embedding"])
        distances: NDArray[Any] = np.sqrt(np.maximum(squared, 0.0))
        return -distances


class ExemplarRegressions:
    """ν-support vector regressions of the columns of class means, each fitted when it is asked for.

    Settings that differ in the number of components share them: the first are the same.

    Parameters
    ----------
    kernel : ndarray of shape (L, L)
        Kernel between the seen classes.
    means : ndarray of shape (L, n_columns)
        Their means.
    C, nu : float
        Of the regressions; C is in units of the mean distance of class means from their centre.
    """

    def __init__(
        self, kernel: NDArray[np.float64], means: NDArray[np.float64], C: float, nu: float
    ) -> None:
        unit = float(np.linalg.norm(means - means.mean(axis=0), axis=1).mean())
        self._unit = unit if unit > 0 else 1.0
        self._kernel, self._targets = kernel, means / self._unit
        self._solver = NuSVR(kernel="precomputed", C=C, nu=nu)
        self._weights = np.zeros((len(means), 0))
        self._intercepts = np.zeros(0)

    def first(self, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return weights (L, n) of the seen classes and intercepts (n,) of the first columns."""
        done = len(self._intercepts)
        if n > done:
            weights, intercepts = np.zeros((len(self._kernel), n - done)), np.zeros(n - done)
            # Checking each of hundreds of tiny problems takes longer than solving it.
            with config_context(assume_finite=True, skip_parameter_validation=True):
                for column in range(done, n):
                    found = self._solver.fit(self._kernel, self._targets[:, column])
                    weights[found.support_, column - done] = found.dual_coef_[0]
                    intercepts[column - done] = found.intercept_[0]
            self._weights = np.concatenate([self._weights, self._unit * weights], axis=1)
            self._intercepts = np.concatenate([self._intercepts, self._unit * intercepts])
        return self._weights[:, :n], self._intercepts[:n]
