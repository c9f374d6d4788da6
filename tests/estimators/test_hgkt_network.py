"""The paper's network as an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from tests.folds import make_fold

from hgkt.estimators import HGKTNetworkClassifier, load_model
from hgkt.exceptions import DataError, UnknownNameError

SMALL = {"n_hidden": 24, "n_steps": 40, "learning_rate": 1e-2, "random_state": 0}


def fit(small, **params):
    model = HGKTNetworkClassifier(**{**SMALL, **params})
    return model.fit(small["X"], small["y"], class_attributes=small["seen"])


def test_network_neighbours_are_what_explain_says(small):
    model = fit(small, n_neighbors=2).add_classes(small["unseen"])
    sources = model.explain_class("class g").sources
    table = np.array(list(small["seen"].values()))
    own = np.array(small["unseen"]["class g"])
    cosine = table @ own / np.linalg.norm(table, axis=1) / np.linalg.norm(own)
    nearest = {model.seen_classes_[i] for i in np.argsort(-cosine)[:2]}
    assert {s.label for s in sources} == nearest
    assert [s.weight for s in sources] == [0.5, 0.5]


@pytest.mark.parametrize("options", [
    {"unseen_space": "visual"}, {"aggregation": "per-type"}, {"aggregation": "inter-only"},
    {"loss_nodes": "instance"}, {"loss_nodes": "representative"}, {"graph_space": "attributes"},
    {"representative": "euclidean"}, {"representative": "random"}, {"representative": "medoid"},
    {"symmetric": True}, {"intra": False}, {"n_neighbors": 0}, {"n_neighbors": 50},
    {"optimizer": "adam"}, {"weighting": "uniform"}, {"metric": "cosine"},
    {"output_activation": "relu"}, {"n_sampled": 5},
    pytest.param({"representative": "sinkhorn", "reg": 0.01}, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_every_open_choice_trains_and_saves(small, options, tmp_path):
    model = fit(small, **options).add_classes(small["unseen"])
    scores = model.score_classes(small["X_unseen"])
    assert np.isfinite(scores).all()
    assert model.loss_curve_[-1] < model.loss_curve_[0]
    assert (small["y"][model.representatives_] == model.seen_classes_).all()
    loaded = load_model(model.save(tmp_path / "model"))
    assert np.array_equal(loaded.score_classes(small["X_unseen"]), scores)
    assert loaded.graph_.n_edges() == model.graph_.n_edges()


def test_seed_makes_the_network_repeatable(small):
    one, same, other = (fit(small, random_state=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.class_embeddings_, same.class_embeddings_)
    assert not np.array_equal(one.class_embeddings_, other.class_embeddings_)


def test_step_path_equals_separate_fits(small):
    grid = list(ParameterGrid({"mu": [0.1, 1.0], "n_steps": [10, 25]}))
    model = HGKTNetworkClassifier(**SMALL)
    args = (small["X"], small["y"], small["seen"], small["unseen"], small["X_unseen"])
    scored = dict(model.score_grid(grid, make_fold(*args)))
    for index, params in enumerate(grid):
        alone = clone(model).set_params(**params).fit(*args[:3]).add_classes(args[3])
        np.testing.assert_allclose(scored[index], alone.score_classes(args[4]), atol=1e-9)


def test_network_without_edges_is_a_perceptron_on_attributes(small):
    """Facts of the quotient: without inter-class edges the graph has no effect (that is DEM)."""
    model = fit(small, n_neighbors=0, mu=0.7).add_classes(small["unseen"])
    weights = model._transfer.weights
    rows = np.array([*small["seen"].values(), *small["unseen"].values()])
    for w, b in ((weights.w1, weights.b1), (weights.w2, weights.b2)):
        values = np.concatenate([rows, 0.7 * rows], axis=1) @ w.T + b
        rows = np.where(values > 0, values, 0.2 * values)
    np.testing.assert_allclose(model.class_embeddings_, rows, atol=1e-12)


def test_paper_preset_is_the_letter_of_the_paper():
    params = HGKTNetworkClassifier.from_preset("paper", mu=0.1).get_params()
    expected = {"n_hidden": 1600, "learning_rate": 1e-4, "mu": 0.1, "weight_decay": 1e-3,
                "n_neighbors": 2, "metric": "euclidean", "representative": "sinkhorn",
                "reg": 1e-5, "optimizer": "adam", "n_sampled": 50, "feature_norm": None,
                "feature_map": "none", "attribute_map": "none"}  # fmt: skip
    assert expected.items() <= params.items()
    others = {name: params[name] for name in params if name not in expected}
    assert others.items() <= HGKTNetworkClassifier().get_params().items()


def test_exact_preset_is_the_default():
    params = HGKTNetworkClassifier.from_preset("exact", mu=0.1).get_params()
    expected = {"representative": "wasserstein", "optimizer": "auto", "n_sampled": None,
                "feature_norm": 10.0, "feature_map": "none", "attribute_map": "none"}  # fmt: skip
    assert expected.items() <= params.items()
    assert params == {**HGKTNetworkClassifier().get_params(), "mu": 0.1}


@pytest.mark.filterwarnings("ignore:the entropic")
def test_paper_preset_learns(small):
    rng = np.random.default_rng(0)
    X, y = rng.random((40, 16)) + np.repeat(np.eye(16)[:4], 10, axis=0), np.repeat(list("abcd"), 10)
    model = HGKTNetworkClassifier.from_preset(
        "paper", n_hidden=8, n_steps=30, learning_rate=0.01, device="cpu", random_state=0
    )
    model.fit(X, y, dict(zip("abcd", np.eye(4), strict=True)))
    assert model.loss_curve_[-5:].mean() < model.loss_curve_[:5].mean()
    assert (model.predict(X) == y).mean() > 0.5


def test_unknown_presets_are_refused():
    with pytest.raises(UnknownNameError, match="choose from: default, paper"):
        HGKTNetworkClassifier.from_preset("fast")
    with pytest.raises(UnknownNameError, match="'default' is a preset of HGKTClassifier"):
        HGKTNetworkClassifier.from_preset("default")


def test_network_is_fitted_whole():
    assert not hasattr(HGKTNetworkClassifier(), "partial_fit")


def test_weights_have_the_type_of_the_features(small):
    for dtype in (np.float32, np.float64):
        model = fit({**small, "X": small["X"].astype(dtype)}, n_steps=1)
        assert model.class_embeddings_.dtype == dtype


def test_training_goes_on_from_a_checkpoint(small, tmp_path):
    path = tmp_path / "state"
    data = small["X"], small["y"], small["seen"]
    HGKTNetworkClassifier(**{**SMALL, "n_steps": 25}).write_to(path).fit(*data)
    resumed = HGKTNetworkClassifier(**SMALL).write_to(path).fit(*data)
    np.testing.assert_allclose(resumed.class_embeddings_, fit(small).class_embeddings_, rtol=1e-9)
    assert len(resumed.loss_curve_) == 40
    written = path.stat().st_mtime_ns
    clone(resumed).fit(*data)
    assert path.stat().st_mtime_ns == written


@pytest.mark.parametrize(("params", "match"), [
    ({"n_neighbors": -1}, "n_neighbors must be an integer"),
    ({"unseen_space": "text"}, "unseen_space must be one of"),
    ({"graph_space": "text"}, "graph_space must be one of"),
    ({"representative": "nonsense"}, "representative must be one of"),
    ({"reg": 0}, "reg must be a number"),
    ({"mu": -1}, "mu must be a number"),
    ({"n_steps": "abc"}, "n_steps must be an integer"),
    ({"n_sampled": 0}, "n_sampled must be an integer"),
    ({"weighting": "size"}, "weighting must be one of"),
    ({"metric": "manhattan"}, "metric must be one of"),
    ({"aggregation": "max"}, "aggregation must be one of"),
    ({"loss_nodes": "all"}, "loss_nodes must be one of"),
])  # fmt: skip
def test_wrong_parameters_are_refused_in_one_sentence(small, params, match):
    with pytest.raises(DataError, match=match):
        fit(small, **params)


@pytest.mark.parametrize("factor", [1e3, 1e-3])
@pytest.mark.parametrize("options", [{}, {"n_sampled": 3}, {"optimizer": "adam"}])
def test_predictions_do_not_depend_on_the_unit_of_features(small, factor, options):
    steps = None if not options else 30
    models = [
        fit({**small, "X": small["X"] * unit}, n_steps=steps, **options).add_classes(
            small["unseen"]
        )
        for unit in (1.0, factor)
    ]
    assert (models[0].predict(small["X"]) == models[1].predict(small["X"] * factor)).all()
    embeddings = [model.class_embeddings_ for model in models]
    np.testing.assert_allclose(embeddings[1], factor * embeddings[0], rtol=1e-2, atol=1e-2 * factor)
    losses = [model.loss_curve_[-1] for model in models]
    assert losses[1] == pytest.approx(factor**2 * losses[0], rel=1e-2)


def test_training_goes_to_the_end_unless_told_the_steps(small):
    model = fit(small, n_steps=None)
    longer = fit(small, n_steps=len(model.loss_curve_) + 100)
    assert model.loss_curve_[-1] < 0.5 * model.loss_curve_[0]
    assert model.loss_curve_[-1] == pytest.approx(longer.loss_curve_[-1], rel=0.05)
    assert len(fit(small, n_steps=7).loss_curve_) == 7


def test_grid_shares_a_run_between_the_end_and_fewer_steps(small):
    grid = [{"n_steps": None}, {"n_steps": 5}]
    model = HGKTNetworkClassifier(**SMALL)
    data = (small["X"], small["y"], small["seen"], small["unseen"], small["X"][:6])
    scores = dict(model.score_grid(grid, make_fold(*data)))
    for index, params in enumerate(grid):
        alone = fit(small, **params).add_classes(small["unseen"])
        np.testing.assert_array_equal(scores[index], alone.score_classes(small["X"][:6]))
