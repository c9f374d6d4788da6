"""Images described by entry-wise comparison with a template of each seen class: the core of SSE."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt.baselines._shared.bilinear import hinge_sum

FEATURE_MAPS = ("relu", "intersection")
_CHUNK_ROWS = 32  # a chunk of images stays in cache while it meets all templates


@dataclass
class TemplateModel:
    """g_s(x) = wᵀφ(x, v_s) with φ = min(x, v) ("intersection") or max(0, x − v) ("relu").

    Parameters
    ----------
    weights : ndarray of shape (n_features,)
        w.
    templates : ndarray of shape (n_seen, n_features)
        v.
    feature_map : {"relu", "intersection"}
        φ.

    Examples
    --------
    >>> model = TemplateModel(np.ones(2), np.array([[1.0, 0.0], [0.5, 2.0]]), "intersection")
    >>> model.similarities(np.array([[0.7, 1.0]]))
    array([[0.7, 1.5]])
    """

    weights: NDArray[Any]
    templates: NDArray[Any]
    feature_map: str

    @classmethod
    def start(cls, templates: NDArray[Any], feature_map: str) -> Self:
        """Return the plain intersection similarity: w = 1, or −1 for what exceeds a template."""
        model = cls(np.ones(templates.shape[1], templates.dtype), templates, feature_map)
        model.weights *= model.sign
        return model

    @property
    def sign(self) -> float:
        """Factor of min(x, v) in φ: max(0, x − v) = x − min(x, v)."""
        return 1.0 if self.feature_map == "intersection" else -1.0

    def similarities(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return g (n, n_seen) of features (n, D)."""
        result = np.empty((len(X), len(self.templates)), np.result_type(X, self.weights))
        for start in range(0, len(X), _CHUNK_ROWS):
            rows = X[start : start + _CHUNK_ROWS]
            least = np.empty(rows.shape, result.dtype)
            for s, template in enumerate(self.templates):
                np.minimum(rows, template, out=least)
                result[start : start + len(rows), s] = least @ self.weights
        if self.feature_map == "relu":
            result = (X @ self.weights)[:, None] - result
        return result


def hinge_objective(
    model: TemplateModel,
    X: NDArray[Any],
    codes: NDArray[np.intp],
    mixtures: NDArray[Any],
    penalties: tuple[float, float],
) -> tuple[float, NDArray[Any], NDArray[Any]]:
    """Return the regularised mean hinge of a batch and its subgradients by w and v.

    (1/n) Σ_n Σ_{c≠y_n} [1 + F(x_n, c) − F(x_n, y_n)]₊ + (α/2)‖w‖² + (β/2)Σ_s‖v_s‖² with
    F(x, c) = Σ_s z_cs g_s(x). Nothing of shape n × n_seen × D is formed.

    Parameters
    ----------
    model : TemplateModel
        w and v.
    X : ndarray of shape (n, D)
        Features.
    codes : ndarray of shape (n,)
        Class codes.
    mixtures : ndarray of shape (n_classes, n_seen)
        z.
    penalties : (float, float)
        α and β.

    Returns
    -------
    value : float
        The objective.
    by_weights : ndarray of shape (D,)
        Subgradient by w.
    by_templates : ndarray of shape (n_seen, D)
        Subgradient by v.
    """
    value, slope = hinge_sum(model.similarities(X) @ mixtures.T, codes, 1.0)
    # The derivative by g. Rows of the slope sum to 0 and mixtures to 1, so those of `pull` sum to
    # 0 and the term x of max(0, x − v) = x − min(x, v) drops out.
    pull = model.sign * (slope @ mixtures) / len(X)
    on_weights, on_templates = penalties
    by_weights, by_templates = on_weights * model.weights, on_templates * model.templates
    for start in range(0, len(X), _CHUNK_ROWS):
        rows, columns = X[start : start + _CHUNK_ROWS], pull[start : start + _CHUNK_ROWS].T
        least, above = np.empty_like(rows), np.empty(rows.shape, dtype=bool)
        for s, template in enumerate(model.templates):
            by_weights += columns[s] @ np.minimum(rows, template, out=least)
            np.copyto(least, np.greater(rows, template, out=above))
            by_templates[s] += model.weights * (columns[s] @ least)
    value = value / len(X) + 0.5 * on_weights * float((model.weights**2).sum())
    return value + 0.5 * on_templates * float((model.templates**2).sum()), by_weights, by_templates


def train_templates(
    model: TemplateModel,
    X: NDArray[Any],
    codes: NDArray[np.intp],
    mixtures: NDArray[Any],
    *,
    penalties: tuple[float, float],
    learning_rate: float,
    n_epochs: int,
    batch_size: int,
    rng: np.random.RandomState,
    progress: Progress | None = None,
) -> TemplateModel:
    """Minimise `hinge_objective` over w and v ≥ 0 by Adam on mini-batches.

    Parameters
    ----------
    model : TemplateModel
        Where to start; it is not changed.
    X : ndarray of shape (n_samples, D)
        Non-negative features.
    codes : ndarray of shape (n_samples,)
        Class codes.
    mixtures : ndarray of shape (n_seen, n_seen)
        z of the seen classes.
    penalties : (float, float)
        Weights of ‖w‖²/2 and Σ‖v‖²/2.
    learning_rate : float
        First step for w, falling linearly to zero; relative to their mean entry for templates.
    n_epochs, batch_size : int
        Passes over the rows, rows a step.
    rng : RandomState
        Draws the batches.
    progress : callable, optional
        Called as ``progress("train", done, total, values)`` after each epoch.

    Returns
    -------
    TemplateModel

    Examples
    --------
    >>> X, codes = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    >>> start, rng = TemplateModel.start(X, "intersection"), np.random.RandomState(0)
    >>> options = {"learning_rate": 0.1, "n_epochs": 5, "batch_size": 2, "rng": rng}
    >>> model = train_templates(start, X, codes, np.eye(2), penalties=(0.1, 0.0), **options)
    >>> model.similarities(X).argmax(axis=1)
    array([0, 1])
    """
    model = TemplateModel(model.weights.copy(), model.templates.copy(), model.feature_map)
    steps = (_Adam(model.weights), _Adam(model.templates))
    scale = float(model.templates.mean())
    batches = range(0, len(X), batch_size)
    total, done = n_epochs * len(batches), 0
    for epoch in range(n_epochs):
        order, loss = rng.permutation(len(X)), 0.0
        for start in batches:
            rows = order[start : start + batch_size]
            value, *gradients = hinge_objective(model, X[rows], codes[rows], mixtures, penalties)
            rate = learning_rate * (1.0 - done / total)
            model.weights -= rate * steps[0].direction(gradients[0])
            model.templates -= rate * scale * steps[1].direction(gradients[1])
            np.maximum(model.templates, 0.0, out=model.templates)
            loss += value * len(rows) / len(X)
            done += 1
        if progress is not None:
            progress("train", epoch + 1, n_epochs, {"loss": loss})
    return model


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
