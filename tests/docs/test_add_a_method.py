"""The guide to adding a method: its example is taken from the page and has to work."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import check_estimator
from typer.testing import CliRunner

from hgkt import baselines
from hgkt.cli.main import app
from hgkt.data import load_dataset
from hgkt.estimators import METHODS, load_model
from hgkt.evaluation import evaluate
from hgkt.exceptions import DataError, UnknownNameError

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


# ------------------------------------------------------------------ a plug-in
@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """The two files of the page as `pip install` would leave them, found by a new registry."""
    page = PAGE.read_text(encoding="utf-8").partition("## Without editing the package")[2]
    project = tomllib.loads(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    (tmp_path / "nearest_mean.py").write_text(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1])
    points = project["project"]["entry-points"]["hgkt.methods"]
    assert project["tool"]["hatch"]["build"]["include"] == ["nearest_mean.py"]
    install(tmp_path, points)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(METHODS.__dict__, "_entries", raising=False)
    yield tmp_path
    sys.modules.pop("nearest_mean", None)
    METHODS.__dict__.pop("_entries", None)


def install(folder, points):
    """Write the metadata by which Python finds a package's entry points."""
    info = folder / "nearest_mean-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest-mean\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in points.items())
    (info / "entry_points.txt").write_text(f"[hgkt.methods]\n{lines}")


def test_plug_in_of_the_page_is_listed_evaluated_trained_and_loaded(plug_in, tmp_path, digits):
    for arguments in (
        ["methods"],
        ["evaluate", "--method", "nearest-mean", "--data", "digits", "--select", "--json"],
        ["train", "--method", "nearest-mean", "--data", "digits", "--with-unseen",
         "--out", str(tmp_path / "model")],
    ):  # fmt: skip
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert "nearest-mean" in done.output
    X, y = digits.rows("test_unseen")
    loaded = load_model(tmp_path / "model")
    assert type(loaded).__name__ == "NearestMeanClassifier"
    assert (loaded.predict(X, among="unseen") == y).mean() > 0.6  # chance is 0.5


@pytest.mark.parametrize(
    ("points", "code", "sentence"),
    [
        ({"mine": "wrong:METHODS"}, 'METHODS = {"mine": "wrong:Class"}', "'mine' is a str"),
        ({"mine": "wrong:METHODS"}, 'METHODS = "wrong:Class"', "is a str; a dict from name"),
        ({"mine": "wrong:METHODS"}, "", "cannot be imported"),
    ],
)
def test_a_wrong_entry_gets_a_sentence(plug_in, points, code, sentence):
    (plug_in / "wrong.py").write_text(code)
    install(plug_in, points)
    sys.modules.pop("wrong", None)
    with pytest.raises(UnknownNameError) as error:
        list(METHODS)
    assert sentence in str(error.value)
    assert "(wrong:METHODS)" in str(error.value)
    sys.modules.pop("wrong", None)


def test_an_entry_that_leads_nowhere_gets_a_sentence(plug_in):
    code = (plug_in / "nearest_mean.py").read_text()
    (plug_in / "nearest_mean.py").write_text(
        code.replace('Entry("nearest_mean:', 'Entry("nowhere:')
    )
    with pytest.raises(UnknownNameError, match=r"'nearest-mean' cannot be imported from 'nowhere:"):
        METHODS.load("nearest-mean")


def test_learned_state_that_no_model_folder_holds_gets_a_sentence(method, digits, tmp_path):
    class Wrong(method):
        _learned = ("weights_", "intercept_", "found_")

    X, y = digits.rows("train")
    model = Wrong().fit(X, y, digits.attributes_of(digits.seen_classes))
    model.found_ = {"weights": model.weights_}
    with pytest.raises(DataError, match="_learned of Wrong names 'found_', which is a dict"):
        model.save(tmp_path / "model")


def test_baselines_are_found_where_nothing_is_installed(monkeypatch):
    """As in a source checkout: PYTHONPATH=src python -m hgkt."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    monkeypatch.delitem(METHODS.__dict__, "_entries", raising=False)
    assert {"hgkt", "hgkt-network", *baselines.BASELINES} == set(METHODS)
