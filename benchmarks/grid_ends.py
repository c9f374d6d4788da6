"""What lies past the end of a grid, where selection chose its last value.

    python benchmarks/grid_ends.py --root DATA [--data CUB,AWA1] [--methods exem,sse] [--out FILE]

For every method whose record of seed 0 in docs/results/cells holds a value that ends its grid, the
grid goes on by two steps, with all that was chosen as it is. What counts is the AUSUC on the
validation classes of the same folds; no test row is read. Rows of methods that are not asked for
stay as they are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from _script import FEATURES, RESULTS, arguments, one_thread, write_record
from hgkt.data import GZSLDataset, load_dataset
from hgkt.estimators.methods import attribute_methods
from hgkt.evaluation.selection import ClassFoldSearch
from hgkt.experiments.plan import Cell, DataSpec, build_estimator
from page_tables.methods import at_ends, beyond, numbers_tried
from page_tables.records import Records, mathematics
from page_tables.shown import main as main_row


def results(data: GZSLDataset, method: str) -> Iterator[dict[str, Any]]:
    """Yield a row per end: the numbers tried and the validation AUSUC of each, by fold too."""
    runs = Records(RESULTS).runs(main_row(data.name, method))
    if not runs:
        return
    chosen = {name: v for name, v in runs[0]["selected"].items() if name != "calibration"}
    tried = numbers_tried(method)
    for name in at_ends(tried, chosen):
        numbers = [chosen[name], *beyond(tried[name], chosen[name])]
        row = {"data": data.name, "method": method, "mathematics": mathematics(method)}
        yield {**row, "parameter": name, "tried": _scores(data, method, chosen, name, numbers)}


def _scores(
    data: GZSLDataset, method: str, chosen: dict[str, Any], name: str, numbers: list[float]
) -> list[dict[str, Any]]:
    cell = Cell("evaluate", DataSpec(data.name, data.name), method, params=chosen)
    search = ClassFoldSearch(
        build_estimator(cell, data), stages=[{name: numbers}], calibrate=False, random_state=0
    )
    X, y = data.rows("train")
    search.fit(X, y, data.attributes_of(data.seen_classes), folds=data.class_folds() or None)
    return [
        {"value": found.params[name], "ausuc": found.mean, "folds": list(found.values)}
        for found in search.cv_results_
    ]


def main() -> None:
    """Run what is asked for and renew its rows in the record."""
    parser = arguments(__doc__, "grid_ends")
    parser.add_argument("--data", default="CUB,AWA1", help="sets, joined by commas")
    parser.add_argument("--methods", default=",".join(attribute_methods()), help="joined by commas")
    args = parser.parse_args()
    one_thread()
    rows = json.loads(args.out.read_text("utf-8"))["rows"] if args.out.exists() else []
    for name in args.data.split(","):
        data = load_dataset(name, root=args.root, features=FEATURES[name])
        for method in args.methods.split(","):
            found = list(results(data, method))
            for row in found:
                areas = ", ".join(f"{one['value']:g}: {one['ausuc']:.2f}" for one in row["tried"])
                print(f"{name} {method} {row['parameter']} {areas}", file=sys.stderr)
            rows = [row for row in rows if (row["data"], row["method"]) != (name, method)] + found
            write_record(args.out, {"rows": rows})


if __name__ == "__main__":
    main()
