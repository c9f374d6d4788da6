from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import ParameterGrid
from tests.folds import make_fold

from hgkt.data import load_dataset
from hgkt.estimators import HGKTClassifier, load_model
from hgkt.exceptions import ClassWarning, DataError, UnknownNameError


def fit(small, **params):
    return HGKTClassifier(**params).fit(small["X"], small["y"], class_attributes=small["seen"])


# ---------------------------------------------------------------------- closed form
def test_closed_form_matches_the_formulas_written_out(small):
    model = fit(small, shrinkage=0.4, ridge=0.05, weighting="uniform").add_classes(small["unseen"])
    phi = np.sqrt(small["X"]) / np.linalg.norm(np.sqrt(small["X"]), axis=1, keepdims=True)
    labels = sorted(small["seen"])
    means = np.array([phi[small["y"] == name].mean(axis=0) for name in labels])
    residuals = phi - means[np.searchsorted(labels, small["y"])]
    scatter = residuals.T @ residuals / len(phi)
    shrunk = 0.6 * scatter + 0.4 * np.trace(scatter) / 12 * np.eye(12)
    eigenvalues, vectors = np.linalg.eigh(shrunk)
    whitening = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    table = np.sqrt(np.array([*small["seen"].values(), *small["unseen"].values()]))
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    squared = ((table[:, None] - table[:6]) ** 2).sum(axis=2)
    kernel = np.exp(-squared / np.median(squared[:6][np.triu_indices(6, 1)]))
    center = means.mean(axis=0)
    weights = kernel @ np.linalg.inv(kernel[:6] + 0.05 * np.eye(6))
    z = weights @ (means - center) @ whitening
    x = np.sqrt(small["X_unseen"])
    x = (x / np.linalg.norm(x, axis=1, keepdims=True) - center) @ whitening
    cosine = (x @ z.T) / np.linalg.norm(x, axis=1)[:, None] / np.linalg.norm(z, axis=1)
    scores = model.score_classes(small["X_unseen"], penalty=False)
    np.testing.assert_allclose(scores, cosine, atol=1e-9)


def test_closed_form_solves_the_small_problem(small):
    model = fit(small).add_classes(small["unseen"])
    assert (model.predict(small["X_unseen"], among="unseen") == small["y_unseen"]).mean() > 0.9
    assert (model.predict(small["X"], among="seen") == small["y"]).mean() > 0.95


def test_plain_classifier_is_linear_discriminant_analysis(small):
    """One-hot classes, Euclidean scores, no ridge: the class means in the same metric."""
    scatter_share = 1e-9
    model = HGKTClassifier(
        feature_map="none", metric="euclidean", kernel="linear", ridge=1e-9, weighting="uniform",
        shrinkage=scatter_share,
    ).fit(small["X"], small["y"])  # fmt: skip
    lda = LinearDiscriminantAnalysis(solver="lsqr").fit(small["X"], small["y"])
    queries = np.concatenate([small["X"], small["X_unseen"]])
    assert (model.predict(queries) == lda.predict(queries)).all()


@pytest.mark.parametrize("rows", [8, 90])
def test_more_features_than_instances_is_safe(small, rows):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(rows, 200)))
    y = np.array(["a", "b"] * (rows // 2))
    for shrinkage in (0.0, 0.5, "oas"):
        model = HGKTClassifier(shrinkage=shrinkage)
        with pytest.warns(ClassWarning, match="'b' is described like class 'a'"):
            model.fit(X, y, {"a": [1.0, 0.0], "b": [1.0, 0.0]})
        with pytest.warns(ClassWarning, match="'c' is described like class 'a'"):
            model.add_classes({"c": [1.0, 0.0]})
        assert np.isfinite(model.score_classes(X)).all()


def test_features_with_negative_entries_and_constant_channels_are_safe(small):
    X = small["X"] - small["X"].mean()
    X[:, 3] = 7.0
    for feature_map in ("none", "l2", "sqrt+l2", 0.3):
        model = HGKTClassifier(feature_map=feature_map).fit(X, small["y"], small["seen"])
        assert (model.predict(X) == small["y"]).mean() > 0.9


def test_ablations_are_the_euclidean_metric_and_a_linear_map(small):
    X = small["X_unseen"]
    for ablation, same in (({"intra": False}, {"shrinkage": 1.0}),
                           ({"inter": False}, {"kernel": "linear"})):  # fmt: skip
        one, other = (
            fit(small, **params).add_classes(small["unseen"]) for params in (ablation, same)
        )
        np.testing.assert_allclose(one.score_classes(X), other.score_classes(X))
        assert not np.allclose(
            one.score_classes(X), fit(small).add_classes(small["unseen"]).score_classes(X)
        )


def test_grid_with_shared_work_equals_separate_fits(small):
    grid = list(ParameterGrid({
        "feature_map": ["l2", "sqrt+l2"], "shrinkage": [0.2, "oas"], "kernel": ["rbf", "quadratic"],
        "ridge": [0.01, 0.1], "norm_power": [1.0, 1.3], "metric": ["cosine", "euclidean"],
        "observed": [False, True],
    }))  # fmt: skip
    model = HGKTClassifier()
    args = (small["X"], small["y"], small["seen"], small["unseen"], small["X_unseen"])
    scored = dict(model.score_grid(grid, make_fold(*args)))
    assert sorted(scored) == list(range(len(grid)))
    for index in range(0, len(grid), 7):
        alone = clone(model).set_params(**grid[index]).fit(*args[:3]).add_classes(args[3])
        expected = alone.score_classes(args[4], penalty=False)
        np.testing.assert_allclose(scored[index], expected, atol=1e-8)


def test_calibration_lowers_seen_scores_only(small):
    plain, calibrated = fit(small, calibration=0), fit(small, calibration=0.25)
    for model in (plain, calibrated):
        model.add_classes(small["unseen"])
    difference = plain.score_classes(small["X"]) - calibrated.score_classes(small["X"])
    np.testing.assert_allclose(difference, [[0.25] * 6 + [0.0] * 2] * len(small["X"]), atol=1e-12)


def test_float32_and_float64_agree(small):
    wide = fit(small).add_classes(small["unseen"])
    narrow = HGKTClassifier().fit(small["X"].astype(np.float32), small["y"], small["seen"])
    narrow.add_classes(small["unseen"])
    X = small["X_unseen"]
    np.testing.assert_allclose(
        narrow.score_classes(X.astype(np.float32)), wide.score_classes(X), atol=1e-4
    )


def test_memory_mapped_features_stay_on_disk(small, tmp_path):
    np.save(tmp_path / "features.npy", small["X"])
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    model = HGKTClassifier().fit(mapped, small["y"], small["seen"])
    expected = fit(small).class_embeddings_
    np.testing.assert_allclose(model.class_embeddings_, expected)


# ---------------------------------------------------------------------- classes that grow up
def test_batches_in_any_order_equal_one_fit(small):
    X = np.concatenate([small["X"], small["X_unseen"]])
    y = np.concatenate([small["y"], small["y_unseen"]])
    table = {**small["seen"], **small["unseen"]}
    whole = HGKTClassifier(calibration=0).fit(X, y, table)
    order = np.random.default_rng(5).permutation(len(X))
    model = HGKTClassifier()
    for rows in np.array_split(order, 7):
        present = {name: table[name] for name in np.unique(y[rows]).tolist()}
        model.partial_fit(X[rows], y[rows], class_attributes=present)
    assert model.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(model.score_classes(X), whole.score_classes(X), atol=1e-8)


def test_added_class_becomes_seen_with_its_first_instance(small, tmp_path):
    model = fit(small).add_classes(small["unseen"])
    model = load_model(model.save(tmp_path / "model"))
    model.partial_fit(small["X_unseen"][:1], small["y_unseen"][:1])
    assert model.seen_classes_.tolist() == [*small["seen"], "class g"]
    assert model.unseen_classes_.tolist() == ["class h"]
    assert model.predict(small["X_unseen"][:1], among=["class g", "class h"]) == ["class g"]


def test_embedding_moves_from_the_predicted_to_the_observed_mean(small):
    """The weight of a class's own mean in its embedding rises with its instances."""
    own = []
    for n in (1, 3, 15):
        model = fit(small).add_classes(small["unseen"])
        model.partial_fit(small["X_unseen"][:n], small["y_unseen"][:n])
        sources = {s.label: s.weight for s in model.explain_class("class g").sources}
        own.append(sources["class g"])
    assert 0 < own[0] < own[1] < own[2] <= 1.0


def test_a_grown_class_pays_as_much_of_the_calibration_as_it_has_learned(small, tmp_path):
    shares = []
    for n in (1, 3, 15):
        model = fit(small, calibration=0.25).add_classes(small["unseen"])
        model.partial_fit(small["X_unseen"][:n], small["y_unseen"][:n])
        model = load_model(model.save(tmp_path / "model"))
        model.partial_fit(small["X"][:2], small["y"][:2])
        paid = model.score_classes(small["X"], penalty=False) - model.score_classes(small["X"])
        assert model.classes_.tolist() == [*small["seen"], "class g", "class h"]
        shares.append(model.learned_shares()[6])
        expected = [0.25] * 6 + [0.25 * shares[-1], 0.0]
        np.testing.assert_allclose(paid, [expected] * len(small["X"]), atol=1e-12)
    assert 0 < shares[0] <= shares[1] <= shares[2] <= 1


def test_partial_fit_needs_attributes_of_new_classes(small):
    model = fit(small)
    with pytest.raises(DataError, match="'class g' has no attributes"):
        model.partial_fit(small["X_unseen"], small["y_unseen"])
    assert model.classes_.tolist() == list(small["seen"])


# ---------------------------------------------------------------------- explanations
def test_source_weights_sum_to_the_embedding(small):
    model = fit(small).add_classes(small["unseen"])
    (metric,) = model._transfer.settings.metric_keys
    means = model._transfer.source_vectors(metric)
    vectors = dict(zip(model.seen_classes_, means, strict=True))
    for column, label in enumerate(model.classes_):
        explanation = model.explain_class(label)
        total = sum(source.weight * vectors[source.label] for source in explanation.sources)
        own = total / np.linalg.norm(total)
        np.testing.assert_allclose(own, model.class_embeddings_[column], atol=1e-8)
        assert explanation.seen == (column < 6)


@pytest.mark.parametrize(
    "params",
    [
        {"norm_power": 1.0},
        {"norm_power": 1.3},
        {"observed": True},
        {
            "members": [
                {"norm_power": 1.2, "weight": 2.0},
                {"shrinkage": 0.9, "observed": True},
                {"feature_map": "l2", "kernel": "linear", "weight": 0.5},
            ]
        },
    ],
)
def test_pulls_sum_to_the_score(small, params):
    model = fit(small, **params, calibration=0.1).add_classes(small["unseen"])
    rows = np.concatenate([small["X"][::15], small["X_unseen"][::5]])
    explanations = model.explain(rows)
    assert {e.label in small["seen"] for e in explanations} == {True, False}
    for explanation in explanations:
        penalty = 0.1 if explanation.label in small["seen"] else 0.0
        assert sum(p.weight for p in explanation.pulls) - penalty == pytest.approx(
            explanation.score
        )
        assert explanation.margin == pytest.approx(
            explanation.score - explanation.runner_ups[0].weight
        )


def test_explain_of_unknown_class_is_refused(small):
    with pytest.raises(DataError, match="'zebra' is unknown"):
        fit(small).explain_class("zebra")


@pytest.mark.parametrize(("params", "match"), [
    ({"calibration": "high"}, "calibration must be one of 'auto', 'balanced'"),
    ({"norm_power": -1}, "norm_power must be a number"),
    ({"weighting": "size"}, "weighting must be one of"),
    ({"shrinkage": 1.5}, r"shrinkage must be a number in \[0, 1\]; got 1.5"),
    ({"ridge": 0}, r"ridge must be a number in \(0, inf\]; got 0"),
    ({"kernel": "cubic"}, "kernel must be one of"),
    ({"feature_map": "cube"}, "feature_map must be one of"),
    ({"metric": "manhattan"}, "metric must be one of"),
])  # fmt: skip
def test_wrong_parameters_are_refused_in_one_sentence(small, params, match):
    with pytest.raises(DataError, match=match):
        fit(small, **params)


def test_a_preset_of_the_network_is_refused():
    with pytest.raises(UnknownNameError, match="'paper' is a preset of HGKTNetworkClassifier"):
        HGKTClassifier.from_preset("paper")


# ---------------------------------------------------------------------- the whole
def test_digits_are_recognised_without_having_been_seen():
    data = load_dataset("digits")
    X, y = data.rows("train")
    model = HGKTClassifier().fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_unseen, y_unseen = data.rows("test_unseen")
    assert (model.predict(X_unseen, among="unseen") == y_unseen).mean() > 0.85


@pytest.mark.endure
def test_import_is_light():
    code = (
        "import sys, hgkt; assert 'torch' not in sys.modules and 'sklearn' not in sys.modules; "
        "from hgkt import HGKTClassifier; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_row_per_class_is_said_and_compared_without_a_metric():
    rng = np.random.default_rng(0)
    X, A = rng.random((7, 5)), rng.random((7, 3))
    names = [f"class {i}" for i in range(7)]
    with pytest.warns(ClassWarning, match="each of the 7 classes has one row"):
        model = HGKTClassifier().fit(X, names, dict(zip(names, A, strict=True)))
    plain = HGKTClassifier(intra=False).fit(X, names, dict(zip(names, A, strict=True)))
    np.testing.assert_allclose(model.score_classes(X), plain.score_classes(X), rtol=1e-6)
