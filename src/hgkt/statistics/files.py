"""Gathered statistics on disk: one safetensors file each, read back to the bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._files import atomic_file
from hgkt._reading import parse_json, reading
from hgkt.exceptions import DataError
from hgkt.statistics.gathered import GatheredStatistics
from hgkt.statistics.tables import SumTables

FORMAT = "hgkt-statistics-1"
_KEY = "hgkt"


def save_statistics(statistics: GatheredStatistics, path: str | Path) -> Path:
    """Write statistics to one file, in one step; see :meth:`GatheredStatistics.save`."""
    arrays: dict[str, NDArray[Any]] = {}
    if statistics.tables is not None:
        statistics.sample.cut(statistics.tables.counts)
        arrays |= statistics.tables.arrays()
    sample = statistics.sample
    arrays |= {
        "sample/X": sample.features,
        "sample/codes": sample.codes.astype(np.int64),
        "sample/priorities": sample.priorities,
    }
    about = {
        "format": FORMAT,
        "classes": list(statistics._rows),
        "feature_maps": statistics.feature_maps,
        "n_folds": statistics.n_folds,
        "roles": list(statistics.roles.items()),
        "squares": statistics.has_squares,
        "sample": sample.limit,
        "seed": statistics.seed,
        "n_features": statistics.n_features,
        "dtype": statistics.dtype.name,
        "sources": statistics.sources,
    }
    with atomic_file(path) as scratch:
        _write(scratch, arrays, json.dumps(about))
    return Path(path)


def _write(path: Path, arrays: dict[str, NDArray[Any]], about: str) -> None:
    """Write a safetensors file in place, one array after another.

    Not the library's own writer: it puts a new file in the place of the scratch, and with it goes
    the lock by which other processes know that the scratch has an owner.
    """
    header: dict[str, Any] = {"__metadata__": {_KEY: about}}
    stop = 0
    for name, array in arrays.items():
        start, stop = stop, stop + array.nbytes
        kind = f"{'F' if array.dtype.kind == 'f' else 'I'}{8 * array.itemsize}"
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [start, stop]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).data)


def load_statistics(path: str | Path) -> GatheredStatistics:
    """Read statistics from a file; see :meth:`GatheredStatistics.load`."""
    from safetensors import safe_open

    with (
        reading(path, "statistics (it is truncated or of another kind)"),
        safe_open(path, framework="numpy") as file,
    ):
        about = parse_json((file.metadata() or {}).get(_KEY, "{}"))
        if not isinstance(about, dict) or about.get("format") != FORMAT:
            raise DataError(f"{path} holds no statistics of this version of hgkt ({FORMAT})")
        return _restored(about, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


def _restored(about: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> GatheredStatistics:
    stats = GatheredStatistics(
        about["feature_maps"], squares=about["squares"], sample=about["sample"], seed=about["seed"]
    )
    stats.n_folds, stats.roles = about["n_folds"], dict(about["roles"])
    stats.sources, width = about["sources"], about["n_features"]
    if not about["classes"]:
        return stats
    stats._dtype = np.dtype(about["dtype"])
    stats._register(about["classes"])
    groups = [stats._group(stats.role(name)) for name in about["classes"]]
    stats.tables = SumTables.restored(arrays, stats.feature_maps, width, stats.has_squares, groups)
    codes = arrays["sample/codes"].astype(np.intp)
    if len(codes):
        X, priorities = arrays["sample/X"], arrays["sample/priorities"]
        if X.shape != (len(codes), width) or priorities.shape != codes.shape:
            raise ValueError(f"the rows kept are of shape {X.shape}")
        stats.sample.take(X, codes, priorities, stats.tables.counts)
    return stats
