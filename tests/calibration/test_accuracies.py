"""What adding classes costs, and what γ favours: against every γ and every subset, by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import hgkt
from hgkt.calibration import Calibration, Favour, FoldSample, ScoredFold, fit_calibration
from hgkt.calibration.accuracies import Costs, ExpectedAccuracies, fit_accuracies
from hgkt.calibration.curve import ValidationRows
from hgkt.exceptions import DataError

N_SEEN, N_UNSEEN, PER_CLASS = 5, 4, 6


@pytest.fixture(scope="module")
def fold() -> ScoredFold:
    rng = np.random.default_rng(3)
    truth = np.repeat(np.arange(N_SEEN + N_UNSEEN), PER_CLASS)
    scores = rng.normal(size=(len(truth), N_SEEN + N_UNSEEN))
    scores[np.arange(len(truth)), truth] += 1.5
    scores[:, :N_SEEN] += 0.7
    split = N_SEEN * PER_CLASS
    names = list(range(N_SEEN + N_UNSEEN))
    return ScoredFold(ValidationRows(truth[:split], truth[split:], names, N_SEEN), scores)


def sample(fold: ScoredFold) -> FoldSample:
    return FoldSample(fold.scores, fold.rows.truth, N_SEEN, tuple(range(N_SEEN, 9)))


def accuracies(fold: ScoredFold, gamma: float, added: tuple[int, ...]) -> tuple[float, float]:
    """Return the mean accuracies over learned and over added classes, with no curve."""
    columns = [*range(N_SEEN), *added]
    scores = fold.scores[:, columns].copy()
    scores[:, :N_SEEN] -= gamma
    right = np.array(columns)[scores.argmax(axis=1)] == fold.rows.truth
    means = [float(right[fold.rows.truth == c].mean()) for c in columns]
    return float(np.mean(means[:N_SEEN])), float(np.mean(means[N_SEEN:])) if added else 0.0


@pytest.mark.parametrize("value", ["classes", "learned", "described", "balanced", 0.1, 0.6])
def test_no_gamma_is_better_for_what_is_favoured(fold, value, monkeypatch):
    monkeypatch.setattr("hgkt.calibration.gamma._SHARES", ())  # the fold as it is, nothing drawn
    monkeypatch.setattr("hgkt.calibration.gamma.FEW_CLASSES", 2)
    favour = Favour(value)
    law = fit_calibration([fold], favour=favour)

    def reached(gamma: float) -> float:
        learned, added = accuracies(fold, gamma, (5, 6, 7, 8))
        if value == "balanced":
            return 2 * learned * added / max(learned + added, 1e-300)
        share = favour.share(N_SEEN, N_UNSEEN)
        return (1 - share) * learned + share * added

    edges = np.unique(fold.scores[:, :N_SEEN, None] - fold.scores[:, None, N_SEEN:])
    every = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
    best = max(reached(gamma) for gamma in every)
    assert reached(law.gamma(N_SEEN, N_UNSEEN)) == pytest.approx(best, abs=1e-12)


def test_of_few_classes_gamma_is_balanced_for_as_many_of_both(fold):
    law = fit_calibration([fold], favour=Favour("classes"))
    assert law == Calibration(fit_calibration([fold]).offset)


def test_what_counts_for_more_is_recognised_more_often(fold, monkeypatch):
    monkeypatch.setattr("hgkt.calibration.gamma.FEW_CLASSES", 2)
    offsets = {
        value: fit_calibration([fold], favour=Favour(value)).gamma(N_SEEN, N_UNSEEN)
        for value in ("learned", "classes", "described")
    }
    assert offsets["learned"] < offsets["classes"] < offsets["described"]


def test_gamma_follows_numbers_where_shares_of_rows_are_given(fold):
    assert fit_calibration([fold], favour=Favour("classes")).slope == 0
    law = fit_calibration([fold], favour=Favour(0.3))
    assert law.gamma(60, 1) > law.gamma(60, 30)


def test_shares():
    assert Favour("classes").share(30, 10) == 0.25
    assert Favour("described").share(30, 10) > 0.25 > Favour("learned").share(30, 10)
    assert Favour("balanced").share(30, 10) == 0.5
    assert Favour(0.2).share(30, 10) == 0.2


@pytest.mark.parametrize("value", ["rows", 0, 1.0, -0.1, True, None])
def test_what_cannot_be_favoured(value):
    with pytest.raises(DataError, match="favour must be"):
        Favour(value)


def test_a_parameter_calibration_says_gamma_or_what_to_favour():
    assert Favour.of("auto") == Favour("classes")
    assert Favour.of("balanced") == Favour("balanced")
    assert Favour.of({"favour": 0.1}) == Favour(0.1)
    assert Favour.of({"favour": "learned"}) == Favour("learned")
    for law in (0.0, 0.3, {"offset": 1.0, "slope": 0.1}, Calibration()):
        assert Favour.of(law) is None
    with pytest.raises(DataError, match="calibration must be one of 'auto', 'balanced'"):
        Favour.of("some")


@pytest.mark.parametrize("n_added", [0, 1, 2, 3, 4])
def test_expected_accuracies_are_means_over_every_subset(fold, n_added):
    found = fit_accuracies([sample(fold)])
    for gamma in (-1.0, 0.0, 0.4, 1.3):
        subsets = list(combinations(range(N_SEEN, 9), n_added))
        means = np.mean([accuracies(fold, gamma, subset) for subset in subsets], axis=0)
        # Between the values of γ that are kept lies a line; ln(3) is none of those kept.
        close = 0.03 if n_added else 1e-12
        assert found.at(gamma, n_added) == pytest.approx(means, abs=close)
    exact = [accuracies(fold, found.gammas[40], s) for s in combinations(range(N_SEEN, 9), n_added)]
    if n_added in found.numbers:
        assert found.at(found.gammas[40], n_added) == pytest.approx(np.mean(exact, axis=0))


def test_beyond_the_classes_held_out_costs_go_on_rising(fold):
    found = fit_accuracies([sample(fold)])
    learned = [found.at(0.5, n)[0] for n in (1, 2, 4, 8, 16, 10_000)]
    assert learned == sorted(learned, reverse=True)
    assert all(0.0 <= value <= 1.0 for value in learned)


def test_one_class_held_out_is_enough():
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.0, 0.4]])
    found = fit_accuracies([FoldSample(rows, np.array([0, 1, 2]), 2, ("c",))])
    assert found.at(-9.0, 1) == (1.0, 0.0)
    assert found.at(0.2, 1) == (1.0, 1.0)
    assert found.at(9.0, 3) == (0.0, 1.0)


def test_the_sentence_shows_a_change_that_is_there():
    assert Costs(0, 0, 0.74, 0.74, 0.0).sentence() == "learned classes: 74 % expected"
    assert (
        Costs(4, 6, 0.741, 0.688, 0.24).sentence()
        == "learned classes: 74 % → 69 % expected; the 2 new ones: 24 %"
    )
    assert "74.1 % → 73.9 % expected; the new one: 31 %" in Costs(4, 5, 0.741, 0.739, 0.2).sentence(
        added=0.31
    )


@pytest.fixture(scope="module")
def digits():
    data = hgkt.load_dataset("digits")
    X, y = data.rows("train")
    seen, new = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    return X, y, seen, new


def test_a_model_says_what_classes_cost_and_keeps_it(digits, tmp_path):
    X, y, seen, new = digits
    model = hgkt.HGKTClassifier(calibration="balanced").fit(X, y, seen)
    assert model.n_added_ == 0
    check = model.check_class(next(iter(new.values())))
    assert check.costs == model.costs(0, 1)
    assert any(text.startswith("On average, learned classes: ") for text in check.sentences())
    assert check.to_dict()["costs"]["learned_after"] == check.costs.learned_after
    model.add_classes(new)
    assert model.n_added_ == len(new)
    costs = model.costs(0, len(new))
    assert 0 < costs.learned_after < costs.learned_before <= 1
    model.grow({name: model.example_sums(X[:3]) for name in list(new)[:1]})
    assert model.n_added_ == len(new)  # a class that has grown still is one that was added
    assert hgkt.load_model(model.save(tmp_path / "model")).costs(0, 2) == model.costs(0, 2)


def test_what_is_favoured_decides_what_is_lost(digits):
    X, y, seen, _ = digits
    lost = {}
    for value in ("learned", "auto", "balanced"):
        costs = hgkt.HGKTClassifier(calibration=value).fit(X, y, seen).costs(0, 2)
        lost[value] = costs.learned_before - costs.learned_after
    assert lost["learned"] <= lost["auto"] < lost["balanced"]


def test_without_folds_nothing_is_said_of_costs(digits):
    X, y, seen, new = digits
    model = hgkt.HGKTClassifier(calibration=0.1).fit(X, y, seen)
    assert model.costs(0, 1) is None
    assert not any(
        "On average" in text for text in model.check_class(new[next(iter(new))]).sentences()
    )


def test_tables_go_to_arrays_and_back(fold):
    found = fit_accuracies([sample(fold)])
    again = ExpectedAccuracies(**found.to_arrays())
    assert again.at(0.3, 3) == found.at(0.3, 3)
