"""Which classes of a closed form compete for images with a class that is not there yet."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration import HeldOutClasses
from hgkt.closed_form.posterior import attribute_sensitivity
from hgkt.closed_form.separation import ClassGeometry, Places
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.estimators._rows import row_chunks
from hgkt.estimators._sharpness import Sharpness, learn_sharpness, odds

if TYPE_CHECKING:
    from hgkt.estimators.hgkt import HGKTClassifier


@dataclass(frozen=True, eq=False)
class Rivalry:
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
    crowds : ndarray of shape (L,)
        How many images of a seen class go to other seen ones for each one that stays, if all of
        them pay the same γ.
    places : Places
        Of all known classes, seen ones first.
    added : ndarray of shape (U, d)
        Attributes of the added ones.
    """

    transfer: ClosedFormTransfer
    geometry: ClassGeometry
    held_out: HeldOutClasses | None
    sharpness: Sharpness | None
    variances: NDArray[np.float64]
    crowds: NDArray[np.float64]
    places: Places
    added: NDArray[np.float64]

    @classmethod
    def of(cls, model: HGKTClassifier) -> Rivalry:
        """Compare the classes of a fitted model with each other."""
        transfer = model._transfer
        geometry, posterior = ClassGeometry.of(transfer), transfer.posterior
        sharpness = None
        if model._held_out is not None:
            seen = model.seen_classes_.tolist()
            sharpness = learn_sharpness(geometry, posterior, model._held_out, seen)
        places = geometry.places(posterior.weights(transfer.kernel.seen))
        crowds = np.zeros(len(places.weights))
        if sharpness is not None:
            crowds = _crowds(geometry, places, sharpness.beta)
        return cls(
            transfer,
            geometry,
            model._held_out,
            sharpness,
            np.sort(posterior.left_out_variance()),
            crowds,
            places,
            model._seen_attributes[:0],
        ).follow(model._added_attributes.array)

    def is_of(self, model: HGKTClassifier) -> bool:
        """Say whether the model has not been fitted anew since."""
        return self.transfer is model._transfer and self.held_out is model._held_out

    @property
    def n_seen(self) -> int:
        """L."""
        return len(self.variances)

    def follow(self, added: NDArray[np.float64]) -> Rivalry:
        """Return the rivalry with these added classes (U, d); those that are there are not redone.

        `added` is not to be changed afterwards.
        """
        if added is self.added:
            return self
        n_known = min(len(self.added), len(added))
        if not np.array_equal(added[:n_known], self.added[:n_known]):
            n_known = 0
        known = self.places.take(slice(self.n_seen + n_known))
        if n_known < len(added):
            rows = self.transfer.kernel(added[n_known:])
            known = known.join(self.geometry.places(self.transfer.posterior.weights(rows)))
        return replace(self, places=known, added=added)

    def newcomer(self, attributes: NDArray[np.float64], penalties: NDArray[np.float64]) -> Newcomer:
        """Compare a class with all known ones.

        Parameters
        ----------
        attributes : ndarray of shape (d,)
            The class.
        penalties : ndarray of shape (C,)
            What calibration will take off the score of each known class, seen ones first.
        """
        kernel, posterior = self.transfer.kernel, self.transfer.posterior
        row = kernel(attributes[None])
        weights = posterior.weights(row)
        own = kernel.own(attributes[None])
        # What `posterior.variance` computes; the weights are at hand.
        variance = max(float(own[0] - weights[0] @ row[0]), 0.0)
        place = self.geometry.places(weights)
        dots = np.stack([products @ place.weights[0] for products in self.places.products])
        return Newcomer(self, attributes, place, variance, dots, penalties)


@dataclass(frozen=True, eq=False)
class Newcomer:
    """A class that is not there yet, among those that are.

    Parameters
    ----------
    rivalry : Rivalry
        The known classes.
    attributes : ndarray of shape (d,)
        The new class.
    place : Places
        Where it lies.
    variance : float
        Posterior variance of its mean, per unit of prior variance.
    dots : ndarray of shape (G, C)
        Inner products of its embedding with those of the known classes.
    penalties : ndarray of shape (C,)
        What calibration takes off the known classes.
    """

    rivalry: Rivalry
    attributes: NDArray[np.float64]
    place: Places
    variance: float
    dots: NDArray[np.float32]
    penalties: NDArray[np.float64]

    def separations(self) -> NDArray[np.float64]:
        """Return how well images of the class are told from each known one (C,)."""
        geometry, squares = self.rivalry.geometry, self.rivalry.places.squares
        found: NDArray[np.float64] = geometry.compare(
            self.dots[:, None], self.place.squares, squares, self.penalties[None]
        )[0]
        return found

    def percentile(self) -> float:
        """Return how many of the seen classes (0 to 1) were less far from the others."""
        variances = self.rivalry.variances
        return float(np.searchsorted(variances, self.variance) / len(variances))

    def losses(self, n: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Return the known classes that lose most to this one, and the shares they lose.

        A share is of all images of the class: those that are right now and would not be then.
        """
        rivalry, geometry = self.rivalry, self.rivalry.geometry
        assert rivalry.sharpness is not None
        beta, places = rivalry.sharpness.beta, rivalry.places
        toward = geometry.compare(
            self.dots[:, :, None], places.squares, self.place.squares, -self.penalties[:, None]
        )[:, 0]
        taken = odds(toward, beta)
        losers = np.argsort(-taken, kind="stable")[:n]
        total = 1.0 + np.array([self._crowd(int(row), beta) for row in losers])
        shares = 1.0 / total - 1.0 / (total + taken[losers])
        order = np.argsort(-shares, kind="stable")
        return losers[order], shares[order]

    def _crowd(self, row: int, beta: float) -> float:
        """Return how many images of a known class go to others for each one that stays."""
        rivalry, n_seen = self.rivalry, self.rivalry.n_seen
        seen = row < n_seen
        others = slice(n_seen if seen else 0, None)
        apart = rivalry.geometry.separations(
            rivalry.places.take(slice(row, row + 1)),
            rivalry.places.take(others),
            (self.penalties[others] - self.penalties[row])[None],
        )[0]
        if seen:
            return float(rivalry.crowds[row] + odds(apart, beta).sum())
        apart[row] = np.inf
        return float(odds(apart, beta).sum())

    def sensitivities(
        self, rivals: NDArray[np.intp], shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how far the lead over some rivals moves with each attribute (d,)."""
        geometry, transfer = self.rivalry.geometry, self.rivalry.transfer
        slopes = geometry.lead_slopes(self.place, self.rivalry.places.take(rivals), shares)
        return attribute_sensitivity(
            transfer.kernel, self.attributes, transfer.posterior.precision @ slopes
        )


def _crowds(geometry: ClassGeometry, places: Places, beta: float) -> NDArray[np.float64]:
    crowds = np.empty(len(places.weights))
    for rows in row_chunks(len(crowds), 8 * places.products[:, :, 0].size):
        apart = geometry.separations(places.take(rows), places, np.zeros((1, 1)))
        apart[np.arange(len(apart)), np.arange(len(crowds))[rows]] = np.inf
        crowds[rows] = odds(apart, beta).sum(axis=1)
    return crowds
