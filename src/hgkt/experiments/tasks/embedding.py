"""The task "embedding": unseen classes' features and class embeddings in one plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError
from hgkt.experiments.tasks import Outputs, build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators.base import GZSLClassifier
    from hgkt.experiments.base import Cell

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
    >>> from hgkt.experiments.base import Cell, DataSpec
    >>> cell = Cell("embedding", DataSpec("digits", "digits"), "hgkt", "default",
    ...             options={"n_instances": 10})
    >>> values, arrays = run_embedding(cell, load_dataset("digits"))
    >>> values["own_space"], arrays["points"].shape, arrays["dots"].shape
    (100.0, (20, 2), (2, 2))
    """
    X_train, y_train = dataset.rows("train")
    model = build_estimator(cell, dataset)
    model.fit(X_train, y_train, class_attributes=dataset.attributes_of(dataset.seen_classes))
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    X, y = dataset.rows("test_unseen")
    names = dataset.names(dataset.unseen_classes)
    features, embeddings, space = common_space(model, X, names)
    means = np.stack([features[y == name].mean(axis=0) for name in names])
    nearest = nearest_rows(embeddings, means)
    shown = names[: int(cell.options.get("n_classes", 10))]
    rows = _picture_rows(y, shown, int(cell.options.get("n_instances", 60)), cell.seed)
    plane = in_the_plane(np.concatenate([features[rows], embeddings[: len(shown)]]), cell.seed)
    points, dots = plane[: len(rows)], plane[len(rows) :]
    labels = np.array([shown.index(name) for name in y[rows]])
    centers = np.stack([points[labels == code].mean(axis=0) for code in range(len(shown))])
    in_picture = nearest_rows(dots, centers) == np.arange(len(shown))
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
    embeddings = model.class_embeddings_[model.candidates(names)]
    space = "visual features"
    if isinstance(model, HGKTClassifier):
        space += " in the in-class metric"
    features = model._map_features(X)
    found = [np.asarray(part, dtype=np.float64) for part in (features, embeddings)]
    if model.metric == "cosine":
        found = [normalize(part) for part in found]
        space += ", unit length"
    return found[0], found[1], space


def nearest_rows(rows: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return for each row (n, D) the position of the nearest target (m, D).

    Examples
    --------
    >>> nearest_rows(np.array([[0.0], [4.0]]), np.array([[5.0], [1.0]]))
    array([1, 0])
    """
    from scipy.spatial.distance import cdist

    return cdist(rows, targets).argmin(axis=1)


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
