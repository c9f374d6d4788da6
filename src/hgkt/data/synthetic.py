"""Synthetic data of any size whose class means are a smooth, non-linear map of the attributes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt._validation import check_number
from hgkt.data.dataset import GZSLDataset, hold_out

_HIDDEN = 64


def make_synthetic(
    n_instances: int = 2000,
    n_features: int = 64,
    n_attributes: int = 16,
    n_seen: int = 20,
    n_unseen: int = 5,
    noise: float = 0.3,
    seed: int = 0,
) -> GZSLDataset:
    """Make a zero-shot problem in which attributes determine the class means.

    Attributes are uniform in [0, 1]; the mean of a class is a random two-layer network (tanh,
    then softplus) of its attributes, so features are non-negative like those of a CNN and no
    linear map of the attributes fits them exactly. Instances are the mean plus Gaussian noise
    whose scale differs between classes, clipped at zero.

    Parameters
    ----------
    n_instances : int
        Number of instances, spread evenly over all classes; at least three per class.
    n_features, n_attributes : int
        Widths.
    n_seen, n_unseen : int
        Numbers of classes; the last `n_unseen` are unseen.
    noise : float
        Standard deviation of the noise, relative to that of the class means.
    seed : int
        Seed of everything.

    Returns
    -------
    GZSLDataset
        20 % of the instances of each seen class are test_seen.

    Examples
    --------
    >>> data = make_synthetic(n_instances=60, n_features=8, n_seen=4, n_unseen=2)
    >>> data.features.shape, len(data.unseen_classes)
    ((60, 8), 2)
    """
    n_classes = n_seen + n_unseen
    check_number("n_seen", n_seen, low=2, integer=True)
    check_number("n_unseen", n_unseen, low=1, integer=True)
    check_number("n_features", n_features, low=1, integer=True)
    check_number("n_attributes", n_attributes, low=1, integer=True)
    check_number("n_instances", n_instances, low=3 * n_classes, integer=True)
    check_number("noise", noise, low=0.0)
    rng = np.random.default_rng(seed)
    attributes = rng.random((n_classes, n_attributes)).astype(np.float32)
    means = class_means(attributes, n_features, seed)
    labels = rng.permutation(np.arange(n_instances) % n_classes)
    scales = noise * means.std(axis=0).mean() * rng.uniform(0.5, 1.5, n_classes)
    features = np.empty((n_instances, n_features), dtype=np.float32)
    for batch in batches(n_instances):
        rows = labels[batch]
        draws = rng.standard_normal((len(rows), n_features))
        features[batch] = means[rows] + scales[rows, None] * draws
    np.maximum(features, 0.0, out=features)
    train, test_seen = hold_out(np.flatnonzero(labels < n_seen), labels, 0.2, seed)
    width = len(str(n_classes - 1))
    return GZSLDataset(
        name="synthetic",
        features=features,
        labels=labels,
        class_names=tuple(f"class {code:0{width}d}" for code in range(n_classes)),
        class_attributes=attributes,
        train=train,
        test_seen=test_seen,
        test_unseen=np.flatnonzero(labels >= n_seen),
        about={
            "features": f"synthetic, noise {noise:g}, seed {seed}",
            "attributes": "uniform",
            "attribute_blocks": [n_attributes],
        },
    )


def class_means(attributes: NDArray[np.float32], n_features: int, seed: int) -> NDArray[np.float64]:
    """Map attributes (C, d) to non-negative class means (C, n_features).

    The map depends on `seed` and the widths only, never on the classes.

    Parameters
    ----------
    attributes : ndarray of shape (n_classes, n_attributes)
        Attributes in [0, 1].
    n_features : int
        Width of the means.
    seed : int
        Seed of the network's weights.

    Returns
    -------
    ndarray of shape (n_classes, n_features)

    Examples
    --------
    >>> bool((class_means(np.eye(3, dtype=np.float32), 5, seed=0) >= 0).all())
    True
    """
    n_attributes = attributes.shape[1]
    rng = np.random.default_rng([seed, n_features, n_attributes])
    inner = rng.normal(0.0, 2.5 / np.sqrt(n_attributes), (n_attributes, _HIDDEN))
    outer = rng.normal(0.0, 2.0 / np.sqrt(_HIDDEN), (_HIDDEN, n_features))
    hidden = np.tanh((2.0 * attributes.astype(np.float64) - 1.0) @ inner + rng.normal(size=_HIDDEN))
    return np.logaddexp(0.0, hidden @ outer)
