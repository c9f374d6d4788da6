"""How well images of one class are told from another, from their embeddings alone.

An image of class c lies around the embedding of c with the within-class scatter, which the metric
makes round. The score of c is ahead of that of another class j by a gap that is linear in the
image, so it is a normal variable: its mean and its deviation follow from inner products of
embeddings. Their squared ratio is the *separation*; exp(−β · separation) is, up to a factor, the
share of images that go astray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt.closed_form.member import Member, MetricKey
from hgkt.closed_form.metric import oracle_shrinkage
from hgkt.closed_form.posterior import attribute_sensitivity
from hgkt.closed_form.transfer import ClosedFormTransfer, length_powers

_TINY = 1e-12
_LEAST_SPREAD = 1e-9
_ROUNDING = 1e-5  # of products in single precision, which must not make a separation


class Places(NamedTuple):
    """Where images of n classes lie in each of G metrics, and what scores multiply them with.

    In single precision: a new class is compared with all that are kept here, and what is kept is
    read from memory each time.

    Parameters
    ----------
    images : ndarray of shape (n, G, D)
        The mean of the images of each class, as the members expect it.
    rows : ndarray of shape (n, G, D)
        Rows of the class table.
    offsets : ndarray of shape (n,)
        What distances take off a product.
    """

    images: NDArray[np.float32]
    rows: NDArray[np.float32]
    offsets: NDArray[np.float64]

    def join(self, other: Places) -> Places:
        """Return these classes and then those of `other`."""
        return Places(
            np.concatenate([self.images, other.images]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.offsets, other.offsets]),
        )

    def take(self, index: NDArray[np.intp] | slice) -> Places:
        """Return some of the classes."""
        return Places(self.images[index], self.rows[index], self.offsets[index])


@dataclass(frozen=True)
class ClassGeometry:
    """How far classes are from each other in every metric of a closed form.

    Zero-shot, which has no metric of the inside of classes, has no part in it.

    Parameters
    ----------
    transfer : ClosedFormTransfer
        A fitted closed form.
    scatter : ndarray of shape (G,)
        Mean squared distance of an image from its class's mean.
    n_features : int
        D.
    """

    transfer: ClosedFormTransfer
    scatter: NDArray[np.float64]
    n_features: int

    @classmethod
    def of(cls, transfer: ClosedFormTransfer) -> ClassGeometry:
        """Read what a fitted closed form knows."""
        scatter = [_scatter(transfer, metric) for metric in transfer.settings.metric_keys]
        space = next(iter(transfer.spaces.values()))
        return cls(transfer, np.array(scatter), space.statistics.n_features)

    def places(
        self, vectors: list[NDArray[np.floating]], attributes: NDArray[np.float64]
    ) -> Places:
        """Place classes (n, d) by each member's embeddings (n, D)."""
        settings = self.transfer.settings
        means = [
            np.average(
                [rows for m, rows in zip(settings.members, vectors, strict=True) if m in own],
                axis=0,
                weights=[member.weight for member in own],
            )
            for own in map(settings.members_of, settings.metric_keys)
        ]
        shape = len(attributes), len(means), means[0].shape[1]
        table = self.transfer.join(vectors, attributes)
        width, offsets = shape[1] * shape[2], np.zeros(len(table))
        if self._distances:
            offsets = table[:, width].astype(np.float64)
        rows = table[:, :width].reshape(shape)
        images = np.stack(means, axis=1)
        return Places(images.astype(np.float32), rows.astype(np.float32), offsets)

    def separations(
        self, images: Places, classes: Places, penalties: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the separation (n, C) of images of each class from other classes.

        Parameters
        ----------
        images : Places
            The n classes whose images are scored.
        classes : Places
            The C classes that they are scored against.
        penalties : ndarray of shape (n, C)
            What calibration takes off the score of each of the C classes beyond what it takes
            off the own class.

        Returns
        -------
        ndarray of shape (n, C)
            Sign(g)·g²/s for the mean g and the variance s of the score's lead; negative where the
            other class is ahead, 0 where the two are one.
        """
        gaps = classes.offsets - images.offsets[:, None] + penalties
        spread, sizes = np.zeros_like(gaps), np.zeros(len(gaps))
        for index, reach in enumerate(self._reach(images)):
            own, rows, others = (
                part[:, index] for part in (images.images, images.rows, classes.rows)
            )
            leads = np.einsum("nd,nd->n", own, rows)[:, None] - own @ others.T
            apart = (rows**2).sum(axis=1)[:, None] + (others**2).sum(axis=1)
            apart = np.maximum(apart - 2.0 * rows @ others.T, 0.0).astype(np.float64)
            gaps = gaps + reach[:, None] * leads
            spread += (self._noise(index) * reach**2)[:, None] * apart
            sizes += reach * np.linalg.norm(own, axis=1) * np.linalg.norm(rows, axis=1)
        least = np.maximum((_ROUNDING * sizes) ** 2, _LEAST_SPREAD)[:, None]
        result: NDArray[np.float64] = np.sign(gaps) * gaps**2 / np.maximum(spread, least)
        return result

    def sensitivities(
        self,
        attributes: NDArray[np.float64],
        place: Places,
        rivals: Places,
        shares: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return how far a class's lead over rivals moves with each of its attributes (d,).

        By way of the kernels; that attributes may be a description too is left out.

        Parameters
        ----------
        attributes : ndarray of shape (d,)
        place : Places
            The class.
        rivals : Places
            n other classes.
        shares : ndarray of shape (n,)
            How much each rival counts.
        """
        settings, total = self.transfer.settings, np.zeros(len(attributes))
        vectors = self.transfer.vectors(attributes[None])
        ahead = shares.sum() * place.rows[0] - np.einsum("n,ngd->gd", shares, rivals.rows)
        reach = [part[0] for part in self._reach(place)]
        for member, rows in zip(settings.members, vectors, strict=True):
            index = settings.metric_keys.index(member.metric_key)
            own = settings.members_of(member.metric_key)
            share = member.weight / sum(other.weight for other in own)
            image, z = place.images[0, index].astype(np.float64), rows[0].astype(np.float64)
            turned = shares.sum() * self._turned(member, share, image, z)
            slope = reach[index] * (share * ahead[index] + turned)
            process = self.transfer.processes[member.process_key]
            slopes = self.transfer.residuals(member) @ slope
            total += attribute_sensitivity(
                process.kernel, attributes, process.posterior.precision @ slopes
            )
        return total

    def _turned(
        self, member: Member, share: float, image: NDArray[np.float64], z: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how the product of an image with its class's row changes with z (D,)."""
        if self._distances:  # of 2xᵀz − ‖z‖², halved as `reach` doubles it
            return share * (image - z)
        length = float(length_powers(z[None], member)[0])
        square = max(float(z @ z), _TINY)
        toward = image - member.norm_power * z * float(z @ image) / square
        return member.weight / length * toward

    @property
    def _distances(self) -> bool:
        return self.transfer.settings.metric == "euclidean"

    def _noise(self, index: int) -> float:
        """Return the variance of an image along an axis of a metric."""
        scatter = float(self.scatter[index])
        return max((scatter if scatter > 0 else 1.0) / self.n_features, _TINY)

    def _reach(self, images: Places) -> list[NDArray[np.float64]]:
        """Return what products with images are multiplied with (n,) in each metric."""
        if self._distances:
            return [np.full(len(images.images), 2.0)]
        squares = (images.images.astype(np.float64) ** 2).sum(axis=2)
        return list(1.0 / np.sqrt(np.maximum(squares + self.scatter, _TINY)).T)


def _scatter(transfer: ClosedFormTransfer, metric: MetricKey) -> float:
    """Return Σ λ_i / shrunk_i: what a metric makes of the within-class scatter.

    The projection's columns have lengths 1/√shrunk_i, and shrunk_i = (1−s) λ_i + s λ̄ with λ̄ from
    the statistics: the eigenvalues need not be kept.
    """
    shrinkage, space = metric[1], transfer.spaces[metric[0]]
    statistics = space.statistics
    own = float(np.trace(statistics.second_moment))
    between = float((statistics.counts * (statistics.means**2).sum(axis=1)).sum())
    n_instances, n_features = max(statistics.n_instances, 1), statistics.n_features
    mean = (own - between) / n_instances / n_features
    if mean <= _TINY:
        return 0.0
    if isinstance(shrinkage, str):
        squares = float(((statistics.within_scatter / n_instances) ** 2).sum())
        shrinkage = oracle_shrinkage(mean, squares, n_features, n_instances)
    if shrinkage >= 1.0 - 1e-6:
        return float(n_features)  # Σ λ_i / λ̄
    shrunk = 1.0 / (np.asarray(space.projection, dtype=np.float64) ** 2).sum(axis=0)
    shrunk = shrunk / np.asarray(space.scales[metric[1]], dtype=np.float64) ** 2
    values = np.maximum(shrunk - shrinkage * mean, 0.0) / (1.0 - shrinkage)
    return float((values / shrunk).sum())
