"""Look a data set over: what makes it unusable, and what is worth knowing before trusting it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hgkt._class_names import check_class_name, refuse_twin, twin_key
from hgkt._validation import check_features
from hgkt.data.catalog import Facts, find_facts
from hgkt.data.dataset import SPLITS, GZSLDataset, split_digest
from hgkt.exceptions import DataError

OK, WARNING, ERROR = "ok", "warning", "error"
_CHUNK_ROWS = 4096
_MANY_NEGATIVE = 0.2


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Parameters
    ----------
    level : {"ok", "warning", "error"}
        "error": the data set cannot be used; "warning": worth knowing before trusting a result.
    sentence : str
        What was found.
    """

    level: str
    sentence: str


def check_dataset(dataset: GZSLDataset) -> list[Finding]:
    """Look a data set over and say what was found.

    Parameters
    ----------
    dataset : GZSLDataset
        The data set; it need not be valid.

    Returns
    -------
    list of Finding
        Where the data set is invalid, its violations only.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> {finding.level for finding in check_dataset(load_dataset("digits"))}
    {'ok'}
    """
    errors = [Finding(ERROR, sentence) for sentence in iter_violations(dataset)]
    if errors:
        return errors
    looks = (_valid, _counts, _leaks, _rows, _attributes, _features, _folds, _fingerprint)
    return [finding for look in looks for finding in look(dataset)]


def _valid(dataset: GZSLDataset) -> Iterator[Finding]:
    yield Finding(OK, "shapes, labels, splits and attributes are valid")


def _counts(dataset: GZSLDataset) -> Iterator[Finding]:
    facts = _facts(dataset)
    if facts is None:
        return
    found = dataset.summary()
    expected = facts.counts()
    if dataset.about.get("attributes", "att") not in ("att", "original_att"):
        del expected["n_attributes"]
    different = [key for key, count in expected.items() if found[key] != count]
    for key in different:
        yield Finding(
            WARNING, f"{key} is {found[key]}; the published {facts.name} has {expected[key]}"
        )
    if not different:
        yield Finding(OK, f"all counts are those published for {facts.name}")


def _leaks(dataset: GZSLDataset) -> Iterator[Finding]:
    leaks: dict[str, int] = dataset.about.get("leaks") or {}
    for where, count in leaks.items():
        file, _, loc = where.partition(":")
        if count:
            yield Finding(
                WARNING,
                f"{loc} of {file} holds {count} test images; never train on it "
                "(hgkt trains on trainval_loc)",
            )
    if leaks and not any(leaks.values()):
        yield Finding(OK, "train_loc and val_loc hold no test image")


def _rows(dataset: GZSLDataset) -> Iterator[Finding]:
    for split in SPLITS:
        if not len(getattr(dataset, split)):
            yield Finding(WARNING, f"no row is in {split}: good to train on, not to evaluate")
    n_used = len(np.unique(np.concatenate([getattr(dataset, split) for split in SPLITS])))
    n_idle = len(dataset.features) - n_used
    yield Finding(
        OK, f"{n_idle} rows belong to no part of the split" if n_idle else "every row is used"
    )


def _attributes(dataset: GZSLDataset) -> Iterator[Finding]:
    attributes, names = dataset.class_attributes, dataset.class_names
    norms = np.linalg.norm(attributes.astype(np.float64), axis=1)
    for code in np.flatnonzero(norms == 0):
        yield Finding(WARNING, f"all attributes of class {names[code]!r} are zero")
    _, first, inverse = np.unique(attributes, axis=0, return_index=True, return_inverse=True)
    for row, twin in enumerate(first[inverse.ravel()].tolist()):
        if twin != row:
            yield Finding(
                WARNING,
                f"classes {names[twin]!r} and {names[row]!r} have the same attributes; "
                "no method can tell them apart where neither was seen",
            )
    n_negative = int((attributes < 0).sum())
    about = dataset.about
    described = "encoder" in about or "text" in (about.get("attribute_kinds") or ())
    # Numbers that stand for words are negative every other time; missing values are few.
    rare = n_negative < _MANY_NEGATIVE * attributes.size
    if n_negative and about.get("attributes") == "att" and rare and not described:
        yield Finding(
            WARNING,
            f"{n_negative} attribute values are negative: the mark of a missing value, scaled "
            "like a value; original_att reads it as 0",
        )
    unit = np.abs(norms - 1.0).max() < 1e-3
    spread = "1" if unit else f"{norms.min():.3g} to {norms.max():.3g}"
    yield Finding(OK, f"attribute vectors have length {spread}")


def _features(dataset: GZSLDataset) -> Iterator[Finding]:
    n_negative = n_zero = 0
    first_zero: int | None = None
    for start in range(0, len(dataset.features), _CHUNK_ROWS):
        chunk = np.asarray(dataset.features[start : start + _CHUNK_ROWS])
        n_negative += int((chunk < 0).any(axis=1).sum())
        zero = np.flatnonzero(~chunk.any(axis=1))
        n_zero += len(zero)
        if first_zero is None and len(zero):
            first_zero = start + int(zero[0])
    if n_negative:
        yield Finding(
            WARNING, f"{n_negative} rows have negative features; as histograms they make no sense"
        )
    if n_zero:
        yield Finding(
            WARNING, f"{n_zero} rows of features are all zero, the first is row {first_zero}"
        )
    if not n_negative and not n_zero:
        yield Finding(OK, "features are finite and non-negative, and no row is all zero")


def _folds(dataset: GZSLDataset) -> Iterator[Finding]:
    unmatched = dataset.about.get("unmatched_classes") or []
    if unmatched:
        yield Finding(
            WARNING,
            f"the class lists name {len(unmatched)} classes that are not in the data set, "
            f"such as {unmatched[0]!r}",
        )
    if not dataset.folds:
        yield Finding(OK, "no published validation folds; they can be drawn from the seen classes")
        return
    seen = dataset.seen_classes
    for number, fold in enumerate(dataset.folds, start=1):
        missing = np.setdiff1d(seen, np.concatenate([fold.train_classes, fold.val_classes]))
        if len(missing):
            yield Finding(
                WARNING,
                f"fold {number} leaves out {len(missing)} seen classes, such as "
                f"{dataset.class_names[missing[0]]!r}",
            )
    sizes = ", ".join(f"{len(f.train_classes)}+{len(f.val_classes)}" for f in dataset.folds)
    yield Finding(OK, f"{len(dataset.folds)} validation folds over seen classes ({sizes})")


def _fingerprint(dataset: GZSLDataset) -> Iterator[Finding]:
    digest = split_digest(dataset)
    facts = _facts(dataset)
    if facts is None or not facts.split_fingerprints:
        yield Finding(OK, f"split fingerprint {digest[:12]}; none is on record to compare it with")
    elif digest in facts.split_fingerprints:
        yield Finding(OK, f"split fingerprint {digest[:12]} is that of the published split")
    else:
        yield Finding(
            WARNING,
            f"split fingerprint {digest[:12]} is not that of the published split; "
            "results cannot be compared with published ones",
        )


def _facts(dataset: GZSLDataset) -> Facts | None:
    return find_facts(dataset.name) if dataset.about.get("layout") == "xlsa17" else None


# ---------------------------------------------------------------------- violations
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
    yield from _unique_names(dataset)
    yield from _finite(dataset)
    yield from _disjoint(dataset)
    yield from _seen_folds(dataset)


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
    for split in SPLITS:
        index = getattr(dataset, split)
        if split == "train" and len(index) == 0:
            yield "the split train is empty; at least one row is expected"
        for row in index[(index < 0) | (index >= n_rows)][:1]:
            yield f"{split} points to row {row}; rows lie in 0..{n_rows - 1}"
    for number, fold in enumerate(dataset.folds, start=1):
        codes = np.concatenate([fold.train_classes, fold.val_classes])
        for code in codes[(codes < 0) | (codes >= n_classes)][:1]:
            yield f"fold {number} has class code {code}; codes lie in 0..{n_classes - 1}"


def _unique_names(dataset: GZSLDataset) -> Iterator[str]:
    met: dict[str, str] = {}
    for name in dataset.class_names:
        twin = met.setdefault(twin_key(name), name)
        try:
            check_class_name(name)
            refuse_twin(name, twin)
        except DataError as error:
            yield str(error)
    for name, count in Counter(dataset.class_names).items():
        if count > 1:
            yield f"class name {name!r} occurs twice; names must be unique"


def _finite(dataset: GZSLDataset) -> Iterator[str]:
    try:
        check_features(dataset.features, "features")
    except DataError as error:
        yield str(error)
    for code in np.flatnonzero(~np.isfinite(dataset.class_attributes).all(axis=1)):
        yield (
            f"the attributes of class {dataset.class_names[code]!r} contain NaN or infinity; "
            "only finite numbers are accepted"
        )


def _disjoint(dataset: GZSLDataset) -> Iterator[str]:
    for split in SPLITS:
        rows, counts = np.unique(getattr(dataset, split), return_counts=True)
        for row in rows[counts > 1][:1]:
            yield f"row {row} is twice in {split} ({int((counts > 1).sum())} such rows)"
    for first, second in combinations(SPLITS, 2):
        shared = np.intersect1d(getattr(dataset, first), getattr(dataset, second))
        if len(shared):
            yield f"row {shared[0]} is in {first} and in {second} ({len(shared)} such rows)"
    seen = dataset.seen_classes
    for code in np.intersect1d(dataset.labels[dataset.test_unseen], seen):
        name = dataset.class_names[code]
        yield f"class {name!r} is in test_unseen but has instances in train, so it is not unseen"
    for code in np.setdiff1d(dataset.labels[dataset.test_seen], seen):
        name = dataset.class_names[code]
        yield f"class {name!r} is in test_seen but has no instance in train"


def _seen_folds(dataset: GZSLDataset) -> Iterator[str]:
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
