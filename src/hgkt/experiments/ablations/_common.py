"""What ablations share: variants of a model as rows of a table, what ran and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hgkt.experiments.base import (
    Cell,
    CellResult,
    Context,
    DataSpec,
    Results,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.tables._results import (
    MethodRow,
    evaluate_cells,
    lookup,
    mark_best,
    present,
    value,
)

PAPER = MethodRow("hgkt-paper", "HGKT, paper", "hgkt", "paper")
DEFAULT = MethodRow("hgkt", "HGKT", "hgkt", "default")
METRICS = {"ts": "ts", "tr": "tr", "H": "H", "ZSL": "zsl", "AUSUC": "ausuc"}
STEPS = (100, 200, 400, 800)
"""Step counts among which validation chooses, as in the network's own grid."""

NOTE = (
    "Per-class accuracies in percent, chosen on validation classes and tested once; ± is the "
    "standard deviation over seeds."
)
NOTHING = TextBlock("No data set was found, so there is nothing to show.")

# Table "Effect of intra-class and inter-class relationship" of the paper: ts, tr, H. The rows with
# the relation are its main result.
_WITH = {
    "SUN": (22.3, 36.5, 27.7),
    "CUB": (25.2, 56.9, 34.9),
    "AWA1": (39.4, 83.5, 53.6),
    "AWA2": (37.9, 86.5, 52.7),
    "APY": (18.3, 79.0, 29.7),
}
PUBLISHED_RELATIONS: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "with": _WITH,
    "no intra": {
        "SUN": (22.2, 33.4, 26.7),
        "CUB": (24.4, 56.7, 34.1),
        "AWA1": (34.9, 82.6, 49.1),
        "AWA2": (36.1, 85.5, 50.7),
        "APY": (14.3, 56.7, 22.8),
    },
    "no inter": {
        "SUN": (21.5, 32.5, 25.9),
        "CUB": (23.0, 56.6, 32.7),
        "AWA1": (32.6, 84.0, 46.9),
        "AWA2": (25.7, 86.5, 39.6),
        "APY": (13.1, 76.3, 22.4),
    },
}


@dataclass(frozen=True)
class Variant:
    """One row of an ablation's table.

    Parameters
    ----------
    label : str
        What differs.
    row : MethodRow
        The model.
    params : mapping
        Parameters set by hand.
    published : str
        Row of the paper's table: a name of `PUBLISHED_RELATIONS`, or empty.
    options : mapping
        Options of the task "evaluate", over those of the main table.
    """

    label: str
    row: MethodRow
    params: Mapping[str, Any] = field(default_factory=dict)
    published: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    def cells(self, context: Context, data: DataSpec) -> list[Cell]:
        """Return the variant's cells on one data set, one a seed."""
        return evaluate_cells(context, self.row, data, params=dict(self.params), **self.options)


def plan_variants(context: Context, variants: Sequence[Variant]) -> list[Cell]:
    """Return the cells of all variants on all data sets.

    Parameters
    ----------
    context : Context
        What the run is about.
    variants : sequence of Variant
        The rows.
    """
    return [
        cell
        for data in context.data
        for variant in variants
        for cell in variant.cells(context, data)
    ]


def variants_table(
    name: str,
    title: str,
    head: str,
    context: Context,
    results: Results,
    variants: Sequence[Variant],
    note: str = NOTE,
) -> TableBlock:
    """Return a table: a row for each data set and variant; in each model the best H is bold.

    Parameters
    ----------
    name, title : str
        Of the block.
    head : str
        Head of the column that says what differs.
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    variants : sequence of Variant
        The rows; those of one model stand together.
    note : str
        Below the table.
    """
    rows: list[list[Value | str]] = []
    for data in context.data:
        groups: dict[str, list[Variant]] = {}
        for variant in variants:
            groups.setdefault(variant.row.name, []).append(variant)
        for group in groups.values():
            lines = [_line(context, results, data, variant) for variant in group]
            position = 3 + list(METRICS).index("H")
            best = mark_best([line[position] for line in lines])
            for line, marked in zip(lines, best, strict=True):
                line[position] = marked
            rows += lines
    return TableBlock(name, title, ["Data", "Model", head, *METRICS], rows, note)


def _line(
    context: Context, results: Results, data: DataSpec, variant: Variant
) -> list[Value | str]:
    cells = variant.cells(context, data)
    printed = PUBLISHED_RELATIONS.get(variant.published, {}).get(data.name.upper())
    numbers = dict(zip(("ts", "tr", "H"), printed, strict=True)) if printed else {}
    values = [value(results, cells, metric, numbers.get(metric)) for metric in METRICS.values()]
    return [data.name, variant.row.label, variant.label, *values]


def missing_words(results: Results, cells: Sequence[Cell]) -> str:
    """Return "nothing has run yet.", or the first failure of `cells`.

    Examples
    --------
    >>> missing_words({}, [])
    'nothing has run yet.'
    """
    failures = [result for result in present(results, cells) if not result.ok]
    return f"failed: {failures[0].error}" if failures else "nothing has run yet."


def good(results: Results, cells: Sequence[Cell]) -> list[CellResult]:
    """Return the results of those cells that ran and did not fail."""
    return [result for result in present(results, cells) if result.ok]


def slug(*words: str) -> str:
    """Join words to a name that a file may have.

    Examples
    --------
    >>> slug("ablation-mu", "AwA 2")
    'ablation-mu-AwA-2'
    """
    text = "-".join(words)
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def numbers_of(results: Results, cells: Sequence[Cell], metric: str) -> list[float]:
    """Return a metric of every cell that has it.

    Parameters
    ----------
    results : mapping
        Results by cell key.
    cells : sequence of Cell
        The cells.
    metric : str
        As for `lookup`.
    """
    found = [lookup(result.values, metric) for result in good(results, cells)]
    return [number for number in found if number is not None]
