"""The report as one HTML page: style, script, figures and records are part of it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from hgkt.experiments.base import Block, FigureBlock, TableBlock, Value
from hgkt.experiments.report.sections import Section, collapsed, column_groups, is_words

# Nothing may be fetched: what the page needs is in it.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_MAX_DOWNLOAD = 300_000
_LONG = 28


@dataclass(frozen=True)
class Page:
    """What the page is made of.

    Parameters
    ----------
    title, lead : str
        Heading and the paragraph below it.
    facts : mapping of str to str
        What is told of the run, in this order.
    warnings : sequence of str
        What a reader must know first.
    sections : sequence of Section
        The experiments.
    drawings : mapping of str to str
        HTML of each figure by block name.
    downloads : mapping of str to str
        CSV text of each table and figure by block name.
    keys : sequence of str
        Keys of the records, in the order in which they are embedded.
    records : str
        The embedded JSON.
    """

    title: str
    lead: str
    facts: Mapping[str, str]
    warnings: Sequence[str]
    sections: Sequence[Section]
    drawings: Mapping[str, str]
    downloads: Mapping[str, str]
    keys: Sequence[str]
    records: str


def page_html(page: Page) -> str:
    """Return the whole page.

    Parameters
    ----------
    page : Page
        What it is made of.
    """
    numbers = {key: number for number, key in enumerate(page.keys)}
    contents = "".join(
        f'<li><a href="#{escape(s.name)}">{escape(s.title)}</a></li>' for s in page.sections
    )
    facts = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in page.facts.items()
    )
    warnings = "".join(f'<p class="warning">{escape(text)}</p>' for text in page.warnings)
    sections = "\n".join(_section(section, page, numbers) for section in page.sections)
    if not page.sections:
        sections = "<p>No experiment was asked for.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="color-scheme" content="light dark">
<title>{escape(page.title)}</title>
<link rel="icon" href="data:,">
<style>{_asset("style.css")}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<div class="frame">
<nav aria-label="Contents">
<details open><summary>Contents</summary><ol>{contents}</ol></details>
<button type="button" id="theme" aria-label="Light or dark">◐</button>
</nav>
<main id="content">
<header>
<h1>{escape(page.title)}</h1>
<p class="lead">{escape(page.lead)}</p>
{warnings}
<dl class="facts">{facts}</dl>
<noscript><p class="warning">Without JavaScript the numbers cannot be clicked; what each was made
from is in the folder <code>records</code>, by the keys in the CSV tables.</p></noscript>
</header>
{sections}
</main>
</div>
<dialog id="panel" aria-labelledby="panel-title">
<div class="panel-head"><h2 id="panel-title"></h2>
<button type="button" id="close" aria-label="Close">×</button></div>
<div id="panel-body"></div>
</dialog>
<script type="application/json" id="records">{page.records}</script>
<script>{_asset("report.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("hgkt.experiments.report").joinpath(name).read_text(encoding="utf-8")


def _section(section: Section, page: Page, numbers: Mapping[str, int]) -> str:
    state = f'<p class="state">{escape(section.state)}</p>' if section.state else ""
    blocks = "\n".join(_block(block, page, numbers) for block in section.blocks)
    return (
        f'<section id="{escape(section.name)}"><h2>{escape(section.title)}</h2>'
        f'<p class="about">{escape(section.about)}</p>{state}\n{blocks}</section>'
    )


def _block(block: Block, page: Page, numbers: Mapping[str, int]) -> str:
    if isinstance(block, TableBlock):
        body = _table(block, page, numbers)
        if collapsed(block):
            return f"<details><summary>{escape(block.title)}</summary>{body}</details>"
        return body
    if isinstance(block, FigureBlock):
        return _figure(block, page, numbers)
    return f"<p>{escape(block.text)}</p>"


# ---------------------------------------------------------------------- figures
def _figure(block: FigureBlock, page: Page, numbers: Mapping[str, int]) -> str:
    found = [str(numbers[key]) for key in block.keys if key in numbers]
    runs = ""
    if found:
        word = "run" if len(found) == 1 else "runs"
        runs = (
            f'<button type="button" class="runs" data-runs="{" ".join(found)}" '
            f'data-name="{escape(block.title)}">{len(found)} {word} behind this figure</button> · '
        )
    return (
        f'<figure id="block-{escape(block.name)}"><figcaption><b>{escape(block.title)}.</b> '
        f"{escape(block.note)}</figcaption>"
        f'<div class="box" tabindex="0" role="group" aria-label="{escape(block.title)}">'
        f"{page.drawings[block.name]}</div>"
        f'<p class="tools">{runs}{_download(block.name, "figures", page.downloads)} · '
        f'<a href="figures/{escape(block.name)}.png">PNG</a> · '
        f'<a href="figures/{escape(block.name)}.svg">SVG</a></p></figure>'
    )


def _download(name: str, folder: str, downloads: Mapping[str, str]) -> str:
    text, file = downloads[name], escape(f"{name}.csv")
    if len(text) > _MAX_DOWNLOAD:
        return f'<a href="{folder}/{file}">CSV</a>'
    data = base64.b64encode(text.encode()).decode()
    return f'<a download="{file}" href="data:text/csv;base64,{data}">CSV</a>'


# ---------------------------------------------------------------------- tables
def _table(block: TableBlock, page: Page, numbers: Mapping[str, int]) -> str:
    words = {i for i in range(len(block.columns)) if is_words([row[i] for row in block.rows])}
    rows = "\n".join(_row(row, block.columns, words, numbers) for row in block.rows)
    if not block.rows:
        rows = f'<tr><td colspan="{len(block.columns)}">Nothing yet.</td></tr>'
    note = f'<p class="note">{escape(block.note)}</p>' if block.note else ""
    title = "" if collapsed(block) else f"<h3>{escape(block.title)}</h3>"
    name = escape(block.name)
    return (
        f'<div class="table" id="block-{name}">{title}'
        f'<div class="box" tabindex="0" role="group" aria-label="{escape(block.title)}">'
        f"<table>{_head(block.columns, words)}<tbody>\n{rows}\n</tbody></table></div>{note}"
        f'<p class="tools">{_download(block.name, "tables", page.downloads)} · '
        f'<a href="tables/{name}.parquet">Parquet</a></p></div>'
    )


def _head(columns: Sequence[str], words: set[int]) -> str:
    groups = column_groups(columns)
    if not any(group for group, _ in groups):
        heads = "".join(_th(name, words=i in words) for i, name in enumerate(columns))
        return f"<thead><tr>{heads}</tr></thead>"
    top, below, position = [], [], 0
    for group, names in groups:
        if group:
            span = f' colspan="{len(names)}"' if len(names) > 1 else ""
            top.append(f'<th{span} scope="colgroup" class="group">{escape(group)}</th>')
            below += [_th(name, first=not i) for i, name in enumerate(names)]
        else:
            mark = ' class="words"' if position in words else ""
            top.append(f'<th rowspan="2" scope="col"{mark}>{escape(names[0])}</th>')
        position += len(names)
    return f"<thead><tr>{''.join(top)}</tr><tr>{''.join(below)}</tr></thead>"


def _th(name: str, first: bool = False, words: bool = False) -> str:
    marks = " ".join(["first"] * first + ["words"] * words)
    mark = f' class="{marks}"' if marks else ""
    return f'<th scope="col"{mark}>{escape(name)}</th>'


def _row(
    row: Sequence[Value | str],
    columns: Sequence[str],
    words: set[int],
    numbers: Mapping[str, int],
) -> str:
    firsts = _first_of_group(columns)
    head = row[0] if isinstance(row[0], str) else row[0].text
    ours = ' class="ours"' if head.startswith("HGKT") else ""
    cells = [f'<th scope="row">{escape(head)}</th>']
    for position, item in enumerate(row[1:], start=1):
        text = item if isinstance(item, str) else item.text
        marks = ["words"] if position in words else []
        marks += ["long"] if len(text) > _LONG else []
        marks += ["first"] if position in firsts else []
        name = f"{head} · {columns[position]}"
        body = escape(item) if isinstance(item, str) else _value(item, name, numbers)
        mark = f' class="{" ".join(marks)}"' if marks else ""
        cells.append(f"<td{mark}>{body}</td>")
    return f"<tr{ours}>{''.join(cells)}</tr>"


def _failed(item: Value | str) -> bool:
    return isinstance(item, Value) and item.number is None and bool(item.failed)


def _first_of_group(columns: Sequence[str]) -> set[int]:
    firsts, position = set(), 0
    for group, names in column_groups(columns):
        if group:
            firsts.add(position)
        position += len(names)
    return firsts


def _value(value: Value, name: str, numbers: Mapping[str, int]) -> str:
    mean, plus, std = value.text.partition(" ± ")
    shown = escape(mean) + (f' <span class="std">± {escape(std)}</span>' if plus else "")
    if value.best:
        shown = f"<b>{shown}</b>"
    if value.failed and value.number is not None:
        shown += '<span class="some-failed" title="some seeds failed">!</span>'
    runs = " ".join(str(numbers[key]) for key in value.keys if key in numbers)
    if runs:
        mark = "value failed" if _failed(value) else "value"
        shown = (
            f'<button type="button" class="{mark}" data-runs="{runs}" '
            f'data-name="{escape(name)}">{shown}</button>'
        )
    if value.published is not None:
        printed = printed_text(value.published)
        shown += f'<span class="paper" title="in the paper">{printed}</span>'
    return shown


def printed_text(published: float) -> str:
    """Return a number of the paper as the paper prints it: counts whole, percents with a decimal.

    Parameters
    ----------
    published : int or float
        The number.

    Examples
    --------
    >>> printed_text(7057), printed_text(0.0), printed_text(0.25)
    ('7,057', '0.0', '0.25')
    """
    if isinstance(published, int):
        return f"{published:,}"
    return f"{published:.1f}" if round(published, 1) == published else f"{published:g}"
