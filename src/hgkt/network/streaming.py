"""What the network needs of rows that are never in memory together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import map_rows
from hgkt._typing import Progress
from hgkt.exceptions import DataError
from hgkt.network.objectives import Targets
from hgkt.network.transfer import NetworkSettings
from hgkt.statistics.classes import present_sums
from hgkt.transport.streaming import Batches, stream_representatives


@dataclass(frozen=True)
class ReducedInstances:
    """All that the exact loss and the graph need of N rows.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        Class of each row, in the order of the stream; classes without rows are left out.
    classes : ndarray of shape (L,)
        The code that each class had in the batches.
    targets : Targets
        Counts, means, scatter and representatives of the mapped rows.
    representatives : ndarray of shape (L,)
        Number of each representative's row.
    excess : ndarray of shape (L,)
        See `StreamedRepresentatives`.
    dtype : dtype
        Of the features.
    """

    codes: NDArray[np.intp]
    classes: NDArray[np.intp]
    targets: Targets
    representatives: NDArray[np.intp]
    excess: NDArray[np.float64]
    dtype: Any


def reduce_batches(
    settings: NetworkSettings,
    batches: Batches,
    n_classes: int,
    memory: int,
    progress: Progress | None = None,
) -> ReducedInstances:
    """Read batches once, or twice where a class does not fit into its share of memory.

    Parameters
    ----------
    settings : NetworkSettings
        The map of rows, and how representatives are chosen.
    batches : callable
        Returns an iterable of features (k, D) and class codes (k,), the same at every call.
    n_classes : int
        Number of classes that codes may name.
    memory : int
        See `stream_representatives`.
    progress : callable, optional
        Told of the second pass.
    """
    if settings.training["mode"] == "sampled":
        raise DataError(
            "n_sampled draws instances, which must then be in memory; leave it None to learn from "
            "batches"
        )
    sums = TargetSums(n_classes)

    def mapped() -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        counting = not sums.codes
        for X, codes in batches():
            rows = map_rows(X, settings.feature_map)
            if counting:
                sums.update(rows, codes)
            yield rows, codes

    method, options = settings.representative_method()
    found = stream_representatives(
        mapped,
        n_classes,
        method,
        memory=memory,
        random_state=settings.training["seed"],
        progress=progress,
        **options,
    )
    present = np.flatnonzero(sums.counts)
    codes = np.searchsorted(present, np.concatenate(sums.codes))
    targets = Targets(
        sums.counts[present], sums.means[present], sums.scatter[present], found.features[present]
    )
    return ReducedInstances(
        codes, present, targets, found.indices[present], found.excess[present], found.features.dtype
    )


class TargetSums:
    """Counts, means and scatter of classes, batch by batch, without cancellation.

    Means and scatters of batches are joined by the formula of Chan, Golub and LeVeque: the
    difference of large squares, which loses digits, does not occur.

    Parameters
    ----------
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> sums = TargetSums(1)
    >>> sums.update(np.array([[1.0], [3.0]]), np.array([0, 0]))
    >>> sums.update(np.array([[5.0]]), np.array([0]))
    >>> sums.means.ravel(), sums.scatter
    (array([3.]), array([8.]))
    """

    def __init__(self, n_classes: int) -> None:
        self.counts, self.scatter = np.zeros(n_classes), np.zeros(n_classes)
        self.means = np.zeros((n_classes, 0))
        self.codes: list[NDArray[np.intp]] = []

    def update(self, X: NDArray[Any], codes: NDArray[np.intp]) -> None:
        """Take in rows (n, D) with their classes (n,)."""
        if not self.codes:
            self.means = np.zeros((len(self.counts), X.shape[1]))
        self.codes.append(codes)
        present, counts, sums = present_sums(X, codes)
        means = sums / counts[:, None]
        residuals = X - means[np.searchsorted(present, codes)]
        norms = np.einsum("ij,ij->i", residuals, residuals)
        inside = np.bincount(np.searchsorted(present, codes), norms, minlength=len(present))
        before = self.counts[present]
        after = before + counts
        steps = means - self.means[present]
        self.means[present] += steps * (counts / after)[:, None]
        between = np.einsum("ij,ij->i", steps, steps) * before * counts / after
        self.scatter[present] += inside + between
        self.counts[present] = after
