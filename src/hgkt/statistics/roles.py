"""Class folds as seen from a class: what it does in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hgkt._validation import label_text
from hgkt.exceptions import DataError

Folds = Sequence[tuple[Sequence[Any], Sequence[Any]]]
"""Pairs (train classes, validation classes)."""

TRAIN, HELD_OUT, LEFT_OUT = "tv-"
"""What a class does in a fold; a class has one letter per fold."""


def fold_roles(folds: Folds) -> dict[Any, str]:
    """Return what each class that a fold names does in every fold, a letter each.

    Examples
    --------
    >>> fold_roles([(["a", "b"], ["c"]), (["a", "c"], ["b"])])
    {'a': 'tt', 'b': 'tv', 'c': 'vt'}
    """
    names = sorted({name for fold in folds for part in fold for name in part})
    parts = [(set(train), set(val)) for train, val in folds]
    for train, val in parts:
        for name in train & val:
            raise DataError(
                f"class {label_text(name)} is both a train and a validation class of one fold"
            )

    def role(name: Any, train: set[Any], val: set[Any]) -> str:
        return HELD_OUT if name in val else TRAIN if name in train else LEFT_OUT

    return {name: "".join(role(name, *part) for part in parts) for name in names}
