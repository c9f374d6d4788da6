"""The family of closed forms from which selection on validation classes mixes a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

from hgkt._arrays import FeatureMap
from hgkt.closed_form.kernels import KernelTerm, simplex_grid
from hgkt.closed_form.mixture import MetricTerm, Mixture, Ridge
from hgkt.closed_form.relevance import is_learnable

FEATURE_MAPS: tuple[FeatureMap, ...] = ("sqrt+l2", "l2", 0.25)
SHRINKAGES = (0.3, 0.5, 0.7, 0.9)
ATTRIBUTE_MAPS = ("l2", "sqrt+l2")
KERNELS = (("rbf", 0.25), ("rbf", 0.5), ("rbf", 1.0), ("rbf", 2.0), ("rbf", 4.0),
           ("quadratic", 1.0), ("linear", 1.0))  # fmt: skip
RIDGES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
NORM_POWERS = (1.0, 1.1, 1.2, 1.3)
N_METRICS = 3
N_VOTES = (20, 60, 160)
FEW_CLASSES = 20
_VOTING_POWERS = (1.0, 1.2)
_SCREENING_KERNELS = (("rbf", 0.5), ("rbf", 2.0), ("quadratic", 1.0), ("linear", 1.0))
_SCREENING_RIDGES = (0.01, 0.03)


@dataclass(frozen=True)
class MixtureFamily:
    """Single closed forms that stand for election, and the mixture of those elected.

    First every metric is screened with a few kernels; the three best stay. Then every kernel and
    ridge is tried in these. Of all single closed forms the best 20, 60 or 160 vote: a metric, a
    kernel, a ridge counts in the mixture as often as it is among them. Averaging over near-equals
    is worth more than picking the best of them, and a mixture costs little more than one: kernels
    add to one kernel, ridges to one set of embeddings.

    Parameters
    ----------
    base : Mixture
        What all members share.
    metrics : tuple of MetricTerm
    attribute_maps : tuple of map
    kernels : tuple of (kernel, scale)
    block_weights : tuple
        Weights of attribute blocks to try.
    n_votes : tuple of int
        How many of the best may vote; validation chooses.
    max_metrics : int
        How many metrics a mixture may have.
    weighs_attributes : bool
        Whether members that weigh attributes by their relevance stand too.
    """

    base: Mixture
    metrics: tuple[MetricTerm, ...]
    attribute_maps: tuple[FeatureMap, ...]
    kernels: tuple[tuple[str, float], ...]
    block_weights: tuple[tuple[float, ...] | None, ...]
    n_votes: tuple[int, ...] = N_VOTES
    max_metrics: int = N_METRICS
    weighs_attributes: bool = True

    @classmethod
    def of(cls, base: Mixture, intra: bool = True, inter: bool = True) -> Self:
        """Return the family; without a relation it has its ablated form only."""
        shrinkages = SHRINKAGES if intra else (1.0,)
        kernels = KERNELS if inter else tuple(k for k in KERNELS if k[0] == "linear")
        blocks = base.attribute_blocks
        grid = simplex_grid(len(blocks), 4) if blocks and len(blocks) > 1 else [None]
        return cls(
            base,
            tuple(MetricTerm(name, s) for name, s in product(FEATURE_MAPS, shrinkages)),
            ATTRIBUTE_MAPS,
            kernels,
            tuple(grid),
        )

    def screening(self) -> Iterator[Mixture]:
        """Yield the members by which metrics are compared."""
        kernels = [k for k in self.kernels if k in _SCREENING_KERNELS]
        terms = self._terms(kernels, self.block_weights[:1], relevance=(False,))
        yield from self._members(terms, _SCREENING_RIDGES, self.metrics)

    def voters(
        self, metrics: Sequence[MetricTerm], n_classes: int, n_attributes: int
    ) -> Iterator[Mixture]:
        """Yield every member in the given metrics.

        Attributes are weighted by relevance, besides, where the classes are enough to learn it.
        """
        n_attributes = max(self.base.attribute_blocks or [n_attributes])
        learnable = self.weighs_attributes and is_learnable(n_classes, n_attributes)
        relevance = (False, True) if learnable else (False,)
        terms = self._terms(self.kernels, self.block_weights, relevance)
        yield from self._members(terms, RIDGES, metrics)

    def _terms(
        self,
        kernels: Sequence[tuple[str, float]],
        block_weights: Sequence[tuple[float, ...] | None],
        relevance: Sequence[bool],
    ) -> list[KernelTerm]:
        return [
            KernelTerm(kernel, scale, name, relevant, blocks)
            for name, relevant, (kernel, scale), blocks in product(
                self.attribute_maps, relevance, kernels, block_weights
            )
        ]

    def _members(
        self, terms: Sequence[KernelTerm], ridges: Sequence[float], metrics: Sequence[MetricTerm]
    ) -> Iterator[Mixture]:
        powers = [power for power in self.norm_powers if power in _VOTING_POWERS]
        for term, ridge, metric, power in product(terms, ridges, metrics, powers):
            yield replace(
                self.base,
                metrics=(metric,),
                kernels=(term,),
                ridges=(Ridge(ridge),),
                norm_power=power,
            )

    def electorates(self, voters: Sequence[Mixture], n_classes: int) -> list[Sequence[Mixture]]:
        """Return who may vote, of all that stood, the best first; validation chooses.

        Where classes are few, validation classes cannot tell the members apart: all vote.
        """
        if n_classes < FEW_CLASSES:
            return [voters]
        return [voters[:n_votes] for n_votes in self.n_votes]

    @property
    def norm_powers(self) -> tuple[float, ...]:
        """The powers of an embedding's length to try; distances know none."""
        return (1.0,) if self.base.metric == "euclidean" else NORM_POWERS

    @property
    def n_metrics(self) -> int:
        """How many metrics a mixture may have: distances cannot be added up."""
        return 1 if self.base.metric == "euclidean" else self.max_metrics

    def elect(self, voters: Sequence[Mixture]) -> Mixture:
        """Return the mixture of the members elected; metrics, the most elected first."""
        metrics = Counter(voter.metrics[0] for voter in voters)
        kernels = Counter(voter.kernels[0] for voter in voters)
        ridges = Counter(voter.ridges[0].ridge for voter in voters)
        return replace(
            self.base,
            metrics=tuple(replace(m, weight=float(n)) for m, n in metrics.most_common()),
            kernels=tuple(replace(k, weight=float(n)) for k, n in kernels.most_common()),
            ridges=tuple(Ridge(r, float(n)) for r, n in sorted(ridges.items())),
        )


def single_setting(member: Mixture) -> dict[str, Any]:
    """Return a single closed form as parameters of `HGKTClassifier`.

    Examples
    --------
    >>> single_setting(Mixture())["kernel"], single_setting(Mixture())["ridge"]
    ('rbf', 0.03)
    """
    metric, kernel = asdict(member.metrics[0]), asdict(member.kernels[0])
    del metric["weight"], kernel["weight"]
    ridge = member.ridges[0].ridge
    shared = {"ridge": ridge, "metric": member.metric, "norm_power": member.norm_power}
    return {**metric, **kernel, **shared}


def mixture_setting(mixture: Mixture) -> dict[str, Any]:
    """Return a mixture as parameters of `HGKTClassifier`."""
    shared = {"metric": mixture.metric, "norm_power": mixture.norm_power}
    return {"mixture": mixture.to_dict(), **shared}
