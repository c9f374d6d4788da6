"""The contract that every method shares: fit on seen classes, add classes at any time, predict.

Algorithm 3 of the paper is `add_classes`, which embeds a class that training never saw, and
`predict`, which names the nearest class of all. A method fills in three hooks, `_fit_seen`,
`_embed_classes` and `_score`; everything a user meets is here once.
"""

from __future__ import annotations

import threading
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from hgkt._arrays import is_tensor
from hgkt._typing import Progress
from hgkt._validation import (
    attribute_matrix,
    attribute_table,
    check_features,
    check_number,
    label_list,
    label_text,
    refuse_twins,
)
from hgkt.calibration import (
    Calibration,
    Confidence,
    Costs,
    ExpectedAccuracies,
    Favour,
    Fold,
    HeldOutClasses,
    Instances,
    plain_probabilities,
)
from hgkt.calibration.folds import ADDED, GROWN, SEEN, default_folds
from hgkt.calibration.novelty import CHANCE, rejected, with_unknown
from hgkt.calibration.sets import set_columns
from hgkt.estimators.class_check import ClassCheck, check_class
from hgkt.estimators.class_table import ClassRows, ClassTable, attribute_doubts
from hgkt.estimators.fold_fit import Validation, validate_on_rows, validate_on_sums
from hgkt.estimators.methods import Preset
from hgkt.estimators.scoring import best_classes, score_blocks, table_scores
from hgkt.estimators.taxonomy import Parents, Taxonomy, renamed, with_parents
from hgkt.exceptions import ClassWarning, ConfidenceWarning, DataError
from hgkt.statistics import ExampleSums, Sums

if TYPE_CHECKING:
    from hgkt.closed_form.scoring import Scorer
    from hgkt.estimators.class_comparison import NewClass

__all__ = ["Answers", "ClassRows", "GZSLClassifier"]

_UNNAMED = "new class"
_ROW_OPTIONS: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": False}
_NO_FOLDS = (
    "this model has no thresholds from validation classes; fit it by hgkt.ClassFoldSearch, or with "
    'calibration="auto" on six classes or more'
)
_UNCALIBRATED = f"probabilities are not calibrated: {_NO_FOLDS}"

# Locks are kept beside the estimators: what is pickled or cloned has none.
_locks: WeakKeyDictionary[Any, threading.RLock] = WeakKeyDictionary()
_making_locks = threading.Lock()


@dataclass(frozen=True)
class Answers:
    """What a model says of some rows, and how sure it is.

    Parameters
    ----------
    classes : ndarray of shape (C,)
        The candidates.
    labels : ndarray of shape (n,)
        The best class, or `hgkt.UNKNOWN`.
    probabilities : ndarray of shape (n, C)
        Of the candidates; rows sum to one.
    scores : ndarray of shape (n, C)
        Of the candidates, higher is better.
    novelty : ndarray of shape (n,), or None
        From 0 to 1: the share of rows of known classes that look less strange. None where
        validation folds found none.
    members : ndarray of shape (n, C), or None
        Which classes are in the prediction set, where a coverage was asked for.
    """

    classes: NDArray[Any]
    labels: NDArray[Any]
    probabilities: NDArray[np.float64]
    scores: NDArray[Any]
    novelty: NDArray[np.float64] | None = None
    members: NDArray[np.bool_] | None = None

    def sets(self) -> list[NDArray[Any]]:
        """Return the classes in each prediction set, the likeliest first."""
        if self.members is None:
            raise DataError("no prediction sets were asked for; give a coverage")
        return [self.classes[columns] for columns in set_columns(self.members, self.probabilities)]


class GZSLClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of all generalized zero-shot classifiers.

    Subclasses implement

    - ``_fit_seen(X, codes, attributes)``: learn from seen classes and return their rows,
    - ``_embed_classes(attributes)``: the rows of classes known by attributes alone,
    - ``_score(X, rows, seen)``: scores (n, C) of features against the rows of C classes,

    and name in ``_learned`` the attributes (arrays or numbers) that the last two read, so that a
    model can be saved. Seen and added classes are scored apart: the scores of seen classes are
    bit-identical whatever is added later. The exception is a method that ``retrains_on_add``: what
    it knows of all classes is learned anew whenever classes come or go, in ``_retrained(table)``.

    Every method has a parameter ``calibration``: γ, taken off the score of every class that was
    seen at the first fit. A class that came by its attributes pays as much of the offset of γ as
    it has learned from instances since. γ is a number; or a dict of ``offset`` and ``slope``, by
    which it depends on how many classes were added (:class:`hgkt.calibration.Calibration`). Or
    `fit` leaves seen classes out in turn and finds γ itself: "auto" for the highest mean accuracy
    over all classes, "learned" or "described" where that of one kind matters more, "balanced" for
    H of the benchmarks, and ``{"favour": 0.1}`` where one row in ten will be of an added class
    (:class:`hgkt.calibration.Favour`). It can be changed after `fit`, to a number or a law.

    Threads may share one estimator: classes may change while others predict, and every call sees
    the classes of one moment. They are one frozen :class:`ClassTable`, which a change replaces.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        All classes, sorted; those learned from instances, sorted when they were learned; and
        added ones in the order they came. Whatever is said to be ordered as ``classes_`` changes
        its order with them.
    """

    named_presets: ClassVar[Mapping[str, Preset]] = {}
    """Sets of parameters by name; see `hgkt.estimators.methods.presets_of`."""
    can_grow: ClassVar[bool] = False
    """Whether classes can learn from examples after `fit`: `grow`, `example_sums`."""
    retrains_on_add: ClassVar[bool] = False
    """Whether classes that come or go make the method train again: that takes long, and moves the
    scores of all classes."""

    _learned: ClassVar[tuple[str, ...]] = ()
    _scores_classes_apart: ClassVar[bool] = False
    """Whether the score of a class depends on its own row alone, and many classes may be scored
    in parts."""

    calibration: float | str | Mapping[str, float] = 0.0
    _table: ClassTable
    _validation: Validation = Validation()
    _parents: Parents = MappingProxyType({})  # of removed classes too, should they come back
    _progress: Progress | None = None

    # ------------------------------------------------------------------ hooks of a method
    @abstractmethod
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassRows:
        """Learn from features (N, D), class codes (N,) and attributes (L, d) of seen classes."""

    @abstractmethod
    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassRows:
        """Return the rows of new classes from their attributes (U, d)."""

    @abstractmethod
    def _score(self, X: NDArray[Any], rows: ClassRows, seen: bool) -> NDArray[Any]:
        """Score mapped features against the rows of C classes: (n, C), higher is better."""

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return what `_score` takes of features (n, D): work that all classes share."""
        return X

    def _retrained(self, table: ClassTable) -> ClassTable:
        """Return a table whose classes have changed with the rows that are learned of all of them.

        Only a method that `retrains_on_add` has anything to do here.
        """
        return table

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassRows:
        """Learn from the sums of seen classes and their attributes (L, d); return their rows."""
        raise self._needs_rows()

    def gather_options(self, select: bool = False) -> dict[str, Any]:
        """Return what `hgkt.gather` is to sum for this model: its keyword arguments.

        Parameters
        ----------
        select : bool
            Whether parameters are going to be chosen on validation classes.
        """
        raise self._needs_rows()

    def _needs_rows(self) -> DataError:
        return DataError(
            f"{type(self).__name__} learns from rows, not from their sums: use fit; hgkt, ridge, "
            "eszsl, sae and gfzsl learn from sums"
        )

    def _folded(self, n_classes: int) -> Scorer | None:
        """Return a cheaper way to the best of so many classes, where a method has one."""
        return None

    def _device_scores(self) -> Scorer | None:
        """Return the scores on a device, where the user asked for one and a method has them."""
        return None

    def _compare_new(self, attributes: NDArray[np.float64]) -> NewClass | None:
        """Compare a class (d,) that may come with all others; None where a method cannot."""
        return None

    # ------------------------------------------------------------------ fitting
    def on_progress(self, progress: Progress | None) -> Self:
        """Have `progress` called while a fit goes on; a clone starts without it."""
        self._progress = progress
        return self

    def fit(self, X: ArrayLike, y: ArrayLike, class_attributes: Any = None) -> Self:
        """Learn from the instances of seen classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Visual features; a memory-mapped array stays on disk.
        y : array-like of shape (n_samples,)
            Class of each row, strings or integers.
        class_attributes : mapping or DataFrame, optional
            Attribute vector of every class in `y`, keyed by class. Classes that `y` has not are
            added after learning, as `add_classes` would. None means one-hot vectors: a plain
            classifier to which no class can be added, of which a `ClassWarning` tells.
        """
        features, codes, classes, attributes = self._check_training_data(X, y, class_attributes)
        self._start_fit()
        if class_attributes is None:
            warnings.warn(
                f"fitted without class_attributes: it knows these {len(classes)} classes, and none "
                "can be added; give class_attributes={class: vector} where classes are to be added",
                ClassWarning,
                stacklevel=2,
            )
        rows = self._fit_seen(features, codes, attributes)

        def validate(table: dict[Any, Any]) -> Validation:
            return validate_on_rows(self, features, classes[codes], table)

        return self._take_fit(classes, attributes, rows, class_attributes, validate)

    def fit_statistics(self, statistics: Sums, class_attributes: Any = None) -> Self:
        """Learn from gathered statistics what `fit` learns from the rows.

        Parameters
        ----------
        statistics : GatheredStatistics
            See :func:`hgkt.gather`. ``calibration="auto"`` finds γ on their class folds.
        class_attributes : mapping or DataFrame, optional
            As for `fit`.
        """
        classes, attributes = _check_sums(statistics, class_attributes)
        self._start_fit()
        self.n_features_in_ = statistics.n_features
        if hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        rows = self._fit_sums(statistics, attributes)

        def validate(table: dict[Any, Any]) -> Validation:
            return validate_on_sums(self, statistics, table)

        return self._take_fit(classes, attributes, rows, class_attributes, validate)

    def fit_fold(self, fold: Fold) -> Self:
        """Learn from the training part of a class fold, and add its new classes.

        Nothing is calibrated, and what a fold holds was checked when it was made.
        """
        self._validation = Validation()
        self.n_features_in_ = fold.X_eval.shape[1]
        training = fold.training
        if isinstance(training, Instances):
            rows = self._fit_seen(training.X, training.codes, fold.attributes)
        else:
            rows = self._fit_sums(training, fold.attributes)
        self._take_seen(fold.classes, fold.attributes, rows, has_attributes=True)
        self._add(fold.new_classes, fold.new_attributes)
        return self

    def score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        fold: Fold,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Fit every parameter setting on a fold and score its validation rows.

        Yields ``(index in grid, scores)``, without γ, with columns as ``fold.rows`` has them. A
        method that can share work between settings (one decomposition for a whole grid, one
        training run for many step counts) overrides this; the yields may come in any order.
        """
        for index, params in enumerate(grid):
            model = clone(self).set_params(**params).fit_fold(fold)
            yield index, table_scores(model, [fold.X_eval])
            if progress is not None:
                progress("select", index + 1, len(grid), {})

    def default_folds(self, n_classes: int) -> int:
        """Return how many class folds to validate so many classes on."""
        return default_folds(n_classes)

    def default_stages(self) -> list[Any]:
        """Return the hyper-parameter grids to search, one after another, on validation classes."""
        return []

    def plain_stages(self, counts: NDArray[np.intp]) -> list[Any]:
        """Return the grids to search even where only γ is asked for: none, in most methods.

        Parameters
        ----------
        counts : ndarray of shape (n_classes,)
            Rows per seen class.
        """
        return []

    def _start_fit(self) -> None:
        """Refuse a parameter `calibration` that is none, and forget what an earlier fit found."""
        if Favour.of(self.calibration) is None:
            Calibration.of(self.calibration)
        self._validation = Validation()

    def _take_seen(
        self,
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        rows: ClassRows,
        has_attributes: bool,
    ) -> None:
        table = ClassTable.of(classes, attributes, rows, has_attributes=has_attributes)
        self._table = self._retrained(table)
        self._parents = {}

    def _take_fit(
        self,
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        rows: ClassRows,
        class_attributes: Any,
        validate: Callable[[dict[Any, Any]], Validation],
    ) -> Self:
        """Take over what was learned of seen classes, find γ where asked to, add other classes."""
        self._take_seen(classes, attributes, rows, class_attributes is not None)
        if class_attributes is not None:
            table = dict(zip(classes.tolist(), attributes, strict=True))
            self._warn_of_doubts(list(table), attributes, stacklevel=4)
            if Favour.of(self.calibration) is not None:
                self._validation = validate(table)
        return self._add_others(class_attributes)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_table")

    # ------------------------------------------------------------------ one moment
    def _snapshot(self) -> Self:
        """Return the estimator as it is now, whatever other threads change later; no copy.

        A method that reads more than one attribute takes it first and reads from there.
        """
        moment = object.__new__(type(self))
        moment.__dict__.update(self.__dict__)
        return moment

    def _lock(self) -> threading.RLock:
        """Return the lock under which classes change, one change after another."""
        with _making_locks:
            return _locks.setdefault(self, threading.RLock())

    # ------------------------------------------------------------------ the classes
    @property
    def classes_(self) -> NDArray[Any]:
        """All classes, sorted."""
        return self._fitted_table().classes

    @property
    def seen_classes_(self) -> NDArray[Any]:
        """The classes learned from instances, sorted when they were learned."""
        return self._fitted_table().seen_classes

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """The classes known by their attributes alone, in the order they came."""
        return self._fitted_table().added_classes

    def _fitted_table(self) -> ClassTable:
        try:
            return self._table
        except AttributeError:
            raise AttributeError(f"this {type(self).__name__} is not fitted yet") from None

    @property
    def seen_mask_(self) -> NDArray[np.bool_]:
        """Which classes were learned from instances, ordered as ``classes_``."""
        table = self._fitted_table()
        return table.order < table.n_seen

    @property
    def class_attributes_(self) -> NDArray[np.float64]:
        """Attribute vectors, one row per class, ordered as ``classes_``."""
        table = self._fitted_table()
        return table.attributes.array[table.order]

    @property
    def class_embeddings_(self) -> NDArray[Any]:
        """Embeddings, one row per class, ordered as ``classes_`` (methods that have them)."""
        table = self._fitted_table()
        if "embedding" not in table.seen:
            raise AttributeError(f"{type(self).__name__} embeds no classes")
        rows = np.concatenate([table.seen["embedding"], table.added["embedding"].array])
        ordered: NDArray[Any] = rows[table.order]
        return ordered

    @property
    def _n_attributes(self) -> int:
        return int(self._table.attributes.array.shape[1])

    def candidates(self, among: str | Sequence[Any] = "all") -> NDArray[np.intp]:
        """Return the columns of ``classes_`` that `among` stands for.

        A group comes as ``seen_classes_`` and ``unseen_classes_`` have it, "all" as the two in
        turn; a list of classes comes as it is given.
        """
        check_is_fitted(self)
        return self._table.candidates(among)

    def column_of(self, label: Any) -> int:
        """Return the position of a class in ``classes_``; an unknown one is refused."""
        check_is_fitted(self)
        table = self._table
        row = table.row_of(label)
        if row is None:
            raise DataError(f"class {label_text(label)} is unknown to this model")
        return int(table.columns[row])

    # ------------------------------------------------------------------ their groups
    @property
    def parents_(self) -> dict[str, str]:
        """The group of each class that is in one, and of each group that lies in another."""
        return self.taxonomy().to_parents()

    def taxonomy(self, among: str | Sequence[Any] = "all") -> Taxonomy:
        """Return the tree above the candidates, ordered as `predict_proba` has them."""
        now = self._snapshot()
        columns = now.candidates(among)
        if isinstance(among, str) and among == "all":
            columns = np.sort(columns)
        return Taxonomy.of(now.classes_[columns].tolist(), now._parents)

    def set_parents(self, parents: Mapping[str, str | None]) -> Self:
        """Put classes and groups into groups; all or nothing.

        Parameters
        ----------
        parents : mapping
            The group of a class, or of a group, by its name; None puts it at the top. A group is
            there as soon as a class lies in it; a class that is to come finds its place.
        """
        check_is_fitted(self)
        with self._lock():
            self._parents = with_parents(self._parents, parents, self.classes_.tolist())
        return self

    # ------------------------------------------------------------------ classes come and go
    def add_classes(
        self, class_attributes: Any, parents: Mapping[str, str | None] | None = None
    ) -> Self:
        """Add classes known by their attributes alone; all or nothing.

        Nothing is trained, except by a method that `retrains_on_add`.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        parents : mapping, optional
            Their groups, as `set_parents` takes them.
        """
        with self._lock():
            names, attributes = self._check_new_classes(class_attributes)
            after = self._parents
            if parents:
                after = with_parents(after, parents, [*self.classes_.tolist(), *names])
                known = {*names, *self.classes_.tolist(), *after.values()}
                for name in parents:
                    if name not in known:
                        raise DataError(f"{label_text(name)} is neither a class nor a group")
            self._warn_of_doubts(names, attributes, self._table)
            self._add(names, attributes)
            self._parents = after
        return self

    def class_doubts(self, class_attributes: Any) -> list[str]:
        """Say what `add_classes` would warn of: classes described like others, or by nothing.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            Attribute vector of each new class, keyed by class.
        """
        moment = self._snapshot()
        names, attributes = moment._check_new_classes(class_attributes)
        return list(attribute_doubts(names, attributes, moment._table))

    def edit_classes(self, class_attributes: Any) -> Self:
        """Replace the attributes of classes that were added; all or nothing.

        The model is the one in which they had these attributes from the beginning; a class that
        has grown keeps what it learned from its examples.

        Parameters
        ----------
        class_attributes : mapping or DataFrame
            New attribute vector of each class, keyed by class.
        """
        with self._lock():
            self._refuse_without_attributes()
            vectors = attribute_table(class_attributes)
            names, table = list(vectors), self._table
            table.refuse_fitted(names, "edited", "fit anew to give it other attributes")
            attributes = attribute_matrix(vectors, names, self._n_attributes)
            edited = dict(zip(names, attributes, strict=True))
            added = [name for name in names if (table.row_of(name) or 0) >= table.n_seen]
            rows = np.array([edited[name] for name in added])
            self._warn_of_doubts(added, rows, table, without=names)
            if edited:
                self.__dict__.update(self._edited(edited))
        return self

    def rename_classes(self, names: Mapping[Any, Any]) -> Self:
        """Give classes other names; all or nothing. Every class may be renamed.

        Renamed classes keep their place among ``seen_classes_`` or ``unseen_classes_``.

        Parameters
        ----------
        names : mapping
            The new name of each class, by its old one. Two classes may swap their names.
        """
        check_is_fitted(self)
        with self._lock():
            for name in names:
                self.column_of(name)
            changed = {old: new for old, new in names.items() if old != new}
            new = list(changed.values())
            for name in new:
                if new.count(name) > 1:
                    raise DataError(f"two classes cannot both be named {label_text(name)}")
            self._table.refuse_new(new, without=changed)
            if changed:
                self.__dict__.update(self._renamed(changed))
        return self

    def remove_classes(self, classes: Sequence[Any]) -> Self:
        """Remove added classes; all or nothing. Classes that the model was fitted on stay.

        A class that was added and has grown leaves nothing behind: the model is the one in which
        it never was.

        Parameters
        ----------
        classes : sequence of class labels
            Classes that were added with `add_classes`.
        """
        check_is_fitted(self)
        names = label_list(classes)
        with self._lock():
            self._table.refuse_fitted(names, "removed", "leave it out of a prediction with among=")
            self.__dict__.update(self._removed(names))
        return self

    def example_sums(self, X: ArrayLike) -> ExampleSums:
        """Sum up examples of one class; only a method that `can_grow` does."""
        raise DataError(self._cannot_grow())

    def grow(self, examples: Mapping[Any, ExampleSums], class_attributes: Any = None) -> Self:
        """Take in sums over examples of some classes; only a method that `can_grow` does."""
        raise DataError(self._cannot_grow())

    def _cannot_grow(self) -> str:
        return (
            f"{type(self).__name__} cannot learn from more examples once it is fitted; "
            "HGKTClassifier can, others have to be fitted again"
        )

    # What a change replaces, all at once: a method that keeps more of a class overrides these.
    def _removed(self, names: Collection[Any]) -> dict[str, Any]:
        """Return the attributes of the model without some added classes."""
        return {"_table": self._retrained(self._table.remove(names))}

    def _edited(self, vectors: Mapping[Any, NDArray[np.float64]]) -> dict[str, Any]:
        """Return the attributes of the model with other vectors (d,) of some added classes."""
        rows = self._embed_classes(np.array(list(vectors.values())))
        return {"_table": self._retrained(self._table.edit(vectors, rows))}

    def _renamed(self, names: Mapping[Any, Any]) -> dict[str, Any]:
        """Return the attributes of the model with other names of some classes."""
        validation = self._validation
        if validation.held_out is not None:
            validation = replace(validation, held_out=validation.held_out.renamed(names))
        return {
            "_table": self._table.rename(names),
            "_parents": renamed(self._parents, names),
            "_validation": validation,
        }

    def _add(self, names: Sequence[Any], attributes: NDArray[np.float64]) -> None:
        """Add classes whose names and attributes (U, d) are known to be good."""
        if len(names):
            table = self._table.add(names, attributes, self._embed_classes(attributes))
            self._table = self._retrained(table)

    def _add_others(self, class_attributes: Any) -> Self:
        """Add the classes of a table that the model has not."""
        table = {} if class_attributes is None else attribute_table(class_attributes)
        others = {name: row for name, row in table.items() if self._table.row_of(name) is None}
        return self.add_classes(others) if others else self

    def _check_new_classes(self, class_attributes: Any) -> tuple[list[Any], NDArray[np.float64]]:
        """Check the names and attributes (U, d) of classes that are to be added."""
        self._refuse_without_attributes()
        table = attribute_table(class_attributes)
        names = list(table)
        self._table.refuse_new(names)
        return names, attribute_matrix(table, names, self._n_attributes)

    def _refuse_without_attributes(self) -> None:
        check_is_fitted(self)
        if not self._table.has_attributes:
            raise DataError(
                "this model was fitted without class_attributes, so nothing is known by which a "
                "new class could be told; fit it with class_attributes to add classes"
            )

    def _warn_of_doubts(
        self,
        names: Sequence[Any],
        attributes: NDArray[np.float64],
        table: ClassTable | None = None,
        without: Collection[Any] = (),
        stacklevel: int = 3,
    ) -> None:
        """Warn of each new class whose attributes (U, d) are doubtful, where the user called."""
        for sentence in attribute_doubts(names, attributes, table, without):
            warnings.warn(sentence, ClassWarning, stacklevel=stacklevel)

    def check_class(
        self, attributes: ArrayLike, name: Any = None, parent: str | None = None
    ) -> ClassCheck:
        """Say what would become of a class if it were added; nothing is changed.

        Parameters
        ----------
        attributes : array-like of shape (n_attributes,)
            Its attribute vector, as `add_classes` takes it.
        name : str or int, optional
            Its name, which must be free.
        parent : str, optional
            The group that it is to be in.

        Returns
        -------
        ClassCheck
            Which classes it would be confused with, which would lose images to it, the accuracy
            to expect, how far it lies from what is known, and what would tell it better;
            ``str(check)`` says it in sentences. Only HGKTClassifier can tell all of it.
        """
        label = _UNNAMED if name is None else name
        if name is None:
            self._refuse_without_attributes()
            rows = attribute_matrix({label: attributes}, [label], self._n_attributes)
        else:
            _, rows = self._check_new_classes({label: attributes})
        return check_class(self, rows[0], name, parent)

    # ------------------------------------------------------------------ calibration and confidence
    @property
    def calibration_(self) -> Calibration:
        """The calibration in force: the parameter, or what `fit` found."""
        if Favour.of(self.calibration) is None:
            return Calibration.of(self.calibration)
        return self._validation.calibration

    @property
    def gamma_(self) -> float:
        """γ in force: what a class that was seen at the first fit pays now."""
        moment = self._snapshot()
        return moment._gamma(moment._fitted_table())

    def _gamma(self, table: ClassTable, n_more: int = 0) -> float:
        n_paying = int((~table.grown).sum())
        return self.calibration_.gamma(n_paying, len(table.labels) - n_paying + n_more)

    @property
    def n_added_(self) -> int:
        """How many classes came after the first fit, those that have grown included."""
        table = self._fitted_table()
        return len(table.labels) - int((~table.grown).sum())

    def costs(self, n_before: int, n_after: int) -> Costs | None:
        """Say what added classes cost the learned ones, by the folds that γ was found on.

        Parameters
        ----------
        n_before, n_after : int
            Numbers of added classes to compare; ``n_added_`` says how many there are.

        Returns
        -------
        Costs or None
            Accuracies to expect on average; None where there were no folds. ``sentence()`` says
            it.
        """
        moment = self._snapshot()
        accuracies, law = moment._validation.accuracies, moment.calibration_
        if accuracies is None:
            return None
        n_seen = len(moment.classes_) - moment.n_added_
        pairs = [accuracies.at(law.gamma(n_seen, n), n) for n in (n_before, n_after)]
        return Costs(n_before, n_after, pairs[0][0], *pairs[1])

    @property
    def penalties_(self) -> NDArray[np.float64]:
        """What calibration takes off the scores, one number per class, ordered as ``classes_``."""
        moment = self._snapshot()
        return moment._row_penalties()[moment._fitted_table().order]

    def _row_penalties(self, n_more: int = 0) -> NDArray[np.float64]:
        """Return what calibration takes off each row of the table, with `n_more` classes to come.

        A class that has grown pays the offset by the share by which it has become a learned one,
        and nothing of what depends on numbers of classes: it stays one of those that were added.
        """
        table = self._fitted_table()
        grown = self.calibration_.offset * table.learned_shares
        own = np.where(table.grown, grown, self._gamma(table, n_more))
        return np.concatenate([own, np.zeros(len(table.labels) - table.n_seen)])

    def learned_shares(self) -> NDArray[np.float64]:
        """Return how far each class is known by images of its own, ordered as ``classes_``.

        1 for classes learnt from images, 0 for those added by their attributes; one that was
        added and has grown lies in between.
        """
        table = self._fitted_table()
        shares = np.zeros(len(table.labels))
        shares[: table.n_seen] = np.where(table.grown, table.learned_shares, 1.0)
        return shares[table.order]

    def class_groups(self) -> NDArray[np.intp]:
        """Return 0, 1 or 2 for classes learnt from images, added, or added and then grown.

        Ordered as ``classes_``.
        """
        table = self._fitted_table()
        groups = np.full(len(table.labels), ADDED)
        groups[: table.n_seen] = np.where(table.grown, GROWN, SEEN)
        return groups[table.order]

    @property
    def confidence_(self) -> Confidence | None:
        """Temperatures and thresholds in force; None where no validation folds gave any.

        `fit` finds them where it calibrates itself (``calibration="auto"``), and so does
        `hgkt.ClassFoldSearch`.
        """
        return self._validation.confidence

    def keep_validation(self, validation: Validation) -> Self:
        """Keep what class folds that somebody else scored say of this model."""
        self._validation = validation
        return self

    # ------------------------------------------------------------------ predicting
    def score_classes(self, X: ArrayLike, penalty: bool = True) -> NDArray[Any]:
        """Score every class for every row, a block of rows and classes at a time.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        penalty : bool
            Whether to take the calibration (gamma) off the scores of seen classes.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns ordered as ``classes_``; higher is better.
        """
        check_is_fitted(self)
        now = self._snapshot()
        features = now._check_rows(X)
        scores = np.empty((len(features), len(now.classes_)), dtype=np.float64)
        columns = now._table.columns
        for rows, block, part in score_blocks(now, features):
            scores[rows, columns[block.first : block.stop]] = part
        if penalty and now.calibration_ != Calibration():
            scores -= now.penalties_
        return scores

    def in_metric(self, X: ArrayLike) -> NDArray[Any]:
        """Return rows where they are compared with classes; distances there say what is alike.

        A method that compares features as they are returns them unchanged.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_coordinates)
        """
        check_is_fitted(self)
        now = self._snapshot()
        return now._row_points(now._map_features(now._check_features(X)))

    def class_points(self) -> NDArray[Any]:
        """Return where `in_metric` would put the classes, ordered as ``classes_``.

        Of methods that embed classes.
        """
        return self.class_embeddings_

    def _row_points(self, features: NDArray[Any]) -> NDArray[Any]:
        """Return the places of rows that `_map_features` returned."""
        return features

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Return the scores (n_samples, n_classes), higher is better.

        As everywhere in scikit-learn, a model of exactly two classes returns one column less:
        (n_samples,), the score of ``classes_[1]`` minus that of ``classes_[0]``;
        `score_classes` has the full matrix in every case.
        """
        scores = self.score_classes(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(
        self, X: ArrayLike, among: str | Sequence[Any] = "all", reject: float | None = None
    ) -> NDArray[Any]:
        """Return the best class for each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates: "all" is generalized zero-shot, "unseen" conventional zero-shot.
        reject : float, optional
            The share of rows of known classes that may be rejected by mistake. Rows that look
            like none of the known classes are then labelled `hgkt.UNKNOWN`.
        """
        now = self._snapshot()
        if reject is not None:
            return now.answers(X, among, reject=reject).labels
        columns = now.candidates(among)
        best = best_classes(now, now._check_rows(X), columns)
        result: NDArray[Any] = now.classes_[columns[best]]
        return result

    def answers(
        self,
        X: ArrayLike,
        among: str | Sequence[Any] = "all",
        reject: float | None = None,
        coverage: float | None = None,
    ) -> Answers:
        """Classify rows and say how sure each answer is; rows are scored once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        reject : float, optional
            The share of rows of known classes that may be rejected by mistake, above 0 and below
            1. Rows that look like none of the known classes are labelled `hgkt.UNKNOWN`.
        coverage : float, optional
            How often a prediction set is to hold the true class, above 0 and below 1.
        """
        for name, value in (("reject", reject), ("coverage", coverage)):
            if value is not None:
                check_number(name, value, low=0, high=1, open_low=True, open_high=True)
        now = self._snapshot()
        columns, groups = now.candidates(among), now.class_groups()
        confidence = now._checked_confidence(reject, coverage)
        everything = now.score_classes(X)
        scores, classes = everything[:, columns], now.classes_[columns]
        labels = classes[scores.argmax(axis=1)]
        if confidence is None:
            return Answers(classes, labels, plain_probabilities(scores), scores)
        probabilities = confidence.temperatures.probabilities(scores, groups[columns])
        # Whether a row looks like a known class does not depend on who is asked for.
        whole = probabilities
        if len(columns) < len(groups):
            whole = confidence.temperatures.probabilities(everything, groups)
        novelty = confidence.novelty(everything + now.penalties_, whole)
        if reject is not None:
            labels = with_unknown(labels, rejected(novelty, reject))
        members = None
        if coverage is not None:
            learned = now.learned_shares()[columns]
            members = confidence.sets.members(probabilities, learned, coverage)
        return Answers(classes, labels, probabilities, scores, novelty, members)

    def predict_proba(self, X: ArrayLike, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the probability of every class for each row; rows sum to one.

        How frequent images of seen and of added classes are is what γ was found for: by "auto"
        every class counts alike, by "balanced" both groups. The most probable class is what
        `predict` returns. A model without ``confidence_`` warns: its numbers are
        ordered, but not calibrated.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.

        Returns
        -------
        ndarray of shape (n_samples, n_candidates)
            Columns ordered as ``classes_`` for "all", else as `candidates` has them.
        """
        now = self._snapshot()
        columns = now.candidates(among)
        if isinstance(among, str) and among == "all":
            columns = np.arange(len(columns))
        scores = now.score_classes(X)[:, columns]
        if now.confidence_ is None:
            warnings.warn(_UNCALIBRATED, ConfidenceWarning, stacklevel=2)
            return plain_probabilities(scores)
        groups = now.class_groups()[columns]
        return now.confidence_.temperatures.probabilities(scores, groups)

    def novelty(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return how little each row looks like any known class, from 0 to 1.

        A share r of the rows of known classes lies above 1 − r, so ``novelty(X) > 0.95`` is what
        ``predict(X, reject=0.05)`` rejects.
        """
        if self.confidence_ is None:
            raise DataError(f"novelty cannot be told: {_NO_FOLDS}")
        novelty = self.answers(X).novelty
        assert novelty is not None
        return novelty

    def predict_set(
        self, X: ArrayLike, coverage: float = 0.9, among: str | Sequence[Any] = "all"
    ) -> list[NDArray[Any]]:
        """Return for each row the classes among which the true one is, with a stated probability.

        Conformal sets: the promise holds if new images are like the validation images of seen
        classes, and new classes like the seen classes that validation folds held out. Where too
        few classes were held out for the promise a warning says what can be promised.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            How often a set is to hold the true class.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.

        Returns
        -------
        list of ndarray
            The classes of each set, the likeliest first; never empty.
        """
        return self.answers(X, among, coverage=coverage).sets()

    def _checked_confidence(
        self, reject: float | None, coverage: float | None
    ) -> Confidence | None:
        """Return the confidence; refuse or warn where it cannot do what is asked."""
        confidence = self.confidence_
        if confidence is None:
            for name, value in (("reject", reject), ("coverage", coverage)):
                if value is not None:
                    raise DataError(f"{name} cannot be kept: {_NO_FOLDS}")
            return None
        if reject is not None and confidence.novelty.auroc < CHANCE:
            warnings.warn(
                "on validation classes this model tells images of unknown classes from known ones "
                f"hardly better than by chance (area under the ROC curve "
                f"{confidence.novelty.auroc:.2f}, chance is 0.5); what it rejects says little",
                ConfidenceWarning,
                stacklevel=4,
            )
        if coverage is not None and (self.class_groups() == ADDED).any():
            promised = confidence.sets.added.largest_promise()
            if coverage > promised:
                warnings.warn(
                    f"{confidence.sets.added.n_units} held-out classes can promise a coverage of "
                    f"{promised:.2f} for added classes, not {coverage:g}; their sets may hold the "
                    "true class less often",
                    ConfidenceWarning,
                    stacklevel=4,
                )
        return confidence

    # ------------------------------------------------------------------ saving
    def _state(self) -> dict[str, NDArray[Any]]:
        """Return every learned array, by name, that a loaded model needs."""
        table, found = self._table, self._validation
        state = {f"learned/{name}": self._learned_array(name) for name in self._learned}
        state |= {f"seen/{key}": rows for key, rows in table.seen.items()}
        state |= {f"added/{key}": rows for key, rows in table.added_rows.items()}
        law = found.calibration
        state["calibration"] = np.array([law.offset, law.slope])
        if found.confidence is not None:
            arrays = found.confidence.to_arrays()
            state |= {f"confidence/{name}": array for name, array in arrays.items()}
        if found.accuracies is not None:
            arrays = found.accuracies.to_arrays()
            state |= {f"accuracies/{name}": array for name, array in arrays.items()}
        if found.held_out is not None:
            state["held_out"] = found.held_out.to_array(table.seen_classes.tolist())
        return state | {"grown": table.grown, "learned_shares": table.learned_shares}

    def _learned_array(self, name: str) -> NDArray[Any]:
        """Return what ``_learned`` names as an array; refuse what a model folder cannot hold."""
        value = getattr(self, name)
        array = np.asarray(value)
        if array.dtype == object:
            raise DataError(
                f"_learned of {type(self).__name__} names {name!r}, which is a "
                f"{type(value).__name__}; a model folder holds arrays and numbers, so keep each "
                "array of it as an attribute of its own"
            )
        return array

    def _restore(
        self,
        state: Mapping[str, NDArray[Any]],
        labels: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> None:
        """Set what `_state` returned; labels (C,) and attributes (C, d) have seen classes first."""
        for name in self._learned:
            value = state[f"learned/{name}"]
            setattr(self, name, value.item() if value.ndim == 0 else value)
        self._table = ClassTable.of(
            labels,
            attributes,
            arrays_under("seen/", state),
            arrays_under("added/", state),
            state["grown"],
            state["learned_shares"],
            has_attributes,
        )
        confidence = arrays_under("confidence/", state)
        accuracies = arrays_under("accuracies/", state)
        seen = self._table.seen_classes.tolist()
        self._validation = Validation(
            Calibration(*state["calibration"].tolist()),
            Confidence.from_arrays(confidence) if confidence else None,
            HeldOutClasses.from_array(state["held_out"], seen) if "held_out" in state else None,
            ExpectedAccuracies(**accuracies) if accuracies else None,
        )

    def save(self, path: str | Path, **about: Any) -> Path:
        """Write the model folder; see :func:`hgkt.load_model`.

        Parameters
        ----------
        path : path
            The folder; an existing model there is replaced in one step.
        **about
            What the model was made with (data set, features, encoder, …), kept in its config.
        """
        from hgkt.estimators.model_folder import save_model

        return save_model(self, path, about)

    def save_pretrained(self, path: str | Path, **about: Any) -> Path:
        """Write the model folder: `save` under the name that Hugging Face users expect.

        Parameters
        ----------
        path : path
            The folder; an existing model there is replaced in one step.
        **about
            What the model was made with, kept in its config.
        """
        return self.save(path, **about)

    @classmethod
    def from_pretrained(cls, name_or_path: str | Path, **options: Any) -> Self:
        """Load a model from a folder, or from a repository of the Hugging Face Hub.

        Parameters
        ----------
        name_or_path : str or path
            A model folder, or ``"owner/name"`` on the Hub (extra ``hub``).
        **options
            ``revision``, ``token``, ``cache_dir``, ``local_files_only``, as the Hub takes them.
        """
        from hgkt.estimators.hub import load_pretrained

        model: Self = load_pretrained(cls, name_or_path, **options)
        return model

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload the model folder to the Hugging Face Hub and return the address of the commit.

        Parameters
        ----------
        repo_id : str
            ``"owner/name"``; the repository is made if needed.
        **options
            ``private``, ``token``, ``commit_message``.
        """
        from hgkt.estimators.hub import push_model

        return push_model(self, repo_id, **options)

    # ------------------------------------------------------------------ what comes in
    def _check_features(self, X: ArrayLike) -> NDArray[Any]:
        """Check features (n, D) of a fitted model's kind."""
        features = self._read_features(X)
        check_features(features, "features")
        return features

    def _check_rows(self, X: Any) -> Any:
        """Check features (n, D) that are only scored.

        Where scores are computed on a device their lengths are looked at there, and tensors that
        are on the device stay there.
        """
        scorer = self._device_scores()
        if scorer is None:
            return self._check_features(X)
        if not (is_tensor(X) and X.device.type == scorer.device):
            return self._read_features(X)
        width = getattr(self, "n_features_in_", None)
        if X.ndim != 2 or X.shape[1] != width or not len(X) or not X.is_floating_point():
            raise DataError(
                f"features must be a tensor of floats of shape (n, {width}); got {X.dtype} of "
                f"shape {tuple(X.shape)}"
            )
        return X.detach()

    def _read_features(self, X: ArrayLike) -> NDArray[Any]:
        """Return features (n, D) as an array; what is in the rows is not looked at."""
        if self._is_ready(X):
            return np.asarray(X)
        features: NDArray[Any] = validate_data(self, _widened(X), reset=False, **_ROW_OPTIONS)
        return features

    def _is_ready(self, X: ArrayLike) -> bool:
        """Whether scikit-learn's checks would return X as it is; they take longer than a row."""
        return (
            type(X) is np.ndarray
            and X.ndim == 2
            and len(X) > 0
            and X.dtype in (np.float32, np.float64)
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
        )

    def _check_labelled(
        self, X: ArrayLike, y: ArrayLike, reset: bool
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Check features (n, D) with labels (n,); `reset` says that this is a fit."""
        features, labels = validate_data(self, _widened(X), y, reset=reset, **_ROW_OPTIONS)
        check_features(features, "features")
        with warnings.catch_warnings():  # a batch may well have a class for every instance
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(labels)
        return features, labels

    def _check_training_data(
        self, X: ArrayLike, y: ArrayLike, class_attributes: Any
    ) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[Any], NDArray[np.float64]]:
        features, labels = self._check_labelled(X, y, reset=True)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise DataError(f"y holds one class only ({label_text(classes[0])}); two are expected")
        if class_attributes is None:
            return features, codes, classes, np.eye(len(classes))
        table = attribute_table(class_attributes)
        columns = getattr(class_attributes, "columns", ())
        if not any(name in table for name in classes.tolist()) and set(classes) <= set(columns):
            raise DataError(
                "class_attributes has a column per class; a row per class is expected: use frame.T"
            )
        refuse_twins(classes.tolist())
        return features, codes, classes, attribute_matrix(table, classes.tolist())

    def one_row(self, x: ArrayLike) -> NDArray[Any]:
        """Check one instance (D,) or (1, D) and return it as (1, D)."""
        check_is_fitted(self)
        array = np.atleast_2d(np.asarray(x))
        if array.ndim != 2 or len(array) != 1:
            raise DataError(f"one instance is expected; got an array of shape {np.shape(x)}")
        return self._check_features(array)


def arrays_under(prefix: str, state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names begin with a prefix, by what follows it."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _widened(X: Any) -> Any:
    """Return half-precision features as float32, and those of another device on this one.

    NumPy cannot always do so itself.
    """
    if is_tensor(X) and X.device.type != "cpu":
        X = X.detach().cpu()
    kind = str(getattr(X, "dtype", ""))
    if kind in ("float16", "bfloat16"):
        return np.asarray(X, dtype=np.float32)
    if kind in ("torch.float16", "torch.bfloat16"):
        return X.detach().cpu().float().numpy()
    return X


def _check_sums(
    statistics: Sums, class_attributes: Any
) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Check the classes (L,) of statistics and return them with their attributes (L, d)."""
    classes = statistics.classes
    if len(classes) < 2:
        found = label_text(classes[0]) if len(classes) else "none"
        raise DataError(f"the statistics are of one class only ({found}); two are expected")
    if class_attributes is None:
        return classes, np.eye(len(classes))
    refuse_twins(classes.tolist())
    return classes, attribute_matrix(attribute_table(class_attributes), classes.tolist())
