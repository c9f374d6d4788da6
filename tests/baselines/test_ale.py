"""ALE by hand on one step, and on data whose attributes determine the class means."""

from __future__ import annotations

import numpy as np

from hgkt.baselines.ale import ALEClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model


def test_ale_first_step_weighs_each_wrong_class_by_the_harmonic_rank():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    model = ALEClassifier(learning_rate=0.5, n_epochs=1, scaling="none", random_state=0)
    model.fit(X, ["a", "b", "c"])
    # W = 0: both wrong classes violate, so rank 2 and weight (1 + 1/2)/2 = 0.75 each.
    slope = np.array([[1.5, -0.75, -0.75], [-0.75, 1.5, -0.75], [-0.75, -0.75, 1.5]])
    np.testing.assert_allclose(model.weights_[0], 0.5 * X.T @ slope, atol=1e-12)


def test_ale_recognises_unseen_classes():
    data = make_synthetic(n_instances=1500, n_seen=30, n_unseen=6, n_attributes=8)
    X, y = data.rows("train")
    model = ALEClassifier(random_state=0).fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X_unseen, y_unseen = data.rows("test_unseen")
    X_seen, y_seen = data.rows("test_seen")
    assert (model.predict(X_unseen, among="unseen") == y_unseen).mean() > 0.9
    assert (model.predict(X_seen) == y_seen).mean() > 0.9


def test_ale_saved_and_loaded_scores_the_same(tmp_path):
    data = make_synthetic(n_instances=120, n_features=6, n_seen=4, n_unseen=2)
    X, y = data.rows("train")
    model = ALEClassifier(n_epochs=2, random_state=0)
    model.fit(X, y, data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    loaded = load_model(model.save(tmp_path / "m"))
    np.testing.assert_array_equal(loaded.score_classes(X), model.score_classes(X))
    assert model.class_embeddings_.shape == (6, 6)
