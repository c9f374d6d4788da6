"""The loss of Algorithm 2: squared distances over all instances, or over a mini-batch of them.

Over all instances it is computed from class means, exactly, on the quotient of the graph. A
mini-batch has drawn neighbours, as the paper trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import batches
from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.construction import frozen_array
from hgkt.graph.quotient import Quotient, sample_neighbors
from hgkt.network.layers import HGKTEmbedder
from hgkt.statistics.classes import class_counts_and_means

if TYPE_CHECKING:
    from hgkt.network.train import TrainingConfig

LOSS_NODES = ("class", "instance", "representative")
WEIGHTINGS = ("count", "uniform")
_BATCHES, _DRAWS = 1, 2  # streams of random numbers: independent, and a function of the step


@dataclass(frozen=True, eq=False)
class Targets:
    """What the squared loss needs of the features, whatever their number.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of instances of each class.
    means : array-like of shape (n_classes, n_features)
        Class means.
    scatter : array-like of shape (n_classes,), optional
        Σ_{i∈c} ‖x_i − x̄_c‖²; without it the reported loss lacks its constant part.
    representatives : array-like of shape (n_classes, n_features), optional
        Features of the representatives; the losses ``instance`` and ``representative`` need them.

    Examples
    --------
    >>> targets = Targets.from_features(np.array([[1.0], [3.0], [5.0]]), [0, 0, 1], 2)
    >>> targets.means.ravel(), targets.scatter
    (array([2., 5.]), array([2., 0.]))
    """

    counts: NDArray[np.float64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64] | None = None
    representatives: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("counts", "means", "scatter", "representatives"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen_array(getattr(self, name), np.float64))
        given = (self.counts, self.means, self.scatter, self.representatives)
        sizes = {len(array) for array in given if array is not None}
        if len(sizes) > 1:
            raise DataError(f"targets must have one row a class; got {sorted(sizes)} rows")
        if (self.counts < 1).any():
            code = int(np.flatnonzero(self.counts < 1)[0])
            raise DataError(f"class {code} has no instance; at least one is expected")

    @classmethod
    def from_features(
        cls,
        X: NDArray[Any],
        codes: ArrayLike,
        n_classes: int,
        representatives: ArrayLike | None = None,
    ) -> Self:
        """Reduce features (N, D) with class codes (N,) in two chunked passes.

        Parameters
        ----------
        X : ndarray of shape (N, D)
            Features; a memory-mapped array stays on disk.
        codes : array-like of shape (N,)
            Class of each row.
        n_classes : int
            Number of classes.
        representatives : array-like of shape (n_classes,), optional
            Row of X that represents each class.
        """
        labels = np.asarray(codes, dtype=np.intp)
        counts, means = class_counts_and_means(X, labels, n_classes)
        scatter = np.zeros(n_classes)
        for batch in batches(len(X)):
            rows = labels[batch]
            residuals = X[batch] - means[rows]
            norms = np.einsum("ij,ij->i", residuals, residuals)
            scatter += np.bincount(rows, norms, minlength=n_classes)
        chosen = None if representatives is None else X[np.asarray(representatives, np.intp)]
        return cls(counts, means, scatter, chosen)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.counts)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return int(self.means.shape[1])

    @property
    def norm(self) -> float:
        """Root mean square norm of the instances; without `scatter`, of their class means."""
        squares = self.counts * np.square(self.means).sum(axis=1)
        total = squares.sum() + (0.0 if self.scatter is None else self.scatter.sum())
        return float(np.sqrt(total / self.counts.sum()))

    def scaled(self, factor: float) -> Self:
        """Return the targets of features that are `factor` times as long."""
        scatter = None if self.scatter is None else self.scatter * factor**2
        chosen = None if self.representatives is None else self.representatives * factor
        return type(self)(self.counts, self.means * factor, scatter, chosen)

    def instance_weights(self, weighting: str) -> NDArray[np.float64]:
        """Weight of one instance of each class in the loss, (n_classes,); all sum to one."""
        check_choice("weighting", weighting, WEIGHTINGS)
        if weighting == "count":
            return np.full(self.n_classes, 1.0 / self.counts.sum())
        return 1.0 / (self.n_classes * self.counts)


@dataclass(frozen=True, eq=False)
class SquaredObjective:
    """A weighted squared distance between rows of embeddings and fixed targets.

    ``loss = Σ_rows weights · ‖z − targets‖² + constant`` equals the mean over instances of
    ‖h − x‖² that the paper writes: Σ_{i∈c} ‖z − x_i‖² = N_c ‖z − x̄_c‖² + Σ_{i∈c} ‖x_i − x̄_c‖².

    Parameters
    ----------
    targets : ndarray of shape (n_rows, n_features)
        Rows are the L representatives, or L ordinary rows and then L representatives.
    weights : ndarray of shape (n_rows,)
        Weight of each row.
    constant : float
        The part of the loss that no weight can change.
    needs_ordinary : bool
        Whether the ordinary rows come first.
    """

    targets: NDArray[np.float64]
    weights: NDArray[np.float64]
    constant: float
    needs_ordinary: bool

    @classmethod
    def build(cls, targets: Targets, loss_nodes: str = "class", weighting: str = "count") -> Self:
        """Choose the reading of the loss.

        Parameters
        ----------
        targets : Targets
            Reduced features.
        loss_nodes : {"class", "instance", "representative"}
            Paper gap: the loss sums over all images with h(y_i), a function of the class.
            ``class``: every image against the representative's embedding of its class;
            ``instance``: every image against its own node's embedding; ``representative``: the L
            representatives against their own features, each counted once.
        weighting : {"count", "uniform"}
            A class weighs by its number of images (the paper), or all classes weigh the same.

        Notes
        -----
        Paper gap: the norm is a sum over the D features, but the weight decay of 0.001 is that of
        DEM, whose loss is a mean. The norm wins; a mean has the same minimum as the sum with D
        times the weight decay.

        Examples
        --------
        >>> targets = Targets([2, 1], [[2.0], [5.0]], scatter=[2.0, 0.0])
        >>> SquaredObjective.build(targets).weights.round(3)
        array([0.667, 0.333])
        """
        check_choice("loss_nodes", loss_nodes, LOSS_NODES)
        weights = targets.instance_weights(weighting)
        scatter = np.zeros(targets.n_classes) if targets.scatter is None else targets.scatter
        if loss_nodes == "class":
            return cls(targets.means, weights * targets.counts, float(weights @ scatter), False)
        if targets.representatives is None:
            raise DataError(
                f"loss_nodes={loss_nodes!r} needs the features of the representatives in targets"
            )
        if loss_nodes == "representative":
            equal = np.full(targets.n_classes, 1.0 / targets.n_classes)
            return cls(targets.representatives, equal, 0.0, False)
        # Take the representative out of its class: mean and scatter of the ordinary instances.
        n_ordinary = targets.counts - 1
        divisor = np.maximum(n_ordinary, 1)
        offset = targets.means - targets.representatives
        ordinary = targets.means + offset / divisor[:, None] * (n_ordinary > 0)[:, None]
        removed = targets.counts / divisor * np.square(offset).sum(axis=1)
        rest = np.where(n_ordinary > 0, np.maximum(scatter - removed, 0.0), 0.0)
        constant = 0.0 if targets.scatter is None else float(weights @ rest)
        return cls(
            np.concatenate([ordinary, targets.representatives]),
            np.concatenate([weights * n_ordinary, weights]),
            constant,
            True,
        )

    def numpy_loss(self, embeddings: NDArray[Any]) -> float:
        """Return the loss of embeddings (n_rows, n_features), in float64."""
        errors = np.square(np.asarray(embeddings, np.float64) - self.targets).sum(axis=1)
        return float(self.weights @ errors) + self.constant


class QuotientLoss:
    """The exact loss over all instances, from two rows per class; the same at every step.

    Parameters
    ----------
    quotient : Quotient
        The graph.
    attributes : ndarray of shape (L, d)
        Class attributes.
    objective : SquaredObjective
        The loss.
    device, dtype : torch.device, torch.dtype
        Where and in what type to compute.
    """

    def __init__(
        self,
        quotient: Quotient,
        attributes: NDArray[Any],
        objective: SquaredObjective,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        def tensor(array: NDArray[Any]) -> torch.Tensor:
            return torch.as_tensor(array, dtype=dtype, device=device)

        self.objective, self.floor = objective, objective.constant
        self.attributes = tensor(attributes)
        self.mixing = tensor(quotient.mixing().toarray())
        self.targets = tensor(objective.targets.copy())
        # The root goes into the residual, so that one fused norm gives the weighted sum.
        self.scales = tensor(np.sqrt(objective.weights))[:, None]

    @property
    def steps_per_epoch(self) -> int:
        """One: a step sees every instance."""
        return 1

    def __call__(self, embedder: HGKTEmbedder, step: int = 0) -> torch.Tensor:
        """Return the loss; `step` has no effect."""
        needs_ordinary = self.objective.needs_ordinary
        ordinary, rows = embedder.forward_quotient(self.attributes, self.mixing, needs_ordinary)
        if ordinary is not None:
            rows = torch.cat([ordinary, rows])
        residuals = self.scales * (rows - self.targets)
        return residuals.square().sum() + self.objective.constant


class SampledLoss:
    """The loss of a mini-batch of instances with S drawn neighbours, as the paper trains.

    As in GraphSAGE's code one draw of a node's neighbours serves both layers. Every drawn
    neighbour is embedded, which is the S² of the paper's complexity. All random numbers follow
    from the seed and the step, so a resumed run needs no generator state.

    Parameters
    ----------
    quotient : Quotient
        The graph.
    attributes : ndarray of shape (L, d)
        Class attributes.
    targets : Targets
        Reduced features, for class weights and representatives.
    instances : (features of shape (N, D), codes of shape (N,))
        The instances.
    representatives : ndarray of shape (L,) or None
        Row of each class's representative; ``loss_nodes="instance"`` needs it.
    config : TrainingConfig
        Settings.
    device, dtype : torch.device, torch.dtype
        Where and in what type to compute.
    scale : float
        What the features of `instances` are multiplied by; those of `targets` are already.
    """

    def __init__(
        self,
        quotient: Quotient,
        attributes: NDArray[Any],
        targets: Targets,
        instances: tuple[NDArray[Any], ArrayLike],
        representatives: ArrayLike | None,
        config: TrainingConfig,
        device: torch.device,
        dtype: torch.dtype,
        scale: float = 1.0,
    ) -> None:
        self.scale = scale
        self.quotient, self.config, self.device, self.dtype = quotient, config, device, dtype
        self.attributes = torch.as_tensor(attributes, dtype=dtype, device=device)
        self.features, codes = instances[0], np.asarray(instances[1], dtype=np.intp)
        weights = targets.instance_weights(config.weighting) * len(codes)
        self.roles = np.ones(len(codes), dtype=bool)
        if config.loss_nodes == "instance":
            if representatives is None:
                raise DataError("loss_nodes='instance' with n_sampled needs representatives")
            self.roles[:] = False
            self.roles[np.asarray(representatives, dtype=np.intp)] = True
        elif config.loss_nodes == "representative":
            if targets.representatives is None:
                raise DataError(
                    "loss_nodes='representative' needs the features of the representatives in "
                    "targets"
                )
            self.features, codes = targets.representatives, np.arange(targets.n_classes)
            self.scale = 1.0
            weights = np.ones(targets.n_classes)
        self.codes = codes
        self.weights = weights[codes]
        self.floor = SquaredObjective.build(targets, config.loss_nodes, config.weighting).constant
        self._epoch, self._order = -1, np.empty(0, dtype=np.intp)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every node of the loss is seen once."""
        return self.config.steps_per_epoch(len(self.codes))

    def __call__(self, embedder: HGKTEmbedder, step: int) -> torch.Tensor:
        """Return the loss of the mini-batch of this step."""
        batch = self._batch(step)
        codes, roles = self.codes[batch], self.roles[batch]
        rows = self.embed(embedder, codes, roles, self._rng(_DRAWS, step))
        residuals = rows - self.scale * self._tensor(self.features[batch])
        return (self._tensor(self.weights[batch]) * residuals.square().sum(dim=1)).mean()

    def embed(
        self,
        embedder: HGKTEmbedder,
        codes: NDArray[np.intp],
        roles: NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> torch.Tensor:
        """Embed nodes (B,) given by class and role from freshly drawn neighbours: (B, D)."""
        n_sampled, n_classes = self.config.n_sampled, self.quotient.n_classes
        assert n_sampled is not None
        drawn = sample_neighbors(self.quotient, codes, roles, n_sampled, rng)
        classes = drawn.classes.ravel()
        below = sample_neighbors(
            self.quotient, classes, drawn.representative.ravel(), n_sampled, rng
        )
        return embedder.forward_sampled(
            own=self.attributes[codes],
            own_means=self._tensor(drawn.class_weights(n_classes)) @ self.attributes,
            drawn=self.attributes[classes],
            drawn_means=self._tensor(below.class_weights(n_classes)) @ self.attributes,
            weights=self._tensor(drawn.weights),
        )

    def _batch(self, step: int) -> NDArray[np.intp]:
        epoch, position = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._order = self._rng(_BATCHES, epoch).permutation(len(self.codes))
            self._epoch = epoch
        start = position * self.config.batch_size
        return self._order[start : start + self.config.batch_size]

    def _rng(self, stream: int, index: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, stream, index])

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.as_tensor(array, dtype=self.dtype, device=self.device)
