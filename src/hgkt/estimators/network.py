"""HGKTNetworkClassifier: the paper's three algorithms.

Algorithm 1 is `hgkt.graph.construct_graph`, Algorithm 2 `hgkt.network.train`; both are called by
`fit`. Algorithm 3 is `add_classes`, which embeds a new class, and `predict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table, label_text
from hgkt.calibration import Favour, Fold, Instances
from hgkt.estimators.class_table import ClassRows
from hgkt.estimators.explain import TransferClassifier
from hgkt.exceptions import DataError
from hgkt.graph import HeterogeneousGraph
from hgkt.network.transfer import (
    NetworkSettings,
    NetworkTransfer,
    ReducedInstances,
    reduce_batches,
)
from hgkt.transport.streaming import MEMORY

LabelledBatches = Callable[[], Iterable[tuple[ArrayLike, ArrayLike]]]
"""Returns, each time it is called, the same batches: features (k, D) and labels (k,)."""

# Parameters that `hgkt.network.train.TrainingConfig` takes under the same name.
_TRAINING = (
    *("n_hidden", "mu", "output_activation", "loss_nodes", "weighting", "weight_decay"),
    *("feature_norm", "optimizer", "learning_rate", "n_steps", "n_sampled", "device"),
)


class HGKTNetworkClassifier(TransferClassifier):
    """Heterogeneous graph-based knowledge transfer as published: Algorithms 1, 2 and 3.

    A graph over the instances (complete inside a class, kNN between classes through
    representatives chosen by Wasserstein barycenter), a two-layer network from class attributes
    into visual space trained on it, and an inductive step that embeds a new class. What the paper
    leaves open is a parameter. The defaults, preset "exact", solve the paper's problem without
    sampling noise and iterations: all neighbours, variable projection, the exact barycenter, and
    no unit of the features. Preset "paper" is its letter:
    ``HGKTNetworkClassifier.from_preset("paper")``.

    Parameters
    ----------
    n_neighbors : int, default=2
        k, neighbours of a class in the graph; clipped to what is there, 0 for none (the paper's
        ablation). Paper: 2.
    representative : {"wasserstein", "sinkhorn", "euclidean", "random", "medoid"}, \
default="wasserstein"
        How the representative of a class is chosen. Paper: "sinkhorn", an approximation of the
        exact Wasserstein barycenter.
    reg : float, default=1e-3
        ε of "sinkhorn", on the ground cost divided by its maximum. Paper: 1e-5, without a word on
        the scale; on the raw cost (i − j)² it is void, exp(−1/ε) being zero in floating point.
    graph_space : {"wasserstein", "euclidean", "cosine", "attributes"}, default="wasserstein"
        Space of the kNN among representatives.
    unseen_space : {"attributes", "visual"}, default="attributes"
        Space in which a new class finds its neighbours. The paper says both.
    symmetric : bool, default=False
        Whether inter-class edges carry both ways.
    intra : bool, default=True
        Whether there are in-class edges; the paper's other ablation.
    aggregation : {"union", "per-type", "inter-only"}, default="union"
        How a representative averages over its two kinds of neighbours. Paper: "union".
    mu : float, default=0.5
        μ, weight of the neighbours' mean. Paper: from 0.01, 0.1, 0.5, 1 by validation.
    n_hidden : int, default=1600
        Width of the hidden layer, leaky ReLU of slope 0.2. Paper: 1600.
    output_activation : {"leaky_relu", "relu", "linear"}, default="leaky_relu"
        Of the output layer.
    loss_nodes : {"class", "instance", "representative"}, default="class"
        Which nodes enter the loss.
    weighting : {"count", "uniform"}, default="count"
        Whether a class weighs in the loss by its number of instances or all weigh the same.
    weight_decay : float, default=1e-3
        Weight of ½‖W‖² in the loss, whose features have `feature_norm`. Paper: 0.001.
    feature_norm : float or None, default=10.0
        Root mean square norm to which features are scaled while the network is trained, so that
        weight decay and learning rate mean the same in any unit; embeddings and scores are in the
        features' own. At 10 an image weighs about as deep features as published do (CUB's have
        9.7). None, the paper: features as they are.
    optimizer : {"auto", "lbfgs", "adam"}, default="auto"
        "lbfgs" solves the output layer at every step; it needs the exact loss (``n_sampled=None``)
        and a weight decay, and "auto" takes it there. Paper: Adam.
    learning_rate : float, default=1e-4
        Of Adam. Paper: the default.
    n_steps : int, optional
        Optimiser steps; None trains until the loss stands. Paper: not said.
    n_sampled : int, optional
        None: exact full-batch steps on two rows per class. A number: the paper's mini-batches
        with so many neighbours drawn per node (paper: S = 50).
    feature_map, attribute_map : {"none", "l2", "sqrt+l2"} or float, default="none"
        Map of each row of features and of attributes. The graph, too, is of mapped rows: a map of
        features changes the histograms of the barycenter. Paper: "none".
    metric : {"euclidean", "cosine"}, default="euclidean"
        How an instance is compared with a class embedding. Paper: "euclidean".
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where the network is trained.
    random_state : int, RandomState or None, default=None
        Seed of initial weights, batches and random representatives.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        Labels: all, learned from instances, added by attributes.
    class_embeddings_ : ndarray of shape (n_classes, n_features)
        In the visual space.
    graph_ : HeterogeneousGraph
        The graph of Algorithm 1.
    representatives_ : ndarray of shape (n_seen,)
        Row of each seen class's representative in the training data.
    loss_curve_ : ndarray of shape (n_steps,)
        Training loss before each step, a mean of squared distances in the features' unit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[9, 1, 1, 0], [8, 2, 1, 0], [1, 9, 1, 0], [2, 8, 1, 0.0]])
    >>> y = ["horse", "horse", "tiger", "tiger"]
    >>> model = HGKTNetworkClassifier(n_hidden=8, random_state=0)
    >>> model = model.fit(X, y, class_attributes={"horse": [1.0, 0.0], "tiger": [0.0, 1.0]})
    >>> model.add_classes({"zebra": [0.6, 0.8]}).predict([[9, 1, 0, 0]]).tolist()
    ['horse']
    """

    # 1: a chosen number of steps, in the features' unit; 2: to the end, in a unit of its own
    mathematics_version: ClassVar[int] = 2

    _transfer: NetworkTransfer
    _checkpoint: str | Path | None = None

    def __init__(
        self,
        *,
        n_neighbors: int = 2,
        representative: str = "wasserstein",
        reg: float = 1e-3,
        graph_space: str = "wasserstein",
        unseen_space: str = "attributes",
        symmetric: bool = False,
        intra: bool = True,
        aggregation: str = "union",
        mu: float = 0.5,
        n_hidden: int = 1600,
        output_activation: str = "leaky_relu",
        loss_nodes: str = "class",
        weighting: str = "count",
        weight_decay: float = 1e-3,
        feature_norm: float | None = 10.0,
        optimizer: str = "auto",
        learning_rate: float = 1e-4,
        n_steps: int | None = None,
        n_sampled: int | None = None,
        feature_map: str | float = "none",
        attribute_map: str | float = "none",
        metric: str = "euclidean",
        calibration: float = 0.0,
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.representative = representative
        self.reg = reg
        self.graph_space = graph_space
        self.unseen_space = unseen_space
        self.symmetric = symmetric
        self.intra = intra
        self.aggregation = aggregation
        self.mu = mu
        self.n_hidden = n_hidden
        self.output_activation = output_activation
        self.loss_nodes = loss_nodes
        self.weighting = weighting
        self.weight_decay = weight_decay
        self.feature_norm = feature_norm
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.n_steps = n_steps
        self.n_sampled = n_sampled
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.metric = metric
        self.calibration = calibration
        self.device = device
        self.random_state = random_state

    def write_to(self, checkpoint: str | Path | None = None) -> Self:
        """Have the next fits write a checkpoint; a clone, and so a search, starts without it.

        Parameters
        ----------
        checkpoint : path, optional
            File to resume training from and to write its state to.
        """
        self._checkpoint = checkpoint
        return self

    @property
    def output_files(self) -> dict[str, str | Path | None]:
        """What `write_to` was given."""
        return {"checkpoint": self._checkpoint}

    def fit_batches(
        self, batches: LabelledBatches, class_attributes: Any, memory: int = MEMORY
    ) -> Self:
        """Learn as `fit` does from rows that are never in memory together.

        Classes whose rows fit into an equal share of `memory` get the very representatives that
        `fit` chooses; for larger ones the batches are read a second time and the choice has an
        error bound, see `hgkt.transport.streaming.stream_representatives`.

        Parameters
        ----------
        batches : callable
            Returns an iterable of features (k, D) and labels (k,), the same at every call.
        class_attributes : mapping or DataFrame
            Attribute vector of every class, keyed by class. Classes without rows are added after
            learning, as `add_classes` would.
        memory : int, default=2**30
            Bytes for the rows or counts of all classes.
        """
        source = _CodedBatches(self, batches, class_attributes)
        instances: Any = reduce_batches(
            self._settings(), source, len(source.labels), memory, self._progress
        )
        classes, attributes = source.chosen(instances.classes)
        self._start_fit()
        rows = self._fit_seen(instances, instances.codes, attributes)
        self._take_seen(classes, attributes, rows, has_attributes=True)
        return self._add_others(class_attributes)

    # ------------------------------------------------------------------ hooks of the contract
    def _fit_seen(
        self,
        X: NDArray[Any] | ReducedInstances,
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
    ) -> ClassRows:
        settings = self._settings(X.dtype)
        training = settings.training | self.output_files
        self._transfer = NetworkTransfer(replace(settings, training=training))
        if isinstance(X, ReducedInstances):
            return {"embedding": self._transfer.fit_reduced(X, attributes, self._progress)}
        return {"embedding": self._transfer.fit(X, codes, attributes, self._progress)}

    def _make_transfer(self) -> NetworkTransfer:
        return NetworkTransfer(self._settings())

    def _settings(self, dtype: Any = np.float32) -> NetworkSettings:
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        own = [field.name for field in fields(NetworkSettings) if field.name != "training"]
        training = {name: getattr(self, name) for name in _TRAINING}
        training |= {"seed": int(seed), "dtype": np.dtype(dtype).name}
        return NetworkSettings(**{name: getattr(self, name) for name in own}, training=training)

    # ------------------------------------------------------------------ selection
    def default_folds(self, n_classes: int) -> int:
        """Return 3: the whole grid then takes minutes on two cores."""
        return 3

    def default_stages(self) -> list[Any]:
        """Return the grids: maps, weight decay, and the paper's μ and k; the width is the paper's.

        Ends that a choice may meet cannot move: a decay of 1e-6 is next to none, k = 0 is the
        network without neighbours (as is μ = 0), and k = 50 joins all classes of a small set.
        """
        maps = ["none", "l2", "sqrt+l2"]
        return [
            {"feature_map": maps},
            {"attribute_map": maps},
            {"weight_decay": [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]},
            {"mu": [0.01, 0.1, 0.5, 1.0, 2.0]},
            {"n_neighbors": [0, 1, 2, 5, 10, 50]},
        ]

    def score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        fold: Fold,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Score a grid, with representatives shared, and one run for all numbers of steps."""
        models = [clone(self).set_params(**params) for params in grid]
        if not isinstance(fold.training, Instances):
            raise self._needs_rows()
        features, codes = fold.training
        representatives: dict[Any, NDArray[np.intp]] = {}
        for indices in _same_but_steps(models):
            steps = {models[i].n_steps for i in indices if models[i].n_steps is not None}
            to_the_end = any(models[i].n_steps is None for i in indices)
            settings = models[indices[0]]._settings(features.dtype)
            length = {
                "n_steps": None if to_the_end else max(steps),
                "snapshot_steps": tuple(sorted(steps)),
            }
            transfer = NetworkTransfer(replace(settings, training=settings.training | length))
            key = settings.representative_key
            results: dict[int | None, NDArray[Any]] = {}

            def score(step: int | None, at: NetworkTransfer, seen: NDArray[Any]) -> None:
                results[step] = at.score(fold.X_eval, seen, at.embed(fold.new_attributes))  # noqa: B023

            seen = transfer.fit(
                features,
                codes,
                fold.attributes,
                progress,
                representatives.get(key),
                on_snapshot=score,
            )
            representatives[key] = transfer.graph.representatives
            if to_the_end:
                score(None, transfer, seen)
            for index in indices:
                yield index, results[models[index].n_steps]

    # ------------------------------------------------------------------ what was learned
    @property
    def graph_(self) -> HeterogeneousGraph:
        """The heterogeneous graph of Algorithm 1."""
        check_is_fitted(self)
        return self._transfer.graph

    @property
    def representatives_(self) -> NDArray[np.intp]:
        """Rows of the training data that represent the seen classes."""
        return self.graph_.representatives

    @property
    def loss_curve_(self) -> NDArray[np.float64]:
        """Training loss after each step."""
        check_is_fitted(self)
        return self._transfer.losses

    def _sources(self, column: int) -> tuple[NDArray[np.float64], float]:
        weights = np.zeros(self._table.n_seen)
        row = int(self._table.order[column])
        if row < self._table.n_seen:
            neighbors = self.graph_.neighbors.of(row)
        else:
            vector = self._table.attributes.array[row : row + 1]
            neighbors = self._transfer.neighbors(vector)[0]
        weights[neighbors] = 1.0 / max(len(neighbors), 1)
        return weights, 0.0


def _same_but_steps(models: Sequence[HGKTNetworkClassifier]) -> list[list[int]]:
    """Group models that differ in their number of steps only."""
    groups: dict[str, list[int]] = {}
    for index, model in enumerate(models):
        key = repr({k: v for k, v in model.get_params().items() if k != "n_steps"})
        groups.setdefault(key, []).append(index)
    return list(groups.values())


class _CodedBatches:
    """Batches whose labels are codes of the classes that have attributes.

    Parameters
    ----------
    model : HGKTNetworkClassifier
        It learns; the first batch says how many features it has.
    batches : callable
        Features and labels.
    class_attributes : mapping or DataFrame
        Attribute vector of every class.

    Attributes
    ----------
    labels : ndarray of shape (C,)
        All classes, sorted.
    """

    def __init__(
        self, model: HGKTNetworkClassifier, batches: LabelledBatches, class_attributes: Any
    ) -> None:
        if Favour.of(model.calibration) is not None:
            raise DataError(
                f"calibration={model.calibration!r} learns once more without some classes, for "
                "which all rows must be in memory; give a number to learn from batches"
            )
        self._model, self._batches = model, batches
        self._table = attribute_table(class_attributes)
        self.labels = np.unique(np.array(list(self._table)))
        self._is_first = True

    def __call__(self) -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        """Yield features (k, D) and codes (k,)."""
        for X, y in self._batches():
            if not len(np.asarray(y)):
                continue
            features, names = self._model._check_labelled(X, y, reset=self._is_first)
            self._is_first = False
            codes = np.searchsorted(self.labels, names)
            found = self.labels[np.minimum(codes, len(self.labels) - 1)] == names
            if not found.all():
                name = names[np.argmin(found)]
                raise DataError(f"class_attributes has no class {label_text(name)}, which has rows")
            yield features, codes

    def chosen(self, codes: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Return labels (L,) and attributes (L, d) of the classes with rows."""
        classes = self.labels[codes]
        if len(classes) < 2:
            raise DataError(
                f"the batches hold one class only ({label_text(classes[0])}); two are expected"
            )
        return classes, attribute_matrix(self._table, classes.tolist())
