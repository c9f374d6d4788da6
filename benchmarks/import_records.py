"""Put records of docs/results into the store of a report, so that `hgkt reproduce` has them.

    python benchmarks/import_records.py REPORT --root DATA [--data A,B] [--curves] [RECORDS ...]

A record becomes the result of a planned cell if method, data (by checksum), attributes, seed and
all parameters that were not selected are the same; results that are there stay as they are.
Records have no seen–unseen curve: with --curves the recorded setting of the first seed is fitted
again here to draw it, and the recorded area is shown beside the one it has here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hgkt.data import GZSLDataset
from hgkt.estimators.methods import METHODS
from hgkt.experiments import Context, discover
from hgkt.experiments.base import Cell, CellResult, DataSpec
from hgkt.experiments.runner import CELLS, load_experiments
from hgkt.experiments.store import ResultStore
from hgkt.experiments.task_evaluate import evaluate_cell
from hgkt.experiments.tasks import build_estimator

RESULTS = [Path("docs/results/methods.jsonl"), Path("docs/results/choices.jsonl")]
_EXTRA = ("key", "label", "data_name", "attribute_kind", "seed", "seconds")
# Chosen by the run or told by the machine, not asked for.
_OPEN = {"device", "calibration"}


def records(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the successful records of several files."""
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if "error" not in record:
                yield record


def fits(record: dict[str, Any], cell: Cell, dataset: GZSLDataset) -> bool:
    """Tell whether a record, of the same data, is what the cell asks for."""
    if (record["method"], record["seed"]) != (cell.method, cell.seed):
        return False
    asked = build_estimator(cell, dataset).get_params()
    # What the cell sets by hand was not to be selected.
    free = (_OPEN | set(record["selected"])) - set(cell.params)
    ran = {k: v for k, v in record["parameters"].items() if k not in free}
    return ran == {k: v for k, v in asked.items() if k not in free}


def curve(record: dict[str, Any], cell: Cell, dataset: GZSLDataset) -> dict[str, NDArray[Any]]:
    """Fit a record's setting again and return its seen–unseen curve, as the task would."""
    known = build_estimator(cell, dataset).get_params()
    chosen = {name: value for name, value in record["selected"].items() if name in known}
    again = replace(cell, params=chosen, options={"select": False})
    values, arrays = evaluate_cell(again, dataset)
    areas = f"{record['metrics']['ausuc']:.2f}, here {values['metrics']['ausuc']:.2f}"
    print(f"{cell.label}: AUSUC {areas}", flush=True)
    return arrays


def main() -> None:
    """Match records with planned cells and store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("records", type=Path, nargs="*", default=RESULTS)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--data", default="CUB,AWA1")
    parser.add_argument("--curves", action="store_true")
    args = parser.parse_args()
    found = discover(args.root, args.data.split(","))
    context = Context(found.data, found.missing, methods=list(METHODS))
    store = ResultStore(args.report / CELLS)
    known = list(records(args.records))
    loaded: dict[DataSpec, tuple[GZSLDataset, list[dict[str, Any]]]] = {}
    taken = 0
    planned = {c.key: c for e in load_experiments().values() for c in e.plan(context)}
    for cell in planned.values():
        if cell.task != "evaluate" or dict(cell.options) != {"select": True} or store.get(cell):
            continue
        if cell.data not in loaded:
            dataset = cell.data.load()
            digest = dataset.fingerprint()
            of_it = [r for r in known if r["data"]["fingerprint"] == digest]
            loaded[cell.data] = dataset, of_it
        dataset, of_it = loaded[cell.data]
        record = next((r for r in of_it if fits(r, cell, dataset)), None)
        if record is not None:
            values = {k: v for k, v in record.items() if k not in _EXTRA}
            wanted = args.curves and cell.seed == 0 and not cell.params
            arrays = curve(record, cell, dataset) if wanted else {}
            store.put(
                CellResult(cell, values, arrays, seconds=record["seconds"],
                           versions=record["versions"], machine=record["machine"])
            )  # fmt: skip
            taken += 1
    print(f"{taken} of {len(planned)} cells are in the records")


if __name__ == "__main__":
    main()
