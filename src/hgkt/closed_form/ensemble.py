"""The choice of an ensemble on folds of validation classes.

First every metric is screened with a few kernels; the two best stay. In these every kernel and
ridge is tried, and of the best of them variants: another power of the length, seen classes at
their observed means, attributes weighted by relevance. Then members are chosen, scores divided by
their deviation: the best four of different kinds to begin with, then greedily and with replacement
the one that raises the validation AUSUC of the sum most (Caruana et al., 2004). Few near-equals
that differ are worth as much as many, and a person can read them.
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
from hgkt.closed_form.grid import FoldScorer, fold_scorer
from hgkt.closed_form.kernels import KernelSettings, simplex_grid
from hgkt.closed_form.member import Ensemble, Member, MetricKey
from hgkt.closed_form.relevance import is_learnable

FEATURE_MAPS: tuple[FeatureMap, ...] = ("sqrt+l2", "l2", 0.25)
SHRINKAGES = (0.3, 0.5, 0.7, 0.9)
ATTRIBUTE_MAPS = ("l2", "sqrt+l2")
KERNELS = (("rbf", 0.25), ("rbf", 0.5), ("rbf", 1.0), ("rbf", 2.0), ("rbf", 4.0),
           ("quadratic", 1.0), ("linear", 1.0))  # fmt: skip
RIDGES = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
NORM_POWERS = (1.0, 1.1, 1.2, 1.3)
PRIORS = (0.0, 0.3, 0.6, 1.0)
ZERO_SHOT_SHARES = (0.0, 0.125, 0.25, 0.5, 0.75, 0.875)
N_METRICS = 2
N_MEMBERS = 8
_SCREENING_KERNELS = (("rbf", 0.5), ("rbf", 2.0), ("quadratic", 1.0), ("linear", 1.0))
_SCREENING_RIDGES = (0.01, 0.03)
_POWER = 1.1  # of the first two steps: best power and kernel are chosen nearly apart
_N_SCREENED = 4  # members by whose mean a metric is judged
_KEPT_NUMBERS = 2**26  # scores that are kept of all candidates: 256 MiB

Value = Callable[[SeenUnseenCurve], float]
"""What a curve is worth."""

ScorerAndRows = tuple[FoldScorer, ValidationRows]
"""What scores a fold, and the true classes of its rows, seen ones first."""


def area(curve: SeenUnseenCurve) -> float:
    """Return what a curve is worth by default: AUSUC."""
    return curve.area


@dataclass(frozen=True)
class MemberPool:
    """The members to try, and how many make an ensemble.

    Parameters
    ----------
    base : Ensemble
        What all ensembles share.
    metrics : tuple of (feature map, shrinkage)
    kernels : tuple of KernelSettings
        Without relevance.
    ridges : tuple of float
    powers : tuple of float
        Powers of an embedding's length; distances know none.
    priors : tuple of float
        How much of a description is in the prior mean.
    n_metrics : int
        How many metrics may be in an ensemble.
    n_varied : int
        Of how many of the best members variants are tried.
    n_candidates : int
        Among how many is chosen greedily.
    n_first : int
        How many of the best an ensemble begins with.
    n_members : int
        How many it has in the end; one that is chosen twice counts twice.
    """

    base: Ensemble
    metrics: tuple[MetricKey, ...]
    kernels: tuple[KernelSettings, ...]
    ridges: tuple[float, ...] = RIDGES
    powers: tuple[float, ...] = NORM_POWERS
    priors: tuple[float, ...] = (0.0,)
    n_metrics: int = N_METRICS
    n_varied: int = 16
    n_candidates: int = 24
    n_first: int = 4
    n_members: int = N_MEMBERS

    @classmethod
    def of(cls, base: Ensemble, intra: bool = True, inter: bool = True) -> Self:
        """Return the pool; without a relation it has its ablated form only."""
        shrinkages = SHRINKAGES if intra else (1.0,)
        kernels = KERNELS if inter else tuple(k for k in KERNELS if k[0] == "linear")
        blocks = base.attribute_blocks
        grid = simplex_grid(len(blocks), 4) if blocks and len(blocks) > 1 else [None]
        distances = base.metric == "euclidean"
        return cls(
            base,
            tuple(product(FEATURE_MAPS, shrinkages)),
            tuple(
                KernelSettings(kernel, scale, name, block_weights=weights)
                for name, (kernel, scale), weights in product(ATTRIBUTE_MAPS, kernels, grid)
            ),
            powers=(1.0,) if distances else NORM_POWERS,
            priors=PRIORS if base.shares_space else (0.0,),
            n_metrics=1 if distances else N_METRICS,
        )

    def screening(self) -> list[Member]:
        """Return the members by which metrics are compared."""
        kernels = [
            kernel
            for kernel in self.kernels
            if (kernel.kernel, kernel.kernel_scale) in _SCREENING_KERNELS
            and kernel.block_weights == self.kernels[0].block_weights
        ]
        ridges = [ridge for ridge in self.ridges if ridge in _SCREENING_RIDGES] or self.ridges
        return list(self._members(kernels or self.kernels, ridges, self.metrics))

    def members(self, metrics: Sequence[MetricKey]) -> list[Member]:
        """Return every member in the given metrics, of which variants are tried then."""
        return list(self._members(self.kernels, self.ridges, metrics))

    def _members(
        self,
        kernels: Sequence[KernelSettings],
        ridges: Sequence[float],
        metrics: Sequence[MetricKey],
    ) -> Iterator[Member]:
        power = _POWER if _POWER in self.powers else self.powers[0]
        for kernel, ridge, metric, prior in product(kernels, ridges, metrics, self.priors):
            yield Member(*metric, **asdict(kernel), ridge=ridge, norm_power=power, prior=prior)

    def variants(self, member: Member, learnable: bool) -> list[Member]:
        """Return a member with other powers, observed means and relevance where it is learnable."""
        relevance = (False, True) if learnable else (False,)
        return [
            replace(member, norm_power=power, observed=observed, relevance=relevant)
            for power, observed, relevant in product(self.powers, (False, True), relevance)
        ]


def single_setting(member: Member, metric: str = "cosine") -> dict[str, Any]:
    """Return a member as parameters of `HGKTClassifier`.

    Examples
    --------
    >>> single_setting(Member())["kernel"], single_setting(Member())["ridge"]
    ('rbf', 0.03)
    """
    settings = asdict(member) | {"metric": metric}
    del settings["weight"]
    return settings


# ------------------------------------------------------------------ choosing on folds
@dataclass(frozen=True)
class Candidate:
    """An ensemble, and its curve on each fold."""

    ensemble: Ensemble
    curves: list[SeenUnseenCurve]


@dataclass(frozen=True)
class EnsembleChoice:
    """What was tried.

    Parameters
    ----------
    members : list of (Member, values)
        Every member in the metrics that stayed and its value on each fold, in percent.
    metric : {"cosine", "euclidean"}
        How they compare.
    ensembles : list of Candidate
        The ensemble; in a shared space with each share of zero-shot.
    folds : list of (FoldScorer, ValidationRows)
        What scored them, and the true classes of the rows.
    """

    members: list[tuple[Member, tuple[float, ...]]]
    metric: str
    ensembles: list[Candidate]
    folds: list[ScorerAndRows]

    def scored_folds(self, ensemble: Ensemble) -> Iterator[ScoredFold]:
        """Yield the scores (n, L + U) of an ensemble on each fold."""
        for scorer, rows in self.folds:
            yield ScoredFold(rows, scorer.scores(ensemble))


def choose_ensemble(
    pools: Sequence[MemberPool],
    folds: Iterable[Fold],
    value: Value = area,
    progress: Progress | None = None,
) -> EnsembleChoice:
    """Choose members on folds of validation classes.

    Parameters
    ----------
    pools : sequence of MemberPool
        Pools that differ in how instances are compared with class embeddings. All are screened,
        the one with the best metrics goes on.
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
        scored.append((fold_scorer(fold, pools[0].metrics, pools[0].base), fold.rows))
        sizes.append(fold.attributes.shape)
    n_classes, n_attributes = min(sizes)
    n_attributes = max(pools[0].base.attribute_blocks or [n_attributes])
    learnable = is_learnable(n_classes, n_attributes)
    report = _Reporter(progress, len(scored) * _n_trials(pools, learnable))
    screened = [pool.screening() for pool in pools]
    ranked = [
        _ranked_metrics(pool, members, _values(members, pool.base.metric, scored, value, report))
        for pool, members in zip(pools, screened, strict=True)
    ]
    # The first of equally good pools.
    chosen = max(range(len(pools)), key=lambda index: ranked[index][0][0])
    pool, metric = pools[chosen], pools[chosen].base.metric
    tried = pool.members([key for _, key in ranked[chosen][: pool.n_metrics]])
    found = _values(tried, metric, scored, value, report)
    known = set(tried)
    for index in _best_of_each(tried, found)[: pool.n_varied]:
        tried += [other for other in pool.variants(tried[index], learnable) if other not in known]
    found = np.concatenate([found, _values(tried[len(found) :], metric, scored, value, report)])
    candidates = [tried[index] for index in _best_of_each(tried, found)[: pool.n_candidates]]
    ensembles = _Greedy(pool, candidates, scored, value).run()
    report.finish()
    percents = [tuple((100.0 * row).tolist()) for row in found]
    return EnsembleChoice(list(zip(tried, percents, strict=True)), metric, ensembles, scored)


def _best_of_each(members: Sequence[Member], found: NDArray[np.float64]) -> list[int]:
    """Return the best member of each kind, the best first: those of a kind are near-equals.

    A kind has one metric, one kernel, one prior, and observed means or not; ridges and powers of
    the length make little that differs.
    """
    order = np.argsort(-found.mean(axis=1), kind="stable").tolist()
    kinds: dict[Any, int] = {}
    for index in order:
        member = members[index]
        kinds.setdefault(
            (member.metric_key, member.kernel_key, member.prior, member.observed), index
        )
    return list(kinds.values())


def _n_trials(pools: Sequence[MemberPool], learnable: bool) -> int:
    """Return how many members are scored on each fold, about."""
    pool = pools[0]
    n_members = len(pool.members(pool.metrics[: pool.n_metrics]))
    n_variants = pool.n_varied * (len(pool.variants(Member(), learnable)) - 1)
    return sum(len(pool.screening()) for pool in pools) + n_members + n_variants


class _Reporter:
    """Counts settings and reports every twentieth."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done, self.value = progress, total, 0, 0.0

    def step(self, value: float) -> None:
        self.done, self.value = min(self.done + 1, self.total - 1), value
        if self.done % 20 == 0:
            self._say()

    def finish(self) -> None:
        self.done = self.total
        self._say()

    def _say(self) -> None:
        if self.progress is not None:
            self.progress("select", self.done, self.total, {"ausuc": 100.0 * self.value})


# ------------------------------------------------------------------ the greedy choice
class _Greedy:
    """Forward selection with replacement; scores of all candidates are kept, of some rows.

    Parameters
    ----------
    pool : MemberPool
    members : list of Member
        The candidates, the best first.
    folds : list of (FoldScorer, ValidationRows)
    value : callable
    """

    def __init__(
        self,
        pool: MemberPool,
        members: Sequence[Member],
        folds: Sequence[ScorerAndRows],
        value: Value,
    ) -> None:
        self.pool, self.members, self.value, self.folds = pool, members, value, folds
        numbers = sum(len(rows.truth) * len(rows.classes) for _, rows in folds) * len(members)
        step = -(-numbers // _KEPT_NUMBERS)
        self.rows = [rows if step == 1 else rows.every(step) for _, rows in folds]
        self.deviations, self.scores = self._scored(step)

    def _scored(self, step: int) -> tuple[NDArray[np.float64], list[list[NDArray[np.float32]]]]:
        """Return each candidate's deviation over held-out seen rows, and its scores over it."""
        scores: list[list[Any]] = [[None] * len(self.members) for _ in self.folds]
        found = np.empty((len(self.folds), len(self.members)))
        # One process after another shares what is solved.
        ordered = sorted(range(len(self.members)), key=lambda i: repr(self.members[i].process_key))
        for number, (scorer, rows) in enumerate(self.folds):
            some = rows.positions(step)
            for index in ordered:
                own = scorer.scores(replace(self.pool.base, members=(self.members[index],)))
                found[number, index] = own[: rows.n_seen_rows].std(dtype=np.float64)
                scores[number][index] = own[some].astype(np.float32)
        means = found.mean(axis=0)
        deviations = np.where(means > 0, means, 1.0)
        for fold in scores:
            for own, deviation in zip(fold, deviations, strict=True):
                own /= np.float32(deviation)
        return deviations, scores

    def run(self) -> list[Candidate]:
        """Return the ensemble; in a shared space with each share of zero-shot."""
        start = range(min(self.pool.n_first, len(self.members)))
        counts, sums = Counter(start), [np.sum([f[i] for i in start], 0) for f in self.scores]
        for _ in range(self.pool.n_members - len(start)):
            worths = [self._worth(sums, index) for index in range(len(self.members))]
            best = int(np.argmax(worths))  # the first of equals is the better one alone
            counts[best] += 1
            sums = [total + fold[best] for total, fold in zip(sums, self.scores, strict=True)]
        base = self.pool.base
        shares: tuple[float, ...] = (0.0,)
        if base.shares_space and base.metric == "cosine":
            shares = ZERO_SHOT_SHARES
        found = [self._ensemble(counts, share) for share in shares]
        return [
            Candidate(
                ensemble, [rows.curve(scorer.scores(ensemble)) for scorer, rows in self.folds]
            )
            for ensemble in found
        ]

    def _worth(self, sums: Sequence[NDArray[Any]], index: int) -> float:
        parts = zip(self.rows, sums, self.scores, strict=True)
        return float(
            np.mean([self.value(r.curve(total + fold[index])) for r, total, fold in parts])
        )

    def _ensemble(self, counts: Counter[int], share: float) -> Ensemble:
        """Return the ensemble of some candidates and zero-shot; its weights sum to one."""
        zero_shot = 0.0
        if share:
            found = [s.zero_shot()[: rows.n_seen_rows].std() for s, rows in self.folds]
            zero_shot = share / max(float(np.mean(found)), 1e-12)
        n_chosen = counts.total()
        weights = {i: (1.0 - share) * n / n_chosen / self.deviations[i] for i, n in counts.items()}
        total = sum(weights.values()) + zero_shot
        members = [
            replace(self.members[index], weight=float(weight / total))
            for index, weight in sorted(weights.items(), key=lambda pair: -pair[1])
        ]
        return replace(self.pool.base, members=tuple(members), zero_shot=float(zero_shot / total))


# ------------------------------------------------------------------ values of many members
def _values(
    members: Sequence[Member],
    metric: str,
    folds: Sequence[ScorerAndRows],
    value: Value,
    report: _Reporter,
) -> NDArray[np.float64]:
    """Return the value (n_members, n_folds) of every member alone."""
    found = np.empty((len(members), len(folds)))
    n_threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    blocks = _blocks(members)
    if folds[0][0].device is not None:  # a GPU has threads of its own
        n_threads, blocks = 1, [list(range(len(members)))]
    tasks = [(block, fold) for block in blocks for fold in range(len(folds))]

    def measure(task: tuple[list[int], int]) -> list[float]:
        block, fold = task
        return _block_values([members[i] for i in block], metric, *folds[fold], value)

    # Thousands of small products: a thread per block brings more than threads inside of each.
    with threadpool_limits(1, "blas"), _threads(n_threads) as pool:
        for (block, fold), values in zip(tasks, pool.map(measure, tasks), strict=True):
            found[block, fold] = values
            for one in values:
                report.step(one)
    return found


def _block_values(
    members: Sequence[Member], metric: str, scorer: FoldScorer, truth: ValidationRows, value: Value
) -> list[float]:
    """Return the value of every member of a block on one fold."""
    if scorer.device is None:
        scorer = scorer.thread_copy()
    elif value is area:
        areas: list[float] = scorer.areas(members, truth, metric).tolist()
        return areas
    base = replace(scorer.settings, metric=metric)
    return [
        value(truth.curve(scorer.scores(replace(base, members=(member,))))) for member in members
    ]


@contextmanager
def _threads(n_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Yield threads that end with the block; what they have not begun by then is left."""
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _blocks(members: Sequence[Member]) -> list[list[int]]:
    """Return the positions of members by kernel, those side by side that share what is solved."""
    blocks: dict[Any, dict[Any, list[int]]] = {}
    for index, member in enumerate(members):
        block = blocks.setdefault(member.kernel_key, {})
        block.setdefault(member.process_key[1:], []).append(index)
    return [
        [index for key in sorted(block, key=repr) for index in block[key]]
        for block in blocks.values()
    ]


def _ranked_metrics(
    pool: MemberPool, members: Sequence[Member], found: NDArray[np.float64]
) -> list[tuple[float, MetricKey]]:
    """Return each metric and what its best few members are worth on average, the best first."""
    means = found.mean(axis=1)
    ranked = []
    for metric in pool.metrics:
        own = [means[i] for i, member in enumerate(members) if member.metric_key == metric]
        ranked.append((float(np.mean(sorted(own, reverse=True)[:_N_SCREENED])), metric))
    return sorted(ranked, key=lambda pair: -pair[0])
