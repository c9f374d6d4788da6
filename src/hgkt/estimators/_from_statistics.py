"""Methods that learn from sums: any number of rows, read once, by whoever read them."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table, label_text, refuse_twins
from hgkt.calibration import Calibration, HeldOutRows, ScoredFold, fit_calibration
from hgkt.confidence import FoldSample, fit_confidence, keep_samples
from hgkt.estimators._calibrating import AUTO, MIN_CLASSES, Found
from hgkt.estimators._changing_classes import ChangingClasses
from hgkt.estimators._class_tables import ClassTable
from hgkt.estimators._known import KnownClasses, warn_of_doubts
from hgkt.estimators._sums_folds import SumsFold, sums_folds
from hgkt.exceptions import ClassWarning, DataError
from hgkt.statistics import GatheredStatistics, Sums

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier


class FromStatistics(ChangingClasses):
    """A classifier that can be fitted on sums, where its method needs no more.

    A method that can implements `_fit_sums`, and says in `gather_options` what it needs.
    """

    calibration: float | str | Mapping[str, float]

    def gather_options(self, select: bool = False) -> dict[str, Any]:
        """Return what `hgkt.gather` is to sum for this model: its keyword arguments.

        Parameters
        ----------
        select : bool
            Whether parameters are going to be chosen on validation classes.
        """
        raise self._needs_rows()

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassTable:
        """Learn from the sums of seen classes and their attributes (L, d); return their table."""
        raise self._needs_rows()

    def _needs_rows(self) -> DataError:
        return DataError(
            f"{type(self).__name__} learns from rows, not from their sums: use fit; hgkt, ridge, "
            "eszsl, sae and gfzsl learn from sums"
        )

    @abstractmethod
    def _start_fit(self) -> None:
        """Forget what an earlier fit found."""

    @abstractmethod
    def _take_table(
        self,
        table: ClassTable,
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> Self:
        """Make the table of seen classes the model's own, without added classes."""

    @abstractmethod
    def _take_found(self, found: Found) -> None:
        """Keep what class folds said."""

    def fit_statistics(self, statistics: Sums, class_attributes: Any = None) -> Self:
        """Learn from gathered statistics what `fit` learns from the rows.

        Parameters
        ----------
        statistics : GatheredStatistics
            See :func:`hgkt.gather`. ``calibration="auto"`` finds γ on their class folds.
        class_attributes : mapping or DataFrame, optional
            As for `fit`.
        """
        classes, attributes = _seen_attributes(statistics, class_attributes)
        self._start_fit()
        self.n_features_in_ = statistics.n_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        has_attributes = class_attributes is not None
        table = self._fit_sums(statistics, attributes)
        self._take_table(table, classes, attributes, has_attributes)
        if has_attributes:
            warn_of_doubts(KnownClasses([], attributes[:0]), classes.tolist(), attributes)
        if self.calibration == AUTO and has_attributes:
            if not isinstance(statistics, GatheredStatistics):
                raise DataError("calibration='auto' needs statistics of hgkt.gather")
            vectors = dict(zip(classes.tolist(), attributes, strict=True))
            self._take_found(_own_calibration(self, statistics, vectors))
        return self._add_others(class_attributes)

    def score_grid_sums(
        self,
        grid: Sequence[Mapping[str, Any]],
        sums: Sums,
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Do from sums what `fit_score_grid` does from rows."""
        for index, params in enumerate(grid):
            model = clone(self).set_params(**params)
            yield index, _fit_and_score(model, sums, class_attributes, new_attributes, X_eval)
            if progress is not None:
                progress("select", index + 1, len(grid), {})


def _seen_attributes(
    statistics: Sums, class_attributes: Any
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Check the classes (L,) of statistics and return them with their attributes (L, d)."""
    classes = statistics.classes
    if len(classes) < 2:
        held = label_text(classes[0]) if len(classes) else "none"
        raise DataError(f"the statistics are of one class only ({held}); two are expected")
    if class_attributes is None:
        return classes, np.eye(len(classes))
    refuse_twins(classes.tolist())
    return classes, attribute_matrix(attribute_table(class_attributes), classes.tolist())


def _fit_and_score(
    model: Any,
    sums: Sums,
    class_attributes: Mapping[Any, ArrayLike],
    new_attributes: Mapping[Any, ArrayLike],
    X_eval: NDArray[Any],
) -> NDArray[Any]:
    """Fit on sums, add classes and score rows (n, D): seen columns first, no penalty."""
    model.fit_statistics(sums, class_attributes=class_attributes)
    with warnings.catch_warnings():  # classes described alike are the user's, not added ones
        warnings.simplefilter("ignore", ClassWarning)
        model.add_classes(new_attributes)
    scores: NDArray[Any] = model.score_classes(X_eval, penalty=False)[:, model.candidates()]
    return scores


def _own_calibration(
    model: Any, statistics: GatheredStatistics, attributes: Mapping[Any, NDArray[np.float64]]
) -> Found:
    """Return the γ that the class folds of statistics ask for; see `own_calibration`."""
    folds = statistics.folds
    if len(statistics.classes) < MIN_CLASSES:
        return Found(Calibration())
    if not folds:
        raise DataError(
            "calibration='auto' needs statistics with class folds: gather with folds= or classes=, "
            "or set calibration=0"
        )
    if (statistics.counts > 1).sum() <= max(len(held_out) for _, held_out in folds):
        return Found(Calibration())
    kept_folds: list[FoldSample] = []
    rows = HeldOutRows()
    scored = rows.watch(_scored(model, fold) for fold in sums_folds(statistics, attributes))
    law = fit_calibration(keep_samples(scored, kept_folds)).for_classes()
    return Found(law, fit_confidence(kept_folds, law), rows.at(law))


def _scored(model: GZSLClassifier, fold: SumsFold) -> ScoredFold:
    """Score the validation rows of a fold by a plain fit, in the precision of the data."""
    blank = clone(model).set_params(calibration=0.0)
    parts = fold.sums, fold.train_attributes, fold.val_attributes, fold.X_eval
    return ScoredFold(fold.rows, _fit_and_score(blank, *parts))
