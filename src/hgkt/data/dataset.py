"""The data set of generalized zero-shot learning, and what is looked at before it is trusted."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import batches
from hgkt._validation import check_choice, check_class_name, check_features, refuse_twin, twin_key
from hgkt.exceptions import DataError

SPLITS = ("train", "test_seen", "test_unseen")
_MADE_WITH = (
    *("backbone", "text_encoder", "encoder", "shares_space"),
    *("attribute_blocks", "attribute_kinds", "pixels", "descriptions"),
)
_MANY_NEGATIVE = 0.2


@dataclass(frozen=True, eq=False)
class ClassFold:
    """One published partition of the seen classes for validation.

    Parameters
    ----------
    train_classes : array-like of int
        Codes of the classes to train on.
    val_classes : array-like of int
        Codes of the classes that play the unseen ones.
    """

    train_classes: NDArray[np.intp]
    val_classes: NDArray[np.intp]

    def __post_init__(self) -> None:
        for name in ("train_classes", "val_classes"):
            object.__setattr__(self, name, _as_codes(getattr(self, name), name))


@dataclass(frozen=True, eq=False)
class GZSLDataset:
    """Features, labels, class attributes and the split into train, test seen and test unseen.

    The constructor coerces types and is cheap; `validate` looks at every number.

    Parameters
    ----------
    name : str
        Name of the data set.
    features : array-like of shape (n_instances, n_features)
        Visual features, float32; a memory-mapped array stays on disk.
    labels : array-like of int, shape (n_instances,)
        Code of the class of each row: its position in `class_names`.
    class_names : sequence of str
        One name per class.
    class_attributes : array-like of shape (n_classes, n_attributes)
        One row per class, float32.
    train, test_seen, test_unseen : array-like of int
        Rows of the three parts of the split, counted from 0. Training needs train rows only,
        evaluation all three.
    folds : sequence of ClassFold
        Published validation folds over the seen classes.
    attribute_names : sequence of str, optional
        What each attribute means.
    image_files : sequence of str, optional
        Where each row came from.
    about : dict
        What the features and attributes are: file, kind, widths of attribute blocks.

    Examples
    --------
    >>> data = GZSLDataset(
    ...     name="toy",
    ...     features=[[0, 1], [0, 2], [1, 0]],
    ...     labels=[0, 0, 1],
    ...     class_names=["horse", "zebra"],
    ...     class_attributes=[[0.0], [1.0]],
    ...     train=[0],
    ...     test_seen=[1],
    ...     test_unseen=[2],
    ... ).validate()
    >>> data.names(data.unseen_classes)
    ['zebra']
    >>> X, y = data.rows("test_seen")
    >>> X.tolist(), y.tolist()
    ([[0.0, 2.0]], ['horse'])
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.intp]
    class_names: tuple[str, ...]
    class_attributes: NDArray[np.float32]
    train: NDArray[np.intp]
    test_seen: NDArray[np.intp]
    test_unseen: NDArray[np.intp]
    folds: tuple[ClassFold, ...] = ()
    attribute_names: tuple[str, ...] | None = None
    image_files: tuple[str, ...] | None = None
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        # A memory map of another float type is converted row by row where rows are read.
        if not isinstance(self.features, np.memmap):
            put("features", _as_matrix(self.features, "features"))
        put("class_attributes", _as_matrix(self.class_attributes, "class_attributes"))
        for name in ("labels", *SPLITS):
            put(name, _as_codes(getattr(self, name), name))
        put("class_names", tuple(str(name) for name in self.class_names))
        put("folds", tuple(self.folds))
        for name in ("attribute_names", "image_files"):
            if getattr(self, name) is not None:
                put(name, tuple(str(item) for item in getattr(self, name)))
        put("about", dict(self.about))

    # ------------------------------------------------------------------ classes
    @property
    def seen_classes(self) -> NDArray[np.intp]:
        """Codes of the classes that occur in train, sorted."""
        return np.unique(self.labels[self.train])

    @property
    def unseen_classes(self) -> NDArray[np.intp]:
        """Codes of all other classes, sorted: no row of theirs is in train."""
        return np.setdiff1d(np.arange(len(self.class_names)), self.seen_classes)

    @property
    def described_classes(self) -> NDArray[np.intp]:
        """Codes of the unseen classes without test rows, sorted: all there is are attributes."""
        return np.setdiff1d(self.unseen_classes, self.labels[self.test_unseen])

    def names(self, codes: Iterable[int]) -> list[str]:
        """Return the class names of `codes`."""
        return [self.class_names[code] for code in codes]

    def attributes_of(self, codes: Iterable[int]) -> dict[str, NDArray[np.float64]]:
        """Return the float64 attribute vectors of `codes`, keyed by class name."""
        return {
            self.class_names[code]: self.class_attributes[code].astype(np.float64) for code in codes
        }

    def class_folds(self) -> list[tuple[list[str], list[str]]]:
        """Return the published folds as pairs (train class names, validation class names)."""
        return [(self.names(f.train_classes), self.names(f.val_classes)) for f in self.folds]

    # ------------------------------------------------------------------ instances
    @property
    def split_rows(self) -> dict[str, NDArray[np.intp]]:
        """The rows of each part of the split, by its name."""
        return {split: getattr(self, split) for split in SPLITS}

    def rows(self, split: str) -> tuple[NDArray[np.float32], NDArray[np.str_]]:
        """Return features and class names of one part of the split.

        Parameters
        ----------
        split : {"train", "test_seen", "test_unseen"}
            The part.

        Returns
        -------
        X : ndarray of shape (n, n_features), float32
        y : ndarray of shape (n,), class names
        """
        check_choice("split", split, SPLITS)
        index = getattr(self, split)
        X = np.asarray(self.features[index], dtype=np.float32)
        return X, np.array(self.class_names)[self.labels[index]]

    # ------------------------------------------------------------------ whole data set
    def validate(self) -> Self:
        """Raise DataError with one sentence for the first violation, or return the data set."""
        for sentence in iter_violations(self):
            raise DataError(f"data set {self.name!r}: {sentence}")
        return self

    def check_tests(self) -> Self:
        """Refuse a data set that can be trained on but not evaluated, or return it."""
        for split, kind in (("test_seen", "seen"), ("test_unseen", "unseen")):
            if not len(getattr(self, split)):
                raise DataError(
                    f"data set {self.name!r} has no rows in {split}: evaluation needs test rows of "
                    f"{kind} classes (a column 'split' of the samples says which they are), "
                    "training does not"
                )
        return self

    def provenance(self) -> dict[str, Any]:
        """Return what a model that is trained on this data should remember of it.

        Returns
        -------
        dict
            Name and fingerprint, what features and attributes are, and what both were made with:
            needed wherever new ones are made for the model.
        """
        about = {"attribute_names": self.attribute_names, **self.about}
        return provenance(self.name, self.fingerprint(), about)

    def summary(self) -> dict[str, Any]:
        """Count what the paper's table of data sets counts.

        Returns
        -------
        dict
            ``name``, ``n_instances``, ``n_features``, ``n_attributes``, ``n_classes``,
            ``n_seen_classes``, ``n_unseen_classes``, ``n_train``, ``n_test_seen``,
            ``n_test_unseen``, ``n_folds``.
        """
        return {
            "name": self.name,
            "n_instances": len(self.features),
            "n_features": self.features.shape[1],
            "n_attributes": self.class_attributes.shape[1],
            "n_classes": len(self.class_names),
            "n_seen_classes": len(self.seen_classes),
            "n_unseen_classes": len(self.unseen_classes),
            "n_train": len(self.train),
            "n_test_seen": len(self.test_seen),
            "n_test_unseen": len(self.test_unseen),
            "n_folds": len(self.folds),
        }

    def fingerprint(self) -> dict[str, str]:
        """Return two SHA-256 digests that tell which data a result belongs to.

        Returns
        -------
        dict
            ``split``: class names and the three index sets, whatever their order;
            ``content``: features, labels, class names and attributes. Features are read in
            chunks of rows, once, so that a memory map is never copied whole.
        """
        return dict(self._digests)

    @cached_property
    def _digests(self) -> dict[str, str]:
        content = _Digest()
        content.strings("class_names", self.class_names)
        content.array("labels", self.labels.astype("<i8"))
        content.array("class_attributes", self.class_attributes.astype("<f4"))
        content.array("features", self.features, "<f4")
        return {
            "split": split_digest(self.class_names, self.split_rows),
            "content": content.hexdigest(),
        }


def split_digest(class_names: Sequence[str], rows: Mapping[str, NDArray[np.intp]]) -> str:
    """Return ``fingerprint()["split"]``, of the class names and the rows of each part."""
    digest = _Digest()
    digest.strings("class_names", class_names)
    for name in SPLITS:
        digest.array(name, np.sort(rows[name]).astype("<i8"))
    return digest.hexdigest()


def provenance(name: str, fingerprint: Any, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a model should remember of the data it is trained on; see `GZSLDataset`."""
    keys = ("features", "attributes", "layout", "attribute_names")
    return {
        "data": name,
        "fingerprint": fingerprint,
        **{key: about.get(key) for key in keys},
        **{key: about[key] for key in _MADE_WITH if key in about},
    }


def hold_out(
    rows: NDArray[np.intp], labels: NDArray[np.intp], fraction: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split `rows` into a part to train on and a part held out, class by class.

    A class of two rows or more has at least one on both sides; a single row is kept.

    Parameters
    ----------
    rows : ndarray of int
        The rows to split.
    labels : ndarray of int, shape (n_instances,)
        Class codes of all rows of the data set.
    fraction : float
        Share of each class to hold out.
    seed : int
        Seed of the choice.

    Returns
    -------
    kept, held_out : ndarray of int
        Both sorted.

    Examples
    --------
    >>> kept, held_out = hold_out(np.arange(10), np.repeat([0, 1], 5), 0.2, seed=0)
    >>> len(kept), len(held_out)
    (8, 2)
    """
    rng = np.random.default_rng(seed)
    kept, held_out = [], []
    for code in np.unique(labels[rows]):
        members = rng.permutation(np.sort(rows[labels[rows] == code]))
        n_out = min(max(1, round(fraction * len(members))), len(members) - 1)
        held_out.append(members[:n_out])
        kept.append(members[n_out:])
    if not kept:
        raise DataError("there is no instance of a seen class to split")
    return np.sort(np.concatenate(kept)), np.sort(np.concatenate(held_out))


class _Digest:
    """SHA-256 over named parts; name and shape go in, so that parts cannot slip into each other."""

    def __init__(self) -> None:
        self._sha = hashlib.sha256()
        self.hexdigest = self._sha.hexdigest

    def strings(self, name: str, values: Sequence[str]) -> None:
        self._sha.update(f"{name}:{len(values)};".encode())
        for value in values:
            data = value.encode()
            self._sha.update(f"{len(data)}:".encode() + data)

    def array(self, name: str, array: NDArray[Any], dtype: str | None = None) -> None:
        self._sha.update(f"{name}:{array.shape};".encode())
        for batch in batches(len(array)):
            chunk = np.ascontiguousarray(array[batch], dtype=dtype)
            self._sha.update(chunk.data if chunk.size else b"")


def _as_matrix(values: ArrayLike, what: str) -> NDArray[np.float32]:
    try:
        return np.asarray(values, dtype=np.float32)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be a matrix of numbers") from None


def _as_codes(values: ArrayLike, what: str) -> NDArray[np.intp]:
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.intp)
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.floor(array)).all():
        array = array.astype(np.intp)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(
            f"{what} must be a vector of whole numbers; got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.intp, copy=False)


# ---------------------------------------------------------------------- what makes it unusable
def iter_violations(dataset: GZSLDataset) -> Iterator[str]:
    """Yield one sentence for each violation.

    Shapes and ranges come first; where one of them is wrong the rest cannot be looked at.
    """
    broken = [*_wrong_shapes(dataset)] or [*_wrong_ranges(dataset)]
    if broken:
        yield from broken
        return
    yield from _wrong_names(dataset.class_names)
    try:
        check_features(dataset.features, "features")
    except DataError as error:
        yield str(error)
    for code in np.flatnonzero(~np.isfinite(dataset.class_attributes).all(axis=1)):
        yield (
            f"the attributes of class {dataset.class_names[code]!r} contain NaN or infinity; "
            "only finite numbers are accepted"
        )
    yield from shared_rows(dataset.split_rows)
    yield from _wrong_classes(dataset)


def _wrong_shapes(dataset: GZSLDataset) -> Iterator[str]:
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


def _wrong_ranges(dataset: GZSLDataset) -> Iterator[str]:
    n_rows, n_classes = len(dataset.features), len(dataset.class_names)
    for row in np.flatnonzero((dataset.labels < 0) | (dataset.labels >= n_classes))[:1]:
        yield f"row {row} has label {dataset.labels[row]}; labels must lie in 0..{n_classes - 1}"
    if not len(dataset.train):
        yield "the split train is empty; at least one row is expected"
    for split, index in dataset.split_rows.items():
        for row in index[(index < 0) | (index >= n_rows)][:1]:
            yield f"{split} points to row {row}; rows lie in 0..{n_rows - 1}"
    for number, fold in enumerate(dataset.folds, start=1):
        codes = np.concatenate([fold.train_classes, fold.val_classes])
        for code in codes[(codes < 0) | (codes >= n_classes)][:1]:
            yield f"fold {number} has class code {code}; codes lie in 0..{n_classes - 1}"


def _wrong_names(names: Sequence[str]) -> Iterator[str]:
    met: dict[str, str] = {}
    for name in names:
        twin = met.setdefault(twin_key(name), name)
        try:
            check_class_name(name)
            refuse_twin(name, twin)
        except DataError as error:
            yield str(error)
    for name, count in Counter(names).items():
        if count > 1:
            yield f"class name {name!r} occurs twice; names must be unique"


def shared_rows(rows: Mapping[str, NDArray[np.intp]]) -> Iterator[str]:
    """Yield one sentence for each part of a split that holds a row twice or shares one."""
    for split, index in rows.items():
        values, counts = np.unique(index, return_counts=True)
        for row in values[counts > 1][:1]:
            yield f"row {row} is twice in {split} ({int((counts > 1).sum())} such rows)"
    for first, second in combinations(rows, 2):
        shared = np.intersect1d(rows[first], rows[second])
        if len(shared):
            yield f"row {shared[0]} is in {first} and in {second} ({len(shared)} such rows)"


def _wrong_classes(dataset: GZSLDataset) -> Iterator[str]:
    """Yield what is wrong with the classes of the test rows and of the folds."""
    seen = dataset.seen_classes
    for name in dataset.names(np.intersect1d(dataset.labels[dataset.test_unseen], seen)):
        yield f"class {name!r} is in test_unseen but has instances in train, so it is not unseen"
    for name in dataset.names(np.setdiff1d(dataset.labels[dataset.test_seen], seen)):
        yield f"class {name!r} is in test_seen but has no instance in train"
    for number, fold in enumerate(dataset.folds, start=1):
        train, val = fold.train_classes, fold.val_classes
        if not len(train) or not len(val):
            yield f"fold {number} has no train or no validation class"
        for name in dataset.names(np.intersect1d(train, val)):
            yield f"class {name!r} is a train and a validation class of fold {number}"
        for name in dataset.names(np.setdiff1d(np.concatenate([train, val]), seen)):
            yield f"class {name!r} is in fold {number} but not in train; folds hold seen classes"


# ---------------------------------------------------------------------- what is worth knowing
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


_ok, _warning = partial(Finding, "ok"), partial(Finding, "warning")


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
    errors = [Finding("error", sentence) for sentence in iter_violations(dataset)]
    if errors:
        return errors
    about = dataset.about
    name = dataset.name if about.get("layout") == "xlsa17" else ""
    return [
        _ok("shapes, labels, splits and attributes are valid"),
        *compare_counts(name, dataset.summary(), about.get("attributes", "att")),
        *leak_findings(about.get("leaks") or {}),
        *_row_findings(dataset),
        *_attribute_findings(dataset),
        *_feature_findings(dataset.features),
        *_fold_findings(dataset),
        compare_split(name, split_digest(dataset.class_names, dataset.split_rows)),
    ]


def compare_counts(name: str, counts: Mapping[str, Any], attributes: str) -> Iterator[Finding]:
    """Yield how counts differ from those published for a data set of that name, if one is known.

    Parameters
    ----------
    name : str
        Name of the data set.
    counts : mapping of str to int
        Under the keys of ``GZSLDataset.summary``, as far as they are known.
    attributes : str
        The kind of attributes: those that are not the benchmark's are of any number.
    """
    from hgkt.data.catalog import find_facts

    facts = find_facts(name)
    if facts is None:
        return
    expected = {key: count for key, count in facts.counts().items() if key in counts}
    if "n_seen_classes" not in counts:  # a split without labels does not say which are seen
        expected["n_classes"] = facts.n_seen_classes + facts.n_unseen_classes
    if attributes not in ("att", "original_att"):
        expected.pop("n_attributes", None)
    different = [key for key, count in expected.items() if counts[key] != count]
    for key in different:
        yield _warning(f"{key} is {counts[key]}; the published {facts.name} has {expected[key]}")
    if not different:
        yield _ok(f"all counts are those published for {facts.name}")


def leak_findings(leaks: Mapping[str, int]) -> Iterator[Finding]:
    """Yield which lists of rows hold test images, by ``"file:list"``."""
    for where, count in leaks.items():
        file, _, loc = where.partition(":")
        if count:
            yield _warning(
                f"{loc} of {file} holds {count} test images; never train on it "
                "(hgkt trains on trainval_loc)"
            )
    if leaks and not any(leaks.values()):
        yield _ok("train_loc and val_loc hold no test image")


def compare_split(name: str, digest: str) -> Finding:
    """Return whether the digest of a split is one on record for a data set of that name."""
    from hgkt.data.catalog import find_facts

    facts = find_facts(name)
    if facts is None or not facts.split_fingerprints:
        return _ok(f"split fingerprint {digest[:12]}; none is on record to compare it with")
    if digest in facts.split_fingerprints:
        return _ok(f"split fingerprint {digest[:12]} is that of the published split")
    return _warning(
        f"split fingerprint {digest[:12]} is not that of the published split; "
        "results cannot be compared with published ones"
    )


def _row_findings(dataset: GZSLDataset) -> Iterator[Finding]:
    for split, index in dataset.split_rows.items():
        if not len(index):
            yield _warning(f"no row is in {split}: good to train on, not to evaluate")
    n_idle = len(dataset.features) - len(np.unique(np.concatenate([*dataset.split_rows.values()])))
    yield _ok(f"{n_idle} rows belong to no part of the split" if n_idle else "every row is used")


def _attribute_findings(dataset: GZSLDataset) -> Iterator[Finding]:
    attributes, names, about = dataset.class_attributes, dataset.class_names, dataset.about
    norms = np.linalg.norm(attributes.astype(np.float64), axis=1)
    for code in np.flatnonzero(norms == 0):
        yield _warning(f"all attributes of class {names[code]!r} are zero")
    _, first, inverse = np.unique(attributes, axis=0, return_index=True, return_inverse=True)
    for row, twin in enumerate(first[inverse.ravel()].tolist()):
        if twin != row:
            yield _warning(
                f"classes {names[twin]!r} and {names[row]!r} have the same attributes; "
                "no method can tell them apart where neither was seen"
            )
    n_negative = int((attributes < 0).sum())
    described = "encoder" in about or "text" in (about.get("attribute_kinds") or ())
    # Numbers that stand for words are negative every other time; missing values are few.
    rare = n_negative < _MANY_NEGATIVE * attributes.size
    if n_negative and about.get("attributes") == "att" and rare and not described:
        yield _warning(
            f"{n_negative} attribute values are negative: the mark of a missing value, scaled "
            "like a value; original_att reads it as 0"
        )
    unit = np.abs(norms - 1.0).max() < 1e-3
    spread = "1" if unit else f"{norms.min():.3g} to {norms.max():.3g}"
    yield _ok(f"attribute vectors have length {spread}")


def _feature_findings(features: NDArray[Any]) -> Iterator[Finding]:
    n_negative, zero_rows = 0, []
    for batch in batches(len(features)):
        chunk = np.asarray(features[batch])
        n_negative += int((chunk < 0).any(axis=1).sum())
        zero_rows += (batch.start + np.flatnonzero(~chunk.any(axis=1))).tolist()
    if n_negative:
        yield _warning(
            f"{n_negative} rows have negative features; as histograms they make no sense"
        )
    if zero_rows:
        yield _warning(
            f"{len(zero_rows)} rows of features are all zero, the first is row {zero_rows[0]}"
        )
    if not n_negative and not zero_rows:
        yield _ok("features are finite and non-negative, and no row is all zero")


def _fold_findings(dataset: GZSLDataset) -> Iterator[Finding]:
    unmatched = dataset.about.get("unmatched_classes") or []
    if unmatched:
        yield _warning(
            f"the class lists name {len(unmatched)} classes that are not in the data set, "
            f"such as {unmatched[0]!r}"
        )
    if not dataset.folds:
        yield _ok("no published validation folds; they can be drawn from the seen classes")
        return
    for number, fold in enumerate(dataset.folds, start=1):
        named = np.concatenate([fold.train_classes, fold.val_classes])
        missing = dataset.names(np.setdiff1d(dataset.seen_classes, named))
        if missing:
            yield _warning(
                f"fold {number} leaves out {len(missing)} seen classes, such as {missing[0]!r}"
            )
    sizes = ", ".join(f"{len(f.train_classes)}+{len(f.val_classes)}" for f in dataset.folds)
    yield _ok(f"{len(dataset.folds)} validation folds over seen classes ({sizes})")
