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

from hgkt.closed_form.metric import oracle_shrinkage
from hgkt.closed_form.transfer import ClosedFormTransfer, VisualSpace

_TINY = 1e-12
_LEAST_SPREAD = 1e-9  # rounding of single precision must not make a separation


class Places(NamedTuple):
    """Where classes lie in each of G metrics, said by the seen means.

    In single precision: a new class is compared with all that are kept here, and what is kept is
    read from memory each time.

    Parameters
    ----------
    weights : ndarray of shape (n, L)
        How much of each seen mean is in a class.
    products : ndarray of shape (G, n, L)
        Inner products of the embeddings with the seen means.
    squares : ndarray of shape (G, n)
        Squared lengths of the embeddings.
    """

    weights: NDArray[np.float32]
    products: NDArray[np.float32]
    squares: NDArray[np.float64]

    def join(self, other: Places) -> Places:
        """Return these classes and then those of `other`."""
        return Places(
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.products, other.products], axis=1),
            np.concatenate([self.squares, other.squares], axis=1),
        )

    def take(self, index: NDArray[np.intp] | slice) -> Places:
        """Return some of the classes."""
        return Places(self.weights[index], self.products[:, index], self.squares[:, index])


@dataclass(frozen=True)
class ClassGeometry:
    """Inner products of class embeddings in every metric of a closed form.

    Parameters
    ----------
    grams : ndarray of shape (G, L, L)
        Inner products of the seen means in each metric.
    scatter : ndarray of shape (G,)
        Mean squared distance of an image from its class's mean.
    factors : ndarray of shape (G,)
        Weights of the metrics in a score.
    norm_power : float
        Power of an embedding's length that a score is divided by.
    euclidean : bool
        Whether scores are squared distances instead.
    n_features : int
        D.
    """

    grams: NDArray[np.float32]
    scatter: NDArray[np.float64]
    factors: NDArray[np.float64]
    norm_power: float
    euclidean: bool
    n_features: int

    @classmethod
    def of(cls, transfer: ClosedFormTransfer) -> ClassGeometry:
        """Read what a fitted closed form knows; costs one product of the seen means."""
        vectors = {name: space.source_vectors() for name, space in transfer.spaces.items()}
        grams, scatter, factors = [], [], []
        for (name, scale, weight), term in zip(
            transfer.metric_scales(), transfer.settings.metrics, strict=True
        ):
            rows = vectors[name] * scale
            grams.append(rows @ rows.T)
            scatter.append(_scatter(transfer.spaces[name], scale, term.shrinkage))
            factors.append(weight)
        settings = transfer.settings
        return cls(
            np.array(grams, dtype=np.float32),
            np.array(scatter),
            np.array(factors),
            settings.norm_power,
            settings.metric == "euclidean",
            transfer.spaces[settings.metrics[0].feature_map].statistics.n_features,
        )

    def places(self, weights: NDArray[np.float64]) -> Places:
        """Place classes by their source weights (n, L)."""
        rows = weights.astype(np.float32)
        products = rows @ self.grams
        squares = np.einsum("nl,gnl->gn", weights, products, dtype=np.float64)
        return Places(rows, products, np.maximum(squares, 0.0))

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
            Squared ratio of the mean and the deviation of the score's lead; negative where the
            other class is ahead, 0 where the two are one.
        """
        dots = images.weights @ classes.products.transpose(0, 2, 1)
        return self.compare(dots, images.squares, classes.squares, penalties)

    def compare(
        self,
        dots: NDArray[np.floating],
        own: NDArray[np.float64],
        other: NDArray[np.float64],
        penalties: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """Return separations (n, C) from inner products (G, n, C) and squared lengths."""
        dots = dots.astype(np.float64)
        noise = np.where(self.scatter > 0, self.scatter, 1.0) / self.n_features
        if self.euclidean:
            apart = np.maximum(own[0][:, None] + other[0] - 2.0 * dots[0], 0.0)
            return _ratio(apart + penalties, 4.0 * max(noise[0], _TINY) * apart)
        own_root, other_root = self._lengths(own), self._lengths(other)
        reach = self.factors[:, None] / np.sqrt(np.maximum(own + self.scatter[:, None], _TINY))
        lead = own / own_root
        gaps = np.einsum("gn,gnc->nc", reach, lead[:, :, None] - dots / other_root[:, None])
        lengths = (own / own_root**2)[:, :, None] + (other / other_root**2)[:, None]
        apart = lengths - 2.0 * dots / (own_root[:, :, None] * other_root[:, None])
        spread = np.einsum("gn,gnc->nc", noise[:, None] * reach**2, np.maximum(apart, 0.0))
        return _ratio(gaps + penalties, spread)

    def lead_slopes(
        self, place: Places, rivals: Places, shares: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return how a class's lead over rivals changes with its source weights (L,).

        Parameters
        ----------
        place : Places
            One class.
        rivals : Places
            n other classes.
        shares : ndarray of shape (n,)
            How much each rival counts.
        """
        products, own = place.products[:, 0], place.squares[:, 0]
        if self.euclidean:
            toward: NDArray[np.float64] = shares @ rivals.products[0].astype(np.float64)
            toward = shares.sum() * products[0].astype(np.float64) - toward
            return 2.0 * toward
        reach = self.factors / np.sqrt(np.maximum(own + self.scatter, _TINY))
        self_slope = (2.0 - self.norm_power) / self._lengths(own) * shares.sum()
        pull = np.einsum("gr,grl->gl", shares / self._lengths(rivals.squares), rivals.products)
        result: NDArray[np.float64] = reach @ (self_slope[:, None] * products - pull)
        return result

    def _lengths(self, squares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ‖z‖^p of squared lengths; 1 for an embedding of no length."""
        result: NDArray[np.float64] = np.where(squares > _TINY, squares, 1.0) ** (
            self.norm_power / 2.0
        )
        return result


def _ratio(gaps: NDArray[np.float64], spread: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sign(g) · g² / s; between classes of one place the gap is what calibration makes."""
    result: NDArray[np.float64] = np.sign(gaps) * gaps**2 / np.maximum(spread, _LEAST_SPREAD)
    return result


def _scatter(space: VisualSpace, scale: NDArray[np.floating], shrinkage: float | str) -> float:
    """Return Σ λ_i / shrunk_i: what a metric makes of the within-class scatter.

    The projection's columns have lengths 1/√shrunk_i, and shrunk_i = (1−s) λ_i + s λ̄ with λ̄ from
    the statistics: the eigenvalues need not be kept.
    """
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
    shrunk = shrunk / np.asarray(scale, dtype=np.float64) ** 2
    values = np.maximum(shrunk - shrinkage * mean, 0.0) / (1.0 - shrinkage)
    return float((values / shrunk).sum())
