"""Class folds: seen classes to learn from, others that play unseen ones, and rows of both.

A `Fold` is made of rows or of gathered sums; whoever fits, calibrates or selects on folds does not
ask which. What is scored on it is kept as a `FoldSample`, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import attribute_matrix, check_number, label_text
from hgkt.calibration.curve import ScoredFold, ValidationRows
from hgkt.calibration.gamma import FEW_CLASSES as FEW_CLASSES
from hgkt.calibration.gamma import Calibration
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics, Sums
from hgkt.statistics.gathered import FoldSums

ClassFolds = Sequence[tuple[Sequence[Any], Sequence[Any]]]
"""Pairs (train classes, validation classes)."""

SEEN, ADDED, GROWN = range(3)
"""Codes of the groups: classes learnt from images, added by attributes, and added then grown."""

_SHARE = 0.25
_MAX_ROWS = 6_000  # per fold; three numbers and some quantiles do not get better with more


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


class Instances(NamedTuple):
    """Rows to learn from: features (N, D) and the code (N,) of each row's class."""

    X: NDArray[Any]
    codes: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fold:
    """What is learned from in one fold, the classes added then, and the rows that validate it.

    Parameters
    ----------
    training : Instances or Sums
        Rows of the train classes, or their sums.
    classes : ndarray of shape (L,)
        The train classes, sorted.
    attributes : ndarray of shape (L, d)
    new_classes : tuple of length U
        The validation classes, which are added by their attributes.
    new_attributes : ndarray of shape (U, d)
    X_eval : ndarray of shape (n, D)
        Validation rows: held-out rows of the train classes first.
    rows : ValidationRows
        Their classes, and the curve of any scores.
    """

    training: Instances | Sums
    classes: NDArray[Any]
    attributes: NDArray[np.float64]
    new_classes: tuple[Any, ...]
    new_attributes: NDArray[np.float64]
    X_eval: NDArray[Any]
    rows: ValidationRows


def default_folds(n_classes: int) -> int:
    """Return 3, or 6 where classes are few: a fold then holds out two or three of them."""
    return 3 if n_classes >= FEW_CLASSES else 6


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


def folds_of_rows(
    X: NDArray[Any],
    y: NDArray[Any],
    attributes: Mapping[Any, Any],
    folds: ClassFolds,
    holdout: float = 0.2,
    random_state: int = 0,
) -> Iterator[Fold]:
    """Yield one fold of rows at a time: only one copy of its rows is ever held.

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
    vectors = _vectors(attributes, folds)
    for number, (train, val) in enumerate(folds):
        rows = split_fold(y, train, val, holdout, [random_state, number])
        classes, codes = np.unique(y[rows.fit], return_inverse=True)
        training = Instances(X[rows.fit], codes)
        yield _fold(training, classes, val, vectors, X, y, rows)


def folds_of_sums(
    statistics: GatheredStatistics,
    attributes: Mapping[Any, Any],
    n_folds: int | None = None,
    holdout: float = 0.2,
    random_state: int = 0,
) -> Iterator[Fold]:
    """Yield the folds that statistics were gathered with; where all rows were kept, those of rows.

    Parameters
    ----------
    statistics : GatheredStatistics
        With class folds and rows kept.
    attributes : mapping
        Attribute vector of every class.
    n_folds : int, optional
        How many of the folds; by default all.
    holdout : float, default=0.2
        Share of the rows of a train class that plays its test images, as far as rows were kept.
    random_state : int, default=0
        Seed of what is held out.
    """
    X, y = statistics.rows()
    if not len(y):
        raise DataError("the statistics hold no rows to validate on; gather with sample=")
    folds = statistics.folds[:n_folds]
    for number, (train, val) in enumerate(folds):
        if len(train) < 2 or not val:
            raise DataError(
                f"fold {number + 1} of the statistics trains on {len(train)} classes with rows and "
                f"holds out {len(val)}; two and one are expected at least"
            )
    vectors = _vectors(attributes, folds)
    counts = dict(zip(statistics.classes.tolist(), statistics.counts.tolist(), strict=True))
    for number, (train, val) in enumerate(folds):
        rows = split_fold(y, train, val, holdout, [random_state, number], counts)
        training = FoldSums(statistics, number, X[rows.val_seen], y[rows.val_seen])
        yield _fold(training, training.classes, val, vectors, X, y, rows)


def _vectors(attributes: Mapping[Any, Any], folds: ClassFolds) -> dict[Any, NDArray[np.float64]]:
    """Return the checked attribute vector (d,) of every class that a fold names."""
    names = list(dict.fromkeys(chain.from_iterable(chain(*fold) for fold in folds)))
    return dict(zip(names, attribute_matrix(attributes, names), strict=True))


def _fold(
    training: Instances | Sums,
    classes: NDArray[Any],
    val: Sequence[Any],
    vectors: Mapping[Any, NDArray[np.float64]],
    X: NDArray[Any],
    y: NDArray[Any],
    rows: FoldRows,
) -> Fold:
    if not len(rows.val_seen):
        raise DataError(
            "every train class of a fold has one image only, so none can be held out; "
            "selection needs classes of two images or more"
        )
    names = classes.tolist()
    return Fold(
        training,
        classes,
        np.array([vectors[name] for name in names]),
        tuple(val),
        np.array([vectors[name] for name in val]),
        X[np.concatenate([rows.val_seen, rows.val_unseen])],
        ValidationRows(y[rows.val_seen], y[rows.val_unseen], [*names, *val], len(names)),
    )


def _codes(classes: Sequence[Any], positions: dict[Any, int]) -> list[int]:
    for name in classes:
        if name not in positions:
            raise DataError(f"a fold names class {label_text(name)}, which has no instance in y")
    return [positions[name] for name in classes]


@dataclass(frozen=True)
class FoldSample:
    """Rows of one validation fold.

    Parameters
    ----------
    scores : ndarray of shape (n, n_classes)
        Without γ; rows and columns of seen classes first.
    truth : ndarray of shape (n,)
        The column of each row's class.
    n_seen : int
        How many of the columns are seen classes.
    names : tuple
        The held-out classes, which the other columns stand for.
    """

    scores: NDArray[Any]
    truth: NDArray[np.intp]
    n_seen: int
    names: tuple[Any, ...]

    @property
    def n_classes(self) -> int:
        """How many columns there are."""
        return int(self.scores.shape[1])

    @property
    def groups(self) -> NDArray[np.intp]:
        """Group of each column (n_classes,)."""
        return np.where(np.arange(self.n_classes) < self.n_seen, SEEN, ADDED)

    @property
    def of_seen(self) -> NDArray[np.bool_]:
        """Which rows (n,) are images of seen classes."""
        result: NDArray[np.bool_] = self.truth < self.n_seen
        return result

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights (n,) by which each group sums to one half, and its classes count alike."""
        weights = np.empty(len(self.truth))
        for group in (self.of_seen, ~self.of_seen):
            _, position, counts = np.unique(
                self.truth[group], return_inverse=True, return_counts=True
            )
            weights[group] = 0.5 / (counts[position] * max(len(counts), 1))
        return weights

    def calibrated(self, law: Calibration) -> NDArray[np.float64]:
        """Return the scores with γ taken off the seen classes."""
        scores = self.scores.astype(np.float64)
        scores[:, : self.n_seen] -= law.gamma(self.n_seen, self.n_classes - self.n_seen)
        return scores

    def part(self, rows: slice) -> FoldSample:
        """Return some of the rows."""
        return FoldSample(self.scores[rows], self.truth[rows], self.n_seen, self.names)

    def among(self, columns: NDArray[np.intp]) -> FoldSample:
        """Return the sample as if only these classes were known; others' truth is −1."""
        position = np.full(self.n_classes, -1)
        position[columns] = np.arange(len(columns))
        n_seen = int((columns < self.n_seen).sum())
        names = tuple(self.names[c - self.n_seen] for c in columns if c >= self.n_seen)
        return FoldSample(self.scores[:, columns], position[self.truth], n_seen, names)


def sample_folds(
    folds: Iterable[ScoredFold], samples: list[FoldSample], random_state: int = 0
) -> Iterator[ScoredFold]:
    """Pass folds on, and put at most 6,000 random rows of each, in float32, into `samples`."""
    rng = np.random.default_rng(random_state)
    for fold in folds:
        rows = np.arange(len(fold.scores))
        if len(rows) > _MAX_ROWS:
            rows = np.sort(rng.permutation(len(rows))[:_MAX_ROWS])
        names = tuple(fold.rows.classes[fold.rows.n_seen :])
        samples.append(
            FoldSample(
                np.asarray(fold.scores[rows], dtype=np.float32),
                fold.rows.truth[rows],
                fold.rows.n_seen,
                names,
            )
        )
        yield fold
