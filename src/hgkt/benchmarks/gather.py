"""How fast statistics are gathered, beside reading the file alone and the product they need.

No pass over the rows can be faster than reading them, nor than the product XᵀX of the mapped rows:
the slower of the two is the bound.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hgkt.benchmarks._common import Timed, document, timed
from hgkt.calibration.folds import class_folds
from hgkt.data.parquet_shards import ParquetShard, parquet_shards
from hgkt.data.shards import batch_rows
from hgkt.engines import ProcessEngine, SerialEngine, map_tasks
from hgkt.statistics.gathered import GatheredStatistics
from hgkt.statistics.gathering import Recipe, add_shard, gather_shards
from hgkt.statistics.roles import Folds

TARGET = 0.7
"""Of the bound."""

MOST_MB = 1500.0


@dataclass(frozen=True)
class Sizes:
    """What is measured.

    Parameters
    ----------
    n_rows, n_features, n_classes : int
        Of the file.
    n_rounds : int
        How often each thing is timed; the fastest counts.
    n_streamed : int
        Rows to read for the memory: the file again and again.
    seconds : float
        When to stop that at the latest.
    """

    n_rows: int
    n_features: int
    n_classes: int
    n_rounds: int
    n_streamed: int
    seconds: float


FULL = Sizes(16_384, 2048, 200, 3, 2_000_000, 230.0)
QUICK = Sizes(1_024, 64, 10, 1, 4_096, 5.0)


def run(quick: bool = False) -> dict[str, Any]:
    """Time reading, the product and gathering in turn, then stream as many rows as time allows.

    Parameters
    ----------
    quick : bool, default=False
        A tiny file; the figures then mean nothing.

    Returns
    -------
    dict
        ``rates``: rows per second, by the clock and of one core's time; ``share_of_bound``: of
        the slower of reading and the product, in core time; ``streamed``: rows, the process's
        largest memory after the first pass over the file and at the end, and after how many rows
        it last grew; ``partial``: a partial sum's size and what
        adding it to another takes.
    """
    sizes = QUICK if quick else FULL
    with TemporaryDirectory(prefix="hgkt-bench-") as folder, threadpool_limits(1):
        path = write_rows(Path(folder) / "rows.parquet", sizes)
        shards = parquet_shards(path, path.name, sizes.n_rows)
        rates = _rates(path, shards, sizes)
        merging = _merging(shards, Path(folder))
        streamed = _in_own_process(partial(_stream, shards[0], sizes))
    found = {rate["what"]: rate for rate in rates}
    bound = min(found[name]["rows_per_core_s"] for name in ("reading", "product"))
    share = found["gathering"]["rows_per_core_s"] / bound
    results = {
        "sizes": sizes,
        "rates": rates,
        "bound": "reading" if bound == found["reading"]["rows_per_core_s"] else "product",
        "share_of_bound": share,
        "target": TARGET,
        "meets_target": share >= TARGET,
        "streamed": streamed,
        "most_mb": MOST_MB,
        "partial": merging,
    }
    notes = [
        "Parquet of float32 features, not compressed; after the first round it lies in the "
        "system's cache.",
        "One worker on one core. Reading: pyarrow's batches alone. Product: XᵀX in float64 of rows "
        "in memory, by numpy, which computes one triangle. Gathering: hgkt.gather's work, with the "
        "map sqrt+l2; with three class folds it has a product for each of four groups of classes.",
        "The share compares seconds of a core, which a busy machine disturbs least; the fastest "
        "round of each counts.",
        f"The memory is that of a process which reads the file again and again, until "
        f"{sizes.n_streamed:,} rows or {sizes.seconds:g} s.",
    ]
    return document("gather", quick, results, notes, packages=["pyarrow", "scipy"])


def write_rows(path: Path, sizes: Sizes) -> Path:
    """Write a Parquet file of non-negative features and class names, batch by batch."""
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    kind = pa.list_(pa.float32(), sizes.n_features)
    schema = pa.schema({"class": pa.string(), "features": kind})
    step = batch_rows(sizes.n_features)
    with parquet.ParquetWriter(
        path, schema, compression="none", use_dictionary=["class"]
    ) as writer:
        for start in range(0, sizes.n_rows, step):
            n = min(step, sizes.n_rows - start)
            X = np.maximum(rng.standard_normal((n, sizes.n_features), dtype=np.float32), 0.0)
            names = [_name(code) for code in rng.integers(0, sizes.n_classes, n)]
            lists = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), sizes.n_features)
            writer.write_table(pa.table([pa.array(names), lists], schema=schema))
    return path


def _rates(path: Path, shards: list[ParquetShard], sizes: Sizes) -> list[dict[str, Any]]:
    X = next(iter(shards[0].batches()))[0].astype(np.float64)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-30)
    calls: dict[str, tuple[Callable[[], object], int]] = {
        "reading": (partial(_read, path, sizes), sizes.n_rows),
        "product": (partial(_multiply, X, sizes.n_rows), sizes.n_rows // len(X) * len(X)),
        "gathering": (partial(_gather, shards), sizes.n_rows),
        "gathering with folds": (partial(_gather, shards, _folds(sizes)), sizes.n_rows),
    }
    rounds: dict[str, list[Timed]] = {name: [] for name in calls}
    for _ in range(sizes.n_rounds):
        for name, (call, _) in calls.items():
            rounds[name].append(timed(call)[1])
    return [
        {
            "what": name,
            "rows_per_s": calls[name][1] / min(took.wall for took in times),
            "rows_per_core_s": calls[name][1] / max(min(took.cpu for took in times), 1e-9),
        }
        for name, times in rounds.items()
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


def _merging(shards: list[ParquetShard], folder: Path) -> dict[str, float]:
    """Measure what a node of the tree does with each partial sum: read it and add it."""
    statistics = _gather(shards)
    statistics.sources.clear()  # the same rows are added on purpose
    path, saved = timed(partial(statistics.save, folder / "partial.safetensors"))
    merged, took = timed(lambda: statistics.merge(GatheredStatistics.load(path)))
    assert merged.n_instances
    return {"mb": path.stat().st_size / 1e6, "save_s": saved.wall, "load_and_add_s": took.wall}


@dataclass(frozen=True)
class _Pass:
    """One more time the rows of a shard."""

    shard: ParquetShard
    number: int

    @property
    def name(self) -> str:
        return f"{self.shard.name}, pass {self.number}"

    def digest(self) -> str:
        return f"{self.shard.digest()} {self.number}"

    def batches(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        return self.shard.batches()


def _stream(shard: ParquetShard, sizes: Sizes, _: int) -> dict[str, Any]:
    """Gather the rows of a shard again and again; runs in a process of its own."""
    statistics, begun, peaks = Recipe().empty(), time.monotonic(), [0.0]
    grew = 0
    with threadpool_limits(1):
        while statistics.n_instances < sizes.n_streamed:
            add_shard(statistics, _Pass(shard, len(peaks)))
            peaks.append(_peak_mb())
            grew = statistics.n_instances if peaks[-1] > peaks[-2] else grew
            if time.monotonic() - begun > sizes.seconds:
                break
    return {
        "n_rows": statistics.n_instances,
        "gigabytes": statistics.n_instances * sizes.n_features * 4 / 1e9,
        "seconds": time.monotonic() - begun,
        "first_peak_mb": peaks[1],
        "peak_mb": peaks[-1],
        "grew_last_at": grew,
    }


def _peak_mb() -> float:
    """Return the largest memory that this process has held; not its parent's, as getrusage does."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def _in_own_process(function: Any) -> Any:
    with ProcessEngine(1) as engine:
        return next(iter(map_tasks(engine, function, [0])))[1]
