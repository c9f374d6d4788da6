"""The files of a report: tidy tables, and how a folder gets them without ever being half new."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hgkt._files import sha256
from hgkt._plain import json_text
from hgkt.exceptions import DataError
from hgkt.experiments.blocks import TableBlock, Value
from hgkt.experiments.report.pages import head_text, value_text

MANIFEST = "report-files.json"
HTML, MARKDOWN, BIBTEX = "report.html", "report.md", "references.bib"


@dataclass(frozen=True)
class ReportFiles:
    """Where a report is.

    Parameters
    ----------
    folder : Path
        Holds all of it.
    html, markdown : Path
        The report itself.
    tables, figures, records : tuple of Path
        CSV, Parquet and LaTeX files; PNG, SVG and CSV files; one JSON file per cell.
    """

    folder: Path
    html: Path
    markdown: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    records: tuple[Path, ...]


def tidy_table(block: TableBlock) -> pd.DataFrame:
    """Return one row per value: where it stands, mean, std, published, seeds and cell keys.

    Parameters
    ----------
    block : TableBlock
        The table.

    Returns
    -------
    DataFrame
        Columns ``table``, ``row``, ``column``, ``text``, ``mean``, ``std``, ``published``,
        ``n_seeds``, ``best``, ``failed``, ``keys`` (separated by spaces).

    Examples
    --------
    >>> block = TableBlock("t", "T", ["Method", "CUB"], [["DEM", Value(1.5, n=1)]])
    >>> tidy_table(block)[["row", "column", "mean", "n_seeds"]].to_dict("records")
    [{'row': 'DEM', 'column': 'CUB', 'mean': 1.5, 'n_seeds': 1}]
    """
    rows = []
    for line in block.rows:
        first = next((i for i, item in enumerate(line) if isinstance(item, Value)), len(line))
        row = " / ".join(str(item) for item in line[:first] if item)
        for column, item in zip(block.heads, line, strict=True):
            if isinstance(item, Value):
                rows.append((block.name, row, head_text(column), value_text(item), item.mean,
                             item.deviation, item.published, item.n, item.best, item.failed,
                             " ".join(item.keys)))  # fmt: skip
    columns = ["table", "row", "column", "text", "mean", "std", "published", "n_seeds", "best",
               "failed", "keys"]  # fmt: skip
    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({"mean": float, "std": float, "published": float, "n_seeds": int})


def put_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files into `folder`, each in one step, and remove those of an earlier report.

    All are written to a scratch folder first, so that a full disk leaves the old report as it
    was. Files that no report wrote are left alone.

    Parameters
    ----------
    folder : Path
        Made if it is not there.
    contents : mapping of str to bytes
        By path inside the folder; the HTML page is put there last.
    """
    digests = {name: sha256(data) for name, data in contents.items()}
    manifest = json_text({"format": "hgkt-report-1", "files": digests}, indent=1)
    everything = {**contents, MANIFEST: manifest.encode()}
    scratch: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _listed(folder)
        scratch = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
        for name, data in everything.items():
            place = scratch / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        for name in sorted(everything, key=lambda name: name == HTML):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(scratch / name, folder / name)
        for name in before - set(everything):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write the report to {folder}: {error.strerror}") from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _listed(folder: Path) -> set[str]:
    """Return the files that an earlier report wrote; a damaged list names none."""
    names: set[str] = set()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        names = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    # Whatever the list says, nothing outside the folder is touched.
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}
