"""What every method costs on CUB with its default parameters, each in a process of its own.

python benchmarks/costs.py --root DATA [--methods a,b] [--limit 300] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

DATA, FEATURES = "CUB", "efflite2"
PAPER = "hgkt, preset paper, 800 steps"
_MIB = 2**20
_LEAST_SECONDS = 1.0  # a shorter prediction is repeated


def labels() -> list[str]:
    """Return what can be measured: the registered methods and the paper's network."""
    from hgkt.estimators import METHODS

    return ["hgkt", PAPER, *(name for name in METHODS if name != "hgkt")]


def build(label: str) -> Any:
    """Return the estimator of a label with its default parameters and a fixed seed."""
    from hgkt.estimators import METHODS, HGKTClassifier

    if label == PAPER:
        model = HGKTClassifier.from_preset("paper", n_steps=800)
    else:
        model = METHODS.load(label)()
    fixed = {"random_state": 0, "device": "cpu"}
    known = model.get_params()
    return model.set_params(**{name: value for name, value in fixed.items() if name in known})


def _warm_up(label: str) -> None:
    """Fit a few rows for one step: imports and lazy set-up belong to no method's cost."""
    from hgkt.data import load_dataset

    digits = load_dataset("digits")
    X, y = digits.rows("train")
    model = build(label)
    short = {"n_steps": 1, "n_epochs": 1}
    known = model.get_params()
    model.set_params(**{name: value for name, value in short.items() if name in known})
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes)).predict(X[:2])


def _forget_peak() -> None:
    """Let the peak start at what is resident now; without it the loader's own peak would count."""
    Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Return the most bytes this process had resident."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(label: str, root: str) -> dict[str, float]:
    """Fit and predict in this process; return seconds, images a second and bytes."""
    from hgkt.data import load_dataset

    _warm_up(label)
    dataset = load_dataset(DATA, root=root, features=FEATURES)
    X, y = dataset.rows("train")
    seen, unseen = (
        dataset.attributes_of(classes) for classes in (dataset.seen_classes, dataset.unseen_classes)
    )
    tests = [dataset.rows(part)[0] for part in ("test_seen", "test_unseen")]
    model = build(label)
    _forget_peak()
    loaded = _peak()
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(X, y, class_attributes=seen)
    cost = {"fit_cpu_s": time.process_time() - cpu, "fit_wall_s": time.perf_counter() - wall}
    cost["fit_peak_mib"] = (_peak() - loaded) / _MIB
    model.add_classes(unseen)
    n_rows, cpu, wall = 0, time.process_time(), time.perf_counter()
    while n_rows == 0 or time.perf_counter() - wall < _LEAST_SECONDS:
        for rows in tests:
            n_rows += len(model.predict(rows))
    cost["images_per_cpu_s"] = n_rows / (time.process_time() - cpu)
    cost["images_per_wall_s"] = n_rows / (time.perf_counter() - wall)
    cost["peak_mib"] = (_peak() - loaded) / _MIB
    return cost


def measure_apart(label: str, root: str, limit: float) -> dict[str, Any]:
    """Measure in a fresh process; what needs more than `limit` seconds is given up."""
    command = [sys.executable, __file__, "--root", root, "--one", label]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"skipped": f"more than {limit:.0f} s"}
    if done.returncode:
        return {"skipped": done.stderr.strip().splitlines()[-1]}
    return dict(json.loads(done.stdout))


def machine() -> dict[str, Any]:
    """Return what the numbers were measured on."""
    names = [
        line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "processor": names[0] if names else platform.machine(),
        "n_cpus": os.cpu_count(),
        "n_threads": 1,
        "python": platform.python_version(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the methods asked for and write them into the file, beside what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--methods", default="", help="comma-separated; by default all")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a method may take")
    parser.add_argument("--out", type=Path, default=Path("docs/results/costs.json"))
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.one:
        print(json.dumps(measure(args.one, args.root)))
        return
    wanted = args.methods.split(",") if args.methods else labels()
    document: dict[str, Any] = {"data": DATA, "features": FEATURES, "methods": {}}
    if args.out.is_file():
        document = json.loads(args.out.read_text())
    document["machine"] = machine()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for label in wanted:
        document["methods"][label] = measure_apart(label, args.root, args.limit)
        print(f"{label}: {document['methods'][label]}", file=sys.stderr)
        args.out.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
