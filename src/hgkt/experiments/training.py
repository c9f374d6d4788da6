"""The paper's network along its training steps, and what the studies of the network share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt._arrays import map_rows
from hgkt.calibration.curve import ValidationRows
from hgkt.calibration.folds import Fold, Instances, folds_of_rows
from hgkt.evaluation import GZSLMetrics, class_folds, gzsl_metrics
from hgkt.exceptions import DataError
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, experiment
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs, build_estimator
from hgkt.experiments.rows import PAPER

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.graph import HeterogeneousGraph
    from hgkt.network.transfer import NetworkTransfer

_STEPS = (1, 10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3600, 6000)
_QUICK_STEPS = (1, 25, 50, 100, 200, 400)
_ADAM = {"optimizer": "adam"}  # the paper's, of whose steps this figure is
_WORDS = {"ts": "unseen (ts)", "tr": "seen (tr)", "H": "H"}
_PANELS = {"validation": "Validation classes", "test": "Test, not used"}


def _plan_iterations(context: Context) -> Plan:
    options = {"steps": list(_QUICK_STEPS if context.quick else _STEPS)}
    return {
        data.name: [Cell("iterations", data, PAPER.method, "", _ADAM, options=options)]
        for data in context.data
    }


@experiment("Accuracy against iterations", _plan_iterations)
def iterations(outcome: Outcome) -> list[Block]:
    """The paper's figure of test accuracy against the number of iterations, from which it concludes
    that training converges quickly. Here the same curves for validation classes stand beside them,
    and they alone decide when to stop.
    """
    return outcome.by_data("Accuracy against iterations", _draw_iterations)


def _draw_iterations(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> Block:
    steps, stop = result.arrays["steps"], int(result.values["stop"])
    frame = pd.DataFrame({"step": steps})
    with style.drawn(6.8, 3.1, columns=2, sharey=True) as (drawing, axes):
        for axis, (part, words) in zip(axes, _PANELS.items(), strict=True):
            table = result.arrays[part]
            for index, (name, label) in enumerate(_WORDS.items()):
                axis.plot(steps, table[:, index], label=label, **style.series(index))
                frame[f"{part}_{name}"] = table[:, index]
            harmonic = table[steps.tolist().index(stop), 2]
            axis.axvline(stop, color=style.MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
            axis.plot(stop, harmonic, "*", color=style.INK, markersize=12, linestyle="none",
                      zorder=5, label="stop, chosen on validation")  # fmt: skip
            axis.set(title=f"{words}: H {harmonic:.1f}", xlabel="iteration")
        axes[0].set(ylabel="accuracy, %", ylim=(0, 100))
        drawing.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return FigureBlock.of("figure-iterations", data, drawing, frame, keys=keys, fill={"stop": stop})


def run_iterations(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Train on a validation fold and on all train rows, and test both at every step asked for.

    The stopping point is the step with the highest H on the validation fold. Test rows are looked
    at after every step asked for, but nothing is chosen by them.

    Parameters
    ----------
    cell : Cell
        ``options["steps"]``: the steps.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``stop``, the step chosen on validation classes, and ``metrics`` of the test at it.
    arrays : dict of ndarray
        ``steps`` (S,); ``validation`` and ``test`` (S, 3), columns ts, tr and H in percent.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("iterations", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_hidden": 16}, options={"steps": [1, 2, 4]})
    >>> values, arrays = run_iterations(cell, load_dataset("digits"))
    >>> values["stop"] in (1, 2, 4), arrays["test"].shape
    (True, (3, 3))
    """
    steps = sorted(int(step) for step in cell.options.get("steps", ()))
    if not steps:
        raise DataError(f"the task {cell.task!r} needs the option steps: a list of step counts")
    model = network_of(cell, dataset)
    validation = train_network(model, validation_fold(dataset, cell.seed), steps).metrics
    test = train_network(model, final_fold(dataset), steps).metrics
    stop = max(steps, key=lambda step: validation[step].H)  # the first of equally good ones
    values = {"stop": stop, "metrics": test[stop].to_dict(), "validation_H": validation[stop].H}
    arrays = {"steps": np.array(steps)} | {
        part: np.array([[getattr(run[step], name) for name in _WORDS] for step in steps])
        for part, run in (("validation", validation), ("test", test))
    }
    return values, arrays


# ---------------------------------------------------------------------- the network, for studies
def network_of(cell: Cell, dataset: GZSLDataset) -> HGKTNetworkClassifier:
    """Return the unfitted network of a cell; its method has to be "hgkt-network"."""
    return cast("HGKTNetworkClassifier", build_estimator(cell, dataset))


def final_fold(dataset: GZSLDataset) -> Fold:
    """Return the benchmark's own split as a fold: train rows to fit on, test rows to look at.

    Parameters
    ----------
    dataset : GZSLDataset
        The data.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> fold = final_fold(load_dataset("digits"))
    >>> fold.new_classes, fold.training.X.shape[1]
    (('two', 'six'), 64)
    """
    X, y = dataset.rows("train")
    (X_seen, y_seen), (X_unseen, y_unseen) = map(dataset.rows, ("test_seen", "test_unseen"))
    seen, unseen = np.unique(y), dataset.names(dataset.unseen_classes)
    vectors = dataset.attributes_of(range(len(dataset.class_names)))
    return Fold(
        Instances(X, np.searchsorted(seen, y)),
        seen,
        np.stack([vectors[name] for name in seen]),
        tuple(unseen),
        np.stack([vectors[name] for name in unseen]),
        np.concatenate([X_seen, X_unseen]),
        ValidationRows(y_seen, y_unseen, [*seen.tolist(), *unseen], len(seen)),
    )


def validation_fold(dataset: GZSLDataset, seed: int = 0) -> Fold:
    """Return the first validation fold, as `ClassFoldSearch` makes it.

    Parameters
    ----------
    dataset : GZSLDataset
        The data; its published folds are taken where it has some.
    seed : int
        Seed of folds and held-out rows.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> fold = validation_fold(load_dataset("digits"))
    >>> len(fold.classes), len(fold.new_classes)
    (6, 2)
    """
    X, y = dataset.rows("train")
    folds = dataset.class_folds() or class_folds(np.unique(y), 1, None, seed)
    train, validation = folds[0]
    ordered = [name for name in dataset.class_names if name in set(validation)]
    vectors = dataset.attributes_of(dataset.seen_classes)
    return next(folds_of_rows(X, y, vectors, [(train, ordered)], random_state=seed))


class NetworkRun(NamedTuple):
    """What a training run gave.

    Parameters
    ----------
    metrics : dict of int to GZSLMetrics
        The test, without calibration, after each step asked for.
    transfer : NetworkTransfer
        The trained network.
    """

    metrics: dict[int, GZSLMetrics]
    transfer: NetworkTransfer


def train_network(
    model: HGKTNetworkClassifier,
    fold: Fold,
    steps: Sequence[int] = (),
    representatives: NDArray[np.intp] | None = None,
) -> NetworkRun:
    """Train the network of a model and test it after each of `steps`, by default at its end.

    Parameters
    ----------
    model : HGKTNetworkClassifier
        Parameters; it is not fitted.
    fold : Fold
        Rows to fit on, classes that are added then, and rows to test.
    steps : sequence of int
        Steps after which to test; training goes on to the largest. Without any it goes on to
        the end, where the test is.
    representatives : ndarray of shape (L,), optional
        Rows that represent the classes; by default the model chooses them.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.estimators import HGKTNetworkClassifier
    >>> model = HGKTNetworkClassifier(n_hidden=16, random_state=0, device="cpu")
    >>> run = train_network(model, final_fold(load_dataset("digits")), steps=(1, 5))
    >>> sorted(run.metrics)
    [1, 5]
    """
    from hgkt.network.transfer import NetworkTransfer

    X, codes = instances_of(fold)
    settings = model._settings(X.dtype)
    if steps:
        until = {"n_steps": max(steps), "snapshot_steps": tuple(sorted(set(steps)))}
        settings = replace(settings, training={**settings.training, **until})
    metrics: dict[int, GZSLMetrics] = {}

    def snapshot(step: int, transfer: NetworkTransfer, table: NDArray[Any]) -> None:
        metrics[step] = _test(fold, transfer, table)

    transfer = NetworkTransfer(settings)
    table = transfer.fit(
        X, codes, fold.attributes, representatives=representatives, on_snapshot=snapshot
    )
    if not steps:
        snapshot(len(transfer.losses), transfer, table)
    return NetworkRun(metrics, transfer)


def instances_of(fold: Fold) -> Instances:
    """Return the rows that a fold is learned from."""
    return cast("Instances", fold.training)


def _test(fold: Fold, transfer: NetworkTransfer, table: NDArray[Any]) -> GZSLMetrics:
    """Add the unseen classes to a trained network and test it, without calibration."""
    rows, added = fold.rows, transfer.embed(fold.new_attributes)
    parts = np.split(fold.X_eval, [rows.n_seen_rows])
    truths = np.split(np.asarray(rows.classes)[rows.truth], [rows.n_seen_rows])
    seen, unseen = (transfer.score(X, table, added) for X in parts)
    return gzsl_metrics(seen, truths[0], unseen, truths[1], rows.classes, rows.n_seen)


def graph_of(model: HGKTNetworkClassifier, fold: Fold) -> HeterogeneousGraph:
    """Return the graph (Algorithm 1, steps 1–4) that a model would train on.

    Parameters
    ----------
    model : HGKTNetworkClassifier
        Parameters of the choice of representatives and of the graph.
    fold : Fold
        The data.
    """
    from hgkt.graph import construct_graph

    X, codes = instances_of(fold)
    settings = model._settings(X.dtype)
    method, options = settings.representative_method()
    return construct_graph(
        map_rows(X, settings.feature_map),
        codes,
        map_rows(fold.attributes, settings.attribute_map),
        method=method,
        random_state=settings.training["seed"],
        **settings.edges(),
        **options,
    )


def neighbor_table(graph: HeterogeneousGraph) -> NDArray[np.intp]:
    """Return the k nearest classes (L, k) of each class of a graph."""
    return graph.neighbors.indices.reshape(len(graph.representatives), -1)


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
