"""Features of unseen classes and their embeddings in the plane."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.data import GZSLDataset
from hgkt.exceptions import DataError
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, TableBlock, Value, experiment
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs, build_estimator
from hgkt.experiments.rows import DEFAULT, PAPER, MethodRow, evaluate_cells, row_of

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

_ROWS = (PAPER, DEFAULT, row_of("dem"))
_QUICK_STEPS = {"hgkt-paper": 50, "dem": 100}


def _plan(context: Context) -> Plan:
    """Return an embedding for each method, with what its evaluation of the main table selected."""
    plan: dict[Any, list[Cell]] = {}
    options = {"n_classes": 10, "n_instances": 20 if context.quick else 60}
    for data in context.data:
        for row in _ROWS:
            main = evaluate_cells(context, row, data)[0]
            steps = _QUICK_STEPS.get(row.name) if context.quick else None
            embedding = replace(
                main, task="embedding", options=options, needs=[main.key],
                params={} if steps is None else {"n_steps": steps},
            )  # fmt: skip
            plan |= {("main", data.name, row.name): [main], (data.name, row.name): [embedding]}
    return plan


def _rows(outcome: Outcome) -> list[MethodRow]:
    return [row for row in _ROWS if outcome.context.asks(row.method)]


@experiment("Embeddings of unseen classes", _plan)
def embeddings(outcome: Outcome) -> list[Block]:
    """The paper's t-SNE picture of AwA2's ten unseen classes with class embeddings as black dots:
    it sees 80 % of HGKT's embeddings in their own clusters and fewer of DEM's. Here the share is
    also computed where it matters, in the space in which a method compares.
    """
    return [_table(outcome), *(_drawing(outcome, data) for data in outcome.context.data)]


def _table(outcome: Outcome) -> TableBlock:
    rows: list[list[Value | str]] = []
    shown = ("own_space", "own_picture", "n_unseen")
    for data, row in product(outcome.context.data, _rows(outcome)):
        slot = (data.name, row.name)
        result = outcome.first(slot)
        # The paper's 80 % is what its picture of AwA2 shows.
        of_paper = data.name.upper() == "AWA2" and row is PAPER and result is not None
        printed = {"own_picture": 80.0} if of_paper else {}
        values = [outcome.value(slot, (name,), printed.get(name), ".0f") for name in shown]
        rows.append([data.name, row.label, *values, result.values["space"] if result else "–"])
    columns = ["Data", "Method", "in the space, %", "in the picture, %", "unseen classes", "space"]
    return TableBlock.of("figure-tsne-shares", None, columns, rows)


def _drawing(outcome: Outcome, data: DataSpec) -> Block:
    slots = {row: (data.name, row.name) for row in _rows(outcome)}
    ran = {row: found for row, slot in slots.items() if (found := outcome.first(slot)) is not None}
    if not ran:
        return outcome.nothing(f"t-SNE, {data.name}", *slots.values())
    frames = []
    with style.drawn(0.4 + 3.0 * len(ran), 3.6, columns=len(ran), squeeze=False) as (drawing, axes):
        for axis, (row, result) in zip(axes[0], ran.items(), strict=True):
            frames.append(_draw_plane(axis, result).assign(method=row.label))
            axis.set_title(f"{row.label}: {result.values['own_space']:.0f} % in own cluster")
        handles, labels = axes[0][0].get_legend_handles_labels()
        n_columns = min(len(labels), 2 * len(ran))
        drawing.legend(handles, labels, loc="outside lower center", ncols=n_columns)
    spaces = "; ".join(f"{row.label}: {result.values['space']}" for row, result in ran.items())
    shown, total = len(result.values["classes"]), result.values["n_unseen"]
    which = f"The first {shown} of {total}" if shown < total else f"All {total}"
    frame, keys = pd.concat(frames, ignore_index=True), outcome.keys(*slots.values())
    fill = {"which": which, "spaces": spaces}
    return FigureBlock.of("figure-tsne", data, drawing, frame, keys=keys, fill=fill)


def _draw_plane(axis: Any, result: CellResult) -> pd.DataFrame:
    points, labels = result.arrays["points"], result.arrays["labels"]
    dots, classes = result.arrays["dots"], result.values["classes"]
    for code, name in enumerate(classes):
        part = points[labels == code]
        axis.scatter(
            *part.T, s=14, color=style.colour(code), label=style.short(name),
            # Colours repeat after eight: markers move on by one, so that no pair comes twice.
            marker=style.MARKERS[(code + code // 8) % len(style.MARKERS)], linewidths=0, alpha=0.65,
        )  # fmt: skip
        axis.plot(*zip(part.mean(axis=0), dots[code], strict=True), color=style.MUTED,
                  linewidth=0.8, zorder=3)  # fmt: skip
    axis.scatter(
        *dots.T, s=52, color=style.INK, edgecolors=style.PAPER, linewidths=0.9,
        zorder=4, label="embedding",
    )  # fmt: skip
    style.bare(axis, frame=style.RULE)
    names = [classes[code] for code in labels] + list(classes)
    kinds = ["image"] * len(points) + ["embedding"] * len(dots)
    rows = [*points.tolist(), *dots.tolist()]
    return pd.DataFrame(rows, columns=["x", "y"]).assign(name=names, kind=kinds)


_N_COMPONENTS = 50  # principal axes that t-SNE is given, as its authors recommend


def run_embedding(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Fit a method, embed the unseen classes and lay them out with their images by t-SNE.

    Features and embeddings are put into the space in which the method compares them. An embedding
    lands in its own cluster where, of the means of all unseen classes' test features, that of its
    own class is the nearest: in that space, and again in the picture.

    Parameters
    ----------
    cell : Cell
        The method: HGKT's or "dem", with parameters that another cell selected; ``options``:
        ``n_classes`` and ``n_instances`` (per class) in the picture.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``space`` in words, ``own_space`` and ``own_picture`` in percent, the ``classes`` in the
        picture and their number ``n_unseen`` in all.
    arrays : dict of ndarray
        ``points`` (n, 2) with ``labels`` (n,), positions in ``classes``; ``dots`` (C, 2) of the
        embeddings; ``nearest`` (U,): the class whose mean is nearest to each embedding.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("embedding", DataSpec("digits", "digits"), "hgkt", "default",
    ...             options={"n_instances": 10})
    >>> values, arrays = run_embedding(cell, load_dataset("digits"))
    >>> values["own_space"], arrays["points"].shape, arrays["dots"].shape
    (100.0, (20, 2), (2, 2))
    """
    from sklearn.metrics import pairwise_distances_argmin

    X_train, y_train = dataset.rows("train")
    model = build_estimator(cell, dataset)
    model.fit(X_train, y_train, class_attributes=dataset.attributes_of(dataset.seen_classes))
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    X, y = dataset.rows("test_unseen")
    names = dataset.names(dataset.unseen_classes)
    features, embeddings, space = common_space(model, X, names)
    means = np.stack([features[y == name].mean(axis=0) for name in names])
    nearest = pairwise_distances_argmin(embeddings, means)
    shown = names[: int(cell.options.get("n_classes", 10))]
    rows = _picture_rows(y, shown, int(cell.options.get("n_instances", 60)), cell.seed)
    plane = in_the_plane(np.concatenate([features[rows], embeddings[: len(shown)]]), cell.seed)
    points, dots = plane[: len(rows)], plane[len(rows) :]
    labels = np.array([shown.index(name) for name in y[rows]])
    centers = np.stack([points[labels == code].mean(axis=0) for code in range(len(shown))])
    in_picture = pairwise_distances_argmin(dots, centers) == np.arange(len(shown))
    values = {
        "space": space,
        "own_space": 100.0 * float((nearest == np.arange(len(names))).mean()),
        "own_picture": 100.0 * float(in_picture.mean()),
        "classes": shown,
        "n_unseen": len(names),
    }
    return values, {"points": points, "labels": labels, "dots": dots, "nearest": nearest}


def common_space(
    model: GZSLClassifier, X: NDArray[Any], names: list[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Return features (n, D) and embeddings (C, D) where the method compares them, and where.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted HGKT or DEM that has the classes.
    X : ndarray of shape (n, D)
        Features.
    names : list of str
        Classes.
    """
    from sklearn.preprocessing import normalize

    from hgkt.estimators import HGKTClassifier

    if not hasattr(model, "metric"):
        raise DataError(f"{type(model).__name__} embeds no classes among features")
    in_class = " in the in-class metric" if isinstance(model, HGKTClassifier) else ""
    embeddings = model.class_points()[model.candidates(names)].astype(np.float64)
    features, space = model.in_metric(X).astype(np.float64), f"visual features{in_class}"
    if model.metric == "cosine":
        return normalize(features), normalize(embeddings), f"{space}, unit length"
    return features, embeddings, space


def in_the_plane(rows: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Lay rows (n, D) out in the plane by t-SNE from their first principal axes.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        At least four rows.
    seed : int
        Of t-SNE.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    n_components = min(_N_COMPONENTS, *rows.shape)
    axes = PCA(n_components, random_state=seed, svd_solver="full").fit_transform(rows)
    perplexity = min(30.0, (len(rows) - 1) / 3.0)
    plane = TSNE(2, perplexity=perplexity, init="pca", random_state=seed).fit_transform(axes)
    return np.asarray(plane, dtype=np.float64)


def _picture_rows(
    y: NDArray[Any], names: list[str], n_instances: int, seed: int
) -> NDArray[np.intp]:
    rng = np.random.default_rng(seed)
    parts = [rng.permutation(np.flatnonzero(y == name))[:n_instances] for name in names]
    return np.sort(np.concatenate(parts))
