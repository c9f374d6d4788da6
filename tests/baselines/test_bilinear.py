"""The bilinear methods: their losses against loops, their trainer against published updates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.preprocessing import StandardScaler
from tests.folds import make_fold

from hgkt.baselines._shared.rows import ZScore, hinge_sum
from hgkt.baselines.bilinear import (
    ALEClassifier,
    BilinearTrainer,
    DeViSEClassifier,
    LatEmClassifier,
    SJEClassifier,
    hinge_max,
    latent,
    warp,
)
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError

LINEAR = [ALEClassifier, DeViSEClassifier, SJEClassifier]
ALL = [*LINEAR, LatEmClassifier]


# ---------------------------------------------------------------------- the losses
def loop_loss(name, scores, codes, margin):
    total = 0.0
    for row, own in zip(scores, codes, strict=True):
        hinges = [max(0.0, margin + s - row[own]) for c, s in enumerate(row) if c != own]
        rank = sum(h > 0 for h in hinges)
        if name == "warp" and rank:
            total += sum(1 / j for j in range(1, rank + 1)) / rank * sum(hinges)
        elif name == "hinge_sum":
            total += sum(hinges)
        elif name == "hinge_max":
            total += max(hinges)
    return total


def difference_quotient(function, point, step=1e-6):
    slope = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        up, down = point.copy(), point.copy()
        up[index] += step
        down[index] -= step
        slope[index] = (function(up) - function(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("loss", [warp, hinge_sum, hinge_max])
@pytest.mark.parametrize("margin", [0.1, 1.0])
def test_score_losses_match_loops_and_difference_quotients(loss, margin):
    rng = np.random.default_rng(0)
    scores, codes = rng.normal(size=(40, 6)), rng.integers(6, size=40)
    value, slope = loss(scores, codes, margin)
    assert value == pytest.approx(loop_loss(loss.__name__, scores, codes, margin), rel=1e-12)
    quotient = difference_quotient(lambda s: loss(s, codes, margin)[0], scores)
    np.testing.assert_allclose(slope, quotient, atol=1e-8)


def test_score_losses_are_zero_when_every_margin_holds():
    scores, codes = 5.0 * np.eye(3), np.arange(3)
    for loss in (warp, hinge_sum, hinge_max):
        value, slope = loss(scores, codes, 1.0)
        assert value == 0.0
        assert not slope.any()


def test_latent_loss_matches_loop_and_difference_quotient():
    rng = np.random.default_rng(1)
    pieces, attributes = rng.normal(size=(12, 3, 4)), rng.normal(size=(5, 4))
    codes = rng.integers(5, size=12)
    rivals = (codes + rng.integers(1, 5, size=12)) % 5
    value, slope = latent(pieces, rivals, codes, attributes, 1.0)
    expected = sum(
        max(0.0, 1 + max(p @ attributes[r]) - max(p @ attributes[c]))
        for p, r, c in zip(pieces, rivals, codes, strict=True)
    )
    assert value == pytest.approx(expected, rel=1e-12)
    quotient = difference_quotient(
        lambda p: latent(p, rivals, codes, attributes, 1.0)[0], pieces.copy()
    )
    np.testing.assert_allclose(slope, quotient, atol=1e-8)


# ---------------------------------------------------------------------- the trainer
def problem(n_classes=4, n_attributes=3, n_features=5, n_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    attributes = rng.normal(size=(n_classes, n_attributes))
    codes = np.arange(n_rows) % n_classes
    return rng.normal(size=(n_rows, n_features)), codes, attributes


def identity(rows):
    return rows


def trainer(X, codes, attributes, seed=7, **options):
    return BilinearTrainer(X, codes, attributes, identity, np.random.default_rng(seed), **options)


@pytest.mark.parametrize("n_attributes", [3, 9])
def test_trainer_follows_the_published_sje_update_row_by_row(n_attributes):
    X, codes, A = problem(n_attributes=n_attributes)
    machine = trainer(X, codes, A, loss="hinge_max", learning_rate=0.3, batch_size=1)
    rng, W = np.random.default_rng(7), np.zeros((5, n_attributes))
    for _ in range(3):
        machine.run_epoch()
        for n in rng.permutation(len(X)):
            augmented = X[n] @ W @ A.T + (np.arange(4) != codes[n])
            worst = np.flatnonzero(np.isclose(augmented, augmented.max(), atol=1e-12))
            if codes[n] not in worst:
                W += 0.3 * np.outer(X[n], A[codes[n]] - A[worst].mean(axis=0))
    # With 9 attributes and 4 classes the trainer works in the span of the attributes.
    np.testing.assert_allclose(machine.weights, W[None], atol=1e-10)


def test_trainer_follows_the_published_latent_update_row_by_row():
    X, codes, A = problem()
    machine = trainer(X, codes, A, loss="latent", learning_rate=0.2, batch_size=1, n_matrices=2)
    rng = np.random.default_rng(7)
    start = rng.standard_normal((5, 6)) / np.sqrt(5)
    W = [start[:, :3].copy(), start[:, 3:].copy()]
    for _ in range(3):
        machine.run_epoch()
        for n in rng.permutation(len(X)):
            rival = int(rng.integers(3, size=1)[0])
            rival += rival >= codes[n]
            of_rival = [X[n] @ w @ A[rival] for w in W]
            of_own = [X[n] @ w @ A[codes[n]] for w in W]
            i, j = int(np.argmax(of_rival)), int(np.argmax(of_own))
            if max(of_rival) + 1 > max(of_own):
                W[i] -= 0.2 * np.outer(X[n], A[rival])
                W[j] += 0.2 * np.outer(X[n], A[codes[n]])
    np.testing.assert_allclose(machine.weights, np.array(W), atol=1e-10)


def test_trainer_batch_moves_by_the_sum_of_its_rows():
    X, codes, A = problem()
    machine = trainer(X, codes, A, loss="hinge_sum", learning_rate=0.1, batch_size=len(X))
    machine.run_epoch()
    # At W = 0 every wrong class violates the margin.
    expected = sum(np.outer(x, 4 * A[c] - A.sum(axis=0)) for x, c in zip(X, codes, strict=True))
    np.testing.assert_allclose(machine.weights[0], 0.1 * expected, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge_sum", "hinge_max"])
def test_trainer_approaches_the_optimum_of_the_linear_program(loss):
    rng = np.random.default_rng(3)
    n_classes, n_rows = 3, 18
    codes = np.arange(n_rows) % n_classes
    X = np.eye(3)[codes][:, :2] + rng.normal(0, 0.6, (n_rows, 2))
    A = rng.normal(size=(n_classes, 2))
    n_slacks = n_rows if loss == "hinge_max" else n_rows * n_classes
    constraints = []
    for n in range(n_rows):
        for c in set(range(n_classes)) - {int(codes[n])}:
            row = np.zeros(4 + n_slacks)
            row[:4] = np.outer(X[n], A[c] - A[codes[n]]).ravel()
            row[4 + (n if loss == "hinge_max" else n * n_classes + c)] = -1.0
            constraints.append(row)
    program = linprog(
        np.r_[np.zeros(4), np.ones(n_slacks)],
        A_ub=np.array(constraints),
        b_ub=-np.ones(len(constraints)),
        bounds=[(None, None)] * 4 + [(0, None)] * n_slacks,
    )
    machine = trainer(X, codes, A, loss=loss, learning_rate=0.002, batch_size=n_rows)
    for _ in range(3000):
        machine.run_epoch()
    function = {"hinge_sum": hinge_sum, "hinge_max": hinge_max}[loss]
    value, _ = function(X @ machine.weights[0] @ A.T, codes, 1.0)
    assert program.fun > 1.0  # the classes overlap: there is something to optimise
    assert program.fun - 1e-9 <= value <= 1.02 * program.fun


# ---------------------------------------------------------------------- what the estimators share
def small(seed=0):
    data = make_synthetic(n_instances=300, n_features=12, n_attributes=6, n_seen=8, n_unseen=3)
    X, y = data.rows("train")
    seen = data.attributes_of(data.seen_classes)
    return X, y, seen, data.attributes_of(data.unseen_classes), data


def test_zscore_below_one_matches_standard_scaler_divided_by_its_maximum():
    X = np.random.default_rng(0).gamma(1.0, 2.0, (5000, 4))
    X[:, 2] = 3.7
    expected = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(ZScore.below_one(X).apply(X), expected / expected.max(), atol=1e-12)
    assert np.isfinite(ZScore.below_one(np.ones((3, 2))).apply(np.ones((3, 2)))).all()


@pytest.mark.parametrize("method", ALL)
def test_score_grid_equals_separate_fits_and_trains_once_a_learning_rate(method):
    X, y, seen, new, data = small()
    grid = [{"learning_rate": r, "n_epochs": e} for e in (4, 1, 3) for r in (0.05, 0.5)]
    grid += [{**setting, "averaged": True} for setting in grid]
    X_eval, epochs = data.rows("test_seen")[0], []

    def count(stage, done, total, values):
        if stage == "train":
            epochs.append(done)

    estimator = method(random_state=3)
    results = dict(estimator.score_grid(grid, make_fold(X, y, seen, new, X_eval), progress=count))
    assert sorted(results) == list(range(12))
    assert epochs == [1, 2, 3, 4, 1, 2, 3, 4]
    for index, params in enumerate(grid):
        model = method(random_state=3, **params).fit(X, y, class_attributes=seen)
        np.testing.assert_array_equal(results[index], model.add_classes(new).score_classes(X_eval))


@pytest.mark.parametrize("method", ALL)
def test_averaged_weights_are_the_mean_over_the_ends_of_epochs(method):
    X, y, seen, _, _ = small()
    ends = [method(n_epochs=e, random_state=0).fit(X, y, seen).weights_ for e in (1, 2, 3)]
    mean = method(n_epochs=3, averaged=True, random_state=0).fit(X, y, seen).weights_
    np.testing.assert_allclose(mean, np.mean(ends, axis=0), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("method", LINEAR)
def test_margin_only_sets_the_unit_of_scores(method):
    X, y, seen, _, _ = small()
    X = X.astype(np.float64)
    one = method(learning_rate=0.1, margin=1.0, n_epochs=3, random_state=0).fit(X, y, seen)
    two = method(learning_rate=0.4, margin=4.0, n_epochs=3, random_state=0).fit(X, y, seen)
    np.testing.assert_allclose(two.weights_, 4.0 * one.weights_, rtol=1e-9)


@pytest.mark.parametrize("method", LINEAR)
def test_scores_do_not_depend_on_the_names_of_classes(method):
    X, y, seen, _, _ = small()
    X = X.astype(np.float64)
    names = sorted(seen)
    new_name = dict(zip(names, reversed(names), strict=True))
    first = method(n_epochs=5, random_state=0).fit(X, y, seen)
    second = method(n_epochs=5, random_state=0).fit(
        X, np.array([new_name[name] for name in y]), {new_name[n]: a for n, a in seen.items()}
    )
    np.testing.assert_allclose(first.score_classes(X), second.score_classes(X)[:, ::-1], atol=1e-9)


def test_two_classes_make_the_three_losses_the_same():
    X, y, seen, _, _ = small()
    names = sorted(seen)[:2]
    rows, table = np.isin(y, names), {name: seen[name] for name in names}
    weights = [
        method(learning_rate=0.1, n_epochs=4, random_state=0).fit(X[rows], y[rows], table).weights_
        for method in LINEAR
    ]
    np.testing.assert_allclose(weights[0], weights[1], atol=1e-7)
    np.testing.assert_allclose(weights[0], weights[2], atol=1e-7)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize("scaling", ["zscore", "none"])
@pytest.mark.parametrize("feature_map", ["none", "l2"])
def test_scores_are_the_compatibility_of_scaled_features_and_unit_attributes(
    method, scaling, feature_map
):
    X, y, seen, new, _ = small()
    if feature_map == "l2":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    settings = {"scaling": scaling, "feature_map": feature_map}
    model = method(n_epochs=2, **settings, random_state=0).fit(X, y, seen).add_classes(new)
    rows = X[:20].astype(np.float64)
    if scaling == "zscore":
        train = X.astype(np.float64)
        spread = (train - train.mean(axis=0)) / train.std(axis=0)
        rows = (rows - train.mean(axis=0)) / train.std(axis=0) / spread.max()
    A = model.class_attributes_ / np.linalg.norm(model.class_attributes_, axis=1, keepdims=True)
    expected = np.max([rows @ w @ A.T for w in model.weights_], axis=0)
    np.testing.assert_allclose(model.score_classes(X[:20]), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ALL)
@pytest.mark.parametrize(
    "params",
    [
        {"learning_rate": 0.0},
        {"n_epochs": 0},
        {"batch_size": 1.5},
        {"margin": -1.0},
        {"scaling": "minmax"},
    ],
)
def test_parameters_out_of_range_are_refused(method, params):
    X, y, seen, _, _ = small()
    with pytest.raises(DataError, match=f"{next(iter(params))} must be"):
        method(**params).fit(X, y, seen)


# ---------------------------------------------------------------------- one step by hand
@pytest.mark.parametrize(
    ("method", "slope"),
    [
        # W = 0: both wrong classes violate, so rank 2 and weight (1 + 1/2)/2 = 0.75 each.
        (ALEClassifier, 2.25 * np.eye(3) - 0.75),
        # Both wrong classes violate and count once each.
        (DeViSEClassifier, 3.0 * np.eye(3) - 1.0),
        # The two wrong classes tie for the worst and share one unit.
        (SJEClassifier, 1.5 * np.eye(3) - 0.5),
    ],
)
def test_first_step_moves_away_from_the_wrong_classes_by_the_loss(method, slope):
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = method(learning_rate=0.5, n_epochs=1, scaling="none", random_state=0)
    model.fit(X, ["a", "b", "c"])
    np.testing.assert_allclose(model.weights_[0], 0.5 * X.T @ slope, atol=1e-12)


@pytest.mark.parametrize("method", LINEAR)
def test_unseen_classes_are_recognised(method):
    data = make_synthetic(n_instances=1500, n_seen=30, n_unseen=6, n_attributes=8)
    X, y = data.rows("train")
    model = method(random_state=0).fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_unseen, y_unseen = data.rows("test_unseen")
    X_seen, y_seen = data.rows("test_seen")
    assert (model.predict(X_unseen, among="unseen") == y_unseen).mean() > 0.9
    assert (model.predict(X_seen) == y_seen).mean() > 0.9


@pytest.mark.parametrize("method", LINEAR)
def test_saved_and_loaded_scores_are_the_same(tmp_path, method):
    data = make_synthetic(n_instances=120, n_features=6, n_seen=4, n_unseen=2)
    X, y = data.rows("train")
    model = method(n_epochs=2, random_state=0)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    loaded = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
    assert model.class_embeddings_.shape == (6, 6)


# ---------------------------------------------------------------------- LatEm
def crossed_modes():
    """Each class has two opposite modes: no linear score tells the classes apart."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    signs = np.where(np.arange(200) // 2 % 2, 1.0, -1.0)
    X = 3.0 * signs[:, None] * np.eye(2)[y] + rng.normal(0, 0.2, (200, 2))
    return X, y


def test_latem_separates_classes_of_two_modes_only_with_several_matrices():
    X, y = crossed_modes()
    settings = {"learning_rate": 0.05, "n_epochs": 60, "scaling": "none", "random_state": 0}
    assert LatEmClassifier(n_matrices=4, **settings).fit(X, y).score(X, y) > 0.97
    assert LatEmClassifier(n_matrices=1, **settings).fit(X, y).score(X, y) < 0.8


def test_latem_start_differs_between_matrices_and_seeds():
    X, y = crossed_modes()
    first, again, other = (
        LatEmClassifier(n_epochs=1, random_state=seed).fit(X, y).weights_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first[0], first[1])


@pytest.mark.parametrize("n_matrices", [1, 3])
def test_latem_saved_and_loaded_scores_the_same(tmp_path, n_matrices):
    data = make_synthetic(n_instances=120, n_features=6, n_seen=4, n_unseen=2)
    X, y = data.rows("train")
    model = LatEmClassifier(n_matrices=n_matrices, n_epochs=2, random_state=0)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    loaded = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
    assert hasattr(model, "class_embeddings_") == (n_matrices == 1)


def test_latem_recognises_unseen_classes():
    data = make_synthetic(n_instances=1500, n_seen=30, n_unseen=6, n_attributes=8)
    X, y = data.rows("train")
    model = LatEmClassifier(random_state=0).fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_unseen, y_unseen = data.rows("test_unseen")
    assert (model.predict(X_unseen, among="unseen") == y_unseen).mean() > 0.75


def test_latem_refuses_no_matrix():
    with pytest.raises(DataError, match="n_matrices must be"):
        LatEmClassifier(n_matrices=0).fit(*crossed_modes())
