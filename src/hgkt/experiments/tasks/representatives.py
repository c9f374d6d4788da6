"""The task "representatives": which instances stand for the classes, and their neighbours."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.experiments.tasks import Outputs
from hgkt.experiments.tasks.network import Division, final_division, network_of

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.experiments.base import Cell


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
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("representatives", DataSpec("digits", "digits"), "hgkt-network")
    >>> values, arrays = run_representatives(cell, load_dataset("digits"))
    >>> len(values["classes"]), arrays["neighbors"].shape
    (8, (8, 2))
    """
    from hgkt.graph import nearest_classes

    division = final_division(dataset)
    model = network_of(cell, dataset)
    start = time.perf_counter()
    chosen, neighbors = choose_and_join(model, division)
    seconds = time.perf_counter() - start
    rows = dataset.train[chosen]
    values: dict[str, Any] = {
        "classes": list(division.seen),
        "unseen": list(division.unseen),
        "seconds": seconds,
    }
    arrays = {
        "rows": rows,
        "neighbors": neighbors,
        "unseen_neighbors": nearest_classes(
            division.new_attributes, division.attributes, model.n_neighbors, "attributes"
        ),
        "positions": principal_axes(np.concatenate([division.attributes, division.new_attributes])),
    }
    if dataset.image_files is not None:
        values["files"] = [dataset.image_files[row] for row in rows]
    pixels = dataset.about.get("pixels")
    if pixels:
        values["pixels"] = dict(pixels)
        arrays["images"] = np.asarray(dataset.features[rows], dtype=np.float32)
    return values, arrays


def choose_and_join(
    model: HGKTNetworkClassifier, division: Division
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the representatives (L,) as rows of the division and their neighbours (L, k).

    Parameters
    ----------
    model : HGKTNetworkClassifier
        Parameters of the choice and of the graph.
    division : Division
        The data.
    """
    from hgkt._arrays import map_rows
    from hgkt.transport import select_representatives

    settings = model._settings(division.X.dtype)
    method, options = settings.representative_method()
    features, seed = map_rows(division.X, model.feature_map), settings.training["seed"]
    chosen = select_representatives(
        features, division.codes, len(division.seen), method, random_state=seed, **options
    ).indices
    return chosen, neighbors_of(model, division, chosen)


def neighbors_of(
    model: HGKTNetworkClassifier, division: Division, chosen: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the k nearest classes (L, k) of given representatives, as the model looks for them.

    Parameters
    ----------
    model : HGKTNetworkClassifier
        Its ``graph_space``, ``n_neighbors`` and ``feature_map``.
    division : Division
        The data.
    chosen : ndarray of shape (L,)
        Representatives, as rows of the division.
    """
    from hgkt._arrays import map_rows
    from hgkt.graph import nearest_classes

    if model.graph_space == "attributes":
        rows = map_rows(division.attributes, model.attribute_map)
    else:
        rows = map_rows(division.X[chosen], model.feature_map)
    return nearest_classes(rows, rows, model.n_neighbors, model.graph_space, exclude_self=True)


def shared_edges(left: NDArray[Any], right: NDArray[Any]) -> float:
    """Return the share of edges, in percent, that two neighbour tables (L, k) have in common.

    Parameters
    ----------
    left, right : ndarray of shape (L, k)
        Neighbours of the same classes.

    Examples
    --------
    >>> shared_edges(np.array([[1, 2], [0, 2]]), np.array([[2, 1], [2, 3]]))
    75.0
    """
    common = [len(set(a) & set(b)) for a, b in zip(left.tolist(), right.tolist(), strict=True)]
    return 100.0 * sum(common) / left.size


def principal_axes(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows (n, d) on their first two principal axes, (n, 2).

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        At least two rows.

    Examples
    --------
    >>> principal_axes(np.array([[0.0, 0.0, 5.0], [2.0, 0.0, 5.0]])).shape
    (2, 2)
    """
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    axes = np.zeros((len(rows), 2))
    n_axes = min(2, left.shape[1])
    axes[:, :n_axes] = left[:, :n_axes] * singular[:n_axes]
    return axes
