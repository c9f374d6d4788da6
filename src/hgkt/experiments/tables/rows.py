"""The rows of a table of methods and the cells behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hgkt.estimators.methods import METHODS
from hgkt.experiments.base import Cell, Context, DataSpec
from hgkt.experiments.blocks import Metric, Outcome, Slot, Value
from hgkt.experiments.tables.published import PUBLISHED

_LABELS = {"hgkt-network": "HGKT, paper", "cmt-star": "CMT*", "cn-zsl": "CN-ZSL", "ridge": "Ridge"}
_QUICK = {"n_steps": 30, "n_epochs": 2, "n_iterations": 20}
_PUBLISHED: dict[Metric, int] = {"zsl": 0, "ts": 1, "tr": 2, "H": 3}


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
        Preset of hgkt; empty: the method as it stands.
    """

    name: str
    label: str
    method: str
    preset: str = ""

    @property
    def ours(self) -> bool:
        """Whether it is a method of the paper that the report is about."""
        return METHODS[self.method].reference == METHODS["hgkt"].reference

    def published(self, data: DataSpec, metric: Metric) -> float | None:
        """Return what the paper prints, or None; it has "zsl", "ts", "tr" and "H".

        Examples
        --------
        >>> PAPER.published(DataSpec("CUB", ""), "H")
        34.9
        """
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
    return _LABELS.get(method) or METHODS[method].target.partition(":")[2].removesuffix(
        "Classifier"
    )


DEFAULT = MethodRow("hgkt", "HGKT", "hgkt", "default")
PAPER = MethodRow("hgkt-paper", "HGKT, paper", "hgkt-network")


def row_of(method: str) -> MethodRow:
    """Return the row of a registered method."""
    rows = {row.method: row for row in (DEFAULT, PAPER)}
    return rows.get(method) or MethodRow(method, label_of(method), method)


def rows_of(context: Context) -> list[MethodRow]:
    """Return the rows of a table of methods; "hgkt" has two, the closed form and the network.

    Parameters
    ----------
    context : Context
        Its ``methods``, in their order; where it names none, all that are registered.

    Examples
    --------
    >>> [row.label for row in rows_of(Context(data=(), methods=("cmt-star", "hgkt")))]
    ['CMT*', 'HGKT', 'HGKT, paper']
    """
    rows: dict[MethodRow, None] = {}
    for name in context.methods or METHODS:
        rows |= dict.fromkeys((DEFAULT, PAPER) if name == "hgkt" else (row_of(name),))
    return list(rows)


def seeds_of(context: Context, method: str) -> range:
    """Return the seeds to run: one is enough where a method has no ``random_state``.

    Examples
    --------
    >>> seeds_of(Context(data=(), n_seeds=3), "eszsl")
    range(0, 1)
    """
    random = "random_state" in METHODS.load(method)._get_param_names()
    return range(context.n_seeds if random else min(context.n_seeds, 1))


def evaluate_cells(
    context: Context,
    row: MethodRow,
    data: DataSpec,
    params: dict[str, Any] | None = None,
    **options: Any,
) -> list[Cell]:
    """Return the cells of a row on one data set, one per seed, parameters chosen by validation.

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
    asked, given = {"select": True, **options}, dict(params or {})
    if context.quick:
        # Nothing but γ is chosen, on one fold, and networks take few steps.
        known = METHODS.load(row.method)._get_param_names()
        asked = {**asked, "stages": [], "n_folds": 1}
        given = {**{name: few for name, few in _QUICK.items() if name in known}, **given}
    return [
        Cell("evaluate", data, row.method, row.preset, given, seed, asked)
        for seed in seeds_of(context, row.method)
    ]


def plan_evaluations(context: Context) -> dict[Slot, list[Cell]]:
    """Return the cells that tables of results, ranks and curves share, by data set and row."""
    return {
        (data.name, row.name): evaluate_cells(context, row, data)
        for data in context.data
        for row in rows_of(context)
    }


def method_values(
    outcome: Outcome, row: MethodRow, data: DataSpec, metrics: Mapping[Any, Metric]
) -> list[Value]:
    """Return a row's values of some metrics on one data set, the paper's numbers beside them."""
    slot = (data.name, row.name)
    return [outcome.value(slot, metric, row.published(data, metric)) for metric in metrics.values()]


def data_note(context: Context) -> str:
    """Return in words which features were used and which data sets of the paper are missing.

    Examples
    --------
    >>> data_note(Context(data=[DataSpec("CUB", "CUB", "efflite2")], missing=["SUN"]))
    'Features: efflite2 on CUB; the paper has res101 throughout. Not found, so not run: SUN.'
    """
    used = [f"{data.features} on {data.name}" for data in context.data if data.features]
    sentences = []
    if any(data.features not in ("", "res101") for data in context.data):
        sentences.append(f"Features: {', '.join(used)}; the paper has res101 throughout.")
    if context.missing:
        sentences.append(f"Not found, so not run: {', '.join(context.missing)}.")
    if context.quick:
        sentences.append("A quick run: small grids and few steps; it proves nothing.")
    return " ".join(sentences)
