"""What makes a data set unusable: every violation one sentence that names the class or row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from hgkt._validation import check_finite
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.data.dataset import GZSLDataset

_SPLITS = ("train", "test_seen", "test_unseen")


def iter_violations(dataset: GZSLDataset) -> Iterator[str]:
    """Yield one sentence for each violation.

    Shapes and ranges come first; where one of them is wrong the rest cannot be looked at.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set to look at.

    Yields
    ------
    str
        What is wrong, where, and what is expected.
    """
    broken = [*_shapes(dataset)] or [*_ranges(dataset)]
    if broken:
        yield from broken
        return
    yield from _names(dataset)
    yield from _numbers(dataset)
    yield from _split(dataset)
    yield from _folds(dataset)


def _shapes(dataset: GZSLDataset) -> Iterator[str]:
    features, attributes = dataset.features, dataset.class_attributes
    if features.ndim != 2 or 0 in features.shape:
        yield f"features must be a non-empty matrix (instances, features); got {features.shape}"
        return
    if features.dtype.kind != "f":
        yield f"features must be floating-point numbers; got {features.dtype}"
    if len(dataset.labels) != len(features):
        yield f"there are {len(features)} rows of features but {len(dataset.labels)} labels"
    if attributes.ndim != 2 or attributes.shape[-1] == 0:
        yield f"class_attributes must be a matrix (classes, attributes); got {attributes.shape}"
        return
    n_classes = len(dataset.class_names)
    if len(attributes) < n_classes:
        name = dataset.class_names[len(attributes)]
        yield f"class {name!r} has no attributes: {len(attributes)} rows for {n_classes} classes"
    elif len(attributes) > n_classes:
        yield f"class_attributes has {len(attributes)} rows for {n_classes} class names"
    for what, values, expected in (
        ("attribute_names", dataset.attribute_names, attributes.shape[1]),
        ("image_files", dataset.image_files, len(features)),
    ):
        if values is not None and len(values) != expected:
            yield f"{what} has {len(values)} entries; {expected} are expected"


def _ranges(dataset: GZSLDataset) -> Iterator[str]:
    n_rows, n_classes = len(dataset.features), len(dataset.class_names)
    for row in np.flatnonzero((dataset.labels < 0) | (dataset.labels >= n_classes))[:1]:
        yield (f"row {row} has label {dataset.labels[row]}; labels must lie in 0..{n_classes - 1}")
    for split in _SPLITS:
        index = getattr(dataset, split)
        if len(index) == 0:
            yield f"the split {split} is empty; at least one row is expected"
        for row in index[(index < 0) | (index >= n_rows)][:1]:
            yield f"{split} points to row {row}; rows lie in 0..{n_rows - 1}"
    for number, fold in enumerate(dataset.folds, start=1):
        codes = np.concatenate([fold.train_classes, fold.val_classes])
        for code in codes[(codes < 0) | (codes >= n_classes)][:1]:
            yield f"fold {number} has class code {code}; codes lie in 0..{n_classes - 1}"


def _names(dataset: GZSLDataset) -> Iterator[str]:
    met: set[str] = set()
    for code, name in enumerate(dataset.class_names):
        if not name.strip():
            yield f"class {code} has an empty name"
        elif name in met:
            yield f"class name {name!r} occurs twice; names must be unique"
        met.add(name)


def _numbers(dataset: GZSLDataset) -> Iterator[str]:
    try:
        check_finite(dataset.features, "features")
    except DataError as error:
        yield str(error)
    for code in np.flatnonzero(~np.isfinite(dataset.class_attributes).all(axis=1)):
        yield (
            f"the attributes of class {dataset.class_names[code]!r} contain NaN or infinity; "
            "only finite numbers are accepted"
        )


def _split(dataset: GZSLDataset) -> Iterator[str]:
    for first, second in combinations(_SPLITS, 2):
        shared = np.intersect1d(getattr(dataset, first), getattr(dataset, second))
        if len(shared):
            yield f"row {shared[0]} is in {first} and in {second} ({len(shared)} such rows)"
    seen = dataset.seen_classes
    for code in np.intersect1d(dataset.unseen_classes, seen):
        name = dataset.class_names[code]
        yield f"class {name!r} is in test_unseen but has instances in train, so it is not unseen"
    for code in np.setdiff1d(dataset.labels[dataset.test_seen], seen):
        name = dataset.class_names[code]
        yield f"class {name!r} is in test_seen but has no instance in train"


def _folds(dataset: GZSLDataset) -> Iterator[str]:
    seen = dataset.seen_classes
    for number, fold in enumerate(dataset.folds, start=1):
        if len(fold.train_classes) == 0 or len(fold.val_classes) == 0:
            yield f"fold {number} has no train or no validation class"
        for code in np.intersect1d(fold.train_classes, fold.val_classes):
            name = dataset.class_names[code]
            yield f"class {name!r} is a train and a validation class of fold {number}"
        for code in np.setdiff1d(np.concatenate([fold.train_classes, fold.val_classes]), seen):
            name = dataset.class_names[code]
            yield f"class {name!r} is in fold {number} but not in train; folds hold seen classes"
