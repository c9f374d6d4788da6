"""CN-ZSL: class-normalised network from attributes to prototypes, cosine softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, batches, unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import ATTRIBUTE_MAPS, Seen, parameters
from hgkt.baselines._shared.networks import (
    AttributeNetworkClassifier,
    FedLoss,
    attribute_rows,
    to_numpy,
    trainable,
    uniform,
)
from hgkt.baselines._shared.rows import similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.estimators.methods import Preset

if TYPE_CHECKING:
    import torch

STANDARDIZATIONS = ("variance", "deviation", "none")
_EPSILON = 1e-5
_MOMENTUM = 0.1
_BLOCK = 8192  # rows on their way to a GPU: a copy of all would double the memory of the host


@parameters
class CNZSLClassifier(AttributeNetworkClassifier):
    """Class normalization for zero-shot learning.

    Attributes, scaled to length √d, become prototypes by three layers,

        p(a) = ReLU(W₃ CN(ReLU(CN(W₂ ReLU(W₁a + b₁) + b₂))) + b₃),

    where CN standardises each unit over the seen classes (at test by running averages of the
    training statistics). Training minimises the cross-entropy of softmax(s·cos(x, p(a_c))) over
    the seen classes by Adam. score(x, c) = s·cos(x, p(a_c)), times `seen_factor` for seen
    classes.

    The variance of the initial output layer is 1/(n_hidden·D), of the others that of PyTorch's
    linear layer: uniform in ±1/√n_inputs.

    Parameters
    ----------
    n_epochs : int, default=50
        Passes over the instances.
    n_hidden : int, default=1024
        Width of both hidden layers.
    scale : float, default=25.0
        s, the inverse temperature.
    learning_rate : float, default=5e-4
        Of Adam.
    decay_epoch : int, default=25
        Number of epochs after which the rate falls to a tenth.
    weight_decay : float, default=1e-4
        Coupled, on biases too.
    batch_size : int, default=256
        Instances per step; every step sees all seen classes.
    standardization : {"variance", "deviation", "none"}, default="variance"
        What CN divides centred units by. The paper writes the standard deviation, the released
        code divides by the variance; "none" leaves CN out.
    seen_factor : float, default=1.0
        The released code multiplies seen classes' scores by 0.95 (1 on CUB).
    feature_map, attribute_map, calibration : ...
    random_state : int, RandomState or None, default=None
        Of initial weights and batches.
    device : ...

    The defaults are those of the released code; the preset "released" has its `seen_factor` too.

    Attributes
    ----------
    w1_, b1_, w2_, b2_, w3_, b3_ : ndarray
        Weights (outputs, inputs) and biases (outputs,).
    running_ : ndarray of shape (4, n_hidden)
        Running mean and variance of the first CN, then of the second.

    References
    ----------
    Skorokhodov, Elhoseiny, "Class normalization for (continual)? generalized zero-shot
    learning", ICLR 2021.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0, 1.0], [4.0, 0.2, 1.0], [0.0, 4.0, 1.0], [0.2, 4.0, 1.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = CNZSLClassifier(n_hidden=64, random_state=0)
    >>> model = model.fit(X, y, class_attributes=attributes).add_classes({"zebra": [0.5, 0.5]})
    >>> model.predict([[5.0, 0.0, 1.0], [0.0, 5.0, 1.0]], among="seen").tolist()
    ['horse', 'tiger']
    """

    n_epochs: int = 50
    n_hidden: int = 1024
    scale: float = 25.0
    learning_rate: float = 5e-4
    decay_epoch: int = 25
    weight_decay: float = 1e-4
    batch_size: int = 256
    standardization: str = "variance"
    seen_factor: float = 1.0
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0
    random_state: Any = None
    device: str = "auto"

    mathematics_version: ClassVar[int] = 4  # 3: narrower grids of weight decay, rate and scale

    _weights = ("w1_", "b1_", "w2_", "b2_", "w3_", "b3_")
    _learned = ("w1_", "b1_", "w2_", "b2_", "w3_", "b3_", "running_")
    _path = "n_epochs"
    _late = ("seen_factor",)
    _seen_apart = True
    named_presets: ClassVar[Mapping[str, Preset]] = {
        "released": Preset({"seen_factor": 0.95}, {"CUB": {"seen_factor": 1.0}})
    }

    def default_stages(self) -> list[Any]:
        """Return maps, then each number of the training, with epochs, which one run serves."""
        counts = {"n_epochs": [10, 20, 25, 30, 50]}
        return [
            {"feature_map": ["l2", "sqrt+l2"], **counts},
            {"attribute_map": list(ATTRIBUTE_MAPS), **counts},
            {"weight_decay": [1e-5, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1, 3e-1], **counts},
            {"n_hidden": [1024, 2048], **counts},
            {"learning_rate": [1.25e-4, 2.5e-4, 5e-4, 1e-3, 2e-3, 4e-3, 8e-3], **counts},
            {"scale": [15.0, 25.0, 35.0, 50.0, 70.0], **counts},
        ]

    def _check_params(self) -> None:
        super()._check_params()
        for name in ("batch_size", "decay_epoch"):
            check_number(name, getattr(self, name), low=1, integer=True)
        for name in ("scale", "seen_factor"):
            check_number(name, getattr(self, name), low=0.0, open_low=True)
        check_choice("standardization", self.standardization, STANDARDIZATIONS)

    def _train_path(self, gathered: Seen, stops: Sequence[int]) -> Iterator[tuple[int, ClassRows]]:
        import torch

        X, codes, attributes = gathered
        seed, device = self._start()
        network = _Network(self, X.shape[1], attributes.shape[1], seed, device)
        rows = torch.tensor(attribute_rows(attributes), dtype=torch.float32, device=device)
        batches = _Batches(X, codes, self.batch_size, np.random.default_rng(seed), device)
        loss = _BatchLoss(batches, network, rows, self.scale)
        per_epoch = batches.per_epoch
        steps = [stop * per_epoch for stop in stops]
        for step in self._minimise(network.weights, loss, steps, self.decay_epoch * per_epoch):
            self.running_ = to_numpy(torch.stack(network.running))
            yield step // per_epoch, self._embed_rows(attributes)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        hidden = np.maximum(attribute_rows(rows) @ self.w1_.T + self.b1_, 0.0)
        hidden = self._standardize(hidden @ self.w2_.T + self.b2_, self.running_[:2])
        hidden = self._standardize(np.maximum(hidden, 0.0), self.running_[2:])
        return {"embedding": np.maximum(hidden @ self.w3_.T + self.b3_, 0.0)}

    def _standardize(
        self, values: NDArray[np.float64], running: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        if self.standardization == "none":
            return values
        variance = running[1] + _EPSILON
        scales = variance if self.standardization == "variance" else np.sqrt(variance)
        standardized: NDArray[np.float64] = (values - running[0]) / scales
        return standardized

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        scores = self.scale * similarity_scores(X, table["embedding"], "cosine")
        return self.seen_factor * scores if seen else scores


class _Batches:
    """Batches of rows at unit length, in a new order each epoch; a GPU holds all rows if it can."""

    def __init__(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        size: int,
        rng: np.random.Generator,
        device: str,
    ) -> None:
        import torch

        self.X, self.size, self.rng, self.device = X, size, rng, device
        self.per_epoch = -(-len(X) // size)
        self.codes = torch.from_numpy(codes).to(device)
        self.held: torch.Tensor | None = None
        if _fits(4 * X.size, device):
            self.held = torch.cat([self._copied(part) for part in batches(len(X), _BLOCK)])

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return features (n, D) and class codes (n,) of a step, counted from 0 and not skipped."""
        position = step % self.per_epoch
        if position == 0:
            self._shuffle()
        batch = slice(position * self.size, (position + 1) * self.size)
        here = self.on_device[batch]
        rows = self._copied(self.order[batch]) if self.held is None else self.held[here]
        return rows, self.codes[here]

    def _shuffle(self) -> None:
        import torch

        self.order = self.rng.permutation(len(self.X))
        for batch in batches(len(self.order), self.size):
            self.order[batch].sort()  # rows are read in the order they lie
        self.on_device = torch.from_numpy(self.order).to(self.device)

    def _copied(self, which: Any) -> torch.Tensor:
        import torch

        rows = unit_rows(np.asarray(self.X[which], dtype=np.float32))
        return torch.from_numpy(rows).to(self.device)


def _fits(n_bytes: int, device: str) -> bool:
    """Return whether a GPU has room for so much, twice; never for the CPU, which has it already."""
    import torch

    return device.startswith("cuda") and 2 * n_bytes < torch.cuda.mem_get_info()[0]


class _Network:
    """The network while it trains: its weights and the running statistics of both CN layers."""

    def __init__(
        self,
        settings: CNZSLClassifier,
        n_features: int,
        n_attributes: int,
        seed: int,
        device: str,
    ) -> None:
        import torch

        width, generator = settings.n_hidden, torch.Generator().manual_seed(seed)
        initial: list[torch.Tensor] = []
        for n_outputs, n_inputs in ((width, n_attributes), (width, width), (n_features, width)):
            bias_bound = 1.0 / math.sqrt(n_inputs)
            last = len(initial) == 4
            bound = math.sqrt(3.0 / (width * n_features)) if last else bias_bound
            initial.append(uniform((n_outputs, n_inputs), bound, generator))
            initial.append(uniform((n_outputs,), bias_bound, generator))
        self.weights = trainable(initial, device)
        zeros, ones = torch.zeros(width, device=device), torch.ones(width, device=device)
        self.running = [zeros, ones, zeros.clone(), ones.clone()]
        self.standardization = settings.standardization

    def prototypes(self, rows: torch.Tensor) -> torch.Tensor:
        """Return p (L, D) of attribute rows (L, d) and update the running statistics."""
        import torch

        linear, relu = torch.nn.functional.linear, torch.relu
        w1, b1, w2, b2, w3, b3 = self.weights
        hidden = self._standardize(linear(relu(linear(rows, w1, b1)), w2, b2), 0)
        return relu(linear(self._standardize(relu(hidden), 2), w3, b3))

    def _standardize(self, values: torch.Tensor, slot: int) -> torch.Tensor:
        if self.standardization == "none":
            return values
        mean, variance = values.mean(dim=0), values.var(dim=0)
        for offset, now in enumerate((mean, variance)):
            # In place: a step that a GPU replays finds them where they were.
            self.running[slot + offset].mul_(1 - _MOMENTUM).add_(_MOMENTUM * now.detach())
        scales = variance + _EPSILON
        return (values - mean) / (scales if self.standardization == "variance" else scales.sqrt())


class _BatchLoss(FedLoss):
    """The loss of a batch."""

    def __init__(
        self, batches: _Batches, network: _Network, rows: torch.Tensor, scale: float
    ) -> None:
        self.batches, self.network, self.rows, self.scale = batches, network, rows, scale
        n_most, n_features = min(batches.size, len(batches.X)), batches.X.shape[1]
        self.features = rows.new_empty(n_most, n_features)
        self.own = batches.codes.new_empty(n_most)
        self.n = 0

    def feed(self, step: int) -> int:
        features, own = self.batches.at(step)
        self.n = len(own)
        self.features[: self.n] = features
        self.own[: self.n] = own
        return self.n

    def loss(self) -> torch.Tensor:
        prototypes = self.network.prototypes(self.rows)
        return prototype_loss(self.features[: self.n], self.own[: self.n], prototypes, self.scale)


def prototype_loss(
    features: torch.Tensor, codes: torch.Tensor, prototypes: torch.Tensor, scale: float
) -> torch.Tensor:
    """Return the cross-entropy of softmax(s·cos) for unit-length features (n, D)."""
    import torch

    cosines = features @ torch.nn.functional.normalize(prototypes, dim=1).T
    return torch.nn.functional.cross_entropy(scale * cosines, codes)
