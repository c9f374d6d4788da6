"""Hold out a share of each class, the same share and the same rows for the same seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError


def hold_out(
    rows: NDArray[np.intp], labels: NDArray[np.intp], fraction: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split `rows` into a part to train on and a part held out, class by class.

    Every class keeps at least one row on both sides.

    Parameters
    ----------
    rows : ndarray of int
        The rows to split.
    labels : ndarray of int, shape (n_instances,)
        Class codes of all rows of the data set.
    fraction : float
        Share of each class to hold out.
    seed : int
        Seed of the choice.

    Returns
    -------
    kept, held_out : ndarray of int
        Both sorted.

    Examples
    --------
    >>> kept, held_out = hold_out(np.arange(10), np.repeat([0, 1], 5), 0.2, seed=0)
    >>> len(kept), len(held_out)
    (8, 2)
    """
    rng = np.random.default_rng(seed)
    kept, held_out = [], []
    for code in np.unique(labels[rows]):
        members = rng.permutation(np.sort(rows[labels[rows] == code]))
        if len(members) < 2:
            raise DataError(
                f"the class with code {code} has one instance only; two are needed to hold one out"
            )
        n_out = min(max(1, round(fraction * len(members))), len(members) - 1)
        held_out.append(members[:n_out])
        kept.append(members[n_out:])
    if not kept:
        raise DataError("there is no instance of a seen class to split")
    return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held_out))
