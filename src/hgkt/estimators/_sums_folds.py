"""Class folds of gathered statistics: sums to fit on, and rows of the sample to score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration.curve import ValidationRows
from hgkt.calibration.folds import split_fold
from hgkt.exceptions import DataError
from hgkt.statistics import GatheredStatistics, Sums
from hgkt.statistics.gathered import FoldSums


@dataclass(frozen=True)
class SumsFold:
    """Sums of the training rows of one fold, its validation rows (seen ones first), labels."""

    sums: Sums
    X_eval: NDArray[Any]
    y_seen: NDArray[Any]
    y_unseen: NDArray[Any]
    train_attributes: dict[Any, Any]
    val_attributes: dict[Any, Any]

    @cached_property
    def rows(self) -> ValidationRows:
        """The validation rows, their labels looked up once."""
        classes = [*self.sums.classes.tolist(), *self.val_attributes]
        return ValidationRows(self.y_seen, self.y_unseen, classes, len(self.train_attributes))


def sums_folds(
    statistics: GatheredStatistics,
    attributes: Mapping[Any, Any],
    n_folds: int | None = None,
    holdout: float = 0.2,
    random_state: int = 0,
) -> Iterator[SumsFold]:
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
    counts = dict(zip(statistics.classes.tolist(), statistics.counts.tolist(), strict=True))
    for number, (train, val) in enumerate(statistics.folds[:n_folds]):
        if len(train) < 2 or not val:
            raise DataError(
                f"fold {number + 1} of the statistics trains on {len(train)} classes with rows and "
                f"holds out {len(val)}; two and one are expected at least"
            )
        for name in (*train, *val):
            if name not in attributes:
                raise DataError(f"class {name!r} has no attributes in class_attributes")
        rows = split_fold(y, train, val, holdout, [random_state, number], counts)
        if not len(rows.val_seen):
            raise DataError(
                "every train class of a fold has one image only, so none can be held out; "
                "selection needs classes of two images or more"
            )
        yield SumsFold(
            FoldSums(statistics, number, X[rows.val_seen], y[rows.val_seen]),
            X[np.concatenate([rows.val_seen, rows.val_unseen])],
            y[rows.val_seen],
            y[rows.val_unseen],
            {name: attributes[name] for name in train},
            {name: attributes[name] for name in val},
        )
