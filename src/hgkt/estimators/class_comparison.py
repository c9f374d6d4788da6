"""How the classes of a closed form compete with one that may come, and the accuracy to expect.

While γ is found, seen classes are held out and recognised by their attributes alone: their
accuracies are known. Where each of them was predicted then is a closed form. That makes a small
regression from separations to accuracies, and it costs no fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt.calibration import HeldOutClasses
from hgkt.closed_form.separation import ClassGeometry, Places
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.estimators.class_check import MIN_HELD_OUT
from hgkt.estimators.class_table import GrowingRows

if TYPE_CHECKING:
    from hgkt.estimators.hgkt import HGKTClassifier

_CHUNK_NUMBERS = 2**24  # numbers in the largest intermediate of one step: 128 MiB
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

    def odds(self, separations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exp(−β s): how many images go to another class for each one that stays."""
        return _odds(separations, self.beta)

    def accuracy(self, share: float, variance: float) -> float:
        """Return the accuracy to expect for p and a posterior variance."""
        expected = self.offset + self.slope * share + self.variance_slope * variance
        return float(min(max(expected, 0.0), 1.0))


def _odds(separations: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    odds: NDArray[np.float64] = np.exp(np.minimum(-beta * separations, 50.0))
    return odds


def learn_sharpness(
    geometry: ClassGeometry, held_out: HeldOutClasses, seen: Sequence[Any]
) -> Sharpness | None:
    """Fit what a `Sharpness` holds to the accuracies of held-out classes, by least squares.

    Returns None where fewer than six classes were held out, or where their accuracies do not
    rise with how well they are separated.

    Parameters
    ----------
    geometry : ClassGeometry
        Of a fitted closed form.
    held_out : HeldOutClasses
        What the folds said.
    seen : sequence
        The seen classes, in the order of the closed form.
    """
    n_classes = len(set(held_out.labels))
    if n_classes < MIN_HELD_OUT:
        return None
    parts = list(_replayed(geometry, held_out, seen))
    separations, variances, real, together = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    scale = float(np.median(np.abs(separations.min(axis=1))))
    best, least = None, np.inf
    for factor in _FACTORS:
        beta = float(factor / (scale if scale > 0 else 1.0))
        shares = 1.0 / (1.0 + _odds(separations, beta).sum(axis=1))
        found = _line(np.column_stack([shares, variances]), real)
        missed = real - found[0] - found[1] * shares - found[2] * variances
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
    geometry: ClassGeometry, held_out: HeldOutClasses, seen: Sequence[Any]
) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield separations (n, L), variances (n,) and accuracies (n,) of the classes of each fold.

    Once among all classes of the fold, once as if each had been added alone; a fourth array (n,)
    says which. Infinite separations stand for classes that were not there.
    """
    positions = {label: index for index, label in enumerate(seen)}
    rows = np.array([positions[label] for label in held_out.labels], dtype=np.intp)
    for fold in np.unique(held_out.folds):
        here = np.flatnonzero(held_out.folds == fold)
        transfer = geometry.transfer
        vectors = transfer.vectors_without(rows[here])
        places = geometry.places(vectors, transfer.seen_attributes)
        variances = transfer.variances_without(rows[here])[rows[here]]
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


@dataclass(frozen=True, eq=False)
class ClassComparison:
    """The classes of one fitted closed form, ready to be compared with a new one.

    Nothing of it changes: classes that are added later make another one, which shares the rest.

    Parameters
    ----------
    transfer : ClosedFormTransfer
        The fitted closed form.
    geometry : ClassGeometry
        Its metrics.
    held_out : HeldOutClasses or None
        What class folds said about seen classes.
    sharpness : Sharpness or None
        From separations to accuracies, where folds said something about it.
    variances : ndarray of shape (L,)
        Posterior variances of the seen classes, each as a new one; sorted.
    odds_against : ndarray of shape (L,)
        How many images of a seen class go to other seen ones for each one that stays, if all of
        them pay the same γ.
    places : Places
        Of all classes, seen ones first.
    attributes : GrowingRows of shape (C, d)
        Theirs.
    """

    transfer: ClosedFormTransfer
    geometry: ClassGeometry
    held_out: HeldOutClasses | None
    sharpness: Sharpness | None
    variances: NDArray[np.float64]
    odds_against: NDArray[np.float64]
    places: Places
    attributes: GrowingRows

    @classmethod
    def of(cls, model: HGKTClassifier) -> ClassComparison:
        """Compare the classes of a fitted model with each other."""
        transfer = model._transfer
        geometry = ClassGeometry.of(transfer)
        sharpness = None
        if model._validation.held_out is not None:
            seen = model._table.seen_classes.tolist()
            sharpness = learn_sharpness(geometry, model._validation.held_out, seen)
        seen_ones = model._table.seen_attributes
        vectors = transfer.vectors(seen_ones, observed=~model._table.grown)
        places = geometry.places(vectors, seen_ones)
        odds_against = np.zeros(len(places.images))
        if sharpness is not None:
            odds_against = _odds_against(geometry, places, sharpness)
        return cls(
            transfer,
            geometry,
            model._validation.held_out,
            sharpness,
            np.sort(transfer.left_out_variances()),
            odds_against,
            places,
            GrowingRows(model._table.seen_attributes),
        ).follow(model._table.attributes)

    def is_of(self, model: HGKTClassifier) -> bool:
        """Say whether the model has not been fitted anew since."""
        return self.transfer is model._transfer and self.held_out is model._validation.held_out

    @property
    def n_seen(self) -> int:
        """L."""
        return len(self.variances)

    def follow(self, attributes: GrowingRows) -> ClassComparison:
        """Return the comparison with all these classes (C, d); those it has are not redone."""
        if attributes is self.attributes:
            return self
        rows, old = attributes.array, self.attributes.array
        n_same = min(len(old), len(rows))
        if not np.array_equal(rows[self.n_seen : n_same], old[self.n_seen : n_same]):
            n_same = self.n_seen
        places = self.places.take(slice(n_same))
        if n_same < len(rows):
            places = places.join(self._placed(rows[n_same:]))
        return replace(self, places=places, attributes=attributes)

    def new_class(
        self, attributes: NDArray[np.float64], penalties: NDArray[np.float64]
    ) -> NewClass:
        """Compare a class with all known ones.

        Parameters
        ----------
        attributes : ndarray of shape (d,)
            The class.
        penalties : ndarray of shape (C,)
            What calibration will take off the score of each known class, seen ones first.
        """
        variance = float(self.transfer.variances(attributes[None])[0])
        return NewClass(self, attributes, self._placed(attributes[None]), variance, penalties)

    def _placed(self, attributes: NDArray[np.float64]) -> Places:
        """Place classes (n, d) that are known by their attributes."""
        return self.geometry.places(self.transfer.vectors(attributes), attributes)


@dataclass(frozen=True, eq=False)
class NewClass:
    """A class that is not there yet, among those that are.

    Parameters
    ----------
    classes : ClassComparison
        The known classes.
    attributes : ndarray of shape (d,)
        The new class.
    place : Places
        Where it lies.
    variance : float
        Posterior variance of its mean, per unit of prior variance.
    penalties : ndarray of shape (C,)
        What calibration takes off the known classes.
    """

    classes: ClassComparison
    attributes: NDArray[np.float64]
    place: Places
    variance: float
    penalties: NDArray[np.float64]

    @property
    def sharpness(self) -> Sharpness | None:
        """From separations to accuracies, where folds said something about it."""
        return self.classes.sharpness

    def separations(self) -> NDArray[np.float64]:
        """Return how well images of the class are told from each known one (C,)."""
        geometry, places = self.classes.geometry, self.classes.places
        found: NDArray[np.float64] = geometry.separations(self.place, places, self.penalties[None])[
            0
        ]
        return found

    def percentile(self) -> float:
        """Return how many of the seen classes (0 to 1) were less far from the others."""
        variances = self.classes.variances
        return float(np.searchsorted(variances, self.variance) / len(variances))

    def losses(self, n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the known classes that lose most to this one, and the shares they lose.

        A share is of all images of the class: those that are right now and would not be then.
        """
        sharpness, places = self.classes.sharpness, self.classes.places
        assert sharpness is not None
        toward = self.classes.geometry.separations(places, self.place, -self.penalties[:, None])[
            :, 0
        ]
        taken = sharpness.odds(toward)
        losers = np.argsort(-taken, kind="stable")[:n]
        total = 1.0 + np.array([self._odds_of(int(row), sharpness) for row in losers])
        shares = 1.0 / total - 1.0 / (total + taken[losers])
        order = np.argsort(-shares, kind="stable")
        return losers[order], shares[order]

    def _odds_of(self, row: int, sharpness: Sharpness) -> float:
        """Return how many images of a known class go to others for each one that stays."""
        classes, n_seen = self.classes, self.classes.n_seen
        seen = row < n_seen
        others = slice(n_seen if seen else 0, None)
        apart = classes.geometry.separations(
            classes.places.take(slice(row, row + 1)),
            classes.places.take(others),
            (self.penalties[others] - self.penalties[row])[None],
        )[0]
        if seen:
            return float(classes.odds_against[row] + sharpness.odds(apart).sum())
        apart[row] = np.inf
        return float(sharpness.odds(apart).sum())

    def sensitivities(
        self, rivals: NDArray[np.intp], shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how far the lead over some rivals moves with each attribute (d,)."""
        others = self.classes.places.take(rivals)
        return self.classes.geometry.sensitivities(self.attributes, self.place, others, shares)


def _odds_against(
    geometry: ClassGeometry, places: Places, sharpness: Sharpness
) -> NDArray[np.float64]:
    """Return how many images of each class (L,) go to others for each one that stays."""
    found = np.empty(len(places.images))
    step = max(1, _CHUNK_NUMBERS // (8 * len(found)))
    for rows in batches(len(found), step):
        apart = geometry.separations(places.take(rows), places, np.zeros((1, 1)))
        apart[np.arange(len(apart)), np.arange(len(found))[rows]] = np.inf
        found[rows] = sharpness.odds(apart).sum(axis=1)
    return found
