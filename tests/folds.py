"""A class fold made of given rows, for tests of what is learned from one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hgkt._validation import attribute_matrix
from hgkt.calibration import Fold, Instances
from hgkt.calibration.curve import ValidationRows


def make_fold(
    X: ArrayLike,
    y: ArrayLike,
    class_attributes: Mapping[Any, ArrayLike],
    new_attributes: Mapping[Any, ArrayLike],
    X_eval: ArrayLike,
) -> Fold:
    """Return a fold that trains on rows (N, D), adds classes, and scores other rows (n, D)."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    names = classes.tolist()
    return Fold(
        Instances(np.asarray(X), codes),
        classes,
        attribute_matrix(class_attributes, names),
        tuple(new_attributes),
        attribute_matrix(new_attributes, list(new_attributes)),
        np.asarray(X_eval),
        ValidationRows(names[:1], list(new_attributes)[:1], [*names, *new_attributes], len(names)),
    )


def matrix_fold(
    X: ArrayLike,
    codes: ArrayLike,
    attributes: ArrayLike,
    new_attributes: ArrayLike,
    X_eval: ArrayLike,
    rows: ValidationRows | None = None,
) -> Fold:
    """Return a fold of classes that are numbers: attributes (L, d) and (U, d), any `rows`."""
    n_seen, n_new = len(np.asarray(attributes)), len(np.asarray(new_attributes))
    numbers = range(n_seen + n_new)
    return Fold(
        Instances(np.asarray(X), np.asarray(codes)),
        np.arange(n_seen),
        np.asarray(attributes),
        tuple(numbers[n_seen:]),
        np.asarray(new_attributes),
        np.asarray(X_eval),
        rows or ValidationRows([0], [n_seen], numbers, n_seen),
    )
