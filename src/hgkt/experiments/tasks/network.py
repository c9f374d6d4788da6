"""Train the paper's network on one division of a data set and look at it on the way.

`NetworkTransfer` can be stopped at many steps and given its representatives, which
`HGKTNetworkClassifier` hides. What is computed here is what a fit and
`evaluate` compute (tests compare them).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from hgkt.evaluation import GZSLMetrics, class_folds, gzsl_metrics, split_fold
from hgkt.experiments.tasks import build_estimator

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset
    from hgkt.estimators import HGKTNetworkClassifier
    from hgkt.experiments.base import Cell
    from hgkt.network.transfer import NetworkTransfer


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
