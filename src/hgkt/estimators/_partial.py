"""Classes that grow up: new instances are merged into the statistics of a closed-form model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from hgkt._validation import attribute_matrix, attribute_table
from hgkt.estimators._closed_form import ClosedFormTransfer
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics

if TYPE_CHECKING:
    from hgkt.estimators.hgkt import HGKTClassifier


def _has_statistics(model: HGKTClassifier) -> bool:
    if model.transfer != "closed-form":
        raise AttributeError("partial_fit needs transfer='closed-form'; a network is fitted whole")
    return True


class PartialFitMixin:
    """Adds `partial_fit` to a closed-form classifier."""

    _transfer: Any
    _grown: NDArray[np.bool_]
    """Which seen classes (L,) came by their attributes and got their instances later."""

    @available_if(_has_statistics)
    def partial_fit(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        class_attributes: Any = None,
        classes: ArrayLike | None = None,
    ) -> Any:
        """Take in more instances; any order of batches gives the model of one full fit.

        A class that was added by its attributes becomes a seen one with its first instances. Its
        mean enters the transfer with noise λ·N̄/n for n instances (N̄ on average over classes), so
        its embedding moves from the predicted to the observed mean as n grows: the posterior of
        the mean.

        The calibration γ was chosen for the classes that the model was fitted on, and it stays
        theirs: a class that came by its attributes does not pay it, whatever instances it gets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        class_attributes : mapping or DataFrame, optional
            Attributes of classes that the model does not know yet.
        classes : ignored
            Accepted because scikit-learn's incremental classifiers take it; classes may come at
            any time.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, class_attributes=class_attributes)
        features, labels = self._check_labelled(X, y, reset=False)
        seen = np.unique(np.concatenate([self.seen_classes_, np.unique(labels)]))
        attributes = self._grown_attributes(seen, class_attributes)
        settings = self._closed_form_settings()
        statistics = self._grown_statistics(seen).merge(
            settings.gather(features, np.searchsorted(seen, labels), len(seen))
        )
        added = {
            name: row
            for name, row in zip(
                self.unseen_classes_.tolist(), self._added_attributes.array, strict=True
            )
            if name not in set(seen.tolist())
        }
        grown = [*self.seen_classes_[self._grown].tolist(), *self.unseen_classes_.tolist()]
        transfer = ClosedFormTransfer(settings)
        transfer.dtype = self._transfer.dtype
        self._seen_table = transfer.solve(statistics, attributes)
        self._transfer, self._seen_attributes, self.seen_classes_ = transfer, attributes, seen
        self._grown = np.array([name in set(grown) for name in seen.tolist()], dtype=bool)
        empty = {key: rows[:0] for key, rows in self._seen_table.items()}
        self._set_added(seen[:0], attributes[:0], empty)
        return self.add_classes(added) if added else self

    def _penalised(self) -> NDArray[np.bool_]:
        return ~self._grown

    def _grown_attributes(self: Any, seen: NDArray[Any], given: Any) -> NDArray[np.float64]:
        """Attributes (L, d) of all classes with instances, known before or given now."""
        if not self._has_attributes:
            if given is not None:
                raise DataError(
                    "this model was fitted without class_attributes; it cannot take them later"
                )
            return np.eye(len(seen))
        known = dict(zip(self.classes_.tolist(), self.class_attributes_, strict=True))
        table = {**(attribute_table(given) if given is not None else {}), **known}
        return attribute_matrix(table, seen.tolist(), self._seen_attributes.shape[1])

    def _grown_statistics(self: Any, seen: NDArray[Any]) -> ClassStatistics:
        """Statistics so far, with rows for the classes that are new."""
        old: ClassStatistics = self._transfer.statistics
        grown = ClassStatistics(len(seen), old.n_features)
        rows = np.searchsorted(seen, self.seen_classes_)
        grown.counts[rows], grown.sums[rows] = old.counts, old.sums
        grown.second_moment += old.second_moment
        return grown
