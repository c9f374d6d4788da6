"""Validation classes taken from the seen ones: random class folds and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_number, label_text
from hgkt.calibration.curve import ValidationRows
from hgkt.exceptions import DataError

ClassFolds = Sequence[tuple[Sequence[Any], Sequence[Any]]]
"""Pairs (train classes, validation classes)."""

_SHARE = 0.25


class FoldRows(NamedTuple):
    """The rows of one fold.

    Parameters
    ----------
    fit : ndarray of int
        Rows to train on: instances of train classes.
    val_seen : ndarray of int
        Held-out rows of the same train classes.
    val_unseen : ndarray of int
        Every row of the validation classes.
    """

    fit: NDArray[np.intp]
    val_seen: NDArray[np.intp]
    val_unseen: NDArray[np.intp]


@dataclass(frozen=True)
class ValidationFold:
    """Training data of one fold, its validation rows (seen ones first) and their labels."""

    X: NDArray[Any]
    y: NDArray[Any]
    X_eval: NDArray[Any]
    y_seen: NDArray[Any]
    y_unseen: NDArray[Any]
    train_attributes: dict[Any, Any]
    val_attributes: dict[Any, Any]

    @cached_property
    def rows(self) -> ValidationRows:
        """The validation rows, their labels looked up once."""
        classes = [*np.unique(self.y).tolist(), *self.val_attributes]
        return ValidationRows(self.y_seen, self.y_unseen, classes, len(self.train_attributes))


def class_folds(
    classes: Iterable[Any],
    n_folds: int = 3,
    share: float | None = None,
    random_state: int = 0,
) -> list[tuple[list[Any], list[Any]]]:
    """Divide classes at random into train and validation classes, several times.

    The classes are shuffled and each fold takes the next block as its validation classes; where
    too few are left for another block they are shuffled anew. Folds overlap only where there are
    not enough classes.

    Parameters
    ----------
    classes : iterable
        The seen classes; their order does not matter.
    n_folds : int, default=3
        Number of folds.
    share : float, optional
        Share of the classes that play the unseen ones, by default 1/4. How many classes will be
        added is not known in training; of the benchmarks AWA adds a fifth, aPY three eighths.
        There are always two or more of them, where four classes allow it: a single one would be
        recognised among unseen classes whatever the model does.
    random_state : int, default=0
        Seed.

    Returns
    -------
    list of (train classes, validation classes)
        Both sorted.

    Examples
    --------
    >>> class_folds("abcdef", n_folds=2, share=1 / 3)
    [(['a', 'b', 'e', 'f'], ['c', 'd']), (['a', 'b', 'c', 'd'], ['e', 'f'])]
    """
    names = np.unique(np.asarray(list(classes)))
    share = _SHARE if share is None else share
    check_number("n_folds", n_folds, low=1, integer=True)
    check_number("share", share, low=0, high=1, open_low=True)
    if len(names) < 3:
        raise DataError(
            f"{len(names)} classes cannot be divided into train and validation classes; at least "
            "three are expected"
        )
    n_val = min(max(2, round(share * len(names))), len(names) - 2)
    rng = np.random.default_rng(random_state)
    order = rng.permutation(len(names))
    folds = []
    for _ in range(n_folds):
        if len(order) < n_val:
            order = rng.permutation(len(names))
        chosen = np.zeros(len(names), dtype=bool)
        chosen[order[:n_val]] = True
        order = order[n_val:]
        folds.append((names[~chosen].tolist(), names[chosen].tolist()))
    return folds


def split_fold(
    y: ArrayLike,
    train_classes: Sequence[Any],
    val_classes: Sequence[Any],
    holdout: float = 0.2,
    random_state: int | Sequence[int] = 0,
    counts: Mapping[Any, float] | None = None,
) -> FoldRows:
    """Divide the rows of one fold into those to fit, held-out seen ones and unseen ones.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Class of each row; rows of classes in neither list are left out.
    train_classes, val_classes : sequence
        Classes without overlap.
    holdout : float, default=0.2
        Share of the rows of each train class that is held out: at least one row, but one always
        stays to fit, so a class of a single row is not held out.
    random_state : int or sequence of int, default=0
        Seed of what is held out.
    counts : mapping, optional
        How many rows each class has, where those of `y` are a sample of them: the share is of
        these, as far as the sample goes.

    Returns
    -------
    FoldRows
        Sorted row indices ``fit``, ``val_seen``, ``val_unseen``.

    Examples
    --------
    >>> split_fold(["a", "a", "a", "b", "c", "c"], ["a", "b"], ["c"])
    FoldRows(fit=array([0, 1, 3]), val_seen=array([2]), val_unseen=array([4, 5]))
    """
    check_number("holdout", holdout, low=0, high=1, open_low=True)
    names, codes = np.unique(np.asarray(y), return_inverse=True)
    positions = {name: code for code, name in enumerate(names.tolist())}
    train, val = (_codes(part, positions) for part in (train_classes, val_classes))
    both = set(train) & set(val)
    if both:
        name = label_text(names[min(both)])
        raise DataError(f"class {name} is both a train and a validation class of one fold")
    rng = np.random.default_rng(random_state)
    held = np.zeros(len(codes), dtype=bool)
    for code in sorted(train):
        rows = np.flatnonzero(codes == code)
        n_rows = len(rows) if counts is None else int(counts[names[code].item()])
        n_held = min(max(1, round(holdout * n_rows)), n_rows - 1, len(rows))
        held[rng.permutation(rows)[:n_held]] = True
    in_train = np.isin(codes, train)
    return FoldRows(
        np.flatnonzero(in_train & ~held),
        np.flatnonzero(held),
        np.flatnonzero(np.isin(codes, val)),
    )


def validation_folds(
    X: NDArray[Any],
    y: NDArray[Any],
    attributes: Mapping[Any, Any],
    folds: ClassFolds,
    holdout: float = 0.2,
    random_state: int = 0,
) -> Iterator[ValidationFold]:
    """Yield the data of one fold at a time: only one copy of its rows is ever held.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    y : ndarray of shape (n_samples,)
        Class of each row.
    attributes : mapping
        Attribute vector of every class that a fold names.
    folds : list of (train classes, validation classes)
    holdout : float, default=0.2
        Share of the rows of a train class that plays its test images.
    random_state : int, default=0
        Seed of what is held out.
    """
    for number, (train, val) in enumerate(folds):
        rows = split_fold(y, train, val, holdout, [random_state, number])
        if not len(rows.val_seen):
            raise DataError(
                "every train class of a fold has one image only, so none can be held out; "
                "selection needs classes of two images or more"
            )
        for name in (*train, *val):
            if name not in attributes:
                raise DataError(f"class {name!r} has no attributes in class_attributes")
        yield ValidationFold(
            X[rows.fit],
            y[rows.fit],
            X[np.concatenate([rows.val_seen, rows.val_unseen])],
            y[rows.val_seen],
            y[rows.val_unseen],
            {name: attributes[name] for name in train},
            {name: attributes[name] for name in val},
        )


def _codes(classes: Sequence[Any], positions: dict[Any, int]) -> list[int]:
    for name in classes:
        if name not in positions:
            raise DataError(f"a fold names class {label_text(name)}, which has no instance in y")
    return [positions[name] for name in classes]
