"""Algorithm 3 and its user: HGKTClassifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._validation import check_choice, check_number
from hgkt.estimators._closed_form import ClosedFormSettings, ClosedFormTransfer
from hgkt.estimators._explaining import ExplainingMixin
from hgkt.estimators._network import NetworkSettings, NetworkTransfer
from hgkt.estimators._partial import PartialFitMixin
from hgkt.estimators._selection import SelectionMixin
from hgkt.estimators.base import ClassTable, GZSLClassifier
from hgkt.estimators.presets import PRESETS
from hgkt.exceptions import UnknownNameError
from hgkt.graph import HeterogeneousGraph

TRANSFERS = ("closed-form", "network")
_NETWORK_CLASS_WEIGHTS = {"count": "image", "uniform": "balanced"}


class HGKTClassifier(SelectionMixin, PartialFitMixin, ExplainingMixin, GZSLClassifier):
    """Heterogeneous graph-based knowledge transfer.

    Instances of a class are related to each other, and classes to their neighbours; knowledge
    travels along both relations to classes that are known by their attributes alone.

    ``transfer="closed-form"`` (default) solves both relations exactly: the in-class relation is
    the metric of the visual space, the inter-class relation a kernel between classes (docs page
    *closed form*). ``transfer="network"`` is the paper: a graph over the instances with
    representatives chosen by Wasserstein barycenter, and a two-layer network trained by gradient
    descent; ``HGKTClassifier.from_preset("paper")`` is its literal reading.

    Parameters
    ----------
    transfer : {"closed-form", "network"}, default="closed-form"
        How knowledge gets from seen classes to others.
    feature_map : {"sqrt+l2", "l2", "none"} or float, default="sqrt+l2"
        Map of each feature row: signed square root (a number: that power) and unit norm. Paper:
        "none".
    attribute_map : {"sqrt+l2", "l2", "none"} or float, default="sqrt+l2"
        The same for attribute vectors. Paper: "none".
    metric : {"cosine", "euclidean"}, default="cosine"
        How an instance is compared with a class embedding. Paper: "euclidean".
    intra, inter : bool, default=True
        Whether in-class and inter-class relations are used; the paper's two ablations. In the
        closed form they leave a Euclidean metric and a linear map of attributes.
    weighting : {"count", "uniform"}, default="count"
        Whether a class counts by its number of instances or all count the same. In the closed
        form it is how far the mean of a class is trusted, in the network its weight in the loss.
    n_neighbors : int, default=2
        k, neighbours of a class in the graph (network) or in the "knn" kernel; clipped to what is
        there. Paper: 2.
    calibration : float, default=0.0
        γ, taken off the score of every seen class; choose it on validation classes.
    shrinkage : float in [0, 1] or "oas", default=0.5
        Closed form: share of the identity in the within-class scatter.
    kernel : {"rbf", "quadratic", "linear", "knn"}, default="rbf"
        Closed form: the relation between classes, see `hgkt.model.kernels.ClassKernel`.
    kernel_scale : float, default=1.0
        Closed form: inverse squared bandwidth in units of the median distance.
    ridge : float, default=0.03
        Closed form: λ, noise of a class mean in units of the kernel.
    norm_power : float, default=1.0
        Closed form, cosine: the power of the embedding's length a score is divided by; above one
        it damps classes that attract the images of others.
    attribute_blocks : list of int, optional
        Closed form: widths of attribute blocks of different origin, each with its own kernel.
    block_weights : list of float, optional
        Closed form: weights of the blocks' kernels; equal by default.
    mu : float, default=0.5
        Network: weight of the neighbours' mean. Paper: from 0.01, 0.1, 0.5, 1 by validation.
    representative : {"wasserstein", "euclidean", "random", "medoid"}, default="wasserstein"
        Network: how the representative of a class is chosen. Paper: "wasserstein".
    solver : {"exact", "sinkhorn"}, default="exact"
        Network: the barycenter's solver. Paper: Sinkhorn with ε = 1e-5, an approximation of
        "exact".
    graph_space : {"wasserstein", "euclidean", "cosine", "attributes"}, default="wasserstein"
        Network: space of the kNN among representatives.
    unseen_space : {"attributes", "visual"}, default="attributes"
        Network: space in which a new class finds its neighbours. The paper says both.
    symmetric : bool, default=False
        Network: whether inter-class edges carry both ways.
    aggregation : {"union", "per-type", "inter-only"}, default="union"
        Network: how a representative averages over its two kinds of neighbours. Paper: "union".
    loss_nodes : {"class", "instance", "representative"}, default="class"
        Network: which nodes enter the loss.
    loss_reduction : {"sum", "mean"}, default="sum"
        Network: over features. Paper: the formula is a sum; with "mean", as in DEM, the weight
        decay weighs D times more and smothers the network where attributes are small numbers.
    n_hidden : int, default=1600
        Network: width of the hidden layer. Paper: 1600.
    activation, output_activation : {"leaky_relu", "relu", "linear"}, default="leaky_relu"
        Network: leaky ReLU has slope 0.2.
    learning_rate, weight_decay : float, default=1e-4, 1e-3
        Network: of Adam. Paper: the defaults.
    n_steps : int, default=500
        Network: optimiser steps; choose them on validation classes.
    training : {"quotient", "sampled"}, default="quotient"
        Network: exact full-batch steps on two rows a class, or the paper's mini-batches with
        sampled neighbours.
    batch_size, n_sampled : int, default=64, 50
        Network, "sampled": instances a step; neighbours drawn a node (paper: S = 50).
    checkpoint : path, optional
        Network: file to resume from and to write to.
    tensorboard : path, optional
        Network: folder for TensorBoard's curves.
    dtype : {"float32", "float64"}, default="float32"
        Network: of weights and arithmetic.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to compute: a network is trained, or statistics gathered and decomposed, there.
    random_state : int, RandomState or None, default=None
        Seed of initial weights, batches and random representatives.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        Labels: all, learned from instances, added by attributes.
    class_embeddings_ : ndarray of shape (n_classes, n_features)
        In the visual space (network) or its metric (closed form).
    representatives_ : ndarray of shape (n_seen,)
        Network: row of each seen class's representative in the training data.
    graph_ : HeterogeneousGraph
        Network: the graph of Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[9, 1, 1, 0], [8, 2, 1, 0], [1, 9, 1, 0], [2, 8, 1, 0.0]])
    >>> y = ["horse", "horse", "tiger", "tiger"]
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = HGKTClassifier().fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"zebra": [0.6, 0.8]}).classes_.tolist()
    ['horse', 'tiger', 'zebra']
    >>> model.predict([[9, 1, 0, 0]]).tolist()
    ['horse']
    """

    def __init__(
        self,
        transfer: str = "closed-form",
        *,
        feature_map: str | float = "sqrt+l2",
        attribute_map: str | float = "sqrt+l2",
        metric: str = "cosine",
        intra: bool = True,
        inter: bool = True,
        weighting: str = "count",
        n_neighbors: int = 2,
        calibration: float = 0.0,
        shrinkage: float | str = 0.5,
        kernel: str = "rbf",
        kernel_scale: float = 1.0,
        ridge: float = 0.03,
        norm_power: float = 1.0,
        attribute_blocks: list[int] | None = None,
        block_weights: list[float] | None = None,
        mu: float = 0.5,
        representative: str = "wasserstein",
        solver: str = "exact",
        graph_space: str = "wasserstein",
        unseen_space: str = "attributes",
        symmetric: bool = False,
        aggregation: str = "union",
        loss_nodes: str = "class",
        loss_reduction: str = "sum",
        n_hidden: int = 1600,
        activation: str = "leaky_relu",
        output_activation: str = "leaky_relu",
        learning_rate: float = 1e-4,
        weight_decay: float = 1e-3,
        n_steps: int = 500,
        training: str = "quotient",
        batch_size: int = 64,
        n_sampled: int = 50,
        checkpoint: str | None = None,
        tensorboard: str | None = None,
        dtype: str = "float32",
        device: str = "auto",
        random_state: Any = None,
    ) -> None:
        self.transfer = transfer
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.metric = metric
        self.intra = intra
        self.inter = inter
        self.weighting = weighting
        self.n_neighbors = n_neighbors
        self.calibration = calibration
        self.shrinkage = shrinkage
        self.kernel = kernel
        self.kernel_scale = kernel_scale
        self.ridge = ridge
        self.norm_power = norm_power
        self.attribute_blocks = attribute_blocks
        self.block_weights = block_weights
        self.mu = mu
        self.representative = representative
        self.solver = solver
        self.graph_space = graph_space
        self.unseen_space = unseen_space
        self.symmetric = symmetric
        self.aggregation = aggregation
        self.loss_nodes = loss_nodes
        self.loss_reduction = loss_reduction
        self.n_hidden = n_hidden
        self.activation = activation
        self.output_activation = output_activation
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_steps = n_steps
        self.training = training
        self.batch_size = batch_size
        self.n_sampled = n_sampled
        self.checkpoint = checkpoint
        self.tensorboard = tensorboard
        self.dtype = dtype
        self.device = device
        self.random_state = random_state

    @classmethod
    def from_preset(cls, name: str, **parameters: Any) -> Self:
        """Return a classifier with the parameters of a preset, some of them overridden.

        Parameters
        ----------
        name : {"default", "paper"}
            The preset.
        **parameters
            Parameters that differ from it.

        Examples
        --------
        >>> HGKTClassifier.from_preset("paper", mu=0.1).get_params()["transfer"]
        'network'
        """
        if name not in PRESETS:
            raise UnknownNameError(f"unknown preset {name!r}; choose from: {', '.join(PRESETS)}")
        return cls(**{**PRESETS[name], **parameters})

    _transfer: ClosedFormTransfer | NetworkTransfer

    # ------------------------------------------------------------------ hooks of the contract
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        check_number("calibration", self.calibration)
        self._grown = np.zeros(len(attributes), dtype=bool)
        self._transfer = self._make_transfer()
        if isinstance(self._transfer, NetworkTransfer):
            return self._transfer.fit(X, codes, attributes, self._progress)
        return self._transfer.fit(X, codes, attributes)

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return self._transfer.embed(attributes)

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._transfer.features(X)

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        return self._transfer.score_mapped(X, table["embedding"])

    def _seen_penalty(self) -> float:
        return float(self.calibration)

    def calibrated_by_default(self) -> bool:
        """Return True for the closed form, whose γ is part of the model."""
        return self.transfer == "closed-form"

    def _make_transfer(self) -> ClosedFormTransfer | NetworkTransfer:
        check_choice("transfer", self.transfer, TRANSFERS)
        if self.transfer == "closed-form":
            return ClosedFormTransfer(self._closed_form_settings())
        return NetworkTransfer(self._network_settings())

    def _closed_form_settings(self) -> ClosedFormSettings:
        return ClosedFormSettings(
            feature_map=self.feature_map,
            attribute_map=self.attribute_map,
            shrinkage=self.shrinkage if self.intra else 1.0,
            kernel=self.kernel if self.inter else "linear",
            kernel_scale=self.kernel_scale,
            n_neighbors=self.n_neighbors,
            ridge=self.ridge,
            weighting=self.weighting,
            attribute_blocks=self.attribute_blocks,
            block_weights=self.block_weights,
            metric=self.metric,
            norm_power=self.norm_power,
            device=self.device,
        )

    def _network_settings(self) -> NetworkSettings:
        check_choice("weighting", self.weighting, tuple(_NETWORK_CLASS_WEIGHTS))
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = check_random_state(seed).randint(2**31)
        return NetworkSettings(
            feature_map=self.feature_map,
            attribute_map=self.attribute_map,
            n_neighbors=self.n_neighbors,
            representative=self.representative,
            solver=self.solver,
            graph_space=self.graph_space,
            unseen_space=self.unseen_space,
            symmetric=self.symmetric,
            aggregation=self.aggregation,
            intra=self.intra,
            inter=self.inter,
            metric=self.metric,
            training={
                "n_steps": self.n_steps,
                "mode": self.training,
                "n_hidden": self.n_hidden,
                "mu": self.mu,
                "activation": self.activation,
                "output_activation": self.output_activation,
                "loss_nodes": self.loss_nodes,
                "reduction": self.loss_reduction,
                "class_weight": _NETWORK_CLASS_WEIGHTS[self.weighting],
                "learning_rate": self.learning_rate,
                "weight_decay": self.weight_decay,
                "batch_size": self.batch_size,
                "n_sampled": self.n_sampled,
                "seed": int(seed),
                "device": self.device,
                "dtype": self.dtype,
                "checkpoint": self.checkpoint,
                "tensorboard": self.tensorboard,
            },
        )

    # ------------------------------------------------------------------ what was learned
    @property
    def graph_(self) -> HeterogeneousGraph:
        """The heterogeneous graph of Algorithm 1 (network)."""
        return self._network().graph

    @property
    def representatives_(self) -> NDArray[np.intp]:
        """Rows of the training data that represent the seen classes (network)."""
        return self._network().graph.representatives

    @property
    def loss_curve_(self) -> NDArray[np.float64]:
        """Training loss after each step (network)."""
        return self._network().losses

    def _network(self) -> NetworkTransfer:
        transfer = getattr(self, "_transfer", None)
        if not isinstance(transfer, NetworkTransfer):
            raise AttributeError("only a fitted model with transfer='network' has this")
        return transfer

    # ------------------------------------------------------------------ saving
    def _state(self) -> dict[str, NDArray[Any]]:
        transfer = {f"transfer/{key}": array for key, array in self._transfer.state().items()}
        return super()._state() | transfer | {"grown": self._grown}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._transfer = self._make_transfer()
        prefix = "transfer/"
        own = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        self._transfer.restore(own, self._seen_attributes)
        self._grown = state["grown"].astype(bool)
        super()._restore({k: v for k, v in state.items() if not k.startswith(prefix)})
