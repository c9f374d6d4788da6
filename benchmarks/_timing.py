"""What timings share: the machine, a stopwatch, synthetic data."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from inspect import getfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from hgkt._plain import plain
from hgkt.data.synthetic import class_means
from hgkt.estimators import METHODS
from hgkt.evaluation.records import machine

T = TypeVar("T")


def document(
    name: str,
    quick: bool,
    results: dict[str, Any],
    notes: Sequence[str],
    packages: Sequence[str] = (),
    methods: Sequence[type] = (),
) -> dict[str, Any]:
    """Return what a benchmark's `run` returns: its results and where they were measured.

    Parameters
    ----------
    name : str
        Of the benchmark.
    quick : bool
        Whether the sizes were small, so that the figures mean nothing.
    results : dict
        What was measured; dataclasses and arrays become plain data.
    notes : sequence of str
        What a reader of the figures has to know.
    packages : sequence of str
        Distributions, beside NumPy, whose versions matter.
    methods : sequence of type
        Estimators whose cost was measured: tables show a figure only as long as the method
        computes what it was measured with.

    Examples
    --------
    >>> sorted(document("demo", True, {"seconds": 1.0}, ["Nothing was measured."]))
    ['environment', 'name', 'notes', 'quick', 'seconds']
    """
    environment = {
        "machine": f"{platform.system()} {platform.machine()}",
        "n_cpus": machine()["n_cpus"],
        "n_threads": max((pool["num_threads"] for pool in threadpool_info()), default=1),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "python": platform.python_version(),
        "mathematics": {
            str(METHODS.name_of(kind)): str(getattr(kind, "mathematics_version", 1))
            for kind in methods
        },
        **{package: version(package) for package in ("numpy", *packages)},
    }
    about = {"environment": environment, "notes": list(notes)}
    found: dict[str, Any] = plain({"name": name, "quick": quick, **results, **about})
    return found


@dataclass(frozen=True)
class Timed:
    """How long something took, in seconds: by the clock, and of all threads together."""

    wall: float
    cpu: float


def timed(call: Callable[[], T]) -> tuple[T, Timed]:
    """Call a function once; return its result and how long it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Timed(time.perf_counter() - wall, time.process_time() - cpu)


def in_turns(ways: Mapping[str, Callable[[], Any]], n_rounds: int) -> dict[str, list[Timed]]:
    """Call ways in turn, round by round; return how long every call took."""
    times: dict[str, list[Timed]] = {name: [] for name in ways}
    for _ in range(n_rounds):
        for name, call in ways.items():
            times[name].append(timed(call)[1])
    return times


def fastest(ways: Mapping[str, Callable[[], Any]], n_rounds: int) -> dict[str, Timed]:
    """Return the least that each way took when they were called in turn, round by round."""
    return {
        name: Timed(min(took.wall for took in times), min(took.cpu for took in times))
        for name, times in in_turns(ways, n_rounds).items()
    }


def in_fresh_process(
    measure: Callable[..., dict[str, Any]],
    *arguments: Any,
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Call a function of a module with plain arguments in a process of its own.

    The peak of resident memory never goes down again, so what is measured there must be alone.

    Parameters
    ----------
    measure : callable
        What is called.
    *arguments
        What JSON can say.
    limit : float, optional
        Seconds after which it is given up: `subprocess.TimeoutExpired`.
    environment : mapping, optional
        Variables that are set there besides.
    """
    code = (
        "import json, sys; sys.path.append(sys.argv[1]); "
        f"from {Path(getfile(measure)).stem} import {measure.__name__} as measure; "
        "json.dump(measure(*json.loads(sys.argv[2])), sys.stdout)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), json.dumps(arguments)]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=limit,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def peak_mb() -> float:
    """Return the most memory that this process had resident, in MB; not its parent's."""
    if sys.platform == "linux":
        status = Path("/proc/self/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def forget_peak() -> None:
    """Let the peak of `peak_mb` start anew at what is resident now."""
    Path("/proc/self/clear_refs").write_text("5")


def device_name(device: str) -> str:
    """Return what kind of GPU computes; empty where none does."""
    if device == "cpu":
        return ""
    import torch

    return str(torch.cuda.get_device_name())


@dataclass(frozen=True)
class Size:
    """Size of a data set whose classes are all seen."""

    name: str
    n_instances: int
    n_features: int
    n_classes: int
    n_attributes: int


@dataclass(frozen=True)
class Problem:
    """Instances to fit, others to test, and class attributes."""

    X: NDArray[np.float32]
    y: NDArray[np.str_]
    X_test: NDArray[np.float32]
    y_test: NDArray[np.str_]
    class_attributes: dict[str, NDArray[np.float32]]

    def fit(self, model: Any) -> Any:
        """Fit a method on the instances."""
        return model.fit(self.X, self.y, class_attributes=self.class_attributes)


def noisy_rows(rng: np.random.Generator, X: NDArray[np.float32]) -> NDArray[np.float32]:
    """Add noise to rows, each the mean of its class, and cut off what is negative; in place."""
    noise = rng.standard_normal(X.shape, dtype=np.float32)
    noise *= np.float32(0.5)
    X += noise
    return np.maximum(X, 0.0, out=X)


def make_problem(size: Size, n_test: int = 2000) -> Problem:
    """Make non-negative instances whose class means are a smooth map of the class attributes.

    Parameters
    ----------
    size : Size
        How many of what.
    n_test : int
        How many further instances to test on.
    """
    rng = np.random.default_rng(0)
    attributes = rng.random((size.n_classes, size.n_attributes)).astype(np.float32)
    means = class_means(attributes, size.n_features, seed=0).astype(np.float32)
    names = np.array([f"class {code:05d}" for code in range(size.n_classes)])
    codes = np.arange(size.n_instances + n_test) % size.n_classes
    X = noisy_rows(rng, means[codes])
    n = size.n_instances
    table = dict(zip(names.tolist(), attributes, strict=True))
    return Problem(X[:n], names[codes[:n]], X[n:], names[codes[n:]], table)
