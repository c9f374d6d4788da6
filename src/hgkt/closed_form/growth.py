"""How far the examples of a class that came by its attributes are trusted.

λ, the noise of a class mean, is chosen such that unseen classes are predicted well. It says little
about how noisy the mean of one, two or five examples is, and a mixture has many λ. So the noise of
a class that grows is measured: its examples scatter around its mean as those of all classes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hgkt.closed_form.posterior import ClassPosterior

if TYPE_CHECKING:
    from hgkt.closed_form.transfer import ClosedFormTransfer

_LEAST = 1e-6  # of the kernel: classes described alike would leave nothing to solve


def with_grown_noise(transfer: ClosedFormTransfer, grown: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return Λ (R, L) of a transfer with ν/n in the columns of classes that have grown.

    ν is the variance of one example around the mean of its class in units of the kernel: σ²/τ²,
    σ² measured inside classes and τ² = tr(Vᵀ(K + Λ)⁻¹V)/(L·D), the scale of the Gaussian process
    at which the means V of the other classes are most likely. The mean of n examples has the
    noise ν/n, and its weight beside the prediction v/(v + ν/n) is the one of least squared error.

    Parameters
    ----------
    transfer : ClosedFormTransfer
        Its metrics are solved; its noise is that of classes of their size.
    grown : ndarray of shape (L,)
        Which classes came by their attributes.
    """
    others, counts = ~grown, transfer.counts
    noise = transfer.noise.copy()
    kernel = transfer.kernel.seen[np.ix_(others, others)]
    shares = transfer.settings.ridge_shares()
    precision = ClassPosterior(kernel, noise[:, others], shares).precision
    ratio = _variance_ratio(transfer, precision, others)
    if ratio > 0:
        least = _LEAST * np.diag(kernel).mean()
        noise[:, grown] = np.maximum(ratio / np.maximum(counts[grown], 1.0), least)
    return noise


def learned_shares(transfer: ClosedFormTransfer, grown: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return how far each grown class (L,) has become one that was learned, from 0 to 1.

    The weight of its own examples in its embedding, over that of the other classes' on average;
    zero for those others.
    """
    if grown.all() or not grown.any():
        return grown.astype(np.float64)
    weights = transfer.posterior.own_weights()
    return np.where(grown, np.clip(weights / weights[~grown].mean(), 0.0, 1.0), 0.0)


def _variance_ratio(
    transfer: ClosedFormTransfer, precision: NDArray[np.float64], rows: NDArray[np.bool_]
) -> float:
    """Return ν, averaged over the metrics by their weights; 0 where nothing tells it."""
    found: dict[object, list[float]] = {}
    for name, space in transfer.spaces.items():
        means = space.source_vectors()[rows]
        spread = np.einsum("id,id->d", precision @ means, means) / len(means)
        signals = (spread * space.scales**2).mean(axis=1)
        noises = space.variances.mean(axis=1)
        ratios = np.divide(noises, signals, out=np.zeros_like(noises), where=signals > 0)
        found[name] = ratios.tolist()
    terms = transfer.settings.metrics
    ratios = [found[term.feature_map].pop(0) for term in terms]
    return float(np.average(ratios, weights=[term.weight for term in terms]))
