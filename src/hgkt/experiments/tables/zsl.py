"""Table of conventional zero-shot learning: only unseen classes are candidates."""

from __future__ import annotations

from hgkt.experiments.base import Block, Context, Experiment, Results, TableBlock, TextBlock, Value
from hgkt.experiments.tables._results import (
    data_note,
    evaluate_cells,
    mark_columns,
    plan_evaluations,
    published_number,
    rows_of,
    value,
)

_NOTE = (
    "Accuracy in percent, mean over unseen classes; ± is the standard deviation over seeds, the "
    "second number what the paper prints. Bold: the best of ours. Methods without "
    "randomness have one seed. "
)


def render(context: Context, results: Results) -> list[Block]:
    """Make the table: a row a method, a column a data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [TextBlock(f"No data set was found. {data_note(context)}".strip())]
    rows: list[list[Value | str]] = []
    for row in rows_of(context):
        line: list[Value | str] = [row.label]
        for data in context.data:
            printed = published_number(row.method, data, "zsl")
            line.append(value(results, evaluate_cells(context, row, data), "zsl", printed))
        rows.append(line)
    columns = ["Method", *(data.name for data in context.data)]
    note = (_NOTE + data_note(context)).strip()
    return [
        TableBlock("table-zsl", "Accuracy among unseen classes", columns, mark_columns(rows), note)
    ]


EXPERIMENT = Experiment(
    "Conventional zero-shot learning",
    "Test images are of unseen classes, and only unseen classes are candidates. The paper reports "
    "the best accuracy on four of its five data sets. Every method is run here under one "
    "protocol: parameters are chosen on validation classes among the seen ones, the model is then "
    "fitted on all training rows, and the test rows are looked at once.",
    plan_evaluations,
    render,
)
