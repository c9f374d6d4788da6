"""Paired differences between two methods over the same test classes, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_choice, check_number
from hgkt.evaluation.metrics import ClassAccuracies
from hgkt.exceptions import DataError

# Of which accuracies a figure is made: of unseen and of seen classes.
_PARTS = {
    "H": ("ts", "tr"),
    "H_uncalibrated": ("ts_uncalibrated", "tr_uncalibrated"),
    "zsl": ("zsl", None),
    "ts": ("ts", None),
    "tr": (None, "tr"),
}


@dataclass(frozen=True)
class PairedDifference:
    """How much higher a figure of one method is than another's, in percentage points.

    Parameters
    ----------
    metric : str
        The figure.
    difference : float
        Mean over runs of the first method's figure minus the second's.
    low, high : float
        The bootstrap interval.
    n_runs : int
        How many pairs of runs it is the mean of.
    n_classes : int
        How many classes were resampled.
    """

    metric: str
    difference: float
    low: float
    high: float
    n_runs: int
    n_classes: int

    @property
    def distinct(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.low > 0 or self.high < 0


def paired_difference(
    first: Sequence[ClassAccuracies],
    second: Sequence[ClassAccuracies],
    metric: str = "H",
    *,
    confidence: float = 0.95,
    n_resamples: int = 2000,
    random_state: int = 0,
) -> PairedDifference:
    """Compare two methods on the same test classes, seeds side by side.

    Classes and runs are drawn anew with replacement, the same ones for both methods: unseen
    classes, seen classes and runs independently of each other (percentile bootstrap,
    `scipy.stats.bootstrap`). The figure is computed from the classes drawn, so the interval says
    how far the difference depends on which classes the test has. A single run is not resampled.

    Parameters
    ----------
    first, second : sequence of ClassAccuracies
        The runs of each method in the order of their seeds; as many, over the same classes.
    metric : {"H", "H_uncalibrated", "zsl", "ts", "tr"}, default="H"
        The figure.
    confidence : float, default=0.95
        Of the interval.
    n_resamples : int, default=2000
        Draws.
    random_state : int, default=0
        Seed of the draws.

    Returns
    -------
    PairedDifference

    Examples
    --------
    >>> good = ClassAccuracies((60.0, 40.0), (80.0, 70.0), (70.0, 60.0), (0.0, 5.0), (90.0, 80.0))
    >>> poor = ClassAccuracies((50.0, 35.0), (80.0, 65.0), (60.0, 60.0), (0.0, 5.0), (90.0, 80.0))
    >>> found = paired_difference([good], [poor])
    >>> round(found.difference, 1), found.low > 0, found.n_classes
    (6.4, True, 4)
    """
    from scipy.stats import bootstrap

    check_choice("metric", metric, _PARTS)
    check_number("n_resamples", n_resamples, low=1, integer=True)
    check_number("confidence", confidence, low=0, high=1, open_low=True)
    figures = [_Figure(runs, metric) for runs in (first, second)]
    if figures[0].shapes != figures[1].shapes:
        raise DataError(
            f"the methods have accuracies of shapes {figures[0].shapes} and {figures[1].shapes} "
            "(runs, classes); the same runs and classes are expected of both"
        )
    sizes = [*(n_classes for _, n_classes in figures[0].shapes), len(first)]
    drawn = [axis for axis, size in enumerate(sizes) if size > 1]

    def difference(*samples: NDArray[np.intp], axis: int = -1) -> NDArray[np.float64]:
        picked: list[Any] = [np.zeros((1,), dtype=np.intp)] * len(sizes)
        for place, sample in zip(drawn, samples, strict=True):
            picked[place] = np.asarray(sample, dtype=np.intp)
        *classes, runs = picked
        found: NDArray[np.float64] = figures[0].of(classes, runs) - figures[1].of(classes, runs)
        return found

    whole = float(difference(*(np.arange(sizes[axis]) for axis in drawn)))
    low = high = whole
    if drawn:
        found = bootstrap(
            [np.arange(sizes[axis]) for axis in drawn],
            difference,
            n_resamples=n_resamples,
            batch=500,
            vectorized=True,
            paired=False,
            confidence_level=confidence,
            method="percentile",
            rng=np.random.default_rng(random_state),
        ).confidence_interval
        low, high = float(found.low), float(found.high)
    n_classes = sum(n for _, n in figures[0].shapes)
    return PairedDifference(metric, whole, low, high, len(first), n_classes)


class _Figure:
    """A figure of one method as a function of the classes and runs that are drawn."""

    def __init__(self, runs: Sequence[ClassAccuracies], metric: str) -> None:
        if not runs:
            raise DataError("there are no runs to compare; at least one per method is expected")
        names = [name for name in _PARTS[metric] if name is not None]
        try:
            # One matrix (n_runs, n_classes) for each group of classes that enters.
            self._parts = [np.array([getattr(run, name) for run in runs]) for name in names]
        except ValueError:
            raise DataError("the runs of a method are over different classes") from None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [part.shape for part in self._parts]

    def of(self, classes: Sequence[NDArray[np.intp]], runs: NDArray[np.intp]) -> Any:
        """Return the figure for draws (..., n): per run over the classes, then over the runs."""
        means = [
            part[runs[..., :, None], chosen[..., None, :]].mean(axis=-1)
            for part, chosen in zip(self._parts, classes, strict=True)
        ]
        if len(means) == 1:
            return means[0].mean(axis=-1)
        product, total = 2 * means[0] * means[1], means[0] + means[1]
        return np.divide(product, total, out=np.zeros_like(total), where=total > 0).mean(axis=-1)
