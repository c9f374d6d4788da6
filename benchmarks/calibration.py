"""What the law of γ is worth when few classes are added; no test row is read.

    python benchmarks/calibration.py --root DATA [--data CUB,AWA1] [--out FILE]

The default is selected on the published folds. Then each fold plays the test: γ comes from the
other folds, as one number and as a law, and U of its unseen classes compete with its seen ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from _script import load, run_on_sets
from hgkt.calibration import ScoredFold, fit_calibration
from hgkt.calibration.curve import SeenUnseenCurve, best_calibration
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, harmonic_mean
from hgkt.evaluation.selection import SearchData, score_folds

N_ADDED = (1, 2, 5, 10, 20, 50)
N_DRAWS = 20


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield mean H for every number of added classes and way to set γ."""
    data = load(name, root)
    X, y = data.rows("train")
    table = data.attributes_of(data.seen_classes)
    search = ClassFoldSearch(HGKTClassifier(device="cpu"))
    search.fit(X, y, table, folds=data.class_folds())
    winner = HGKTClassifier(device="cpu", **search.best_params_)
    whole = SearchData.of_rows(X, y, table)
    parts = whole.folds(search.folds_, search.holdout, search.random_state)
    folds = list(score_folds(winner, parts))
    others = [[fold for fold in folds if fold is not own] for own in folds]
    laws = [fit_calibration(group) for group in others]
    numbers = [best_calibration([f.rows.curve(f.scores) for f in group])[0] for group in others]
    for n_added in N_ADDED:
        if n_added > min(fold.rows.n_unseen for fold in folds):
            continue
        found: dict[str, list[float]] = {"none": [], "one number": [], "law": [], "best": []}
        for fold, law, number in zip(folds, laws, numbers, strict=True):
            curves = list(_drawn(fold, n_added))
            law_gamma = law.gamma(fold.rows.n_seen, n_added)
            gammas = {"none": 0.0, "one number": number, "law": law_gamma}
            gammas["best"] = best_calibration(curves)[0]
            for key, gamma in gammas.items():
                found[key].append(float(np.mean([_h(curve, gamma) for curve in curves])))
        means = {key: 100 * float(np.mean(values)) for key, values in found.items()}
        yield {"data": name, "n_added": n_added, "n_seen": folds[0].rows.n_seen, "H": means}


def _drawn(fold: ScoredFold, n_added: int) -> Iterator[SeenUnseenCurve]:
    rng = np.random.default_rng(n_added)
    n_seen = fold.rows.n_seen
    for _ in range(N_DRAWS):
        unseen = n_seen + np.sort(rng.permutation(fold.rows.n_unseen)[:n_added])
        yield fold.rows.curve_among(fold.scores, np.concatenate([np.arange(n_seen), unseen]))


def _h(curve: SeenUnseenCurve, gamma: float) -> float:
    seen, unseen = curve.at(gamma)
    return harmonic_mean(float(seen), float(unseen))


if __name__ == "__main__":
    run_on_sets(__doc__, "calibration", "CUB,AWA1", results)
