"""The guide to adding a method: its example is taken from the page and has to work."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import check_estimator

from hgkt import baselines
from hgkt.data import load_dataset
from hgkt.estimators import METHODS, load_model
from hgkt.evaluation import evaluate

PAGE = Path(__file__).resolve().parents[2] / "docs" / "add_a_method.md"
NAME, MODULE = "attribute-regression", "attribute_regression"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(scope="module")
def method(blocks, tmp_path_factory):
    # A module of its own, since scikit-learn's checks pickle the estimator.
    folder = tmp_path_factory.mktemp("guide")
    (folder / f"{MODULE}.py").write_text(blocks[0], encoding="utf-8")
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(MODULE).AttributeRegressionClassifier
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def digits():
    return load_dataset("digits")


@pytest.fixture
def fitted(method, digits):
    X, y = digits.rows("train")
    model = method(ridge=2.0).fit(X, y, class_attributes=digits.attributes_of(digits.seen_classes))
    return model.add_classes(digits.attributes_of(digits.unseen_classes))


@pytest.fixture
def registered(blocks, method, monkeypatch):
    entry = eval(f"{{{blocks[1]}}}", vars(baselines))[NAME]  # noqa: S307
    assert entry.target == f"hgkt.baselines.{MODULE}:{method.__name__}"
    assert entry.family in {other.family for other in METHODS.values()}
    here = type(entry)(f"{MODULE}:{method.__name__}", entry.summary, entry.reference, entry.family)
    monkeypatch.setitem(METHODS._entries, NAME, here)
    return METHODS.load(NAME)


def test_example_scores_as_scikit_learn_ridge_regression(fitted, digits):
    X, y = digits.rows("train")
    rows = dict(zip(fitted.classes_, fitted.class_attributes_, strict=True))
    targets = np.stack([rows[name] for name in y])
    predicted = Ridge(alpha=2.0 * len(X)).fit(X, targets).predict(X[:40])
    expected = -((predicted[:, None] - fitted.class_attributes_[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(fitted.score_classes(X[:40]), expected, rtol=1e-5, atol=1e-6)


def test_example_adds_classes_and_beats_chance_on_them(fitted, digits):
    assert fitted.unseen_classes_.tolist() == list(digits.attributes_of(digits.unseen_classes))
    X, y = digits.rows("test_unseen")
    assert (fitted.predict(X, among="unseen") == y).mean() > 0.8  # chance is 0.5


def test_example_is_evaluated_with_selection(method, digits):
    record = evaluate(method(), digits, select=True, calibrate=True)
    assert record.selected["ridge"] in method().default_stages()[0]["ridge"]
    assert record.validation["n_settings"] == 8
    assert record.metrics.H > 50 > record.uncalibrated.H


def test_example_passes_the_checks_of_scikit_learn(method):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(method(), on_skip=None)


def test_registry_line_makes_the_example_loadable(registered, fitted, digits, tmp_path):
    assert registered is type(fitted)
    X, _ = digits.rows("test_unseen")
    loaded = load_model(fitted.save(tmp_path / "model"))
    assert type(loaded) is registered
    np.testing.assert_array_equal(loaded.score_classes(X), fitted.score_classes(X))


def test_closing_snippet_runs(blocks, method, capsys):
    exec(blocks[2], {method.__name__: method})
    text = capsys.readouterr().out
    assert re.search(
        r"among unseen digits 0\.\d+\nridge \S+ H \d\S+\nwithout calibration H \d", text
    )
