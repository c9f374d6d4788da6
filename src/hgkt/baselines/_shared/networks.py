"""Networks: what DEM, PSRZSL, CN-ZSL and CADA-VAE share.

PyTorch is imported where a network is trained: a fitted model embeds and scores without it. Initial
weights are drawn on the CPU from a generator of their own, so every device starts from the same
ones and the global generator is never touched.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from hgkt._arrays import torch_device, unit_rows
from hgkt._typing import Progress
from hgkt._validation import check_choice, check_number, import_extra
from hgkt.baselines._shared.grids import GridClassifier
from hgkt.estimators.base import ClassRows
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
_REPORT_EVERY = 20  # reading a loss off a GPU waits for it
_UNRECORDED = 3  # steps per size before one is recorded: libraries set themselves up in the first


class NetworkClassifier(GridClassifier):
    """Base of the methods that train a network.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        Where training runs; "auto" takes CUDA where there is one.
    """

    learning_rate: float
    random_state: Any
    device: str

    def _check_params(self) -> None:
        import_extra("torch", "network")
        check_number("learning_rate", self.learning_rate, low=0.0, open_low=True)
        check_choice("device", self.device, DEVICES)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # They are made for the features of a CNN: centred data is out of reach.
        tags.classifier_tags.poor_score = True
        return tags

    def _start(self) -> tuple[int, str]:
        """Draw the seed and pick the device; "auto" is CUDA where there is one."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        return int(seed), torch_device(self.device)


class AttributeNetworkClassifier(NetworkClassifier):
    """Base of the methods that train a network from attributes to visual features."""

    _path = "n_steps"
    _weights: ClassVar[tuple[str, ...]] = ("w1_", "b1_", "w2_", "b2_")
    """What the trained tensors are called, in their order."""
    _learned = _weights

    n_hidden: int
    weight_decay: float
    w1_: NDArray[np.float64]
    b1_: NDArray[np.float64]
    w2_: NDArray[np.float64]
    b2_: NDArray[np.float64]

    def _check_params(self) -> None:
        super()._check_params()
        for name in (self._path, "n_hidden"):
            check_number(name, getattr(self, name), low=1, integer=True)
        check_number("weight_decay", self.weight_decay, low=0.0)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        hidden = np.maximum(attribute_rows(rows) @ self.w1_.T + self.b1_, 0.0)
        return {"embedding": np.maximum(hidden @ self.w2_.T + self.b2_, 0.0)}

    def _in_feature_units(self, unit: float) -> None:
        """Rewrite a network trained on features divided by `unit` as one of the features.

        A ReLU of t·v is t times that of v, so it is enough to scale the output layer.
        """
        self.w2_, self.b2_ = unit * self.w2_, unit * self.b2_

    def _minimise(
        self,
        weights: Sequence[torch.Tensor],
        loss_at: Callable[[int], torch.Tensor],
        stops: Sequence[int],
        drop_after: int | None = None,
    ) -> Iterator[int]:
        """Run `minimise` and keep, at each stop, the weights that have a name."""
        rates = (self.learning_rate, self.weight_decay)
        for stop in minimise(weights, loss_at, stops, *rates, drop_after, self._progress):
            for name, tensor in zip(self._weights, weights, strict=False):
                setattr(self, name, to_numpy(tensor))
            yield stop


def attribute_rows(attributes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale each attribute vector (L, d) to entries of root mean square 1.

    Examples
    --------
    >>> attribute_rows(np.array([[3.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    array([[1.2, 1.6, 0. , 0. ],
           [0. , 0. , 0. , 0. ]])
    """
    return math.sqrt(attributes.shape[1]) * unit_rows(attributes)


def feature_unit(means: NDArray[np.float64]) -> float:
    """Return what class means (L, D) are divided by to have a mean norm of 10.

    Steps and weight decay then mean the same whatever unit features are stored in. Ten is about
    what pooled features of a CNN have as they are.

    Examples
    --------
    >>> feature_unit(np.array([[300.0, 400.0], [0.0, 500.0]]))
    50.0
    """
    mean = float(np.linalg.norm(means, axis=1).mean())
    return mean / 10.0 if mean > 0 else 1.0


def uniform(shape: Sequence[int], bound: float, generator: torch.Generator) -> torch.Tensor:
    """Draw a tensor uniform in ±bound."""
    import torch

    return (2.0 * torch.rand(*shape, generator=generator) - 1.0) * bound


def centred_layers(
    n_inputs: int, n_hidden: int, outputs: NDArray[np.float64], generator: torch.Generator
) -> list[torch.Tensor]:
    """Draw W₁, b₁, W₂, b₂ of a two-layer network whose outputs start close to the targets' mean.

    Glorot's rule, with a tenth of it in the output layer: a ReLU that is dead for every class
    from the start would stay so, and few classes leave many of them dead.

    Examples
    --------
    >>> import torch
    >>> targets = np.array([[0.0, 2.0, 3.0], [2.0, 2.0, 3.0]])
    >>> w1, b1, w2, b2 = centred_layers(4, 50, targets, torch.Generator().manual_seed(0))
    >>> output = torch.relu(torch.ones(4) @ w1.T + b1) @ w2.T + b2
    >>> bool((output - torch.tensor([1.0, 2.0, 3.0])).abs().max() < 0.3)
    True
    """
    import torch

    center = torch.tensor(outputs.mean(axis=0), dtype=torch.float32)
    w1 = uniform((n_hidden, n_inputs), math.sqrt(6.0 / (n_hidden + n_inputs)), generator)
    bound = 0.1 * math.sqrt(6.0 / (n_hidden + len(center)))
    w2 = uniform((len(center), n_hidden), bound, generator)
    return [w1, torch.zeros(n_hidden), w2, center]


def two_layers(
    rows: torch.Tensor, weights: Sequence[torch.Tensor], inner: str = "relu", outer: str = "relu"
) -> torch.Tensor:
    """Return δ₂(W₂ δ₁(W₁a + b₁) + b₂) of rows a (n, d) for weights (W₁, b₁, W₂, b₂)."""
    from torch.nn.functional import linear

    from hgkt.network.layers import activate

    w1, b1, w2, b2 = weights
    return activate(linear(activate(linear(rows, w1, b1), inner), w2, b2), outer)


def class_mean_loss(
    embeddings: torch.Tensor, targets: torch.Tensor, shares: torch.Tensor
) -> torch.Tensor:
    """Return Σ_c (N_c/N)‖g_c − t_c‖²/D of embeddings and targets (L, D) and shares N_c/N (L,)."""
    return ((embeddings - targets).square().mean(dim=1) * shares).sum()


def trainable(tensors: Sequence[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Move initial weights to the device and have their gradients recorded."""
    return [tensor.to(device).requires_grad_() for tensor in tensors]


def to_numpy(tensor: torch.Tensor) -> NDArray[np.float64]:
    """Copy a tensor out as float64."""
    return tensor.detach().cpu().numpy().astype(np.float64)


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
    **adam: Any,
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
    **adam
        Of `torch.optim.Adam`, where its own defaults are not wanted.

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
        steps = _ReplayedSteps(parameters, loss_at, learning_rate, weight_decay, **adam)
    else:
        steps = _Steps(parameters, loss_at, learning_rate, weight_decay, **adam)
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
        **adam: Any,
    ) -> None:
        self.loss_at = loss_at
        self.optimizer = _adam(parameters, learning_rate, weight_decay, **adam)

    def take(self, step: int) -> torch.Tensor:
        """Take a step and return its loss."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_at(step)
        loss.backward()  # type: ignore[no-untyped-call]
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
        **adam: Any,
    ) -> None:
        import torch

        # A record holds where the rate lies, not what it is: a number could not fall any more.
        rate = torch.tensor(learning_rate, device=parameters[0].device)
        adam["capturable"] = True
        super().__init__(parameters, lambda _: loss_at.loss(), rate, weight_decay, **adam)
        self.feed = loss_at.feed
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
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
    parameters: Sequence[torch.Tensor], rate: Any, weight_decay: float, **options: Any
) -> torch.optim.Adam:
    from torch.optim import Adam

    make = partial(Adam, parameters, lr=rate, weight_decay=weight_decay, **options)
    try:
        # One pass over weights and moments instead of a dozen: 20 times faster on a CPU.
        return make(fused=True)
    except RuntimeError:  # a device without the fused kernel
        return make()
