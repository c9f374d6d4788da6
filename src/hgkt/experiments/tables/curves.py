"""Figure of seen–unseen curves: what each method trades as the calibration moves."""

from __future__ import annotations

from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.experiments.base import (
    Block,
    CellResult,
    Context,
    DataSpec,
    Experiment,
    FigureBlock,
    Results,
    TextBlock,
)
from hgkt.experiments.style import INK, PALETTE, figure, series, styled
from hgkt.experiments.tables._results import (
    MethodRow,
    data_note,
    evaluate_cells,
    lookup,
    plan_evaluations,
    present,
    rows_of,
    value,
)

_N_OTHERS = 3
_MAX_POINTS = 300


class Curve(NamedTuple):
    """One line of a panel: the first seed's curve, and the mean area over seeds."""

    row: MethodRow
    result: CellResult
    ausuc: float
    keys: tuple[str, ...]


def curves_of(context: Context, results: Results, data: DataSpec) -> list[Curve]:
    """Return both HGKT rows and the three best other methods that have a curve.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    data : DataSpec
        The data set.

    Returns
    -------
    list of Curve
        HGKT first, then the others, best area first.
    """
    found = []
    for row in rows_of(context):
        cells = evaluate_cells(context, row, data)
        drawn = [r for r in present(results, cells) if r.ok and {"seen", "unseen"} <= set(r.arrays)]
        area = value(results, cells, "ausuc")
        if drawn and area.number is not None:
            found.append(Curve(row, drawn[0], area.number, area.keys))
    ours = [curve for curve in found if curve.row.method == "hgkt"]
    others = [curve for curve in found if curve.row.method != "hgkt"]
    return ours + sorted(others, key=lambda curve: -curve.ausuc)[:_N_OTHERS]


def thin(unseen: NDArray[Any], seen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return at most 300 points of a curve, in percent, evenly along its length.

    Parameters
    ----------
    unseen, seen : ndarray of shape (n,)
        Accuracies as fractions.

    Examples
    --------
    >>> unseen, seen = thin(np.linspace(0, 1, 1000), np.linspace(1, 0, 1000))
    >>> len(unseen), float(unseen[0]), float(seen[-1])
    (300, 0.0, 0.0)
    """
    x, y = 100 * np.asarray(unseen, dtype=float), 100 * np.asarray(seen, dtype=float)
    if len(x) > _MAX_POINTS:
        along = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
        wanted = np.searchsorted(along, np.linspace(0, along[-1], _MAX_POINTS))
        wanted = np.clip(wanted, 0, len(x) - 1)
        wanted[-1] = len(x) - 1
        x, y = x[wanted], y[wanted]
    return x, y


def render(context: Context, results: Results) -> list[Block]:
    """Draw one panel a data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    panels = {data.name: curves_of(context, results, data) for data in context.data}
    panels = {name: curves for name, curves in panels.items() if curves}
    if not panels:
        return [TextBlock("No evaluation has a curve yet, so there is nothing to draw.")]
    styles = _styles(panels)
    n_columns = min(len(panels), 2)
    n_rows = -(-len(panels) // n_columns)
    with styled():
        drawing, axes = figure(
            4.2 * n_columns + 0.4, 4.2 * n_rows, n_rows, n_columns, squeeze=False
        )
        frames = []
        for place, (name, curves) in zip(axes.flat, panels.items(), strict=False):
            frames += [_draw(place, name, curve, styles[curve.row.name]) for curve in curves]
            place.set(title=name, xlabel="accuracy on unseen classes, %",
                      ylabel="accuracy on seen classes, %")  # fmt: skip
            place.set_xlim(left=0)
            place.set_ylim(bottom=0)
            place.legend(
                loc="upper left",
                bbox_to_anchor=(0.0, -0.17),
                ncols=2,
                labelcolor=INK,
                columnspacing=1.4,
            )
        for place in axes.flat[len(panels) :]:
            place.set_visible(False)
    keys = tuple(key for curves in panels.values() for curve in curves for key in curve.keys)
    note = (
        "Each line is the first seed of a method: HGKT and the three others with the largest area. "
        "A dot marks the calibration in force. The number in the legend is the area (AUSUC) in "
        "percent, mean over seeds. " + data_note(context)
    )
    return [
        FigureBlock("figure-curves", "Seen–unseen curves", drawing, pd.concat(frames), note.strip(),
                    tuple(dict.fromkeys(keys)))
    ]  # fmt: skip


def _styles(panels: dict[str, list[Curve]]) -> dict[str, dict[str, Any]]:
    """Give each method one look in all panels; where colours repeat, not within a panel."""
    members = [{curve.row.name for curve in curves} for curves in panels.values()]
    names = dict.fromkeys(curve.row.name for curves in panels.values() for curve in curves)
    places: dict[str, int] = {}
    for name in names:
        beside = set().union(*(panel for panel in members if name in panel))
        taken = {places[other] % len(PALETTE) for other in beside if other in places}
        used = set(places.values())
        places[name] = next(
            place for place in count() if place not in used and place % len(PALETTE) not in taken
        )
    return {name: series(place, marker=False) for name, place in places.items()}


def _draw(axes: Any, name: str, curve: Curve, style: dict[str, Any]) -> pd.DataFrame:
    unseen, seen = thin(curve.result.arrays["unseen"], curve.result.arrays["seen"])
    axes.plot(unseen, seen, label=f"{curve.row.label}  {curve.ausuc:.1f}", **style)
    ts, tr = (lookup(curve.result.values, metric) for metric in ("ts", "tr"))
    if ts is not None and tr is not None:
        axes.plot(ts, tr, marker="o", color=style["color"], linestyle="none")
    return pd.DataFrame(
        {
            "data": name,
            "method": curve.row.name,
            "seed": curve.result.cell.seed,
            "unseen": unseen,
            "seen": seen,
        }
    )


EXPERIMENT = Experiment(
    "Seen–unseen curves",
    "Taking a calibration γ off the scores of seen classes trades accuracy on seen classes for "
    "accuracy on unseen ones. The curve shows every trade a method offers, and its area (AUSUC) "
    "compares methods without regard to γ. The paper does not have it.",
    plan_evaluations,
    render,
)
