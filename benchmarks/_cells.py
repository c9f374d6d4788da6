"""Run many evaluations in parallel; records go to one file, and what is there is not rerun."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# One thread a process: cells run side by side.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


@dataclass(frozen=True)
class Cell:
    """One evaluation: a method with some parameters on a data set, with a seed."""

    label: str
    method: str
    data: str
    features: str
    attributes: str = "att"
    seed: int = 0
    preset: str | None = None
    params: dict[str, Any] = field(default_factory=dict)
    n_folds: int | None = None
    calibrate: bool | str = "auto"

    @property
    def key(self) -> str:
        return json.dumps(
            [self.label, self.method, self.data, self.features, self.attributes, self.seed]
        )


def run_cell(cell: Cell, root: str, device: str) -> dict[str, Any]:
    """Evaluate one cell with selection on validation classes; a failure is recorded as such."""
    from hgkt.data import load_dataset
    from hgkt.estimators import METHODS, HGKTClassifier
    from hgkt.evaluation import evaluate

    start = time.perf_counter()
    try:
        dataset = load_dataset(
            cell.data, root=root, features=cell.features, attributes=cell.attributes
        )
        if cell.preset is not None:
            model = HGKTClassifier.from_preset(cell.preset, **cell.params)
        else:
            model = METHODS.load(cell.method)().set_params(**cell.params)
        known = model.get_params()
        blocks = dataset.about["attribute_blocks"]
        extra = {"random_state": cell.seed, "device": device}
        if len(blocks) > 1:
            extra["attribute_blocks"] = blocks
        model.set_params(**{name: value for name, value in extra.items() if name in known})
        record = evaluate(
            model,
            dataset,
            select=True,
            calibrate=cell.calibrate,
            n_folds=cell.n_folds,
            random_state=cell.seed,
        )
        result = record.to_dict()
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"}
    return {"key": cell.key, "label": cell.label, "data_name": cell.data,
            "attribute_kind": cell.attributes, "seed": cell.seed,
            "seconds": time.perf_counter() - start, **result}  # fmt: skip


def run_cells(cells: Sequence[Cell], root: str, out: Path, jobs: int, device: str) -> list[dict]:
    """Run what `out` (JSON lines) does not hold yet; return all records in the cells' order."""
    from joblib import Parallel, delayed

    done = {}
    if out.is_file():
        done = {row["key"]: row for row in map(json.loads, out.read_text().splitlines())}
    missing = [cell for cell in cells if "metrics" not in done.get(cell.key, {})]
    runs = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(run_cell)(cell, root, device) for cell in missing
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    for number, row in enumerate(runs, start=1):
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        done[row["key"]] = row
        note = (
            row.get("error") or f"H {row['metrics']['H']:.1f} AUSUC {row['metrics']['ausuc']:.1f}"
        )
        name = f"{row['label']} {row['data_name']} seed {row['seed']}"
        print(f"{number}/{len(missing)} {name}: {note} ({row['seconds']:.0f} s)", file=sys.stderr)
    return [done[cell.key] for cell in cells]


def markdown(
    rows: Sequence[dict], columns: Sequence[str] = ("zsl", "ts", "tr", "H", "ausuc")
) -> str:
    """Return a table with mean ± standard deviation over seeds, one line a label and data set."""
    import numpy as np

    groups: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        groups.setdefault((row["data_name"], row["label"]), []).append(row)
    lines = ["| data | | " + " | ".join(columns) + " | selected (first seed) |",
             "|---|---|" + "---|" * (len(columns) + 1)]  # fmt: skip
    for (data, label), group in groups.items():
        good = [row["metrics"] for row in group if "metrics" in row]
        if not good:
            lines.append(f"| {data} | {label} | failed: {group[0].get('error')} |")
            continue
        cells = []
        for name in columns:
            values = np.array([metrics[name] for metrics in good])
            spread = (
                f" ± {values.std(ddof=1):.1f}" if len(values) > 1 and values.std() > 0.05 else ""
            )
            cells.append(f"{values.mean():.1f}{spread}")
        chosen = next(row["selected"] for row in group if "metrics" in row)
        text = ", ".join(
            f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in chosen.items()
        )
        lines.append(f"| {data} | {label} | " + " | ".join(cells) + f" | {text} |")
    return "\n".join(lines)
