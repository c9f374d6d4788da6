"""Generalized zero-shot scorers and class folds for scikit-learn's model selection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from hgkt._validation import check_number
from hgkt.calibration.curve import seen_unseen_curve
from hgkt.calibration.folds import class_folds, split_fold
from hgkt.estimators.base import GZSLClassifier
from hgkt.evaluation.metrics import harmonic_mean, per_class_accuracy
from hgkt.exceptions import DataError


class ClassKFold:
    """Folds for scikit-learn whose test rows hold classes that the train rows do not have.

    Each fold holds out some classes whole, and a share of the rows of every other class: what a
    generalized zero-shot score needs. Scikit-learn's ``GroupKFold`` with the classes as groups
    holds out the unseen rows only, which is enough for `zsl_score`.

    Parameters
    ----------
    n_splits : int, default=3
        Number of folds.
    holdout : float, default=0.2
        Share of the rows of each class that stays seen.
    share : float, optional
        Share of the classes that a fold holds out; by default each class is held out once.
    random_state : int, default=0
        Seed.

    Examples
    --------
    >>> train, test = next(ClassKFold(2).split(np.zeros((8, 1)), list("aabbccdd")))
    >>> train.tolist(), test.tolist()
    ([3, 7], [0, 1, 2, 4, 5, 6])
    """

    def __init__(
        self,
        n_splits: int = 3,
        *,
        holdout: float = 0.2,
        share: float | None = None,
        random_state: int = 0,
    ) -> None:
        check_number("n_splits", n_splits, low=2, integer=True)
        self.n_splits = n_splits
        self.holdout = holdout
        self.share = share
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds."""
        return self.n_splits

    def split(
        self, X: Any, y: ArrayLike, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Yield the train and test rows of each fold.

        Parameters
        ----------
        X : ignored
        y : array-like of shape (n_samples,)
            Class of each row.
        groups : ignored
        """
        labels = np.asarray(y)
        share = 1 / self.n_splits if self.share is None else self.share
        folds = class_folds(np.unique(labels), self.n_splits, share, self.random_state)
        for number, (train, held) in enumerate(folds):
            rows = split_fold(labels, train, held, self.holdout, [self.random_state, number])
            yield rows.fit, np.sort(np.concatenate([rows.val_seen, rows.val_unseen]))


def h_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Harmonic mean of the accuracies on seen and unseen classes, all classes being candidates.

    Use it as ``scoring=h_score`` in scikit-learn. Accuracies are means over classes.

    Parameters
    ----------
    estimator : GZSLClassifier
        A fitted method, or a pipeline that ends in one.
    X : array-like of shape (n_samples, n_features)
        Rows of both seen and unseen classes.
    y : array-like of shape (n_samples,)
        Their classes.

    Returns
    -------
    float
        A fraction, 0–1.

    Examples
    --------
    >>> from sklearn.model_selection import cross_val_score
    >>> from hgkt import HGKTClassifier, load_dataset
    >>> digits = load_dataset("digits")
    >>> X, y = digits.rows("train")
    >>> table = {"class_attributes": digits.attributes_of(digits.seen_classes)}
    >>> scores = cross_val_score(
    ...     HGKTClassifier(), X, y, cv=ClassKFold(2), scoring=h_score, params=table
    ... )
    >>> scores.shape, bool((scores > 0).all())
    ((2,), True)
    """
    model, features, labels, seen = _test_rows(estimator, X, y, needs_seen=True)
    predicted = model.predict(features)
    accuracies = [per_class_accuracy(labels[rows], predicted[rows]) for rows in (seen, ~seen)]
    return harmonic_mean(*accuracies)


def ausuc(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Area under the seen–unseen curve, which no calibration changes; parameters as `h_score`."""
    model, features, labels, seen = _test_rows(estimator, X, y, needs_seen=True)
    columns = model.candidates()  # seen classes first
    scores = model.score_classes(features, penalty=False)[:, columns]
    curve = seen_unseen_curve(
        scores[seen],
        labels[seen],
        scores[~seen],
        labels[~seen],
        model.classes_[columns],
        len(model.seen_classes_),
    )
    return float(curve.area)


def zsl_score(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Accuracy on unseen classes, only these being candidates; parameters as `h_score`.

    Rows of seen classes are left out.
    """
    model, features, labels, seen = _test_rows(estimator, X, y, needs_seen=False)
    return per_class_accuracy(labels[~seen], model.predict(features[~seen], among="unseen"))


def _test_rows(
    estimator: Any, X: Any, y: ArrayLike, needs_seen: bool
) -> tuple[GZSLClassifier, Any, NDArray[Any], NDArray[np.bool_]]:
    """Return the method, what it reads of X, the labels, and which of them are seen classes."""
    model = estimator
    if isinstance(estimator, Pipeline):
        X, model = estimator[:-1].transform(X), estimator[-1]
    if not isinstance(model, GZSLClassifier):
        raise DataError(
            f"a generalized zero-shot score needs a method of hgkt; got {type(model).__name__}"
        )
    check_is_fitted(model)
    labels = np.asarray(y)
    seen = np.isin(labels, model.seen_classes_)
    if seen.all():
        raise DataError(
            "the test rows hold no unseen class; split by class, for example with "
            "hgkt.evaluation.ClassKFold, and fit with the attributes of all classes"
        )
    if needs_seen and not seen.any():
        raise DataError(
            "the test rows hold no seen class, so no harmonic mean can be had; split with "
            "hgkt.evaluation.ClassKFold, which holds out rows of seen classes too, or use zsl_score"
        )
    return model, X, labels, seen
