"""Wider selection on validation classes: settings drawn by Optuna between the grid's ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hgkt._validation import check_number, import_extra
from hgkt.calibration import Fold
from hgkt.evaluation.selection import ClassFoldSearch, SettingResult, Stage

_LOG_RATIO = 10.0


@dataclass(frozen=True)
class Range:
    """What one parameter may be.

    Parameters
    ----------
    values : tuple
        The values of the grids, without repeats.
    numeric : bool
        Whether anything between the smallest and the largest is allowed.
    integer : bool
        Whether those are whole numbers.
    log : bool
        Whether to draw on a logarithmic scale.
    """

    values: tuple[Any, ...]
    numeric: bool
    integer: bool
    log: bool

    def suggest(self, trial: Any, name: str) -> Any:
        """Draw a value."""
        if not self.numeric:
            return self.values[trial.suggest_categorical(name, list(range(len(self.values))))]
        draw = trial.suggest_int if self.integer else trial.suggest_float
        return draw(name, min(self.values), max(self.values), log=self.log)

    def code(self, value: Any) -> Any:
        """Return how a trial writes `value`, or None where it is outside."""
        if not self.numeric:
            return next((k for k, choice in enumerate(self.values) if choice == value), None)
        good = isinstance(value, int | float) and not isinstance(value, bool)
        return value if good and min(self.values) <= value <= max(self.values) else None


def search_space(stages: Sequence[Stage]) -> dict[str, Range]:
    """Return the union of the grids: a range per parameter.

    Numbers become an interval, logarithmic where its ends are positive and ten times apart;
    everything else stays a choice.

    Parameters
    ----------
    stages : list of dict, or of lists of dicts
        Grids as `ClassFoldSearch` takes them.

    Examples
    --------
    >>> space = search_space([{"ridge": [0.01, 1.0], "metric": ["cosine"]}, {"n_steps": [50, 400]}])
    >>> space["ridge"].log, space["metric"].values, space["n_steps"].integer
    (True, ('cosine',), True)
    """
    found: dict[str, list[Any]] = {}
    for stage in stages:
        for grid in [stage] if isinstance(stage, Mapping) else stage:
            for name, values in grid.items():
                known = found.setdefault(name, [])
                known += [value for value in values if not any(value is k or value == k
                                                               for k in known)]  # fmt: skip
    return {name: _range(values) for name, values in found.items()}


def _range(values: list[Any]) -> Range:
    numeric = len(values) > 1 and all(
        isinstance(value, int | float | np.number) and not isinstance(value, bool)
        for value in values
    )
    if not numeric:
        return Range(tuple(values), False, False, False)
    integer = all(isinstance(value, int | np.integer) for value in values)
    log = min(values) > 0 and max(values) / min(values) >= _LOG_RATIO
    return Range(tuple(values), True, integer, log)


class OptunaSearch(ClassFoldSearch):
    """Draw settings with Optuna, score them on validation classes, fit the best on everything.

    The first setting tried is the estimator's own; the others come from a tree-structured Parzen
    estimator. Folds, metric and calibration are those of `ClassFoldSearch`.

    Parameters
    ----------
    estimator : GZSLClassifier
        The method; it is cloned, never changed.
    stages : list of dict, optional
        Grids whose union spans the ranges; by default ``estimator.default_stages()``.
    n_trials : int, default=50
        How many settings are tried.
    **options
        The other parameters of `ClassFoldSearch`.

    Examples
    --------
    >>> from hgkt.baselines.ridge import RidgeClassMeanClassifier
    >>> from hgkt.data import load_dataset
    >>> data = load_dataset("digits")
    >>> X, y = data.rows("train")
    >>> search = OptunaSearch(RidgeClassMeanClassifier(), n_trials=3)
    >>> search = search.fit(X, y, data.attributes_of(data.seen_classes))
    >>> len(search.cv_results_), sorted(search.best_params_)
    (3, ['attribute_map', 'feature_map', 'metric', 'ridge'])
    """

    def __init__(
        self,
        estimator: Any,
        stages: Sequence[Stage] | None = None,
        *,
        n_trials: int = 50,
        **options: Any,
    ) -> None:
        super().__init__(estimator, stages, **options)
        self.n_trials = n_trials

    @classmethod
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads names off the signature; the options are those of the base class.
        return sorted([*ClassFoldSearch._get_param_names(), "n_trials"])

    def _search(self, folds: Callable[[], Iterator[Fold]]) -> None:
        optuna = import_extra("optuna", "tune")
        check_number("n_trials", self.n_trials, low=1, integer=True)
        stages = self.estimator.default_stages() if self.stages is None else self.stages
        space = search_space(stages)
        if not space:
            return super()._search(folds)
        self._check_names([[dict.fromkeys(space)]])
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(seed=self.random_state)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.enqueue_trial(self._own_setting(space))
        known: dict[str, SettingResult] = {}
        self.cv_results_ = []
        for number in range(self.n_trials):
            trial = study.ask()
            params = {name: choice.suggest(trial, name) for name, choice in space.items()}
            key = self._key(params)
            if key not in known:
                label = f"trial {number + 1}/{self.n_trials}"
                known[key] = self._search_stage(0, label, [params], folds())[0]
                self.cv_results_.append(known[key])
            study.tell(trial, known[key].mean)
        best = max(self.cv_results_, key=lambda result: result.mean)
        self._take(best)
        return None

    def _own_setting(self, space: Mapping[str, Range]) -> dict[str, Any]:
        """Return the estimator's own values, where the ranges hold them."""
        own = self.estimator.get_params(deep=False)
        codes = {name: choice.code(own.get(name)) for name, choice in space.items()}
        return {name: code for name, code in codes.items() if code is not None}
