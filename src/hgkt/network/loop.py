"""The training loop: deterministic, resumable, refusing what went astray."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt._validation import import_extra
from hgkt.exceptions import DataError
from hgkt.network.batches import StepLoss
from hgkt.network.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.weights import EmbedderWeights

OnSnapshot = Callable[[int, EmbedderWeights], None]
"""Called as ``on_snapshot(steps done, weights)`` after each of ``snapshot_steps``."""

_REPORT_EVERY = 20  # reading a loss off a GPU waits for it


@dataclass(frozen=True, eq=False)
class TrainingResult:
    """What a run returns.

    Parameters
    ----------
    weights : EmbedderWeights
        Trained weights in NumPy.
    losses : ndarray of shape (n_steps,)
        Loss before each step: over all instances in ``quotient`` mode, else over the mini-batch.
    n_steps : int
        Number of steps done, those of a resumed checkpoint included.
    resumed_from : int
        Number of steps that a checkpoint brought.
    """

    weights: EmbedderWeights
    losses: NDArray[np.float64]
    n_steps: int
    resumed_from: int = 0


class TrainingRun:
    """The state of one training run: weights, moments of Adam, losses, steps done.

    Parameters
    ----------
    config : TrainingConfig
        Settings.
    embedder : HGKTEmbedder
        The network, on its device.
    loss : StepLoss
        The loss of each step.
    progress, on_snapshot : callable or None
        As in `hgkt.network.training.train_embedder`.
    """

    def __init__(
        self,
        config: TrainingConfig,
        embedder: HGKTEmbedder,
        loss: StepLoss,
        progress: Progress | None,
        on_snapshot: OnSnapshot | None,
    ) -> None:
        self.config, self.embedder, self.loss = config, embedder, loss
        self.progress, self.on_snapshot = progress, on_snapshot
        self.optimizer = _adam(embedder, config)
        self.device = embedder.layer1.weight.device
        self.losses = torch.zeros(config.n_steps, dtype=embedder.dtype, device=self.device)
        self.done = self.reported = self.resumed_from = 0
        self.saved = -1
        self.updating = False
        self.identity = ""
        self.writer: Any = None
        if config.tensorboard is not None:
            module = import_extra("torch.utils.tensorboard", "tensorboard")
            self.writer = module.SummaryWriter(str(config.tensorboard))

    def train(self) -> TrainingResult:
        """Do the steps that are left."""
        snapshots = set(self.config.snapshot_steps)
        try:
            if self.done == 0 and 0 in snapshots:
                self._snapshot()
            while self.done < self.config.n_steps:
                self.step()
                if self.done % _REPORT_EVERY == 0 or self.done == self.config.n_steps:
                    self._report()
                if self.done % self.config.checkpoint_every == 0:
                    self._save()
                if self.done in snapshots:
                    self._snapshot()
            self._save()
        except KeyboardInterrupt:
            # Inside an update the weights may be half new: the last checkpoint stands then.
            if not self.updating:
                with contextlib.suppress(DataError):
                    self._save()
            raise
        finally:
            if self.writer is not None:
                self.writer.close()
        losses = self.losses.detach().cpu().numpy().astype(np.float64)
        return TrainingResult(self._weights(), losses, self.done, self.resumed_from)

    def step(self) -> None:
        """Do one optimiser step."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.embedder, self.done)
        loss.backward()  # type: ignore[no-untyped-call]
        self.updating = True
        self.losses[self.done] = loss.detach()
        self.optimizer.step()
        self.done += 1
        self.updating = False

    def _report(self) -> None:
        """Read the losses since the last report: refuse a run that went astray, tell the rest."""
        fresh = self.losses[self.reported : self.done].cpu().numpy()
        if not np.isfinite(fresh).all():
            step = self.reported + int(np.flatnonzero(~np.isfinite(fresh))[0])
            raise self._astray(f"the loss is {fresh[step - self.reported]} at step {step}")
        if self.writer is not None:
            for offset, value in enumerate(fresh):
                self.writer.add_scalar("loss", float(value), self.reported + offset)
        self.reported = self.done
        if self.progress is not None and len(fresh):
            self.progress("train", self.done, self.config.n_steps, {"loss": float(fresh[-1])})

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

    def _snapshot(self) -> None:
        if self.on_snapshot is not None:
            self._report()
            self.on_snapshot(self.done, self._weights())

    # ------------------------------------------------------------------ checkpoints
    def _save(self) -> None:
        if self.config.checkpoint is None or self.saved == self.done:
            return
        self._report()
        arrays = {"losses": self.losses[: self.done].cpu().numpy(), **self._weights().arrays()}
        for name, parameter in self.embedder.named_weights().items():
            for key, value in self.optimizer.state[parameter].items():
                arrays[f"{key}.{name}"] = value.cpu().numpy()
        write_checkpoint(self.config.checkpoint, Checkpoint(self.done, self.identity, arrays))
        self.saved = self.done

    def resume(self, identity: str) -> None:
        """Continue from the checkpoint file where there is one."""
        self.identity = identity
        assert self.config.checkpoint is not None
        checkpoint = read_checkpoint(self.config.checkpoint, identity)
        if checkpoint is None:
            return
        if checkpoint.step > self.config.n_steps:
            raise DataError(
                f"the checkpoint {self.config.checkpoint} is at step {checkpoint.step}, beyond "
                f"n_steps={self.config.n_steps}; raise n_steps or delete it"
            )
        arrays = {name: torch.from_numpy(value.copy()) for name, value in checkpoint.arrays.items()}
        self.losses[: checkpoint.step] = arrays.pop("losses").to(self.device)
        state = {}
        with torch.no_grad():
            for index, (name, parameter) in enumerate(self.embedder.named_weights().items()):
                parameter.copy_(arrays[name])
                state[index] = {
                    key.removesuffix(f".{name}"): value
                    for key, value in arrays.items()
                    if key.endswith(f".{name}")
                }
        if checkpoint.step:
            groups = self.optimizer.state_dict()["param_groups"]
            self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        self.done = self.reported = self.saved = self.resumed_from = checkpoint.step


def _adam(embedder: HGKTEmbedder, config: TrainingConfig) -> torch.optim.Adam:
    parameters = list(embedder.named_weights().values())
    rate, decay = config.learning_rate, config.weight_decay
    try:
        # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
    except RuntimeError:  # a device without the fused kernel
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
