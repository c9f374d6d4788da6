"""The paper's network along its training steps, and trained exactly or by sampling."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hgkt.evaluation import GZSLMetrics, class_folds, gzsl_metrics, split_fold
from hgkt.exceptions import DataError
from hgkt.experiments import style
from hgkt.experiments.blocks import Block, FigureBlock, Outcome, Plan, TableBlock, Value, experiment
from hgkt.experiments.plan import Cell, CellResult, Context, DataSpec, Outputs, build_estimator
from hgkt.experiments.rows import PAPER

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.network.transfer import NetworkTransfer

_STEPS = (1, 10, 25, 50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3600, 6000)
_QUICK_STEPS = (1, 25, 50, 100, 200, 400)
_ADAM = {"optimizer": "adam"}  # the paper's, of whose steps these figures are
_WORDS = {"ts": "unseen (ts)", "tr": "seen (tr)", "H": "H"}
_PANELS = {"validation": "Validation classes", "test": "Test (looked at, not used)"}
_MODES = {"quotient": "quotient (exact)", "sampled": "sampled neighbours"}


# ---------------------------------------------------------------------- iterations
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
    return outcome.by_data(
        "Accuracy against iterations",
        lambda data, result: [_draw_iterations(data, result, outcome.keys(data.name))],
    )


def _draw_iterations(data: DataSpec, result: CellResult, keys: tuple[str, ...]) -> Block:
    steps, stop = result.arrays["steps"], int(result.values["stop"])
    frame = pd.DataFrame({"step": steps})
    with style.drawn(6.8, 3.1, columns=2, sharey=True) as (drawing, axes):
        for axis, (part, words) in zip(axes, _PANELS.items(), strict=True):
            table = result.arrays[part]
            for index, name in enumerate(COLUMNS):
                label = _WORDS[name] if part == "validation" else None
                axis.plot(steps, table[:, index], label=label, **style.series(index))
                frame[f"{part}_{name}"] = table[:, index]
            _mark_stop(axis, steps, table, stop, part == "validation")
            axis.set(title=words, xlabel="iteration")
        axes[0].set_ylabel("accuracy, %")
        axes[0].set_ylim(0, 100)
        drawing.legend(loc="outside lower center", ncols=4)
    return FigureBlock.of("figure-iterations", data, drawing, frame, keys, stop=stop)


def _mark_stop(axis: Any, steps: Any, table: Any, stop: int, labelled: bool) -> None:
    height = table[steps.tolist().index(stop), 2]
    axis.axvline(stop, color=style.MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    axis.plot(
        [stop], [height], "*", color=style.INK, markersize=12, linestyle="none", zorder=5,
        label="stop, chosen on validation" if labelled else None,
    )  # fmt: skip
    late = stop > 0.7 * steps[-1]  # then the words go to the left, into the panel
    axis.annotate(
        f"H {height:.1f}", (stop, height), xytext=(-8 if late else 7, 5),
        ha="right" if late else "left", textcoords="offset points", color=style.INK, fontsize=8,
    )  # fmt: skip


# ---------------------------------------------------------------------- exact and sampled
def _plan_training(context: Context) -> Plan:
    steps = [1, 25, 50, 100] if context.quick else [1, 50, 100, 200, 300]
    n_sampled = {"quotient": None, "sampled": 10 if context.quick else 50}
    return {
        (data.name, mode): [
            Cell("training", data, PAPER.method, "", {**_ADAM, "n_sampled": n}, 0, {"steps": steps})
        ]
        for data in context.data
        for mode, n in n_sampled.items()
    }


@experiment("Exact and sampled training", _plan_training)
def training(outcome: Outcome) -> list[Block]:
    """Beyond the paper, which trains by mini-batches with S = 50 drawn neighbours. All instances of
    a class share one attribute vector, so the graph collapses, without loss, to two rows per class
    and the loss to class means: a step over all instances costs less than a mini-batch.
    """
    sets = outcome.context.data
    quick = "Quick run: S = 10." if outcome.context.quick else ""
    columns = ["Data", "Training", "Steps", "Loss above its floor", "ms per step", "s per epoch",
               "ts", "tr", "H"]  # fmt: skip
    rows = [_training_row(outcome, data, mode) for data in sets for mode in _MODES]
    table = TableBlock.of("ablation-training", None, columns, rows, quick=quick)
    return [table, *(_draw_training(outcome, data) for data in sets)]


def _training_row(outcome: Outcome, data: DataSpec, mode: str) -> list[Value | str]:
    slot = (data.name, mode)
    accuracies = [outcome.value(slot, name) for name in ("ts", "tr", "H")]
    result = outcome.first(slot)
    if result is None:
        return [data.name, _MODES[mode], *[Value()] * 4, *accuracies]
    values = result.values
    step = values["seconds_per_step"]
    numbers = [
        (float(result.arrays["steps"][-1]), ".0f"),
        (values["loss"] - values["constant"], ".4g"),
        (1000 * step, ".3g"),
        (step * values["steps_per_epoch"], ".3g"),
    ]
    shown = [Value(number, n=1, keys=outcome.keys(slot), form=form) for number, form in numbers]
    return [data.name, _MODES[mode], *shown, *accuracies]


def _draw_training(outcome: Outcome, data: DataSpec) -> Block:
    slots = {mode: (data.name, mode) for mode in _MODES}
    if not outcome.good(*slots.values()):
        return outcome.nothing(f"Exact and sampled training, {data.name}", *slots.values())
    frames = []
    with style.drawn(6.8, 3.0, columns=2) as (drawing, (left, right)):
        for index, (mode, slot) in enumerate(slots.items()):
            for result in outcome.good(slot):
                steps, h = result.arrays["steps"], result.arrays["H"]
                excess = result.arrays["losses"] - result.values["constant"]
                look = style.series(index)
                left.plot(steps, excess, label=_MODES[mode], **look)
                right.plot(steps, h, **look)
                frames.append(
                    pd.DataFrame({"training": mode, "step": steps, "loss": excess, "H": h})
                )
        left.set(title="Exact loss", xlabel="step", ylabel="loss above its floor", yscale="log")
        right.set(title="Harmonic mean", xlabel="step", ylabel="H on test, %")
        right.set_ylim(0, max(5.0, 1.1 * right.get_ylim()[1]))
        drawing.legend(loc="outside lower center", ncols=2)
    frame, keys = pd.concat(frames, ignore_index=True), outcome.keys(*slots.values())
    return FigureBlock.of("ablation-training", data, drawing, frame, keys)


COLUMNS = ("ts", "tr", "H")


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
    steps = _steps(cell)
    model = network_of(cell, dataset)
    validation = train_network(model, validation_division(dataset, cell.seed), steps).metrics
    test = train_network(model, final_division(dataset), steps).metrics
    stop = max(steps, key=lambda step: validation[step].H)  # the first of equally good ones
    values = {"stop": stop, "metrics": test[stop].to_dict(), "validation_H": validation[stop].H}
    arrays = {
        "steps": np.array(steps),
        "validation": _table(validation, steps),
        "test": _table(test, steps),
    }
    return values, arrays


def _table(metrics: dict[int, GZSLMetrics], steps: list[int]) -> NDArray[np.float64]:
    return np.array([[getattr(metrics[step], name) for name in COLUMNS] for step in steps])


def run_training(cell: Cell, dataset: GZSLDataset) -> Outputs:
    """Train and take the exact loss over all instances and the accuracies on the way.

    Parameters
    ----------
    cell : Cell
        ``params["n_sampled"]``: None, or how many neighbours are drawn;
        ``options["steps"]``: where to look.
    dataset : GZSLDataset
        The data.

    Returns
    -------
    values : dict
        ``metrics`` of the test after the last step, its ``loss``, ``constant`` (the part of the
        loss that no weight can change), ``seconds_per_step``, ``steps_per_epoch``.
    arrays : dict of ndarray
        ``steps``, ``losses`` and ``H`` (S,).

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> from hgkt.experiments.plan import Cell, DataSpec
    >>> cell = Cell("training", DataSpec("digits", "digits"), "hgkt-network", "",
    ...             {"n_hidden": 16}, options={"steps": [1, 3]})
    >>> values, arrays = run_training(cell, load_dataset("digits"))
    >>> values["steps_per_epoch"], arrays["losses"].shape
    (1, (2,))
    """
    from hgkt.network.train import TrainingConfig

    steps = _steps(cell)
    division = final_division(dataset)
    model = network_of(cell, dataset)
    chosen, _ = choose_and_join(model, division)
    run = train_network(model, division, steps, chosen)
    values = {
        "metrics": run.metrics[steps[-1]].to_dict(),
        "loss": run.losses[steps[-1]],
        "constant": run.floor,
        "seconds_per_step": run.seconds_per_step,
        "steps_per_epoch": TrainingConfig(**run.transfer.settings.training).steps_per_epoch(
            len(division.X)
        ),
    }
    arrays = {
        "steps": np.array(steps),
        "losses": np.array([run.losses[step] for step in steps]),
        "H": np.array([run.metrics[step].H for step in steps]),
    }
    return values, arrays


def _steps(cell: Cell) -> list[int]:
    steps = sorted(int(step) for step in cell.options.get("steps", ()))
    if not steps:
        raise DataError(f"the task {cell.task!r} needs the option steps: a list of step counts")
    return steps


def network_of(cell: Cell, dataset: GZSLDataset) -> HGKTNetworkClassifier:
    """Return the unfitted network of a cell; its method has to be "hgkt-network"."""
    return cast("HGKTNetworkClassifier", build_estimator(cell, dataset))


@dataclass(frozen=True, eq=False)
class Division:
    """Rows to fit on, rows of the same classes and rows of classes that are added.

    Parameters
    ----------
    X : ndarray of shape (N, D)
        Features to fit on.
    codes : ndarray of shape (N,)
        Their classes, as positions in `seen`.
    seen, unseen : tuple of str
        Class names; `seen` is sorted, as a fit sorts them.
    attributes, new_attributes : ndarray of shapes (L, d) and (U, d)
        Class attributes in the order of `seen` and `unseen`.
    X_seen, y_seen : ndarray
        Test features of seen classes and their class names.
    X_unseen, y_unseen : ndarray
        The same of the classes that are added.
    """

    X: NDArray[Any]
    codes: NDArray[np.intp]
    seen: tuple[str, ...]
    unseen: tuple[str, ...]
    attributes: NDArray[np.float64]
    new_attributes: NDArray[np.float64]
    X_seen: NDArray[Any]
    y_seen: NDArray[Any]
    X_unseen: NDArray[Any]
    y_unseen: NDArray[Any]

    def metrics(self, transfer: NetworkTransfer, table: NDArray[Any]) -> GZSLMetrics:
        """Add the unseen classes to a trained network and test it, without calibration."""
        added = transfer.embed(self.new_attributes)
        scores = [transfer.score(X, table, added) for X in (self.X_seen, self.X_unseen)]
        classes = [*self.seen, *self.unseen]
        return gzsl_metrics(
            scores[0], self.y_seen, scores[1], self.y_unseen, classes, len(self.seen)
        )

    def permuted(self, order: NDArray[np.intp]) -> Division:
        """Return the division with its feature columns in another order."""
        return replace(
            self, X=self.X[:, order], X_seen=self.X_seen[:, order], X_unseen=self.X_unseen[:, order]
        )


def final_division(dataset: GZSLDataset) -> Division:
    """Fit on the train rows, look at the test rows.

    Parameters
    ----------
    dataset : GZSLDataset
        The data.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> division = final_division(load_dataset("digits"))
    >>> division.unseen, division.X.shape[1]
    (('two', 'six'), 64)
    """
    train, seen, unseen = map(dataset.rows, ("train", "test_seen", "test_unseen"))
    return _division(dataset, train, seen, unseen, dataset.unseen_classes)


def validation_division(dataset: GZSLDataset, seed: int = 0) -> Division:
    """Return the first validation fold, divided as `ClassFoldSearch` divides it.

    Parameters
    ----------
    dataset : GZSLDataset
        The data; its published folds are taken where it has some.
    seed : int
        Seed of folds and held-out rows.

    Examples
    --------
    >>> from hgkt.data import load_dataset
    >>> division = validation_division(load_dataset("digits"))
    >>> len(division.seen), len(division.unseen)
    (6, 2)
    """
    X, y = dataset.rows("train")
    folds = dataset.class_folds() or class_folds(np.unique(y), 1, None, seed)
    train, validation = folds[0]
    rows = split_fold(y, train, validation, 0.2, [seed, 0])
    parts = [(X[part], y[part]) for part in (rows.fit, rows.val_seen, rows.val_unseen)]
    names = set(validation)
    codes = [code for code, name in enumerate(dataset.class_names) if name in names]
    return _division(dataset, parts[0], parts[1], parts[2], codes)


Rows = tuple[NDArray[Any], NDArray[Any]]


def _division(
    dataset: GZSLDataset, fit: Rows, seen: Rows, unseen: Rows, new_codes: Any
) -> Division:
    names, codes = np.unique(fit[1], return_inverse=True)
    table = dataset.attributes_of(range(len(dataset.class_names)))
    new = dataset.names(new_codes)
    return Division(
        fit[0],
        codes.astype(np.intp),
        tuple(names.tolist()),
        tuple(new),
        np.stack([table[name] for name in names.tolist()]),
        np.stack([table[name] for name in new]),
        *seen,
        *unseen,
    )


@dataclass(frozen=True, eq=False)
class NetworkRun:
    """What a training run gave.

    Parameters
    ----------
    metrics : dict of int to GZSLMetrics
        The test of `Division` after each step asked for.
    losses : dict of int to float
        The exact loss over all instances after each of these steps, as the paper writes it,
        without weight decay.
    seconds_per_step : float
        Time between looks divided by the steps between them; NaN with fewer than two looks.
    floor : float
        The part of the loss that no weight can change: the scatter within classes.
    transfer : NetworkTransfer
        The trained network.
    """

    metrics: dict[int, GZSLMetrics]
    losses: dict[int, float]
    seconds_per_step: float
    floor: float
    transfer: NetworkTransfer


def train_network(
    model: HGKTNetworkClassifier,
    division: Division,
    steps: Sequence[int] = (),
    representatives: NDArray[np.intp] | None = None,
) -> NetworkRun:
    """Train the network of a model and test it after each of `steps`, by default at its end.

    Parameters
    ----------
    model : HGKTNetworkClassifier
        Parameters; it is not fitted.
    division : Division
        The data.
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
    >>> run = train_network(model, final_division(load_dataset("digits")), steps=(1, 5))
    >>> sorted(run.metrics), run.losses[5] < run.losses[1]
    ([1, 5], True)
    """
    from hgkt._arrays import map_rows
    from hgkt.network.loss import SquaredObjective, Targets
    from hgkt.network.transfer import NetworkTransfer

    settings = model._settings(division.X.dtype)
    wanted = tuple(sorted(set(steps)))
    training = settings.training
    if wanted:
        training = {**training, "n_steps": wanted[-1], "snapshot_steps": wanted}
    features = map_rows(division.X, settings.feature_map)
    targets = Targets.from_features(features, division.codes, len(division.seen))
    objective = SquaredObjective.build(targets)
    metrics: dict[int, GZSLMetrics] = {}
    losses: dict[int, float] = {}
    looks: list[tuple[float, float]] = []  # when a look began and when it ended

    def snapshot(step: int, transfer: NetworkTransfer, table: NDArray[Any]) -> None:
        began = time.perf_counter()
        metrics[step] = division.metrics(transfer, table)
        residuals = np.asarray(table, dtype=np.float64) - objective.targets
        distances = np.einsum("ij,ij->i", residuals, residuals)
        losses[step] = float(objective.weights @ distances + objective.constant)
        looks.append((began, time.perf_counter()))

    transfer = NetworkTransfer(replace(settings, training=training))
    table = transfer.fit(
        division.X,
        division.codes,
        division.attributes,
        representatives=representatives,
        on_snapshot=snapshot,
    )
    if not wanted:
        snapshot(len(transfer.losses), transfer, table)
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(looks)]
    seconds = sum(gaps) / (wanted[-1] - wanted[0]) if gaps else float("nan")
    return NetworkRun(metrics, losses, seconds, objective.constant, transfer)


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
