"""Closed forms whose classes grow: from a description to what their own examples look like."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._arrays import FeatureMap
from hgkt._validation import attribute_matrix, attribute_table, label_text
from hgkt.closed_form.family import FEATURE_MAPS
from hgkt.closed_form.mixture import Mixture
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.estimators._kept import kept_arrays, kept_from, kept_rules
from hgkt.estimators._snapshots import changing, snapshot
from hgkt.estimators.state_rules import Rule
from hgkt.estimators.transfer import TransferClassifier
from hgkt.exceptions import DataError
from hgkt.statistics import ExampleSums, Statistics
from hgkt.statistics.classes import summed, together

_Statistics = dict[FeatureMap, Statistics]


@dataclass(frozen=True)
class _Lessons:
    """What a closed form is solved from.

    Parameters
    ----------
    classes : ndarray of shape (L,)
        The classes with examples.
    attributes : ndarray of shape (L, d)
    statistics : dict of Statistics by feature map
        Of all examples.
    kept : dict of ExampleSums by class
        What of them belongs to classes that came by their attributes.
    """

    classes: NDArray[Any]
    attributes: NDArray[np.float64]
    statistics: _Statistics
    kept: dict[Any, ExampleSums]


class GrowingClassifier(TransferClassifier):
    """A closed form that learns from more examples: counts and sums merge, and it is solved again.

    Of a class that came by its attributes the sums are kept apart, so that it can be removed or
    edited as if it had never been there. They take as many rows as the class got examples, and
    never more than there are features.
    """

    can_grow: ClassVar[bool] = True
    _transfer: ClosedFormTransfer
    _kept: dict[Any, ExampleSums]

    @abstractmethod
    def _settings(self) -> Mixture:
        """Return the settings of the closed form."""

    # ------------------------------------------------------------------ growing
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        class_attributes: Any = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Take in more instances; any order of batches gives the model of one full fit.

        A class that was added by its attributes becomes a seen one with its first instances. Its
        mean enters the transfer with noise λ·N̄/n for n instances (N̄ on average over classes), so
        its embedding moves from the predicted to the observed mean as n grows: the posterior of
        the mean. Only `fit` finds a calibration; a model that starts here has none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        class_attributes : mapping or DataFrame, optional
            Attributes of classes that the model does not know yet. Those of others must be the
            ones it knows.
        classes : ignored
            Accepted because scikit-learn's incremental classifiers take it; classes may come at
            any time.
        """
        if not self.__sklearn_is_fitted__():
            # One batch is not what there will be, and earlier rows are gone later: no calibration.
            checked = self._check_training_data(X, y, class_attributes)
            return self._learn(*checked, class_attributes is not None)
        features, labels = self._check_labelled(X, y, reset=False)
        with changing(self) as draft:
            names, codes = np.unique(labels, return_inverse=True)
            statistics = draft._transfer.gather(features, codes, len(names))
            came = draft._came_by_attributes()
            new = {
                name: ExampleSums.of(features[codes == code], draft._example_maps())
                for code, name in enumerate(names.tolist())
                if name in came
            }
            draft._take_in(names, statistics, new, class_attributes)
        return self

    def example_sums(self, X: ArrayLike) -> ExampleSums:
        """Sum up examples of one class: all that `grow` needs of them.

        Besides the feature maps of this model those are used that selection chooses among, so
        that a model trained later can take the sums over.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        now = snapshot(self)
        return ExampleSums.of(now._check_features(X), now._example_maps())

    def kept_examples(self) -> dict[Any, ExampleSums]:
        """Return the sums over all examples of each class that was added and has grown."""
        check_is_fitted(self)
        return dict(self._kept)

    def _example_maps(self) -> list[FeatureMap]:
        return [*self._settings().feature_maps, *FEATURE_MAPS]

    def grow(self, examples: Mapping[Any, ExampleSums], class_attributes: Any = None) -> Self:
        """Take in sums over examples of some classes: the model of `partial_fit` on their rows.

        All classes grow at once, at the cost of one; all or nothing.

        Parameters
        ----------
        examples : mapping of class to ExampleSums
            What `example_sums` returned, by class: added, grown or learned ones.
        class_attributes : mapping or DataFrame, optional
            Attributes of classes that the model does not know yet; they are added first.
        """
        check_is_fitted(self)
        with changing(self) as draft:
            if class_attributes is not None:
                draft._detach()
                draft._add_others(class_attributes)
            names = draft._known_names(examples)
            if names:
                statistics = {
                    kind: _joined([examples[name] for name in names], kind)
                    for kind in draft._transfer.spaces
                }
                came = draft._came_by_attributes()
                new = {name: examples[name] for name in names if name in came}
                labels = np.array(names, dtype=draft.classes_.dtype)
                draft._take_in(labels, statistics, new, None)
        return self

    def _known_names(self, examples: Mapping[Any, ExampleSums]) -> list[Any]:
        """Return the classes that are to grow, in a fixed order; refuse what does not fit."""
        for name, sums in examples.items():
            if self._row_of(name) is None:
                raise DataError(
                    f"class {label_text(name)} is unknown to this model; add it by its attributes "
                    "before it grows"
                )
            if not isinstance(sums, ExampleSums):
                raise DataError(
                    f"the examples of class {label_text(name)} must come as example_sums returns "
                    f"them; got {type(sums).__name__}"
                )
            if sums.n_features != self.n_features_in_:
                raise DataError(
                    f"the examples of class {label_text(name)} have {sums.n_features} features; "
                    f"{self.n_features_in_} are expected"
                )
        return [name for name in self.classes_.tolist() if name in examples]

    def _came_by_attributes(self) -> set[Any]:
        """Return the classes that were added, grown ones among them."""
        return {*self.unseen_classes_.tolist(), *self.seen_classes_[self._grown].tolist()}

    def _take_in(
        self,
        names: NDArray[Any],
        statistics: _Statistics,
        new: Mapping[Any, ExampleSums],
        class_attributes: Any,
    ) -> None:
        """Learn from the statistics of examples of some classes, by row of `names`."""
        seen = np.unique(np.concatenate([self.seen_classes_, names]))
        attributes = self._grown_attributes(seen, class_attributes)
        own, other = np.searchsorted(seen, self.seen_classes_), np.searchsorted(seen, names)
        merged = {
            kind: together(statistics[kind].over(other, len(seen)), old.over(own, len(seen)))
            for kind, old in self._transfer.statistics.items()
        }
        kept = dict(self._kept)
        grown = set(self.seen_classes_[self._grown].tolist())
        for name, sums in new.items():
            if name in kept:
                kept[name] = kept[name].merge(sums)
            elif name not in grown:  # of one that grew in an older release earlier sums are lost
                kept[name] = sums
        self._relearn(_Lessons(seen, attributes, merged, kept))

    def _grown_attributes(self, seen: NDArray[Any], given: Any) -> NDArray[np.float64]:
        """Attributes (L, d) of all classes with instances, known before or given now."""
        if not self._has_attributes:
            if given is not None:
                raise DataError(
                    "this model was fitted without class_attributes; it cannot take them later"
                )
            return np.eye(len(seen))
        known = dict(zip(self.classes_.tolist(), self.class_attributes_, strict=True))
        table = attribute_table(given) if given is not None else {}
        for name in table.keys() & known.keys():
            row = attribute_matrix(table, [name], self._seen_attributes.shape[1])[0]
            if not np.allclose(row, known[name], rtol=1e-6, atol=1e-9):
                raise DataError(
                    f"class {label_text(name)} is known with other attributes, by which it was "
                    "learned; leave it out of class_attributes, or fit anew"
                )
        new = [name for name in seen.tolist() if name not in known]
        self._acquaintance().refuse(new, strings=self.seen_classes_.dtype.kind in "UO")
        table = {**table, **known}
        return attribute_matrix(table, seen.tolist(), self._seen_attributes.shape[1])

    def _relearn(self, lessons: _Lessons, left: Mapping[Any, NDArray[Any]] | None = None) -> None:
        """Solve anew; `left` are the classes that stay known by their attributes alone."""
        seen = lessons.classes
        if left is None:
            learned = set(seen.tolist())
            left = {n: row for n, row in self._described().items() if n not in learned}
        came = self._came_by_attributes()
        transfer = ClosedFormTransfer(self._settings())
        transfer.dtype = self._transfer.dtype
        grown = np.array([name in came for name in seen.tolist()], dtype=bool)
        table = {"embedding": transfer.solve(lessons.statistics, lessons.attributes, grown)}
        self._transfer, self._seen_table = transfer, table
        self._seen_attributes, self.seen_classes_ = lessons.attributes, seen
        self._grown, self._kept = grown, lessons.kept
        self._learned_shares = transfer.learned_shares(grown)
        nothing = {key: rows[:0] for key, rows in table.items()}
        self._set_added(seen[:0], lessons.attributes[:0], nothing)
        if left:
            self._add(list(left), np.array(list(left.values())))

    def _described(self) -> dict[Any, NDArray[np.float64]]:
        """Return the attributes of the classes that are known by nothing else."""
        rows = self._added_attributes.array
        return dict(zip(self.unseen_classes_.tolist(), rows, strict=True))

    # ------------------------------------------------------------------ grown classes that change
    def _remove(self, names: set[Any]) -> None:
        grown = names & set(self.seen_classes_[self._grown].tolist())
        if not grown:
            super()._remove(names)
            return
        for name in grown:
            if name not in self._kept:
                raise DataError(
                    f"class {label_text(name)} grew in a model of an older release, which did not "
                    "keep its sums apart, so it cannot be removed; leave it out of a prediction "
                    "with among="
                )
        super()._remove(names - grown)
        stays = np.array([name not in grown for name in self.seen_classes_.tolist()])
        statistics = {}
        for kind, old in self._transfer.statistics.items():
            factors = [self._kept[name].sums_under(kind).factor for name in grown]
            statistics[kind] = old.without(stays, np.concatenate(factors))
        kept = {name: sums for name, sums in self._kept.items() if name not in grown}
        attributes = self._seen_attributes[stays]
        self._relearn(_Lessons(self.seen_classes_[stays], attributes, statistics, kept))

    def _edit(self, table: Mapping[Any, NDArray[np.float64]]) -> None:
        rows = {name: self._rows[name] for name in table}
        grown = {name: row for name, row in rows.items() if row < len(self.seen_classes_)}
        if not grown:
            super()._edit(table)
            return
        attributes = self._seen_attributes.copy()
        for name, row in grown.items():
            attributes[row] = table[name]
        left = {name: table.get(name, row) for name, row in self._described().items()}
        lessons = _Lessons(self.seen_classes_, attributes, self._transfer.statistics, self._kept)
        self._relearn(lessons, left)

    def _rename(self, names: Mapping[Any, Any]) -> None:
        super()._rename(names)
        self._kept = {names.get(name, name): sums for name, sums in self._kept.items()}

    # ------------------------------------------------------------------ fitting and saving
    def _start_fit(self) -> None:
        super()._start_fit()
        self._kept = {}

    def _state(self) -> dict[str, NDArray[Any]]:
        return super()._state() | kept_arrays(self._kept, self.seen_classes_.tolist())

    def _state_rules(self, names: Collection[str]) -> dict[str, Rule]:
        own = kept_rules(names, self._settings().feature_maps)
        return super()._state_rules(names) | own

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        super()._restore(state)
        self._kept = kept_from(state, self.seen_classes_.tolist())


def _joined(examples: list[ExampleSums], kind: FeatureMap) -> Statistics:
    """Return the statistics of some classes from the sums of each under a feature map."""
    sums = [each.sums_under(kind) for each in examples]
    counts = np.array([each.n_examples for each in examples], dtype=np.float64)
    totals = np.stack([part.total for part in sums])
    return summed(np.concatenate([part.factor for part in sums]), totals, counts)
