"""What every training run does: stop where the loss stands, report, resume, refuse."""

from __future__ import annotations

import contextlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from hgkt._typing import Progress
from hgkt._validation import import_extra
from hgkt.exceptions import DataError
from hgkt.network.batches import StepLoss
from hgkt.network.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.weights import EmbedderWeights

OnSnapshot = Callable[[int, EmbedderWeights], None]
"""Called as ``on_snapshot(step, weights)`` for each of ``snapshot_steps``."""

_TOLERANCE = 0.01


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


class TrainingRun(ABC):
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
    loss : StepLoss
        The loss of each step.
    scale : float
        What features were multiplied by; reports, snapshots and the result undo it.
    progress, on_snapshot : callable or None
        As in `hgkt.network.training.train_embedder`.
    """

    max_steps: ClassVar[int]

    def __init__(
        self,
        config: TrainingConfig,
        embedder: HGKTEmbedder,
        loss: StepLoss,
        scale: float = 1.0,
        progress: Progress | None = None,
        on_snapshot: OnSnapshot | None = None,
    ) -> None:
        self.config, self.embedder, self.loss, self.scale = config, embedder, loss, scale
        self.progress, self.on_snapshot = progress, on_snapshot
        self.device = embedder.layer1.weight.device
        self.limit = self.max_steps if config.n_steps is None else config.n_steps
        # Losses, and losses with the weight decay's part.
        self.losses = torch.zeros(2, self.limit, dtype=torch.float64, device=self.device)
        self.done = self.reported = self.resumed_from = 0
        self.saved = -1
        self.updating = self.stuck = False
        self.identity = ""
        self.writer: Any = None
        if config.tensorboard is not None:
            import_extra("tensorboard", "tensorboard")  # torch would name itself as missing
            module = import_extra("torch.utils.tensorboard", "tensorboard")
            self.writer = module.SummaryWriter(str(config.tensorboard))

    @property
    @abstractmethod
    def window(self) -> int:
        """Steps between two looks whether the loss stands."""

    @abstractmethod
    def advance(self) -> None:
        """Do a step or a few."""

    def train(self) -> TrainingResult:
        """Do the steps that are left."""
        try:
            if self.done == 0:
                self._snapshot_if_asked()
            while self.done < self.limit and not self.stands():
                self.advance()
            self._report()
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
        if self.config.n_steps is None and not self.stands():
            warnings.warn(
                f"the training loss still falls after {self.done} steps; set n_steps higher, or "
                "raise weight_decay",
                ConvergenceWarning,
                stacklevel=2,
            )
        for step in self.config.snapshot_steps:  # the run ended before them
            if step > self.done:
                self._snapshot(step)
        losses = self.losses[0, : self.done].cpu().numpy() / self.scale**2
        return TrainingResult(self._own_weights(), losses, self.done, self.resumed_from)

    def stands(self) -> bool:
        """Whether more steps would bring next to nothing."""
        if self.stuck:
            return True
        if self.config.n_steps is not None or self.done < 2 * self.window:
            return False
        recent = self.losses[1, self.done - 2 * self.window : self.done].cpu().numpy()
        before, after = recent.reshape(2, -1).mean(axis=1)
        return bool(before - after < _TOLERANCE * (after - self.loss.floor))

    def decay(self) -> torch.Tensor:
        """Return what the weight decay adds to the loss."""
        squares = [torch.linalg.vector_norm(p).square() for p in self.embedder.parameters()]
        return 0.5 * self.config.weight_decay * torch.stack(squares).sum()

    def _report(self) -> None:
        """Read the losses since the last report: refuse a run that went astray, tell the rest."""
        fresh = self.losses[0, self.reported : self.done].cpu().numpy() / self.scale**2
        if not np.isfinite(fresh).all():
            step = self.reported + int(np.flatnonzero(~np.isfinite(fresh))[0])
            raise self._astray(f"the loss is {fresh[step - self.reported]} at step {step}")
        if self.writer is not None:
            for offset, value in enumerate(fresh):
                self.writer.add_scalar("loss", float(value), self.reported + offset)
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

    def _snapshot_if_asked(self) -> None:
        if self.done in self.config.snapshot_steps:
            self._snapshot(self.done)

    def _snapshot(self, step: int) -> None:
        if self.on_snapshot is not None:
            self._report()
            self.on_snapshot(step, self._own_weights())

    # ------------------------------------------------------------------ checkpoints
    @abstractmethod
    def optimizer_arrays(self) -> dict[str, NDArray[Any]]:
        """Return what the optimiser needs to go on, beside weights and losses."""

    @abstractmethod
    def restore_optimizer(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Set what `optimizer_arrays` returned."""

    def _save(self) -> None:
        if self.config.checkpoint is None or self.saved == self.done:
            return
        self._report()
        arrays = {"losses": self.losses[:, : self.done].cpu().numpy(), **self._weights().arrays()}
        arrays |= self.optimizer_arrays()
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
            self.restore_optimizer(arrays)
