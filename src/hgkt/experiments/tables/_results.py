"""From cells to the numbers of a table: rows of methods, their cells, mean ± std, the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hgkt.estimators.methods import METHODS
from hgkt.experiments.base import Cell, CellResult, Context, DataSpec, Results, Value, mean_std
from hgkt.experiments.tables.published import PUBLISHED

NOT_RUN = "–"
FAILED = "failed"
_LABELS = {"cmt-star": "CMT*", "cn-zsl": "CN-ZSL", "ridge": "Ridge"}
_QUICK = {"n_steps": 30, "n_epochs": 2, "n_iterations": 20}
_PUBLISHED = {"zsl": 0, "ts": 1, "tr": 2, "H": 3}


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


def rows_of(context: Context) -> list[MethodRow]:
    """Return the rows of a table of methods; HGKT has two, its default and the paper's network.

    Parameters
    ----------
    context : Context
        Its ``methods``, in their order; where it names none, all that are registered.

    Examples
    --------
    >>> [row.label for row in rows_of(Context(data=(), methods=("cmt-star", "hgkt")))]
    ['CMT*', 'HGKT', 'HGKT, paper']
    """
    rows = []
    for name in context.methods or METHODS:
        rows.append(MethodRow(name, label_of(name), name, "default" if name == "hgkt" else ""))
        if name == "hgkt":
            rows.append(MethodRow("hgkt-paper", "HGKT, paper", "hgkt", "paper"))
    return rows


def label_of(method: str) -> str:
    """Return how tables write a method's name.

    Parameters
    ----------
    method : str
        Registered name.

    Examples
    --------
    >>> label_of("conse"), label_of("cmt-star")
    ('ConSE', 'CMT*')
    """
    name = METHODS[method].target.partition(":")[2].removesuffix("Classifier")
    return _LABELS.get(method, name)


def seeds_of(context: Context, method: str) -> range:
    """Return the seeds to run: one is enough where a method has no ``random_state``.

    Parameters
    ----------
    context : Context
        How many seeds are wanted.
    method : str
        Registered name.

    Examples
    --------
    >>> seeds_of(Context(data=(), n_seeds=3), "eszsl")
    range(0, 1)
    """
    random = "random_state" in METHODS.load(method)._get_param_names()
    return range(context.n_seeds if random else min(context.n_seeds, 1))


def evaluate_cells(context: Context, row: MethodRow, data: DataSpec, **options: Any) -> list[Cell]:
    """Return the cells of a row on one data set, one a seed, parameters chosen by validation.

    Parameters
    ----------
    context : Context
        What the run is about.
    row : MethodRow
        The method.
    data : DataSpec
        The data set.
    **options
        For the task, over ``select=True``; ``params`` are parameters set by hand.

    Examples
    --------
    >>> context = Context(data=(), n_seeds=2)
    >>> row = MethodRow("dem", "DEM", "dem")
    >>> [cell.seed for cell in evaluate_cells(context, row, DataSpec("digits", "digits"))]
    [0, 1]
    """
    params = dict(options.pop("params", {}))
    asked = {"select": True, **options}
    if context.quick:
        # Nothing but γ is chosen, on one fold, and networks take few steps.
        asked = {**asked, "stages": [], "n_folds": 1}
        params = {**_few_steps(row), **params}
    return [
        Cell("evaluate", data, row.method, row.preset, params, seed, asked)
        for seed in seeds_of(context, row.method)
    ]


def _few_steps(row: MethodRow) -> dict[str, int]:
    """Return the parameters that shorten a method's training."""
    if row.preset == "default":
        return {}
    known = METHODS.load(row.method)._get_param_names()
    return {name: few for name, few in _QUICK.items() if name in known}


def plan_evaluations(context: Context) -> list[Cell]:
    """Return the cells that the tables of results, the ranks and the curves share.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [
        cell
        for data in context.data
        for row in rows_of(context)
        for cell in evaluate_cells(context, row, data)
    ]


def present(results: Results, cells: Sequence[Cell]) -> list[CellResult]:
    """Return the results of those cells that ran, failed ones too, in the cells' order."""
    return [results[cell.key] for cell in cells if cell.key in results]


def lookup(values: Any, metric: str) -> float | None:
    """Return a number of a result by name, or None.

    Parameters
    ----------
    values : dict
        ``values`` of a result.
    metric : str
        A name under ``metrics``, or a path with dots: "uncalibrated.H", "timings.fit".

    Examples
    --------
    >>> lookup({"metrics": {"H": 40.0}, "calibrated": None}, "H")
    40.0
    >>> lookup({"metrics": {"H": 40.0}, "calibrated": None}, "calibrated.H") is None
    True
    """
    for part in metric.split(".") if "." in metric else ("metrics", metric):
        values = values.get(part) if isinstance(values, dict) else None
    number = isinstance(values, int | float) and not isinstance(values, bool)
    return float(values) if number else None


def value(
    results: Results,
    cells: Sequence[Cell],
    metric: str,
    published: float | None = None,
    digits: int = 1,
) -> Value:
    """Return mean ± standard deviation of a metric over cells, and what went wrong.

    Parameters
    ----------
    results : mapping
        Results by key.
    cells : sequence of Cell
        The cells the number is made from: the seeds of one setting.
    metric : str
        See `lookup`.
    published : float, optional
        The paper's number.
    digits : int
        Decimals shown.

    Returns
    -------
    Value
        "–" where nothing ran, "failed" where all failed; where some did, the mean of the others
        with the reason in ``failed``.

    Examples
    --------
    >>> cells = [Cell("evaluate", DataSpec("digits", "digits"), "dem", seed=s) for s in (0, 1)]
    >>> found = {c.key: CellResult(c, {"metrics": {"H": 40.0 + c.seed}}) for c in cells}
    >>> value(found, cells, "H").text, value(found, cells[:1], "H").text, value({}, cells, "H").text
    ('40.5 ± 0.7', '40.0', '–')
    """
    ran = present(results, cells)
    # A wider search answers for the cell that was planned: the link is the planned key.
    keys = tuple(cell.key for cell in cells if cell.key in results)
    numbers = [n for r in ran if r.ok and (n := lookup(r.values, metric)) is not None]
    failures = [result for result in ran if not result.ok]
    reason = failures[0].error if failures else ""
    if not numbers:
        text = FAILED if failures else NOT_RUN
        return Value(text, published=published, keys=keys, failed=reason)
    mean, std = mean_std(numbers)
    if failures:
        reason = f"{len(failures)} of {len(ran)} seeds failed: {reason}"
    text = f"{mean:.{digits}f}" + ("" if std is None else f" ± {std:.{digits}f}")
    return Value(text, mean, std, published, keys=keys, failed=reason)


def published_number(method: str, data: DataSpec, metric: str) -> float | None:
    """Return what the paper prints for a method, or None.

    Parameters
    ----------
    method : str
        Registered name.
    data : DataSpec
        The data set, known by its name.
    metric : {"zsl", "ts", "tr", "H"} or another
        The measure; the paper has no other.

    Examples
    --------
    >>> published_number("hgkt", DataSpec("CUB", ""), "H")
    34.9
    """
    printed = PUBLISHED.get(method, {}).get(data.name.upper())
    return printed[_PUBLISHED[metric]] if printed and metric in _PUBLISHED else None


def mark_best(column: Sequence[Value | str], digits: int = 1) -> list[Value | str]:
    """Return the values of a column with the highest in bold; what reads the same is the same.

    Parameters
    ----------
    column : sequence of Value or str
        One a row.
    digits : int
        Decimals shown.

    Examples
    --------
    >>> [v.best for v in mark_best([Value("1.0", 1.01), Value("1.0", 0.99), Value("–")])]
    [True, True, False]
    """
    numbers = [_number(v, digits) for v in column]
    there = [number for number in numbers if number is not None]
    if len(there) < 2:
        return list(column)
    return [
        replace(v, best=True) if isinstance(v, Value) and number == max(there) else v
        for v, number in zip(column, numbers, strict=True)
    ]


def mark_columns(rows: Sequence[Sequence[Value | str]]) -> list[list[Value | str]]:
    """Return the rows of a table with the best of each column in bold.

    Parameters
    ----------
    rows : sequence of sequence of Value or str
        All of one length.
    """
    columns = [mark_best(column) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def data_note(context: Context) -> str:
    """Return in words which features were used and which data sets of the paper are missing.

    Parameters
    ----------
    context : Context
        What the run is about.

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


def _number(v: Value | str, digits: int) -> float | None:
    known = isinstance(v, Value) and v.number is not None
    return round(v.number, digits) if known else None  # type: ignore[union-attr, arg-type]
