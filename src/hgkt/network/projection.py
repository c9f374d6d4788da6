"""Training by variable projection: the output layer solved exactly, the hidden one by L-BFGS.

For a given hidden layer the best output layer is a ridge regression of the targets on the hidden
states, in closed form; what is left is a function of the hidden layer alone (Golub and Pereyra,
1973). It needs the Gram matrix of the L classes and not the D features, and has no valley between
the two layers along which a gradient has to creep. The minimum is that of the same loss, weight
decay included, that Adam goes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from hgkt.network.layers import activate
from hgkt.network.loss import QuotientLoss
from hgkt.network.weights import NEGATIVE_SLOPE

if TYPE_CHECKING:
    from hgkt.network.train import TrainingRun

_ROUND = 25
_MEMORY, _REMEMBERED = 10, 3
_NUDGE, _MAX_FAILED = 1e-3, 3


class Projection:
    """L-BFGS over the hidden layer of a run, in rounds of 25 steps.

    A ridge regression has a linear output layer. For another one a round takes working targets:
    of the parabola that touches the loss of each entry at the round's start, with the curvature
    that the loss has where the activation is the identity. Where features are not negative, as
    behind a ReLU, the parabola lies above the loss, so a round never raises it; for other data a
    round that does is taken back and ends the run, some percent above the minimum.

    A round depends on the weights at its start and on how many before it failed, so a run resumed
    from a checkpoint, which is written between rounds, ends with the same bits.

    Parameters
    ----------
    run : TrainingRun
        The run, whose loss is a `QuotientLoss`.
    """

    max_steps: ClassVar[int] = 2_000
    window = _ROUND

    def __init__(self, run: TrainingRun) -> None:
        assert isinstance(run.loss, QuotientLoss)
        self.run, self.embedder, self.loss = run, run.embedder, run.loss
        self.decay = 0.5 * run.config.weight_decay
        self.n_failed = 0
        layer, loss = run.embedder.layer1, run.loss
        states = torch.cat([loss.attributes, loss.attributes])
        joined = torch.cat([states, layer.mu * (loss.mixing @ states)], dim=1)
        # No input reaches the rest of the hidden layer's weights, which decay alone would bring to
        # zero: they start there.
        left, values, right = torch.linalg.svd(joined.double(), full_matrices=False)
        rank = max(int((values > 1e-6 * values[0]).sum()), 1)
        self.inputs = (left[:, :rank] * values[:rank]).to(joined)
        self.directions = right[:rank].to(joined)
        weights = torch.as_tensor(loss.objective.weights.copy(), device=run.device)
        self.rows = torch.nonzero(weights > 0)[:, 0]
        self.nodes = self.rows  # in the quotient, whose second half are representatives
        if not loss.objective.needs_ordinary:
            self.nodes = self.rows + len(loss.attributes)
        self.mixing = loss.mixing[self.nodes]
        self.noise = torch.diag(self.decay / weights[self.rows])
        self.targets = loss.targets[self.rows].double()
        self.row_weights = weights[self.rows]

    def is_due(self) -> bool:
        """Whether to look now whether the loss stands: after every round."""
        return True

    def advance(self) -> None:
        """Do a round, and what is due after it."""
        run, start = self.run, [p.detach().clone() for p in self.embedder.parameters()]
        before, at = self._exact(), run.done
        problem = _Problem(self, *self._working_targets())
        if self.n_failed:
            problem.nudge(np.random.default_rng([run.config.seed, at, self.n_failed]))
        value = before if at == 0 else problem.values()
        run.updating = True
        for _ in range(min(_ROUND, run.limit - at)):
            if not problem.descend():
                break
            run.losses[:, run.done] = torch.as_tensor(value)
            run.done += 1
            value = problem.values()
            if run.done in run.config.snapshot_steps:
                problem.install()
                run.snapshot(run.done)
        problem.install()
        after = self._exact()
        raised = at > 0 and not after[1] <= before[1]
        # A search that ends early has met a kink of the hidden layer; one that does not even begin
        # sits on it, and the next round starts beside it, which may cost more than it gains.
        failed = run.done == at or (raised and self.n_failed > 0)
        self.n_failed = self.n_failed + 1 if failed else 0
        run.stuck = self.n_failed > _MAX_FAILED or (raised and not failed)
        if raised:
            with torch.no_grad():
                for parameter, old in zip(self.embedder.parameters(), start, strict=True):
                    parameter.copy_(old)
        run.updating = False
        run.report()
        run.save()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return whether the run had ended and how many rounds failed last, all a round needs."""
        return {"stuck": np.array([self.run.stuck]), "n_failed": np.array([self.n_failed])}

    def restore(self, arrays: Mapping[str, torch.Tensor]) -> None:
        """Set what `arrays` returned."""
        self.run.stuck, self.n_failed = bool(arrays["stuck"]), int(arrays["n_failed"])

    def _exact(self) -> tuple[float, float]:
        """Loss without and with weight decay at the current weights."""
        with torch.no_grad():
            loss = self.loss(self.embedder).double()
            return float(loss), float(loss + self.run.decay())

    def _working_targets(self) -> tuple[torch.Tensor, float]:
        """Return targets (n_rows, D) of a linear output layer, and what its loss lacks."""
        kind, constant = self.embedder.layer2.activation, self.loss.objective.constant
        if kind == "linear":
            return self.targets, constant
        slope = NEGATIVE_SLOPE if kind == "leaky_relu" else 0.0
        if self.run.done == 0:  # the output layer is still random
            return torch.where(
                self.targets < 0, self.targets / slope if slope else 0.0, self.targets
            ), constant
        layer = self.embedder.layer2
        with torch.no_grad():
            hidden = self.embedder.layer1
            joined = self.joined(hidden.weight @ self.directions.T, hidden.bias)
            values = (joined @ layer.weight.T + layer.bias).double()
            misses = activate(values, kind) - self.targets
            working = values - torch.where(values < 0, slope, 1.0) * misses
            lacking = (misses.square() - (values - working).square()).sum(dim=1)
        return working, constant + float(self.row_weights @ lacking)

    def joined(self, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        """Return what the output layer reads: (n_rows, 2 n_hidden), from reduced weights."""
        values = torch.nn.functional.linear(self.inputs, weight, bias)
        hidden = activate(values, self.embedder.layer1.activation)
        means = self.mixing @ hidden
        return torch.cat([hidden[self.nodes], self.embedder.layer2.mu * means], dim=1)


class _Problem:
    """The loss as a function of the hidden layer, its weights (n_hidden, rank) and biases.

    Parameters
    ----------
    projection : Projection
        The network; the search starts at its hidden layer.
    targets : Tensor of shape (n_rows, D)
        Targets of a linear output layer.
    offset : float
        What the loss has beside the squared distance to them.
    """

    def __init__(self, projection: Projection, targets: torch.Tensor, offset: float) -> None:
        self.projection, self.targets, self.offset = projection, targets, offset
        self.products, self.decay = targets @ targets.T, projection.decay
        layer = projection.embedder.layer1
        point = torch.cat([(layer.weight @ projection.directions.T).flatten(), layer.bias])
        self.point = torch.nn.Parameter(point.detach().clone())
        self.search = _search(self.point)
        self.recent: list[_Evaluated] = []

    def nudge(self, rng: np.random.Generator) -> None:
        """Move the point a little, to get off a kink."""
        with torch.no_grad():
            noise = torch.as_tensor(rng.standard_normal(len(self.point))).to(self.point)
            self.point.add_(_NUDGE * self.point.square().mean().sqrt() * noise)

    def descend(self) -> bool:
        """Do a step of L-BFGS; return whether it found a lower loss.

        Where the remembered curvature leads nowhere, the step goes down the slope itself.
        """
        if self._step():
            return True
        self.search = _search(self.point)
        return self._step()

    def _step(self) -> bool:
        here, group = self._evaluate(), self.search.param_groups[0]
        # A first step has the length 1, as SciPy's; PyTorch's is divided by the sum of slopes.
        first = not self.search.state[self.point]
        norm = torch.linalg.vector_norm(here.slope)
        group["lr"] = float(here.slope.abs().sum() / norm) if first and norm > 0 else 1.0
        self.search.step(self._closure)  # type: ignore[no-untyped-call]
        if self.values()[1] < here.values[1]:
            return True
        with torch.no_grad():
            self.point.copy_(here.point)
        return False

    def values(self) -> tuple[float, float]:
        """Loss without and with weight decay."""
        return self._evaluate().values

    def install(self) -> None:
        """Set the embedder's weights: the hidden layer of the point, the output layer to it."""
        with torch.no_grad():
            weight, bias = self._layer(self.point)
            joined = self.projection.joined(weight, bias).double()
            factors = torch.cholesky_solve(self.targets, self._factor(joined))
            values = (
                weight @ self.projection.directions,
                bias,
                factors.T @ joined,
                factors.sum(dim=0),
            )
            parameters = self.projection.embedder.named_weights().values()
            for parameter, value in zip(parameters, values, strict=True):
                parameter.copy_(value)

    def _closure(self) -> float:
        here = self._evaluate()
        self.point.grad = here.slope.clone()
        return here.values[1]

    def _evaluate(self) -> _Evaluated:
        """Return losses and slope at the point; the last points' are at hand."""
        for here in reversed(self.recent):
            if torch.equal(here.point, self.point):
                return here
        point = self.point.detach().clone().requires_grad_()
        weight, bias = self._layer(point)
        joined = self.projection.joined(weight, bias)
        rows = joined.detach().double()
        factor = self._factor(rows)
        # λ tr(TᵀA⁻¹T) with A = λΩ⁻¹ + HHᵀ is the ridge regression's loss, its decay λ‖W‖² included;
        # its derivative by A is −λ A⁻¹TTᵀA⁻¹.
        once = torch.cholesky_solve(self.products, factor)
        twice = torch.cholesky_solve(once.T, factor)
        upstream = (-2.0 * self.decay * (twice @ rows)).to(joined)
        joined.backward(upstream)  # type: ignore[no-untyped-call]
        assert point.grad is not None
        slope = point.grad + 2.0 * self.decay * point.detach()
        total = once.trace() + point.detach().double().square().sum()
        data = (self.projection.noise.diagonal() * twice.diagonal()).sum()
        values = self.decay * torch.stack([data, total]) + self.offset
        found = _Evaluated(point.detach(), slope, (float(values[0]), float(values[1])))
        self.recent = [*self.recent[1 - _REMEMBERED :], found]
        return found

    def _factor(self, joined: torch.Tensor) -> torch.Tensor:
        factor: torch.Tensor = torch.linalg.cholesky(
            self.projection.noise + joined @ joined.T + 1.0
        )
        return factor

    def _layer(self, point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        n_hidden = len(self.projection.embedder.layer1.bias)
        return point[:-n_hidden].view(n_hidden, -1), point[-n_hidden:]


def _search(point: torch.nn.Parameter) -> torch.optim.LBFGS:
    """Return a search that does one step at a time and ends for no reason of its own."""
    return torch.optim.LBFGS(
        [point],
        max_iter=1,
        max_eval=_ROUND,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        history_size=_MEMORY,
        line_search_fn="strong_wolfe",
    )


@dataclass(frozen=True, eq=False)
class _Evaluated:
    """A point that was evaluated: its slope, and its loss without and with weight decay."""

    point: torch.Tensor
    slope: torch.Tensor
    values: tuple[float, float]
