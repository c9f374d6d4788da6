"""Choose a mixture of closed forms on validation classes: single ones stand, the best vote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from hgkt._typing import Progress
from hgkt.calibration.curve import SeenUnseenCurve, ValidationRows
from hgkt.closed_form.family import MixtureFamily
from hgkt.closed_form.grid import FoldScorer, GridData, SumsGridData, fold_scorer
from hgkt.closed_form.mixture import MetricTerm, Mixture

if TYPE_CHECKING:
    from hgkt.closed_form.device_grid import DeviceFoldScorer

    Scorer = FoldScorer | DeviceFoldScorer

# What a curve is worth; AUSUC by default.
Value = Callable[[SeenUnseenCurve], float]

_SCREENED = 4  # members by whose mean a metric is judged


def area(curve: SeenUnseenCurve) -> float:
    """What a curve is worth by default: AUSUC."""
    return curve.area


@dataclass(frozen=True)
class Candidate:
    """A mixture and its curve on each fold."""

    mixture: Mixture
    curves: list[SeenUnseenCurve]


@dataclass(frozen=True)
class ElectionFold:
    """One fold of validation classes.

    Parameters
    ----------
    data : GridData or SumsGridData
        Features and attributes; rows to score, seen ones first.
    rows : ValidationRows
        The true classes of those rows.
    """

    data: GridData | SumsGridData
    rows: ValidationRows


@dataclass(frozen=True)
class Election:
    """What was found.

    Parameters
    ----------
    members : list of (Mixture, values)
        Every single closed form that stood and its value on each fold, in percent.
    mixtures : list of Candidate
        The mixtures of the best of them, at every norm power.
    """

    members: list[tuple[Mixture, tuple[float, ...]]]
    mixtures: list[Candidate]


def elect_mixture(
    families: Sequence[MixtureFamily],
    folds: Iterable[ElectionFold],
    value: Value = area,
    progress: Progress | None = None,
) -> Election:
    """Choose metrics, kernels, ridges and the norm power on folds of validation classes.

    Parameters
    ----------
    families : sequence of MixtureFamily
        Who stands for election: families that differ in how instances are compared with class
        embeddings. All are screened, the one with the best metrics goes on.
    folds : iterable of ElectionFold
        Read once; of each only inner products are kept.
    value : callable
        From a curve to what is maximised.
    progress : callable, optional
        Called as ``progress("select", done, total, values)``.
    """
    scorers, rows, sizes = [], [], []
    for fold in folds:
        scorers.append(fold_scorer(fold.data, families[0].metrics, families[0].base))
        rows.append(fold.rows)
        sizes.append(fold.data.attributes.shape)
    n_classes, n_attributes = min(sizes)
    screened = [list(family.screening()) for family in families]
    n_voters = max(
        len(list(family.voters(family.metrics[: family.n_metrics], n_classes, n_attributes)))
        for family in families
    )
    report = _Reporter(progress, len(scorers) * (sum(map(len, screened)) + n_voters))
    # All families at once: they differ in what is made of the same products.
    everyone = [member for members in screened for member in members]
    worths = iter(_values(everyone, scorers, rows, value, report))
    ranked = [
        _ranked_metrics(family, members, np.array([next(worths) for _ in members]))
        for family, members in zip(families, screened, strict=True)
    ]
    # The first of equally good families.
    chosen = max(range(len(families)), key=lambda index: ranked[index][0][0])
    family = families[chosen]
    metrics = [metric for _, metric in ranked[chosen][: family.n_metrics]]
    # What relevance is learned from is the metric that comes first.
    for scorer in scorers:
        scorer.put_first(metrics[0])
    voters = list(family.voters(metrics, n_classes, n_attributes))
    found = _values(voters, scorers, rows, value, report)
    order = np.argsort(-found.mean(axis=1), kind="stable")
    with threadpool_limits(1, "blas"):
        mixtures = [
            _candidate(replace(family.elect(voting), norm_power=power), scorers, rows)
            for voting in family.electorates([voters[i] for i in order], n_classes)
            for power in family.norm_powers
        ]
    percents = [tuple((100.0 * row).tolist()) for row in found]
    return Election(list(zip(voters, percents, strict=True)), mixtures)


class _Reporter:
    """Counts settings and tells of them now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def step(self, value: float) -> None:
        self.done += 1
        if self.progress is not None and (self.done % 20 == 0 or self.done == self.total):
            self.progress("select", self.done, self.total, {"ausuc": 100.0 * value})


def _values(
    members: Sequence[Mixture],
    scorers: Sequence[Scorer],
    rows: Sequence[ValidationRows],
    value: Value,
    report: _Reporter,
) -> NDArray[np.float64]:
    """Return the value (n_members, n_folds) of every single closed form."""
    found = np.empty((len(members), len(scorers)))
    n_threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    blocks = _blocks(members)
    if not isinstance(scorers[0], FoldScorer):  # a GPU has threads of its own
        n_threads, blocks = 1, [list(range(len(members)))]
    tasks = [(block, fold) for block in blocks for fold in range(len(scorers))]

    def measure(task: tuple[list[int], int]) -> list[float]:
        block, fold = task
        return _block_values([members[i] for i in block], scorers[fold], rows[fold], value)

    # Thousands of small products: a thread per block brings more than threads inside of each.
    with threadpool_limits(1, "blas"), _threads(n_threads) as pool:
        for (block, fold), values in zip(tasks, pool.map(measure, tasks), strict=True):
            found[block, fold] = values
            for one in values:
                report.step(one)
    return found


def _block_values(
    members: Sequence[Mixture], scorer: Scorer, truth: ValidationRows, value: Value
) -> list[float]:
    """Return the value of every member of a block on one fold."""
    if isinstance(scorer, FoldScorer):
        scorer = scorer.beside()
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
        return float(np.mean(sorted(own)[-_SCREENED:]))

    worths = [(worth(metric), metric) for metric in family.metrics]
    return sorted(worths, key=lambda pair: pair[0], reverse=True)


def _balanced(
    mixture: Mixture, scorers: Sequence[Scorer], rows: Sequence[ValidationRows]
) -> Mixture:
    """Divide each metric's votes by the deviation of its scores over held-out seen rows.

    The scores of the mixture have a deviation of about one.
    """
    n_votes = sum(term.weight for term in mixture.metrics)

    def balanced() -> Iterator[MetricTerm]:
        for term in mixture.metrics:
            deviations = [
                scorer.metric_scores(mixture, term)[: truth.n_seen_rows].std()
                for scorer, truth in zip(scorers, rows, strict=True)
            ]
            weight = term.weight / n_votes / max(float(np.mean(deviations)), 1e-12)
            yield replace(term, weight=weight)

    return replace(mixture, metrics=tuple(balanced()))


def _candidate(
    elected: Mixture, scorers: Sequence[Scorer], rows: Sequence[ValidationRows]
) -> Candidate:
    mixture = elected
    if len(elected.metrics) > 1:
        mixture = _balanced(elected, scorers, rows)
    else:
        mixture = replace(elected, metrics=(replace(elected.metrics[0], weight=1.0),))
    pairs = zip(scorers, rows, strict=True)
    return Candidate(mixture, [truth.curve(scorer.scores(mixture)) for scorer, truth in pairs])
