"""Tables of variants: one model with something changed, a row per data set and variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from hgkt.exceptions import HGKTError
from hgkt.experiments.base import Cell, Context, DataSpec
from hgkt.experiments.blocks import Block, Metric, Outcome, Slot, TableBlock, Value, mark_columns
from hgkt.experiments.discovery import with_fingerprint
from hgkt.experiments.tables.published import RELATIONS
from hgkt.experiments.tables.rows import MethodRow, evaluate_cells

METRICS: dict[str, Metric] = {
    "H, γ = 0": ("uncalibrated", "H"),
    "ts": "ts",
    "tr": "tr",
    "H": "H",
    "ZSL": "zsl",
    "AUSUC": "ausuc",
}
NOTE = (
    "Per-class accuracies in percent, chosen on validation classes and tested once; ts, tr and H "
    "with the γ chosen there; ± is the standard deviation over seeds."
)


@dataclass(frozen=True)
class Variant:
    """One row of an ablation's table.

    Parameters
    ----------
    words : tuple of str
        What the row says of itself, one word per head of the table.
    row : MethodRow
        The model.
    params : mapping
        Parameters set by hand.
    published : str
        Row of the paper's table: a name of `RELATIONS`, or empty.
    attributes : str
        Attributes of an xlsa17 folder to take instead; data sets without them have no such row.
    quick : bool
        Whether a quick run has it.
    """

    words: tuple[str, ...]
    row: MethodRow
    params: Mapping[str, Any] = field(default_factory=dict)
    published: str = ""
    attributes: str = ""
    quick: bool = True

    def slot(self, data: DataSpec) -> Slot:
        """Return where its cells are in a plan."""
        return (data.name, self.row.name, *self.words)

    def cells(self, context: Context, data: DataSpec) -> list[Cell]:
        """Return its cells on one data set, one per seed; none where it does not apply."""
        used = other_attributes(data, self.attributes) if self.attributes else data
        if used is None or (context.quick and not self.quick):
            return []
        return evaluate_cells(context, self.row, used, dict(self.params))


@dataclass(frozen=True)
class VariantTable:
    """A table of variants; of each model the best H is marked.

    Parameters
    ----------
    name, title, note : str
        Of the block.
    heads : tuple of str
        Heads of what variants say of themselves.
    variants : sequence of Variant
        The rows; those of one model stand together.
    gain : bool
        Whether to show how much H differs from the first row's.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    variants: Sequence[Variant]
    note: str = NOTE
    gain: bool = False

    def plan(self, context: Context) -> dict[Slot, list[Cell]]:
        """Return the cells of the variants that apply."""
        found = {
            variant.slot(data): variant.cells(context, data)
            for data in context.data
            for variant in self.variants
        }
        return {slot: cells for slot, cells in found.items() if cells}

    def render(self, outcome: Outcome) -> list[Block]:
        """Return the table."""
        position = 1 + len(self.heads) + list(METRICS).index("H")
        rows: list[list[Value | str]] = []
        for data in outcome.context.data:
            there = [v for v in self.variants if v.slot(data) in outcome.plan]
            for _, group in groupby(there, key=lambda variant: variant.row):
                lines = [_line(outcome, data, variant) for variant in group]
                if self.gain:
                    lines = [[*line, _gain(line[position], lines[0][position])] for line in lines]
                rows += mark_columns(lines, [position])
        columns = ["Data", *self.heads, *METRICS, *(["ΔH"] if self.gain else [])]
        return [TableBlock(self.name, self.title, columns, rows, self.note)]


def _line(outcome: Outcome, data: DataSpec, variant: Variant) -> list[Value | str]:
    printed = RELATIONS.get(variant.published, {}).get(data.name.upper())
    # The paper calibrates nothing: its H belongs beside ours at γ = 0.
    numbers: dict[Metric, float] = {("uncalibrated", "H"): printed[2]} if printed else {}
    slot = variant.slot(data)
    values = [outcome.value(slot, metric, numbers.get(metric)) for metric in METRICS.values()]
    return [data.name, *variant.words, *values]


def _gain(h: Value | str, reference: Value | str) -> Value | str:
    if not (isinstance(h, Value) and isinstance(reference, Value)):
        return ""
    if h.mean is None or reference.mean is None:
        return Value()
    return Value(h.mean - reference.mean, n=h.n, keys=h.keys, form="+.1f")


def other_attributes(data: DataSpec, attributes: str) -> DataSpec | None:
    """Return a benchmark folder with other attributes, or None where it has none of them.

    Parameters
    ----------
    data : DataSpec
        The data set with the usual attributes.
    attributes : str
        Those wanted.
    """
    if data.attributes != "att":
        return None
    try:
        return with_fingerprint(replace(data, attributes=attributes))
    except HGKTError:
        return None
