"""Methods in stages whose first one needs sums only: of rows, or gathered by others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix
from hgkt.baselines._shared.grids import Fitted, Setting, StagedClassifier, group_settings
from hgkt.estimators.base import ClassTable
from hgkt.statistics import ClassStatistics, Sums


class SumsClassifier(StagedClassifier):
    """A method whose `_gather` could do with sums by class, and says how in `_gather_sums`."""

    _needs_squares: ClassVar[bool] = False

    @abstractmethod
    def _gather_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> Any:
        """Return what `_gather` returns, from the sums of rows mapped by ``feature_map``."""

    def _statistics_of(self, sums: Sums) -> ClassStatistics:
        """Return the sums of the rows that `_gather` would see: mapped and, if so set, centred."""
        statistics = sums.of(self.feature_map)
        if self.centering in ("features", "both"):
            statistics = statistics.shifted(self.feature_center_)
        return statistics

    def gather_options(self, select: bool = False) -> dict[str, Any]:
        """Return what is to be summed: the feature maps it has, or those that selection tries."""
        maps = [self.feature_map]
        if select:
            maps += [
                setting["feature_map"]
                for stage in self.default_stages()
                for setting in ParameterGrid(stage)
                if "feature_map" in setting
            ]
        return {"feature_maps": tuple(dict.fromkeys(maps)), "squares": self._needs_squares}

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassTable:
        ((_, table),) = self._fit_all(sums, attributes, [{}])
        return table

    def _fit_all(
        self, sums: Sums, attributes: NDArray[np.float64], settings: Sequence[Setting]
    ) -> Fitted:
        """Learn every setting from sums; see `_fit_mapped`."""
        names = ["feature_map", "attribute_map", "centering"]
        for group in group_settings(settings, names, differ=True):
            alike = [settings[index] for index in group]
            self._apply(alike[0])
            if self.centering != "none":
                statistics = sums.of(self.feature_map)
                mean = statistics.sums.sum(axis=0) / max(statistics.n_instances, 1)
                self._find_centers(mean, attributes)
            gathered = self._gather_sums(sums, self._map_attributes(attributes))
            for index, table in self._fit_gathered(gathered, alike):
                yield group[index], table

    def score_grid_sums(
        self,
        grid: Sequence[Setting],
        sums: Sums,
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Do in one go what `GZSLClassifier.score_grid_sums` does setting by setting."""
        model = clone(self).on_progress(progress)
        attributes = attribute_matrix(class_attributes, sums.classes.tolist())
        fits = model._fit_all(sums, attributes, model._whole(grid))
        width = attributes.shape[1]
        yield from model._score_fits(fits, new_attributes, width, X_eval, len(grid), progress)
