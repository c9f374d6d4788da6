"""Algorithm 2 of the paper: the network is trained on the graph.

`train_embedder` trains on all neighbours exactly, through the quotient of the graph, or on drawn
ones, as the paper does. A `TrainingRun` stops where the loss stands, reports, resumes and refuses;
how it steps is its solver's part: `Adam`, the paper's, or `hgkt.network.projection.Projection`.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from hgkt._arrays import torch_device
from hgkt._typing import Progress
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.graph.quotient import Quotient
from hgkt.network.checkpoint import Checkpoint, read_checkpoint, run_identity, write_checkpoint
from hgkt.network.layers import HGKTEmbedder
from hgkt.network.loss import (
    LOSS_NODES,
    WEIGHTINGS,
    QuotientLoss,
    SampledLoss,
    SquaredObjective,
    Targets,
)
from hgkt.network.projection import Projection
from hgkt.network.weights import ACTIVATIONS, EmbedderWeights

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "float64")
OPTIMIZERS = ("auto", "lbfgs", "adam")

OnSnapshot = Callable[[int, EmbedderWeights], None]
"""Called as ``on_snapshot(step, weights)`` for each of ``snapshot_steps``."""

# Settings that say where and how long a run goes, not what it computes at a step.
_OUTSIDE = frozenset({"n_steps", "device", "checkpoint", "checkpoint_every", "snapshot_steps"})
_TOLERANCE = 0.01
_REPORT_EVERY = 20  # reading a loss off a GPU waits for it


@dataclass(frozen=True)
class TrainingConfig:
    """How the embedder is built and trained; the defaults are the paper's where it gives any.

    Parameters
    ----------
    n_steps : int, optional
        Number of optimiser steps; None trains until the loss stands (`TrainingRun`). Paper gap:
        only a plot against iterations.
    optimizer : {"auto", "lbfgs", "adam"}
        ``lbfgs``: the output layer solved exactly at every step, the hidden one by L-BFGS (see
        `hgkt.network.projection`), for the exact loss with a weight decay only; ``adam``: the
        paper's. ``auto`` takes L-BFGS where it can.
    n_hidden : int
        Width of the hidden layer; the paper's is 1600.
    mu : float
        Weight of the neighbours' mean; the paper chooses from 0.01, 0.1, 0.5, 1.
    output_activation : {"leaky_relu", "relu", "linear"}
        Of the output layer; the hidden one is leaky ReLU, slope 0.2.
    loss_nodes : {"class", "instance", "representative"}
        Which nodes enter the loss; see `hgkt.network.loss.SquaredObjective.build`.
    weighting : {"count", "uniform"}
        Whether a class weighs by its number of instances or all classes weigh the same.
    learning_rate, weight_decay : float
        Of Adam. Paper gap: the loss has ξ‖W‖² without a value and the settings a weight decay of
        0.001; they are taken as one and the same, coupled as in Adam, on biases too.
    batch_size : int
        Instances per step with drawn neighbours (Paper gap: not given; DEM's is 64).
    n_sampled : int, optional
        None: full batches over the exact two rows per class; a step sees every instance. A number:
        mini-batches of instances with so many drawn neighbours, as the paper trains with S = 50;
        an epoch is ``steps_per_epoch(n_instances)`` steps.
    seed : int
        Of initial weights, batches and draws.
    device : {"auto", "cpu", "cuda"}
        ``auto`` takes CUDA where there is one.
    feature_norm : float, optional
        Root mean square norm to which features are scaled while the network is trained; weights
        and losses come back in the features' own unit. None: no scaling.
    dtype : {"float32", "float64"}
        Of weights and arithmetic.
    checkpoint : path, optional
        File to resume from and to write to.
    checkpoint_every : int
        Steps between checkpoints.
    snapshot_steps : tuple of int
        Step counts after which the caller receives the weights.

    Examples
    --------
    >>> TrainingConfig(n_sampled=50, batch_size=64).steps_per_epoch(23527)
    368
    """

    n_steps: int | None = None
    optimizer: str = "auto"
    n_hidden: int = 1600
    mu: float = 0.5
    output_activation: str = "leaky_relu"
    loss_nodes: str = "class"
    weighting: str = "count"
    learning_rate: float = 1e-4
    weight_decay: float = 1e-3
    batch_size: int = 64
    n_sampled: int | None = None
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"
    feature_norm: float | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 500
    snapshot_steps: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        choices = {
            "output_activation": ACTIVATIONS,
            "loss_nodes": LOSS_NODES,
            "weighting": WEIGHTINGS,
            "device": DEVICES,
            "dtype": DTYPES,
            "optimizer": OPTIMIZERS,
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        for name in ("n_hidden", "batch_size", "n_sampled", "checkpoint_every"):
            if getattr(self, name) is not None or name != "n_sampled":
                check_number(name, getattr(self, name), low=1, integer=True)
        check_number("seed", self.seed, low=0, integer=True)
        if self.n_steps is not None:
            check_number("n_steps", self.n_steps, low=0, integer=True)
        if self.feature_norm is not None:
            check_number("feature_norm", self.feature_norm, low=0, open_low=True)
        check_number("learning_rate", self.learning_rate, low=0, open_low=True)
        for name in ("mu", "weight_decay"):
            check_number(name, getattr(self, name), low=0)
        last = math.inf if self.n_steps is None else self.n_steps
        for step in self.snapshot_steps:
            check_number("snapshot_steps", step, low=0, high=last, integer=True)
        if self.optimizer == "lbfgs" and not self._can_project:
            raise DataError(
                "optimizer='lbfgs' needs the exact loss (n_sampled=None) and a weight_decay above "
                "0; take 'adam'"
            )

    @property
    def _can_project(self) -> bool:
        # Without decay the output layer that minimises the loss is not a single one.
        return self.n_sampled is None and self.weight_decay > 0

    @property
    def solver(self) -> str:
        """The optimiser that ``optimizer`` stands for: "lbfgs" or "adam"."""
        if self.optimizer != "auto":
            return self.optimizer
        return "lbfgs" if self._can_project else "adam"

    def steps_per_epoch(self, n_instances: int) -> int:
        """Return the steps in which every instance is seen once: 1 with the exact loss."""
        return 1 if self.n_sampled is None else -(-n_instances // self.batch_size)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide what a step computes."""
        names = [field.name for field in fields(self) if field.name not in _OUTSIDE]
        if self.solver == "lbfgs":
            names.remove("learning_rate")
        if self.n_sampled is None:
            names.remove("batch_size")
        return {**{name: getattr(self, name) for name in names}, "optimizer": self.solver}


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What a run returns.

    Parameters
    ----------
    weights : EmbedderWeights
        Trained weights in NumPy.
    losses : ndarray of shape (n_steps,)
        Loss before each step: over all instances, or over the mini-batch.
    n_steps : int
        Number of steps done, those of a resumed checkpoint included.
    resumed_from : int
        Number of steps that a checkpoint brought.
    """

    weights: EmbedderWeights
    losses: NDArray[np.float64]
    n_steps: int
    resumed_from: int = 0


def train_embedder(
    quotient: Quotient,
    attributes: ArrayLike,
    targets: Targets,
    config: TrainingConfig | None = None,
    *,
    instances: tuple[NDArray[Any], ArrayLike] | None = None,
    representatives: ArrayLike | None = None,
    progress: Progress | None = None,
    on_snapshot: OnSnapshot | None = None,
) -> TrainingResult:
    """Train the embedder on the graph of seen classes: Algorithm 2.

    Parameters
    ----------
    quotient : Quotient
        The graph, collapsed.
    attributes : array-like of shape (n_classes, n_attributes)
        Class attributes.
    targets : Targets
        Counts and means of the features, and what else the loss needs.
    config : TrainingConfig, optional
        Settings.
    instances : (features, codes), optional
        Features (N, D) and class codes (N,), read batch by batch where neighbours are drawn.
    representatives : array-like of shape (n_classes,), optional
        Rows of the representatives, for drawn neighbours with ``loss_nodes="instance"``.
    progress : callable, optional
        Called as ``progress("train", done, total, {"loss": ...})`` every few steps.
    on_snapshot : callable, optional
        Called as ``on_snapshot(done, weights)`` after each of ``config.snapshot_steps``; a
        resumed run calls it for the steps it does itself.

    Returns
    -------
    TrainingResult

    Examples
    --------
    >>> from hgkt.graph import ClassNeighbors
    >>> quotient = Quotient([2, 2], ClassNeighbors.from_rows([[1], [0]]))
    >>> targets = Targets([2, 2], [[1.0, 0.0], [0.0, 1.0]])
    >>> config = TrainingConfig(n_steps=200, n_hidden=8, learning_rate=0.01, device="cpu")
    >>> result = train_embedder(quotient, [[1.0, 0.0], [0.0, 1.0]], targets, config)
    >>> bool(result.losses[-1] < 0.1 * result.losses[0])
    True
    """
    config = TrainingConfig() if config is None else config
    rows = np.asarray(attributes, dtype=np.float64)
    _check_inputs(quotient, rows, targets, config, instances)
    device, dtype = torch.device(torch_device(config.device)), getattr(torch, config.dtype)
    embedder = HGKTEmbedder(
        rows.shape[1],
        targets.n_features,
        config.n_hidden,
        config.mu,
        config.output_activation,
        dtype,
        # Drawn on the CPU from a generator of its own: every device starts from the same weights.
        torch.Generator().manual_seed(config.seed),
    ).to(device)
    scale = 1.0
    if config.feature_norm is not None and targets.norm > 0:
        scale = config.feature_norm / targets.norm
        targets = targets.scaled(scale)
    loss: QuotientLoss | SampledLoss
    if config.n_sampled is None:
        objective = SquaredObjective.build(targets, config.loss_nodes, config.weighting)
        loss = QuotientLoss(quotient, rows, objective, device, dtype)
    else:
        assert instances is not None
        loss = SampledLoss(
            quotient, rows, targets, instances, representatives, config, device, dtype, scale
        )
    run = TrainingRun(config, embedder, loss, scale, progress, on_snapshot)
    if config.checkpoint is not None:
        run.resume(_identity(quotient, rows, targets, config, instances, representatives))
    return run.train()


class TrainingRun:
    """The state of one training run: weights, losses, steps done.

    Without a number of steps a run ends where the loss stands: where its mean over a window of
    steps, weight decay included, is less than 1 % below that of the window before. The percent is
    of what training can change; the scatter of features within classes is left out.

    Parameters
    ----------
    config : TrainingConfig
        Settings.
    embedder : HGKTEmbedder
        The network, on its device.
    loss : QuotientLoss or SampledLoss
        The loss of each step.
    scale : float
        What features were multiplied by; reports, snapshots and the result undo it.
    progress, on_snapshot : callable or None
        As in `train_embedder`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        embedder: HGKTEmbedder,
        loss: QuotientLoss | SampledLoss,
        scale: float = 1.0,
        progress: Progress | None = None,
        on_snapshot: OnSnapshot | None = None,
    ) -> None:
        self.config, self.embedder, self.loss, self.scale = config, embedder, loss, scale
        self.progress, self.on_snapshot = progress, on_snapshot
        self.device = embedder.layer1.weight.device
        self.solver = Projection(self) if config.solver == "lbfgs" else Adam(self)
        self.limit = self.solver.max_steps if config.n_steps is None else config.n_steps
        # Losses, and losses with the weight decay's part.
        self.losses = torch.zeros(2, self.limit, dtype=torch.float64, device=self.device)
        self.done = self.reported = self.resumed_from = 0
        self.saved = -1
        self.updating = self.stuck = False
        self.identity = ""

    def train(self) -> TrainingResult:
        """Do the steps that are left."""
        try:
            if self.done == 0:
                self.snapshot_if_asked()
            while self.done < self.limit and not self.stands():
                self.solver.advance()
            self.report()
            self.save()
        except KeyboardInterrupt:
            # Inside an update the weights may be half new: the last checkpoint stands then.
            if not self.updating:
                with contextlib.suppress(DataError):
                    self.save()
            raise
        if self.config.n_steps is None and not self.stands():
            warnings.warn(
                f"the training loss still falls after {self.done} steps; set n_steps higher, or "
                "raise weight_decay",
                ConvergenceWarning,
                stacklevel=2,
            )
        for step in self.config.snapshot_steps:  # the run ended before them
            if step > self.done:
                self.snapshot(step)
        losses = self.losses[0, : self.done].cpu().numpy() / self.scale**2
        return TrainingResult(self._own_weights(), losses, self.done, self.resumed_from)

    def stands(self) -> bool:
        """Whether more steps would bring next to nothing."""
        if self.stuck:
            return True
        n_recent = 2 * self.solver.window
        if self.config.n_steps is not None or self.done < n_recent or not self.solver.is_due():
            return False
        recent = self.losses[1, self.done - n_recent : self.done].cpu().numpy()
        before, after = recent.reshape(2, -1).mean(axis=1)
        return bool(before - after < _TOLERANCE * (after - self.loss.floor))

    def decay(self) -> torch.Tensor:
        """Return what the weight decay adds to the loss."""
        squares = [torch.linalg.vector_norm(p).square() for p in self.embedder.parameters()]
        return 0.5 * self.config.weight_decay * torch.stack(squares).sum()

    def report(self) -> None:
        """Read the losses since the last report: refuse a run that went astray, tell the rest."""
        fresh = self.losses[0, self.reported : self.done].cpu().numpy() / self.scale**2
        if not np.isfinite(fresh).all():
            step = self.reported + int(np.flatnonzero(~np.isfinite(fresh))[0])
            raise self._astray(f"the loss is {fresh[step - self.reported]} at step {step}")
        self.reported = self.done
        if self.progress is not None and len(fresh):
            self.progress("train", self.done, self.limit, {"loss": float(fresh[-1])})

    def _astray(self, what: str) -> DataError:
        return DataError(
            f"{what}; lower learning_rate (now {self.config.learning_rate:g}) or the scale of "
            "attributes and features"
        )

    def _weights(self) -> EmbedderWeights:
        weights = EmbedderWeights.from_module(self.embedder)
        if not all(np.isfinite(array).all() for array in weights.arrays().values()):
            raise self._astray(f"the weights are not finite after step {self.done}")
        return weights

    def _own_weights(self) -> EmbedderWeights:
        """Weights in the features' own unit."""
        weights = self._weights()
        return weights if self.scale == 1.0 else weights.scaled(1.0 / self.scale)

    def snapshot_if_asked(self) -> None:
        """Hand out the weights, where this is one of the steps that were asked for."""
        if self.done in self.config.snapshot_steps:
            self.snapshot(self.done)

    def snapshot(self, step: int) -> None:
        """Hand out the weights as those of a step."""
        if self.on_snapshot is not None:
            self.report()
            self.on_snapshot(step, self._own_weights())

    def save(self) -> None:
        """Write a checkpoint, where the run has a file and did steps since the last one."""
        if self.config.checkpoint is None or self.saved == self.done:
            return
        self.report()
        arrays = {"losses": self.losses[:, : self.done].cpu().numpy(), **self._weights().arrays()}
        arrays |= self.solver.arrays()
        write_checkpoint(self.config.checkpoint, Checkpoint(self.done, self.identity, arrays))
        self.saved = self.done

    def resume(self, identity: str) -> None:
        """Continue from the checkpoint file where there is one."""
        self.identity = identity
        assert self.config.checkpoint is not None
        checkpoint = read_checkpoint(self.config.checkpoint, identity)
        if checkpoint is None:
            return
        if checkpoint.step > self.limit:
            raise DataError(
                f"the checkpoint {self.config.checkpoint} is at step {checkpoint.step}, beyond "
                f"n_steps={self.limit}; raise n_steps or delete it"
            )
        arrays = {name: torch.from_numpy(value.copy()) for name, value in checkpoint.arrays.items()}
        self.losses[:, : checkpoint.step] = arrays.pop("losses").to(self.device)
        with torch.no_grad():
            for name, parameter in self.embedder.named_weights().items():
                parameter.copy_(arrays[name])
        self.done = self.reported = self.saved = self.resumed_from = checkpoint.step
        if checkpoint.step:
            self.solver.restore(arrays)


class Adam:
    """The paper's optimiser: steps on the exact loss or on mini-batches.

    Parameters
    ----------
    run : TrainingRun
        The run.
    """

    max_steps: ClassVar[int] = 100_000

    def __init__(self, run: TrainingRun) -> None:
        self.run = run
        # Whole epochs, so that every instance weighs the same in a window's mean.
        n_epoch = run.loss.steps_per_epoch
        self.window = n_epoch * max(5, -(-500 // n_epoch))
        parameters = list(run.embedder.named_weights().values())
        rates: dict[str, Any] = {
            "lr": run.config.learning_rate,
            "weight_decay": run.config.weight_decay,
        }
        try:
            # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
            self.optimizer = torch.optim.Adam(parameters, **rates, fused=True)
        except RuntimeError:  # a device without the fused kernel
            self.optimizer = torch.optim.Adam(parameters, **rates)

    def is_due(self) -> bool:
        """Whether to look now whether the loss stands: at the end of a window."""
        return self.run.done % self.window == 0

    def advance(self) -> None:
        """Do one step, and what is due after it."""
        run = self.run
        self.step()
        if run.done % _REPORT_EVERY == 0 or run.done == run.limit:
            run.report()
        if run.done % run.config.checkpoint_every == 0:
            run.save()
        run.snapshot_if_asked()

    def step(self) -> None:
        """Do one optimiser step."""
        run = self.run
        self.optimizer.zero_grad(set_to_none=True)
        loss = run.loss(run.embedder, run.done)
        loss.backward()  # type: ignore[no-untyped-call]
        run.updating = True
        value = loss.detach()
        run.losses[0, run.done] = value
        if run.config.n_steps is None:
            with torch.no_grad():
                run.losses[1, run.done] = value + run.decay()
        self.optimizer.step()
        run.done += 1
        run.updating = False

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return moments and step counts."""
        return {
            f"{key}.{name}": value.cpu().numpy()
            for name, parameter in self.run.embedder.named_weights().items()
            for key, value in self.optimizer.state[parameter].items()
        }

    def restore(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Set what `arrays` returned."""
        state = {
            index: {
                key.removesuffix(f".{name}"): value
                for key, value in arrays.items()
                if key.endswith(f".{name}")
            }
            for index, name in enumerate(self.run.embedder.named_weights())
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _check_inputs(
    quotient: Quotient,
    attributes: NDArray[np.float64],
    targets: Targets,
    config: TrainingConfig,
    instances: tuple[NDArray[Any], ArrayLike] | None,
) -> None:
    if attributes.ndim != 2:
        raise DataError(f"attributes must be a matrix, a row a class; got {attributes.shape}")
    sizes = (quotient.n_classes, len(attributes), targets.n_classes)
    if len(set(sizes)) > 1:
        raise DataError(
            f"the graph has {sizes[0]} classes, attributes {sizes[1]} rows and targets {sizes[2]}; "
            "the same number is expected"
        )
    check_finite(attributes, "attributes")
    check_finite(targets.means, "class means")
    if config.n_sampled is None:
        return
    if instances is None:
        raise DataError("n_sampled needs instances=(features, codes)")
    if len(instances[0]) != np.size(instances[1]) or len(instances[0]) != targets.counts.sum():
        raise DataError(
            f"there are {len(instances[0])} rows of features, {np.size(instances[1])} codes and "
            f"counts of {targets.counts.sum():g} instances; the same number is expected"
        )


def _identity(
    quotient: Quotient,
    attributes: NDArray[np.float64],
    targets: Targets,
    config: TrainingConfig,
    instances: tuple[NDArray[Any], ArrayLike] | None,
    representatives: ArrayLike | None,
) -> str:
    mixing = quotient.mixing()
    arrays: list[NDArray[Any] | None] = [attributes, mixing.data, mixing.indices, mixing.indptr]
    arrays += [targets.counts, targets.means, targets.scatter, targets.representatives]
    if config.n_sampled is not None and instances is not None:
        arrays += [instances[0], np.asarray(instances[1])]
        arrays.append(None if representatives is None else np.asarray(representatives))
    return run_identity(config.identity(), arrays)
