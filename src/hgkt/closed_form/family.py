"""The grid of single closed forms, and the mixture that validation classes choose from it.

First every metric is screened with a few kernels; the three best stay. Then every kernel and ridge
is tried in these. Of all single closed forms the best 20, 60 or 160 make the mixture: a metric, a
kernel, a ridge counts as often as it is among them. Averaging over near-equals is worth more than
picking the best of them, and a mixture costs little more than one: kernels add to one kernel,
ridges to one set of embeddings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from hgkt._arrays import FeatureMap
from hgkt._typing import Progress
from hgkt.calibration import Fold, ScoredFold
from hgkt.calibration.curve import SeenUnseenCurve, ValidationRows
from hgkt.calibration.folds import FEW_CLASSES
from hgkt.closed_form.grid import FoldScorer, fold_scorer
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
N_MEMBERS = (20, 60, 160)
_MEMBER_POWERS = (1.0, 1.2)
_SCREENING_KERNELS = (("rbf", 0.5), ("rbf", 2.0), ("quadratic", 1.0), ("linear", 1.0))
_SCREENING_RIDGES = (0.01, 0.03)
_N_SCREENED = 4  # members by whose mean a metric is judged

Value = Callable[[SeenUnseenCurve], float]
"""What a curve is worth."""

ScorerAndRows = tuple[FoldScorer, ValidationRows]
"""What scores a fold, and the true classes of its rows, seen ones first."""


@dataclass(frozen=True)
class MixtureFamily:
    """The single closed forms to try, and the rule by which the best of them are mixed.

    Parameters
    ----------
    base : Mixture
        What all members share.
    metrics : tuple of MetricTerm
    attribute_maps : tuple of map
    kernels : tuple of (kernel, scale)
    block_weights : tuple
        Weights of attribute blocks to try.
    n_members : tuple of int
        How many of the best are mixed; validation chooses.
    max_metrics : int
        How many metrics a mixture may have.
    weighs_attributes : bool
        Whether there are members that weigh attributes by their relevance too.
    """

    base: Mixture
    metrics: tuple[MetricTerm, ...]
    attribute_maps: tuple[FeatureMap, ...]
    kernels: tuple[tuple[str, float], ...]
    block_weights: tuple[tuple[float, ...] | None, ...]
    n_members: tuple[int, ...] = N_MEMBERS
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
        yield from self._combine(terms, _SCREENING_RIDGES, self.metrics)

    def members(
        self, metrics: Sequence[MetricTerm], n_classes: int, n_attributes: int
    ) -> Iterator[Mixture]:
        """Yield every member in the given metrics.

        Attributes are weighted by relevance, besides, where the classes are enough to learn it.
        """
        n_attributes = max(self.base.attribute_blocks or [n_attributes])
        learnable = self.weighs_attributes and is_learnable(n_classes, n_attributes)
        relevance = (False, True) if learnable else (False,)
        terms = self._terms(self.kernels, self.block_weights, relevance)
        yield from self._combine(terms, RIDGES, metrics)

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

    def _combine(
        self, terms: Sequence[KernelTerm], ridges: Sequence[float], metrics: Sequence[MetricTerm]
    ) -> Iterator[Mixture]:
        powers = [power for power in self.norm_powers if power in _MEMBER_POWERS]
        for term, ridge, metric, power in product(terms, ridges, metrics, powers):
            yield replace(
                self.base,
                metrics=(metric,),
                kernels=(term,),
                ridges=(Ridge(ridge),),
                norm_power=power,
            )

    def shortlists(self, members: Sequence[Mixture], n_classes: int) -> list[Sequence[Mixture]]:
        """Return which members may be mixed, of all from the best on; validation chooses.

        Where classes are few, validation classes cannot tell the members apart: all are mixed.
        """
        if n_classes < FEW_CLASSES:
            return [members]
        return [members[:n_members] for n_members in self.n_members]

    @property
    def norm_powers(self) -> tuple[float, ...]:
        """The powers of an embedding's length to try; distances know none."""
        return (1.0,) if self.base.metric == "euclidean" else NORM_POWERS

    @property
    def n_metrics(self) -> int:
        """How many metrics a mixture may have: distances cannot be added up."""
        return 1 if self.base.metric == "euclidean" else self.max_metrics

    def mix(self, members: Sequence[Mixture]) -> Mixture:
        """Return the mixture of some members; metrics, the most frequent first."""
        metrics = Counter(member.metrics[0] for member in members)
        kernels = Counter(member.kernels[0] for member in members)
        ridges = Counter(member.ridges[0].ridge for member in members)
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


# ------------------------------------------------------------------ choosing on folds
def area(curve: SeenUnseenCurve) -> float:
    """Return what a curve is worth by default: AUSUC."""
    return curve.area


@dataclass(frozen=True)
class Candidate:
    """A mixture, and its curve on each fold."""

    mixture: Mixture
    curves: list[SeenUnseenCurve]


@dataclass(frozen=True)
class MixtureChoice:
    """What was tried.

    Parameters
    ----------
    members : list of (Mixture, values)
        Every single closed form in the metrics that stayed and its value on each fold, in percent.
    mixtures : list of Candidate
        The mixtures of the best of them, at every norm power.
    folds : list of (FoldScorer, ValidationRows)
        What scored them, and the true classes of the rows.
    """

    members: list[tuple[Mixture, tuple[float, ...]]]
    mixtures: list[Candidate]
    folds: list[ScorerAndRows]

    def scored_folds(self, mixture: Mixture) -> Iterator[ScoredFold]:
        """Yield the scores (n, L + U) of a mixture on each fold, as in a fit of it alone."""
        for scorer, rows in self.folds:
            scorer.learn_relevance_from(mixture.metrics[0])  # of which a fit learns relevance
            yield ScoredFold(rows, scorer.scores(mixture))


def choose_mixture(
    families: Sequence[MixtureFamily],
    folds: Iterable[Fold],
    value: Value = area,
    progress: Progress | None = None,
) -> MixtureChoice:
    """Choose metrics, kernels, ridges and the norm power on folds of validation classes.

    Parameters
    ----------
    families : sequence of MixtureFamily
        Families that differ in how instances are compared with class embeddings. All are
        screened, the one with the best metrics goes on.
    folds : iterable of Fold
        Read once; of each only inner products are kept.
    value : callable
        From a curve to what is maximised.
    progress : callable, optional
        Called as ``progress("select", done, total, values)``.
    """
    scored: list[ScorerAndRows] = []
    sizes = []
    for fold in folds:
        scorer = fold_scorer(fold, families[0].metrics, families[0].base)
        scored.append((scorer, fold.rows))
        sizes.append(fold.attributes.shape)
    n_classes, n_attributes = min(sizes)
    screened = [list(family.screening()) for family in families]
    n_members = max(
        len(list(family.members(family.metrics[: family.n_metrics], n_classes, n_attributes)))
        for family in families
    )
    report = _Reporter(progress, len(scored) * (sum(map(len, screened)) + n_members))
    # All families at once: they differ in what is made of the same products.
    everyone = [member for members in screened for member in members]
    worths = iter(_values(everyone, scored, value, report))
    ranked = [
        _ranked_metrics(family, members, np.array([next(worths) for _ in members]))
        for family, members in zip(families, screened, strict=True)
    ]
    # The first of equally good families.
    chosen = max(range(len(families)), key=lambda index: ranked[index][0][0])
    family = families[chosen]
    metrics = [metric for _, metric in ranked[chosen][: family.n_metrics]]
    # What relevance is learned from is the metric that comes first.
    for scorer, _ in scored:
        scorer.learn_relevance_from(metrics[0])
    members = list(family.members(metrics, n_classes, n_attributes))
    found = _values(members, scored, value, report)
    order = np.argsort(-found.mean(axis=1), kind="stable")
    with threadpool_limits(1, "blas"):
        mixtures = [
            _candidate(replace(family.mix(shortlist), norm_power=power), scored)
            for shortlist in family.shortlists([members[i] for i in order], n_classes)
            for power in family.norm_powers
        ]
    percents = [tuple((100.0 * row).tolist()) for row in found]
    return MixtureChoice(list(zip(members, percents, strict=True)), mixtures, scored)


class _Reporter:
    """Counts settings and reports every twentieth."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self, value: float) -> None:
        self.done += 1
        if self.progress is not None and (self.done % 20 == 0 or self.done == self.total):
            self.progress("select", self.done, self.total, {"ausuc": 100.0 * value})


def _values(
    members: Sequence[Mixture],
    folds: Sequence[ScorerAndRows],
    value: Value,
    report: _Reporter,
) -> NDArray[np.float64]:
    """Return the value (n_members, n_folds) of every single closed form."""
    found = np.empty((len(members), len(folds)))
    n_threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    blocks = _blocks(members)
    if folds[0][0].device is not None:  # a GPU has threads of its own
        n_threads, blocks = 1, [list(range(len(members)))]
    tasks = [(block, fold) for block in blocks for fold in range(len(folds))]

    def measure(task: tuple[list[int], int]) -> list[float]:
        block, fold = task
        return _block_values([members[i] for i in block], *folds[fold], value)

    # Thousands of small products: a thread per block brings more than threads inside of each.
    with threadpool_limits(1, "blas"), _threads(n_threads) as pool:
        for (block, fold), values in zip(tasks, pool.map(measure, tasks), strict=True):
            found[block, fold] = values
            for one in values:
                report.step(one)
    return found


def _block_values(
    members: Sequence[Mixture], scorer: FoldScorer, truth: ValidationRows, value: Value
) -> list[float]:
    """Return the value of every member of a block on one fold."""
    if scorer.device is None:
        scorer = scorer.thread_copy()
    elif value is area:
        areas: list[float] = scorer.areas(members, truth).tolist()
        return areas
    return [value(truth.curve(scorer.scores(member))) for member in members]


@contextmanager
def _threads(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that end with the block; what they have not begun by then is left."""
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _blocks(members: Sequence[Mixture]) -> list[list[int]]:
    """Return the positions of members by kernel, those side by side that share ridge and metric."""
    blocks: dict[Any, dict[Any, list[int]]] = {}
    for index, member in enumerate(members):
        block = blocks.setdefault(member.kernels, {})
        block.setdefault((member.ridges, member.metrics), []).append(index)
    return [[index for group in block.values() for index in group] for block in blocks.values()]


def _ranked_metrics(
    family: MixtureFamily, members: Sequence[Mixture], found: NDArray[np.float64]
) -> list[tuple[float, MetricTerm]]:
    """Return each metric and what its best few members are worth on average, the best first."""
    means = found.mean(axis=1)

    def worth(metric: MetricTerm) -> float:
        own = [mean for mean, m in zip(means, members, strict=True) if m.metrics[0] == metric]
        return float(np.mean(sorted(own)[-_N_SCREENED:]))

    worths = [(worth(metric), metric) for metric in family.metrics]
    return sorted(worths, key=lambda pair: pair[0], reverse=True)


def _candidate(mixture: Mixture, folds: Sequence[ScorerAndRows]) -> Candidate:
    mixture = replace(mixture, metrics=tuple(_balanced_metrics(mixture, folds)))
    return Candidate(mixture, [rows.curve(scorer.scores(mixture)) for scorer, rows in folds])


def _balanced_metrics(mixture: Mixture, folds: Sequence[ScorerAndRows]) -> Iterator[MetricTerm]:
    """Divide how often each metric counts by the deviation of its scores over held-out seen rows.

    The scores of the mixture have a deviation of about one; those of a single metric stay.
    """
    if len(mixture.metrics) == 1:
        yield replace(mixture.metrics[0], weight=1.0)
        return
    total = sum(term.weight for term in mixture.metrics)
    for term in mixture.metrics:
        deviations = [
            scorer.metric_scores(mixture, term)[: rows.n_seen_rows].std() for scorer, rows in folds
        ]
        weight = term.weight / total / max(float(np.mean(deviations)), 1e-12)
        yield replace(term, weight=weight)
