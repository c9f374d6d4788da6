"""Defaults, grids, folders and ties: small promises of the estimators."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.folds import make_fold

from hgkt import HGKTClassifier, HGKTNetworkClassifier, load_model
from hgkt.estimators import METHODS
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.model_folder import config_digest
from hgkt.exceptions import ClassWarning, ModelFolderError

RNG = np.random.default_rng(0)
X, Y = RNG.random((24, 5)), np.repeat(list("abcdef"), 4)
TABLE = dict(zip("abcdef", RNG.random((6, 3)), strict=True))
NEW = {"x": RNG.random(3), "y": RNG.random(3)}


def test_parameters_of_the_closed_form_have_these_defaults() -> None:
    assert HGKTClassifier().get_params() == {
        "feature_map": "sqrt+l2",
        "attribute_map": "sqrt+l2",
        "metric": "cosine",
        "intra": True,
        "inter": True,
        "weighting": "count",
        "shrinkage": 0.5,
        "kernel": "rbf",
        "kernel_scale": 1.0,
        "n_neighbors": 2,
        "ridge": 0.03,
        "norm_power": 1.0,
        "relevance": False,
        "attribute_blocks": None,
        "block_weights": None,
        "observed": False,
        "prior": None,
        "shared_space": False,
        "members": None,
        "calibration": "auto",
        "device": "auto",
    }


def test_parameters_of_the_network_have_these_defaults() -> None:
    assert HGKTNetworkClassifier().get_params() == {
        "n_neighbors": 2,
        "representative": "wasserstein",
        "reg": 1e-3,
        "graph_space": "wasserstein",
        "unseen_space": "attributes",
        "symmetric": False,
        "intra": True,
        "aggregation": "union",
        "mu": 0.5,
        "n_hidden": 1600,
        "output_activation": "leaky_relu",
        "loss_nodes": "class",
        "weighting": "count",
        "weight_decay": 1e-3,
        "feature_norm": 10.0,
        "optimizer": "auto",
        "learning_rate": 1e-4,
        "n_steps": None,
        "n_sampled": None,
        "feature_map": "none",
        "attribute_map": "none",
        "metric": "euclidean",
        "calibration": 0.0,
        "device": "auto",
        "random_state": None,
    }


# ------------------------------------------------------------------ grids
def test_the_network_trains_to_the_end_and_chooses_the_rest() -> None:
    stages = HGKTNetworkClassifier().default_stages()
    chosen = [name for stage in stages for name in stage]
    assert chosen == [
        "feature_map", "attribute_map", "weight_decay", "mu", "n_neighbors",
    ]  # fmt: skip
    literal = HGKTNetworkClassifier().get_params()
    for stage in stages:  # the paper's own values can be chosen
        assert all(literal[name] in values for name, values in stage.items())
    assert HGKTNetworkClassifier().default_folds(50) == 3
    assert [HGKTClassifier().default_folds(n) for n in (19, 20)] == [6, 3]
    assert HGKTClassifier().default_stages() == []


def test_a_method_without_a_grid_of_its_own_fits_every_setting() -> None:
    grid = [{"ridge": 0.01}, {"ridge": 1.0, "calibration": 5.0}]
    heard: list[Any] = []
    fold = make_fold(X, Y, TABLE, NEW, X[:4])
    scored = GZSLClassifier.score_grid(
        HGKTClassifier(), grid, fold, lambda *call: heard.append(call)
    )
    found = list(scored)
    assert [index for index, _ in found] == [0, 1]
    assert heard == [("select", 1, 2, {}), ("select", 2, 2, {})]
    for (_, scores), params in zip(found, grid, strict=True):
        alone = HGKTClassifier(**params).fit(X, Y, TABLE).add_classes(NEW)
        np.testing.assert_array_equal(scores, alone.score_classes(X[:4], penalty=False))


def test_settings_of_the_network_share_representatives_and_training() -> None:
    small = HGKTNetworkClassifier(n_hidden=4, random_state=0, device="cpu")
    grid = [{"mu": mu, "n_steps": n} for n in (3, 2) for mu in (0.1, 1.0)]
    heard: list[Any] = []
    fold = make_fold(X, Y, TABLE, NEW, X[:4])
    scored = dict(small.score_grid(grid, fold, lambda *call: heard.append(call[:3])))
    assert sorted(scored) == [0, 1, 2, 3]
    assert [call for call in heard if call[0] == "representatives"] == [
        ("representatives", done, 6) for done in range(1, 7)
    ]
    trained = [call for call in heard if call[0] == "train" and call[1] == call[2]]
    assert trained == [("train", 3, 3)] * 2  # once for each μ, to the longest


def test_weights_that_are_none_are_refused(tmp_path: Path) -> None:
    folder = HGKTClassifier().fit(X, Y, TABLE).save(tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"no weights")
    config = json.loads((folder / "config.json").read_text())
    config["sha256"]["model.safetensors"] = hashlib.sha256(b"no weights").hexdigest()
    config["sha256"]["config.json"] = config_digest(config)
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFolderError) as refused:
        load_model(folder)
    weights = folder / "model.safetensors"
    assert str(refused.value).startswith(f"{weights} cannot be read as a file of arrays: ")


def test_a_learned_number_is_a_number_again(tmp_path: Path) -> None:
    model = METHODS.load("dap")().fit(X, Y, TABLE)
    loaded = load_model(model.save(tmp_path / "model"))
    for name in type(model)._learned:
        ours, theirs = getattr(loaded, name), getattr(model, name)
        assert isinstance(ours, np.ndarray) == isinstance(theirs, np.ndarray), name


# ------------------------------------------------------------------ ties
def test_classes_that_tie_are_named_in_their_order() -> None:
    twins = {f"n{i:02d}": NEW["x"] for i in range(40)}
    model = HGKTClassifier().fit(X, Y, TABLE)
    with pytest.warns(ClassWarning, match=r"'n\d\d' is described like class 'n00'"):
        model.add_classes(twins)
    [explanation] = model.explain(X[:1], n_runner_ups=45)
    named = [explanation.label, *(other.label for other in explanation.runner_ups)]
    assert [name for name in named if name in twins] == list(twins)
    assert model.predict(X[:1], among=list(twins)).tolist() == ["n00"]


def test_an_explanation_names_margin_and_as_many_others_as_asked() -> None:
    model = HGKTClassifier().fit(X, Y, TABLE)
    scores = model.score_classes(X[:3])
    for explanation, row in zip(model.explain(X[:3], n_runner_ups=2), scores, strict=True):
        order = np.argsort(-row)
        assert explanation.label == "abcdef"[order[0]]
        assert explanation.score == row[order[0]]
        assert explanation.margin == row[order[0]] - row[order[1]]
        assert [(o.label, o.weight) for o in explanation.runner_ups] == [
            ("abcdef"[c], row[c]) for c in order[1:3]
        ]
    assert len(model.explain(X[:1])[0].runner_ups) == 3
