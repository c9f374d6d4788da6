"""The data set of generalized zero-shot learning: instances, classes, attributes and a split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError

SPLITS = ("train", "test_seen", "test_unseen")
_MADE_WITH = ("backbone", "encoder", "attribute_blocks", "attribute_kinds", "pixels")
_CHUNK_ROWS = 4096


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
        from hgkt.data.check import iter_violations

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
        about = self.about
        return {
            "data": self.name,
            "fingerprint": self.fingerprint(),
            **{key: about.get(key) for key in ("features", "attributes", "layout")},
            "attribute_names": about.get("attribute_names", self.attribute_names),
            **{key: about[key] for key in _MADE_WITH if key in about},
        }

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
        return {"split": split_digest(self), "content": content.hexdigest()}


def split_digest(dataset: GZSLDataset) -> str:
    """Return ``fingerprint()["split"]`` alone, for which no feature is read."""
    digest = _Digest()
    digest.strings("class_names", dataset.class_names)
    for name in SPLITS:
        digest.array(name, np.sort(getattr(dataset, name)).astype("<i8"))
    return digest.hexdigest()


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
        for start in range(0, len(array), _CHUNK_ROWS):
            chunk = np.ascontiguousarray(array[start : start + _CHUNK_ROWS], dtype=dtype)
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
