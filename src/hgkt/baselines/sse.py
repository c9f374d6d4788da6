"""SSE: semantic similarity embedding (Zhang, Saligrama, ICCV 2015)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._arrays import FeatureMap, batches, unit_rows
from hgkt._validation import check_number
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, GridClassifier, Seen, parameters
from hgkt.baselines._shared.rows import hinge_sum
from hgkt.estimators.base import ClassRows
from hgkt.statistics import class_counts_and_means

_CACHED_ROWS = 32  # so many images stay in cache while they meet all templates
_MAX_STEPS = 5000
_TOLERANCE = 1e-10


@parameters
class SSEClassifier(GridClassifier):
    """Describe classes and images alike by how much of each seen class is in them.

    Every class is a mixture of the seen ones, by its attributes a_c of unit length:

        z_c = argmin_{z ≥ 0, Σz = 1} ½‖a_c − Σ_s z_s a_s‖² + (γ/2)‖z‖².

    An image is compared with a template v_s of each seen class, entry by entry:
    φ_s(x) = min(x, v_s) or max(0, x − v_s). With one weight vector w for all,

        score(x, c) = Σ_s z_cs wᵀφ_s(x),

        min ½‖w‖² + (λ/2) Σ_s‖v_s‖² + (κ/N) Σ_n Σ_{c≠y_n} [1 + score(x_n, c) − score(x_n, y_n)]₊

    over w and v ≥ 0, by mini-batches; templates start at the class means. This is the paper's
    hinge of each image; its second hinge, of class means, is left out. Mapped features are
    scaled to unit length. Paper gap: comparison needs non-negative features; where the training
    rows have negative ones, positive and negative parts become features of their own.

    The paper also has min(x, v) in place of max(0, x − v) = x − min(x, v). As Σ_s z_cs = 1, both
    rank classes alike with w of opposite signs: they are one model under this loss.

    Parameters
    ----------
    gamma : float, default=1.0
        γ. The authors' program has 10 and a comment 0.001; this value reached the highest H on
        validation classes of CUB among 0.01, 0.1, 1 and 10.
    C : float, default=1000.0
        κ, weight of the hinge, averaged over images; the highest H on validation classes of CUB
        among 10, 100 and 1000.
    template_decay : float, default=1e-3
        λ. Paper gap: no value is given.
    learning_rate : float, default=0.1
        First step of Adam for w, falling linearly to zero; templates step by this share of
        their mean entry.
    n_epochs : int, default=5
        Passes over the training images; zero leave w and templates at their start, the plain
        intersection similarity.
    batch_size : int, default=128
        Images per step.
    feature_map, attribute_map, calibration : ...
    random_state : int, RandomState or None, default=None
        Draws the batches.

    Attributes
    ----------
    weights_ : ndarray of shape (n_features,) or (2 * n_features,)
        w.
    templates_ : ndarray of shape (n_seen, n_features) or (n_seen, 2 * n_features)
        v.
    sources_ : ndarray of shape (n_seen, n_attributes)
        Attributes of seen classes, of unit length.
    signed_ : bool
        Whether features are split into positive and negative parts.

    References
    ----------
    Zhang, Saligrama, Zero-Shot Learning via Semantic Similarity Embedding, ICCV 2015.

    Examples
    --------
    >>> X = np.array([[0.0, 1.0], [0.1, 0.9], [1.0, 0.0], [0.9, 0.1]])
    >>> y = ["owl", "owl", "car", "car"]
    >>> model = SSEClassifier(random_state=0)
    >>> model = model.fit(X, y, class_attributes={"owl": [0, 1], "car": [1, 0]})
    >>> model.predict([[0.0, 1.0], [1.0, 0.0]])
    array(['owl', 'car'], dtype='<U3')
    >>> model = model.add_classes({"jet": [1, 1]})  # a mixture of both
    >>> model.class_embeddings_[model.classes_ == "jet"].round(2)
    array([[0.5, 0.5]])
    """

    gamma: float = 1.0
    C: float = 1000.0
    template_decay: float = 1e-3
    learning_rate: float = 0.1
    n_epochs: int = 5
    batch_size: int = 128
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None

    mathematics_version: ClassVar[int] = 3  # 2: γ from 0.1 on, which selection took

    _learned = ("weights_", "templates_", "sources_", "signed_")

    def default_stages(self) -> list[Any]:
        """Return maps with the spread of mixtures, the weight of the hinge, the spread again."""
        return [
            {"feature_map": ["l2", "sqrt+l2"], "gamma": [1.0, 10.0], "C": [1e4]},
            {"attribute_map": list(ATTRIBUTE_MAPS)},
            {"C": [1e3, 1e4, 1e5]},
            {"gamma": [0.001, 0.01, 0.1, 1.0, 10.0, 100.0]},
        ]

    def _train(self, gathered: Seen) -> ClassRows:
        X, codes, attributes = gathered
        self.sources_ = unit_rows(attributes)
        table = self._embed_rows(attributes)
        self.signed_ = bool(X.min() < 0.0)
        features = self._scaled(X)
        _, means = class_counts_and_means(features, codes, len(attributes))
        start = TemplateModel.start(means.astype(X.dtype))
        model = self._descend(start, features, codes, table["embedding"].astype(X.dtype))
        self.weights_, self.templates_ = model.weights, model.templates
        return table

    def _descend(
        self,
        start: TemplateModel,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        mixtures: NDArray[Any],
    ) -> TemplateModel:
        """Minimise `hinge_objective` over w and v ≥ 0 by Adam; the step falls linearly to zero."""
        model = TemplateModel(start.weights.copy(), start.templates.copy())
        steps = (_Adam(model.weights), _Adam(model.templates))
        scale, rng = float(model.templates.mean()), check_random_state(self.random_state)
        penalties = (1.0 / self.C, self.template_decay / self.C)
        total, done = self.n_epochs * math.ceil(len(X) / self.batch_size), 0
        for epoch in range(self.n_epochs):
            order, loss = rng.permutation(len(X)), 0.0
            for batch in batches(len(X), self.batch_size):
                rows = order[batch]
                found = hinge_objective(model, X[rows], codes[rows], mixtures, penalties)
                value, by_weights, by_templates = found
                rate = self.learning_rate * (1.0 - done / total)
                model.weights -= rate * steps[0].direction(by_weights)
                model.templates -= rate * scale * steps[1].direction(by_templates)
                np.maximum(model.templates, 0.0, out=model.templates)
                loss += value * len(rows) / len(X)
                done += 1
            if self._progress is not None:
                self._progress("train", epoch + 1, self.n_epochs, {"loss": loss})
        return model

    def _check_params(self) -> None:
        for name in ("gamma", "template_decay", "learning_rate"):
            check_number(name, getattr(self, name), low=0.0)
        check_number("C", self.C, low=0.0, open_low=True)
        check_number("n_epochs", self.n_epochs, low=0, integer=True)
        check_number("batch_size", self.batch_size, low=1, integer=True)

    def _scaled(self, X: NDArray[Any]) -> NDArray[Any]:
        positive = np.maximum(X, 0.0)
        if self.signed_:
            positive = np.concatenate([positive, positive - X], axis=1)
        return unit_rows(positive)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": simplex_mixtures(unit_rows(rows), self.sources_, self.gamma)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        model = TemplateModel(self.weights_, self.templates_)
        return model.similarities(self._scaled(X)) @ table["embedding"].T


@dataclass
class TemplateModel:
    """g_s(x) = wᵀmax(0, x − v_s) for weights w (D,) and templates v (n_seen, D).

    Examples
    --------
    >>> model = TemplateModel(-np.ones(2), np.array([[1.0, 0.0], [0.5, 2.0]]))
    >>> model.similarities(np.array([[0.7, 1.0]]))
    array([[-1. , -0.2]])
    """

    weights: NDArray[Any]
    templates: NDArray[Any]

    @classmethod
    def start(cls, templates: NDArray[Any]) -> Self:
        """Return the plain intersection similarity: −1 for what exceeds a template."""
        return cls(-np.ones(templates.shape[1], templates.dtype), templates)

    def similarities(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return g (n, n_seen) of features (n, D)."""
        result = np.empty((len(X), len(self.templates)), np.result_type(X, self.weights))
        for part in batches(len(X), _CACHED_ROWS):
            rows = X[part]
            least = np.empty(rows.shape, result.dtype)
            for s, template in enumerate(self.templates):
                np.minimum(rows, template, out=least)
                result[part, s] = least @ self.weights
        similarities: NDArray[Any] = (X @ self.weights)[:, None] - result
        return similarities


def hinge_objective(
    model: TemplateModel,
    X: NDArray[Any],
    codes: NDArray[np.intp],
    mixtures: NDArray[Any],
    penalties: tuple[float, float],
) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Return the regularised mean hinge of a batch and its subgradients by w and v.

    (1/n) Σ_n Σ_{c≠y_n} [1 + F(x_n, c) − F(x_n, y_n)]₊ + (α/2)‖w‖² + (β/2)Σ_s‖v_s‖² with
    F(x, c) = Σ_s z_cs g_s(x), for features (n, D), codes (n,), mixtures z (n_classes, n_seen) and
    penalties (α, β). Nothing of shape n × n_seen × D is formed.
    """
    value, slope = hinge_sum(model.similarities(X) @ mixtures.T, codes, 1.0)
    # The derivative by g. Rows of the slope sum to 0 and mixtures to 1, so those of `pull` sum to
    # 0 and the term x of max(0, x − v) = x − min(x, v) drops out.
    pull = -(slope @ mixtures) / len(X)
    on_weights, on_templates = penalties
    by_weights, by_templates = on_weights * model.weights, on_templates * model.templates
    for part in batches(len(X), _CACHED_ROWS):
        rows, columns = X[part], pull[part].T
        least, above = np.empty_like(rows), np.empty(rows.shape, dtype=bool)
        for s, template in enumerate(model.templates):
            by_weights += columns[s] @ np.minimum(rows, template, out=least)
            np.copyto(least, np.greater(rows, template, out=above))
            by_templates[s] += model.weights * (columns[s] @ least)
    value = value / len(X) + 0.5 * on_weights * float((model.weights**2).sum())
    return value + 0.5 * on_templates * float((model.templates**2).sum()), by_weights, by_templates


class _Adam:
    """Directions of Adam (Kingma, Ba 2015) with its usual constants."""

    def __init__(self, like: NDArray[Any]) -> None:
        self._mean, self._square, self._steps = np.zeros_like(like), np.zeros_like(like), 0

    def direction(self, gradient: NDArray[Any]) -> NDArray[Any]:
        self._steps += 1
        self._mean += 0.1 * (gradient - self._mean)
        self._square += 0.001 * (gradient**2 - self._square)
        mean = self._mean / (1.0 - 0.9**self._steps)
        square = self._square / (1.0 - 0.999**self._steps)
        direction: NDArray[Any] = mean / (np.sqrt(square) + 1e-8)
        return direction


def simplex_mixtures(
    targets: NDArray[Any], sources: NDArray[Any], gamma: float
) -> NDArray[np.float64]:
    """Write each target (n, d) as a mixture (n, n_sources) of the sources S (n_sources, d).

    Solves, for every row a of the targets,

        min ½‖a − Sᵀz‖² + (γ/2)‖z‖²   over z ≥ 0, Σz = 1,

    that is ½ zᵀ(SSᵀ + γI)z − (Sa)ᵀz, by FISTA whose momentum restarts for a target when it points
    uphill (O'Donoghue, Candès 2015).

    Examples
    --------
    >>> simplex_mixtures(np.array([[1.0, 1.0]]), np.eye(2), 0.1)
    array([[0.5, 0.5]])
    """
    hessian = sources @ sources.T
    hessian[np.diag_indices_from(hessian)] += gamma
    linear = targets @ sources.T
    step = 1.0 / max(float(np.linalg.eigvalsh(hessian)[-1]), np.finfo(float).tiny)
    mixtures = np.full(linear.shape, 1.0 / len(sources))
    ahead, momentum = mixtures, np.ones((len(targets), 1))
    for _ in range(_MAX_STEPS):
        moved = project_to_simplex(ahead - step * (ahead @ hessian - linear))
        change = moved - mixtures
        if np.abs(moved - ahead).max(initial=0.0) < _TOLERANCE:
            return moved
        uphill = ((ahead - moved) * change).sum(axis=1, keepdims=True) > 0.0
        momentum = np.where(uphill, 1.0, momentum)
        following = 0.5 + np.sqrt(0.25 + momentum**2)
        ahead = moved + (momentum - 1.0) / following * change
        mixtures, momentum = moved, following
    return mixtures


def project_to_simplex(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nearest point of the simplex {z ≥ 0, Σz = 1} to each row (n, L).

    Examples
    --------
    >>> project_to_simplex(np.array([[0.5, 0.7], [3.0, 0.0]]))
    array([[0.4, 0.6],
           [1. , 0. ]])
    """
    # ot.utils.proj_simplex gives the same numbers in 1.1 times the time, but importing POT loads
    # torch: 200 MB and seconds, for a method that needs neither.
    ordered = -np.sort(-rows, axis=1)
    excess = ordered.cumsum(axis=1) - 1.0
    ranks = np.arange(1, rows.shape[1] + 1)
    support = (ordered * ranks > excess).sum(axis=1)
    shift = excess[np.arange(len(rows)), support - 1] / support
    nearest: NDArray[np.float64] = np.maximum(rows - shift[:, None], 0.0)
    return nearest
