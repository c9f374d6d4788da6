"""What one training step sees: the whole quotient, or a mini-batch with drawn neighbours."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from hgkt.exceptions import DataError
from hgkt.graph.quotient import Quotient
from hgkt.graph.sampling import sample_neighbors
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.objectives import SquaredObjective, Targets

_BATCHES, _DRAWS = 1, 2  # streams of random numbers: independent, and a function of the step


class StepLoss(Protocol):
    """The loss of one step, counted from 0, as a function of the embedder's weights.

    Its mean over `steps_per_epoch` steps weighs every instance the same; no weights bring it
    below `floor`.
    """

    floor: float

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every node of the loss is seen once."""
        ...

    def __call__(self, embedder: HGKTEmbedder, step: int) -> torch.Tensor:
        """Return the loss, a scalar."""
        ...


class QuotientLoss:
    """The exact loss over all instances, from two rows a class; the same at every step.

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
        weights = targets.instance_weights(config.class_weight) * len(codes)
        self.roles = np.ones(len(codes), dtype=bool)
        if config.loss_nodes == "instance":
            if representatives is None:
                raise DataError("loss_nodes='instance' in sampled mode needs representatives")
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
        scale = 1.0 / targets.n_features if config.reduction == "mean" else 1.0
        self.weights = scale * weights[codes]
        self.floor = SquaredObjective.build(
            targets, config.loss_nodes, config.reduction, config.class_weight
        ).constant
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
