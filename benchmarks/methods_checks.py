"""Methods selected or set otherwise than in methods.py, to see what that alone changes on CUB.

python benchmarks/methods_checks.py --root DATA [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

DATA, FEATURES = "CUB", "efflite2"


@dataclass(frozen=True)
class Check:
    """One method with one thing changed."""

    method: str
    change: str
    params: dict[str, Any] = field(default_factory=dict)
    metric: str = "auto"
    calibrate: bool | str = "auto"
    select: bool = True

    @property
    def key(self) -> str:
        """What tells its record from others."""
        return json.dumps([self.method, self.change])


BY_AUSUC, BY_ZSL = "selected by AUSUC, with γ", "selected by ZSL"
OWN = {"seen_parameters": "empirical"}
CHECKS = [
    Check("gfzsl", "own mean and variance for seen classes", OWN),
    Check("gfzsl", "own mean and variance, default ridges, nothing selected", OWN, select=False),
    Check("gfzsl", BY_AUSUC, calibrate=True),
    Check("ridge", BY_AUSUC, calibrate=True),
    Check("iap", BY_ZSL, metric="zsl"),
    Check("conse", BY_ZSL, metric="zsl"),
    Check("ale", BY_AUSUC, calibrate=True),
    Check("sync", BY_ZSL, metric="zsl"),
    Check("sync", BY_AUSUC, calibrate=True),
    Check("eszsl", BY_AUSUC, calibrate=True),
    Check("sje", BY_AUSUC, calibrate=True),
]


def main() -> None:
    """Run what the file does not hold yet and append the records."""
    from hgkt.data import load_dataset
    from hgkt.estimators import METHODS
    from hgkt.evaluation import evaluate

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", type=Path, default=Path("docs/results/methods_checks.jsonl"))
    args = parser.parse_args()
    lines = args.out.read_text().splitlines() if args.out.is_file() else []
    done = {json.loads(line)["key"] for line in lines}
    dataset = load_dataset(DATA, root=args.root, features=FEATURES)
    for check in CHECKS:
        if check.key in done:
            continue
        model = METHODS.load(check.method)().set_params(**check.params)
        if "random_state" in model.get_params():
            model.set_params(random_state=0)
        record = evaluate(
            model,
            dataset,
            select=check.select,
            metric=check.metric,
            calibrate=check.calibrate,
        )
        row = {"key": check.key, "label": check.method, "change": check.change, **record.to_dict()}
        with args.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        m = record.metrics
        note = f"H {m.H:.1f} ZSL {m.zsl:.1f} AUSUC {m.ausuc:.1f}"
        print(f"{check.method}, {check.change}: {note}", file=sys.stderr)


if __name__ == "__main__":
    main()
