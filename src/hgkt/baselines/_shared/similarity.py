"""How close a feature vector is to a class embedding in the same space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import distance_scores, unit_rows

METRICS = ("euclidean", "cosine")


def similarity_scores(
    X: NDArray[Any], embeddings: NDArray[Any], metric: str
) -> NDArray[np.float64]:
    """Score rows (n, D) against embeddings (C, D): −‖x−z‖², or cos(x, z).

    A zero vector has cosine 0 with everything.

    Examples
    --------
    >>> X, Z = np.array([[3.0, 4.0]]), np.array([[3.0, 0.0], [0.0, 0.0]])
    >>> similarity_scores(X, Z, "euclidean")
    array([[-16., -25.]])
    >>> similarity_scores(X, Z, "cosine")
    array([[0.6, 0. ]])
    """
    X = np.asarray(X, dtype=np.float64)
    embeddings = np.asarray(embeddings, dtype=np.float64)
    if metric == "cosine":
        return unit_rows(X) @ unit_rows(embeddings).T
    return distance_scores(X, embeddings)


def scaled_rows(rows: NDArray[Any], norm: float) -> NDArray[Any]:
    """Scale rows (n, d) to length `norm`; a zero row stays zero.

    Examples
    --------
    >>> scaled_rows(np.array([[3.0, 4.0], [0.0, 0.0]]), 10.0)
    array([[6., 8.],
           [0., 0.]])
    """
    return norm * unit_rows(rows)
