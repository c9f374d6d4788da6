"""Training by Adam, as the paper does, one step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from hgkt._typing import Progress
from hgkt.network.batches import StepLoss
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.loop import OnSnapshot, TrainingRun

_REPORT_EVERY = 20  # reading a loss off a GPU waits for it


class AdamRun(TrainingRun):
    """A run of Adam on the exact loss or on mini-batches; parameters as `TrainingRun`."""

    max_steps = 100_000

    def __init__(
        self,
        config: TrainingConfig,
        embedder: HGKTEmbedder,
        loss: StepLoss,
        scale: float = 1.0,
        progress: Progress | None = None,
        on_snapshot: OnSnapshot | None = None,
    ) -> None:
        super().__init__(config, embedder, loss, scale, progress, on_snapshot)
        self.optimizer = _adam(embedder, config)

    @property
    def window(self) -> int:
        """Whole epochs, so that every instance weighs the same in a window's mean."""
        return self.loss.steps_per_epoch * max(5, -(-500 // self.loss.steps_per_epoch))

    def stands(self) -> bool:
        """Look at the end of a window only."""
        return self.done % self.window == 0 and super().stands()

    def advance(self) -> None:
        """Do one step, and what is due after it."""
        self.step()
        if self.done % _REPORT_EVERY == 0 or self.done == self.limit:
            self._report()
        if self.done % self.config.checkpoint_every == 0:
            self._save()
        self._snapshot_if_asked()

    def step(self) -> None:
        """Do one optimiser step."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(self.embedder, self.done)
        loss.backward()  # type: ignore[no-untyped-call]
        self.updating = True
        value = loss.detach()
        self.losses[0, self.done] = value
        if self.config.n_steps is None:
            with torch.no_grad():
                self.losses[1, self.done] = value + self.decay()
        self.optimizer.step()
        self.done += 1
        self.updating = False

    def optimizer_arrays(self) -> dict[str, NDArray[Any]]:
        """Return Adam's moments and step counts."""
        return {
            f"{key}.{name}": value.cpu().numpy()
            for name, parameter in self.embedder.named_weights().items()
            for key, value in self.optimizer.state[parameter].items()
        }

    def restore_optimizer(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Set Adam's moments and step counts."""
        state = {
            index: {
                key.removesuffix(f".{name}"): value
                for key, value in arrays.items()
                if key.endswith(f".{name}")
            }
            for index, name in enumerate(self.embedder.named_weights())
        }
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})


def _adam(embedder: HGKTEmbedder, config: TrainingConfig) -> torch.optim.Adam:
    parameters = list(embedder.named_weights().values())
    rate, decay = config.learning_rate, config.weight_decay
    try:
        # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
    except RuntimeError:  # a device without the fused kernel
        return torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
