"""What `hgkt evaluate` says of confidence: two small tables, and a drawing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.box import SIMPLE
from rich.table import Table

from hgkt._files import check_writable, write_file
from hgkt._plain import plain
from hgkt.cli._common import out
from hgkt.exceptions import DataError

RejectOption = Annotated[
    float | None,
    typer.Option(
        "--reject",
        metavar="SHARE",
        help="Answer “unknown” where a row looks like no known class; so many rows of known "
        "classes may be rejected by mistake, e.g. 0.05.",
        show_default=False,
    ),
]
CoverageOption = Annotated[
    float | None,
    typer.Option(
        "--coverage",
        metavar="SHARE",
        help="Also give the classes among which the true one is, so often, e.g. 0.9.",
        show_default=False,
    ),
]
_GROUPS = {"confidence_seen": "seen rows", "confidence_unseen": "unseen rows"}
_UNKNOWN = {
    "auroc": "AUROC",
    "auroc_softmax": "softmax",
    "auroc_mahalanobis": "Mahalanobis",
    "rejected_known": "known rejected",
    "rejected_unknown": "unknown rejected",
    "oscr": "OSCR",
    "oscr_softmax": "softmax",
}


def confidence_document(record: Any) -> dict[str, Any]:
    """Return ``confidence_seen``, ``confidence_unseen`` and ``unknown`` of a run record."""
    parts = {name: getattr(record, name) for name in (*_GROUPS, "unknown")}
    return {name: None if part is None else plain(asdict(part)) for name, part in parts.items()}


def print_confidence(runs: list[dict[str, Any]]) -> None:
    """Print the tables, means over runs; nothing where there is no confidence."""
    from hgkt.evaluation.confidence import COLUMNS

    if runs[0]["confidence_seen"] is None:
        return
    table = _table("confidence (%, log loss and sizes apart)", COLUMNS)
    for name, words in _GROUPS.items():
        table.add_row(words, *_means([run[name] for run in runs], COLUMNS))
    out.print(table)
    if runs[0]["unknown"] is not None:
        first = runs[0]["unknown"]
        table = _table(f"{first['n_unknown']} classes never added (%)", _UNKNOWN)
        table.add_row(first["score"], *_means([run["unknown"] for run in runs], _UNKNOWN))
        out.print(table)


def check_drawing(path: Path) -> None:
    """Refuse a file that could not be written, or is of a kind that is not drawn."""
    if path.suffix not in (".png", ".svg"):
        raise DataError(f"--risk draws .png or .svg files; got {str(path)!r}")
    check_writable(path.parent)


def draw_risk(run: dict[str, Any], path: Path) -> None:
    """Write the drawing of one run."""
    from hgkt.experiments import style
    from hgkt.experiments.confidence import GROUPS, draw_confidence

    if run["confidence_seen"] is None:
        raise DataError(
            "--risk has nothing to draw: without selection or calibration on validation classes "
            "the model has no thresholds"
        )
    drawing = draw_confidence({words: run[name] for name, words in GROUPS.items()})
    if path.suffix == ".svg":
        write_file(path, style.svg_of(drawing))
    else:
        write_file(path, style.png_of(drawing))


def _table(title: str, columns: dict[str, str]) -> Table:
    table = Table(title=title, box=SIMPLE, pad_edge=False)
    table.add_column("")
    for words in columns.values():
        table.add_column(words, justify="right")
    return table


def _means(parts: list[dict[str, Any]], columns: dict[str, str]) -> list[str]:
    return [
        f"{np.mean([part[name] for part in parts]):.{2 if 'log' in name else 1}f}"
        for name in columns
    ]
