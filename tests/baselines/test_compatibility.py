"""The bilinear trainer against published updates, and what its four methods share."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.preprocessing import StandardScaler

from hgkt.baselines._shared.compatibility import BilinearTrainer
from hgkt.baselines._shared.ranking import hinge_max, hinge_sum
from hgkt.baselines._shared.rows import ZScore
from hgkt.baselines.ale import ALEClassifier
from hgkt.baselines.devise import DeViSEClassifier
from hgkt.baselines.latem import LatEmClassifier
from hgkt.baselines.sje import SJEClassifier
from hgkt.data import make_synthetic
from hgkt.exceptions import DataError

LINEAR = [ALEClassifier, DeViSEClassifier, SJEClassifier]
ALL = [*LINEAR, LatEmClassifier]


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
def test_fit_score_grid_equals_separate_fits_and_trains_once_a_learning_rate(method):
    X, y, seen, new, data = small()
    grid = [{"learning_rate": r, "n_epochs": e} for e in (4, 1, 3) for r in (0.05, 0.5)]
    grid += [{**setting, "averaged": True} for setting in grid]
    X_eval, epochs = data.rows("test_seen")[0], []

    def count(stage, done, total, values):
        if stage == "train":
            epochs.append(done)

    estimator = method(random_state=3)
    results = dict(estimator.fit_score_grid(grid, X, y, seen, new, X_eval, progress=count))
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
