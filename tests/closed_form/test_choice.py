"""The choice of an ensemble against the same choice written out."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from tests.folds import matrix_fold

from hgkt.calibration import Fold
from hgkt.calibration.curve import ValidationRows
from hgkt.closed_form import Ensemble, KernelSettings, Member
from hgkt.closed_form import ensemble as choosing
from hgkt.closed_form.ensemble import (
    ATTRIBUTE_MAPS,
    FEATURE_MAPS,
    KERNELS,
    N_MEMBERS,
    N_METRICS,
    NORM_POWERS,
    PRIORS,
    RIDGES,
    SHRINKAGES,
    ZERO_SHOT_SHARES,
    MemberPool,
    choose_ensemble,
)
from hgkt.closed_form.grid import FoldScorer

METRICS = (("sqrt+l2", 0.3), ("l2", 0.9), ("sqrt+l2", 0.9), ("l2", 0.3), (0.25, 0.5))
VALUES = {"area": lambda curve: curve.area, "zsl": lambda curve: curve.zsl}


def make_folds(n_classes: int = 24, n_folds: int = 2, shared: bool = False) -> list[Fold]:
    """Folds of 10 features and 6 attributes, or of descriptions in the space of the features."""
    rng = np.random.default_rng(8)
    attributes = rng.random((n_classes, 6))
    means = np.abs(attributes @ rng.normal(size=(6, 10))) + 0.3 * rng.random((n_classes, 10))
    if shared:
        attributes = np.abs(means + 0.5 * rng.normal(size=means.shape)) + 0.2
    folds = []
    for k in range(n_folds):
        order = rng.permutation(n_classes)
        seen, new = np.sort(order[:-4]), np.sort(order[-4:])
        codes = np.repeat(np.arange(len(seen)), 6)
        X = np.abs(means[seen][codes] + 0.6 * rng.normal(size=(len(codes), 10)))
        y_seen, y_new = np.repeat(seen, 2), np.repeat(new, 5)
        truth = np.concatenate([y_seen, y_new])
        X_eval = np.abs(means[truth] + (0.6 + k) * rng.normal(size=(len(truth), 10)))
        rows = ValidationRows(y_seen, y_new, np.concatenate([seen, new]), len(seen))
        folds.append(matrix_fold(X, codes, attributes[seen], attributes[new], X_eval, rows))
    return folds


def make_pool(**changes: Any) -> MemberPool:
    kernels = tuple(
        KernelSettings(kind, scale, "l2")
        for kind, scale in (("rbf", 0.5), ("rbf", 4.0), ("linear", 1.0))
    )
    pool = MemberPool(
        Ensemble(), METRICS, kernels, n_varied=3, n_candidates=7, n_first=3, n_members=7
    )
    return replace(pool, **changes)


class Scores:
    """Scores of single members on folds, each asked of scorers that know nothing else."""

    def __init__(self, pool: MemberPool, folds: list[Fold]) -> None:
        self.base, self.folds = pool.base, folds
        self.scorers = [FoldScorer(fold, pool.metrics, pool.base) for fold in folds]
        self.known: dict[Member, list[Any]] = {}

    def of(self, member: Member) -> list[Any]:
        if member not in self.known:
            alone = replace(self.base, members=(member,), zero_shot=0.0)
            self.known[member] = [scorer.scores(alone) for scorer in self.scorers]
        return self.known[member]

    def values(self, member: Member, value: Any) -> list[float]:
        pairs = zip(self.folds, self.of(member), strict=True)
        return [value(fold.rows.curve(scores)) for fold, scores in pairs]

    def deviation(self, member: Member) -> float:
        pairs = zip(self.folds, self.of(member), strict=True)
        return float(np.mean([scores[: fold.rows.n_seen_rows].std() for fold, scores in pairs]))


def kind_of(member: Member) -> Any:
    """What makes members differ enough to be in one ensemble at once."""
    kernel = tuple(
        (name, getattr(member, name))
        for name in ("kernel", "kernel_scale", "attribute_map", "relevance", "block_weights")
    )
    # With relevance the kernel itself depends on the metric, which is part of a kind anyway.
    return member.feature_map, member.shrinkage, kernel, member.prior, member.observed


def best_of_kinds(members: list[Member], means: list[float], n: int) -> list[Member]:
    found: dict[Any, Member] = {}
    for index in sorted(range(len(members)), key=lambda i: -means[i]):
        found.setdefault(kind_of(members[index]), members[index])
    return list(found.values())[:n]


def greedily(
    pool: MemberPool, candidates: list[Member], scores: Scores, value: Any, step: int
) -> Counter[Member]:
    """Begin with the first, then add whichever raises the value of the sum of scores most."""
    parts = {
        member: [(own / scores.deviation(member)).astype(np.float64) for own in scores.of(member)]
        for member in candidates
    }

    def worth(chosen: list[Member]) -> float:
        found = []
        for number, fold in enumerate(scores.folds):
            total = sum(parts[member][number] for member in chosen)
            n = fold.rows.n_seen_rows
            rows = [*range(0, n, step), *range(n, len(total), step)]
            labels = [fold.rows.classes[column] for column in fold.rows.truth]
            some = ValidationRows(
                labels[:n:step], labels[n::step], fold.rows.classes, fold.rows.n_seen
            )
            found.append(value(some.curve(total[rows])))
        return float(np.mean(found))

    chosen = candidates[: pool.n_first]
    while len(chosen) < pool.n_members:
        worths = [worth([*chosen, member]) for member in candidates]
        chosen.append(candidates[int(np.argmax(worths))])
    return Counter(chosen)


def written_out(
    pool: MemberPool, folds: list[Fold], value: Any, learnable: bool, step: int = 1
) -> tuple[list[Member], Scores, Counter[Member]]:
    scores = Scores(pool, folds)
    # A metric is worth the mean of the four best of the members that screen it.
    worth = {
        metric: np.mean(
            sorted(
                np.mean(scores.values(member, value))
                for member in pool.screening()
                if (member.feature_map, member.shrinkage) == metric
            )[-4:]
        )
        for metric in pool.metrics
    }
    metrics = sorted(pool.metrics, key=lambda metric: -worth[metric])[: pool.n_metrics]
    tried = pool.members(metrics)
    means = [float(np.mean(scores.values(member, value))) for member in tried]
    for member in best_of_kinds(tried, means, pool.n_varied):
        for power in pool.powers:
            for observed in (False, True):
                for relevance in (False, True) if learnable else (False,):
                    other = replace(
                        member, norm_power=power, observed=observed, relevance=relevance
                    )
                    if other not in tried:
                        tried.append(other)
    means = [float(np.mean(scores.values(member, value))) for member in tried]
    candidates = best_of_kinds(tried, means, pool.n_candidates)
    return tried, scores, greedily(pool, candidates, scores, value, step)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("n_metrics", [1, 2, 3])
def test_members_are_chosen_as_written_out(kind: str, n_metrics: int) -> None:
    folds, value = make_folds(), VALUES[kind]
    pool = make_pool(n_metrics=n_metrics)
    choice = choose_ensemble([pool], iter(folds), value)
    tried, scores, counts = written_out(pool, folds, value, learnable=True)
    assert [member for member, _ in choice.members] == tried
    values = [scores.values(member, value) for member in tried]
    np.testing.assert_allclose([v for _, v in choice.members], 100.0 * np.array(values))
    (candidate,) = choice.ensembles
    check_ensemble(candidate.ensemble, counts, scores, share=0.0)
    check_curves(candidate, scores, value)
    for fold, scored in zip(folds, choice.scored_folds(candidate.ensemble), strict=True):
        assert scored.scores.shape == (len(fold.rows.truth), len(fold.rows.classes))


def check_ensemble(
    ensemble: Ensemble, counts: Counter[Member], scores: Scores, share: float
) -> None:
    """Scores count by how often a member was chosen once they are divided by their deviation."""
    assert {replace(member, weight=1.0) for member in ensemble.members} == set(counts)
    total = ensemble.zero_shot + sum(member.weight for member in ensemble.members)
    assert total == pytest.approx(1.0)
    assert [m.weight for m in ensemble.members] == sorted(
        (m.weight for m in ensemble.members), reverse=True
    )
    expected = {
        member: (1.0 - share) * n / counts.total() / scores.deviation(member)
        for member, n in counts.items()
    }
    cosines = [
        scorer.zero_shot()[: fold.rows.n_seen_rows].std()
        for scorer, fold in zip(scores.scorers, scores.folds, strict=True)
        if share
    ]
    zero_shot = share / float(np.mean(cosines)) if share else 0.0
    whole = sum(expected.values()) + zero_shot
    assert ensemble.zero_shot == pytest.approx(zero_shot / whole, rel=1e-5)
    for member in ensemble.members:
        own = expected[replace(member, weight=1.0)]
        assert member.weight == pytest.approx(own / whole, rel=1e-5)


def check_curves(candidate: Any, scores: Scores, value: Any) -> None:
    ensemble = candidate.ensemble
    for scorer, fold, curve in zip(scores.scorers, scores.folds, candidate.curves, strict=True):
        expected = fold.rows.curve(scorer.scores(ensemble))
        assert value(curve) == pytest.approx(value(expected), abs=1e-9)


def test_ausuc_is_what_is_maximised_unless_told() -> None:
    folds, pool = make_folds(), make_pool(n_metrics=2)
    plain, told = choose_ensemble([pool], folds), choose_ensemble([pool], folds, VALUES["area"])
    assert plain.members == told.members
    assert plain.ensembles[0].ensemble == told.ensembles[0].ensemble


def test_a_member_may_be_chosen_more_than_once() -> None:
    pool = make_pool(n_metrics=1, n_candidates=2, n_first=1)
    folds = make_folds()
    (candidate,) = choose_ensemble([pool], folds).ensembles
    _, scores, counts = written_out(pool, folds, VALUES["area"], learnable=True)
    assert max(counts.values()) > 1
    check_ensemble(candidate.ensemble, counts, scores, share=0.0)


def test_of_many_rows_every_so_manieth_of_each_group_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, folds = make_pool(n_metrics=2), make_folds()
    numbers = 7 * sum(len(fold.rows.truth) * len(fold.rows.classes) for fold in folds)
    monkeypatch.setattr(choosing, "_KEPT_NUMBERS", numbers // 2 - 1)  # every third row
    (candidate,) = choose_ensemble([pool], folds).ensembles
    _, scores, counts = written_out(pool, folds, VALUES["area"], learnable=True, step=3)
    check_ensemble(candidate.ensemble, counts, scores, share=0.0)
    check_curves(candidate, scores, VALUES["area"])  # of all rows


def test_distances_are_chosen_among_in_one_metric() -> None:
    folds = make_folds()
    pool = make_pool(base=Ensemble(metric="euclidean"), n_metrics=1, powers=(1.0,))
    choice = choose_ensemble([pool], folds)
    assert choice.metric == "euclidean"
    _, scores, counts = written_out(pool, folds, VALUES["area"], learnable=True)
    (candidate,) = choice.ensembles
    check_ensemble(candidate.ensemble, counts, scores, share=0.0)
    check_curves(candidate, scores, VALUES["area"])
    assert len(candidate.ensemble.metric_keys) == 1


def test_the_pool_with_the_best_metrics_goes_on() -> None:
    folds = make_folds()
    cosines = make_pool(n_metrics=1)
    distances = make_pool(base=Ensemble(metric="euclidean"), n_metrics=1, powers=(1.0,))
    bests = []
    for pool in (cosines, distances):
        scores = Scores(pool, folds)
        of_metric: dict[Any, list[float]] = {}
        for member in pool.screening():
            mean = float(np.mean(scores.values(member, VALUES["area"])))
            of_metric.setdefault(member.metric_key, []).append(mean)
        bests.append(max(np.mean(sorted(means)[-4:]) for means in of_metric.values()))
    assert bests[0] != bests[1]
    better = ("cosine", "euclidean")[int(np.argmax(bests))]
    for pools in ([cosines, distances], [distances, cosines]):
        assert choose_ensemble(pools, folds).metric == better
    assert choose_ensemble([cosines, replace(cosines)], folds).metric == "cosine"


def test_shares_of_zero_shot_are_tried_in_a_shared_space() -> None:
    folds = make_folds(shared=True)
    pool = make_pool(base=Ensemble(shared_space=True), n_metrics=2, priors=(0.0, 0.6))
    choice = choose_ensemble([pool], folds)
    tried, scores, counts = written_out(pool, folds, VALUES["area"], learnable=True)
    assert [member for member, _ in choice.members] == tried
    assert {member.prior for member, _ in choice.members} == {0.0, 0.6}
    assert len(choice.ensembles) == len(ZERO_SHOT_SHARES)
    for share, candidate in zip(ZERO_SHOT_SHARES, choice.ensembles, strict=True):
        check_ensemble(candidate.ensemble, counts, scores, share)
        check_curves(candidate, scores, VALUES["area"])
        assert candidate.ensemble.shared_space is True
    areas = [np.mean([c.area for c in candidate.curves]) for candidate in choice.ensembles]
    assert len(set(areas)) > 3


def test_relevance_is_tried_where_the_smallest_fold_allows_it() -> None:
    pool = make_pool(n_metrics=1)
    large = choose_ensemble([pool], make_folds(n_classes=24))
    small = choose_ensemble([pool], make_folds(n_classes=23))  # 19 train classes: one too few
    assert {member.relevance for member, _ in large.members} == {False, True}
    assert {member.relevance for member, _ in small.members} == {False}


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members are scored on as many threads as products would have."""
    pool, folds = make_pool(n_metrics=2), make_folds()
    other = make_pool(base=Ensemble(metric="euclidean"), powers=(1.0,), n_metrics=1)
    found = []
    for n_threads in (1, 3):
        pools = [{"num_threads": n_threads}]
        monkeypatch.setattr(choosing, "threadpool_info", lambda pools=pools: pools)
        found.append(choose_ensemble([pool, other], folds))
    assert found[0].members == found[1].members
    for one, same in zip(found[0].ensembles, found[1].ensembles, strict=True):
        assert one.ensemble == same.ensemble
        for left, right in zip(one.curves, same.curves, strict=True):
            np.testing.assert_array_equal(left.gammas, right.gammas)


def test_progress_tells_of_every_twentieth_setting_and_of_the_last() -> None:
    heard: list[Any] = []
    pool, folds = make_pool(n_metrics=1), make_folds()
    choice = choose_ensemble([pool], folds, progress=lambda *call: heard.append(call))
    total = 2 * (len(pool.screening()) + len(choice.members))
    assert [call[:3] for call in heard] == [
        ("select", done, total) for done in (*range(20, total, 20), total)
    ]
    last = choice.members[-1][1][-1]
    assert heard[-1][3] == {"ausuc": pytest.approx(last)}


# ---------------------------------------------------------------------- pools
def test_a_pool_has_every_metric_and_kernel() -> None:
    pool = MemberPool.of(Ensemble())
    assert set(pool.metrics) == {(f, s) for f in FEATURE_MAPS for s in SHRINKAGES}
    assert {(k.kernel, k.kernel_scale, k.attribute_map) for k in pool.kernels} == {
        (*kernel, name) for kernel in KERNELS for name in ATTRIBUTE_MAPS
    }
    assert (pool.ridges, pool.powers, pool.priors) == (RIDGES, NORM_POWERS, (0.0,))
    assert (pool.n_metrics, pool.n_members) == (N_METRICS, N_MEMBERS)
    three = pool.metrics[:3]
    members = pool.members(three)
    assert len(set(members)) == len(members) == 3 * len(pool.kernels) * len(RIDGES)
    assert {member.metric_key for member in members} == set(three)
    assert {member.ridge for member in members} == set(RIDGES)
    assert {member.kernel_settings for member in members} == set(pool.kernels)
    assert {(m.norm_power, m.observed, m.relevance, m.prior) for m in members} == {
        (1.1, False, False, 0.0)
    }


def test_metrics_are_screened_with_few_kernels_and_without_relevance() -> None:
    pool = MemberPool.of(Ensemble(attribute_blocks=[2, 2]))
    screened = pool.screening()
    assert {member.metric_key for member in screened} == set(pool.metrics)
    assert not any(member.relevance or member.observed for member in screened)
    assert {member.block_weights for member in screened} == {(0.5, 0.5)}
    assert {member.ridge for member in screened} == {0.01, 0.03}
    assert {member.norm_power for member in screened} == {1.1}
    assert {(m.kernel, m.kernel_scale) for m in screened} == {
        ("rbf", 0.5), ("rbf", 2.0), ("quadratic", 1.0), ("linear", 1.0),
    }  # fmt: skip
    assert {member.attribute_map for member in screened} == set(ATTRIBUTE_MAPS)
    assert len(set(screened)) == len(screened)
    few = replace(pool, ridges=(0.3, 1.0)).screening()
    assert {member.ridge for member in few} == {0.3, 1.0}


def test_variants_differ_in_power_observed_means_and_relevance() -> None:
    pool, member = MemberPool.of(Ensemble()), Member("l2", 0.9, "linear", ridge=0.3)
    for learnable in (False, True):
        variants = pool.variants(member, learnable)
        assert len(set(variants)) == len(variants) == len(NORM_POWERS) * 2 * (1 + learnable)
        assert {v.norm_power for v in variants} == set(NORM_POWERS)
        assert {v.observed for v in variants} == {False, True}
        assert {v.relevance for v in variants} == ({False, True} if learnable else {False})
        assert {replace(v, norm_power=1.0, observed=False, relevance=False) for v in variants} == {
            member
        }


def test_distances_know_no_power_and_one_metric() -> None:
    pool = MemberPool.of(Ensemble(metric="euclidean"))
    assert (pool.powers, pool.n_metrics) == ((1.0,), 1)
    assert {member.norm_power for member in pool.screening()} == {1.0}


def test_a_pool_without_a_relation_has_its_ablated_form_only() -> None:
    pool = MemberPool.of(Ensemble(), intra=False, inter=False)
    assert {shrinkage for _, shrinkage in pool.metrics} == {1.0}
    assert {map_ for map_, _ in pool.metrics} == set(FEATURE_MAPS)
    assert {member.kernel for member in pool.members(pool.metrics)} == {"linear"}
    assert {member.kernel for member in pool.screening()} == {"linear"}
    assert {shrinkage for _, shrinkage in MemberPool.of(Ensemble(), inter=False).metrics} == set(
        SHRINKAGES
    )


def test_a_pool_weighs_attribute_blocks() -> None:
    pool = MemberPool.of(Ensemble(attribute_blocks=[2, 3]))
    weights = {member.block_weights for member in pool.members(pool.metrics[:1])}
    assert weights == {(0.5, 0.5), (0.25, 0.75), (0.75, 0.25), (0.0, 1.0), (1.0, 0.0)}
    for blocks in (None, [5]):
        alone = MemberPool.of(Ensemble(attribute_blocks=blocks))
        assert {member.block_weights for member in alone.members(alone.metrics)} == {None}


def test_priors_are_tried_in_a_shared_space_only() -> None:
    for shared, priors in ((False, (0.0,)), (True, PRIORS), (0, PRIORS)):
        pool = MemberPool.of(Ensemble(shared_space=shared, attribute_blocks=[4]))
        assert {member.prior for member in pool.screening()} == set(priors)
        assert {member.prior for member in pool.members(pool.metrics)} == set(priors)


def test_members_of_a_pool_are_plain_values() -> None:
    """They are written to reports and model cards."""
    member = MemberPool.of(Ensemble()).screening()[0]
    assert Ensemble.from_list([asdict(member)]).members == (member,)
