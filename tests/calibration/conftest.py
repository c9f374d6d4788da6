"""Folds whose scores are log-likelihoods times a temperature, so that the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.calibration import FoldSample


def gaussian_sample(
    seed: int, temperature: float = 1.0, n_seen: int = 20, n_added: int = 20, per_class: int = 20
) -> FoldSample:
    """Equally frequent Gaussian classes of unit variance; scores are T times log-likelihoods."""
    rng = np.random.default_rng(seed)
    n_classes, width = n_seen + n_added, 4
    means = rng.normal(size=(n_classes, width)) * 1.3
    truth = np.repeat(np.arange(n_classes), per_class)
    rows = means[truth] + rng.normal(size=(len(truth), width))
    scores = -0.5 * temperature * ((rows[:, None] - means) ** 2).sum(axis=2)
    names = tuple((seed, number) for number in range(n_added))
    return FoldSample(scores.astype(np.float32), truth, n_seen, names)


@pytest.fixture(scope="session")
def folds() -> list[FoldSample]:
    return [gaussian_sample(seed, 0.3) for seed in range(6)]


@pytest.fixture(scope="session")
def fresh() -> list[FoldSample]:
    """Classes that no fold has seen."""
    return [gaussian_sample(seed, 0.3) for seed in range(100, 112)]
