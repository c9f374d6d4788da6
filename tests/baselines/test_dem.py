import numpy as np
import pytest
import torch
from tests.folds import make_fold

from hgkt.baselines._shared.networks import centred_layers, class_mean_loss, two_layers
from hgkt.baselines.dem import DEMClassifier
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
    defaults = {"n_hidden": 64, "n_steps": 40, "learning_rate": 3e-3, "random_state": 0}
    return DEMClassifier(**{**defaults, **kwargs})


def test_class_mean_loss_is_the_loss_over_instances_up_to_a_constant():
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], [5, 1, 3])
    X = torch.tensor(rng.normal(size=(9, 4)))
    means = torch.stack([X[codes == code].mean(dim=0) for code in range(3)])
    shares = torch.tensor(np.bincount(codes) / 9)

    def differences(embeddings):
        return ((embeddings[codes] - X) ** 2).mean() - class_mean_loss(embeddings, means, shares)

    first, second = (torch.tensor(rng.normal(size=(3, 4))) for _ in range(2))
    assert differences(first).item() == pytest.approx(differences(second).item(), abs=1e-12)


def test_dem_follows_adam_on_the_instance_loss_with_explicit_penalty(training):
    # Independent training: all instances in the loss, κ/2‖θ‖² written out, plain Adam.
    X, y, attributes = training
    model = small(n_steps=15, weight_decay=0.01)
    names, codes = np.unique(y, return_inverse=True)
    A = np.array([attributes[name] for name in names], dtype=np.float64)
    A *= np.sqrt(A.shape[1]) / np.linalg.norm(A, axis=1, keepdims=True)
    means = np.array([X[codes == code].astype(np.float64).mean(axis=0) for code in range(len(A))])
    unit = np.linalg.norm(means, axis=1).mean() / 10  # features are trained at a mean norm of 10
    means, rows = means / unit, torch.tensor(X).double() / unit
    seed = int(np.random.RandomState(0).randint(np.iinfo(np.int32).max))
    initial = centred_layers(A.shape[1], 64, means, torch.Generator().manual_seed(seed))
    weights = [w.double().requires_grad_() for w in initial]
    optimizer = torch.optim.Adam(weights, lr=3e-3)
    for _ in range(15):
        optimizer.zero_grad()
        hidden = torch.relu(torch.tensor(A)[codes] @ weights[0].T + weights[1])
        output = torch.relu(hidden @ weights[2].T + weights[3])
        penalty = 0.005 * sum((w**2).sum() for w in weights)
        (((output - rows) ** 2).mean() + penalty).backward()
        optimizer.step()
    model.fit(X, y, attributes)
    for name, expected, factor in zip(model._learned, weights, (1, 1, unit, unit), strict=True):
        found = getattr(model, name) / factor
        np.testing.assert_allclose(found, expected.detach().numpy(), atol=2e-4)


def test_dem_does_not_depend_on_the_unit_of_the_features(training):
    X, y, attributes = training
    model = small(n_steps=20).fit(X, y, attributes)
    other = small(n_steps=20).fit(1024.0 * X, y, attributes)
    np.testing.assert_allclose(
        other.class_embeddings_, 1024.0 * model.class_embeddings_, rtol=1e-3, atol=1.0
    )


def test_dem_embeds_classes_as_the_trained_network_does(training):
    X, y, attributes = training
    model = small(n_steps=3).fit(X, y, attributes)
    weights = [torch.tensor(getattr(model, name)) for name in ("w1_", "b1_", "w2_", "b2_")]
    rows = model.class_attributes_
    rows = rows * np.sqrt(rows.shape[1]) / np.linalg.norm(rows, axis=1, keepdims=True)
    expected = two_layers(torch.tensor(rows), weights)
    np.testing.assert_allclose(model.class_embeddings_, expected.numpy(), atol=1e-12)


def test_dem_scores_by_metric(training):
    X, y, attributes = training
    for metric in ("euclidean", "cosine"):
        model = small(n_steps=3, metric=metric).fit(X, y, attributes)
        Z = model.class_embeddings_
        scores = model.score_classes(X[:5])
        if metric == "euclidean":
            expected = -((X[:5, None].astype(np.float64) - Z) ** 2).sum(axis=2)
        else:
            norms = np.linalg.norm(X[:5], axis=1)[:, None] * np.linalg.norm(Z, axis=1)
            expected = X[:5] @ Z.T / norms
        np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_dem_path_equals_separate_fits(training):
    X, y, attributes = training
    new, X_eval = {"new": np.full(16, 0.4)}, X[:20]
    grid = [{"n_steps": n, "metric": m} for n in (30, 5) for m in ("cosine", "euclidean")]
    grid.append({"n_steps": 5, "weight_decay": 0.1})
    found = dict(small().score_grid(grid, make_fold(X, y, attributes, new, X_eval)))
    assert sorted(found) == list(range(5))
    for index, params in enumerate(grid):
        model = small(**params).fit(X, y, attributes).add_classes(new)
        np.testing.assert_allclose(found[index], model.score_classes(X_eval), rtol=1e-12)


def test_dem_solves_synthetic_classes(data, training):
    model = small(n_steps=300).fit(*training)
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.7


def test_dem_seed_decides_and_the_global_generator_is_untouched(training):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (small(random_state=s, n_steps=3).fit(*training) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    np.testing.assert_array_equal(first.w1_, again.w1_)
    assert not np.array_equal(first.w1_, other.w1_)


def test_dem_fits_the_means_of_two_classes_without_dead_outputs(training):
    X, y, attributes = training
    few = np.isin(y, np.unique(y)[:2])
    table = {name: attributes[name] for name in np.unique(y[few])}
    model = small(n_steps=500, weight_decay=0.0).fit(X[few], y[few], table)
    means = np.array([X[y == name].mean(axis=0) for name in model.seen_classes_])
    assert (model.class_embeddings_.max(axis=0) > 0).all()
    assert np.isclose(model.class_embeddings_, means, atol=0.02).mean() > 0.9


def test_dem_reports_progress_and_refuses_divergence(training):
    calls = []
    model = small(n_steps=45).on_progress(lambda *call: calls.append(call))
    model.fit(*training)
    assert [call[:3] for call in calls] == [("train", 20, 45), ("train", 40, 45), ("train", 45, 45)]
    assert calls[-1][3]["loss"] < calls[0][3]["loss"]
    with pytest.raises(DataError, match=r"the loss is .* lower learning_rate"):
        small(learning_rate=1e30).fit(*training)


def test_dem_saved_model_grows_alike(training, tmp_path):
    X, y, attributes = training
    model = small(n_steps=5).fit(X, y, attributes)
    model.save(tmp_path / "m")
    new = {"new": np.full(16, 0.4)}
    loaded = load_model(tmp_path / "m").add_classes(new)
    np.testing.assert_array_equal(loaded.score_classes(X), model.add_classes(new).score_classes(X))


def test_dem_refuses_bad_parameters(training):
    with pytest.raises(DataError, match="n_steps must be an integer"):
        small(n_steps=0).fit(*training)
    with pytest.raises(DataError, match="metric must be one of"):
        small(metric="taxicab").fit(*training)
