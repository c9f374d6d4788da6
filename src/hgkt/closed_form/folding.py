"""The metric folded into the class table: which class is best, without a row in the metric.

With u = φ(x) − m the score of class c is uᵀ(P z_c)·f_c / ‖uᵀP‖, where f_c is what its embedding z_c
is divided by. The denominator is the same for all classes. It has no part in which of them is best,
unless γ is taken off some; and then bounds on it decide for most rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, map_rows, safe_lengths
from hgkt.closed_form.kept_rows import KeptRows
from hgkt.closed_form.row_length import RowLength

_N_DIRECTIONS = 64
SLACK = 1e-3  # of a bound, for the rounding of what it is made of


class Spectrum(NamedTuple):
    """The directions (D, k) in which features vary most, their scales (k,), those of the rest."""

    directions: NDArray[Any]
    scales: NDArray[Any]
    lowest: float
    highest: float


class FoldedMetric:
    """Features compared with class rows P z_c f_c, each computed once.

    Parameters
    ----------
    feature_map : str or float
        φ.
    center : ndarray of shape (D,)
        m.
    projection : ndarray of shape (D, D)
        P, its columns orthogonal to each other.
    factors : callable
        From embeddings (C, D) to f (C, 1).
    """

    def __init__(
        self,
        feature_map: FeatureMap,
        center: NDArray[Any],
        projection: NDArray[Any],
        factors: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        self._map, self._center, self._projection = feature_map, center, projection
        self._factors, self._kept = factors, KeptRows()

    def saves(self, n_classes: int) -> bool:
        """Whether scoring takes fewer operations than bringing features into the metric."""
        return n_classes <= len(self._center)

    def rows(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return u (n, D) of features (n, D)."""
        mapped = map_rows(np.asarray(X, dtype=self._center.dtype), self._map)
        rows: NDArray[Any] = mapped - self._center
        return rows

    def order(self, rows: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Return numbers (n, C) that order the classes of each row u as their scores do."""
        result: NDArray[Any] = rows @ self._kept.of(embeddings, self._fold).T
        return result

    def lengths(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return what `order` is to be divided by (n,) to give scores."""
        return safe_lengths(rows @ self._projection)

    def unit_row(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return u (1, D) of a single row of features, scaled so that `order` gives scores."""
        row = self.rows(X)
        unit: NDArray[Any] = row / row.dtype.type(self._row_length(row[0]))
        return unit

    def length_bounds(self, rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return below and above what `lengths` is (n,), at a fraction of its cost.

        Features vary much in few directions. Along these the length is computed; along all
        others, where the metric is nearly the same, it is bounded.
        """
        spectrum = self.spectrum
        along = (rows @ spectrum.directions) ** 2
        rest = np.einsum("ij,ij->i", rows, rows) - along.sum(axis=1)
        known, rest = along @ spectrum.scales**2, np.maximum(rest, 0.0)
        high = np.sqrt(known + spectrum.highest**2 * rest)
        low = np.sqrt(known + spectrum.lowest**2 * rest)
        return low - SLACK * high, (1.0 + SLACK) * high

    @cached_property
    def _row_length(self) -> RowLength:
        return RowLength.of(self._projection)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The directions by which lengths are bounded."""
        scales = np.linalg.norm(self._projection, axis=0)
        order = np.argsort(scales)
        few, rest = order[:_N_DIRECTIONS], scales[order[_N_DIRECTIONS:]]
        directions = np.ascontiguousarray(self._projection[:, few] / scales[few])
        ends = (float(rest[0]), float(rest[-1])) if len(rest) else (0.0, 0.0)
        return Spectrum(directions, scales[few], *ends)

    def _fold(self, embeddings: NDArray[Any]) -> NDArray[Any]:
        scaled = embeddings * self._factors(embeddings)
        folded: NDArray[Any] = scaled @ self._projection.T
        return folded
