"""What a report is made of: values, tables, figures, and the experiment that makes them.

Numbers stay numbers until a file is written: `hgkt.experiments.report` alone turns them into text.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Slot = Hashable
"""Where an experiment finds its cells again, such as ``("CUB", "eszsl")``."""

Plan = Mapping[Slot, Sequence[Cell]]
"""Cells by slot; those of one slot are the seeds of one setting."""

Metric = str | tuple[str, ...]
"""A name under ``metrics`` of a result, or a path such as ``("uncalibrated", "H")``."""


@dataclass(frozen=True)
class Value:
    """What stands in a table and where it comes from: a number, or words.

    Parameters
    ----------
    mean : float or None
        The number; None where there is none.
    deviation : float or None
        Its standard deviation over seeds.
    n : int
        How many results it is the mean of.
    published : float or None
        The paper's number.
    best : bool
        Whether it is the best of its column, by more than chance.
    keys : tuple of str
        Keys of the cells it was made from: the report links them to their records.
    failed : str
        Why there is no number, or why some of the results are missing.
    words : str
        What stands there instead of a number.
    form : str
        Format of the number, as `format` takes it.
    """

    mean: float | None = None
    deviation: float | None = None
    n: int = 0
    published: float | None = None
    best: bool = False
    keys: tuple[str, ...] = ()
    failed: str = ""
    words: str = ""
    form: str = ".1f"


def number_text(number: float, form: str = ".1f") -> str:
    """Return a number as text, with a true minus and no sign before zero.

    Examples
    --------
    >>> number_text(40.54), number_text(-1.04, "+.1f"), number_text(0.01, "+.1f")
    ('40.5', '−1.0', '0.0')
    """
    text = format(number, form)
    if not any(digit in "123456789" for digit in text):
        return text.lstrip("+-")
    return f"−{text[1:]}" if text.startswith("-") else text


@dataclass(frozen=True)
class Column:
    """Head of a column; neighbours of the same group stand below one head."""

    name: str
    group: str = ""


@cache
def _read_captions() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(Path(__file__).with_name("captions.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class _Captioned:
    KIND: ClassVar[str]
    name: str
    title: str

    @classmethod
    def of(
        cls, name: str, data: DataSpec | None, *content: Any, fill: Any = None, **options: Any
    ) -> Self:
        """Return a block, of a data set or of all, with its title and note of ``captions.toml``.

        Parameters
        ----------
        name : str
            Its name there.
        data : DataSpec or None
            Its name is added to those of the block.
        *content
            Columns and rows of a table, drawing and numbers of a figure.
        fill : mapping, optional
            What stands in braces in its note.
        **options
            ``keys``, ``ours`` and ``closed`` of the block.
        """
        caption = _read_captions()[cls.KIND][name]
        options["note"] = " ".join(caption["note"].format(**(fill or {})).split())
        if data is None:
            return cls(name, caption["title"], *content, **options)
        return cls(f"{name}-{data.name}", f"{caption['title']}, {data.name}", *content, **options)


@dataclass(frozen=True)
class TableBlock(_Captioned):
    """A table: heads and rows of values or plain texts.

    Parameters
    ----------
    name, title, note : str
        Of its files, above it, below it.
    columns : sequence of Column or str
        The heads.
    rows : sequence of sequence of Value or str
        All as long as the heads.
    ours : collection of int
        Rows of the paper's own method, which are set off.
    closed : bool
        Whether a reader has to open it.
    """

    KIND = "table"
    columns: Sequence[Column | str]
    rows: Sequence[Sequence[Value | str]]
    note: str = ""
    ours: Collection[int] = ()
    closed: bool = False

    @property
    def heads(self) -> list[Column]:
        """The heads, those without a group too."""
        return [c if isinstance(c, Column) else Column(c) for c in self.columns]


@dataclass(frozen=True)
class FigureBlock(_Captioned):
    """A figure, the numbers it draws, and the cells they come from."""

    KIND = "figure"
    figure: Figure
    data: pd.DataFrame
    note: str = ""
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class TextBlock:
    """A paragraph."""

    text: str


Block = TableBlock | FigureBlock | TextBlock


@dataclass(frozen=True)
class Outcome:
    """What an experiment planned and what came of it; cells may have failed or not run.

    Parameters
    ----------
    context : Context
        What the run is about.
    plan : mapping of slot to cells
        As the experiment planned them.
    results : mapping
        Results by key of the planned cell.

    Examples
    --------
    >>> from hgkt.experiments.plan import DataSpec
    >>> cells = [Cell("evaluate", DataSpec("digits", "digits"), "dem", seed=s) for s in (0, 1)]
    >>> results = {c.key: CellResult(c, {"metrics": {"H": 40.0 + c.seed}}) for c in cells}
    >>> outcome = Outcome(Context(data=()), {"dem": cells}, results)
    >>> found = outcome.value("dem", "H")
    >>> found.mean, round(found.deviation, 2), found.n
    (40.5, 0.71, 2)
    >>> outcome.why("ridge")
    'nothing has run yet.'
    """

    context: Context
    plan: Plan
    results: Results

    @cached_property
    def planned(self) -> tuple[str, ...]:
        """Keys of all planned cells, each once."""
        return tuple(dict.fromkeys(cell.key for cells in self.plan.values() for cell in cells))

    def keys(self, *slots: Slot) -> tuple[str, ...]:
        """Return the keys of what ran in some slots."""
        keys = [cell.key for slot in slots for cell in self.plan.get(slot, ())]
        return tuple(dict.fromkeys(key for key in keys if key in self.results))

    def ran(self, *slots: Slot) -> list[CellResult]:
        """Return the results of what ran in some slots, failures too."""
        return [self.results[key] for key in self.keys(*slots)]

    def good(self, *slots: Slot) -> list[CellResult]:
        """Return the results of what ran and did not fail."""
        return [result for result in self.ran(*slots) if result.ok]

    def by_seed(self, slot: Slot) -> dict[int, dict[str, Any]]:
        """Return the values of what ran and did not fail, by seed."""
        return {result.cell.seed: result.values for result in self.good(slot)}

    def first(self, slot: Slot) -> CellResult | None:
        """Return the first good result of a slot, if there is one."""
        return next(iter(self.good(slot)), None)

    def why(self, *slots: Slot) -> str:
        """Return in words why there is nothing: not run, or the first failure."""
        errors = (result.error for result in self.ran(*slots) if not result.ok)
        return next((f"failed: {error}" for error in errors), "nothing has run yet.")

    def nothing(self, title: str, *slots: Slot) -> TextBlock:
        """Return what stands in place of a figure or table of which nothing ran."""
        return TextBlock(f"{title}: {self.why(*slots)}")

    def by_data(
        self, title: str, *parts: Callable[[DataSpec, CellResult, tuple[str, ...]], Block]
    ) -> list[Block]:
        """Return what parts make of each data set's first good result, or why there is none.

        Parameters
        ----------
        title : str
            What is missing then.
        *parts : callable
            ``part(data, result, keys)`` returns a block; `keys` are those of the data set's cells.
        """
        blocks: list[Block] = []
        for data in self.context.data:
            result = self.first(data.name)
            if result is None:
                blocks.append(self.nothing(f"{title}, {data.name}", data.name))
            else:
                blocks += [part(data, result, self.keys(data.name)) for part in parts]
        return blocks

    def value(
        self, slot: Slot, metric: Metric, published: float | None = None, form: str = ".1f"
    ) -> Value:
        """Return mean and deviation of a metric over the seeds of a slot, and what went wrong.

        Parameters
        ----------
        slot : slot
            The setting.
        metric : str or tuple of str
            What to read.
        published : float, optional
            The paper's number.
        form : str
            Format of the number.
        """
        ran = self.ran(slot)
        numbers = [n for r in ran if r.ok and (n := lookup(r.values, metric)) is not None]
        errors = [result.error for result in ran if not result.ok]
        reason = errors[0] if errors else ""
        if errors and numbers:
            reason = f"{len(errors)} of {len(ran)} seeds failed: {reason}"
        return Value(
            float(np.mean(numbers)) if numbers else None,
            float(np.std(numbers, ddof=1)) if len(numbers) > 1 else None,
            len(numbers),
            published,
            keys=self.keys(slot),
            failed=reason,
            form=form,
        )

    def frame(
        self, label: str, slots: Mapping[Any, Slot], metrics: Mapping[str, Metric]
    ) -> pd.DataFrame:
        """Return a row per slot that has results: means of metrics, and their deviations.

        Parameters
        ----------
        label : str
            Name of the column that says which slot it is.
        slots : mapping of label to slot
            The settings.
        metrics : mapping of str to metric
            What to read, by the name of its column; the deviation's ends in ``_std``.
        """
        import pandas as pd

        lines = []
        for name, slot in slots.items():
            found = {column: self.value(slot, metric) for column, metric in metrics.items()}
            line: dict[str, Any] = {label: name, "n_seeds": max(v.n for v in found.values())}
            for column, value in found.items():
                line |= {column: value.mean, f"{column}_std": value.deviation or 0.0}
            lines.append(line)
        numbers = [column for metric in metrics for column in (metric, f"{metric}_std")]
        frame = pd.DataFrame(lines, columns=[label, "n_seeds", *numbers])
        frame = frame.astype(dict.fromkeys(numbers, float))
        return frame[frame["n_seeds"] > 0].reset_index(drop=True)


def lookup(values: Any, metric: Metric) -> float | None:
    """Return a number of a result, or None.

    Examples
    --------
    >>> lookup({"metrics": {"H": 40.0}, "calibrated": None}, "H")
    40.0
    >>> lookup({"metrics": {"H": 40.0}, "calibrated": None}, ("calibrated", "H")) is None
    True
    """
    for part in ("metrics", metric) if isinstance(metric, str) else metric:
        values = values.get(part) if isinstance(values, dict) else None
    number = isinstance(values, int | float) and not isinstance(values, bool)
    return float(values) if number else None


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper, or one of ours beyond it.

    Parameters
    ----------
    title : str
        Heading in the report.
    about : str
        What is measured and what the paper says; one paragraph.
    plan : callable
        ``plan(context)`` returns the cells by slot. It is called once a run.
    render : callable
        ``render(outcome)`` returns the blocks; it copes with failed and absent cells. Without
        any data set it is not called.
    """

    title: str
    about: str
    plan: Callable[[Context], Plan]
    render: Callable[[Outcome], Sequence[Block]]


def experiment(
    title: str, plan: Callable[[Context], Plan]
) -> Callable[[Callable[[Outcome], Sequence[Block]]], Experiment]:
    """Make an experiment of the function that renders it; the report quotes its docstring.

    Examples
    --------
    >>> @experiment("Nothing", lambda context: {})
    ... def nothing(outcome):
    ...     '''Beyond the paper.'''
    ...     return []
    >>> nothing.title, nothing.about
    ('Nothing', 'Beyond the paper.')
    """

    def make(render: Callable[[Outcome], Sequence[Block]]) -> Experiment:
        return Experiment(title, " ".join((render.__doc__ or "").split()), plan, render)

    return make


def mark_best(column: Sequence[Value | str]) -> list[Value | str]:
    """Return a column with its highest number marked, where its lead is more than chance.

    It must lead the next one by more than the deviations of both, and must not read the same.

    Examples
    --------
    >>> [v.best for v in mark_best([Value(31.0, 0.5), Value(30.0, 0.2), Value()])]
    [True, False, False]
    >>> any(v.best for v in mark_best([Value(31.0, 1.5), Value(30.0, 0.2)]))
    False
    """
    numbers = [
        (v.mean, v.deviation or 0.0, v)
        for v in column
        if isinstance(v, Value) and v.mean is not None
    ]
    if len(numbers) < 2:
        return list(column)
    (best, deviation, first), *others = sorted(numbers, key=lambda number: -number[0])
    led = all(
        best - mean > max(deviation, other) and round(best, 1) > round(mean, 1)
        for mean, other, _ in others
    )
    return [replace(first, best=led) if v is first else v for v in column]


def mark_columns(
    rows: Sequence[Sequence[Value | str]], positions: Collection[int] | None = None
) -> list[list[Value | str]]:
    """Return the rows of a table with the best of each column marked, by default of all."""
    columns = [
        mark_best(column) if positions is None or position in positions else list(column)
        for position, column in enumerate(zip(*rows, strict=True))
    ]
    return [list(row) for row in zip(*columns, strict=True)]
