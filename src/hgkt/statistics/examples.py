"""What is kept of the examples of one class so that it can grow again: sums, and not the rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from hgkt._arrays import MAPS, FeatureMap, batches, check_map, map_rows, power_of
from hgkt.exceptions import DataError, first_line

_VERSION = 1
_CHUNK_ROWS = 2048
_NAMES = {power_of(name): name for name in MAPS}


@dataclass(frozen=True)
class MappedSums:
    """Sums over examples under one feature map φ.

    Parameters
    ----------
    total : ndarray of shape (D,)
        Σ φ(x).
    factor : ndarray of shape (r, D)
        R with RᵀR = Σ φ(x)φ(x)ᵀ and r = min(n, D) rows for n examples. A few examples need a few
        rows, where their second moment would have D².
    """

    total: NDArray[np.float64]
    factor: NDArray[np.float64]

    def merge(self, other: MappedSums) -> MappedSums:
        """Return the sums over the examples of both."""
        stacked = np.concatenate([self.factor, other.factor])
        return MappedSums(self.total + other.total, _triangle(stacked))


@dataclass(frozen=True)
class ExampleSums:
    """Sums over examples of one class: what a class that grows needs of them.

    They are kept under several feature maps, so that a model with other maps, trained later, can
    take the same examples over. Sums of any batches merge, in any order.

    Parameters
    ----------
    n_examples : int
        How many examples were summed.
    maps : mapping of feature map to MappedSums
        The sums under each map. A power that has a name goes by its name.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    >>> first, second = ExampleSums.of(X[:1], ["l2"]), ExampleSums.of(X[1:], ["l2"])
    >>> both = first.merge(second)
    >>> both.n_examples, both.sums_under("l2").total.tolist()
    (3, [1.6, 1.8])
    >>> ExampleSums.from_bytes(both.to_bytes()).n_examples
    3
    """

    n_examples: int
    maps: Mapping[FeatureMap, MappedSums]

    def __post_init__(self) -> None:
        named = {_canonical(kind): sums for kind, sums in self.maps.items()}
        object.__setattr__(self, "maps", named)

    @classmethod
    def of(cls, X: NDArray[Any], feature_maps: Iterable[FeatureMap]) -> ExampleSums:
        """Sum up feature rows (n, D) of one class under some maps."""
        if X.ndim != 2 or not len(X):
            raise DataError(f"examples must be rows of features; got an array of shape {X.shape}")
        kinds = dict.fromkeys(_canonical(kind) for kind in feature_maps)
        return cls(len(X), {kind: _summed(X, kind) for kind in kinds})

    @property
    def n_features(self) -> int:
        """D, the width of the examples."""
        return len(next(iter(self.maps.values())).total)

    def sums_under(self, kind: FeatureMap) -> MappedSums:
        """Return the sums under a feature map; refuse one under which nothing was summed."""
        name = _canonical(kind)
        if name not in self.maps:
            maps = ", ".join(repr(each) for each in self.maps)
            raise DataError(
                f"examples were summed under the feature maps {maps}, not under {name!r}, which "
                "this model uses; give the examples themselves"
            )
        return self.maps[name]

    def merge(self, other: ExampleSums) -> ExampleSums:
        """Return the sums over the examples of both, under the maps that both have."""
        if self.n_features != other.n_features:
            raise DataError(
                f"examples of {other.n_features} features cannot be added to examples of "
                f"{self.n_features}"
            )
        shared = [name for name in self.maps if name in other.maps]
        if not shared:
            raise DataError("the examples were summed under different feature maps, none in common")
        merged = {name: self.maps[name].merge(other.maps[name]) for name in shared}
        return ExampleSums(self.n_examples + other.n_examples, merged)

    def to_bytes(self) -> bytes:
        """Return what `from_bytes` reads: arrays in safetensors' layout, nothing executable."""
        from safetensors.numpy import save

        arrays = {"version": np.array([_VERSION]), "n_examples": np.array([self.n_examples])}
        for name, sums in self.maps.items():
            arrays[f"total/{name}"] = np.ascontiguousarray(sums.total)
            arrays[f"factor/{name}"] = np.ascontiguousarray(sums.factor)
        return bytes(save(arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> ExampleSums:
        """Read what `to_bytes` returned; what is damaged is refused with one sentence."""
        from safetensors import SafetensorError
        from safetensors.numpy import load

        try:
            arrays = load(data)
            if int(_whole(arrays, "version")) != _VERSION:
                raise DataError("they are of another version")
            n_examples = _whole(arrays, "n_examples")
            names = [key.partition("/")[2] for key in arrays if key.startswith("total/")]
            maps = {
                name if name in MAPS else float(name): _read_sums(arrays, name, n_examples)
                for name in names
            }
            if not maps or len(arrays) != 2 + 2 * len(maps):
                raise DataError("they are not complete")
            if len({len(sums.total) for sums in maps.values()}) > 1:
                raise DataError("they have several widths")
            return cls(n_examples, maps)
        except (SafetensorError, DataError, KeyError, ValueError, OverflowError) as error:
            raise DataError(f"stored example sums are damaged: {first_line(error)}") from error


def _summed(X: NDArray[Any], kind: FeatureMap) -> MappedSums:
    """Sum up rows (n, D) under one map, a chunk at a time."""
    total, factor = np.zeros(X.shape[1]), np.zeros((0, X.shape[1]))
    for batch in batches(len(X), _CHUNK_ROWS):
        rows = map_rows(np.asarray(X[batch], dtype=np.float64), kind)
        total += rows.sum(axis=0)
        factor = _triangle(np.concatenate([factor, rows]))
    return MappedSums(total, factor)


def _triangle(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return R (min(n, D), D), upper triangular, with RᵀR = XᵀX for rows X (n, D)."""
    if not len(rows):
        return rows
    factor = scipy.linalg.qr(rows, mode="r", check_finite=False)[0]
    return np.ascontiguousarray(factor[: rows.shape[1]], dtype=np.float64)


def _canonical(kind: FeatureMap) -> FeatureMap:
    check_map("feature_map", kind)
    power = power_of(kind)
    return _NAMES[power] if power in _NAMES else float(kind)


def _whole(arrays: Mapping[str, NDArray[Any]], key: str) -> int:
    """Return a positive whole number that was stored under a key."""
    value = arrays[key]
    if value.shape != (1,) or value.dtype.kind != "i" or value[0] < 1:
        raise DataError(f"{key} is no positive whole number")
    return int(value[0])


def _read_sums(arrays: Mapping[str, NDArray[Any]], name: str, n_examples: int) -> MappedSums:
    total, factor = arrays[f"total/{name}"], arrays[f"factor/{name}"]
    if total.dtype != np.float64 or factor.dtype != np.float64:
        raise DataError(f"the sums under {name!r} are not float64")
    expected = (min(n_examples, total.size), total.size)
    if total.ndim != 1 or not total.size or factor.shape != expected:
        raise DataError(f"the sums under {name!r} have the shapes {total.shape} and {factor.shape}")
    if not (np.isfinite(total).all() and np.isfinite(factor).all()):
        raise DataError(f"the sums under {name!r} hold NaN or infinity")
    return MappedSums(total, factor)
