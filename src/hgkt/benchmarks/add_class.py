"""What adding one class to a fitted model costs: by number of classes, and of training instances.

A new class costs one kernel row (closed form) or one pass of two layers (network). Training
instances have no part in it, so the time is flat in their number by construction.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data.synthetic import class_means
from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier
from hgkt.network.weights import SeenEmbeddings

TRANSFERS = ("closed-form", "network")
Model = HGKTClassifier | HGKTNetworkClassifier


@dataclass(frozen=True)
class Sizes:
    """How large each part of the benchmark is."""

    n_features: int
    n_attributes: tuple[int, ...]
    n_classes: tuple[int, ...]
    n_instances: tuple[int, ...]
    n_hidden: int
    n_adds: int


FULL = Sizes(2048, (85, 312), (50, 1_000, 20_000), (1_000, 5_000, 20_000), 1600, n_adds=200)
QUICK = Sizes(32, (10,), (30, 60), (100, 400), 16, n_adds=10)
_N_SEEN = 40


def run(quick: bool = False) -> dict[str, Any]:
    """Measure single adds to models of several sizes.

    Parameters
    ----------
    quick : bool, default=False
        Shrink everything so that it takes about a second; the figures then mean nothing.

    Returns
    -------
    dict
        ``by_classes``: median and 95th percentile of milliseconds an added class, where of the
        existing classes `n_added` were added and `n_seen` are seen; ``by_instances``: the same
        for models fitted on more and more instances; ``worst_median_ms``: the largest median.
    """
    sizes = QUICK if quick else FULL
    by_classes = [
        record
        for n_attributes in sizes.n_attributes
        for transfer in TRANSFERS
        for record in _by_classes(sizes, transfer, n_attributes)
    ]
    by_instances = [
        _record(
            fitted_model(sizes, transfer, sizes.n_attributes[0], n_instances),
            sizes,
            transfer=transfer,
            n_instances=n_instances,
        )
        for transfer in TRANSFERS
        for n_instances in sizes.n_instances
    ]
    return {
        "name": "add-class",
        "quick": quick,
        "sizes": asdict(sizes),
        "by_classes": by_classes,
        "by_instances": by_instances,
        "worst_median_ms": max(record["median_ms"] for record in by_classes + by_instances),
        "environment": {
            "machine": f"{platform.system()} {platform.machine()}",
            "n_cpus": os.cpu_count(),
            "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "notes": [
            "Features and attributes are synthetic; what is timed is add_classes with one class, "
            f"{sizes.n_adds} times in a row, checks and growing of the arrays included.",
            "Models with many seen classes are not trained: learned arrays of the right shape "
            "take their place, because the time of an add depends on shapes alone.",
            "CPU milliseconds count all threads; a busy machine disturbs them least.",
            "The network is trained for one step; the time of an add does not depend on weights.",
        ],
    }


def fitted_model(sizes: Sizes, transfer: str, n_attributes: int, n_instances: int) -> Model:
    """Fit a model on synthetic instances of a few seen classes.

    Parameters
    ----------
    sizes : Sizes
        Widths.
    transfer : {"closed-form", "network"}
        How knowledge gets to new classes.
    n_attributes, n_instances : int
        Sizes of the data.
    """
    rng = np.random.default_rng(0)
    n_seen = min(_N_SEEN, n_instances // 4)
    attributes = rng.random((n_seen, n_attributes)).astype(np.float32)
    means = class_means(attributes, sizes.n_features, seed=0).astype(np.float32)
    codes = np.arange(n_instances) % n_seen
    noise = rng.standard_normal((n_instances, sizes.n_features), dtype=np.float32)
    X = np.maximum(means[codes] + 0.1 * noise, 0.0)
    model: Model = HGKTClassifier(device="cpu")
    if transfer == "network":
        model = HGKTNetworkClassifier(
            n_hidden=sizes.n_hidden,
            n_steps=1,
            representative="euclidean",
            graph_space="attributes",
            device="cpu",
            random_state=0,
        )
    names = _names("seen", n_seen)
    table = dict(zip(names, attributes, strict=True))
    return model.fit(X, np.array(names)[codes], class_attributes=table)


def widen_seen(model: Model, n_seen: int) -> Model:
    """Give a fitted model learned arrays of `n_seen` seen classes, without training on them.

    Parameters
    ----------
    model : HGKTClassifier or HGKTNetworkClassifier
        A fitted model; it is changed.
    n_seen : int
        How many seen classes it shall have.
    """
    rng = np.random.default_rng(1)
    attributes = rng.random((n_seen, model.class_attributes_.shape[1]))
    transfer: Any = model._transfer
    n_features = int(model.n_features_in_)
    if isinstance(model, HGKTClassifier):
        kernel = transfer.kernel
        unit = attributes / np.linalg.norm(attributes, axis=1, keepdims=True)
        transfer.kernel = replace(kernel, references=(unit,))
        transfer.dual = rng.standard_normal((n_seen, n_features))
    else:
        transfer.attributes = attributes
        hidden = rng.standard_normal((n_seen, transfer.seen.hidden.shape[1]), dtype=np.float32)
        rows = np.zeros((n_seen, n_features), dtype=np.float32)
        transfer.seen = SeenEmbeddings(hidden, rows)
    table = {"embedding": rng.standard_normal((n_seen, n_features), dtype=np.float32)}
    model._seen_table, model._seen_attributes = table, attributes
    model._grown = np.zeros(n_seen, dtype=bool)
    model.seen_classes_ = np.array(_names("seen", n_seen))
    model._set_added(model.seen_classes_[:0], attributes[:0], {"embedding": table["embedding"][:0]})
    return model


def _by_classes(sizes: Sizes, transfer: str, n_attributes: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    model = fitted_model(sizes, transfer, n_attributes, sizes.n_instances[0])
    records = []
    for n_classes in sizes.n_classes:
        n_more = n_classes - len(model.seen_classes_)
        rows = rng.random((n_more, n_attributes))
        model.add_classes(dict(zip(_names("added", n_more), rows, strict=True)))
        records.append(_record(model, sizes, transfer=transfer, n_attributes=n_attributes))
        model.remove_classes(model.unseen_classes_.tolist())
    for n_classes in sizes.n_classes:
        model = widen_seen(model, n_classes)
        records.append(_record(model, sizes, transfer=transfer, n_attributes=n_attributes))
    return records


def _record(model: Model, sizes: Sizes, **about: Any) -> dict[str, Any]:
    wall, cpu = 1000.0 * _seconds_per_add(model, sizes.n_adds)
    return about | {
        "n_seen": len(model.seen_classes_),
        "n_added": len(model.unseen_classes_),
        "median_ms": float(np.median(wall)),
        "p95_ms": float(np.percentile(wall, 95)),
        "median_cpu_ms": float(np.median(cpu)),
    }


def _seconds_per_add(model: Model, n_adds: int) -> NDArray[np.float64]:
    """Wall and CPU time (2, n_adds) of single adds after two that warm up.

    The classes are taken out again.
    """
    names = _names("new", n_adds + 2)
    rows = np.random.default_rng(3).random((n_adds + 2, model.class_attributes_.shape[1]))
    seconds = []
    for name, row in zip(names, rows, strict=True):
        wall, cpu = time.perf_counter(), time.process_time()
        model.add_classes({name: row})
        seconds.append((time.perf_counter() - wall, time.process_time() - cpu))
    model.remove_classes(names)
    return np.array(seconds[2:]).T


def _names(stem: str, n: int) -> list[str]:
    return [f"{stem} {number:05d}" for number in range(n)]
