"""The sums of one class fold: those of the whole, less what the fold holds out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import FeatureMap, map_rows
from hgkt.statistics.classes import ClassStatistics, class_sums
from hgkt.statistics.gathered import GatheredStatistics
from hgkt.statistics.roles import TRAIN

_CHUNK_ROWS = 2048


@dataclass(frozen=True)
class FoldSums:
    """Sums of the rows that a fold trains on: its train classes without the rows held out.

    Parameters
    ----------
    whole : GatheredStatistics
        Sums of all rows.
    number : int
        Number of the fold.
    X : ndarray of shape (n, D)
        Rows of train classes that are held out.
    labels : ndarray of shape (n,)
        Their classes.
    """

    whole: GatheredStatistics
    number: int
    X: NDArray[Any]
    labels: NDArray[Any]

    @cached_property
    def classes(self) -> NDArray[Any]:
        """Labels (L,) of the classes trained on, sorted."""
        return np.array(self.whole.folds[self.number][0])

    @property
    def feature_maps(self) -> tuple[FeatureMap, ...]:
        """The maps whose sums are there."""
        return self.whole.feature_maps

    @property
    def n_features(self) -> int:
        """Width of a row."""
        return self.whole.n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features that were summed."""
        return self.whole.dtype

    def of(self, feature_map: FeatureMap) -> ClassStatistics:
        """Return the sums of mapped rows, classes sorted."""
        statistics = self.whole.of(feature_map, self._groups)
        for start in range(0, len(self.X), _CHUNK_ROWS):
            rows, codes = self._held_out(start, feature_map)
            statistics.counts -= np.bincount(codes, minlength=len(self.classes))
            statistics.sums -= class_sums(rows, codes, len(self.classes))
            statistics.second_moment -= rows.T @ rows
        return statistics

    def squares_of(self, feature_map: FeatureMap) -> NDArray[np.float64]:
        """Return Σ x² (L, D) of the mapped rows of each class."""
        squares = self.whole.squares_of(feature_map, self._groups)
        for start in range(0, len(self.X), _CHUNK_ROWS):
            rows, codes = self._held_out(start, feature_map)
            squares -= class_sums(rows**2, codes, len(self.classes))
        return squares

    @property
    def _groups(self) -> list[str]:
        return [roles for roles in self.whole.groups if roles[self.number] == TRAIN]

    def _held_out(
        self, start: int, feature_map: FeatureMap
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        part = slice(start, start + _CHUNK_ROWS)
        rows = map_rows(np.asarray(self.X[part], dtype=np.float64), feature_map)
        return rows, np.searchsorted(self.classes, self.labels[part])
