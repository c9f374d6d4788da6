"""The report: one HTML page that needs nothing else, and the same as Markdown, tables, images."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd

from hgkt._files import escape_frame, sha256
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
from hgkt.experiments.claims import CLAIMS, Claim
from hgkt.experiments.plan import Context, DataSpec, Results
from hgkt.experiments.report.pages import ClaimRow, Section, head_text, render_page, value_text
from hgkt.experiments.report.provenance import embedded_records, record_document, text_of
from hgkt.experiments.style import inline, png_of, svg_of

TITLE = "Generalized zero-shot learning with HGKT"
LEAD = "Tables and figures of the paper, run again, and what goes beyond it."

_QUICK = (
    "A quick run: small grids and few steps. It shows that everything runs; its numbers prove "
    "nothing."
)
_MISSING = "Data sets of the paper that were not found and are missing everywhere below"


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
        Where the report goes; made if it is not there.
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
    planned = [key for outcome in outcomes.values() for key in outcome.planned]
    shown = [key for s in sections for block in s.blocks for key in _keys_of(block)]
    shown += [key for s in sections for claim in s.claims for key in claim.judgement.keys]
    keys = [key for key in dict.fromkeys([*planned, *shown]) if key in results]
    contents, drawings, downloads = _block_files(sections)
    for key in keys:
        contents[f"records/{key}.json"] = json_text(record_document(results[key]), 1).encode()
    parts = {
        "title": TITLE,
        "lead": LEAD,
        "facts": _facts(context, results, keys, run_info or {}),
        "warnings": _warnings(context, sections),
        "sections": sections,
        "drawings": drawings,
        "downloads": downloads,
        "records": embedded_records(results, keys),
    }
    for name in (MARKDOWN, HTML):
        contents[name] = render_page(name, keys, **parts).encode()
    put_files(folder, contents)
    folders = [
        tuple(folder / name for name in contents if name.startswith(f"{part}/"))
        for part in ("tables", "figures", "records")
    ]
    return ReportFiles(folder, folder / HTML, folder / MARKDOWN, *folders)


def _section(name: str, experiment: Experiment, outcome: Outcome, taken: set[str]) -> Section:
    """Render an experiment; one that breaks is a section that says so."""
    try:
        if outcome.context.data:
            blocks = list(experiment.render(outcome))
        else:
            blocks = [TextBlock("No data set was found, so there is nothing to show.")]
    except Exception as error:
        # The other experiments took hours: one that cannot be drawn must not take them along.
        why = f"{type(error).__name__}: {error}"
        blocks = [TextBlock(f"This experiment failed and cannot be shown. {why}")]
    claims = [_claim_row(claim, outcome) for claim in CLAIMS.get(name, ())]
    n_planned = len(outcome.planned)
    n_done, n_ran = len(outcome.good(*outcome.plan)), len(outcome.ran(*outcome.plan))
    named = [_named(block, taken) for block in blocks]
    title, about = experiment.title, experiment.about
    return Section(name, title, about, named, n_planned, n_done, n_ran - n_done, claims)


def _claim_row(claim: Claim, outcome: Outcome) -> ClaimRow:
    """Judge a claim; networks of a few steps decide nothing."""
    judgement = claim.judge(outcome)
    if outcome.context.quick:
        judgement = replace(judgement, holds="not judged: a quick run")
    return ClaimRow(claim.sentence, claim.paper, judgement)


def _named(block: Block, taken: set[str]) -> Block:
    """Make the block's name safe as file name and id, and different from those taken."""
    if isinstance(block, TextBlock):
        return block
    stem = re.sub(r"[^\w-]+", "-", block.name, flags=re.ASCII).strip("-") or "block"
    names = (stem if number == 1 else f"{stem}-{number}" for number in count(1))
    name = next(name for name in names if name not in taken)
    taken.add(name)
    return replace(block, name=name)


def _keys_of(block: Block) -> Sequence[str]:
    if isinstance(block, TableBlock):
        values = [item for row in block.rows for item in row if isinstance(item, Value)]
        return [key for item in values for key in item.keys]
    return block.keys if isinstance(block, FigureBlock) else ()


def _block_files(
    sections: Sequence[Section],
) -> tuple[dict[str, bytes], dict[str, str], dict[str, str]]:
    """Return the files of tables and figures, the inline drawings, and the CSV texts."""
    contents: dict[str, bytes] = {}
    drawings: dict[str, str] = {}
    downloads: dict[str, str] = {}
    for block in [block for section in sections for block in section.blocks]:
        if isinstance(block, TableBlock):
            frame = tidy_table(block)
            downloads[block.name] = escape_frame(frame).to_csv(index=False)
            contents[f"tables/{block.name}.csv"] = downloads[block.name].encode()
            contents[f"tables/{block.name}.parquet"] = frame.to_parquet(index=False)
        elif isinstance(block, FigureBlock):
            svg, png = svg_of(block.figure), png_of(block.figure)
            drawings[block.name] = inline(block.name, block.title, svg, png)
            downloads[block.name] = escape_frame(block.data).to_csv(index=False)
            contents[f"figures/{block.name}.svg"] = svg.encode()
            contents[f"figures/{block.name}.png"] = png
            contents[f"figures/{block.name}.csv"] = downloads[block.name].encode()
    return contents, drawings, downloads


def _facts(
    context: Context, results: Results, keys: Sequence[str], run_info: Mapping[str, Any]
) -> dict[str, str]:
    """Return what the head of the report tells of the run."""
    used = [results[key] for key in keys]
    versions = dict.fromkeys(
        str(v) for r in used if (v := (r.versions or r.values.get("versions") or {}).get("hgkt"))
    )
    n_failed = sum(not result.ok for result in used)
    facts = {
        "Data sets": ", ".join(_data_words(data) for data in context.data) or "none found",
        "Seeds": str(context.n_seeds),
        "Runs": f"{len(used)}" + (f", {n_failed} failed" if n_failed else ""),
        "Run time, summed": _duration(sum(result.seconds for result in used)),
        "hgkt": ", ".join(versions) or "–",
        "Written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
    facts.update({str(k).replace("_", " ").capitalize(): text_of(v) for k, v in run_info.items()})
    return facts


def _data_words(data: DataSpec) -> str:
    chosen = [part for part in (data.features, data.attributes) if part]
    return f"{data.name} ({', '.join(chosen)})" if chosen else data.name


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _warnings(context: Context, sections: Sequence[Section]) -> list[str]:
    warnings = []
    if context.quick:
        warnings.append(_QUICK)
    if context.missing:
        warnings.append(f"{_MISSING}: {', '.join(context.missing)}.")
    if any(section.n_failed for section in sections):
        warnings.append("Some runs failed; they are marked, and a click on the mark says why.")
    return warnings


MANIFEST = "report-files.json"
HTML, MARKDOWN = "report.html", "report.md"


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
        CSV and Parquet files; PNG, SVG and CSV files; one JSON file per cell.
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
