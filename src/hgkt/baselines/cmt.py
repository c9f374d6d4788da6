"""CMT: cross-modal transfer without novelty detection (Socher et al., NIPS 2013)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._geometry import MAPS, FeatureMap, distance_scores
from hgkt._validation import check_number
from hgkt.baselines._shared.cross_modal import TanhNetwork, fit_network
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, PathClassifier, Seen
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import shapes


class CMTClassifier(PathClassifier):
    """Map images into attribute space with a two-layer network; the nearest class wins.

        f(x) = W₂ tanh(W₁x + b₁) + b₂,
        min (1/2N) Σ_n ‖a_{y_n} − f(x_n)‖² + (λ/2)(‖W₁‖² + ‖b₁‖² + ‖W₂‖² + ‖b₂‖²),
        score(x, c) = −‖f(x) − a_c‖²,

    with class attributes a_c of unit length and features z-scored and divided by their largest
    training value. The network is trained by full-batch L-BFGS. (The authors' program adds a
    sparsity penalty that is not in the paper; it is left out.)

    Parameters
    ----------
    n_hidden : int, default=200
        Hidden units, as in the authors' program.
    decay : float, default=1e-4
        λ, as in the authors' program.
    n_steps : int, default=200
        Most L-BFGS steps; the authors allow 500.
    feature_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length.
    attribute_map : {"none", "l2", "sqrt+l2"} or float, default="l2"
        The same for each attribute vector.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    random_state : int, RandomState or None, default=None
        Draws the first weights.

    Attributes
    ----------
    inner_ : ndarray of shape (n_hidden, n_features)
        W₁, on raw features.
    inner_bias_ : ndarray of shape (n_hidden,)
        b₁.
    outer_ : ndarray of shape (n_attributes, n_hidden)
        W₂.
    outer_bias_ : ndarray of shape (n_attributes,)
        b₂.

    References
    ----------
    Socher, Ganjoo, Manning, Ng, Zero-Shot Learning Through Cross-Modal Transfer, NIPS 2013.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = CMTClassifier(n_hidden=8, random_state=0)
    >>> model = model.fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.add_classes({"jet": [1, 1]}).predict([[0.0, 1.0], [1.0, 0.0]])
    array(['owl', 'car'], dtype='<U3')
    """

    _learned = shapes(inner_="h D", inner_bias_="h", outer_="d h", outer_bias_="d")

    def __init__(
        self,
        n_hidden: int = 200,
        decay: float = 1e-4,
        n_steps: int = 200,
        feature_map: FeatureMap = "none",
        attribute_map: FeatureMap = "l2",
        calibration: float = 0.0,
        random_state: Any = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.decay = decay
        self.n_steps = n_steps
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.calibration = calibration
        self.random_state = random_state

    def default_stages(self) -> list[Any]:
        """Return maps, then weight decay, with, along each training run, when to stop."""
        return [
            {"feature_map": list(MAPS), "n_steps": [10, 20, 50, 100]},
            {"attribute_map": list(ATTRIBUTE_MAPS), "n_steps": [10, 20, 50, 100]},
            {"decay": [1e-6, 1e-5, 1e-4, 1e-3], "n_steps": [10, 20, 50, 100, 200]},
        ]

    def _check_params(self) -> None:
        check_number("n_hidden", self.n_hidden, low=1, integer=True)
        check_number("decay", self.decay, low=0.0)
        check_number("n_steps", self.n_steps, low=1, integer=True)

    def _train(self, seen: Seen, stops: Sequence[int]) -> Iterator[int]:
        rng = check_random_state(self.random_state)
        settings = (self.n_hidden, self.decay, stops, rng, self._progress)
        networks = fit_network(seen.X, seen.codes, seen.attributes, *settings)
        for stop, network in zip(stops, networks, strict=True):
            self.inner_, self.inner_bias_, self.outer_, self.outer_bias_ = network.arrays
            yield stop

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassTable:
        return {"embedding": rows}

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        network = TanhNetwork(self.inner_, self.inner_bias_, self.outer_, self.outer_bias_)
        return distance_scores(network.predict(X), table["embedding"])
