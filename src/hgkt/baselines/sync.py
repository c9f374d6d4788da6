"""SynC: classifiers of new classes synthesised from those of phantom classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, pdist
from scipy.special import softmax

from hgkt._arrays import FeatureMap, batches
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, center_grid, parameters
from hgkt.baselines._shared.lbfgs import minimise_lbfgs
from hgkt.estimators.base import ClassRows
from hgkt.estimators.methods import Preset

_UNIT = ("l2", "sqrt+l2")
_LAMBDAS = [2.0**e for e in range(-24, -8, 2)]


@parameters
class SynCClassifier(GridClassifier):
    """Synthesised classifiers.

    Linear classifiers w_c of the seen classes minimise, by L-BFGS,

    (1/NL) Σ_n Σ_c [1 − ȳ_nc w_cᵀx_n]₊² + (λ/2) Σ_c ‖w_c‖², with ȳ_nc = ±1,

    the one-versus-other loss of the authors' demonstration; the paper has two more.
    Every classifier is a mixture of phantom classifiers v_r that sit at the seen classes'
    attributes: w_c = Σ_r s_cr v_r with s_cr = softmax_r(−δ‖a_c − a_r‖²). So V = S⁺W, and a new
    class with similarities s gets w = sᵀV. The score is w_cᵀx. Attribute vectors are divided by
    the median distance between two seen classes (the authors'
    loader takes the median over all classes; here unseen ones stay unknown), which makes δ free
    of scale.

    Parameters
    ----------
    regularization : float, default=2**-16
        λ; the authors search 2**-24 to 2**-9 (and 2**-30 to 2**-8 for ResNet features). The
        default is what validation classes of CUB chose.
    similarity_scale : float, default=0.5
        δ; the authors search 2**-5 to 2**5. The default is what validation classes of CUB chose.
    n_iterations : int, default=1000
        Most L-BFGS iterations, as in the authors' code.
    tol : float, default=1e-9
        Stop when the objective, which is 1 at w = 0, falls by less in an iteration.
    feature_map, attribute_map, centering, calibration : ...

    Attributes
    ----------
    phantoms_ : ndarray of shape (n_seen, n_features)
        Phantom classifiers v_r.
    positions_ : ndarray of shape (n_seen, n_attributes)
        Attributes at which they sit, in units of `attribute_unit_`.
    attribute_unit_ : float
        Median distance between the mapped attribute vectors of two seen classes.

    References
    ----------
    Changpinyo, Chao, Gong, Sha, "Synthesized classifiers for zero-shot learning", CVPR 2016.

    Examples
    --------
    >>> import numpy as np
    >>> attributes = {"a": [1.0, 0.0, 0.2], "b": [0.0, 1.0, 0.2], "c": [0.2, 0.1, 1.0]}
    >>> y = np.repeat(["a", "b", "c"], 5)
    >>> noise = np.random.default_rng(0).normal(0, 0.05, (15, 3))
    >>> X = np.array([attributes[name] for name in y]) + noise
    >>> model = SynCClassifier().fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"a and c": [1.0, 0.0, 1.0]}).predict([[1.0, 0.0, 0.9], [0, 1, 0.2]])
    array(['a and c', 'b'], dtype='<U7')
    """

    regularization: float = 2.0**-16
    similarity_scale: float = 0.5
    n_iterations: int = 1000
    tol: float = 1e-9
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    centering: str = "none"
    calibration: float = 0.0

    mathematics_version: ClassVar[int] = 3  # 2: nothing centred

    _learned = ("phantoms_", "positions_", "attribute_unit_")
    _late = ("similarity_scale",)
    named_presets: ClassVar[Mapping[str, Preset]] = {
        # The authors' demonstration has unit-length rows, and searches λ and δ for each set. These
        # are of their ranges, and the ones at which their program was compared.
        "released": Preset({"regularization": 2.0**-16, "similarity_scale": 0.5})
    }

    def _check_params(self) -> None:
        check_number("regularization", self.regularization, low=0.0, open_low=True)
        check_number("similarity_scale", self.similarity_scale, low=0.0, open_low=True)
        check_number("n_iterations", self.n_iterations, low=1, integer=True)
        check_number("tol", self.tol, low=0.0)

    def default_stages(self) -> list[Any]:
        """Return maps and centring with λ and δ, then both over the authors' ranges and beyond.

        Features are of unit length, as the authors have them: λ has their unit.
        """
        deltas, few = [2.0**e for e in range(-7, 6)], _LAMBDAS[2:7:2]
        return [
            {"feature_map": list(_UNIT), "regularization": few, "similarity_scale": deltas},
            {
                **center_grid(["none", "attributes"]),
                "regularization": few,
                "similarity_scale": deltas,
            },
            {"regularization": _LAMBDAS, "similarity_scale": deltas},
        ]

    def _gather(self, seen: Seen) -> Seen:
        median = float(np.median(pdist(seen.attributes)))
        self.attribute_unit_ = median if median > 0 else 1.0
        self.positions_ = seen.attributes / self.attribute_unit_
        return seen

    def _finish(self, classifiers: NDArray[np.float64]) -> ClassRows:
        # W = SV, solved for the phantoms.
        similarities = self._similarities(self.positions_)
        # The similarities of a small δ are nearly equal: pinv cuts what rounding leaves of rank.
        self.phantoms_ = np.linalg.pinv(similarities) @ classifiers
        return {"embedding": similarities @ self.phantoms_}

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": self._similarities(rows / self.attribute_unit_) @ self.phantoms_}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return X @ table["embedding"].T

    def _similarities(self, positions: NDArray[np.float64]) -> NDArray[np.float64]:
        squared = cdist(positions, self.positions_, "sqeuclidean")
        return softmax(-self.similarity_scale * squared, axis=1)

    def _train(self, gathered: Seen) -> NDArray[np.float64]:
        X, codes, attributes = gathered
        n_classes, n_steps = len(attributes), self.n_iterations
        objective = SeenObjective(X, codes, n_classes, self.regularization)

        def report(done: int, _: NDArray[np.float64], value: float) -> None:
            if self._progress is not None:
                self._progress("train", done, n_steps, {"loss": value})

        start = np.zeros(n_classes * X.shape[1])
        options = {"maxfun": 2 * n_steps, "ftol": self.tol, "gtol": 0.0}
        weights = minimise_lbfgs(objective, start, n_steps, report, **options)
        return weights.reshape(n_classes, X.shape[1])


@dataclass
class SeenObjective:
    """The regularised loss of the seen classes' classifiers, and its gradient.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Features.
    codes : ndarray of shape (N,)
        Class codes.
    n_classes : int
        L.
    regularization : float
        λ.
    """

    X: NDArray[Any]
    codes: NDArray[np.intp]
    n_classes: int
    regularization: float

    def __call__(self, flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return value and gradient at the flattened W (L·D,)."""
        weights = flat.reshape(self.n_classes, -1)
        small, gradient = weights.astype(self.X.dtype, copy=False), np.zeros_like(weights)
        total = 0.0
        for rows in batches(len(self.X)):
            X = self.X[rows]
            value, slope = squared_hinge(X @ small.T, self.codes[rows])
            total += value / len(self.X)
            gradient += (slope.T @ X) / len(self.X)
        total += 0.5 * self.regularization * float(flat @ flat)
        return total, (gradient + self.regularization * weights).ravel()


def squared_hinge(scores: NDArray[Any], codes: NDArray[np.intp]) -> tuple[float, NDArray[Any]]:
    """(1/L) Σ_n Σ_c [1 − ȳ_nc s_nc]₊² and its derivative by the scores s."""
    rows, n_classes = np.arange(len(scores)), scores.shape[1]
    signs = np.full_like(scores, -1.0)
    signs[rows, codes] = 1.0
    slack = np.maximum(1.0 - signs * scores, 0.0)
    return float(np.square(slack).sum()) / n_classes, (-2.0 / n_classes) * signs * slack
