"""Run one of the timings behind the claims on this machine and show what it measured.

    python benchmarks/run.py add-class --quick
    python benchmarks/run.py suite --device cuda --json

Each is a module of this folder with a function `run`. With --json the record is printed that
docs/results/bench keeps; without it, tables.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import pandas as pd

from _script import arguments, without_installation

NAMES = (
    "predict", "representatives", "network", "add-class", "gather", "fit", "suite", "serve",
)  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    """Run the timing that is asked for."""
    parser = arguments(__doc__, root=False)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it runs")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where it computes")
    parser.add_argument("--json", action="store_true", help="print the record as JSON")
    args = parser.parse_args(given)
    without_installation()
    module = import_module(args.name.replace("-", "_"))
    print(f"{args.name}: {(module.__doc__ or '').splitlines()[0]}", file=sys.stderr)
    known = signature(module.run).parameters
    if args.device is not None and "device" not in known:
        parser.error(f"the benchmark {args.name!r} has no choice of --device; leave it out")
    options = {} if args.device is None else {"device": args.device}
    result = module.run(quick=args.quick, **options)
    from hgkt._plain import json_text

    if args.json:
        print(json_text(result, indent=1))
    else:
        _show(result)


def _show(result: dict[str, Any]) -> None:
    for key, value in result.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = pd.DataFrame(value).to_string(index=False, float_format="{:.4g}".format)
            print(f"\n{key}\n{rows}")
        else:
            for item in value if isinstance(value, list) else [value]:
                print(f"{key}: {item}")


if __name__ == "__main__":
    main()
