"""The rows of a table of methods, the cells behind them, and the paper's numbers."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgkt.estimators.methods import METHODS, attribute_methods
from hgkt.experiments.blocks import Column, Metric, Outcome, Slot, TableBlock, Value, mark_columns
from hgkt.experiments.plan import Cell, Context, DataSpec

RELEASED = "released"
"""Preset with the settings that a method's authors published."""

_LABELS = {"hgkt-network": "HGKT, paper", "cmt-star": "CMT*", "cn-zsl": "CN-ZSL", "ridge": "Ridge"}
_LABELS |= {"cada-vae": "CADA-VAE"}
_QUICK = {"n_steps": 30, "n_epochs": 2, "n_iterations": 20}
ZSL: Metric = ("by_zsl", "zsl")
"""Accuracy among unseen classes of the setting that validation chose by it."""

# The paper calibrates nothing: its numbers stand beside ours at γ = 0.
_PUBLISHED: dict[Metric, int] = {ZSL: 0}
_PUBLISHED |= {("uncalibrated", name): 1 + i for i, name in enumerate(("ts", "tr", "H"))}
METRICS: dict[str, Metric] = {"H, γ = 0": ("uncalibrated", "H"), "ts": "ts", "tr": "tr", "H": "H"}
METRICS |= {"ZSL": "zsl", "AUSUC": "ausuc"}
"""Columns of a table of accuracies, and where a record has them."""


Published = tuple[float | None, float, float, float]
"""ZSL accuracy (None where the paper has none), ts, tr and H, in percent."""


def _read_published() -> dict[str, dict[str, Published]]:
    """Return the accuracies that the HGKT paper prints, by row and data set.

    ResNet-101 features, as printed in the tables of conventional and generalized results and of
    the relations of Wang et al., "Heterogeneous graph-based knowledge transfer for generalized
    zero-shot learning", 2019. Most rows are taken over there from Xian et al., TPAMI 2019. The ZSL
    accuracies of DEM are lower than those its authors report (68.4 on AWA1, 67.1 on AWA2).
    """
    found: dict[str, dict[str, Published]] = {}
    with Path(__file__).with_name("published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            ts, tr, harmonic = (float(row[name]) for name in ("ts", "tr", "H"))
            zsl = float(row["zsl"]) if row["zsl"] else None
            found.setdefault(row["method"], {})[row["data"]] = (zsl, ts, tr, harmonic)
    return found


_ROWS = _read_published()
PUBLISHED = {name: sets for name, sets in _ROWS.items() if "(" not in name}
"""What the paper prints, by method and data set: orientation, not measurements."""

RELATIONS = {
    name: {data: row[1:] for data, row in _ROWS[f"hgkt ({name})"].items()}
    for name in ("no intra", "no inter")
} | {"with": {data: row[1:] for data, row in PUBLISHED["hgkt"].items()}}
"""ts, tr and H of the network without one of its relations, and with both, by data set."""


@dataclass(frozen=True)
class MethodRow:
    """One row of a table of methods.

    Parameters
    ----------
    name : str
        Unique: "hgkt", "hgkt-paper", "eszsl".
    label : str
        What the table shows.
    method : str
        Registered method.
    preset : str
        A preset; empty: the method as it stands.
    """

    name: str
    label: str
    method: str
    preset: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is a method of the paper that the report is about."""
        return METHODS[self.method].reference == METHODS["hgkt"].reference

    @property
    def fixed(self) -> bool:
        """Whether its settings are its authors' and only γ is chosen."""
        return self.preset == RELEASED

    def published(self, data: DataSpec, metric: Metric) -> float | None:
        """Return what the paper prints of a metric, or None where it prints nothing.

        Examples
        --------
        >>> PAPER.published(DataSpec("CUB", ""), ("uncalibrated", "H"))
        34.9
        """
        if self.fixed:
            return None
        method = "hgkt" if self.ours else self.method
        printed = PUBLISHED.get(method, {}).get(data.name.upper())
        return printed[_PUBLISHED[metric]] if printed and metric in _PUBLISHED else None


def label_of(method: str) -> str:
    """Return how tables write a method's name.

    Examples
    --------
    >>> label_of("conse"), label_of("cmt-star")
    ('ConSE', 'CMT*')
    """
    class_name = METHODS[method].target.partition(":")[2]
    return _LABELS.get(method) or class_name.removesuffix("Classifier")


DEFAULT = MethodRow("hgkt", "HGKT", "hgkt", "default")
PAPER = MethodRow("hgkt-paper", "HGKT, paper", "hgkt-network")


def row_of(method: str) -> MethodRow:
    """Return the row of a registered method."""
    rows = {row.method: row for row in (DEFAULT, PAPER)}
    return rows.get(method) or MethodRow(method, label_of(method), method)


def released_row(method: str) -> MethodRow | None:
    """Return the row of a method with its authors' settings, or None where they are not known."""
    if RELEASED not in getattr(METHODS.load(method), "named_presets", ()):
        return None
    return MethodRow(f"{method}-{RELEASED}", f"{label_of(method)}, as released", method, RELEASED)


def rows_of(context: Context) -> list[MethodRow]:
    """Return the rows of a table of methods.

    A method whose authors published their settings has a second row with these.

    Parameters
    ----------
    context : Context
        Its ``methods``, in their order; where it names none, all that take class vectors of any
        kind.

    Examples
    --------
    >>> [row.label for row in rows_of(Context(data=(), methods=("cmt-star", "hgkt")))]
    ['CMT*', 'HGKT']
    """
    names = dict.fromkeys(context.methods or attribute_methods())
    rows = [row for name in names for row in (row_of(name), released_row(name))]
    return [row for row in rows if row is not None]


def evaluate_cells(
    context: Context,
    row: MethodRow,
    data: DataSpec,
    params: dict[str, Any] | None = None,
    **options: Any,
) -> list[Cell]:
    """Return the cells of a row on one data set, one per seed, parameters chosen by validation.

    A seed draws what a method has of chance and which images validation holds out, so that a
    method without chance has a spread too.

    Parameters
    ----------
    context : Context
        What the run is about.
    row : MethodRow
        The method.
    data : DataSpec
        The data set.
    params : dict, optional
        Parameters set by hand.
    **options
        For the task, over ``select=True``.

    Examples
    --------
    >>> context = Context(data=(), n_seeds=2)
    >>> [cell.seed for cell in evaluate_cells(context, row_of("dem"), DataSpec("digits", "digits"))]
    [0, 1]
    """
    asked, given = {"select": not row.fixed, **options}, dict(params or {})
    if context.quick:
        # Nothing but γ is chosen, on one fold, and networks take few steps.
        parameters = METHODS.load(row.method)._get_param_names()
        asked = {**asked, "n_folds": 1} | ({} if row.fixed else {"stages": []})
        given = {**{name: few for name, few in _QUICK.items() if name in parameters}, **given}
    return [
        Cell("evaluate", data, row.method, row.preset, given, seed, asked)
        for seed in range(context.n_seeds)
    ]


def plan_evaluations(context: Context) -> dict[Slot, list[Cell]]:
    """Return the cells that tables of results, ranks and curves share, by data set and row."""
    return {
        (data.name, row.name): evaluate_cells(context, row, data)
        for data in context.data
        for row in rows_of(context)
    }


def method_table(
    outcome: Outcome,
    name: str,
    data: DataSpec | None,
    columns: Mapping[Column, tuple[DataSpec, Metric]],
    marked: Collection[Column],
    **fill: str,
) -> TableBlock:
    """Return a table with a row per method, the paper's numbers beside ours.

    Parameters
    ----------
    outcome : Outcome
        What came of `plan_evaluations`.
    name, data
        Of the block, as `TableBlock.of` takes them.
    columns : mapping of Column to data set and metric
        What stands below each head.
    marked : collection of Column
        Columns of which the best is marked.
    **fill
        What stands in braces in its note.
    """
    rows = rows_of(outcome.context)
    lines: list[list[Value | str]] = [[row.label] for row in rows]
    for line, row in zip(lines, rows, strict=True):
        for source, metric in columns.values():
            slot, printed = (source.name, row.name), row.published(source, metric)
            line.append(outcome.value(slot, metric, printed))
    best = [place for place, column in enumerate(columns, start=1) if column in marked]
    ours = [place for place, row in enumerate(rows) if row.ours]
    heads, lines = ["Method", *columns], mark_columns(lines, best)
    return TableBlock.of(name, data, heads, lines, ours=ours, fill=fill)


def data_note(context: Context) -> str:
    """Return in words which features were used; empty where they are the paper's.

    Examples
    --------
    >>> data_note(Context(data=[DataSpec("CUB", "CUB", "efflite2")]))
    'Features: efflite2 on CUB; the paper has res101 throughout.'
    """
    used = [f"{data.features} on {data.name}" for data in context.data if data.features]
    if all(data.features in ("", "res101") for data in context.data):
        return ""
    return f"Features: {', '.join(used)}; the paper has res101 throughout."


def retraining_note(context: Context) -> str:
    """Return in words which methods train again for a new class; empty where none does.

    Examples
    --------
    >>> retraining_note(Context(data=(), methods=("hgkt", "cada-vae")))
    'Trained again whenever classes come or go: CADA-VAE; all others need no training for that.'
    >>> retraining_note(Context(data=(), methods=("hgkt",)))
    ''
    """
    methods = dict.fromkeys(row.method for row in rows_of(context))
    again = [m for m in methods if getattr(METHODS.load(m), "retrains_on_add", False)]
    if not again:
        return ""
    labels = ", ".join(map(label_of, again))
    sentence = "Trained again whenever classes come or go"
    return f"{sentence}: {labels}; all others need no training for that."
