"""The regression network of cross-modal transfer: features to attributes through one tanh layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt.baselines._shared.lbfgs import minimise_lbfgs
from hgkt.baselines._shared.rows import ZScore

_CHUNK_ROWS = 4096


@dataclass
class TanhNetwork:
    """f(x) = W₂ tanh(W₁x + b₁) + b₂.

    Parameters
    ----------
    inner : ndarray of shape (n_hidden, n_features)
        W₁.
    inner_bias : ndarray of shape (n_hidden,)
        b₁.
    outer : ndarray of shape (n_outputs, n_hidden)
        W₂.
    outer_bias : ndarray of shape (n_outputs,)
        b₂.
    """

    inner: NDArray[Any]
    inner_bias: NDArray[Any]
    outer: NDArray[Any]
    outer_bias: NDArray[Any]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All four, in the order of the parameters."""
        return self.inner, self.inner_bias, self.outer, self.outer_bias

    @classmethod
    def draw(
        cls, n_features: int, n_hidden: int, n_outputs: int, rng: np.random.RandomState
    ) -> Self:
        """Draw uniform weights of variance 2/(fan in + fan out), and zero biases."""

        def layer(n_out: int, n_in: int) -> NDArray[np.float64]:
            bound = np.sqrt(6.0 / (n_in + n_out))
            return rng.uniform(-bound, bound, (n_out, n_in))

        inner, outer = layer(n_hidden, n_features), layer(n_outputs, n_hidden)
        return cls(inner, np.zeros(n_hidden), outer, np.zeros(n_outputs))

    def packed(self) -> NDArray[np.float64]:
        """Return all parameters as one vector."""
        return np.concatenate([array.ravel() for array in self.arrays])

    def unpacked(self, vector: NDArray[Any]) -> TanhNetwork:
        """Return the network of the same shape whose parameters are views into a vector."""
        ends = np.cumsum([array.size for array in self.arrays])[:-1]
        parts = np.split(vector, ends)
        shaped = zip(parts, self.arrays, strict=True)
        return TanhNetwork(*(part.reshape(array.shape) for part, array in shaped))

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Map features (n, D) to (n, n_outputs)."""
        hidden = np.tanh(X @ self.inner.T + self.inner_bias)
        outputs: NDArray[Any] = hidden @ self.outer.T + self.outer_bias
        return outputs


def regression_objective(
    network: TanhNetwork,
    X: NDArray[Any],
    codes: NDArray[np.intp],
    targets: NDArray[np.float64],
    decay: float,
) -> tuple[float, TanhNetwork]:
    """Return (1/2N) Σ_n ‖t_{y_n} − f(x_n)‖² + (λ/2)‖all parameters‖² and its gradient.

    Parameters
    ----------
    network : TanhNetwork
        f.
    X : ndarray of shape (n_samples, n_features)
        Features, standardised.
    codes : ndarray of shape (n_samples,)
        Class codes.
    targets : ndarray of shape (n_classes, n_outputs)
        Target of each class.
    decay : float
        λ; biases are decayed too, as the authors do.

    Returns
    -------
    value : float
        The objective.
    gradient : TanhNetwork
        Its derivative by each array.
    """
    narrow = TanhNetwork(*(array.astype(X.dtype) for array in network.arrays))
    gradient = TanhNetwork(*(decay * array for array in network.arrays))
    value = 0.5 * decay * sum(float((array**2).sum()) for array in network.arrays)
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        hidden = np.tanh(X[rows] @ narrow.inner.T + narrow.inner_bias)
        residual = hidden @ narrow.outer.T + narrow.outer_bias
        residual -= targets[codes[rows]].astype(X.dtype)
        value += 0.5 * float((residual**2).sum(dtype=np.float64)) / len(X)
        residual /= len(X)
        back = (residual @ narrow.outer) * (1.0 - hidden**2)
        gradient.inner += back.T @ X[rows]
        gradient.inner_bias += back.sum(axis=0, dtype=np.float64)
        gradient.outer += residual.T @ hidden
        gradient.outer_bias += residual.sum(axis=0, dtype=np.float64)
    return value, gradient


def fit_network(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    targets: NDArray[np.float64],
    n_hidden: int,
    decay: float,
    stops: Sequence[int],
    rng: np.random.RandomState,
    progress: Progress | None = None,
) -> list[TanhNetwork]:
    """Regress class targets on features by full-batch L-BFGS, as the authors do.

    Features are z-scored and divided by the largest z-score of the training rows, the
    preprocessing of the benchmark that the method is compared in.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Raw features.
    codes : ndarray of shape (n_samples,)
        Class codes.
    targets : ndarray of shape (n_classes, n_outputs)
        Target of each class.
    n_hidden : int
        Hidden units.
    decay : float
        λ of `regression_objective`.
    stops : sequence of int
        Ascending numbers of L-BFGS steps after which the network is wanted.
    rng : RandomState
        Draws the first weights.
    progress : callable, optional
        Called as ``progress("train", done, total, values)``.

    Returns
    -------
    list of TanhNetwork
        The network of raw features at each stop, or where training converged before it.

    Examples
    --------
    >>> X, targets = np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]])
    >>> rng = np.random.RandomState(0)
    >>> networks = fit_network(X, np.array([0, 1]), targets, 4, 1e-6, [10, 50], rng)
    >>> networks[-1].predict(X).round(2).ravel() + 0.0
    array([0., 1.])
    """
    zscore = ZScore.of(X)
    features = zscore.apply(X)
    largest = float(features.max())
    if largest > 0.0:  # zero where every feature is constant
        features /= largest
        zscore = zscore.divided_by(largest)
    start = TanhNetwork.draw(X.shape[1], n_hidden, targets.shape[1], rng)

    def objective(vector: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        network = start.unpacked(vector)
        value, gradient = regression_objective(network, features, codes, targets, decay)
        return value, gradient.packed()

    reached = {}

    def report(done: int, point: NDArray[np.float64], value: float) -> None:
        if done in stops:
            reached[done] = point.copy()
        if progress is not None:
            progress("train", done, stops[-1], {"loss": value})

    last = minimise_lbfgs(objective, start.packed(), stops[-1], report, ftol=1e-9, gtol=1e-7)
    return [_raw(start.unpacked(reached.get(stop, last)), zscore) for stop in stops]


def _raw(network: TanhNetwork, zscore: ZScore) -> TanhNetwork:
    """Rewrite a network of standardised features as one of raw features."""
    inner, inner_bias = zscore.to_raw(network.inner, network.inner_bias)
    return TanhNetwork(inner, inner_bias, network.outer.copy(), network.outer_bias.copy())
