"""Synthetic data: attributes determine means, but not linearly."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.data import load_dataset, make_synthetic
from hgkt.data.synthetic import class_means
from hgkt.exceptions import DataError


def test_synthetic_sizes_are_as_asked() -> None:
    data = load_dataset(
        "synthetic", n_instances=300, n_features=7, n_attributes=5, n_seen=11, n_unseen=4
    )
    counts = data.summary()
    assert (counts["n_instances"], counts["n_features"], counts["n_attributes"]) == (300, 7, 5)
    assert (counts["n_seen_classes"], counts["n_unseen_classes"]) == (11, 4)
    assert data.features.min() >= 0
    assert ((data.class_attributes >= 0) & (data.class_attributes <= 1)).all()


def test_synthetic_nearest_true_mean_is_right_when_noise_is_small() -> None:
    data = make_synthetic(noise=0.05)
    means = class_means(data.class_attributes, 64, seed=0)
    X, y = data.rows("test_unseen")
    nearest = ((X[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)
    assert (np.array(data.class_names)[nearest] == y).mean() == 1.0


def test_synthetic_means_are_not_linear_in_the_attributes() -> None:
    data = make_synthetic(n_instances=3000, n_attributes=4, n_seen=200, n_unseen=10, noise=0.0)
    means = np.array([data.features[data.labels == code].mean(axis=0) for code in range(210)])
    inputs = np.hstack([data.class_attributes, np.ones((210, 1))])
    fit = inputs @ np.linalg.lstsq(inputs, means, rcond=None)[0]
    residual = ((means - fit) ** 2).sum() / ((means - means.mean(axis=0)) ** 2).sum()
    assert residual > 0.02
    # Yet the map is smooth and one: equal attributes give equal means.
    expected = class_means(data.class_attributes, 64, seed=0)
    np.testing.assert_allclose(means, expected, rtol=1e-5)


def test_synthetic_noise_scales_with_the_parameter() -> None:
    def spread(noise: float) -> float:
        data = make_synthetic(noise=noise)
        means = class_means(data.class_attributes, 64, seed=0)
        return float((data.features - means[data.labels]).std())

    assert spread(0.2) == pytest.approx(2 * spread(0.1), rel=0.1)


def test_synthetic_same_seed_same_data() -> None:
    assert make_synthetic(seed=3).fingerprint() == make_synthetic(seed=3).fingerprint()
    assert make_synthetic(seed=3).fingerprint() != make_synthetic(seed=4).fingerprint()


@pytest.mark.parametrize(
    "wrong", [{"n_seen": 1}, {"n_unseen": 0}, {"n_instances": 10}, {"noise": -1.0}]
)
def test_synthetic_refuses_impossible_sizes(wrong: dict[str, float]) -> None:
    with pytest.raises(DataError, match=next(iter(wrong))):
        make_synthetic(**wrong)
