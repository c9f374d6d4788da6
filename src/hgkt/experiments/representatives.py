"""The instances that stand for their classes, and the graph that joins them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._validation import import_extra
from hgkt.data import GZSLDataset
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, TableBlock, Value, experiment
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs
from hgkt.experiments.rows import PAPER
from hgkt.experiments.training import final_fold, graph_of, neighbor_table, network_of

_WAYS = {"wasserstein": "Wasserstein", "euclidean": "Euclidean", "random": "random"}
_N_SHOWN = 10
_FEW = 60  # classes up to which every one is named
_N_NAMED = 15


# ---------------------------------------------------------------------- representatives
def _plan_representatives(context: Context) -> Plan:
    return {(data.name, way): [_cell(data, way)] for data in context.data for way in _WAYS}


def _cell(data: DataSpec, way: str) -> Cell:
    params = {} if way == "wasserstein" else {"representative": way}
    return Cell("representatives", data, PAPER.method, params=params)


@experiment("Representative instances", _plan_representatives)
def representatives(outcome: Outcome) -> list[Block]:
    """The paper shows images of CUB selected by the Wasserstein barycenter (top) and by the
    Euclidean one (bottom) and finds the former more distinctive. Images are shown where the data
    set carries them or their folder is given; else the rows and files are listed.
    """
    blocks: list[Block] = []
    for data in outcome.context.data:
        slots = {way: (data.name, way) for way in _WAYS}
        found = {w: r for w, slot in slots.items() if (r := outcome.first(slot)) is not None}
        if not found:
            blocks.append(outcome.nothing(f"Representatives, {data.name}", *slots.values()))
            continue
        pictures = {way: _images(r, outcome.context.image_root) for way, r in found.items()}
        if all(any(image is not None for image in images) for images in pictures.values()):
            keys = outcome.keys(*slots.values())
            blocks.append(_draw_pictures(data, found, pictures, keys))
        blocks.append(_rows_table(outcome, data, found))
    return blocks


def _images(result: CellResult, image_root: Path | None) -> list[Any]:
    """Return the images of the first classes, with None where one is not found."""
    pixels, files = result.values.get("pixels"), result.values.get("files")
    if pixels and "images" in result.arrays:
        shape = (int(pixels["height"]), int(pixels["width"]))
        rows = result.arrays["images"][:_N_SHOWN] / float(pixels["maximum"])
        return [1.0 - row.reshape(shape) for row in rows]
    return [load_image(image_root, file) for file in (files or [])[:_N_SHOWN] if image_root]


def load_image(image_root: Path, file: str, side: int = 160) -> Any:
    """Return an image as an array of at most `side` pixels a side, or None where it is not there.

    Benchmarks name files by where they lay on their authors' machines: the longest tail of the
    name that exists below `image_root` is taken.

    Parameters
    ----------
    image_root : Path
        Folder of the images.
    file : str
        Name as the data set has it.
    side : int
        Size to shrink to.
    """
    from PIL import Image, UnidentifiedImageError

    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    paths = (image_root.joinpath(*parts[start:]) for start in range(len(parts)))
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    try:
        with Image.open(path) as image:
            image.thumbnail((side, side))
            return np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError):
        return None


def _draw_pictures(
    data: DataSpec,
    found: dict[str, CellResult],
    pictures: dict[str, list[Any]],
    keys: tuple[str, ...],
) -> FigureBlock:
    names = next(iter(found.values())).values["classes"]
    classes = names[:_N_SHOWN]
    grid = {"rows": len(pictures), "columns": len(classes)}
    width, height = 1.0 + 0.85 * len(classes), 0.35 + 0.95 * len(pictures)
    with style.drawn(width, height, **grid, squeeze=False) as (drawing, axes):
        for line, (way, images) in zip(axes, pictures.items(), strict=True):
            for axis, image in zip(line, images, strict=True):
                style.bare(axis, frame=style.RULE)
                if image is None:
                    axis.text(0.5, 0.5, "no file", ha="center", va="center", color=style.MUTED,
                              fontsize=7, transform=axis.transAxes)  # fmt: skip
                else:
                    axis.imshow(image, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            line[0].set_ylabel(_WAYS[way])
        for axis, name in zip(axes[0], classes, strict=True):
            axis.set_title(style.short(name, 12), fontsize=8, fontweight="normal", loc="center")
    frame = pd.concat(
        pd.DataFrame({"way": way, "class": classes, "row": result.arrays["rows"][:_N_SHOWN]})
        for way, result in found.items()
    )
    first = f"the first {len(classes)} of" if len(names) > len(classes) else "all"
    fill = {"which": f"{first} {len(names)}"}
    return FigureBlock.of("figure-representatives", data, drawing, frame, keys=keys, fill=fill)


def _rows_table(outcome: Outcome, data: DataSpec, found: dict[str, CellResult]) -> TableBlock:
    names = next(iter(found.values())).values["classes"]
    rows: list[list[Value | str]] = []
    for position, name in enumerate(names[:_N_SHOWN]):
        line: list[Value | str] = [name]
        for way, result in found.items():
            files = result.values.get("files")
            text = f"row {int(result.arrays['rows'][position])}"
            text += f", {Path(files[position]).name}" if files else ""
            line.append(Value(words=text, keys=outcome.keys((data.name, way))))
        rows.append(line)
    agreement = ""
    if {"wasserstein", "euclidean"} <= set(found):
        same = found["wasserstein"].arrays["rows"] == found["euclidean"].arrays["rows"]
        agreement = f"Wasserstein and Euclidean agree in {100 * same.mean():.0f} % of all classes."
    columns = ["Class", *(_WAYS[way] for way in found)]
    fill = {"n_classes": len(names), "n_shown": len(rows), "agreement": agreement}
    return TableBlock.of("figure-representatives-rows", data, columns, rows, fill=fill)


# ---------------------------------------------------------------------- graph
def _plan_graph(context: Context) -> Plan:
    return {data.name: [_cell(data, "wasserstein")] for data in context.data}


@experiment("Graph of the classes", _plan_graph)
def graph(outcome: Outcome) -> list[Block]:
    """The graph that the paper's framework figure sketches: representatives joined to their k
    nearest others, and unseen classes to the seen ones they will be made from.
    """
    return outcome.by_data("Graph of the classes", draw_graph)


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
) -> NDArray[np.float64]:
    """Return positions (n_classes, 2) as springs find them that are as long as the ways.

    Parameters
    ----------
    n_classes : int
        Number of nodes.
    edges : list of (int, int)
        The edges.
    positions : ndarray of shape (n_classes, 2)
        Where nodes start.
    """
    networkx = import_extra("networkx", "report")
    graph = networkx.Graph()
    graph.add_nodes_from(range(n_classes))
    graph.add_edges_from(edges)
    # Springs between all pairs, as long as the way between them, keep sparse graphs from curling
    # up; parts that no way joins get a long one.
    ways = {
        code: {other: found.get(other, 12.0) for other in range(n_classes)}
        for code, found in networkx.all_pairs_shortest_path_length(graph)
    }
    places = networkx.kamada_kawai_layout(graph, dist=ways, pos=dict(enumerate(positions)))
    return np.array([places[code] for code in range(n_classes)])


def draw_graph(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> FigureBlock:
    """Draw seen classes, unseen classes and their edges.

    Parameters
    ----------
    data : DataSpec
        The data set.
    result : CellResult
        Of the task "representatives".
    keys : tuple of str
        Where it comes from.
    """
    from matplotlib.patheffects import withStroke

    networkx = import_extra("networkx", "report")
    names = [*result.values["classes"], *result.values["unseen"]]
    n_seen, edges, few = len(result.values["classes"]), edges_of(result), len(names) <= _FEW
    graph, places = networkx.Graph(edges), layout(len(names), edges, result.arrays["positions"])
    side = float(np.clip(3.2 + 0.05 * len(names), 4.2, 9.0))
    kinds = {"seen class": range(n_seen), "unseen class": range(n_seen, len(names))}
    with style.drawn(max(side, 6.4), side) as (drawing, axis):
        for index, (kind, codes) in enumerate(kinds.items()):
            networkx.draw_networkx_nodes(
                graph, places, codes, 70 if few else 24, style.colour(index), "os"[index],
                ax=axis, edgecolors=style.PAPER, linewidths=0.8, label=kind,
            )  # fmt: skip
            networkx.draw_networkx_edges(
                graph, places, [edge for edge in edges if edge[0] in codes], 1.3 if few else 0.6,
                style.colour(1) if index else style.MUTED, "--" if index else "-", 0.75,
                ax=axis, label=f"neighbours of {kind}es",
            )  # fmt: skip
        halo = [withStroke(linewidth=2.5, foreground=style.PAPER)]
        for code in _named(edges, n_seen, places):
            axis.annotate(
                style.short(names[code]), places[code], (0, 6), textcoords="offset points",
                ha="center", fontsize=8 if len(names) <= 20 else 6.5, path_effects=halo,
            )  # fmt: skip
        style.bare(axis)
        axis.margins(0.08)
        drawing.legend(loc="outside lower center", ncols=4)
    frame = pd.DataFrame(
        [{"class": names[a], "neighbour": names[b], "seen": a < n_seen} for a, b in edges]
    )
    fill = {
        "k": result.arrays["neighbors"].shape[1],
        "named": "" if few else "Only the classes that most others point to are named.",
    }
    return FigureBlock.of("figure-graph", data, drawing, frame, keys=keys, fill=fill)


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


def run_representatives(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Choose the representatives of the seen classes and join them to a graph (Algorithm 1).

    Parameters
    ----------
    cell : Cell
        ``params`` of the network: ``representative``, ``n_neighbors``, ...
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``classes`` and ``unseen`` names, ``seconds`` of the choice, ``files`` of the
        representatives where the data set has image files, ``pixels`` where features are images.
    arrays : dict of ndarray
        ``rows`` (L,): representatives as rows of the data set; ``neighbors`` (L, k) and
        ``unseen_neighbors`` (U, k): the seen classes that a class averages over; ``positions``
        (L + U, 2): attributes on their first two principal axes; ``images`` (L, D) where
        features are images.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("representatives", DataSpec("digits", "digits"), "hgkt-network")
    >>> values, arrays = run_representatives(cell, load_dataset("digits"))
    >>> len(values["classes"]), arrays["neighbors"].shape
    (8, (8, 2))
    """
    from hgkt.graph import nearest_classes

    fold = final_fold(dataset)
    model = network_of(cell, dataset)
    start = time.perf_counter()
    graph = graph_of(model, fold)
    seconds = time.perf_counter() - start
    rows = dataset.train[graph.representatives]
    values: dict[str, Any] = {
        "classes": fold.classes.tolist(),
        "unseen": list(fold.new_classes),
        "seconds": seconds,
    }
    added = fold.new_attributes, fold.attributes
    arrays = {
        "rows": rows,
        "neighbors": neighbor_table(graph),
        "unseen_neighbors": nearest_classes(*added, model.n_neighbors, "attributes"),
        "positions": principal_axes(np.concatenate([fold.attributes, fold.new_attributes])),
    }
    if dataset.image_files is not None:
        values["files"] = [dataset.image_files[row] for row in rows]
    pixels = dataset.about.get("pixels")
    if pixels:
        values["pixels"] = dict(pixels)
        arrays["images"] = np.asarray(dataset.features[rows], dtype=np.float32)
    return values, arrays


def principal_axes(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows (n, d) on their first two principal axes, (n, 2).

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        At least two rows of at least two numbers.

    Examples
    --------
    >>> principal_axes(np.array([[0.0, 0.0, 5.0], [2.0, 0.0, 5.0]])).shape
    (2, 2)
    """
    from sklearn.decomposition import PCA

    return np.asarray(PCA(2, svd_solver="full").fit_transform(rows))
