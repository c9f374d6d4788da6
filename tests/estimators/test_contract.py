"""What must hold for every registered method, found through the registry."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from hgkt.estimators import METHODS, load_model
from hgkt.exceptions import DataError

# Small settings, so that what trains a network trains it in a moment.
FAST = {"n_hidden": 16, "n_steps": 60, "n_epochs": 3, "learning_rate": 1e-2, "random_state": 0}
FAST |= {"hidden_sizes": (16, 16, 16, 16), "n_latent": 8, "classifier_epochs": 3}
FAST |= {"n_seen_samples": 40, "n_unseen_samples": 40}

# Steps or epochs with which a network reaches the accuracy that scikit-learn's checks ask for.
N_STEPS = {"psrzsl": 20, "dem": 60, "hgkt-network": 50}
N_EPOCHS = {"cada-vae": 8}

# Methods without stochastic or iterative steps, which follow the order of rows.
DIRECT = ["hgkt", "ridge", "eszsl", "sae", "gfzsl"]

# Checks of scikit-learn that cannot hold, with the reason.
CANNOT_HOLD: dict[str, dict[str, str]] = {}


def build(name, **params):
    model = METHODS.load(name)()
    known = model.get_params()
    return model.set_params(**{k: v for k, v in {**FAST, **params}.items() if k in known})


def variants():
    for name in METHODS:
        yield pytest.param(name, {}, id=name)


every_method = pytest.mark.parametrize(("name", "params"), list(variants()))
adds_untrained = pytest.mark.parametrize(
    ("name", "params"), [(n, {}) for n in METHODS if not METHODS.load(n).retrains_on_add]
)


@pytest.fixture
def small(small_of, name):
    return small_of(name)


@pytest.fixture
def fitted(name, params, small):
    return build(name, **params).fit(small["X"], small["y"], class_attributes=small["seen"])


@every_method
def test_scikit_learn_checks_pass(name, params):
    steps = {"n_steps": N_STEPS.get(name, 150), "n_epochs": N_EPOCHS.get(name, 30)}
    settings = {**steps, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(
            build(name, **settings), expected_failed_checks=CANNOT_HOLD.get(name), on_skip=None
        )


@adds_untrained
def test_seen_scores_are_bit_identical_whatever_is_added(fitted, small):
    before = fitted.score_classes(small["X"], penalty=False)
    rng = np.random.default_rng(3)
    fitted.add_classes(small["unseen"])
    width = fitted.class_attributes_.shape[1]
    fitted.add_classes({f"extra {i}": rng.random(width) for i in range(30)})
    after = fitted.score_classes(small["X"], penalty=False)[:, fitted.candidates("seen")]
    assert np.array_equal(after, before)


@every_method
def test_a_class_can_be_checked_before_it_is_added(fitted, small):
    before = fitted.classes_.tolist()
    check = fitted.check_class(small["unseen"]["class g"], "class g")
    assert len({rival.label for rival in check.rivals} & set(before)) == 5
    assert check.sentences()
    assert fitted.check_class(small["seen"]["class b"]).duplicates == ("class b",)
    assert fitted.classes_.tolist() == before


@every_method
def test_added_classes_come_and_go(fitted, small):
    seen = list(small["seen"])
    assert fitted.classes_.tolist() == seen
    assert fitted.add_classes(small["unseen"]) is fitted
    assert fitted.classes_.tolist() == seen + list(small["unseen"])
    assert fitted.unseen_classes_.tolist() == list(small["unseen"])
    scores = fitted.score_classes(small["X_unseen"])
    assert scores.shape == (30, 8)
    assert np.isfinite(scores).all()
    fitted.remove_classes(["class g"])
    assert fitted.unseen_classes_.tolist() == ["class h"]
    assert set(fitted.predict(small["X_unseen"], among="unseen")) == {"class h"}


@every_method
def test_everything_follows_sorted_classes_whatever_order_they_came_in(fitted, small):
    X, vectors = small["X_unseen"], list(small["unseen"].values())
    fitted.add_classes({"class g": vectors[0]})
    scores = fitted.score_classes(X, penalty=False)
    fitted.add_classes({"a class before all others": vectors[1]})
    assert fitted.classes_.tolist() == ["a class before all others", *small["seen"], "class g"]
    assert fitted.seen_mask_.tolist() == [False, *[True] * 6, False]
    assert fitted.candidates().tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    after = fitted.score_classes(X, penalty=False)
    if not fitted.retrains_on_add:
        np.testing.assert_allclose(after[:, 1:], scores, rtol=1e-6, atol=1e-8)
    assert np.array_equal(fitted.decision_function(X), after - fitted.penalties_)
    assert np.array_equal(fitted.class_attributes_[0], vectors[1])
    assert np.array_equal(fitted.class_attributes_[-1], vectors[0])
    assert (fitted.classes_[fitted.score_classes(X).argmax(axis=1)] == fitted.predict(X)).all()


@every_method
def test_fit_adds_the_classes_of_which_it_has_attributes_alone(fitted, name, params, small):
    both = build(name, **params).fit(small["X"], small["y"], small["unseen"] | small["seen"])
    fitted.add_classes(small["unseen"])
    assert both.unseen_classes_.tolist() == list(small["unseen"])
    X = small["X_unseen"]
    np.testing.assert_array_equal(both.score_classes(X), fitted.score_classes(X))


@every_method
def test_adding_one_by_one_or_as_a_frame_equals_adding_at_once(fitted, small, name):
    X = small["X_unseen"]
    fitted.add_classes(small["unseen"])
    at_once = fitted.score_classes(X)
    fitted.remove_classes(list(small["unseen"]))
    for label, vector in small["unseen"].items():
        fitted.add_classes(pd.DataFrame([vector], index=[label]))
    np.testing.assert_allclose(fitted.score_classes(X), at_once, rtol=1e-6, atol=1e-8)


@every_method
def test_candidates_are_respected(fitted, small):
    fitted.add_classes(small["unseen"])
    X = np.concatenate([small["X"][::20], small["X_unseen"][::10]])
    assert set(fitted.predict(X, among="seen")) <= set(small["seen"])
    assert set(fitted.predict(X, among="unseen")) <= set(small["unseen"])
    pair = ["class h", "class a"]
    assert set(fitted.predict(X, among=pair)) <= set(pair)
    expected = fitted.classes_[fitted.score_classes(X).argmax(axis=1)]
    assert fitted.predict(X).tolist() == expected.tolist()


@every_method
def test_calibration_is_taken_off_seen_classes(fitted, small):
    fitted.add_classes(small["unseen"])
    X = np.concatenate([small["X"], small["X_unseen"]])
    raw = fitted.score_classes(X, penalty=False)
    fitted.set_params(calibration=0.7)
    assert np.array_equal(fitted.score_classes(X, penalty=False), raw)
    assert fitted.penalties_.tolist() == [0.7] * 6 + [0.0] * 2
    assert np.array_equal(fitted.score_classes(X), raw - fitted.penalties_)
    fitted.set_params(calibration=1e9)
    assert set(fitted.predict(X)) <= set(small["unseen"])
    fitted.set_params(calibration=-1e9)
    assert set(fitted.predict(X)) <= set(small["seen"])


@every_method
def test_saved_model_predicts_the_same_and_goes_on(fitted, small, tmp_path):
    fitted.add_classes({"class g": small["unseen"]["class g"]})
    scores = fitted.score_classes(small["X_unseen"])
    loaded = load_model(fitted.save(tmp_path / "model", data="small"))
    assert type(loaded) is type(fitted)
    assert loaded.classes_.tolist() == fitted.classes_.tolist()
    assert np.array_equal(loaded.score_classes(small["X_unseen"]), scores)
    assert loaded.about_["data"] == "small"
    for model in (fitted, loaded):
        model.add_classes({"class h": small["unseen"]["class h"]})
    np.testing.assert_allclose(
        loaded.score_classes(small["X_unseen"]),
        fitted.score_classes(small["X_unseen"]),
        rtol=1e-5,
        atol=1e-7,
    )


@pytest.mark.parametrize(("name", "params"), [(name, {}) for name in DIRECT])
def test_order_of_rows_and_keys_has_no_effect(fitted, name, params, small):
    rng = np.random.default_rng(1)
    order = rng.permutation(len(small["X"]))
    table = dict(reversed(list(small["seen"].items())))
    other = clone(fitted).fit(small["X"][order], small["y"][order], class_attributes=table)
    # What a fit holds out to calibrate itself does depend on the order.
    found, expected = (m.score_classes(small["X_unseen"], penalty=False) for m in (other, fitted))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@every_method
def test_integer_labels_work(name, params, small):
    labels, codes = np.unique(small["y"], return_inverse=True)
    table = {int(i) * 10: small["seen"][label] for i, label in enumerate(labels)}
    model = build(name, **params).fit(small["X"], codes * 10, class_attributes=table)
    model.add_classes({7: small["unseen"]["class g"]})
    assert model.classes_.tolist() == [0, 7, 10, 20, 30, 40, 50]
    assert model.unseen_classes_.tolist() == [7]
    with pytest.raises(DataError, match="the classes of this model are numbers"):
        model.add_classes({"seven": small["unseen"]["class g"]})


@every_method
def test_single_instances_and_zero_rows_are_survived(name, params, small):
    X, y = small["X"].copy(), small["y"]
    keep = np.r_[0, np.flatnonzero(y != "class a")]
    X[20] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = build(name, **params).fit(X[keep], y[keep], class_attributes=small["seen"])
    assert np.isfinite(model.add_classes(small["unseen"]).score_classes(X)).all()


def test_unfitted_model_says_so():
    with pytest.raises(NotFittedError):
        METHODS.load("hgkt")().predict([[1.0]])
