"""A picture of the graph between classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.experiments.ablations._common import NOTHING, missing_words, slug
from hgkt.experiments.base import (
    Block,
    Cell,
    CellResult,
    Context,
    Experiment,
    FigureBlock,
    Results,
    TextBlock,
)
from hgkt.experiments.figures.representatives import cell_of
from hgkt.experiments.figures.tsne import short

_FEW = 60  # classes up to which every one is named
_N_NAMED = 15


def plan(context: Context) -> list[Cell]:
    """Return the Wasserstein representatives of each data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    """
    return [cell_of(data, "wasserstein") for data in context.data]


def render(context: Context, results: Results) -> list[Block]:
    """Draw the graph of each data set.

    Parameters
    ----------
    context : Context
        What the run is about.
    results : mapping
        Results by cell key.
    """
    if not context.data:
        return [NOTHING]
    blocks: list[Block] = []
    for cell in plan(context):
        result = results.get(cell.key)
        if result is None or not result.ok:
            words = missing_words(results, [cell])
            blocks.append(TextBlock(f"Graph of the classes, {cell.data.name}: {words}"))
        else:
            blocks.append(draw(result))
    return blocks


def edges_of(result: CellResult) -> list[tuple[int, int]]:
    """Return directed edges (class, neighbour); unseen classes come after the seen ones.

    Parameters
    ----------
    result : CellResult
        Of the task "representatives".
    """
    tables = np.concatenate([result.arrays["neighbors"], result.arrays["unseen_neighbors"]])
    return [(code, int(other)) for code, row in enumerate(tables) for other in row]


def layout(
    n_classes: int, edges: list[tuple[int, int]], positions: NDArray[Any]
) -> tuple[NDArray[np.float64], str]:
    """Return positions (n_classes, 2) and how they were found.

    Parameters
    ----------
    n_classes : int
        Number of nodes.
    edges : list of (int, int)
        The edges.
    positions : ndarray of shape (n_classes, 2)
        Where nodes start, and stay where NetworkX is not installed.
    """
    try:
        import networkx
    except ImportError:
        return np.asarray(positions, dtype=np.float64), "attributes on their principal axes"
    graph: Any = networkx.Graph()
    graph.add_nodes_from(range(n_classes))
    graph.add_edges_from(edges)
    # Springs between all pairs, as long as the way between them, keep sparse graphs from curling
    # up; parts that no way joins get a long one.
    ways = {
        code: {other: found.get(other, 12.0) for other in range(n_classes)}
        for code, found in networkx.all_pairs_shortest_path_length(graph)
    }
    places = networkx.kamada_kawai_layout(graph, dist=ways, pos=dict(enumerate(positions)))
    return np.array([places[code] for code in range(n_classes)]), "springs as long as the ways"


def draw(result: CellResult) -> FigureBlock:
    """Draw seen classes, unseen classes and their edges.

    Parameters
    ----------
    result : CellResult
        Of the task "representatives".
    """
    import pandas as pd
    from matplotlib.patheffects import withStroke

    from hgkt.experiments import style

    names = [*result.values["classes"], *result.values["unseen"]]
    n_seen, edges = len(result.values["classes"]), edges_of(result)
    places, how = layout(len(names), edges, result.arrays["positions"])
    side = float(np.clip(3.2 + 0.05 * len(names), 4.2, 9.0))
    with style.styled():
        drawing, axis = style.figure(max(side, 6.4), side)
        _draw_edges(axis, places, edges, n_seen, len(names))
        for index, (label, part) in enumerate(
            {"seen class": slice(0, n_seen), "unseen class": slice(n_seen, None)}.items()
        ):
            axis.scatter(
                *places[part].T, s=70 if len(names) <= _FEW else 24, color=style.colour(index),
                marker="os"[index], edgecolors=style.PAPER, linewidths=0.8, zorder=3, label=label,
            )  # fmt: skip
        halo = [withStroke(linewidth=2.5, foreground=style.PAPER)]
        for code in _named(edges, n_seen, places):
            axis.annotate(
                short(names[code]), places[code], xytext=(0, 6), textcoords="offset points",
                ha="center", fontsize=8 if len(names) <= 20 else 6.5, zorder=4, path_effects=halo,
            )  # fmt: skip
        axis.set(xticks=[], yticks=[])
        axis.margins(0.08)
        axis.grid(visible=False)
        for spine in axis.spines.values():
            spine.set_visible(False)
        drawing.legend(loc="outside lower center", ncols=4)
    frame = pd.DataFrame(
        [{"class": names[a], "neighbour": names[b], "seen": a < n_seen} for a, b in edges]
    )
    data = result.cell.data.name
    k = result.arrays["neighbors"].shape[1]
    few = "" if len(names) <= _FEW else " Only the classes that most others point to are named."
    return FigureBlock(
        slug("figure-graph", data),
        f"Graph of the classes, {data}",
        drawing,
        frame,
        f"An edge joins a class to each of the k = {k} classes it averages over: seen ones by the "
        "Wasserstein distance of representatives, unseen ones (dashed) by the cosine of "
        f"attributes. Layout: {how}.{few}",
        (result.cell.key,),
    )


def _draw_edges(
    axis: Any, places: NDArray[Any], edges: list[tuple[int, int]], n_seen: int, n_classes: int
) -> None:
    from matplotlib.collections import LineCollection

    from hgkt.experiments import style

    width = 1.3 if n_classes <= _FEW else 0.6
    kinds = {"neighbour of a seen class": True, "neighbour of an unseen class": False}
    for label, seen in kinds.items():
        lines = [places[[a, b]] for a, b in edges if (a < n_seen) == seen]
        colour = style.MUTED if seen else style.colour(1)
        axis.add_collection(
            LineCollection(lines, colors=colour, linewidths=width, alpha=0.75, zorder=1,
                           linestyles="solid" if seen else (0, (3, 2)), label=label)
        )  # fmt: skip


def _named(edges: list[tuple[int, int]], n_seen: int, places: NDArray[Any]) -> list[int]:
    """Return the classes that get a label: all of a few, else those most others point to.

    Of many classes one that lies where a label is already gets none.
    """
    if len(places) <= _FEW:
        return list(range(len(places)))
    degrees = np.bincount([b for _, b in edges], minlength=n_seen)
    room = np.ptp(places, axis=0) * (0.16, 0.03)
    named: list[int] = []
    for code in np.argsort(-degrees, kind="stable").tolist():
        if all((np.abs(places[code] - places[other]) > room).any() for other in named):
            named.append(code)
        if len(named) == _N_NAMED:
            break
    return named


EXPERIMENT = Experiment(
    "Graph of the classes",
    "The graph that the paper's framework figure sketches: representatives joined to their k "
    "nearest others, and unseen classes to the seen ones they will be made from.",
    plan,
    render,
)
