"""Table of generalized zero-shot learning: seen and unseen classes are candidates together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    Results,
    TableBlock,
    TextBlock,
    Value,
)
from hgkt.experiments.tables._results import (
    MethodRow,
    data_note,
    evaluate_cells,
    mark_columns,
    plan_evaluations,
    present,
    published_number,
    rows_of,
    value,
)

_METRICS = {"ts": "ts", "tr": "tr", "H": "H", "AUSUC": "ausuc"}
_NOTE = (
    "ts, tr: accuracy on unseen and on seen classes in percent, both being candidates; H: their "
    "harmonic mean; AUSUC: area under the seen–unseen curve, which no calibration changes. "
    "± is the standard deviation over seeds, the second number what the paper prints. Bold: "
    "the best of ours. γ: the method takes a calibration, chosen on validation classes, off the "
    "scores of seen classes; the next table compares all methods with and without. "
)
_CALIBRATION_NOTE = (
    "H of the same fitted models at γ = 0 and at the γ that validation classes give, so that "
    "all methods stand on one footing."
)
_CHOSEN_NOTE = (
    "What validation classes chose, by which measure and among how many settings; the score is "
    "the measure's mean over the validation folds."
)
_SELECTED_BY = {"H": "H", "ausuc": "AUSUC", "zsl": "ZSL"}


def render(context: Context, results: Results) -> list[Block]:
    """Make the table, the one with and without calibration, and the chosen values.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [TextBlock(f"No data set was found. {data_note(context)}".strip())]
    cells = {
        (row.name, data.name): evaluate_cells(context, row, data)
        for row in rows_of(context)
        for data in context.data
    }
    return [
        _accuracies(context, results, cells),
        _calibration(context, results, cells),
        _chosen(context, results, cells),
    ]


Cells = dict[tuple[str, str], list[Cell]]


def _accuracies(context: Context, results: Results, cells: Cells) -> TableBlock:
    rows: list[list[Value | str]] = []
    for row in rows_of(context):
        line: list[Value | str] = [_label(row, context.data, results, cells)]
        for data in context.data:
            for metric in _METRICS.values():
                printed = published_number(row.method, data, metric)
                line.append(value(results, cells[row.name, data.name], metric, printed))
        rows.append(line)
    heads = [f"{data.name} · {name}" for data in context.data for name in _METRICS]
    note = (_NOTE + data_note(context)).strip()
    return TableBlock(
        "table-gzsl",
        "Accuracy with seen and unseen classes as candidates",
        ["Method", *heads],
        mark_columns(rows),
        note,
    )


def _label(row: MethodRow, sets: Sequence[DataSpec], results: Results, cells: Cells) -> str:
    """Return the row's label, marked where the method is calibrated."""
    found = [r for data in sets for r in present(results, cells[row.name, data.name])]
    calibrated = any("calibration" in (r.values.get("selected") or {}) for r in found if r.ok)
    return f"{row.label} γ" if calibrated else row.label


def _calibration(context: Context, results: Results, cells: Cells) -> TableBlock:
    parts = {"H, γ = 0": "uncalibrated.H", "H, γ chosen": "calibrated.H"}
    rows: list[list[Value | str]] = []
    for row in rows_of(context):
        line: list[Value | str] = [row.label]
        for data in context.data:
            found = cells[row.name, data.name]
            line += [value(results, found, metric) for metric in parts.values()]
        rows.append(line)
    heads = [f"{data.name} · {name}" for data in context.data for name in parts]
    return TableBlock(
        "table-gzsl-calibration",
        "With and without calibration",
        ["Method", *heads],
        mark_columns(rows),
        _CALIBRATION_NOTE,
    )


def _chosen(context: Context, results: Results, cells: Cells) -> TableBlock:
    rows: list[list[Value | str]] = []
    for row in rows_of(context):
        for data in context.data:
            planned = cells[row.name, data.name]
            found = {c.key: results[c.key] for c in planned if c.key in results}
            found = {key: result for key, result in found.items() if result.ok}
            if found:
                rows.append([row.label, data.name, *_choice(found, planned)])
    return TableBlock(
        "table-gzsl-details",
        "Chosen parameters",
        ["Method", "Data set", "By", "Settings", "Score", "Chosen"],
        rows,
        _CHOSEN_NOTE,
    )


def _choice(found: dict[str, CellResult], planned: Sequence[Cell]) -> list[Value | str]:
    """Return measure, number of settings, score and chosen values over seeds."""
    validation = next(iter(found.values())).values.get("validation") or {}
    metric = str(validation.get("metric", "–"))
    texts: dict[str, list[int]] = {}
    for result in found.values():
        text = chosen_text(result.values.get("selected") or {})
        texts.setdefault(text, []).append(result.cell.seed)
    if len(texts) == 1:
        chosen = next(iter(texts))
    else:
        chosen = "; ".join(
            f"seed {', '.join(map(str, seeds))}: {text}" for text, seeds in texts.items()
        )
    return [
        _SELECTED_BY.get(metric, metric),
        str(validation.get("n_settings", "–")),
        value(found, planned, "validation.score"),
        Value(chosen, keys=tuple(found)),
    ]


def chosen_text(selected: dict[str, Any]) -> str:
    """Return chosen parameters in words.

    Parameters
    ----------
    selected : dict
        Parameter names and values.

    Examples
    --------
    >>> chosen_text({"kernel": "rbf", "ridge": 0.0301234})
    'kernel = rbf, ridge = 0.0301'
    >>> chosen_text({})
    'nothing to choose'
    """
    words = [f"{name} = {_short(item)}" for name, item in selected.items()]
    return ", ".join(words) or "nothing to choose"


def _short(item: Any) -> str:
    return f"{item:.3g}" if isinstance(item, float) else str(item)


EXPERIMENT = Experiment(
    "Generalized zero-shot learning",
    "Test images are of seen and unseen classes, and all classes are candidates: the paper's main "
    "table. HGKT appears twice: as the closed form that this package fits by default, and as the "
    "literal reading of the paper's network. All methods are fitted under one protocol, with "
    "parameters chosen on validation classes.",
    plan_evaluations,
    render,
)
