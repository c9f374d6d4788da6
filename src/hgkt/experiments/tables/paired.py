"""The default model minus every other method, paired over test classes and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hgkt.evaluation.comparison import PairedDifference, paired_difference
from hgkt.evaluation.metrics import ClassAccuracies
from hgkt.experiments.base import DataSpec
from hgkt.experiments.blocks import Block, Column, Outcome, TableBlock, Value
from hgkt.experiments.tables.rows import DEFAULT, MethodRow, rows_of

DIFFERENCES = {"ΔH": "H", "ΔH, γ = 0": "H_uncalibrated", "ΔZSL": "zsl"}
"""Columns of a table of differences, and what `paired_difference` calls them."""

NOTE = (
    "HGKT's figure minus the other method's, in percentage points; in brackets the 95 % interval "
    "of a bootstrap that draws unseen classes, seen classes and seeds anew, the same ones for both "
    "methods. Bold: the interval leaves out 0. H is with the γ that validation chose for either "
    "method; ZSL compares the settings that validation chose by ZSL."
)


def accuracies_of(record: Mapping[str, Any]) -> ClassAccuracies | None:
    """Return the accuracies of classes in a run record's dict; ZSL as selected by ZSL.

    Parameters
    ----------
    record : mapping
        As `RunRecord.to_dict` gives it; one of an earlier version has none.
    """
    per_class, by_zsl = record.get("per_class"), record.get("by_zsl")
    if not per_class:
        return None
    return ClassAccuracies(**{**per_class, **({"zsl": by_zsl["per_class"]} if by_zsl else {})})


def difference_of(
    ours: Mapping[int, Mapping[str, Any]], theirs: Mapping[int, Mapping[str, Any]], metric: str
) -> PairedDifference | None:
    """Compare two methods over the seeds that both have, or return None where there are none.

    Parameters
    ----------
    ours, theirs : mapping of seed to run record
        The runs.
    metric : str
        As `paired_difference` takes it.
    """
    found = [
        (a, b)
        for seed in ours
        if seed in theirs
        and (a := accuracies_of(ours[seed])) is not None
        and (b := accuracies_of(theirs[seed])) is not None
    ]
    if not found:
        return None
    first, second = zip(*found, strict=True)
    return paired_difference(first, second, metric)


def difference_text(found: PairedDifference) -> str:
    """Return a difference with its interval.

    Examples
    --------
    >>> difference_text(PairedDifference("H", 5.94, 2.1, 9.96, 3, 200))
    '+5.9 (+2.1 to +10.0)'
    """
    return f"{found.difference:+.1f} ({found.low:+.1f} to {found.high:+.1f})"


def paired_table(outcome: Outcome) -> list[Block]:
    """Return the table, or nothing where the default model or all others have not run."""
    context = outcome.context
    others = [row for row in rows_of(context) if row != DEFAULT]
    lines: list[list[Value | str]] = []
    for row in others:
        values = [_value(outcome, row, d, m) for d in context.data for m in DIFFERENCES.values()]
        if any(value.words != "–" for value in values):
            lines.append([row.label, *values])
    if not lines:
        return []
    heads = [Column(head, data.name) for data in context.data for head in DIFFERENCES]
    title = "HGKT minus each other method"
    return [TableBlock("table-gzsl-paired", title, ["Method", *heads], lines, NOTE)]


def _value(outcome: Outcome, row: MethodRow, data: DataSpec, metric: str) -> Value:
    slots = [(data.name, DEFAULT.name), (data.name, row.name)]
    ours, theirs = ({r.cell.seed: r.values for r in outcome.good(slot)} for slot in slots)
    found = difference_of(ours, theirs, metric)
    if found is None:
        return Value(words="–")
    return Value(words=difference_text(found), best=found.distinct, keys=outcome.keys(*slots))
