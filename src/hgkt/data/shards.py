"""Rows that never are in memory together: shards, each a range of rows of one file.

A folder of Parquet files, of .npy pairs, of .npz files, or any folder that `load_dataset` reads, is
opened as `ShardedData`: what it is made of and what its classes are, without its features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hgkt._files import sha256
from hgkt._reading import reading
from hgkt._validation import label_text
from hgkt.exceptions import DataError

SHARD_ROWS = 65_536
"""Rows of a shard where the files do not say otherwise."""

_BATCH_NUMBERS = 2**22  # of one batch: 16 MiB in float32
_SAMPLED_BYTES = 65_536
_MADE_WITH = ("backbone", "encoder", "attribute_blocks", "attribute_kinds")

Batch = tuple[NDArray[np.float32], NDArray[np.str_]]
"""Features (n, D) and the names of their classes (n,)."""

Labels = tuple[NDArray[np.str_], NDArray[np.bool_]]
"""Names of classes (n,), and which of the rows are trained on (n,)."""


class Shard(Protocol):
    """A range of rows of one file. It can be pickled and holds no rows itself."""

    @property
    def name(self) -> str:
        """What the shard is called within its folder."""
        ...

    def digest(self) -> str:
        """Return another text when the shard has changed; cheap."""
        ...

    def labels(self) -> Labels:
        """Return the class (n,) of every row, and which are trained on; reads no features."""
        ...

    def batches(self) -> Iterator[Batch]:
        """Yield the rows that are trained on, always in the same batches."""
        ...


@dataclass(frozen=True)
class KeptShard:
    """A shard without the rows of some classes.

    Parameters
    ----------
    shard : Shard
        All rows.
    without : frozenset of str
        The classes that are not trained on.
    """

    shard: Shard
    without: frozenset[str]

    @property
    def name(self) -> str:
        """Name of the shard."""
        return self.shard.name

    def digest(self) -> str:
        """Return another text when the shard has changed, or which classes are left out."""
        return sha256("|".join([self.shard.digest(), *sorted(self.without)]))

    def labels(self) -> Labels:
        """Return the class (n,) of every row, and which are trained on."""
        names, train = self.shard.labels()
        return names, train & ~np.isin(names, list(self.without))

    def batches(self) -> Iterator[Batch]:
        """Yield the rows of other classes."""
        for X, names in self.shard.batches():
            kept = ~np.isin(names, list(self.without))
            yield X[kept], names[kept]


@dataclass(frozen=True)
class ShardedData:
    """A data set in shards: its files and classes, not its rows.

    Parameters
    ----------
    name : str
        Name of the data set.
    shards : sequence of Shard
        In a fixed order.
    class_attributes : dict of str to ndarray
        Vector of each class that the table of classes has; empty where there is none.
    tested : frozenset of str
        Classes that are known to have rows, but none to train on.
    folds : list of (train classes, validation classes)
        Published class folds.
    about : dict
        What features and attributes are, as `GZSLDataset.about`.
    """

    name: str
    shards: Sequence[Shard]
    class_attributes: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    tested: frozenset[str] = frozenset()
    folds: list[tuple[list[str], list[str]]] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def class_counts(self) -> dict[str, int]:
        """How many train rows each class has, by name; labels are read once, features are not."""
        return {name: count for name, count in self._counts.items() if count}

    @cached_property
    def _counts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for shard in self.shards:
            labels, train = shard.labels()
            names, codes = np.unique(labels, return_inverse=True)
            found = np.bincount(codes, train, minlength=len(names)).astype(int)
            for name, count in zip(names.tolist(), found.tolist(), strict=True):
                if self.class_attributes and name not in self.class_attributes:
                    raise DataError(
                        f"{shard.name} has rows of class {label_text(name)}, which is not in the "
                        "table of classes"
                    )
                counts[name] += count
        if not sum(counts.values()):
            raise DataError(f"data set {self.name!r} has no rows to train on")
        return dict(sorted(counts.items()))

    @property
    def unseen_classes(self) -> dict[str, NDArray[np.float64]]:
        """Attributes of the classes without rows to train on."""
        return {k: v for k, v in self.class_attributes.items() if not self._counts.get(k)}

    @property
    def described_classes(self) -> dict[str, NDArray[np.float64]]:
        """Attributes of the classes without any rows: all there is."""
        known = self.tested | self._counts.keys()
        return {k: v for k, v in self.class_attributes.items() if k not in known}

    def provenance(self) -> dict[str, Any]:
        """Return what a model that is trained on this data should remember of it."""
        about = self.about
        digests = "".join(shard.digest() for shard in self.shards)
        return {
            "data": self.name,
            "fingerprint": {"shards": sha256(digests)},
            **{key: about.get(key) for key in ("features", "attributes", "layout")},
            "attribute_names": about.get("attribute_names"),
            **{key: about[key] for key in _MADE_WITH if key in about},
        }


def batch_rows(n_features: int) -> int:
    """Return how many rows of so many features a batch has; nothing else may decide it."""
    return max(1, _BATCH_NUMBERS // max(1, n_features))


def file_digest(path: Path, *what: object) -> str:
    """Return a digest of a file's name, size, time of change, first and last 64 KiB.

    The end of a Parquet file holds size and statistics of each of its parts. A file of many
    gigabytes is not read for it.

    Parameters
    ----------
    path : Path
        The file.
    *what
        Which part of it.
    """
    with reading(path, "a shard"), open(path, "rb") as file:
        status = path.stat()
        ends = [file.read(_SAMPLED_BYTES)]
        file.seek(max(0, status.st_size - _SAMPLED_BYTES))
        ends.append(file.read())
    facts = (path.name, status.st_size, status.st_mtime_ns, *(sha256(end) for end in ends), *what)
    return sha256("|".join(map(str, facts)))


def ranges(n_rows: int, size: int = SHARD_ROWS) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of consecutive shards of so many rows.

    Examples
    --------
    >>> list(ranges(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, n_rows, size):
        yield start, min(start + size, n_rows)
