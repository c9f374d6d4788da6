"""Full-batch training by L-BFGS, and the two logistic regressions that are trained by it.

scikit-learn's LogisticRegression reaches the same softmax optimum in the same time (150 classes of
CUB: 1.0 times ours). For the 282 heads of its attributes, which share every matrix product here, it
would take 2.3 times as long (by five of them, whose objective ends 0.1 % lower; with its default
tolerance it is as fast and up to 5 % higher). One solver serves both.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

from hgkt._arrays import batches
from hgkt._typing import Progress
from hgkt.baselines._shared.rows import ZScore

LinearMap = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Weights (n_outputs, n_features) and bias (n_outputs,) on raw features."""

_Loss = Callable[[NDArray[Any], slice], tuple[float, NDArray[Any]]]
"""Loss and gradient, summed over rows, of scores (n, n_outputs) of the rows of a slice."""

_MAX_STEPS = 200


def minimise_lbfgs(
    objective: Callable[..., tuple[float, NDArray[np.float64]]],
    start: NDArray[np.float64],
    n_steps: int,
    on_step: Callable[[int, NDArray[np.float64], float], None],
    **options: Any,
) -> NDArray[np.float64]:
    """Minimise a function that returns value and gradient, in at most `n_steps` steps.

    `on_step` is called with the number of steps done, the point and its value; `options` are those
    of SciPy's L-BFGS-B.

    Examples
    --------
    >>> minimise_lbfgs(lambda x: (x @ x, 2 * x), np.ones(2), 10, lambda done, x, value: None)
    array([0., 0.])
    """
    steps = count(1)

    def callback(intermediate_result: Any) -> None:
        on_step(next(steps), intermediate_result.x, float(intermediate_result.fun))

    rules: Any = {"maxiter": n_steps, **options}
    return minimize(
        objective, start, jac=True, method="L-BFGS-B", callback=callback, options=rules
    ).x


def fit_softmax(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    n_classes: int,
    C: float,
    progress: Progress | None = None,
) -> LinearMap:
    """Fit multinomial logistic regression.

    Minimises ½‖W‖² + C Σ_n −log softmax(W x_n + b)_{y_n} (the bias is free) over features that
    are z-scored and divided by √D, so that rows have unit mean square and C means the same
    whatever the number of features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Raw features.
    codes : ndarray of shape (n_samples,)
        Class codes.
    n_classes : int
        Number of classes.
    C : float
        Weight of the loss, as in LIBLINEAR.
    progress : callable, optional
        Called as ``progress("train", done, total, values)``.

    Returns
    -------
    tuple of ndarray
        Weights (n_classes, n_features) and bias (n_classes,) on raw features.

    Examples
    --------
    >>> weights, bias = fit_softmax(np.array([[0.0], [1.0]]), np.array([0, 1]), 2, C=10.0)
    >>> bool(weights[1, 0] > 0 > weights[0, 0])
    True
    """

    def loss(scores: NDArray[Any], rows: slice) -> tuple[float, NDArray[Any]]:
        own = np.arange(len(scores)), codes[rows]
        logs = log_softmax(scores, axis=1)
        value = -float(logs[own].sum(dtype=np.float64))
        gradient = np.exp(logs, out=logs)
        gradient[own] -= 1.0
        return value, gradient

    return _fit(X, n_classes, loss, 1.0 / n_classes, C, progress)


def fit_sigmoids(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    class_targets: NDArray[np.float64],
    C: float,
    progress: Progress | None = None,
) -> LinearMap:
    """Fit one binary logistic regression for each column of the class targets.

    Minimises Σ_m ½‖w_m‖² + C Σ_n log-loss(w_mᵀx_n + b_m, t_{y_n,m}) over features scaled as in
    `fit_softmax`; the heads are independent but share every matrix product.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Raw features.
    codes : ndarray of shape (n_samples,)
        Class codes.
    class_targets : ndarray of shape (n_classes, n_heads)
        Targets 0 or 1, which every image inherits from its class.
    C : float
        Weight of the loss, as in LIBLINEAR.
    progress : callable, optional
        Called as ``progress("train", done, total, values)``.

    Returns
    -------
    tuple of ndarray
        Weights (n_heads, n_features) and bias (n_heads,) on raw features.

    Examples
    --------
    >>> X, targets = np.array([[0.0], [1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> weights, bias = fit_sigmoids(X, np.array([0, 1]), targets, C=10.0)
    >>> bool(weights[0, 0] > 0 > weights[1, 0])
    True
    """

    def loss(scores: NDArray[Any], rows: slice) -> tuple[float, NDArray[Any]]:
        targets = class_targets[codes[rows]].astype(scores.dtype)
        value = float((np.logaddexp(0.0, scores) - targets * scores).sum(dtype=np.float64))
        return value, expit(scores) - targets

    return _fit(X, class_targets.shape[1], loss, 0.25, C, progress)


def predict_softmax(X: NDArray[Any], weights: NDArray[Any], bias: NDArray[Any]) -> NDArray[Any]:
    """Return class probabilities (n, n_classes) of raw features (n, D)."""
    probabilities: NDArray[Any] = softmax(X @ weights.T + bias, axis=1)
    return probabilities


def _fit(
    X: NDArray[Any],
    n_outputs: int,
    loss: _Loss,
    curvature: float,
    C: float,
    progress: Progress | None,
) -> LinearMap:
    n_rows, n_features = X.shape
    zscore = ZScore.of(X).divided_by(np.sqrt(n_features))
    decay, n_weights = 1.0 / (C * n_rows), n_outputs * n_features
    features, basis = _whiten(zscore.apply(X), decay, curvature)
    penalties = decay * (basis**2).sum(axis=0)

    def objective(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weights = parameters[:n_weights].reshape(n_outputs, n_features)
        narrow, bias = weights.astype(X.dtype), parameters[n_weights:].astype(X.dtype)
        total, gradient = 0.0, np.zeros_like(parameters)
        slope = gradient[:n_weights].reshape(n_outputs, n_features)
        for rows in batches(n_rows):
            value, residual = loss(features[rows] @ narrow.T + bias, rows)
            total += value
            slope += residual.T @ features[rows]
            gradient[n_weights:] += residual.sum(axis=0, dtype=np.float64)
        gradient /= n_rows
        slope += penalties * weights
        return total / n_rows + 0.5 * float((penalties * weights**2).sum()), gradient

    def report(done: int, _: NDArray[np.float64], value: float) -> None:
        if progress is not None:
            progress("train", done, _MAX_STEPS, {"loss": value})

    # Single precision cannot tell smaller changes of the loss apart.
    tolerance = 1e-6 if X.dtype == np.float32 else 1e-11
    start = np.zeros(n_weights + n_outputs)
    found = minimise_lbfgs(objective, start, _MAX_STEPS, report, ftol=tolerance, gtol=1e-8)
    weights = found[:n_weights].reshape(n_outputs, n_features) @ basis.T
    return zscore.to_raw(weights, found[n_weights:])


def _whiten(
    features: NDArray[Any], decay: float, curvature: float
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return features F (N, D) as FB, and the basis B (D, D) in which the loss is nearly round.

    At W = 0 the Hessian of each output is about decay·I + κ·FᵀF/N, with κ = p(1 − p) the
    `curvature` of its loss there. B is its inverse square root: L-BFGS then needs half its steps.
    Columns of B are orthogonal.
    """
    gram = np.zeros((features.shape[1], features.shape[1]))
    for part in batches(len(features)):
        rows = features[part].astype(np.float64)
        gram += rows.T @ rows
    values, basis = scipy.linalg.eigh(curvature / len(features) * gram)
    basis /= np.sqrt(decay + np.maximum(values, 0.0))
    return features @ basis.astype(features.dtype), basis
