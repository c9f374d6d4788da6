"""LatEm: what several matrices can do and one cannot, saving, unseen classes."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.baselines.latem import LatEmClassifier
from hgkt.data import make_synthetic
from hgkt.estimators.model_folder import load_model
from hgkt.exceptions import DataError


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
