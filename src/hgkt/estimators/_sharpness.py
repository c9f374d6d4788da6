"""From how well classes are separated to the accuracy to expect, learned on held-out classes.

While γ is found, seen classes are held out and recognised by their attributes alone: their
accuracies are known. Where each of them was predicted then is a closed form. That makes a small
regression, and it costs no fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration import HeldOutClasses
from hgkt.closed_form.posterior import ClassPosterior
from hgkt.closed_form.separation import ClassGeometry

MIN_HELD_OUT = 6
"""Of fewer held-out classes nothing can be said about the next one."""
RANGE = (0.1, 0.9)
"""Quantiles of what held-out classes missed the expectation by: eight of ten lie between."""
_PRIOR_ROWS = 10.0  # how many rows' worth of evidence speaks for no relation at all
_MIDDLE = 2.0
_FACTORS = np.geomspace(0.05, 10.0, 25)  # β times the median separation from the nearest class


@dataclass(frozen=True)
class Sharpness:
    """How separations become accuracies.

    A class keeps p = 1 / (1 + Σ_j exp(−β s_j)) of its images against classes at separations s_j.
    Accuracy is linear in p and in the posterior variance of the class: a class far from all others
    may be harder, because its place is uncertain, or easier, because nothing else is there; held-
    out classes say which.

    Parameters
    ----------
    beta : float
        β.
    offset, slope, variance_slope : float
        Accuracy is offset + slope · p + variance_slope · variance.
    residuals : tuple of (float, float)
        Of ten held-out classes eight missed the expectation by an amount between these, among all
        classes of their fold.
    n_classes : int
        How many classes were held out.
    rank_correlation : float
        Of expected and real accuracy over them (Spearman).
    """

    beta: float
    offset: float
    slope: float
    variance_slope: float
    residuals: tuple[float, float]
    n_classes: int
    rank_correlation: float

    def accuracy(self, kept: float, variance: float) -> float:
        """Return the accuracy to expect for p and a posterior variance."""
        expected = self.offset + self.slope * kept + self.variance_slope * variance
        return float(min(max(expected, 0.0), 1.0))


def odds(separations: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Return exp(−β s): how many images go to another class for each one that stays."""
    result: NDArray[np.float64] = np.exp(np.minimum(-beta * separations, 50.0))
    return result


def learn_sharpness(
    geometry: ClassGeometry,
    posterior: ClassPosterior,
    held_out: HeldOutClasses,
    seen: Sequence[Any],
) -> Sharpness | None:
    """Fit what a `Sharpness` holds to the accuracies of held-out classes, by least squares.

    Returns None where fewer than six classes were held out, or where their accuracies do not
    rise with how well they are separated.

    Parameters
    ----------
    geometry, posterior
        Of a fitted closed form.
    held_out : HeldOutClasses
        What the folds said.
    seen : sequence
        The seen classes, in the order of the closed form.
    """
    n_classes = len(set(held_out.labels))
    if n_classes < MIN_HELD_OUT:
        return None
    parts = list(_replayed(geometry, posterior, held_out, seen))
    separations, variances, real, together = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    scale = float(np.median(np.abs(separations.min(axis=1))))
    best, least = None, np.inf
    for factor in _FACTORS:
        beta = float(factor / (scale if scale > 0 else 1.0))
        kept = 1.0 / (1.0 + odds(separations, beta).sum(axis=1))
        found = _line(np.column_stack([kept, variances]), real)
        missed = real - found[0] - found[1] * kept - found[2] * variances
        # Few classes cannot tell which β is best; then one in the middle is.
        doubt = 1.0 + np.log(factor / _MIDDLE) ** 2 / n_classes
        error = float((missed**2).sum() * doubt)
        if error < least and found[1] > 0:
            low, high = np.quantile(missed[together], RANGE).tolist()
            correlation = _rank_correlation((real - missed)[together], real[together])
            best = Sharpness(beta, *found, (low, high), n_classes, correlation)
            least = error
    return best


def _line(columns: NDArray[np.float64], real: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return offset and slopes of a ridge regression on two standardised columns (n, 2)."""
    means, deviations = columns.mean(axis=0), columns.std(axis=0)
    deviations = np.where(deviations > 1e-9, deviations, np.inf)
    rows = (columns - means) / deviations
    gram = rows.T @ rows + _PRIOR_ROWS * np.eye(2)
    slopes = np.linalg.solve(gram, rows.T @ (real - real.mean())) / deviations
    return float(real.mean() - slopes @ means), float(slopes[0]), float(slopes[1])


def _replayed(
    geometry: ClassGeometry,
    posterior: ClassPosterior,
    held_out: HeldOutClasses,
    seen: Sequence[Any],
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield separations (n, L), variances (n,) and accuracies (n,) of the classes of each fold.

    Once among all classes of the fold, once as if each had been added alone; a fourth array (n,)
    says which. Infinite separations stand for classes that were not there.
    """
    positions = {label: index for index, label in enumerate(seen)}
    rows = np.array([positions[label] for label in held_out.labels], dtype=np.intp)
    for fold in np.unique(held_out.folds):
        here = np.flatnonzero(held_out.folds == fold)
        weights = posterior.weights_without(rows[here])
        places, variances = geometry.places(weights), posterior.variance_of(weights)[rows[here]]
        new = np.zeros(len(seen), dtype=bool)
        new[rows[here]] = True
        cases = (
            (held_out.gammas[here[0]], new & False, held_out.together[here]),
            (held_out.gammas_alone[here[0]], new, held_out.alone[here]),
        )
        for gamma, absent, accuracies in cases:
            penalties = np.where(new, 0.0, gamma)[None]
            found = geometry.separations(places.take(rows[here]), places, penalties)
            found[:, absent] = np.inf
            found[np.arange(len(here)), rows[here]] = np.inf
            yield found, variances, accuracies, np.full(len(here), not absent.any())


def _rank_correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic) if np.ptp(a) > 0 and np.ptp(b) > 0 else 0.0
