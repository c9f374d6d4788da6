"""The report: one HTML page that needs nothing else, and the same as Markdown, tables, images."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from hgkt._files import escape_frame
from hgkt._plain import json_text
from hgkt.exceptions import DataError
from hgkt.experiments.blocks import (
    Block,
    Experiment,
    FigureBlock,
    Outcome,
    Plan,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.claims import CLAIMS
from hgkt.experiments.plan import CellResult, Context, Results
from hgkt.experiments.report.pages import (
    Section,
    embedded_records,
    head_text,
    parameter_text,
    render_page,
    value_text,
)
from hgkt.experiments.style import png_of, svg_of

TITLE = "Generalized zero-shot learning with HGKT"
LEAD = "Tables and figures of the paper, run again, and what goes beyond it."

_QUICK = (
    "A quick run: small grids and few steps. It shows that everything runs; its numbers prove "
    "nothing."
)
_MISSING = "Data sets of the paper that were not found and are missing everywhere below"
_FAILED = "Some runs failed; they are marked, and a click on the mark says why."

MANIFEST = "report-files.json"
HTML, MARKDOWN = "report.html", "report.md"


@dataclass(frozen=True)
class ReportFiles:
    """Where a report is.

    Parameters
    ----------
    folder : Path
        Holds all of it; ``tables`` as CSV and Parquet, ``figures`` as PNG, SVG and CSV.
    html, markdown : Path
        The report itself.
    """

    folder: Path
    html: Path
    markdown: Path


def write_report(
    folder: str | Path,
    context: Context,
    experiments: Mapping[str, Experiment],
    plans: Mapping[str, Plan],
    results: Results,
    run_info: Mapping[str, Any] | None = None,
) -> ReportFiles:
    """Turn results into a report; one that is in the folder is replaced, other files stay.

    Parameters
    ----------
    folder : path
        Where the report goes; made if it is not there. The page links to the stored results in
        its folder ``cells``.
    context : Context
        What the run is about.
    experiments : mapping of str to Experiment
        By name, in the order of the report.
    plans : mapping of str to plan
        What each of them planned.
    results : mapping
        Results by cell key; cells that failed or never ran are shown as such.
    run_info : mapping, optional
        What else to tell of the run in the head of the report: ``{"command": "…"}``.

    Returns
    -------
    ReportFiles

    Examples
    --------
    >>> import tempfile
    >>> from hgkt.experiments.tables import zsl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(folder, Context(data=()), {"zsl": zsl}, {"zsl": {}}, {})
    ...     report.html.read_text().startswith("<!doctype html>")
    True
    """
    folder, taken = Path(folder), set[str]()
    outcomes = {name: Outcome(context, plans[name], results) for name in experiments}
    sections = [_section(name, experiments[name], outcomes[name], taken) for name in outcomes]
    planned = dict.fromkeys(key for outcome in outcomes.values() for key in outcome.planned)
    used = [results[key] for key in planned if key in results]
    contents, drawings, downloads = _block_files(sections)
    parts = {
        "title": TITLE,
        "lead": LEAD,
        "facts": _facts(context, used, run_info or {}),
        "warnings": _warnings(context, used),
        "sections": sections,
        "drawings": drawings,
        "downloads": downloads,
        "records": embedded_records(used),
    }
    keys = [result.cell.key for result in used]
    for name in (MARKDOWN, HTML):
        contents[name] = render_page(name, keys, **parts).encode()
    put_files(folder, contents)
    return ReportFiles(folder, folder / HTML, folder / MARKDOWN)


def _section(name: str, experiment: Experiment, outcome: Outcome, taken: set[str]) -> Section:
    """Render an experiment; one that breaks is a section that says so."""
    blocks: Sequence[Block] = [TextBlock("No data set was found, so there is nothing to show.")]
    try:
        if outcome.context.data:
            blocks = experiment.render(outcome)
    except Exception as error:
        # The other experiments took hours: one that cannot be drawn must not take them along.
        why = f"{type(error).__name__}: {error}"
        blocks = [TextBlock(f"This experiment failed and cannot be shown. {why}")]
    judgements = [claim.judge(outcome) for claim in CLAIMS.get(name, ())]
    if outcome.context.quick:  # networks of a few steps decide nothing
        judgements = [replace(found, holds="not judged: a quick run") for found in judgements]
    named = [_named(block, taken) for block in blocks]
    return Section(name, experiment.title, experiment.about, named, _state(outcome), judgements)


def _state(outcome: Outcome) -> str:
    """Return in words how far an experiment is; empty where all is well."""
    ran, n_planned = outcome.ran(*outcome.plan), len(outcome.planned)
    n_failed, n_absent = sum(not result.ok for result in ran), n_planned - len(ran)
    failed = f"{n_failed} of {n_planned} runs failed" if n_failed else ""
    absent = f"{n_absent} of {n_planned} runs not made" if n_absent else ""
    return ", ".join(filter(None, [failed, absent]))


def _named(block: Block, taken: set[str]) -> Block:
    """Make the block's name safe as file name and id, and different from those taken."""
    if isinstance(block, TextBlock):
        return block
    stem = re.sub(r"[^\w-]+", "-", block.name, flags=re.ASCII).strip("-") or "block"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return replace(block, name=name)


def _block_files(
    sections: Sequence[Section],
) -> tuple[dict[str, bytes], dict[str, str], dict[str, str]]:
    """Return the files of tables and figures, addresses of drawings inside the page, CSV texts."""
    contents: dict[str, bytes] = {}
    drawings: dict[str, str] = {}
    downloads: dict[str, str] = {}
    for block in [block for section in sections for block in section.blocks]:
        if isinstance(block, TextBlock):
            continue
        if isinstance(block, FigureBlock):
            path, frame = f"figures/{block.name}", block.data
            svg, png = svg_of(block.figure).encode(), png_of(block.figure)
            kind, smaller = ("svg+xml", svg) if len(svg) < len(png) else ("png", png)
            content = base64.b64encode(smaller).decode()
            drawings[block.name] = f"data:image/{kind};base64,{content}"
            contents |= {f"{path}.svg": svg, f"{path}.png": png}
        else:
            path, frame = f"tables/{block.name}", tidy_table(block)
            contents[f"{path}.parquet"] = frame.to_parquet(index=False)
        downloads[block.name] = escape_frame(frame).to_csv(index=False)
        contents[f"{path}.csv"] = downloads[block.name].encode()
    return contents, drawings, downloads


def _facts(
    context: Context, used: Sequence[CellResult], run_info: Mapping[str, Any]
) -> dict[str, str]:
    """Return what the head of the report tells of the run."""
    versions = dict.fromkeys(r.versions["hgkt"] for r in used if "hgkt" in r.versions)
    kinds = {d.name: ", ".join(filter(None, [d.features, d.attributes])) for d in context.data}
    sets = [f"{name} ({kind})" if kind else name for name, kind in kinds.items()]
    n_failed = sum(not result.ok for result in used)
    facts = {
        "Data sets": ", ".join(sets) or "none found",
        "Seeds": str(context.n_seeds),
        "Runs": f"{len(used)}" + (f", {n_failed} failed" if n_failed else ""),
        "Run time, summed": str(timedelta(seconds=round(sum(r.seconds for r in used)))),
        "hgkt": ", ".join(versions) or "–",
        "Written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    told = {name.replace("_", " ").capitalize(): item for name, item in run_info.items()}
    return facts | {name: parameter_text(item) for name, item in told.items()}


def _warnings(context: Context, used: Sequence[CellResult]) -> list[str]:
    missing = f"{_MISSING}: {', '.join(context.missing)}." if context.missing else ""
    failed = "" if all(result.ok for result in used) else _FAILED
    return [words for words in (_QUICK if context.quick else "", missing, failed) if words]


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
    manifest = json_text({"format": "hgkt-report-1", "files": list(contents)}, indent=1)
    everything = {**contents, MANIFEST: manifest.encode()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        before = _listed(folder)
        with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as scratch:
            for name, data in everything.items():
                place = Path(scratch, name)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            for name in sorted(everything, key=lambda name: name == HTML):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(Path(scratch, name), folder / name)
        for name in before - set(everything):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise DataError(f"cannot write the report to {folder}: {error.strerror}") from error


def _listed(folder: Path) -> set[str]:
    """Return the files that an earlier report wrote; a damaged list names none."""
    names: set[str] = set()
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        names = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"])
    # Whatever the list says, nothing outside the folder is touched.
    return {name for name in names if not Path(name).is_absolute() and ".." not in Path(name).parts}
