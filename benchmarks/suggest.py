"""What to label next: `suggest` beside random rows and beside the smallest margins.

    python benchmarks/suggest.py --root DATA [--data CUB,EMOJI] [--out FILE]

A closed form with its defaults is fitted on the train rows of the seen classes; the unseen classes
are added by their attributes. Half of all test rows, drawn by the seed, have no label: in each of
six rounds a strategy chooses half as many of them as there are unseen classes, they get their
labels, and their classes grow. The other half is tested on: mean accuracy over all classes.
Nothing is chosen on these rows; the strategy was chosen on seen classes that played unseen.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import load, run_on_sets
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import per_class_accuracy
from hgkt.unknown import suggest

N_ROUNDS, N_SEEDS = 6, 5
Strategy = Callable[[HGKTClassifier, NDArray[Any], int, np.random.Generator], NDArray[np.intp]]


def at_random(
    model: HGKTClassifier, X: NDArray[Any], n: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Choose any rows."""
    return rng.permutation(len(X))[:n]


def by_margin(
    model: HGKTClassifier, X: NDArray[Any], n: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Choose the rows whose two likeliest classes are nearest."""
    ordered = np.sort(model.answers(X).probabilities, axis=1)
    return np.argsort(ordered[:, -1] - ordered[:, -2], kind="stable")[:n]


def by_suggest(
    model: HGKTClassifier, X: NDArray[Any], n: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Choose as the library does."""
    return np.array([found.row for found in suggest(model, X, n)])


STRATEGIES = {"random": at_random, "margin": by_margin, "suggest": by_suggest}


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield the learning curves of every strategy and what `suggest` gains, with intervals."""
    data = load(name, root)
    base = HGKTClassifier(device="cpu").fit(
        *data.rows("train"), data.attributes_of(data.seen_classes)
    )
    base.add_classes(data.attributes_of(data.unseen_classes))
    parts = [data.rows(part) for part in ("test_seen", "test_unseen")]
    X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    n_labels = len(data.unseen_classes) // 2
    curves: dict[str, list[list[float]]] = {strategy: [] for strategy in STRATEGIES}
    for seed in range(N_SEEDS):
        pool = np.random.default_rng(seed).random(len(y)) < 0.5
        for strategy, choose in STRATEGIES.items():
            rng = np.random.default_rng([seed, 1])
            curves[strategy].append(curve(base, choose, X, y, pool, n_labels, rng))
        print(f"{name}, seed {seed}: done", file=sys.stderr, flush=True)
    found = {strategy: np.array(rows) for strategy, rows in curves.items()}
    yield {
        "data": name,
        "n_labels": [n_labels * step for step in range(N_ROUNDS + 1)],
        "curves": {strategy: rows.mean(axis=0).tolist() for strategy, rows in found.items()},
        "gains": {
            other: gain(found["suggest"] - found[other]) for other in ("random", "margin")
        },
    }  # fmt: skip


def curve(
    base: HGKTClassifier,
    choose: Strategy,
    X: NDArray[Any],
    y: NDArray[Any],
    pool: NDArray[np.bool_],
    n_labels: int,
    rng: np.random.Generator,
) -> list[float]:
    """Return the accuracy in percent before, and after each round."""
    model, left = copy.copy(base), np.flatnonzero(pool)
    found = [per_class_accuracy(y[~pool], model.predict(X[~pool]))]
    for _ in range(N_ROUNDS):
        rows = left[choose(model, X[left], n_labels, rng)]
        left = np.setdiff1d(left, rows)
        names = np.unique(y[rows])
        model.grow({name: model.example_sums(X[rows[y[rows] == name]]) for name in names})
        found.append(per_class_accuracy(y[~pool], model.predict(X[~pool])))
    return [100.0 * accuracy for accuracy in found]


def gain(differences: NDArray[np.float64]) -> dict[str, list[float]]:
    """Return means of paired differences (seeds, steps) and half the width of 95 % intervals."""
    from scipy import stats

    n = len(differences)
    width = stats.t.ppf(0.975, n - 1) * differences.std(axis=0, ddof=1) / np.sqrt(n)
    return {"mean": differences.mean(axis=0).tolist(), "interval": width.tolist()}


if __name__ == "__main__":
    run_on_sets(__doc__, "suggest", "EMOJI,CUB", results)
