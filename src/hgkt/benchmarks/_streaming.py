"""What a process that gathers many files holds in memory, file by file."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import accumulate
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from hgkt._typing import Progress
from hgkt.data.shards import parquet_shards
from hgkt.engines import SerialEngine
from hgkt.statistics.gathering import Recipe, gather_shards

Point = dict[str, float]


def stream_files(
    files: Sequence[Path], n_features: int, progress: Progress | None = None
) -> dict[str, Any]:
    """Gather Parquet files in a process of its own and follow its memory.

    Parameters
    ----------
    files : sequence of path
        The files, each one shard.
    n_features : int
        Width of their rows, of float32.
    progress : callable, optional
        Called as ``progress("gather", done, total, values)`` after each file.

    Returns
    -------
    dict
        ``n_rows``, ``gigabytes``, ``seconds``, ``cpu_seconds``, ``peak_mb``, ``grew_last_at`` in
        rows, and ``points``: rows, seconds and the peak after every file and at the end.
    """
    points: list[Point] = []
    for point in _points(files):
        points.append(point)
        if progress is not None:
            done = min(len(points), len(files))
            progress("gather", done, len(files), {"MB": point["peak_mb"]})
    last = points[-1]
    return {
        "n_rows": last["n_rows"],
        "gigabytes": last["n_rows"] * n_features * 4 / 1e9,
        "seconds": last["seconds"],
        "cpu_seconds": last["cpu_seconds"],
        "peak_mb": last["peak_mb"],
        "grew_last_at": next(p["n_rows"] for p in points if p["peak_mb"] == last["peak_mb"]),
        "points": points,
    }


def _points(files: Sequence[Path]) -> Iterator[Point]:
    """Yield what the process says after each file, and once more at its end."""
    context = get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_gather, args=(sending, list(files)), daemon=True)
    process.start()
    sending.close()  # so that the end of the process is the end of what is received
    with receiving:
        while True:
            try:
                yield receiving.recv()
            except EOFError:
                break
    process.join()
    if process.exitcode:
        raise RuntimeError(f"the process that gathers ended with code {process.exitcode}")


def _gather(sending: Connection, files: list[Path]) -> None:
    begun = time.monotonic()
    shards = [shard for path in files for shard in parquet_shards(path, path.name)]
    n_rows = list(accumulate(shard.n_rows for shard in shards))

    def tell(stage: str, done: int, total: int, values: dict[str, float]) -> None:
        sending.send(
            {
                "n_rows": n_rows[done - 1],
                "seconds": time.monotonic() - begun,
                "cpu_seconds": time.process_time(),
                "peak_mb": _peak_mb(),
            }
        )

    with threadpool_limits(1):
        gather_shards(shards, Recipe(), engine=SerialEngine(), progress=tell)
    tell("gather", len(shards), len(shards), {})  # the last sums are added after the last file


def _peak_mb() -> float:
    """Return the largest memory that this process has held; not its parent's, as getrusage does."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
