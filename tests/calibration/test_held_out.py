"""What is remembered of classes that were held out."""

from __future__ import annotations

import numpy as np

from hgkt.calibration import Calibration, HeldOutClasses, HeldOutRows, ScoredFold
from hgkt.calibration.curve import ValidationRows


def fold(seed, held_out):
    """Two rows of each of three seen and of the held-out classes, at random scores."""
    rng = np.random.default_rng(seed)
    seen = ["p", "q", "r"]
    rows = ValidationRows(np.repeat(seen, 2), np.repeat(held_out, 2), [*seen, *held_out], 3)
    return ScoredFold(rows, rng.normal(size=(2 * (3 + len(held_out)), 3 + len(held_out))))


def test_accuracies_are_those_of_the_best_class_under_the_calibration():
    folds = [fold(1, ["b", "a"]), fold(2, ["c", "d", "e", "f"])]
    watched, law = HeldOutRows(), Calibration(0.2, 0.4)
    assert list(watched.watch(iter(folds))) == folds
    found = watched.at(law)
    assert found.labels == ("b", "a", "c", "d", "e", "f")
    assert found.folds.tolist() == [0, 0, 1, 1, 1, 1]
    position = 0
    for part in folds:
        scores, n_added = part.scores[6:], part.rows.n_unseen
        for column in range(n_added):
            own = scores[2 * column : 2 * column + 2].copy()
            taken_off = own - np.where(np.arange(3 + n_added) < 3, law.gamma(3, n_added), 0.0)
            together = np.mean(taken_off.argmax(axis=1) == 3 + column)
            assert found.together[position] == together
            assert found.gammas[position] == law.gamma(3, n_added)
            best = own[:, :3].max(axis=1) - law.gamma(3, 1)
            assert found.alone[position] == np.mean(own[:, 3 + column] > best)
            assert found.gammas_alone[position] == law.gamma(3, 1)
            position += 1


def test_without_folds_nothing_is_known():
    assert HeldOutRows().at(Calibration()) is None


def test_an_array_brings_it_back_whatever_the_order_of_classes():
    watched = HeldOutRows()
    list(watched.watch([fold(1, ["b", "a"])]))
    found = watched.at(Calibration(0.1))
    again = HeldOutClasses.from_array(found.to_array(["a", "b", "c"]), ["a", "b", "c"])
    assert again.labels == found.labels
    np.testing.assert_array_equal(again.together, found.together)
    np.testing.assert_array_equal(again.gammas, found.gammas)
