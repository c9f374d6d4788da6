"""Settings of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hgkt._validation import check_choice, check_number
from hgkt.exceptions import DataError
from hgkt.network.objectives import CLASS_WEIGHTS, LOSS_NODES, REDUCTIONS
from hgkt.network.weights import ACTIVATIONS

MODES = ("quotient", "sampled")
DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("float32", "float64")
OPTIMIZERS = ("auto", "lbfgs", "adam")

# Training changes a loss with the unit of the features: weight decay and learning rate would mean
# something else. At a root mean square norm of 10 an image weighs against the paper's decay of 1e-3
# and rate of 1e-4 about as deep features as published do (CUB's have 9.7).
FEATURE_NORM = 10.0

# Settings that say where and how long a run goes, not what it computes at a step.
_OUTSIDE = frozenset(
    {"n_steps", "device", "checkpoint", "checkpoint_every", "snapshot_steps", "tensorboard"}
)


@dataclass(frozen=True)
class TrainingConfig:
    """How the embedder is built and trained; the defaults are the paper's where it gives any.

    Parameters
    ----------
    n_steps : int, optional
        Number of optimiser steps; None trains until the loss stands (`hgkt.network.loop`). Paper
        gap: only a plot against iterations.
    optimizer : {"auto", "lbfgs", "adam"}
        ``lbfgs``: the output layer solved exactly at every step, the hidden one by L-BFGS (see
        `hgkt.network.projection`), in ``quotient`` mode and with a weight decay only; ``adam``: the
        paper's. ``auto`` takes L-BFGS where it can.
    mode : {"quotient", "sampled"}
        ``quotient``: full batch over the exact two rows a class; a step sees every instance.
        ``sampled``: mini-batches of instances with drawn neighbours, as the paper trains; an
        epoch is ``steps_per_epoch(n_instances)`` steps.
    n_hidden : int
        Width of the hidden layer; the paper's is 1600.
    mu : float
        Weight of the neighbours' mean; the paper chooses from 0.01, 0.1, 0.5, 1.
    activation, output_activation : {"leaky_relu", "relu", "linear"}
        Of the hidden and the output layer; leaky ReLU has slope 0.2.
    loss_nodes : {"class", "instance", "representative"}
        Which nodes enter the loss; see `hgkt.network.objectives.SquaredObjective.build`.
    reduction : {"mean", "sum"}
        Over features.
    class_weight : {"image", "balanced"}
        Whether images or classes count the same.
    learning_rate, weight_decay : float
        Of Adam. Paper gap: the loss has ξ‖W‖² without a value and the settings a weight decay of
        0.001; they are taken as one and the same, coupled as in Adam, on biases too.
    batch_size : int
        Instances a step in ``sampled`` mode (Paper gap: not given; DEM's is 64).
    n_sampled : int
        Neighbours drawn for a node in ``sampled`` mode; the paper's S is 50.
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
    tensorboard : path, optional
        Folder for TensorBoard's loss curve.

    Examples
    --------
    >>> TrainingConfig(mode="sampled", batch_size=64).steps_per_epoch(23527)
    368
    """

    n_steps: int | None = None
    optimizer: str = "auto"
    mode: str = "quotient"
    n_hidden: int = 1600
    mu: float = 1.0
    activation: str = "leaky_relu"
    output_activation: str = "leaky_relu"
    loss_nodes: str = "class"
    reduction: str = "mean"
    class_weight: str = "image"
    learning_rate: float = 1e-4
    weight_decay: float = 1e-3
    batch_size: int = 64
    n_sampled: int = 50
    seed: int = 0
    device: str = "auto"
    dtype: str = "float32"
    feature_norm: float | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 500
    snapshot_steps: tuple[int, ...] = ()
    tensorboard: str | Path | None = None

    def __post_init__(self) -> None:
        choices = {
            "mode": MODES,
            "activation": ACTIVATIONS,
            "output_activation": ACTIVATIONS,
            "loss_nodes": LOSS_NODES,
            "reduction": REDUCTIONS,
            "class_weight": CLASS_WEIGHTS,
            "device": DEVICES,
            "dtype": DTYPES,
            "optimizer": OPTIMIZERS,
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        for name in ("n_hidden", "batch_size", "n_sampled", "checkpoint_every"):
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
                "optimizer='lbfgs' needs the exact loss (mode='quotient', n_sampled=None) and a "
                "weight_decay above 0; take 'adam'"
            )

    @property
    def _can_project(self) -> bool:
        # Without decay the output layer that minimises the loss is not a single one.
        return self.mode == "quotient" and self.weight_decay > 0

    @property
    def solver(self) -> str:
        """The optimiser that ``optimizer`` stands for: "lbfgs" or "adam"."""
        if self.optimizer != "auto":
            return self.optimizer
        return "lbfgs" if self._can_project else "adam"

    def steps_per_epoch(self, n_instances: int) -> int:
        """Return the steps in which every instance is seen once: 1 in ``quotient`` mode."""
        return 1 if self.mode == "quotient" else -(-n_instances // self.batch_size)

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide what a step computes."""
        names = [field.name for field in fields(self) if field.name not in _OUTSIDE]
        if self.solver == "lbfgs":
            names.remove("learning_rate")
        if self.mode == "quotient":
            names = [name for name in names if name not in ("batch_size", "n_sampled")]
        return {**{name: getattr(self, name) for name in names}, "optimizer": self.solver}
