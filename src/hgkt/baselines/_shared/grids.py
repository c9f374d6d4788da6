"""Methods that learn a whole grid of settings in one go: one pass, decomposition or training run.

`GridClassifier` runs a method in stages, each as seldom as its parameters allow; `SumsClassifier`
is for those whose first stage needs sums per class only. A plain fit is a grid of one setting, so
both run the same code. Rows of features and attributes are mapped before the method sees them.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from hgkt._arrays import MAPS, FeatureMap, batches, check_map, map_rows, unit_rows
from hgkt._typing import Progress
from hgkt._validation import check_choice
from hgkt.calibration import Fold, Instances
from hgkt.estimators.base import ClassRows, GZSLClassifier
from hgkt.statistics import ClassStatistics, Sums

Method = TypeVar("Method")
Setting = Mapping[str, Any]
Fitted = Iterator[tuple[int, ClassRows]]
"""Index of each setting with the table of seen classes under it."""

ATTRIBUTE_MAPS = ("l2", "sqrt+l2")
"""What selection tries of attributes, as that of `hgkt` does: their length says nothing."""

CENTERINGS = ("none", "features", "attributes", "both")
"""Whose mean over the training data is taken off after the maps."""

_ENTRY = re.compile(r"^( *)([\w, ]+) : (.+)\n((?:\1 {4}.+\n)+)", re.MULTILINE)
_BORROWED = re.compile(r"^( *)([\w, ]+) : \.\.\.\n", re.MULTILINE)
_CENTERS = ("feature_center_", "attribute_center_")


def map_grid() -> dict[str, list[str]]:
    """Return the maps of features and attributes that selection tries, as part of a grid.

    Examples
    --------
    >>> map_grid()
    {'feature_map': ['none', 'l2', 'sqrt+l2'], 'attribute_map': ['l2', 'sqrt+l2']}
    """
    return {"feature_map": list(MAPS), "attribute_map": list(ATTRIBUTE_MAPS)}


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


@dataclass_transform(eq_default=False)
def parameters(cls: type[Method]) -> type[Method]:
    """Give a method the constructor of its parameters, which are its annotated class attributes.

    Where its docstring has ``name, other : ...`` for parameters or learned attributes, it gets the
    words of a base class for each, and the method's own default.

    Examples
    --------
    >>> class Base:
    ...     '''Parameters
    ...     ----------
    ...     ridge : float
    ...         Weight of the penalty.
    ...     '''
    >>> @parameters
    ... class Regression(Base):
    ...     '''Parameters
    ...     ----------
    ...     ridge : ...
    ...     '''
    ...     ridge: float = 0.5
    >>> Regression(2.0).ridge
    2.0
    >>> print(inspect.getdoc(Regression))
    Parameters
    ----------
    ridge : float, default=0.5
        Weight of the penalty.
    """
    made = dataclass(eq=False, repr=False)(cls)
    given = inspect.signature(made).parameters
    words: dict[str, tuple[str, str]] = {}
    for base in reversed(made.__mro__[1:]):
        known = _ENTRY.findall(base.__doc__ or "")
        words |= {name: (kind, text) for _, name, kind, text in known}

    def entry(indent: str, name: str) -> str:
        kind, text = words[name]
        if name in given:
            default = given[name].default
            kind += f', default="{default}"' if isinstance(default, str) else f", default={default}"
        return f"{indent}{name} : {kind}\n{text}"

    def entries(found: re.Match[str]) -> str:
        return "".join(entry(found[1], name) for name in found[2].split(", "))

    made.__doc__ = _BORROWED.sub(entries, made.__doc__ or "")
    return made


class GridClassifier(GZSLClassifier):
    """A method that learns many settings of its parameters in one go, on mapped rows.

    `_gather` reads no parameter but the maps and runs once for a grid. `_train` reads all but the
    `_late` ones and runs once for settings that differ in these alone; where training goes step by
    step, one run of `_train_path` serves all numbers of steps. `_finish` runs for every setting.
    Each hands its result to the next.

    Features and attributes are mapped here, in training and later; the hooks see mapped rows only.
    Methods with a parameter ``centering`` may have them centred, too: a bilinear score has no term
    for what all images or all classes have in common.

    Parameters
    ----------
    feature_map : {"none", "l2", "sqrt+l2"} or float
        What is done to each row of features first: nothing, unit length, signed square root and
        unit length, or another power and unit length.
    attribute_map : {"none", "l2", "sqrt+l2"} or float
        The same for each attribute vector.
    centering : {"none", "features", "attributes", "both"}
        Whose mean over the training data is taken off after the maps; attributes are brought to
        unit length again.
    calibration : float
        γ, taken off the score of every seen class; choose it on validation classes.
    """

    mathematics_version: ClassVar[int] = 2  # 1: no choice of maps, selected by H
    feature_map: FeatureMap
    attribute_map: FeatureMap
    centering: str = "none"

    _seen_apart: ClassVar[bool] = False
    """Whether `_score` has another rule for seen classes than for added ones."""

    _late: ClassVar[tuple[str, ...]] = ()
    """Parameters that training does not read."""

    _path: ClassVar[str] = ""
    """The parameter that says how far training goes, where the way to the last stop passes all
    earlier ones."""

    def _gather(self, seen: Seen) -> Any:
        """Return what no parameter changes; by default the data themselves."""
        return seen

    def _train(self, gathered: Any) -> Any:
        """Learn what does not depend on the late parameters; return what `_finish` needs."""
        raise TypeError(f"{type(self).__name__} has neither _train nor _train_path")

    def _train_path(self, gathered: Any, stops: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Train to the last of the ascending `stops`; at each, yield it and what `_finish` needs.

        Methods with a `_path` have this in place of `_train`. Other parameters are read before the
        first yield.
        """
        yield stops[0], self._train(gathered)

    def _finish(self, trained: Any) -> ClassRows:
        """Set what depends on late parameters and return the table of seen classes."""
        return dict(trained)

    @abstractmethod
    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        """Return the table rows of classes from their mapped attributes (U, d)."""

    @abstractmethod
    def _check_params(self) -> None:
        """Refuse parameters outside their range; maps are checked already."""

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._center_features(map_rows(X, self.feature_map))

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassRows:
        return self._embed_rows(self._map_attributes(attributes))

    def _map_attributes(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        rows: NDArray[np.float64] = map_rows(attributes, self.attribute_map)
        if self.centering in ("attributes", "both"):
            rows = unit_rows(rows - self.attribute_center_)
        return rows

    def _center_features(self, mapped: NDArray[Any]) -> NDArray[Any]:
        if self.centering not in ("features", "both"):
            return mapped
        centred: NDArray[Any] = mapped - self.feature_center_.astype(mapped.dtype)
        return centred

    def _find_centers(self, mean: NDArray[np.float64], attributes: NDArray[np.float64]) -> None:
        """Learn what is taken off, from the mean of mapped features and raw attributes."""
        self.feature_center_ = mean
        self.attribute_center_ = map_rows(attributes, self.attribute_map).mean(axis=0)

    def _state(self) -> dict[str, NDArray[Any]]:
        state = super()._state()
        if self.centering != "none":
            state |= {f"learned/{name}": getattr(self, name) for name in _CENTERS}
        return state

    def _restore(
        self,
        state: Mapping[str, NDArray[Any]],
        labels: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> None:
        super()._restore(state, labels, attributes, has_attributes)
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
                gathered = self._gather(seen)
                for index, table in self._fit_settings(gathered, [alike[i] for i in inner]):
                    yield outer[inner[index]], table

    def _fit_settings(self, gathered: Any, settings: Sequence[Setting]) -> Fitted:
        """Learn every setting of the same maps; yield its index and the table of seen classes.

        At a yield the parameters and the learned attributes of that setting are in place.
        """
        for group in group_settings(settings, (self._path, *self._late)):
            stops: dict[Any, list[int]] = {}
            for index in group:
                self._apply(settings[index])
                stops.setdefault(getattr(self, self._path, None), []).append(index)
            for stop, trained in self._train_path(gathered, sorted(stops)):
                for index in stops[stop]:
                    self._apply(settings[index])
                    yield index, self._finish(trained)

    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassRows:
        ((_, table),) = self._fit_mapped(X, codes, attributes, [{}])
        return table

    def score_grid(
        self, grid: Sequence[Setting], fold: Fold, progress: Progress | None = None
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Do in one go what `GZSLClassifier.score_grid` does setting by setting."""
        model = clone(self).on_progress(progress)
        model.n_features_in_ = fold.X_eval.shape[1]
        mapped: list[NDArray[Any]] = []
        maps: Any = None
        for done, (index, rows) in enumerate(model._fit_fold(fold, model._whole(grid)), start=1):
            if maps != (model.feature_map, model.centering):  # equal ones come one after another
                maps = model.feature_map, model.centering
                X = fold.X_eval
                mapped = [model._map_features(X[part]) for part in batches(len(X))]
            added = model._embed_classes(fold.new_attributes)
            yield index, _score_both(model, mapped, rows, added)
            if progress is not None:
                progress("select", done, len(grid), {})

    def _fit_fold(self, fold: Fold, settings: Sequence[Setting]) -> Fitted:
        """Learn every setting from the training part of a fold."""
        if not isinstance(fold.training, Instances):
            raise self._needs_rows()
        return self._fit_mapped(*fold.training, fold.attributes, settings)

    def _whole(self, grid: Sequence[Setting]) -> list[Setting]:
        """Return settings that all name the same parameters."""
        names = {name for setting in grid for name in setting}
        common = {name: getattr(self, name) for name in names}
        return [{**common, **setting} for setting in grid]

    def _apply(self, setting: Setting) -> None:
        """Set the parameters of a setting and refuse those outside their range."""
        self.set_params(**setting)
        check_map("feature_map", self.feature_map)
        check_map("attribute_map", self.attribute_map)
        check_choice("centering", self.centering, CENTERINGS)
        self._check_params()


class SumsClassifier(GridClassifier):
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

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassRows:
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
            for index, table in self._fit_settings(gathered, alike):
                yield group[index], table

    def _fit_fold(self, fold: Fold, settings: Sequence[Setting]) -> Fitted:
        if isinstance(fold.training, Instances):
            return super()._fit_fold(fold, settings)
        return self._fit_all(fold.training, fold.attributes, settings)


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
    model: GridClassifier, parts: Sequence[NDArray[Any]], seen: ClassRows, added: ClassRows
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
