"""What the closed form promises whatever its numbers are, seen through the estimator."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from tests.folds import make_fold

from hgkt import HGKTClassifier, load_model
from hgkt._arrays import put, to_numpy
from hgkt.closed_form import ClosedFormTransfer, Ensemble, KernelSettings
from hgkt.closed_form.kernels import ClassKernel
from hgkt.closed_form.scoring import Scorer
from hgkt.exceptions import ClassWarning

RNG = np.random.default_rng(0)
COUNTS = [40, 3, 9, 1, 17]
NAMES = [f"c{code}" for code in range(len(COUNTS))]
ATTRIBUTES = dict(zip(NAMES, RNG.normal(size=(len(COUNTS), 4)), strict=True))
CODES = np.repeat(np.arange(len(COUNTS)), COUNTS)
X = 3.0 * RNG.normal(size=(len(COUNTS), 6))[CODES] + RNG.normal(size=(len(CODES), 6))
Y = np.array(NAMES)[CODES]
NEW = {"new": RNG.normal(size=4), "other": RNG.normal(size=4)}


def fit(X=X, attributes=ATTRIBUTES, **parameters):
    model = HGKTClassifier(feature_map="none", attribute_map="none", **parameters)
    return model.fit(X, Y, class_attributes=attributes)


def test_class_embeddings_are_centred_on_the_mean_of_classes_not_of_instances():
    # With next to no ridge an embedding is the class's own mean, less the centre of all classes.
    embeddings = fit(kernel="rbf", ridge=1e-10, norm_power=0.0).class_embeddings_
    scale = np.abs(embeddings).max()
    np.testing.assert_allclose(embeddings.sum(axis=0) / scale, 0.0, atol=1e-6)
    weighted = np.asarray(COUNTS) @ embeddings / sum(COUNTS)
    assert np.abs(weighted).max() > 0.05 * scale  # the mean of the instances lies elsewhere


def test_features_are_centred_on_the_mean_of_classes():
    # A row in the centre of the classes is the origin: its distance to a class is the norm.
    means = np.stack([X[name == Y].mean(axis=0) for name in NAMES])
    model = fit(metric="euclidean", kernel="rbf", ridge=1e-10)
    here, there = model.score_classes(np.stack([means.mean(axis=0), X.mean(axis=0)]))
    norms = (model.class_embeddings_[:, :6] ** 2).sum(axis=1)
    np.testing.assert_allclose(model.class_embeddings_[:, 6], norms)
    np.testing.assert_allclose(here, -norms, rtol=1e-5)
    assert not np.allclose(there, -norms, rtol=1e-2)


@pytest.mark.parametrize("weighting", ["count", "uniform"])
def test_the_unit_of_linear_attributes_does_not_matter(weighting):
    # K grows with the square of the attributes, and so must the noise: λ is in units of K.
    plain = fit(kernel="linear", weighting=weighting, ridge=0.3).add_classes(NEW)
    scaled = fit(
        kernel="linear",
        weighting=weighting,
        ridge=0.3,
        attributes={name: 7.0 * vector for name, vector in ATTRIBUTES.items()},
    ).add_classes({name: 7.0 * vector for name, vector in NEW.items()})
    np.testing.assert_allclose(scaled.class_embeddings_, plain.class_embeddings_, rtol=1e-5)


def test_ridge_shrinks_the_embedding_of_an_only_direction_by_a_known_factor():
    # One attribute, a single non-zero class: z = k v / (k + λ k̄) with k̄ = k / 2 (two classes).
    rows = np.array([[2.0, 0.0], [2.0, 0.2], [0.0, 2.0], [0.2, 2.0]])
    table = {"a": [3.0], "b": [0.0]}
    plain = {"feature_map": "none", "attribute_map": "none", "kernel": "linear", "shrinkage": 1.0,
             "norm_power": 0.0}  # fmt: skip
    embeddings = []
    for ridge in (1e-12, 1.0):
        model = HGKTClassifier(**plain, ridge=ridge)
        with pytest.warns(ClassWarning, match="class 'b' are all zero"):
            model.fit(rows, ["a", "a", "b", "b"], class_attributes=table)
        embeddings.append(model.class_embeddings_[0])
    np.testing.assert_allclose(embeddings[1], embeddings[0] / 1.5, rtol=1e-6)


# ------------------------------------------------------------------ a grid is its settings
@pytest.mark.parametrize(
    "grid",
    [
        {"kernel": ["knn", "rbf"], "n_neighbors": [1, 3], "weighting": ["count", "uniform"]},
        {"attribute_blocks": [None, [1, 3], [2, 2]], "kernel_scale": [0.5, 2.0]},
        {"relevance": [False, True], "attribute_map": ["none", "l2"], "ridge": [0.01, 1.0]},
        {"relevance": [True], "attribute_blocks": [[1, 3]], "shrinkage": ["oas", 0.0, 1.0]},
        {"metric": ["euclidean", "cosine"], "norm_power": [0.0, 2.0], "intra": [False, True]},
        {"observed": [False, True], "metric": ["cosine", "euclidean"], "inter": [False, True]},
    ],
    ids=lambda grid: "+".join(grid),
)
def test_a_grid_scores_as_its_settings_do_alone(grid):
    model, settings = HGKTClassifier(feature_map="none"), list(ParameterGrid(grid))
    args = (X, Y, ATTRIBUTES, NEW, X[::5])
    heard = []
    scored = dict(
        model.score_grid(settings, make_fold(*args), progress=lambda *call: heard.append(call))
    )
    assert sorted(scored) == list(range(len(settings)))
    assert heard == [("select", done, len(settings), {}) for done in range(1, len(settings) + 1)]
    for index, parameters in enumerate(settings):
        alone = clone(model).set_params(**parameters).fit(*args[:3]).add_classes(NEW)
        np.testing.assert_allclose(scored[index], alone.score_classes(X[::5]), atol=1e-8)
    different = {scores.round(9).tobytes() for scores in scored.values()}
    assert len(different) > len(settings) / 2  # the settings do make a difference


def test_metrics_of_one_feature_map_keep_their_own_shrinkage():
    parts = [(0.9, 1.0), (0.1, 2.0), (0.5, 0.5)]
    single = [fit(shrinkage=s).add_classes(NEW).score_classes(X, penalty=False) for s, _ in parts]
    members = [
        {"feature_map": "none", "attribute_map": "none", "shrinkage": s, "weight": weight}
        for s, weight in parts
    ]
    model = HGKTClassifier(members=members).fit(X, Y, ATTRIBUTES).add_classes(NEW)
    expected = sum(weight * scores for (_, weight), scores in zip(parts, single, strict=True))
    np.testing.assert_allclose(model.score_classes(X, penalty=False), expected, atol=1e-9)


# ------------------------------------------------------------------ saving
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_model_keeps_its_type_and_every_ridge(dtype, tmp_path):
    members = [
        {"feature_map": "none", "shrinkage": 0.3, "attribute_map": "none", "ridge": 0.01},
        {"feature_map": "none", "shrinkage": 0.3, "attribute_map": "none", "ridge": 2.0,
         "weight": 3.0},
        {"feature_map": "l2", "shrinkage": 0.6, "attribute_map": "none", "observed": True},
    ]  # fmt: skip
    model = HGKTClassifier(members=members).fit(X.astype(dtype), Y, ATTRIBUTES)
    path = model.save(tmp_path / "model")
    arrays = load_file(path / "model.safetensors")
    for name in (
        "space0/center",
        "space0/projection",
        "space1/center",
        "space1/scales",
        "process2/dual",
    ):
        assert arrays[f"transfer/{name}"].dtype == dtype
    assert arrays["seen/embedding"].dtype == dtype
    loaded = load_model(path)
    for either in (model, loaded):
        either.add_classes(NEW)
        assert either.class_embeddings_.dtype == dtype
    np.testing.assert_array_equal(loaded.class_embeddings_, model.class_embeddings_)
    for label in (*NAMES, *NEW):
        ours, theirs = (
            {source.label: source.weight for source in either.explain_class(label).sources}
            for either in (loaded, model)
        )
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)


def test_a_single_metric_takes_no_more_room_than_it_needs(tmp_path):
    arrays = load_file(fit().save(tmp_path / "model") / "model.safetensors")
    space = ("center", "projection", "scales", "counts", "sums", "second_moment")
    assert {name for name in arrays if name.startswith("transfer/")} == {
        *(f"transfer/space0/{name}" for name in space),
        *(f"transfer/process0/{name}" for name in ("noise", "dual")),
    }


# ------------------------------------------------------------------ edges
def test_a_row_in_the_very_centre_is_pulled_nowhere():
    rows = np.array([[1.0, 0.5], [1.0, -0.5], [-1.0, 0.5], [-1.0, -0.5]])
    model = HGKTClassifier(feature_map="none").fit(
        rows, ["a", "a", "b", "b"], {"a": [1.0, 0.0], "b": [0.0, 1.0]}
    )
    [explanation] = model.explain([[0.0, 0.0]], n_runner_ups=1)
    assert explanation.score == 0.0
    assert all(pull.weight == 0.0 for pull in explanation.pulls)


def test_knn_kernel_joins_classes_if_either_is_near_the_other():
    rows = np.random.default_rng(2).random((9, 3))
    full = ClassKernel(KernelSettings("rbf", attribute_map="none")).fit(rows).seen
    settings = KernelSettings("knn", attribute_map="none")
    sparse = ClassKernel(settings, n_neighbors=2).fit(rows).seen
    nearest = np.argsort(-(full - 2 * np.eye(9)), axis=1)[:, :2]
    joined = np.eye(9, dtype=bool)
    joined[np.arange(9)[:, None], nearest] = True
    joined |= joined.T
    off = ~np.eye(9, dtype=bool)
    np.testing.assert_array_equal((sparse > 0)[off], joined[off])
    np.testing.assert_allclose(sparse[off & joined], full[off & joined])
    assert (np.diag(sparse) >= 1.0).all()
    one_way = np.zeros((9, 9), dtype=bool)
    one_way[np.arange(9)[:, None], nearest] = True
    assert (one_way != one_way.T).any()  # else the test could not tell


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "linear"},
        {"kernel": "linear", "attribute_blocks": [1, 3], "block_weights": [0.8, 0.2]},
        {"kernel": "linear", "relevance": True},
        {"kernel": "knn", "n_neighbors": 1},
    ],
)
def test_new_classes_are_what_their_source_weights_say(kernel):
    # A linear and a sparse kernel need not read what every seen class holds.
    names = [f"c{number}" for number in range(30)]
    rng = np.random.default_rng(1)
    attributes = dict(zip(names, rng.random((30, 4)), strict=True))
    rows, labels = rng.random((60, 6)), np.repeat(names, 2)
    model = HGKTClassifier(attribute_map="l2", calibration=0.0, **kernel)
    model.fit(rows, labels, class_attributes=attributes).add_classes(NEW)
    transfer = model._transfer
    (member,) = transfer.settings.members
    weights = [transfer.source_weights(member, row) for row in NEW.values()]
    expected = np.array(weights) @ transfer.source_vectors(member.metric_key)
    (vectors,) = transfer.vectors(np.array(list(NEW.values())))
    np.testing.assert_allclose(vectors, expected, rtol=1e-7, atol=1e-9)
    found = model.class_embeddings_[model.candidates("unseen")]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("device", [None, "cpu"])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_tables_that_grow_are_scored_as_new_ones(device, metric):
    """What is computed once per class follows a table that goes on in the same memory."""
    if device is not None:
        pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    X, codes = np.abs(rng.normal(size=(40, 6))), np.repeat(np.arange(8), 5)
    transfer = ClosedFormTransfer(Ensemble(metric=metric, device="cpu"))
    transfer.fit(X, codes, rng.random((8, 3)))
    buffer = transfer.embed(rng.random((12, 3)))
    scorer = transfer.scorer(device)
    rows = put(X, np.float64, device)
    for table in (buffer[:2], buffer[:7], buffer[:4], buffer[5:], buffer, buffer[5:8].copy()):
        fresh = Scorer(transfer, device)
        found, expected = (s.scores(s.features(rows), table) for s in (scorer, fresh))
        np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-12)
        if metric == "cosine":  # and in the folded way
            found, expected = (s.order(s.rows(rows), table) for s in (scorer, fresh))
            np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-12)
