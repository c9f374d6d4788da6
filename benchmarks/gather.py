"""How fast statistics are gathered, beside reading the file alone and the product they need.

No pass over the rows can be faster than reading them, nor than the product XᵀX of the mapped rows:
the slower of the two is the bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from _timing import document, fastest, in_fresh_process, peak_mb, timed
from hgkt.calibration.folds import class_folds
from hgkt.data.shards import SHARD_ROWS, ParquetShard, batch_rows, parquet_shards
from hgkt.engines import SerialEngine
from hgkt.statistics.gathered import Folds, GatheredStatistics
from hgkt.statistics.gathering import Recipe, gather_shards

TARGET = 0.7
"""Of the bound."""

MOST_MB = 1500.0


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Parameters
    ----------
    n_rows, n_features, n_classes : int
        Of the file that is timed.
    n_rounds : int
        How often each thing is timed; the fastest counts.
    n_files, n_file_rows : int
        Files to gather for the memory, and the rows of each.
    """

    n_rows: int
    n_features: int
    n_classes: int
    n_rounds: int
    n_files: int
    n_file_rows: int


FULL = Sizes(16_384, 2048, 200, 3, 31, SHARD_ROWS)
QUICK = Sizes(1_024, 64, 10, 1, 4, 1_024)


def run(quick: bool = False) -> dict[str, Any]:
    """Time reading, the product and gathering in turn, then gather two million rows.

    Their files take 17 GB of the folder for temporary files (``TMPDIR``) while it runs.

    Parameters
    ----------
    quick : bool, default=False
        Tiny files; the figures then mean nothing.

    Returns
    -------
    dict
        ``rates``: rows per second, by the clock and of one core's time; ``share_of_bound``: of
        the slower of reading and the product, in core time; ``streamed``: rows, seconds, the
        largest memory of the process, after how many rows it last grew, and all of it after every
        file; ``partial``: a partial sum's size and what adding it to another takes.
    """
    sizes = QUICK if quick else FULL
    results: dict[str, Any] = {"sizes": sizes, "target": TARGET, "most_mb": MOST_MB}
    with TemporaryDirectory(prefix="hgkt-bench-") as folder, threadpool_limits(1):
        path = write_rows(Path(folder) / "rows.parquet", sizes, sizes.n_rows)
        shards = parquet_shards(path, path.name, sizes.n_rows)
        results["rates"] = _rates(path, shards, sizes)
        results["partial"] = _merging(shards, Path(folder), sizes.n_rounds)
        # Together they fit into no small memory; each has other rows.
        files = [
            write_rows(Path(folder) / f"part-{k:05d}.parquet", sizes, sizes.n_file_rows, seed=1 + k)
            for k in range(sizes.n_files)
        ]
        results["streamed"] = stream_files(files, sizes.n_features)
    rates = {rate["what"]: rate["rows_per_core_s"] for rate in results["rates"]}
    bound = min("reading", "product", key=rates.__getitem__)
    results |= {"bound": bound, "share_of_bound": rates["gathering"] / rates[bound]}
    notes = [
        "Parquet of float32 features, not compressed; after the first round it lies in the "
        "system's cache.",
        "One worker on one core. Reading: pyarrow's batches alone. Product: XᵀX in float64 of rows "
        "in memory, by numpy, which computes one triangle. Gathering: hgkt.gather's work, with the "
        "map sqrt+l2; with three class folds it has a product for each of four groups of classes.",
        "The share compares seconds of a core, which a busy machine disturbs least; the fastest "
        "round of each counts.",
        f"The memory is that of a process which gathers {sizes.n_files} files of "
        f"{sizes.n_file_rows:,} rows as `hgkt.gather` does with one worker and no class folds.",
    ]
    return document("gather", quick, results, notes, packages=["pyarrow", "scipy"])


def write_rows(path: Path, sizes: Sizes, n_rows: int, seed: int = 0) -> Path:
    """Write a Parquet file of non-negative features and class names, batch by batch."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(seed)
    kind = pa.list_(pa.float32(), sizes.n_features)
    schema = pa.schema({"class": pa.string(), "features": kind})
    step = batch_rows(sizes.n_features)
    with parquet.ParquetWriter(
        path, schema, compression="none", use_dictionary=["class"]
    ) as writer:
        for start in range(0, n_rows, step):
            n = min(step, n_rows - start)
            X = np.maximum(rng.standard_normal((n, sizes.n_features), dtype=np.float32), 0.0)
            names = [_name(code) for code in rng.integers(0, sizes.n_classes, n)]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), sizes.n_features)
            writer.write_table(pa.table([pa.array(names), lists], schema=schema))
    return path


def _rates(path: Path, shards: list[ParquetShard], sizes: Sizes) -> list[dict[str, Any]]:
    X = next(iter(shards[0].batches()))[0].astype(np.float64)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)
    calls: dict[str, Callable[[], object]] = {
        "reading": partial(_read, path, sizes),
        "product": partial(_multiply, X, sizes.n_rows),
        "gathering": partial(_gather, shards),
        "gathering with folds": partial(_gather, shards, _folds(sizes)),
    }
    n_rows = dict.fromkeys(calls, sizes.n_rows)
    n_rows["product"] -= sizes.n_rows % len(X)
    return [
        {
            "what": name,
            "rows_per_s": n_rows[name] / took.wall,
            "rows_per_core_s": n_rows[name] / max(took.cpu, 1e-9),
        }
        for name, took in fastest(calls, sizes.n_rounds).items()
    ]


def _read(path: Path, sizes: Sizes) -> int:
    from pyarrow import parquet

    with parquet.ParquetFile(path) as file:
        batches = file.iter_batches(batch_rows(sizes.n_features), use_threads=False)
        return sum(len(batch) for batch in batches)


def _multiply(X: NDArray[np.float64], n_rows: int) -> NDArray[np.float64]:
    total = np.zeros((X.shape[1], X.shape[1]))
    for _ in range(n_rows // len(X)):
        total += X.T @ X
    return total


def _gather(shards: list[ParquetShard], folds: Folds = ()) -> GatheredStatistics:
    return gather_shards(shards, Recipe(folds=folds), engine=SerialEngine())


def _folds(sizes: Sizes) -> Folds:
    names = np.array([_name(code) for code in range(sizes.n_classes)])
    return tuple((tuple(train), tuple(val)) for train, val in class_folds(names, 3, None, 0))


def _name(code: int) -> str:
    return f"class {code:05d}"


def _merging(shards: list[ParquetShard], folder: Path, n_rounds: int) -> dict[str, float]:
    """Measure what a node of the tree does with each partial sum: read it and add it."""
    statistics = _gather(shards)
    statistics.sources.clear()  # the same rows are added on purpose
    path = folder / "partial.safetensors"
    statistics.save(path)
    added = [
        timed(lambda: statistics.merge(GatheredStatistics.load(path)))[1] for _ in range(n_rounds)
    ]
    return {
        "mb": path.stat().st_size / 1e6,
        "load_and_add_s": min(took.wall for took in added),
    }


# ---------------------------------------------------------------------- memory
def stream_files(files: Sequence[Path], n_features: int) -> dict[str, Any]:
    """Gather Parquet files in a process of its own and follow its memory.

    Parameters
    ----------
    files : sequence of path
        The files, each one shard.
    n_features : int
        Width of their rows, of float32.

    Returns
    -------
    dict
        ``n_rows``, ``gigabytes``, ``peak_mb``, ``grew_last_at`` in rows, and ``points``: rows,
        CPU seconds and the peak after every file and at the end.
    """
    points = in_fresh_process(gather_files, *map(str, files))["points"]
    last = points[-1]
    return {
        "n_rows": last["n_rows"],
        "gigabytes": last["n_rows"] * n_features * 4 / 1e9,
        "peak_mb": last["peak_mb"],
        "grew_last_at": next(p["n_rows"] for p in points if p["peak_mb"] == last["peak_mb"]),
        "points": points,
    }


def gather_files(*files: str) -> dict[str, Any]:
    """Return what the process says after each file, and once more at its end."""
    shards = [shard for path in map(Path, files) for shard in parquet_shards(path, path.name)]
    n_rows = list(accumulate(shard.n_rows for shard in shards))
    points: list[dict[str, float]] = []

    def tell(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        took = {"cpu_seconds": time.process_time(), "peak_mb": peak_mb()}
        points.append({"n_rows": n_rows[done - 1], **took})

    with threadpool_limits(1):
        gather_shards(shards, Recipe(), engine=SerialEngine(), progress=tell)
    tell("gather", len(shards), len(shards), {})  # the last sums are added after the last file
    return {"points": points}
