"""What trained networks share: device, initial weights, the loop. It imports torch: import it late.

Initial weights are drawn on the CPU from a generator of their own, so every device starts from the
same ones and the global generator is never touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._devices import torch_device
from hgkt._typing import Progress
from hgkt.exceptions import DataError

_REPORT_EVERY = 20  # reading a loss off a GPU waits for it


def pick_device(name: str) -> torch.device:
    """Return the device; "auto" is CUDA where there is one."""
    return torch.device(torch_device(name))


def draw_seed(random_state: Any) -> int:
    """Draw a seed from a scikit-learn random state."""
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def truncated_normal(
    shape: Sequence[int], deviation: float, generator: torch.Generator
) -> torch.Tensor:
    """Draw a normal tensor cut at two standard deviations."""
    weights = torch.empty(*shape)
    bound = 2.0 * deviation
    return torch.nn.init.trunc_normal_(weights, 0.0, deviation, -bound, bound, generator=generator)


def uniform(shape: Sequence[int], bound: float, generator: torch.Generator) -> torch.Tensor:
    """Draw a tensor uniform in ±bound."""
    return (2.0 * torch.rand(*shape, generator=generator) - 1.0) * bound


def centred_layers(
    n_inputs: int, n_hidden: int, center: torch.Tensor, generator: torch.Generator
) -> list[torch.Tensor]:
    """Draw W₁, b₁, W₂, b₂ of a two-layer network whose outputs all start close to `center`.

    Glorot's rule, with a tenth of it in the output layer: a ReLU that is dead for every class
    from the start would stay so, and few classes leave many of them dead.

    Examples
    --------
    >>> center = torch.tensor([1.0, 2.0, 3.0])
    >>> w1, b1, w2, b2 = centred_layers(4, 50, center, torch.Generator().manual_seed(0))
    >>> output = torch.relu(torch.ones(4) @ w1.T + b1) @ w2.T + b2
    >>> bool((output - center).abs().max() < 0.3)
    True
    """
    w1 = uniform((n_hidden, n_inputs), math.sqrt(6.0 / (n_hidden + n_inputs)), generator)
    bound = 0.1 * math.sqrt(6.0 / (n_hidden + len(center)))
    w2 = uniform((len(center), n_hidden), bound, generator)
    return [w1, torch.zeros(n_hidden), w2, center.clone()]


def trainable(tensors: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Move initial weights to the device and have their gradients recorded."""
    return [tensor.to(device).requires_grad_() for tensor in tensors]


def to_numpy(tensor: torch.Tensor) -> NDArray[np.float64]:
    """Copy a tensor out as float64."""
    return tensor.detach().cpu().numpy().astype(np.float64)


def minimise(
    parameters: Sequence[torch.Tensor],
    loss_at: Callable[[int], torch.Tensor],
    stops: Sequence[int],
    learning_rate: float | Callable[[int], float],
    weight_decay: float,
    progress: Progress | None = None,
) -> Iterator[int]:
    """Run Adam to the last of the ascending `stops`, yielding at each.

    Weight decay is coupled: it is the gradient of weight_decay/2·‖θ‖², biases included.

    Parameters
    ----------
    parameters : sequence of Tensor
        What is trained, in place.
    loss_at : callable
        The loss of a step, counted from 0.
    stops : sequence of int
        Numbers of steps.
    learning_rate : float or callable
        The rate, or a function of the step.
    weight_decay : float
        See above.
    progress : callable, optional
        Called as ``progress("train", done, total, {"loss": value})`` every few steps.

    Examples
    --------
    >>> x = torch.zeros(1, requires_grad=True)
    >>> stops = minimise([x], lambda step: ((x - 1) ** 2).sum(), [1, 300], 0.1, 0.0)
    >>> [round(x.item(), 2) for _ in stops]
    [0.1, 1.0]
    """
    rate = learning_rate if callable(learning_rate) else None
    first = rate(0) if rate is not None else learning_rate
    optimizer = _adam(parameters, first, weight_decay)
    wanted, total = set(stops), stops[-1]
    for step in range(total):
        if rate is not None:
            for group in optimizer.param_groups:
                group["lr"] = rate(step)
        optimizer.zero_grad(set_to_none=True)
        loss = loss_at(step)
        loss.backward()
        optimizer.step()
        done = step + 1
        if done % _REPORT_EVERY == 0 or done in wanted:
            _report(float(loss.detach()), done, total, progress)
        if done in wanted:
            yield done


def _report(loss: float, done: int, total: int, progress: Progress | None) -> None:
    if not math.isfinite(loss):
        raise DataError(
            f"the loss is {loss} at step {done}; lower learning_rate or the scale of attributes "
            "and features"
        )
    if progress is not None:
        progress("train", done, total, {"loss": loss})


def _adam(parameters: Sequence[torch.Tensor], rate: Any, weight_decay: float) -> torch.optim.Adam:
    try:
        # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
        return torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay, fused=True)
    except RuntimeError:  # a device without the fused kernel
        return torch.optim.Adam(parameters, lr=rate, weight_decay=weight_decay)
