"""The report as a page: one HTML file that needs nothing else, and the same in Markdown.

The forms are Jinja templates; here is how a number, a head and a text are written.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hgkt._plain import short
from hgkt.estimators.methods import METHODS
from hgkt.experiments.blocks import Block, Column, FigureBlock, TableBlock, Value, number_text
from hgkt.experiments.claims import Judgement
from hgkt.experiments.plan import CellResult

if TYPE_CHECKING:
    from jinja2 import Environment

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


# Parts of a run record that the panel shows under a head of their own, or not at all.
_ELSEWHERE = {
    "data", "format", "machine", "method", "metrics", "parameters", "per_class", "seed", "selected",
    "taken", "taxonomy", "timings", "validation", "versions",
}  # fmt: skip
_MAX_ITEMS = 12


@dataclass(frozen=True)
class Section:
    """One experiment of the report.

    Parameters
    ----------
    name : str
        Of the experiment; the anchor of the section.
    title, about : str
        Heading and paragraph.
    blocks : sequence of Block
        What it shows.
    state : str
        How many of its cells failed or did not run; empty where all is well.
    claims : sequence of Judgement
        What it tests, and what came of it.
    """

    name: str
    title: str
    about: str
    blocks: Sequence[Block]
    state: str
    claims: Sequence[Judgement] = ()


def render_page(template: str, keys: Sequence[str], **parts: Any) -> str:
    """Return a page: ``report.html``, or ``report.md``, where figures are files.

    Parameters
    ----------
    template : str
        Name of its form.
    keys : sequence of str
        Keys of the runs, in the order in which the page has them.
    **parts
        ``title``, ``lead``, ``facts`` of the run, ``warnings``, ``sections``; by the name of a
        block the address of its drawing (``drawings``) and its CSV text (``downloads``); and
        ``records``, what the panel says of the runs.
    """
    numbers = {key: number for number, key in enumerate(keys)}

    def runs(keys: Sequence[str]) -> list[int]:
        return [numbers[key] for key in keys if key in numbers]

    return _environment().get_template(template).render(parts, runs=runs).lstrip()


@lru_cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("hgkt.experiments.report")
    environment = Environment(
        loader=loader,
        autoescape=lambda name: name != "report.md",  # which escapes by its own rules
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "at": lambda place, items: items[place],
        "positions": lambda places, wanted: {i for i, at in enumerate(places) if at in wanted},
        "caption": caption_html,
        "caption_md": caption_markdown,
        "base64": lambda text: base64.b64encode(text.encode()).decode(),
        "groups": head_groups,
        "head": head_text,
        "md": escape_markdown,
        "number": number_text,
        "parts": column_parts,
        "printed": printed_text,
        "text": value_text,
        "word_columns": word_columns,
    }
    environment.tests |= {
        "table": lambda block: isinstance(block, TableBlock),
        "figure": lambda block: isinstance(block, FigureBlock),
    }
    environment.globals["asset"] = lambda name: Markup(loader.get_source(environment, name)[0])
    return environment


# ---------------------------------------------------------------------- numbers and texts
def value_text(value: Value | str) -> str:
    """Return what stands in a table as text.

    Examples
    --------
    >>> value_text(Value(40.5, 0.71)), value_text(Value(failed="no memory")), value_text(Value())
    ('40.5 ± 0.7', 'failed', '–')
    """
    if isinstance(value, str):
        return value
    if value.mean is None:
        return value.words or ("failed" if value.failed else "–")
    mean = number_text(value.mean, value.form)
    if value.deviation is None:
        return mean
    return f"{mean} ± {number_text(value.deviation, value.form)}"


def printed_text(published: float) -> str:
    """Return a number of the paper as the paper prints it: counts whole, percents with a decimal.

    Examples
    --------
    >>> printed_text(7057), printed_text(0.0), printed_text(0.25)
    ('7,057', '0.0', '0.25')
    """
    if isinstance(published, int):
        return f"{published:,}"
    return f"{published:.1f}" if round(published, 1) == published else f"{published:g}"


def escape_markdown(text: str) -> str:
    """Return `text` so that Markdown shows it as it stands, in a table too.

    Examples
    --------
    >>> print(escape_markdown("CMT* | <b>"))
    CMT\\* \\| \\<b\\>
    """
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def caption_html(text: str) -> str:
    """Return a caption, written in Markdown, as HTML; tags in it are shown, not obeyed.

    Examples
    --------
    >>> print(caption_html("*before*: H* of `ridge` <b>"))
    <em>before</em>: H* of <code>ridge</code> &lt;b&gt;
    """
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    return Markup(MarkdownIt("commonmark", {"html": False}).renderInline(" ".join(text.split())))


def caption_markdown(text: str) -> str:
    """Return a caption as Markdown has it; only tags are escaped.

    Examples
    --------
    >>> print(caption_markdown("*before* <b>"))
    *before* \\<b\\>
    """
    return re.sub(r"([<>|])", r"\\\1", " ".join(text.split()))


# ---------------------------------------------------------------------- heads and columns
class HeadGroup(NamedTuple):
    """Neighbouring columns below one head, and the position of the first; or one without."""

    name: str
    start: int
    columns: list[Column]


def head_text(column: Column) -> str:
    """Return a head where heads cannot be grouped."""
    return f"{column.group} · {column.name}" if column.group else column.name


def head_groups(columns: Sequence[Column]) -> list[HeadGroup]:
    """Put neighbours of one group together; columns without one stand alone.

    Examples
    --------
    >>> columns = [Column("Method"), Column("ts", "CUB"), Column("H", "CUB"), Column("H", "AWA1")]
    >>> [(group.name, group.start, len(group.columns)) for group in head_groups(columns)]
    [('', 0, 1), ('CUB', 1, 2), ('AWA1', 3, 1)]
    """
    numbered = groupby(enumerate(columns), key=lambda item: item[1].group or item[0])
    groups = [list(members) for _, members in numbered]
    return [HeadGroup(g[0][1].group, g[0][0], [column for _, column in g]) for g in groups]


def column_parts(block: TableBlock, most: float = 15.0) -> list[list[int]]:
    """Split a wide table by its groups of columns, so that no part is wider than a page.

    Parameters
    ----------
    block : TableBlock
        The table; columns before the first group stand in every part.
    most : float
        Other columns in one part, one with long texts counting more; a group that alone has more
        stays whole.

    Returns
    -------
    list of list of int
        Positions of the columns of each part.

    Examples
    --------
    >>> heads = [Column("Method"), *(Column(m, d) for d in ("CUB", "SUN") for m in ("ts", "H"))]
    >>> column_parts(TableBlock("t", "T", heads, []), most=3)
    [[0, 1, 2], [0, 3, 4]]
    """
    groups = head_groups(block.heads)
    n_fixed = next((place for place, group in enumerate(groups) if group.name), len(groups))
    parts: list[list[int]] = [[]]
    room = most
    for group in groups[n_fixed:]:
        places = range(group.start, group.start + len(group.columns))
        width = sum(_width(block, place) for place in places)
        if parts[-1] and width > room:
            parts.append([])
            room = most
        parts[-1] += places
        room -= width
    return [[*range(n_fixed), *part] for part in parts]


def _width(block: TableBlock, place: int) -> float:
    """Return how many columns of plain numbers a column is as wide as."""
    pieces = [p for row in block.rows for p in re.split(r" ± | \(", value_text(row[place]))]
    return max([1.0, *(len(piece) / 8 for piece in pieces)])


def word_columns(block: TableBlock) -> set[int]:
    """Return the columns that hold words rather than numbers; they are set to the left.

    Examples
    --------
    >>> rows = [["not found", Value(words="✓"), Value(1.0)], ["", Value(), Value()]]
    >>> sorted(word_columns(TableBlock("t", "T", ["a", "b", "c"], rows)))
    [0, 1]
    """
    return {
        place
        for place, column in enumerate(zip(*block.rows, strict=True))
        if all(isinstance(v, str) or (v.mean is None and v.published is None) for v in column)
    }


# ---------------------------------------------------------------------- runs
def embedded_records(results: Sequence[CellResult]) -> dict[str, list[Any]]:
    """Return what the page carries as JSON: groups that repeat are stored once.

    Parameters
    ----------
    results : sequence of CellResult
        The runs that the page speaks of.

    Returns
    -------
    dict
        ``{"groups": [(heading, ((name, text), …)), …], "records": [(key, title, error, [group
        numbers]), …]}``.
    """
    pool: dict[Any, int] = {}
    records = []
    for result in results:
        cell, numbers = result.cell, []
        for heading, items in describe(result).items():
            lines = tuple(_lines(items))
            if lines:
                numbers.append(pool.setdefault((heading, lines), len(pool)))
        method = f"{cell.method}, preset {cell.preset}" if cell.preset else cell.method
        what = method or cell.task.rpartition(":")[2]
        title = f"{what} · {cell.data.name} · seed {cell.seed}"
        records.append((cell.key, title, result.error, numbers))
    return {"groups": list(pool), "records": records}


def describe(result: CellResult) -> dict[str, dict[str, Any]]:
    """Return what the panel shows of a run, by heading; where the data lies is left out.

    Examples
    --------
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("evaluate", DataSpec("digits", "digits"), method="eszsl", seed=2)
    >>> describe(CellResult(cell, error="boom"))["Configuration"]["seed"]
    2
    """
    values, cell = result.values, asdict(result.cell)
    data, counted = cell.pop("data"), dict(values.get("data") or {})
    del data["location"]
    times = {**(values.get("timings") or {}), "cell": result.seconds}
    reference = METHODS[cell["method"]].reference if cell["method"] in METHODS else ""
    counted["SHA-256"] = counted.pop("fingerprint", {})
    rest = {name: item for name, item in values.items() if name not in _ELSEWHERE}
    return {
        "Result": {**(values.get("metrics") or {}), **rest},
        "Chosen on validation classes": {
            **(values.get("selected") or values.get("taken") or {}),
            "validation": values.get("validation") or {},
        },
        "Configuration": {**cell, "reference": reference, "key": result.cell.key},
        "Data": {**counted, **data},
        "Run time": {name: f"{seconds:.3g} s" for name, seconds in times.items() if seconds},
        "Versions": result.versions,
        "Machine": result.machine,
        "All parameters": values.get("parameters") or {},
    }


def _lines(items: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield names and texts; dicts inside become names with dots, and empty texts are left out."""
    for name, item in items.items():
        if isinstance(item, dict):
            yield from _lines(item, f"{prefix}{name}.")
        elif item not in ("", (), []):
            yield f"{prefix}{name}", parameter_text(item)


def parameter_text(item: Any) -> str:
    """Return a parameter or result as text: numbers with six digits, long lists by their length.

    Examples
    --------
    >>> parameter_text(0.123456789), parameter_text([1, 2]), parameter_text(list(range(100)))
    ('0.123457', '[1, 2]', '100 values')
    """
    if isinstance(item, list | tuple) and len(item) > _MAX_ITEMS:
        return f"{len(item)} values"
    return short(item, 6)
