"""Write a report: HTML, Markdown, tables, figures and records into one folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from hgkt.experiments.base import Block, Context, Experiment, FigureBlock, Results, TableBlock
from hgkt.experiments.report.drawings import inline, png_of, svg_of
from hgkt.experiments.report.files import HTML, MARKDOWN, ReportFiles, put_files, tidy_table
from hgkt.experiments.report.html import Page, page_html
from hgkt.experiments.report.markdown import page_markdown
from hgkt.experiments.report.provenance import embedded_records, record_document, text_of
from hgkt.experiments.report.sections import Section, make_sections

TITLE = "Generalized zero-shot learning with HGKT"
LEAD = "Tables and figures of the paper, run again, and what goes beyond it."
CLICK = (
    "Click a number to see the configuration, seed, versions, data checksum and run time of every "
    "run it was made from."
)


def write_report(
    folder: str | Path,
    context: Context,
    experiments: Mapping[str, Experiment],
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
    >>> from hgkt.experiments.tables.zsl import EXPERIMENT
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(folder, Context(data=()), {"table-zsl": EXPERIMENT}, {})
    ...     report.html.read_text().startswith("<!doctype html>")
    True
    """
    folder = Path(folder)
    sections, keys = make_sections(context, experiments, results)
    sections = _unique_names(sections)
    facts = _facts(context, sections, results, keys, run_info or {})
    warnings = _warnings(context, sections)
    contents, drawings, downloads = _block_files(sections, results)
    for key in keys:
        document = record_document(results[key])
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        contents[f"records/{key}.json"] = text.encode()
    page = Page(TITLE, f"{LEAD} {CLICK}", facts, warnings, sections, drawings, downloads, keys,
                embedded_records(results, keys))  # fmt: skip
    contents[MARKDOWN] = page_markdown(TITLE, LEAD, facts, warnings, sections).encode()
    contents[HTML] = page_html(page).encode()
    put_files(folder, contents)
    return ReportFiles(
        folder,
        folder / HTML,
        folder / MARKDOWN,
        *(tuple(folder / name for name in contents if name.startswith(f"{part}/"))
          for part in ("tables", "figures", "records")),
    )  # fmt: skip


def _block_files(
    sections: Sequence[Section], results: Results
) -> tuple[dict[str, bytes], dict[str, str], dict[str, str]]:
    """Return the files of tables and figures, the inline drawings, and the CSV texts."""
    contents: dict[str, bytes] = {}
    drawings: dict[str, str] = {}
    downloads: dict[str, str] = {}
    for section in sections:
        for block in section.blocks:
            if isinstance(block, TableBlock):
                frame = tidy_table(block, results)
                downloads[block.name] = frame.to_csv(index=False)
                contents[f"tables/{block.name}.csv"] = downloads[block.name].encode()
                contents[f"tables/{block.name}.parquet"] = frame.to_parquet(index=False)
            elif isinstance(block, FigureBlock):
                svg, png = svg_of(block.figure), png_of(block.figure)
                drawings[block.name] = inline(block.name, block.title, svg, png)
                downloads[block.name] = block.data.to_csv(index=False)
                contents[f"figures/{block.name}.svg"] = svg.encode()
                contents[f"figures/{block.name}.png"] = png
                contents[f"figures/{block.name}.csv"] = downloads[block.name].encode()
    return contents, drawings, downloads


def _unique_names(sections: Sequence[Section]) -> list[Section]:
    """Make block names safe as file names and ids, and different from each other."""
    taken: set[str] = set()

    def named(block: Block) -> Block:
        if not isinstance(block, TableBlock | FigureBlock):
            return block
        stem = re.sub(r"[^\w-]+", "-", block.name, flags=re.ASCII).strip("-") or "block"
        name = next(
            name
            for number in count(1)
            if (name := stem if number == 1 else f"{stem}-{number}") not in taken
        )
        taken.add(name)
        return replace(block, name=name)

    return [replace(section, blocks=[named(b) for b in section.blocks]) for section in sections]


def _facts(
    context: Context,
    sections: Sequence[Section],
    results: Results,
    keys: Sequence[str],
    run_info: Mapping[str, Any],
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
    if context.missing:
        facts["Not found"] = ", ".join(context.missing)
    facts.update({str(k).replace("_", " ").capitalize(): text_of(v) for k, v in run_info.items()})
    return facts


def _data_words(data: Any) -> str:
    chosen = [part for part in (data.features, data.attributes) if part]
    return f"{data.name} ({', '.join(chosen)})" if chosen else data.name


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _warnings(context: Context, sections: Sequence[Section]) -> list[str]:
    warnings = []
    if context.quick:
        warnings.append(
            "A quick run: small grids and few steps. It shows that everything runs; its numbers "
            "prove nothing."
        )
    if context.missing:
        names = ", ".join(context.missing)
        warnings.append(
            f"These data sets of the paper were not found and are missing here: {names}."
        )
    n_failed = sum(section.n_failed for section in sections)
    if n_failed:
        warnings.append("Some runs failed; they are marked, and a click on the mark says why.")
    return warnings
