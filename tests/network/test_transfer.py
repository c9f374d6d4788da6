"""Every parameter of the paper's network reaches the algorithm it belongs to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from hgkt import HGKTNetworkClassifier, load_model
from hgkt.exceptions import DataError
from hgkt.graph import Quotient, construct_graph, nearest_classes
from hgkt.network.loss import Targets
from hgkt.network.train import TrainingConfig, train_embedder
from hgkt.transport import select_representatives

RNG = np.random.default_rng(5)
NAMES = list("abcde")
CODES = RNG.permutation(np.repeat(np.arange(5), [7, 4, 9, 5, 6]))
X = RNG.random((5, 8))[CODES] ** 2 + 0.3 * RNG.random((31, 8))
Y = np.array(NAMES)[CODES]
ATTRIBUTES = RNG.random((5, 3)) + 0.1
TABLE = dict(zip(NAMES, ATTRIBUTES, strict=True))
NEW = {"x": RNG.random(3), "y": RNG.random(3)}
SMALL: dict[str, Any] = {"n_hidden": 6, "n_steps": 5, "device": "cpu", "random_state": 0}


def fit(**options: Any) -> HGKTNetworkClassifier:
    return HGKTNetworkClassifier(**{**SMALL, **options}).fit(X, Y, class_attributes=TABLE)


@pytest.mark.parametrize("feature_map", ["none", "sqrt+l2"])
@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid", "random", "sinkhorn"])
def test_representatives_are_chosen_as_asked(method: str, feature_map: str) -> None:
    model = fit(representative=method, feature_map=feature_map, reg=0.05, random_state=7)
    rows = np.sqrt(X) / np.sqrt(X.sum(axis=1, keepdims=True)) if feature_map != "none" else X
    entropic = method == "sinkhorn"
    expected = select_representatives(
        rows,
        CODES,
        5,
        "wasserstein" if entropic else method,
        solver="sinkhorn" if entropic else "exact",
        reg=0.05,
        random_state=7,
    )
    assert model.representatives_.tolist() == expected.indices.tolist()


def test_representatives_differ_between_the_methods() -> None:
    # Without this the test above could not fail.
    found = {
        tuple(fit(representative=method).representatives_.tolist())
        for method in ("wasserstein", "euclidean", "medoid", "random")
    }
    assert len(found) >= 3


@pytest.mark.parametrize("space", ["wasserstein", "euclidean", "cosine", "attributes"])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("intra", [False, True])
def test_the_graph_is_built_as_asked(space: str, symmetric: bool, intra: bool) -> None:
    model = fit(graph_space=space, symmetric=symmetric, intra=intra, n_neighbors=1)
    expected = construct_graph(
        X, CODES, ATTRIBUTES, representatives=model.representatives_, k=1, space=space,
        symmetric=symmetric, intra=intra,
    )  # fmt: skip
    assert model.graph_.neighbors.indices.tolist() == expected.neighbors.indices.tolist()
    assert model.graph_.neighbors.indptr.tolist() == expected.neighbors.indptr.tolist()
    assert model.graph_.intra == intra
    assert model.graph_.codes.tolist() == CODES.tolist()


def test_the_spaces_of_the_graph_differ() -> None:
    found = {
        tuple(fit(graph_space=space, n_neighbors=1).graph_.neighbors.indices.tolist())
        for space in ("wasserstein", "euclidean", "attributes")
    }
    assert len(found) == 3


def test_a_new_class_finds_its_neighbours_in_the_space_asked_for() -> None:
    rows = np.stack(list(NEW.values()))
    model = fit(n_neighbors=2).add_classes(NEW)
    nearest = nearest_classes(rows, ATTRIBUTES, 2, "attributes")
    for name, row in zip(NEW, nearest, strict=True):
        sources = model.explain_class(name).sources
        assert {source.label for source in sources} == {NAMES[code] for code in row}
    visual = fit(n_neighbors=2, unseen_space="visual").add_classes(NEW)
    alone = HGKTNetworkClassifier(**SMALL, n_neighbors=2, unseen_space="visual")
    alone.fit(X, Y, class_attributes=TABLE)
    weights, hidden = alone._transfer.weights, alone._transfer.seen.hidden
    first = weights.embed_new(rows, np.empty((2, 0), int), ATTRIBUTES, hidden)
    near = nearest_classes(first, alone.class_embeddings_, 2, "euclidean")
    for name, row in zip(NEW, near, strict=True):
        sources = visual.explain_class(name).sources
        assert {source.label for source in sources} == {NAMES[code] for code in row}
    np.testing.assert_allclose(
        visual.class_embeddings_[5:], weights.embed_new(rows, near, ATTRIBUTES, hidden), atol=1e-9
    )


@pytest.mark.parametrize("aggregation", ["union", "per-type", "inter-only"])
@pytest.mark.parametrize("output", ["leaky_relu", "linear"])
def test_a_loaded_model_adds_classes_as_the_saved_one_does(
    aggregation: str, output: str, tmp_path: Path
) -> None:
    model = fit(aggregation=aggregation, mu=0.9, output_activation=output, attribute_map="l2")
    loaded = load_model(model.save(tmp_path / "model"))
    model.add_classes(NEW)
    loaded.add_classes(NEW)
    np.testing.assert_array_equal(loaded.class_embeddings_, model.class_embeddings_)
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
    np.testing.assert_array_equal(loaded.loss_curve_, model.loss_curve_)
    assert loaded.representatives_.tolist() == model.representatives_.tolist()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_scores_compare_features_and_embeddings_by_the_metric(metric: str) -> None:
    model = fit(metric=metric, feature_map="l2")
    rows, z = X / np.linalg.norm(X, axis=1, keepdims=True), model.class_embeddings_
    if metric == "euclidean":
        expected = -((rows[:, None] - z[None]) ** 2).sum(axis=2)
    else:
        expected = rows @ (z / np.linalg.norm(z, axis=1, keepdims=True)).T
    np.testing.assert_allclose(model.score_classes(X), expected, atol=1e-9)


def test_progress_tells_both_stages() -> None:
    heard: list[Any] = []
    model = HGKTNetworkClassifier(**SMALL).on_progress(lambda *call: heard.append(call[:3]))
    model.fit(X, Y, class_attributes=TABLE)
    assert heard == [*(("representatives", c, 5) for c in range(1, 6)), ("train", 5, 5)]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"n_neighbors": -1}, "n_neighbors must be an integer in [0, inf]; got -1"),
        ({"n_neighbors": 1.5}, "n_neighbors must be an integer in [0, inf]; got 1.5"),
        (
            {"representative": "mean"},
            "representative must be one of 'wasserstein', 'sinkhorn', 'euclidean', 'random', "
            "'medoid'; got 'mean'",
        ),
        ({"reg": 0.0}, "reg must be a number in (0, inf]; got 0.0"),
        (
            {"graph_space": "hyperbolic"},
            "graph_space must be one of 'wasserstein', 'euclidean', 'cosine', 'attributes'; "
            "got 'hyperbolic'",
        ),
        (
            {"unseen_space": "both"},
            "unseen_space must be one of 'attributes', 'visual'; got 'both'",
        ),
        ({"metric": "angle"}, "metric must be one of 'cosine', 'euclidean'; got 'angle'"),
        ({"weighting": "image"}, "weighting must be one of 'count', 'uniform'; got 'image'"),
        (
            {"aggregation": "sum"},
            "aggregation must be one of 'union', 'per-type', 'inter-only'; got 'sum'",
        ),
        ({"mu": -1.0}, "mu must be a number in [0, inf]; got -1.0"),
        ({"n_sampled": 0}, "n_sampled must be an integer in [1, inf]; got 0"),
    ],
)
def test_parameters_are_refused_with_a_whole_sentence(
    options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(DataError) as refused:
        fit(**options)
    assert str(refused.value) == sentence


@pytest.mark.parametrize("name", ["feature_map", "attribute_map"])
def test_maps_are_refused_by_their_own_name(name: str) -> None:
    with pytest.raises(DataError, match=f"^{name} must be "):
        fit(**{name: "cube"})


CHOSEN = select_representatives(X, CODES, 5).indices
GRAPH = construct_graph(X, CODES, ATTRIBUTES, representatives=CHOSEN)
TARGETS = Targets.from_features(X, CODES, 5, CHOSEN)
SAMPLED = TrainingConfig(n_steps=3, n_hidden=4, n_sampled=2, device="cpu", loss_nodes="instance")


def run(config: TrainingConfig, attributes: Any = ATTRIBUTES, chosen: Any = CHOSEN) -> Any:
    quotient = Quotient.from_graph(GRAPH)
    return train_embedder(
        quotient, attributes, TARGETS, config, instances=(X, CODES), representatives=chosen
    )


def test_a_sampled_run_resumes_with_the_same_data_only(tmp_path: Path) -> None:
    stored = replace(SAMPLED, checkpoint=tmp_path / "a.safetensors")
    run(stored)
    assert run(stored, ATTRIBUTES.tolist(), CHOSEN.tolist()).resumed_from == 3
    other = CHOSEN.copy()
    other[0] = next(row for row in np.flatnonzero(CODES == 0) if row != CHOSEN[0])
    for attributes, chosen in ((ATTRIBUTES + 0.1, CHOSEN), (ATTRIBUTES, other)):
        with pytest.raises(DataError, match="written with other settings or data"):
            run(stored, attributes, chosen)


def test_attributes_of_another_type_are_the_same_attributes(tmp_path: Path) -> None:
    whole = np.arange(15).reshape(5, 3) % 4
    stored = replace(SAMPLED, checkpoint=tmp_path / "a.safetensors")
    first = run(stored, whole.astype(np.float64))
    again = run(stored, whole.astype(np.float32))
    assert again.resumed_from == 3
    np.testing.assert_array_equal(first.losses, run(SAMPLED, whole).losses)


def test_training_is_the_same_without_the_fused_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(SAMPLED, learning_rate=0.01, weight_decay=0.1, dtype="float64", n_steps=6)
    fused = run(config)
    adam = torch.optim.Adam

    def without(parameters: Any, **options: Any) -> torch.optim.Adam:
        if options.pop("fused", False):
            raise RuntimeError("this device has no fused kernel")
        return adam(parameters, **options)

    monkeypatch.setattr(torch.optim, "Adam", without)
    np.testing.assert_allclose(run(config).losses, fused.losses, rtol=1e-9)


def test_a_clone_writes_nothing(tmp_path: Path) -> None:
    model = HGKTNetworkClassifier(**SMALL)
    model.write_to(checkpoint=tmp_path / "a.safetensors")
    clone(model).fit(X, Y, class_attributes=TABLE)
    assert list(tmp_path.iterdir()) == []
    model.fit(X, Y, class_attributes=TABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
