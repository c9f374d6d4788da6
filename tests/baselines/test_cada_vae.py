import numpy as np
import pytest
import torch
from tests.folds import make_fold
from torch.distributions import MultivariateNormal, Normal, kl_divergence

from hgkt.baselines import cada_vae
from hgkt.baselines._shared import networks
from hgkt.baselines._shared.grids import Seen
from hgkt.baselines.cada_vae import (
    CADAVAEClassifier,
    _AlignmentLoss,
    _Autoencoders,
    _SoftmaxLoss,
    divergences,
    drawn,
    linear_layer,
    warm_up,
    wasserstein_distances,
)
from hgkt.data import make_synthetic
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError
from hgkt.serving.edition import refuse_unusable

NEW = {"new": np.full(16, 0.4), "newer": np.linspace(0.1, 0.9, 16)}


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=600, n_features=32, n_seen=20, n_unseen=4, noise=0.3)


@pytest.fixture(scope="module")
def training(data):
    X, y = data.rows("train")
    return X, y, data.attributes_of(data.seen_classes)


def small(**kwargs):
    sizes = {"hidden_sizes": (24, 20, 16, 12), "n_latent": 6, "n_epochs": 4}
    counts = {"n_seen_samples": 20, "n_unseen_samples": 30, "classifier_epochs": 2}
    return CADAVAEClassifier(**{**sizes, **counts, "random_state": 0, **kwargs})


@pytest.fixture(scope="module")
def fitted(training):
    return small().fit(*training)


def gaussians(seed, n=7, k=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, k, generator=generator, dtype=torch.float64).unbind()


# ------------------------------------------------------------------ the loss
def test_divergences_are_those_of_torch_distributions():
    means, logs = gaussians(0)
    expected = kl_divergence(Normal(means, (0.5 * logs).exp()), Normal(0.0, 1.0)).sum(dim=1)
    torch.testing.assert_close(divergences(means, logs), expected)


def test_distances_are_wasserstein_distances_of_gaussians():
    # Of any covariances A and B: |m - n|² + tr(A + B - 2 (A^½ B A^½)^½).
    first, second = gaussians(0), gaussians(1)
    found = wasserstein_distances(first, second)
    for row in range(len(found)):
        one, two = (
            MultivariateNormal(means[row], logs[row].exp().diag())
            for means, logs in (first, second)
        )
        root = torch.linalg.cholesky(one.covariance_matrix)  # of a diagonal matrix its root
        middle = torch.linalg.eigvalsh(root @ two.covariance_matrix @ root).sqrt().sum()
        trace = (one.covariance_matrix + two.covariance_matrix).trace() - 2 * middle
        expected = ((one.mean - two.mean).square().sum() + trace).sqrt()
        assert found[row].item() == pytest.approx(expected.item(), rel=1e-9)


def test_the_distance_of_equal_gaussians_has_a_finite_slope():
    means = torch.zeros(2, 3, requires_grad=True)
    wasserstein_distances((means, torch.zeros(2, 3)), (torch.zeros(2, 3),) * 2).sum().backward()
    assert torch.isfinite(means.grad).all()


def test_noise_is_one_number_per_row_times_the_variance():
    means, logs = gaussians(0)
    noise = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    shifts = (drawn(means, logs, noise) - means) / logs.exp()
    torch.testing.assert_close(shifts, noise.expand(7, 5))


@pytest.mark.parametrize("epoch", [0, 6, 14, 21, 22, 48, 75, 93, 99])
def test_weights_rise_as_in_the_released_code_over_a_hundred_epochs(epoch):
    ends = [(0, 93), (21, 75), (6, 22)]
    expected = [np.clip((epoch - start) / (end - start), 0, 1) for start, end in ends]
    np.testing.assert_allclose(warm_up(epoch / 100), expected, atol=1e-12)


def test_the_loss_of_a_batch_is_the_sum_of_its_terms_written_out(training):
    X, y, attributes = training
    names, codes = np.unique(y, return_inverse=True)
    rows = np.array([attributes[name] for name in names])
    model = small(n_epochs=10, batch_size=8).set_params(divergence=0.3, distance=5.0)
    model.seed_, model.low_, model.span_ = 3, X.min(axis=0), np.ptp(X, axis=0)
    pair = _Autoencoders(model, (32, 16), "cpu")
    loss = _AlignmentLoss(pair, Seen(X, codes, rows), model)
    step = 4 * loss.per_epoch  # 40 % of the epochs are done
    assert loss.feed(step) == 8
    x, a, noise = loss.features, loss.attributes, loss.noise
    assert (x >= 0).all()
    assert (x <= 1).all()
    assert {tuple(row) for row in a.tolist()} <= {tuple(r) for r in rows.astype("f4").tolist()}
    layer = torch.nn.functional.linear
    w = pair.weights

    def network(values, first):
        return layer(torch.relu(layer(values, *w[first : first + 2])), *w[first + 2 : first + 4])

    (mu_x, log_x), (mu_a, log_a) = network(x, 0).chunk(2, dim=1), network(a, 4).chunk(2, dim=1)
    z_x, z_a = mu_x + log_x.exp() * noise[:8], mu_a + log_a.exp() * noise[8:]
    own = (network(z_x, 8) - x).abs().sum() + (network(z_a, 12) - a).abs().sum()
    crossed = (network(z_a, 8) - x).abs().sum() + (network(z_x, 12) - a).abs().sum()
    kl = -0.5 * (1 + log_x - mu_x**2 - log_x.exp()).sum()
    kl = kl - 0.5 * (1 + log_a - mu_a**2 - log_a.exp()).sum()
    squares = ((mu_x - mu_a) ** 2).sum(dim=1)
    squares += (((log_x / 2).exp() - (log_a / 2).exp()) ** 2).sum(dim=1)
    beta, gamma, delta = 0.3 * 40 / 93, 2.37 * (40 - 21) / 54, 5.0
    expected = own + beta * kl + gamma * crossed + delta * squares.sqrt().sum()
    torch.testing.assert_close(loss.loss(), expected)


def test_initial_layers_are_half_of_glorots_rule_each_of_its_own_width():
    generator = torch.Generator().manual_seed(0)
    weights, bias = linear_layer(300, 64, generator, n_layers=2)
    assert weights.shape == (128, 300)
    assert weights.abs().max().item() == pytest.approx(0.5 * np.sqrt(6 / 364), rel=1e-3)
    assert not bias.any()


def test_the_autoencoders_follow_amsgrad(training):
    # The same steps with a plain optimiser.
    X, y, attributes = training
    names, codes = np.unique(y, return_inverse=True)
    rows = np.array([attributes[name] for name in names], dtype=np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    model = small(n_epochs=1, learning_rate=1e-3).fit(X, y, attributes)
    pair = _Autoencoders(model, (32, 16), "cpu")
    loss = _AlignmentLoss(pair, Seen(X, codes, rows), model)
    optimizer = torch.optim.Adam(pair.weights, lr=1e-3, amsgrad=True)
    for step in range(loss.per_epoch):
        optimizer.zero_grad()
        loss(step).backward()
        optimizer.step()
    for name, weights in zip(model._feature_encoder, pair.weights[:4], strict=True):
        np.testing.assert_allclose(getattr(model, name), weights.detach().numpy(), atol=1e-5)


# ------------------------------------------------------------------ the softmax
def test_the_softmax_is_trained_as_by_plain_torch(fitted, training):
    model = load_copy(fitted).add_classes(NEW)
    latents, codes = map(torch.tensor, model._draw_latents(model._table))
    assert np.bincount(codes).tolist() == [20] * 20 + [30] * 2
    first = linear_layer(6, 22, torch.Generator().manual_seed(model.seed_))
    layer = torch.nn.Linear(6, 22)
    layer.weight.data, layer.bias.data = first
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-3, betas=(0.5, 0.999))
    rng = np.random.default_rng([model.seed_, 2])
    for _ in range(2):
        order = rng.permutation(len(codes))
        for start in range(0, len(codes) - 31, 32):
            batch = order[start : start + 32]
            logits = layer(latents[batch])
            own = logits[torch.arange(32), codes[batch]]
            optimizer.zero_grad()
            (torch.logsumexp(logits, dim=1) - own).mean().backward()
            optimizer.step()
    table = model._table
    found = np.concatenate([table.seen["weights"], table.added_rows["weights"]])
    np.testing.assert_allclose(found, layer.weight.detach().numpy(), atol=1e-5)
    bias = np.concatenate([table.seen["bias"], table.added_rows["bias"]])
    np.testing.assert_allclose(bias, layer.bias.detach().numpy(), atol=1e-5)


def load_copy(model):
    """Return a model of its own with the same arrays."""
    other = small()
    other.__dict__.update(model.__dict__)
    return other


def test_scores_are_the_linear_layer_on_the_latent_means(fitted, training):
    X = training[0][:5]
    scaled = (X - training[0].min(axis=0)) / np.ptp(training[0], axis=0)
    hidden = np.maximum(scaled @ fitted.feature_w1_.T + fitted.feature_b1_, 0)
    means = (hidden @ fitted.feature_w2_.T + fitted.feature_b2_)[:, :6]
    rows = fitted._table.seen
    np.testing.assert_allclose(
        fitted.score_classes(X), means @ rows["weights"].T + rows["bias"], atol=1e-6
    )


def test_latents_of_seen_classes_are_those_of_their_first_rows(fitted, training):
    X, y, _ = training
    names = np.unique(y)
    expected = np.concatenate([np.flatnonzero(y == name)[:20] for name in names])
    np.testing.assert_allclose(fitted.means_, fitted._map_features(X[expected]), atol=1e-5)
    assert (names[fitted.codes_] == y[expected]).all()


def test_few_rows_come_several_times_each_with_its_own_noise(training):
    X, y, attributes = training
    keep = np.concatenate([np.flatnonzero(y == name)[:3] for name in np.unique(y)])
    model = small().fit(X[keep], y[keep], attributes)
    latents, codes = model._draw_latents(model._table)
    assert np.bincount(codes).tolist() == [20] * 20
    assert len(np.unique(latents, axis=0)) == len(latents)
    shifts = latents[:20] - model.means_[np.arange(20) % 3]
    noise = shifts / np.exp(model.log_variances_[np.arange(20) % 3])
    np.testing.assert_allclose(noise, noise[:, :1].repeat(6, axis=1), atol=1e-4)


# ------------------------------------------------------------------ classes come and go
def test_adding_trains_the_softmax_again_and_only_that(fitted, training):
    X = training[0]
    model = load_copy(fitted)
    assert model.retrains_on_add
    before = model.score_classes(X)
    encoder = model.feature_w1_
    model.add_classes(NEW)
    assert not np.allclose(model.score_classes(X)[:, model.candidates("seen")], before)
    assert model.feature_w1_ is encoder
    again = load_copy(fitted).add_classes(NEW)
    np.testing.assert_array_equal(again.score_classes(X), model.score_classes(X))


def test_the_model_does_not_tell_how_its_classes_came(fitted, training):
    X = training[0]
    wanted = load_copy(fitted).add_classes(NEW).score_classes(X)
    edited = load_copy(fitted).add_classes({"new": np.eye(16)[0]})
    edited.add_classes({"newer": NEW["newer"]}).edit_classes({"new": NEW["new"]})
    np.testing.assert_array_equal(edited.score_classes(X), wanted)
    emptied = load_copy(fitted).add_classes(NEW).remove_classes(list(NEW))
    np.testing.assert_array_equal(emptied.score_classes(X), fitted.score_classes(X))


def test_saved_model_grows_alike(fitted, training, tmp_path):
    fitted.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    X = training[0]
    np.testing.assert_array_equal(loaded.score_classes(X), fitted.score_classes(X))
    grown = load_copy(fitted).add_classes(NEW)
    np.testing.assert_array_equal(loaded.add_classes(NEW).score_classes(X), grown.score_classes(X))


def test_path_equals_separate_fits(training):
    X, y, attributes = training
    grid = [{"classifier_epochs": 3}, {"classifier_epochs": 1}, {"n_unseen_samples": 10}]
    grid += [{"n_latent": 4, "n_seen_samples": 5}, {"n_latent": 4, "classifier_epochs": 1}]
    found = dict(small().score_grid(grid, make_fold(X, y, attributes, NEW, X[:20])))
    assert sorted(found) == list(range(5))
    for index, params in enumerate(grid):
        model = small(**params).fit(X, y, attributes).add_classes(NEW)
        scores = model.score_classes(X[:20])[:, model.candidates()]
        np.testing.assert_allclose(found[index], scores, rtol=1e-12)


def test_seed_decides_and_the_global_generator_is_untouched(training):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (small(random_state=s, n_epochs=1).fit(*training) for s in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    X = training[0]
    np.testing.assert_array_equal(first.score_classes(X), again.score_classes(X))
    assert not np.array_equal(first.score_classes(X), other.score_classes(X))


def test_synthetic_classes_are_told_apart(data, training):
    sizes = {"hidden_sizes": (128, 128, 128, 128), "n_latent": 16, "n_epochs": 60}
    model = small(**sizes, learning_rate=1e-3, classifier_epochs=20, n_seen_samples=50).fit(
        *training
    )
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.6


def test_progress_tells_both_trainings(training):
    calls = []
    model = small(n_epochs=1).on_progress(lambda *call: calls.append(call[:3]))
    model.fit(*training)
    assert ("train", 8, 8) in calls  # 380 rows in batches of 50
    assert calls[-1] == ("train", 24, 24)  # 400 latents in batches of 32, twice


# ------------------------------------------------------------------ what cannot be
def test_bad_parameters_are_refused(training):
    with pytest.raises(DataError, match="hidden_sizes must be four integers; got \\(8, 8\\)"):
        small(hidden_sizes=(8, 8)).fit(*training)
    with pytest.raises(DataError, match="hidden_sizes must be an integer"):
        small(hidden_sizes=(8, 8, 8, 0.5)).fit(*training)
    with pytest.raises(DataError, match="n_latent must be an integer"):
        small(n_latent=0).fit(*training)
    with pytest.raises(DataError, match="divergence must be a number"):
        small(divergence=-1.0).fit(*training)
    with pytest.raises(DataError, match=r"the loss is .* lower learning_rate"):
        small(learning_rate=1e30).fit(*training)


def test_attributes_that_no_latent_can_stand_for_are_refused_before_training(fitted, monkeypatch):
    model = load_copy(fitted).set_params(attribute_map="none")
    model.attribute_w2_ = np.vstack([fitted.attribute_w2_[:6], np.zeros((6, 16))])
    monkeypatch.setattr(cada_vae, "_SoftmaxLoss", None)  # nothing can be trained
    refuse_unusable(model, {"new": NEW["new"]})
    for refused in (refuse_unusable, GZSLClassifier.add_classes):
        with pytest.raises(DataError, match=r"of a class lead to a latent of \d.*; numbers like"):
            refused(model, {"new": 1e7 * NEW["newer"]})
    assert "new" not in model.classes_


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_steps_replayed_on_cuda_train_the_same_model(training, monkeypatch):
    X = training[0]
    settings = {"n_epochs": 6, "learning_rate": 1e-3}
    on_cpu = small(device="cpu", **settings).fit(*training).add_classes(NEW)
    on_cuda, again = (
        small(device="cuda", **settings).fit(*training).add_classes(NEW) for _ in range(2)
    )
    np.testing.assert_allclose(on_cuda.score_classes(X), on_cpu.score_classes(X), atol=1e-3)
    monkeypatch.setattr(networks, "_UNRECORDED", 10**9)
    step_by_step = small(device="cuda", **settings).fit(*training).add_classes(NEW)
    for model in (again, step_by_step):
        np.testing.assert_array_equal(model.score_classes(X), on_cuda.score_classes(X))


def test_an_epoch_of_the_softmax_visits_latents_once():
    latents = np.arange(70, dtype=np.float32)[:, None]
    loss = _SoftmaxLoss(latents, np.arange(70), [torch.zeros(70, 1), torch.zeros(70)], seed=0)
    assert loss.per_epoch == 2  # what is left over of an epoch is left out
    for epoch in range(2):
        own = []
        for step in range(2):
            loss.feed(2 * epoch + step)
            assert (loss.rows[:, 0] == loss.own).all()
            own += loss.own.tolist()
        assert len(set(own)) == 64
