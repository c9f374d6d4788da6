"""What every method costs on CUB with its default parameters, each in a process of its own.

python benchmarks/costs.py --root DATA [--methods a,b] [--limit 300] [--out FILE]
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from _script import FEATURES, ONE_THREAD, arguments, write_record
from _timing import forget_peak, in_fresh_process, peak_mb, timed
from hgkt.data import load_dataset
from hgkt.estimators.methods import attribute_methods, build_method
from page_tables.records import mathematics

DATA = "CUB"
_MIB = 2**20 / 1e6  # in MB
_LEAST_SECONDS = 1.0  # a shorter prediction is repeated


def _build(method: str, **more: Any) -> Any:
    return build_method(method, random_state=0, device="cpu", **more)


def _warm_up(method: str) -> None:
    """Fit a few rows for one step: imports and lazy set-up belong to no method's cost."""
    digits = load_dataset("digits")
    X, y = digits.rows("train")
    model = _build(method, n_steps=1, n_epochs=1)
    model.fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes)).predict(X[:2])


def measure(method: str, root: str) -> dict[str, Any]:
    """Fit, add and predict in this process; return seconds, images per second and MiB."""
    _warm_up(method)
    dataset = load_dataset(DATA, root=root, features=FEATURES[DATA])
    X, y = dataset.rows("train")
    seen, unseen = (
        dataset.attributes_of(classes) for classes in (dataset.seen_classes, dataset.unseen_classes)
    )
    tests = [dataset.rows(part)[0] for part in ("test_seen", "test_unseen")]
    model = _build(method)
    forget_peak()
    loaded = peak_mb()
    _, fit = timed(lambda: model.fit(X, y, class_attributes=seen))
    cost: dict[str, Any] = {"mathematics": mathematics(method)}
    cost |= {"fit_cpu_s": fit.cpu, "fit_wall_s": fit.wall}
    cost["fit_peak_mib"] = (peak_mb() - loaded) / _MIB
    *first, last = unseen
    model.add_classes({name: unseen[name] for name in first})
    added = timed(lambda: model.add_classes({last: unseen[last]}))[1]
    cost["add_class_cpu_s"] = added.cpu
    n_rows, cpu, wall = 0, time.process_time(), time.perf_counter()
    while n_rows == 0 or time.perf_counter() - wall < _LEAST_SECONDS:
        for rows in tests:
            n_rows += len(model.predict(rows))
    cost["images_per_cpu_s"] = n_rows / (time.process_time() - cpu)
    cost["peak_mib"] = (peak_mb() - loaded) / _MIB
    return cost


def measure_apart(method: str, root: str, limit: float) -> dict[str, Any]:
    """Measure in a fresh process; what needs more than `limit` seconds is given up."""
    try:
        return in_fresh_process(measure, method, root, limit=limit, environment=ONE_THREAD)
    except subprocess.TimeoutExpired:
        return {"skipped": f"more than {limit:.0f} s"}
    except subprocess.CalledProcessError as error:
        return {"skipped": error.stderr.strip().splitlines()[-1]}


def main(given: Sequence[str] | None = None) -> None:
    """Measure the methods asked for and write them into the record, beside what it holds."""
    parser = arguments(__doc__, "costs")
    parser.add_argument("--methods", default="", help="comma-separated; by default all")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds a method may take")
    args = parser.parse_args(given)
    methods = json.loads(args.out.read_text())["methods"] if args.out.is_file() else {}
    for method in args.methods.split(",") if args.methods else attribute_methods():
        methods[method] = measure_apart(method, args.root, args.limit)
        print(f"{method}: {methods[method]}", file=sys.stderr)
        write_record(args.out, {"data": DATA, "features": FEATURES[DATA], "methods": methods})


if __name__ == "__main__":
    main()
