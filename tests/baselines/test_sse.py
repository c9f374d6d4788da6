"""SSE: mixtures against a general solver, hinge by finite differences, maps, unseen classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from hgkt.baselines.sse import (
    SSEClassifier,
    TemplateModel,
    hinge_objective,
    project_to_simplex,
    simplex_mixtures,
)
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model


@pytest.fixture(scope="module")
def data():
    return make_synthetic(n_instances=900, n_features=32, n_seen=30, n_unseen=5, n_attributes=6)


def _fit(model, data):
    X, y = data.rows("train")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    return model.add_classes(data.attributes_of(data.unseen_classes))


def _random_model(seed=0):
    rng = np.random.default_rng(seed)
    X, codes = rng.random((15, 6)), np.arange(15) % 4
    mixtures = rng.dirichlet(np.ones(4), size=4)
    return TemplateModel(rng.normal(size=6), rng.random((4, 6))), X, codes, mixtures


def test_project_to_simplex_agrees_with_a_general_solver():
    rows = np.random.default_rng(0).normal(size=(10, 5))
    for row, ours in zip(rows, project_to_simplex(rows), strict=True):
        oracle = minimize(
            lambda z, row=row: ((z - row) ** 2).sum(),
            np.full(5, 0.2),
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            tol=1e-14,
        )
        np.testing.assert_allclose(ours, oracle.x, atol=1e-6)


@pytest.mark.parametrize("gamma", [1e-3, 0.1, 10.0])
def test_simplex_mixtures_agree_with_a_general_solver(gamma):
    rng = np.random.default_rng(1)
    sources, targets = rng.random((6, 4)), rng.random((5, 4))
    mixtures = simplex_mixtures(targets, sources, gamma)

    def objective(z, a):
        return 0.5 * ((a - z @ sources) ** 2).sum() + 0.5 * gamma * (z**2).sum()

    for target, ours in zip(targets, mixtures, strict=True):
        oracle = minimize(
            objective,
            np.full(6, 1 / 6),
            (target,),
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda z: z.sum() - 1},
            method="SLSQP",
            options={"ftol": 1e-15, "maxiter": 1000},
        )
        assert objective(ours, target) <= oracle.fun + 1e-10
        assert ours.sum() == pytest.approx(1.0)
        assert ours.min() >= 0.0


def test_simplex_mixtures_are_not_the_projection_of_similarities():
    sources = np.array([[1.0, 0.0], [0.8, 0.6]])
    target = np.array([[0.6, 0.8]])
    euclidean = project_to_simplex(target @ sources.T)
    assert np.abs(simplex_mixtures(target, sources, 0.01) - euclidean).max() > 0.1


def test_template_similarities_equal_the_formula():
    model, X, _, _ = _random_model()
    by_hand = np.empty((15, 4))
    for n, x in enumerate(X):
        for s, v in enumerate(model.templates):
            by_hand[n, s] = model.weights @ np.maximum(0, x - v)
    np.testing.assert_allclose(model.similarities(X), by_hand)


def test_hinge_objective_gradients_agree_with_finite_differences():
    model, X, codes, mixtures = _random_model()

    def at(vector):
        moved = TemplateModel(vector[:6], vector[6:].reshape(4, 6))
        return hinge_objective(moved, X, codes, mixtures, (0.3, 0.2))

    point = np.concatenate([model.weights, model.templates.ravel()])
    value, by_weights, by_templates = at(point)
    scores = model.similarities(X) @ mixtures.T
    own = scores[np.arange(15), codes]
    hinge = np.maximum(0.0, 1.0 + scores - own[:, None]).sum() / 15 - 1.0
    penalty = 0.15 * (model.weights**2).sum() + 0.1 * (model.templates**2).sum()
    assert value == pytest.approx(hinge + penalty)
    gradient = np.concatenate([by_weights, by_templates.ravel()])
    for k in range(len(point)):
        step = np.zeros(len(point))
        step[k] = 1e-6
        slope = (at(point + step)[0] - at(point - step)[0]) / 2e-6
        assert gradient[k] == pytest.approx(slope, abs=1e-5)


def test_sse_training_reaches_the_optimum_of_the_linear_program():
    # With templates fixed and no penalty the hinge in w is a linear program; training moves the
    # templates too, so it must get at least that far.
    rng = np.random.default_rng(3)
    codes = np.arange(24) % 3
    X = rng.random((3, 5))[codes] + 0.35 * rng.random((24, 5))
    templates = np.array([X[codes == c].mean(axis=0) for c in range(3)])
    mixtures = np.eye(3)
    phi = np.minimum(X[:, None], templates)  # (24, 3, 5), small on purpose
    wrong = [(n, c) for n in range(24) for c in range(3) if c != codes[n]]
    rows = np.array([phi[n, c] - phi[n, codes[n]] for n, c in wrong])
    box = 4.0
    program = linprog(
        np.r_[np.zeros(5), np.full(len(wrong), 1 / 24)],
        A_ub=np.hstack([rows, -np.eye(len(wrong))]),
        b_ub=-np.ones(len(wrong)),
        bounds=[(-box, box)] * 5 + [(0, None)] * len(wrong),
    )
    start = TemplateModel.start(templates)
    method = SSEClassifier(
        C=1e9, template_decay=0.0, learning_rate=0.05, n_epochs=1500, batch_size=24, random_state=0
    )
    trained = method._descend(start, X, codes, mixtures)
    reached = hinge_objective(trained, X, codes, mixtures, (0.0, 0.0))[0]
    assert reached <= program.fun * 1.02
    assert reached < hinge_objective(start, X, codes, mixtures, (0.0, 0.0))[0] * 0.7


def test_sse_recognises_unseen_classes(data):
    model = _fit(SSEClassifier(random_state=0), data)
    X, y = data.rows("test_unseen")
    assert (model.predict(X, among="unseen") == y).mean() > 0.6  # chance 0.2
    X, y = data.rows("test_seen")
    assert (model.predict(X, among="seen") == y).mean() > 0.6  # chance 1/30


def test_sse_splits_signed_features_and_keeps_templates_non_negative():
    rng = np.random.default_rng(0)
    codes = np.arange(60) % 3
    X = 3.0 * rng.normal(size=(3, 4))[codes] + 0.5 * rng.normal(size=(60, 4))
    model = SSEClassifier(random_state=0).fit(X, codes)
    assert model.signed_
    assert model.templates_.shape == (3, 8)
    assert model.templates_.min() >= 0.0
    assert model.score(X, codes) > 0.9


def test_sse_large_gamma_makes_all_classes_alike(data):
    spread = _fit(SSEClassifier(gamma=1e6, n_epochs=0), data).class_embeddings_
    np.testing.assert_allclose(spread, 1 / 30, atol=1e-4)
    own = _fit(SSEClassifier(gamma=1e-6, n_epochs=0), data).class_embeddings_
    assert np.abs(own - spread).max() > 0.5


def test_sse_saved_and_loaded_scores_the_same(tmp_path, data):
    model = _fit(SSEClassifier(n_epochs=1, random_state=0), data)
    loaded = load_model(model.save(tmp_path / "m"))
    X = data.rows("test_unseen")[0]
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
