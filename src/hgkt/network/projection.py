"""Training by variable projection: the output layer solved exactly, the hidden one by L-BFGS.

For a given hidden layer the best output layer is a ridge regression of the targets on the hidden
states, in closed form; what is left is a function of the hidden layer alone (Golub and Pereyra,
1973). It needs the Gram matrix of the L classes and not the D features, and has no valley between
the two layers along which a gradient has to creep. The minimum is that of the same loss, weight
decay included, that Adam goes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from hgkt._typing import Progress
from hgkt.network.batches import QuotientLoss
from hgkt.network.config import TrainingConfig
from hgkt.network.embedder import HGKTEmbedder
from hgkt.network.loop import OnSnapshot, TrainingRun
from hgkt.network.sage import activate
from hgkt.network.weights import NEGATIVE_SLOPE

_ROUND = 25
_NUDGE, _MAX_FAILED = 1e-3, 3


class ProjectedRun(TrainingRun):
    """A run of L-BFGS over the hidden layer, in rounds of 25 steps.

    A ridge regression has a linear output layer. For another one a round takes working targets:
    of the parabola that touches the loss of each entry at the round's start, with the curvature
    that the loss has where the activation is the identity. Where features are not negative, as
    behind a ReLU, the parabola lies above the loss, so a round never raises it; for other data a
    round that does is taken back and ends the run, some percent above the minimum.

    A round depends on the weights at its start and on nothing else, so a run resumed from a
    checkpoint, which is written between rounds, ends with the same bits. Parameters as
    `TrainingRun`.
    """

    max_steps = 2_000
    loss: QuotientLoss

    def __init__(
        self,
        config: TrainingConfig,
        embedder: HGKTEmbedder,
        loss: QuotientLoss,
        scale: float = 1.0,
        progress: Progress | None = None,
        on_snapshot: OnSnapshot | None = None,
    ) -> None:
        super().__init__(config, embedder, loss, scale, progress, on_snapshot)
        self.n_failed = 0
        layer = embedder.layer1
        states = torch.cat([loss.attributes, loss.attributes])
        joined = torch.cat([states, layer.mu * (loss.mixing @ states)], dim=1)
        # No input reaches the rest of the hidden layer's weights, which decay alone would bring to
        # zero: they start there.
        left, values, right = torch.linalg.svd(joined.double(), full_matrices=False)
        rank = max(int((values > 1e-6 * values[0]).sum()), 1)
        self.inputs = (left[:, :rank] * values[:rank]).to(joined)
        self.directions = right[:rank].to(joined)
        weights = torch.as_tensor(loss.objective.weights.copy(), device=self.device)
        self.rows = torch.nonzero(weights > 0)[:, 0]
        self.noise = torch.diag(0.5 * config.weight_decay / weights[self.rows])
        self.targets = loss.targets[self.rows].double()
        self.row_weights = weights[self.rows]

    @property
    def window(self) -> int:
        """A round."""
        return _ROUND

    def advance(self) -> None:
        """Do a round, and what is due after it."""
        start = [p.detach().clone() for p in self.embedder.parameters()]
        before = self._exact()
        targets, offset = self._working_targets()
        problem = _Projection(self, targets, offset)
        layer, at = self.embedder.layer1, self.done
        point = torch.cat([(layer.weight @ self.directions.T).flatten(), layer.bias]).detach()
        if self.n_failed:
            rng = np.random.default_rng([self.config.seed, at, self.n_failed])
            noise = torch.as_tensor(rng.standard_normal(len(point))).to(point)
            point = point + _NUDGE * point.square().mean().sqrt() * noise
        value = before if at == 0 else problem.values(point.double().cpu().numpy())

        def callback(intermediate_result: Any) -> None:
            nonlocal value
            self.losses[:, self.done] = torch.as_tensor(value)
            self.done += 1
            value = problem.values(intermediate_result.x)
            if self.done in self.config.snapshot_steps:
                problem.install(intermediate_result.x)
                self._snapshot(self.done)

        self.updating = True
        n_steps = min(_ROUND, self.limit - at)
        found = minimize(
            problem,
            point.double().cpu().numpy(),
            jac=True,
            method="L-BFGS-B",
            callback=callback,
            options={"maxiter": n_steps, "maxfun": 20 * n_steps, "ftol": 0.0, "gtol": 0.0},
        )
        problem.install(found.x)
        after = self._exact()
        # A search that ends early has met a kink of the hidden layer; one that does not even begin
        # sits on it, and the next round starts beside it.
        self.n_failed = self.n_failed + 1 if self.done == at else 0
        self.stuck = self.n_failed > _MAX_FAILED
        if at and not after[1] <= before[1]:
            self.stuck |= self.n_failed == 0
            with torch.no_grad():
                for parameter, old in zip(self.embedder.parameters(), start, strict=True):
                    parameter.copy_(old)
        self.updating = False
        self._report()
        self._save()

    def optimizer_arrays(self) -> dict[str, NDArray[Any]]:
        """Return whether the run had ended; a round needs nothing else."""
        return {"stuck": np.array([self.stuck])}

    def restore_optimizer(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Set whether the run had ended."""
        self.stuck = bool(arrays["stuck"])

    def _exact(self) -> tuple[float, float]:
        """Loss without and with weight decay at the current weights."""
        with torch.no_grad():
            loss = self.loss(self.embedder).double()
            return float(loss), float(loss + self.decay())

    def _working_targets(self) -> tuple[torch.Tensor, float]:
        """Return targets (n_rows, D) of a linear output layer, and what its loss lacks."""
        kind, constant = self.embedder.layer2.activation, self.loss.objective.constant
        if kind == "linear":
            return self.targets, constant
        slope = NEGATIVE_SLOPE if kind == "leaky_relu" else 0.0
        if self.done == 0:  # the output layer is still random
            return torch.where(
                self.targets < 0, self.targets / slope if slope else 0.0, self.targets
            ), constant
        layer = self.embedder.layer2
        with torch.no_grad():
            joined = self.joined(self.embedder.layer1.weight @ self.directions.T,
                                 self.embedder.layer1.bias)  # fmt: skip
            values = (joined @ layer.weight.T + layer.bias).double()
            misses = activate(values, kind) - self.targets
            working = values - torch.where(values < 0, slope, 1.0) * misses
            lacking = (misses.square() - (values - working).square()).sum(dim=1)
        return working, constant + float(self.row_weights @ lacking)

    def joined(self, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return what the output layer reads: (n_rows, 2 n_hidden), from reduced weights."""
        values = torch.nn.functional.linear(self.inputs, weight, bias)
        hidden = activate(values, self.embedder.layer1.activation)
        wanted = self.rows
        if not self.loss.objective.needs_ordinary:
            wanted = wanted + len(self.loss.attributes)
        means = self.loss.mixing[wanted] @ hidden
        return torch.cat([hidden[wanted], self.embedder.layer2.mu * means], dim=1)


class _Projection:
    """The loss as a function of the hidden layer, its weights (n_hidden, rank) and biases."""

    def __init__(self, run: ProjectedRun, targets: torch.Tensor, offset: float) -> None:
        self.run, self.targets, self.offset = run, targets, offset
        self.products = targets @ targets.T
        self.decay = 0.5 * run.config.weight_decay
        self.last: tuple[NDArray[Any], tuple[float, float]] | None = None

    def __call__(self, point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss with weight decay, and its gradient."""
        weight, bias = self._layer(point)
        weight.requires_grad_()
        bias.requires_grad_()
        system = self._system(self.run.joined(weight, bias).double())
        solved = torch.cholesky_solve(self.products, torch.linalg.cholesky(system))
        # λ tr(TᵀA⁻¹T) with A = λΩ⁻¹ + HHᵀ is the ridge regression's loss, its decay λ‖W‖² included.
        total = self.decay * (
            solved.diagonal().sum() + weight.double().square().sum() + bias.double().square().sum()
        )
        total.backward()  # type: ignore[no-untyped-call]
        assert weight.grad is not None
        assert bias.grad is not None
        with torch.no_grad():
            spread = torch.linalg.solve(system, solved.T).diagonal()
            data = float((self.run.noise.diagonal() * spread).sum() * self.decay)
        value = float(total.detach()) + self.offset
        self.last = point.copy(), (data + self.offset, value)
        gradient = torch.cat([weight.grad.flatten(), bias.grad])
        return value, gradient.double().cpu().numpy()

    def values(self, point: NDArray[np.float64]) -> tuple[float, float]:
        """Loss without and with weight decay; the last point's are at hand."""
        if self.last is None or not np.array_equal(self.last[0], point):
            self(point)
        assert self.last is not None
        return self.last[1]

    def install(self, point: NDArray[np.float64]) -> None:
        """Set the embedder's weights: the hidden layer of a point, and the output layer to it."""
        weight, bias = self._layer(point)
        joined = self.run.joined(weight, bias).double()
        factors = torch.linalg.solve(self._system(joined), self.targets)
        values = weight @ self.run.directions, bias, factors.T @ joined, factors.sum(dim=0)
        with torch.no_grad():
            for parameter, value in zip(
                self.run.embedder.named_weights().values(), values, strict=True
            ):
                parameter.copy_(value)

    def _system(self, joined: torch.Tensor) -> torch.Tensor:
        return self.run.noise + joined @ joined.T + 1.0

    def _layer(self, point: NDArray[np.float64]) -> tuple[torch.Tensor, torch.Tensor]:
        vector = torch.as_tensor(point).to(self.run.inputs)
        n_hidden = len(self.run.embedder.layer1.bias)
        return vector[:-n_hidden].view(n_hidden, -1).clone(), vector[-n_hidden:].clone()
