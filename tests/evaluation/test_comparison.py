"""Paired differences between methods."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from hgkt.evaluation import ClassAccuracies, paired_difference
from hgkt.exceptions import DataError

N_SEEN, N_UNSEEN = 30, 12


def runs(seed, n_runs=3, lift=0.0):
    """Accuracies of a method whose classes are the same hard or easy ones for every seed."""
    classes, noise = np.random.default_rng(0), np.random.default_rng(seed)
    base = {"ts": classes.uniform(20, 70, N_UNSEEN), "tr": classes.uniform(40, 90, N_SEEN)}
    found = []
    for _ in range(n_runs):
        now = {k: np.clip(v + lift + noise.normal(0, 4, len(v)), 0, 100) for k, v in base.items()}
        now |= {"zsl": now["ts"] + 5}
        now |= {f"{k}_uncalibrated": now[k] / 2 for k in ("ts", "tr")}
        found.append(ClassAccuracies(**{k: tuple(v.tolist()) for k, v in now.items()}))
    return found


def harmonic(ts, tr):
    return 2 * ts * tr / (ts + tr)


def by_hand(first, second, n_resamples, seed):
    """The bootstrap written out: the same classes and runs for both methods."""
    rng = np.random.default_rng(seed)
    matrices = [[np.array([getattr(r, k) for r in part]) for k in ("ts", "tr")]
                for part in (first, second)]  # fmt: skip
    differences = []
    for _ in range(n_resamples):
        unseen, seen = rng.integers(N_UNSEEN, size=N_UNSEEN), rng.integers(N_SEEN, size=N_SEEN)
        drawn = rng.integers(len(first), size=len(first))
        ours, theirs = (
            np.mean([harmonic(ts[r, unseen].mean(), tr[r, seen].mean()) for r in drawn])
            for ts, tr in matrices
        )
        differences.append(ours - theirs)
    return np.percentile(differences, [2.5, 97.5])


def test_difference_and_interval_agree_with_a_bootstrap_by_hand():
    first, second = runs(1, lift=3.0), runs(2)
    found = paired_difference(first, second, n_resamples=4000)
    ours, theirs = (
        np.mean([harmonic(np.mean(run.ts), np.mean(run.tr)) for run in part])
        for part in (first, second)
    )
    assert found.difference == pytest.approx(ours - theirs)
    assert (found.low, found.high) == pytest.approx(by_hand(first, second, 4000, 5), abs=0.25)
    assert found.low < found.difference < found.high
    assert (found.n_runs, found.n_classes) == (3, N_SEEN + N_UNSEEN)
    assert found.distinct


def test_one_run_of_one_group_is_the_bootstrap_of_scipy():
    first, second = runs(1, n_runs=1, lift=1.0), runs(2, n_runs=1)
    found = paired_difference(first, second, "zsl", n_resamples=5000, confidence=0.9)
    gaps = np.subtract(first[0].zsl, second[0].zsl)
    expected = scipy.stats.bootstrap(
        [gaps], np.mean, n_resamples=5000, confidence_level=0.9, method="percentile", rng=7
    ).confidence_interval
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.15)
    assert found.n_classes == N_UNSEEN


def test_pairing_takes_the_difficulty_of_classes_out_of_the_interval():
    first, second = runs(1), runs(2)
    paired = paired_difference(first, second)
    classes = np.random.default_rng(3).permutation(N_UNSEEN)
    shuffled = [replace(run, ts=tuple(np.array(run.ts)[classes].tolist())) for run in second]
    unpaired = paired_difference(first, shuffled)
    assert unpaired.difference == pytest.approx(paired.difference)
    assert paired.high - paired.low < 0.6 * (unpaired.high - unpaired.low)


def test_a_method_does_not_differ_from_itself():
    same = paired_difference(runs(1), runs(1), "H_uncalibrated")
    assert (same.difference, same.low, same.high) == (0.0, 0.0, 0.0)
    assert not same.distinct


def test_two_methods_that_get_nothing_right_differ_by_nothing():
    nothing = [ClassAccuracies((0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))]
    assert paired_difference(nothing, nothing).difference == 0.0


@pytest.mark.parametrize(
    ("first", "second", "options", "sentence"),
    [
        (runs(1), runs(2, n_runs=2), {}, "the same runs and classes are expected"),
        ([], [], {}, "there are no runs to compare"),
        (runs(1), runs(2), {"metric": "ausuc"}, "metric"),
        (runs(1), runs(2), {"n_resamples": 0}, "n_resamples"),
    ],
)
def test_what_cannot_be_compared_is_refused(first, second, options, sentence):
    with pytest.raises(DataError, match=sentence):
        paired_difference(first, second, **options)
