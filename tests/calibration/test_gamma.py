"""γ as a law of how many classes compete, and models that find it themselves."""

from __future__ import annotations

import numpy as np
import pytest

import hgkt
from hgkt.calibration import Calibration, ScoredFold, fit_calibration
from hgkt.calibration.curve import ValidationRows, best_calibration
from hgkt.evaluation import ClassFoldSearch
from hgkt.exceptions import DataError


def gaussian_fold(seed: int, temperature: float, bias: float, n_seen: int = 40, n_unseen: int = 20):
    """Scores that are log-likelihoods times a temperature, seen classes favoured by `bias`."""
    rng = np.random.default_rng(seed)
    n_classes, per_class, d = n_seen + n_unseen, 30, 6
    means = rng.normal(size=(n_classes, d)) * 1.2
    truth = np.repeat(np.arange(n_classes), per_class)
    X = means[truth] + rng.normal(size=(len(truth), d))
    scores = -0.5 * ((X[:, None] - means) ** 2).sum(axis=2) * temperature
    scores[:, :n_seen] += bias
    split = n_seen * per_class
    names = list(range(n_classes))
    return ScoredFold(ValidationRows(truth[:split], truth[split:], names, n_seen), scores)


@pytest.mark.parametrize(("temperature", "bias"), [(1.0, 0.0), (0.2, 0.5)])
def test_bias_and_a_share_of_the_prior_are_found_where_scores_are_likelihoods(temperature, bias):
    """Bayes' rule takes T·ln(L / U) and the bias off; H asks for equal accuracies, so for less."""
    law = fit_calibration([gaussian_fold(seed, temperature, bias) for seed in range(6)])
    assert 0.3 * temperature < law.slope < temperature
    assert law.offset == pytest.approx(bias, abs=0.2 * temperature)


def test_a_class_alone_is_met_with_a_higher_gamma_than_many():
    data = hgkt.load_dataset("digits")
    X, y = data.rows("train")
    search = ClassFoldSearch(hgkt.HGKTClassifier(), stages=[])
    model = search.fit(X, y, data.attributes_of(data.seen_classes)).best_estimator_
    assert model.calibration_.slope > 0
    new = data.attributes_of(data.unseen_classes)
    gammas = []
    for name, attributes in new.items():
        model.add_classes({name: attributes})
        gammas.append(model.gamma_)
        assert model.gamma_ == model.calibration_.gamma(8, len(gammas))
    assert gammas[0] > gammas[1]
    penalties = model.penalties_[model.candidates()].tolist()
    assert penalties == [gammas[1]] * 8 + [0.0] * 2
    model.remove_classes(list(new)[1:])
    assert model.gamma_ == gammas[0]


def test_a_fit_calibrates_itself_and_says_so(tmp_path):
    data = hgkt.load_dataset("digits")
    X, y = data.rows("train")
    seen, unseen = (data.attributes_of(c) for c in (data.seen_classes, data.unseen_classes))
    own = hgkt.HGKTClassifier().fit(X, y, seen).add_classes(unseen)
    off = hgkt.HGKTClassifier(calibration=0).fit(X, y, seen).add_classes(unseen)
    X_new, _ = data.rows("test_unseen")
    assert off.calibration_ == Calibration()
    assert own.calibration_.slope == 0  # every class counts alike, however many are added
    assert own.calibration_.offset != 0
    loaded = hgkt.load_model(own.save(tmp_path / "model"))
    assert loaded.calibration_ == own.calibration_
    assert np.array_equal(loaded.score_classes(X_new), own.score_classes(X_new))
    own.set_params(calibration=0.1)  # a number set afterwards takes over
    assert own.gamma_ == 0.1


def test_few_classes_or_single_rows_are_not_calibrated():
    rng = np.random.default_rng(0)
    X, attributes = rng.random((10, 4)), {f"c{i}": rng.random(3) for i in range(10)}
    five = {name: attributes[name] for name in list(attributes)[:5]}
    model = hgkt.HGKTClassifier().fit(X, list(five) * 2, five)
    assert model.calibration_ == Calibration()
    model = hgkt.HGKTClassifier().fit(X, list(attributes), attributes)
    assert model.calibration_ == Calibration()
    plain = hgkt.HGKTClassifier().fit(X, list(five) * 2)  # no attributes: nothing can be added
    assert plain.calibration_ == Calibration()


def test_a_fold_without_a_class_of_two_rows_is_no_error():
    rng = np.random.default_rng(0)
    attributes = {name: rng.random(5) for name in "abcdefg"}
    model = hgkt.HGKTClassifier().fit(rng.random((8, 20)), list("aabcdefg"), attributes)
    assert model.calibration_ == Calibration()


def test_large_data_are_calibrated_on_a_part(monkeypatch):
    from hgkt.estimators import fold_fit

    data = hgkt.load_dataset("digits")
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    whole = hgkt.HGKTClassifier().fit(X, y, table).calibration_
    monkeypatch.setattr(fold_fit, "_MAX_ROWS", 400)
    few = hgkt.HGKTClassifier().fit(X, y, table).calibration_
    kept = fold_fit._few_rows(np.asarray(y))
    assert len(kept) == 400
    assert set(np.unique(np.asarray(y)[kept], return_counts=True)[1]) == {50}
    assert few != whole
    assert few.gamma(8, 2) == pytest.approx(whole.gamma(8, 2), abs=0.3)


def test_curve_among_some_classes_is_that_of_a_smaller_problem():
    fold = gaussian_fold(0, 1.0, 0.0, n_seen=6, n_unseen=4)
    columns = np.array([0, 2, 5, 6, 9])
    found = fold.rows.curve_among(fold.scores, columns)
    truth = np.repeat(np.arange(10), 30)
    kept = np.isin(truth, columns)
    small = ValidationRows(
        truth[kept][truth[kept] < 6], truth[kept][truth[kept] >= 6], columns.tolist(), 3
    )
    expected = small.curve(fold.scores[kept][:, columns])
    for name in ("gammas", "seen", "unseen"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


def test_one_fold_without_a_choice_gives_the_plain_gamma():
    rows = ValidationRows(["a", "b"], ["c"], ["a", "b", "c"], 2)
    fold = ScoredFold(rows, np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.5, 1.0, 1.0]]))
    law = fit_calibration([fold])
    gamma, _ = best_calibration([rows.curve(fold.scores)])
    assert 0.5 < law.gamma(2, 1) < 2.0
    assert 0.5 < gamma < 2.0


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"offset": 1, "tilt": 2}, "'offset' and 'slope' are expected"),
        ({"offset": "much"}, "calibration's offset must be"),
        ({}, "'offset' and 'slope' are expected"),
        ("some", "calibration must be"),
        (None, "calibration must be"),
        (float("nan"), "calibration must be"),
    ],
)
def test_a_calibration_that_is_none_is_refused(value, message):
    with pytest.raises(DataError, match=message):
        Calibration.of(value)
    X, y = [[1.0, 2], [2, 1], [3, 1]], ["a", "b", "a"]
    with pytest.raises(DataError, match=message):
        hgkt.HGKTClassifier(calibration=value).fit(X, y, {"a": [1.0], "b": [2.0]})


def test_a_calibration_survives_its_dict():
    law = Calibration(0.25, 0.5)
    assert Calibration.of(law.to_dict()) == law == Calibration.of(law)
    assert law.gamma(3, 0) == law.gamma(3, 1)  # before the first class is added
    assert Calibration(0.25).gamma(100, 3) == 0.25
