"""Adam to the end of a network's training, step by step or, on a GPU, as recorded steps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from hgkt._typing import Progress
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import torch

_REPORT_EVERY = 20  # reading a loss off a GPU waits for it
_UNRECORDED = 3  # steps per size before one is recorded: libraries set themselves up in the first


class FedLoss(ABC):
    """A loss whose inputs are brought into place first, and which then reads tensors alone.

    A GPU can record such a step and replay it: small networks wait for Python otherwise.
    """

    @abstractmethod
    def feed(self, step: int) -> int:
        """Bring the inputs of a step, counted from 0, into place and return how many there are.

        Inputs of one number always lie in the same place.
        """

    @abstractmethod
    def loss(self) -> torch.Tensor:
        """Return the loss of the inputs in place."""

    def __call__(self, step: int) -> torch.Tensor:
        """Return the loss of a step."""
        self.feed(step)
        return self.loss()


def minimise(
    parameters: Sequence[torch.Tensor],
    loss_at: Callable[[int], torch.Tensor],
    stops: Sequence[int],
    learning_rate: float,
    weight_decay: float,
    drop_after: int | None = None,
    progress: Progress | None = None,
) -> Iterator[int]:
    """Run Adam to the last of the ascending `stops`, yielding at each.

    Weight decay is coupled: it is the gradient of weight_decay/2·‖θ‖², biases included.

    Parameters
    ----------
    parameters : sequence of Tensor
        What is trained, in place.
    loss_at : callable
        The loss of a step, counted from 0. Steps of a `FedLoss` are recorded and replayed on a
        GPU.
    stops : sequence of int
        Numbers of steps.
    learning_rate, weight_decay : float
        Of Adam.
    drop_after : int, optional
        Number of steps after which the rate falls to a tenth.
    progress : callable, optional
        Called as ``progress("train", done, total, {"loss": value})`` every few steps.

    Examples
    --------
    >>> import torch
    >>> x = torch.zeros(1, requires_grad=True)
    >>> stops = minimise([x], lambda step: ((x - 1) ** 2).sum(), [1, 300], 0.1, 0.0)
    >>> [round(x.item(), 2) for _ in stops]
    [0.1, 1.0]
    """
    steps: _Steps
    if isinstance(loss_at, FedLoss) and parameters[0].is_cuda:
        steps = _ReplayedSteps(parameters, loss_at, learning_rate, weight_decay)
    else:
        steps = _Steps(parameters, loss_at, learning_rate, weight_decay)
    for step in range(stops[-1]):
        if step == drop_after:
            steps.drop_rate()
        loss = steps.take(step)
        done = step + 1
        if done % _REPORT_EVERY == 0 or done in stops:
            _report(float(loss), done, stops[-1], progress)
        if done in stops:
            yield done


class _Steps:
    """Steps of Adam, one operation after the other."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        loss_at: Callable[[int], torch.Tensor],
        learning_rate: Any,
        weight_decay: float,
        capturable: bool = False,
    ) -> None:
        self.loss_at = loss_at
        self.optimizer = _adam(parameters, learning_rate, weight_decay, capturable)

    def take(self, step: int) -> torch.Tensor:
        """Take a step and return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_at(step)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def drop_rate(self) -> None:
        """Let the rate fall to a tenth."""
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.1


class _ReplayedSteps(_Steps):
    """Steps on a GPU, recorded once for each number of inputs and then replayed."""

    def __init__(
        self,
        parameters: Sequence[torch.Tensor],
        loss_at: FedLoss,
        learning_rate: float,
        weight_decay: float,
    ) -> None:
        import torch

        # A record holds where the rate lies, not what it is: a number could not fall any more.
        rate = torch.tensor(learning_rate, device=parameters[0].device)
        super().__init__(parameters, lambda _: loss_at.loss(), rate, weight_decay, capturable=True)
        self.feed = loss_at.feed
        self.stream = torch.cuda.Stream()
        self.taken: Counter[int] = Counter()
        self.records: dict[int, tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def take(self, step: int) -> torch.Tensor:
        size = self.feed(step)
        if self.taken[size] < _UNRECORDED:
            self.taken[size] += 1
            return self._unrecorded(step)
        if size not in self.records:
            self.records[size] = self._record(step)
        graph, loss = self.records[size]
        graph.replay()
        return loss

    def _unrecorded(self, step: int) -> torch.Tensor:
        """Take a step on a stream of its own, as one has to before a step is recorded."""
        import torch

        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss = super().take(step)
        torch.cuda.current_stream().wait_stream(self.stream)
        return loss

    def _record(self, step: int) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
        """Record a step, which does not take it."""
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = super().take(step)
        return graph, loss


def _report(loss: float, done: int, total: int, progress: Progress | None) -> None:
    if not math.isfinite(loss):
        raise DataError(
            f"the loss is {loss} at step {done}; lower learning_rate or the scale of attributes "
            "and features"
        )
    if progress is not None:
        progress("train", done, total, {"loss": loss})


def _adam(
    parameters: Sequence[torch.Tensor], rate: Any, weight_decay: float, capturable: bool
) -> torch.optim.Adam:
    from torch.optim import Adam

    make = partial(Adam, parameters, lr=rate, weight_decay=weight_decay, capturable=capturable)
    try:
        # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
        return make(fused=True)
    except RuntimeError:  # a device without the fused kernel
        return make()
