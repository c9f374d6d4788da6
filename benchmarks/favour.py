"""What a plain fit says about adding classes, and what test rows say, for what γ may favour.

    python benchmarks/favour.py --root DATA [--data CUB,EMOJI] [--out FILE]

γ and the accuracies to expect come from folds of the training rows. Then one unseen class, 16 and
all of them are added (the first two for ten draws), and test rows are classified.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import load, run_on_sets
from hgkt.calibration import (
    Favour,
    FoldSample,
    ScoredFold,
    class_folds,
    fit_accuracies,
    fit_calibration,
    folds_of_rows,
    sample_folds,
)
from hgkt.calibration.curve import ValidationRows
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.fold_fit import score_folds

FAVOURS = ("learned", "classes", 0.1, "described", "balanced")
N_ADDED = (1, 16)
N_DRAWS = 10


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield accuracies in percent, expected and true, for what is favoured and every number."""
    data = load(name, root)
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    model = HGKTClassifier(calibration=0.0, device="cpu")
    parts = class_folds(np.unique(y), model.default_folds(len(table)))
    scored = list(score_folds(model, folds_of_rows(X, np.asarray(y), table, parts)))
    samples: list[FoldSample] = []
    list(sample_folds(scored, samples))
    expected = fit_accuracies(samples)
    test = _scored_test(model.fit(X, y, table), data)
    n_seen, n_unseen = test.rows.n_seen, test.rows.n_unseen
    for value in FAVOURS:
        law = fit_calibration(scored, favour=Favour(value))
        for n_added in (*N_ADDED, n_unseen):
            gamma = law.gamma(n_seen, n_added)
            found = np.mean([_tested(test, columns, gamma) for columns in _draws(test, n_added)], 0)
            yield {
                "data": name,
                "favour": value,
                "n_seen": n_seen,
                "n_added": n_added,
                "gamma": gamma,
                "before": 100 * _tested(test, np.arange(n_seen + 1), -np.inf)[0],
                "learned": 100 * found[0],
                "added": 100 * found[1],
                "mean": 100 * (n_seen * found[0] + n_added * found[1]) / (n_seen + n_added),
                "expected_before": 100 * expected.at(gamma, 0)[0],
                "expected_learned": 100 * expected.at(gamma, n_added)[0],
                "expected_added": 100 * expected.at(gamma, n_added)[1],
            }


def _scored_test(model: HGKTClassifier, data: GZSLDataset) -> ScoredFold:
    """Return the test rows as a fold: seen rows and classes first."""
    model.add_classes(data.attributes_of(data.unseen_classes))
    (X_seen, y_seen), (X_unseen, y_unseen) = data.rows("test_seen"), data.rows("test_unseen")
    columns = model.candidates()
    scores = model.score_classes(np.concatenate([X_seen, X_unseen]))[:, columns]
    names = model.classes_[columns].tolist()
    return ScoredFold(ValidationRows(y_seen, y_unseen, names, len(model.seen_classes_)), scores)


def _draws(test: ScoredFold, n_added: int) -> Iterator[NDArray[np.intp]]:
    n_seen, n_unseen = test.rows.n_seen, test.rows.n_unseen
    rng = np.random.default_rng(0)
    for _ in range(1 if n_added == n_unseen else N_DRAWS):
        added = n_seen + np.sort(rng.permutation(n_unseen)[:n_added])
        yield np.concatenate([np.arange(n_seen), added])


def _tested(test: ScoredFold, columns: NDArray[np.intp], gamma: float) -> tuple[float, float]:
    seen, unseen = test.rows.curve_among(test.scores, columns).at(gamma)
    return float(seen), float(unseen)


if __name__ == "__main__":
    run_on_sets(__doc__, "favour", "CUB,EMOJI", results)
