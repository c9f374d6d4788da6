"""Methods that learn a whole grid of settings in one go: one pass, decomposition or training run.

`StagedClassifier` is for methods whose costly part does not read all parameters, `PathClassifier`
for those trained step by step. A plain fit is a grid of one setting, so both run the same code.
Either maps the rows of features and attributes before the method sees them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hgkt._geometry import MAPS, FeatureMap, check_map, map_rows, unit_rows
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table, check_choice
from hgkt.estimators.base import ClassTable, GZSLClassifier
from hgkt.estimators.state_rules import Rule, shapes

Setting = Mapping[str, Any]
Fitted = Iterator[tuple[int, ClassTable]]
"""Index of each setting with the table of seen classes under it."""

ATTRIBUTE_MAPS = ("l2", "sqrt+l2")
"""What selection tries of attributes, as that of `hgkt` does: their length says nothing."""

CENTERINGS = ("none", "features", "attributes", "both")
"""Whose mean over the training data is taken off after the maps."""

_CENTERS = shapes(feature_center_="D", attribute_center_="d")

_CHUNK_ROWS = 4096


def map_grid(
    features: Sequence[FeatureMap] = MAPS, attributes: Sequence[FeatureMap] = ATTRIBUTE_MAPS
) -> dict[str, list[FeatureMap]]:
    """Return the maps of features and attributes that selection tries, as part of a grid.

    Examples
    --------
    >>> map_grid(["l2"])
    {'feature_map': ['l2'], 'attribute_map': ['l2', 'sqrt+l2']}
    """
    return {"feature_map": list(features), "attribute_map": list(attributes)}


def center_grid(centerings: Sequence[str] = CENTERINGS) -> dict[str, list[Any]]:
    """Return maps of attributes and what is centred, which depend on one another, for a grid.

    Examples
    --------
    >>> center_grid(["none", "both"])
    {'attribute_map': ['l2', 'sqrt+l2'], 'centering': ['none', 'both']}
    """
    return {"attribute_map": list(ATTRIBUTE_MAPS), "centering": list(centerings)}


def powers(low: int, high: int, per_decade: int = 1) -> list[float]:
    """Return the powers of ten from 10^low to 10^high.

    Examples
    --------
    >>> powers(-1, 1)
    [0.1, 1.0, 10.0]
    """
    return [10.0 ** (k / per_decade) for k in range(low * per_decade, high * per_decade + 1)]


class Seen(NamedTuple):
    """What a method learns from: mapped features (N, D), codes (N,), mapped attributes (L, d)."""

    X: NDArray[Any]
    codes: NDArray[np.intp]
    attributes: NDArray[np.float64]


class GridClassifier(GZSLClassifier):
    """A method that learns many settings of its parameters in one go, on mapped rows.

    Every such method has the parameters ``feature_map`` and ``attribute_map``. Features and
    attributes are mapped here, in training and later; the hooks see mapped rows only. Those with a
    parameter ``centering`` may have them centred, too: a bilinear score has no term for what all
    images or all classes have in common. The mean of the seen classes is taken off attributes,
    which are brought to unit length again, and the mean of the training rows off features.
    """

    mathematics_version: ClassVar[int] = 2  # 1: no choice of maps, selected by H
    feature_map: FeatureMap
    attribute_map: FeatureMap
    centering: str = "none"

    _seen_apart: ClassVar[bool] = False
    """Whether `_score` has another rule for seen classes than for added ones."""

    @abstractmethod
    def _fit_settings(self, seen: Seen, settings: Sequence[Setting]) -> Fitted:
        """Learn every setting; yield its index and the table of seen classes.

        Each setting names the same parameters, and all of them the same maps. At a yield the
        parameters and the learned attributes of that setting are in place; the order is free.
        """

    @abstractmethod
    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassTable:
        """Return the table rows of classes from their mapped attributes (U, d)."""

    @abstractmethod
    def _check_params(self) -> None:
        """Refuse parameters outside their range; maps are checked already."""

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._center_features(map_rows(X, self.feature_map))

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return self._embed_rows(self._map_attributes(attributes))

    def _map_attributes(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        rows: NDArray[np.float64] = map_rows(attributes, self.attribute_map)
        if self.centering in ("attributes", "both"):
            rows = unit_rows(rows - self.attribute_center_)
        return rows

    def _center_features(self, mapped: NDArray[Any]) -> NDArray[Any]:
        if self.centering not in ("features", "both"):
            return mapped
        return mapped - self.feature_center_.astype(mapped.dtype)

    def _find_centers(self, mean: NDArray[np.float64], attributes: NDArray[np.float64]) -> None:
        """Learn what is taken off, from the mean of mapped features and raw attributes."""
        self.feature_center_ = mean
        self.attribute_center_ = map_rows(attributes, self.attribute_map).mean(axis=0)

    def _state(self) -> dict[str, NDArray[Any]]:
        state = super()._state()
        if self.centering != "none":
            state |= {f"learned/{name}": getattr(self, name) for name in _CENTERS}
        return state

    def _state_rules(self, names: Collection[str]) -> dict[str, Rule]:
        rules = super()._state_rules(names)
        if self.centering != "none":
            rules |= {f"learned/{name}": rule for name, rule in _CENTERS.items()}
        return rules

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        if self.centering != "none":
            self.feature_center_ = state["learned/feature_center_"]
            self.attribute_center_ = state["learned/attribute_center_"]

    def _fit_mapped(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        settings: Sequence[Setting],
    ) -> Fitted:
        """Learn every setting from raw rows, the features mapped once for each feature map."""
        for outer in group_settings(settings, ["feature_map"], differ=True):
            self._apply(settings[outer[0]])
            features = map_rows(X, self.feature_map)
            alike = [settings[index] for index in outer]
            for inner in group_settings(alike, ["attribute_map", "centering"], differ=True):
                self._apply(alike[inner[0]])
                if self.centering != "none":
                    self._find_centers(features.mean(axis=0, dtype=np.float64), attributes)
                rows = self._center_features(features)
                seen = Seen(rows, codes, self._map_attributes(attributes))
                for index, table in self._fit_settings(seen, [alike[i] for i in inner]):
                    yield outer[inner[index]], table

    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        ((_, table),) = self._fit_mapped(X, codes, attributes, [{}])
        return table

    def fit_score_grid(
        self,
        grid: Sequence[Setting],
        X: NDArray[Any],
        y: NDArray[Any],
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Do in one go what `GZSLClassifier.fit_score_grid` does setting by setting."""
        model = clone(self).on_progress(progress)
        features, codes, _, attributes = model._check_training_data(X, y, class_attributes)
        fits = model._fit_mapped(features, codes, attributes, model._whole(grid))
        width = attributes.shape[1]
        yield from model._score_fits(fits, new_attributes, width, X_eval, len(grid), progress)

    def _whole(self, grid: Sequence[Setting]) -> list[Setting]:
        """Return settings that all name the same parameters."""
        names = {name for setting in grid for name in setting}
        common = {name: getattr(self, name) for name in names}
        return [{**common, **setting} for setting in grid]

    def _score_fits(
        self,
        fits: Fitted,
        new_attributes: Mapping[Any, ArrayLike],
        n_attributes: int,
        X_eval: NDArray[Any],
        total: int,
        progress: Progress | None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Add the new classes to each fit as it comes, and score rows (n, D)."""
        table = attribute_table(new_attributes)
        added = attribute_matrix(table, list(table), n_attributes)
        mapped: list[NDArray[Any]] = []
        kind: Any = None
        for done, (index, rows) in enumerate(fits, start=1):
            if kind != (self.feature_map, self.centering):  # equal ones come one after another
                kind = self.feature_map, self.centering
                parts = range(0, len(X_eval), _CHUNK_ROWS)
                mapped = [self._map_features(X_eval[at : at + _CHUNK_ROWS]) for at in parts]
            yield index, _score_both(self, mapped, rows, self._embed_classes(added))
            if progress is not None:
                progress("select", done, total, {})

    def _apply(self, setting: Setting) -> None:
        """Set the parameters of a setting and refuse those outside their range."""
        self.set_params(**setting)
        check_map("feature_map", self.feature_map)
        check_map("attribute_map", self.attribute_map)
        check_choice("centering", self.centering, CENTERINGS)
        self._check_params()


class StagedClassifier(GridClassifier):
    """A method in stages, each run as seldom as its parameters allow.

    `_gather` reads no parameter and runs once for a grid; `_train` reads all but the `_late` ones
    and runs once for settings that differ in these alone; `_finish` runs for every setting. Each
    hands its result to the next.
    """

    _late: ClassVar[tuple[str, ...]] = ()

    def _gather(self, seen: Seen) -> Any:
        """Return what no parameter changes; by default the data themselves."""
        return seen

    @abstractmethod
    def _train(self, gathered: Any) -> Any:
        """Learn what does not depend on the late parameters."""

    def _finish(self, trained: Any) -> ClassTable:
        """Set what does depend on them and return the table of seen classes."""
        return dict(trained)

    def _fit_settings(self, seen: Seen, settings: Sequence[Setting]) -> Fitted:
        yield from self._fit_gathered(self._gather(seen), settings)

    def _fit_gathered(self, gathered: Any, settings: Sequence[Setting]) -> Fitted:
        for group in group_settings(settings, self._late):
            self._apply(settings[group[0]])
            trained = self._train(gathered)
            for index in group:
                self._apply(settings[index])
                yield index, self._finish(trained)


class PathClassifier(GridClassifier):
    """A method trained step by step: the way to the last stop passes all earlier ones."""

    _path: ClassVar[str] = "n_steps"
    """The parameter that says how far training goes."""

    _only_scoring: ClassVar[tuple[str, ...]] = ()
    """Parameters that training does not read."""

    @abstractmethod
    def _train(self, seen: Seen, stops: Sequence[int]) -> Iterator[int]:
        """Train to the last of the ascending `stops`; at each, set what is learned and yield it.

        Parameters other than `_path` are read before the first yield.
        """

    def _fit_settings(self, seen: Seen, settings: Sequence[Setting]) -> Fitted:
        for indices in group_settings(settings, (self._path, *self._only_scoring)):
            at: dict[int, list[int]] = {}
            for index in indices:
                self._apply(settings[index])
                at.setdefault(getattr(self, self._path), []).append(index)
            for stop in self._train(seen, sorted(at)):
                for index in at[stop]:
                    self.set_params(**settings[index])
                    yield index, self._embed_rows(seen.attributes)


def group_settings(
    settings: Sequence[Setting], names: Sequence[str], differ: bool = False
) -> list[list[int]]:
    """Group the indices of settings that differ in no parameter but the named ones.

    With `differ` it is the other way round: settings that agree in the named ones.

    Examples
    --------
    >>> group_settings([{"a": 1, "n": 5}, {"a": 2, "n": 5}, {"a": 1, "n": 9}], ["n"])
    [[0, 2], [1]]
    """
    groups: dict[str, list[int]] = {}
    for index, setting in enumerate(settings):
        fixed = sorted((k, repr(v)) for k, v in setting.items() if (k in names) == differ)
        groups.setdefault(repr(fixed), []).append(index)
    return list(groups.values())


def _score_both(
    model: GridClassifier, parts: Sequence[NDArray[Any]], seen: ClassTable, added: ClassTable
) -> NDArray[np.float64]:
    """Score seen and added classes of parts of mapped rows, without a penalty.

    What is done to rows is done once where both are scored by one rule.
    """
    if model._seen_apart:
        scores = [
            np.concatenate(
                [model._score(rows, seen, True), model._score(rows, added, False)], axis=1
            )
            for rows in parts
        ]
    else:
        table = {name: np.concatenate([seen[name], added[name]]) for name in seen}
        scores = [model._score(rows, table, False) for rows in parts]
    return np.concatenate(scores, dtype=np.float64)
