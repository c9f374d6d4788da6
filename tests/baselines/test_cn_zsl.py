import numpy as np
import pytest
import torch
from tests.folds import make_fold
from torch import nn

from hgkt.baselines import cn_zsl
from hgkt.baselines._shared import networks
from hgkt.baselines.cn_zsl import CNZSLClassifier, _Network, prototype_loss
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=40, n_unseen=5, noise=0.3)


@pytest.fixture(scope="module")
def training(data):
    X, y = data.rows("train")
    return X, y, data.attributes_of(data.seen_classes)


def small(**kwargs):
    return CNZSLClassifier(**{"n_hidden": 64, "n_epochs": 3, "random_state": 0, **kwargs})


def test_cn_zsl_running_statistics_are_those_of_batch_norm():
    network = _Network(small(standardization="deviation"), 8, 5, 0, "cpu")
    w1, b1, w2, b2, *_ = (weight.detach() for weight in network.weights)
    norm = nn.BatchNorm1d(64, affine=False)
    for seed in range(3):
        rows = torch.rand(6, 5, generator=torch.Generator().manual_seed(seed))
        norm(torch.relu(rows @ w1.T + b1) @ w2.T + b2)
        network.prototypes(rows)
    torch.testing.assert_close(network.running[0], norm.running_mean)
    torch.testing.assert_close(network.running[1], norm.running_var)


@pytest.mark.parametrize(("standardization", "power"), [("variance", 1.0), ("deviation", 0.5)])
def test_cn_zsl_units_are_centred_and_divided_over_classes(standardization, power):
    network = _Network(small(standardization=standardization), 8, 5, 0, "cpu")
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(10, 64))
    found = network._standardize(torch.tensor(values), 0).numpy()
    expected = (values - values.mean(axis=0)) / (values.var(axis=0, ddof=1) + 1e-5) ** power
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_cn_zsl_loss_is_the_cross_entropy_of_scaled_cosines():
    rng = np.random.default_rng(0)
    X, P, codes = rng.normal(size=(6, 4)), rng.normal(size=(3, 4)), np.array([0, 1, 2, 0, 1, 2])
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    logits = 25.0 * X @ (P / np.linalg.norm(P, axis=1, keepdims=True)).T
    expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(6), codes])
    loss = prototype_loss(torch.tensor(X), torch.tensor(codes), torch.tensor(P), 25.0)
    assert loss.item() == pytest.approx(expected, abs=1e-12)


def test_cn_zsl_embedding_uses_the_running_statistics(training):
    X, y, attributes = training
    model = small().fit(X, y, attributes)
    rows = model.class_attributes_
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.sqrt(rows.shape[1])
    hidden = np.maximum(rows @ model.w1_.T + model.b1_, 0) @ model.w2_.T + model.b2_
    hidden = (hidden - model.running_[0]) / (model.running_[1] + 1e-5)
    hidden = (np.maximum(hidden, 0) - model.running_[2]) / (model.running_[3] + 1e-5)
    expected = np.maximum(hidden @ model.w3_.T + model.b3_, 0)
    np.testing.assert_allclose(model.class_embeddings_, expected)


def test_cn_zsl_running_statistics_approach_those_of_the_seen_classes(training):
    model = small(n_epochs=60, decay_epoch=20).fit(*training)
    rows = model.class_attributes_
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True) * np.sqrt(rows.shape[1])
    hidden = np.maximum(rows @ model.w1_.T + model.b1_, 0) @ model.w2_.T + model.b2_
    np.testing.assert_allclose(model.running_[0], hidden.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(model.running_[1], hidden.var(axis=0, ddof=1), rtol=0.1)


def test_cn_zsl_initial_output_layer_has_the_published_variance():
    network = _Network(CNZSLClassifier(n_hidden=256), 300, 20, 0, "cpu")
    assert network.weights[4].var().item() == pytest.approx(1 / (256 * 300), rel=0.02)
    assert network.weights[2].abs().max().item() == pytest.approx(1 / 16, rel=0.01)


def test_cn_zsl_path_equals_separate_fits(training):
    X, y, attributes = training
    new, X_eval = {"new": np.full(16, 0.4)}, X[:20]
    grid = [{"n_epochs": 4}, {"n_epochs": 2}, {"n_epochs": 2, "seen_factor": 0.9}]
    grid.append({"n_epochs": 1, "scale": 10.0})
    base = small(decay_epoch=2)
    found = dict(base.score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    assert sorted(found) == list(range(4))
    for index, params in enumerate(grid):
        model = small(decay_epoch=2, **params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_array_equal(found[index], model.score_classes(X_eval))


def test_cn_zsl_rows_held_on_the_device_train_the_same_network(training, monkeypatch):
    X, y, attributes = training
    by_batch = small().fit(X, y, attributes)
    monkeypatch.setattr(cn_zsl, "_fits", lambda n_bytes, device: True)
    monkeypatch.setattr(cn_zsl, "_BLOCK", 100)
    held = small().fit(X, y, attributes)
    np.testing.assert_array_equal(held.w3_, by_batch.w3_)
    np.testing.assert_array_equal(held.running_, by_batch.running_)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cn_zsl_steps_replayed_on_cuda_train_the_same_network(training, monkeypatch):
    settings = {"n_epochs": 6, "decay_epoch": 3, "batch_size": 256}  # 900 rows: a smaller last one
    on_cpu = small(device="cpu", **settings).fit(*training)
    on_cuda, again = (small(device="cuda", **settings).fit(*training) for _ in range(2))
    np.testing.assert_allclose(on_cuda.class_embeddings_, on_cpu.class_embeddings_, atol=1e-4)
    np.testing.assert_allclose(on_cuda.running_, on_cpu.running_, rtol=1e-3, atol=1e-4)
    monkeypatch.setattr(networks, "_UNRECORDED", 10**9)
    step_by_step = small(device="cuda", **settings).fit(*training)
    for model in (again, step_by_step):
        np.testing.assert_array_equal(model.w3_, on_cuda.w3_)
        np.testing.assert_array_equal(model.running_, on_cuda.running_)


def test_cn_zsl_every_epoch_visits_every_row_once():
    X, codes = np.arange(1.0, 11.0)[:, None] ** [0, 1], np.arange(10)
    batches = cn_zsl._Batches(X, codes, 4, np.random.default_rng(0), "cpu")
    seen = [batches.at(step) for step in range(2 * batches.per_epoch)]
    for epoch in (seen[:3], seen[3:]):
        rows, own = (torch.cat(parts).numpy() for parts in zip(*epoch, strict=True))
        assert sorted(own) == list(range(10))
        np.testing.assert_allclose(rows[:, 1] / rows[:, 0], 1 + own, rtol=1e-6)


def test_cn_zsl_seen_factor_touches_seen_classes_only(training):
    X, y, attributes = training
    new = {"new": np.full(16, 0.4)}
    plain, scaled = (
        small(n_epochs=1, seen_factor=f).fit(X, y, attributes).add_classes(new).score_classes(X)
        for f in (1.0, 0.95)
    )
    np.testing.assert_allclose(scaled[:, :-1], 0.95 * plain[:, :-1])
    np.testing.assert_array_equal(scaled[:, -1], plain[:, -1])


@pytest.mark.parametrize("standardization", ["variance", "deviation", "none"])
def test_cn_zsl_solves_synthetic_classes(data, training, standardization):
    model = small(n_epochs=50, standardization=standardization).fit(*training)
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.6


def test_cn_zsl_saved_model_grows_alike(training, tmp_path):
    X, y, attributes = training
    model = small(n_epochs=1).fit(X, y, attributes)
    model.save(tmp_path / "m")
    new = {"new": np.full(16, 0.4)}
    loaded = load_model(tmp_path / "m").add_classes(new)
    np.testing.assert_array_equal(loaded.score_classes(X), model.add_classes(new).score_classes(X))


def test_cn_zsl_refuses_bad_parameters(training):
    with pytest.raises(DataError, match="standardization must be one of"):
        small(standardization="rank").fit(*training)
    with pytest.raises(DataError, match="n_epochs must be an integer"):
        small(n_epochs=2.5).fit(*training)
