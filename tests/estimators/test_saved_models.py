"""Model folders of earlier formats load and score as they did when they were saved."""

from pathlib import Path

import numpy as np
import pytest

from hgkt import HGKTClassifier, HGKTNetworkClassifier, load_model
from hgkt.estimators.methods import METHODS

SAVED = Path(__file__).parent / "saved"
SCORES = np.load(SAVED / "scores.npz")
KINDS = {
    "closed-form": HGKTClassifier,
    "closed-form-grown": HGKTClassifier,
    "closed-form-blocks": HGKTClassifier,
    "closed-form-integers": HGKTClassifier,
    "network": HGKTNetworkClassifier,
    "network-calibrated": HGKTNetworkClassifier,
    "stacked": METHODS.load("eszsl"),
    "plain": METHODS.load("ridge"),
}


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_those_of_the_release_that_saved_it(name, tmp_path):
    model = load_model(SAVED / name)
    assert type(model) is KINDS[name]
    np.testing.assert_allclose(model.score_classes(SCORES["X"]), SCORES[name], rtol=1e-5, atol=1e-6)
    again = load_model(model.save(tmp_path / "again"))
    assert (again.score_classes(SCORES["X"]) == model.score_classes(SCORES["X"])).all()


def test_a_mixture_of_format_3_scores_as_it_did(tmp_path):
    """Several metrics, kernels, ridges, relevances and blocks, and a γ that the fit found."""
    saved = np.load(SAVED / "scores-3.npz")
    model = load_model(SAVED / "format-3")
    np.testing.assert_allclose(
        model.score_classes(saved["X"]), saved["scores"], rtol=1e-5, atol=1e-6
    )
    again = load_model(model.save(tmp_path / "again"))
    assert (again.score_classes(saved["X"]) == model.score_classes(saved["X"])).all()


def test_a_wrapped_calibration_becomes_the_parameter():
    model = load_model(SAVED / "stacked")
    assert model.calibration == 0.5
    assert "calibration" not in model.about_


def test_what_a_model_was_made_with_stays():
    assert load_model(SAVED / "closed-form").about_ == {"made_with": "fixture"}


@pytest.mark.parametrize("name", [n for n in KINDS if n.startswith("closed-form")])
def test_a_closed_form_of_then_grows_on(name):
    model = load_model(SAVED / name)
    label = model.classes_[-1]
    before = model.score_classes(SCORES["X"])
    model.partial_fit(SCORES["X"][4:], [label, label])
    assert label in model.seen_classes_
    assert not np.allclose(model.score_classes(SCORES["X"]), before)
