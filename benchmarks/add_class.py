"""What adding one class to a fitted model costs, by number of classes.

A new class costs one kernel row (closed form) or one pass of two layers (network). Training
instances have no part in it, so the time is flat in their number by construction. The bound of the
closed form is one product of a row with a matrix of seen classes × features. The peer,
scikit-learn's LinearDiscriminantAnalysis, has to be fitted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from _timing import Size, document, make_problem, timed
from hgkt.estimators import HGKTClassifier, HGKTNetworkClassifier

TRANSFERS = ("closed-form", "network")
Model = HGKTClassifier | HGKTNetworkClassifier


@dataclass(frozen=True)
class Sizes:
    """How large each part of the benchmark is."""

    n_features: int
    n_attributes: tuple[int, ...]
    n_classes: tuple[int, ...]
    n_seen: tuple[int, ...]
    n_instances: tuple[int, ...]
    n_hidden: int
    n_adds: int


FULL = Sizes(
    2048, (85, 312), (50, 1_000, 20_000), (50, 1_000, 3_000), (1_000, 5_000, 20_000), 1600, 200
)
QUICK = Sizes(32, (10,), (50, 80), (30, 60), (100, 400), 16, n_adds=10)
_N_SEEN = 40
_N_WARM_UP = 2


def run(quick: bool = False) -> dict[str, Any]:
    """Measure single adds to models of several sizes.

    Parameters
    ----------
    quick : bool, default=False
        Shrink everything so that it takes about a second; the figures then mean nothing.

    Returns
    -------
    dict
        ``by_classes``: median CPU milliseconds per added class, where of the existing classes
        `n_added` were added and `n_seen` are seen; ``refit_peer_cpu_ms`` of the peer.
    """
    sizes = QUICK if quick else FULL
    by_classes = [
        record
        for n_attributes in sizes.n_attributes
        for transfer in TRANSFERS
        for record in _by_classes(sizes, transfer, n_attributes)
    ]
    results = {
        "sizes": sizes,
        "by_classes": by_classes,
        "refit_peer_cpu_ms": _refit_peer(sizes),
    }
    notes = [
        "Features and attributes are synthetic; what is timed is add_classes with one class, "
        f"{sizes.n_adds} times in a row, checks and growing of the arrays included.",
        "Models with many seen classes are fitted on two instances per class.",
        "CPU milliseconds count all threads; a busy machine disturbs them least.",
        "The network is trained for one step; the time of an add does not depend on weights.",
        f"The peer is fitted to {sizes.n_instances[0]:,} instances.",
    ]
    kinds = [HGKTClassifier, HGKTNetworkClassifier]
    return document("add-class", quick, results, notes, ["scikit-learn"], methods=kinds)


def fitted_model(
    sizes: Sizes, transfer: str, n_attributes: int, n_instances: int, n_seen: int = _N_SEEN
) -> Model:
    """Fit a model on synthetic instances.

    Parameters
    ----------
    sizes : Sizes
        Widths.
    transfer : {"closed-form", "network"}
        How knowledge gets to new classes.
    n_attributes, n_instances : int
        Sizes of the data.
    n_seen : int
        How many seen classes there are; fewer where there are few instances.
    """
    size = Size("", n_instances, sizes.n_features, min(n_seen, n_instances // 2), n_attributes)
    model: Model = HGKTClassifier(calibration=0, device="cpu")
    if transfer == "network":
        model = HGKTNetworkClassifier(
            n_hidden=sizes.n_hidden,
            n_steps=1,
            representative="euclidean",
            graph_space="attributes",
            device="cpu",
            random_state=0,
        )
    fitted: Model = make_problem(size, n_test=0).fit(model)
    return fitted


def _by_classes(sizes: Sizes, transfer: str, n_attributes: int) -> list[dict[str, Any]]:
    """Let the existing classes be added ones first, then seen ones."""
    about = {"transfer": transfer, "n_attributes": n_attributes}
    model = fitted_model(sizes, transfer, n_attributes, sizes.n_instances[0])
    records = []
    for n_classes in sizes.n_classes:
        rows = np.random.default_rng(2).random((n_classes - len(model.seen_classes_), n_attributes))
        model.add_classes({f"added {number:05d}": row for number, row in enumerate(rows)})
        records.append(_record(model, sizes, **about))
        model.remove_classes(model.unseen_classes_.tolist())
    for n_seen in sizes.n_seen:
        model = fitted_model(sizes, transfer, n_attributes, 2 * n_seen, n_seen)
        records.append(_record(model, sizes, **about))
    return records


def _record(model: Model, sizes: Sizes, **about: Any) -> dict[str, Any]:
    """Time single adds after two that warm up; the classes are taken out again."""
    n_adds = sizes.n_adds + _N_WARM_UP
    rows = np.random.default_rng(3).random((n_adds, model.class_attributes_.shape[1]))
    new = [{f"new {number:05d}": row} for number, row in enumerate(rows)]
    took = [timed(partial(model.add_classes, one))[1] for one in new][_N_WARM_UP:]
    model.remove_classes([name for one in new for name in one])
    return about | {
        "bound_cpu_ms": _bound(model, sizes),
        "n_seen": len(model.seen_classes_),
        "n_added": len(model.unseen_classes_),
        "median_cpu_ms": float(np.median([1000.0 * time.cpu for time in took])),
    }


def _bound(model: Model, sizes: Sizes) -> float | None:
    """Median CPU milliseconds of one row of kernel values times what seen classes hold."""
    if not isinstance(model, HGKTClassifier):
        return None
    rng, shape = np.random.default_rng(4), (len(model.seen_classes_), sizes.n_features)
    row, held = rng.random(shape[:1], dtype=np.float32), rng.random(shape, dtype=np.float32)
    took = [timed(lambda: row @ held)[1].cpu for _ in range(sizes.n_adds)]
    return 1000.0 * float(np.median(took))


def _refit_peer(sizes: Sizes) -> float:
    """CPU milliseconds of fitting discriminant analysis to the fewest instances."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    size = Size("", sizes.n_instances[0], sizes.n_features, _N_SEEN, sizes.n_attributes[0])
    problem = make_problem(size, n_test=0)
    peer = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.5)
    return 1000.0 * timed(lambda: peer.fit(problem.X, problem.y))[1].cpu
