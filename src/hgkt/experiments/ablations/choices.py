"""What the paper leaves open, one choice changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from hgkt.exceptions import HGKTError
from hgkt.experiments.ablations._common import METRICS, NOTHING, PAPER
from hgkt.experiments.base import (
    Block,
    Cell,
    Context,
    DataSpec,
    Experiment,
    Results,
    TableBlock,
    Value,
)
from hgkt.experiments.discovery import fingerprint_of
from hgkt.experiments.tables._results import evaluate_cells, mark_best, value


@dataclass(frozen=True)
class Choice:
    """One reading of the paper.

    Parameters
    ----------
    topic : str
        What is open.
    reading : str
        How it is read.
    params : mapping
        What changes in the paper's preset.
    attributes : str
        Attributes of an xlsa17 folder to take instead.
    """

    topic: str
    reading: str
    params: Mapping[str, Any] = field(default_factory=dict)
    attributes: str = ""


# The representative, its solver, sampling and the two relations have experiments of their own.
CHOICES = (
    Choice("preset", "the literal reading"),
    Choice("nodes in the loss", "each image's own node", {"loss_nodes": "instance"}),
    Choice("nodes in the loss", "representatives only", {"loss_nodes": "representative"}),
    Choice("aggregation", "a mean per kind of edge", {"aggregation": "per-type"}),
    Choice("aggregation", "inter-class neighbours only", {"aggregation": "inter-only"}),
    Choice("kNN of representatives", "in attributes", {"graph_space": "attributes"}),
    Choice("kNN of representatives", "Euclidean", {"graph_space": "euclidean"}),
    Choice("kNN of unseen classes", "in visual space", {"unseen_space": "visual"}),
    Choice("direction of edges", "both ways", {"symmetric": True}),
    Choice("output layer", "ReLU", {"output_activation": "relu"}),
    Choice("output layer", "linear", {"output_activation": "linear"}),
    Choice("loss scale", "mean over D", {"loss_reduction": "mean"}),
    Choice("class imbalance", "classes count the same", {"weighting": "uniform"}),
    Choice("target features", "unit length", {"feature_map": "l2"}),
    Choice("test metric", "cosine", {"metric": "cosine"}),
    Choice("attributes", "original_att", attributes="original_att"),
)
_QUICK = ("preset", "nodes in the loss", "test metric")


def choices_of(context: Context, data: DataSpec) -> list[Choice]:
    """Return the choices that a data set allows; a quick run has a few.

    Parameters
    ----------
    context : Context
        What the run is about.
    data : DataSpec
        The data set.

    Examples
    --------
    >>> context = Context(data=(), quick=True)
    >>> len(choices_of(context, DataSpec("digits", "digits")))
    4
    """
    kept = [c for c in CHOICES if not c.attributes or _other_attributes(data, c.attributes)]
    return [c for c in kept if c.topic in _QUICK] if context.quick else kept


@lru_cache
def _other_attributes(data: DataSpec, attributes: str) -> DataSpec | None:
    """Return a benchmark folder with other attributes, or None where it has none of them."""
    if data.attributes != "att":
        return None
    spec = replace(data, attributes=attributes)
    try:
        return replace(spec, fingerprint=fingerprint_of(spec.load()))
    except HGKTError:
        return None


def cells_of(context: Context, data: DataSpec, choice: Choice) -> list[Cell]:
    """Return the cells of one choice, one a seed; μ, k and the steps are chosen by validation.

    Parameters
    ----------
    context : Context
        What the run is about.
    data : DataSpec
        The data set.
    choice : Choice
        The reading.
    """
    if choice.attributes:
        data = _other_attributes(data, choice.attributes) or data
    return evaluate_cells(context, PAPER, data, params=dict(choice.params))


def plan(context: Context) -> list[Cell]:
    """Return the cells of all choices on all data sets.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [
        cell
        for data in context.data
        for choice in choices_of(context, data)
        for cell in cells_of(context, data, choice)
    ]


def render(context: Context, results: Results) -> list[Block]:
    """Make the table.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    rows: list[list[Value | str]] = []
    for data in context.data:
        lines: list[list[Value | str]] = []
        reference = None
        for choice in choices_of(context, data):
            cells = cells_of(context, data, choice)
            values = [value(results, cells, metric) for metric in METRICS.values()]
            h = values[list(METRICS).index("H")]
            reference = h.number if choice.topic == "preset" else reference
            lines.append([data.name, choice.topic, choice.reading, *values, _gain(h, reference)])
        position = 3 + list(METRICS).index("H")
        for line, marked in zip(lines, mark_best([li[position] for li in lines]), strict=True):
            line[position] = marked
        rows += lines
    note = (
        "The network with one choice changed at a time; μ, k and the number of steps chosen "
        "anew on validation classes for each row, no calibration. Percent, mean ± standard "
        "deviation over seeds; ΔH: against the preset. A difference within the deviations says "
        "nothing."
    )
    columns = ["Data", "What is open", "Reading", *METRICS, "ΔH"]
    return [TableBlock("ablation-choices", "What the paper leaves open", columns, rows, note)]


def _gain(h: Value, reference: float | None) -> Value | str:
    if h.number is None or reference is None:
        return "–"
    gain = h.number - reference
    text = "0.0" if abs(gain) < 0.05 else f"{gain:+.1f}".replace("-", "−")
    return Value(text, gain, keys=h.keys)


EXPERIMENT = Experiment(
    "What the paper leaves open",
    "Beyond the paper. A program has to decide what a paper does not say: which nodes enter the "
    "loss, in which space neighbours are looked for, how the loss is scaled. Each choice is a "
    "parameter of the model; the preset is the literal reading.",
    plan,
    render,
)
