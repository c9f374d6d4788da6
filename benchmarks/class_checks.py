"""What `check_class` is worth: expected against real accuracy of unseen classes, and its time.

    python benchmarks/class_checks.py --root DATA [--out FILE]

A model is fitted with γ from class folds of its seen classes; the seed draws the folds. Every
unseen class is then checked three times: with all other unseen classes added ("together"), with
none ("alone"), each against its accuracy in just that situation, and with none against its
accuracy once all of them are added ("ahead"). Nothing is chosen here: what a check computes was
chosen on seen classes that were held out. Beside it stands what one would try first, the cosine
distance of the attributes to the nearest other class. Times are best taken while nothing else runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from _script import arguments, load, one_thread, write_record
from _timing import timed
from add_class import FULL, fitted_model
from hgkt._arrays import unit_rows
from hgkt.calibration import HeldOutClasses
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.class_check import ClassCheck
from hgkt.evaluation import ClassFoldSearch

SETS = (("CUB", "att"), ("CUB", "sent"), ("AWA1", "att"), ("digits", "att"))
N_SEEDS = 3
N_NAMED = 3
N_TIMED = 200
N_SEEN = 1000


@dataclass(frozen=True)
class Truth:
    """What test images say of the unseen classes.

    Parameters
    ----------
    together, alone : ndarray of shape (U,)
        Accuracy with all unseen classes added, and with each one alone.
    confused : list
        The class that most of the wrong images went to; None where none is wrong.
    robbed : list
        The seen class that loses most images to the class alone; None where none does.
    """

    together: NDArray[np.float64]
    alone: NDArray[np.float64]
    confused: list[Any]
    robbed: list[Any]


def fitted(data: GZSLDataset, seed: int, select: bool) -> HGKTClassifier:
    """Fit on the seen classes, with γ from folds that the seed draws."""
    X, y = data.rows("train")
    stages: Sequence[Any] | None = None if select else []
    # Every class counts alike, as in a plain fit: γ is the same for one added class and for many.
    search = ClassFoldSearch(
        HGKTClassifier(device="cpu"), stages=stages, favour="classes", random_state=seed
    )
    search.fit(X, y, data.attributes_of(data.seen_classes))
    model: HGKTClassifier = search.best_estimator_
    return model


def truth_of(model: HGKTClassifier, data: GZSLDataset, table: dict[Any, Any]) -> Truth:
    """Score the unseen test images among all classes."""
    X, y = data.rows("test_unseen")
    full = copy(model).add_classes(table)
    scores = full.score_classes(X)
    labels, seen = full.classes_, full.candidates("seen")
    X_seen, y_seen = data.rows("test_seen")
    seen_scores = full.score_classes(X_seen)
    best = seen_scores[:, seen].max(axis=1)
    right = labels[seen][seen_scores[:, seen].argmax(axis=1)] == y_seen
    together, alone, confused, robbed = [], [], [], []
    for name in table:
        own, column = scores[y == name], full.column_of(name)
        found = labels[own.argmax(axis=1)]
        together.append(np.mean(found == name))
        alone.append(np.mean(own[:, column] > own[:, seen].max(axis=1)))
        confused.append(_most(found[found != name]))
        robbed.append(_most(y_seen[right & (seen_scores[:, column] > best)]))
    return Truth(np.array(together), np.array(alone), confused, robbed)


def _most(labels: NDArray[Any]) -> Any:
    found, counts = np.unique(labels, return_counts=True)
    return found[counts.argmax()] if len(found) else None


def row_of(name: str, attributes: str, seed: int, select: bool, root: str) -> dict[str, Any]:
    """Fit, check every unseen class, and compare with the truth."""
    data = load(name, root, attributes=attributes)
    model = fitted(data, seed, select)
    table = data.attributes_of(data.unseen_classes)
    truth = truth_of(model, data, table)
    alone = [model.check_class(row, label) for label, row in table.items()]
    together = []
    for label, row in table.items():
        others = {key: value for key, value in table.items() if key != label}
        together.append(copy(model).add_classes(others).check_class(row, label))
    vectors = np.concatenate([model.class_attributes_, list(table.values())])
    cosines = unit_rows(vectors)[len(model.classes_) :] @ unit_rows(vectors).T
    np.fill_diagonal(cosines[:, len(model.classes_) :], -np.inf)
    expected = [check.accuracy for check in together]
    known = expected[0] is not None
    return {
        "data": name,
        "attributes": attributes,
        "selected": select,
        "seed": seed,
        "n_unseen": len(table),
        "n_held_out": together[0].n_held_out,
        "rank_correlation": {
            "together": _rank(expected, truth.together),
            "alone": _rank([check.accuracy for check in alone], truth.alone),
            "ahead": _rank([check.accuracy for check in alone], truth.together),
            "held out": together[0].rank_correlation,
            "attribute distance": _rank((1.0 - cosines.max(axis=1)).tolist(), truth.together),
        },
        "expected": float(np.mean([e or 0.0 for e in expected])) if known else None,
        "real": float(truth.together.mean()),
        "within_range": _within(together, truth.together) if known else None,
        "most_confused_named": _named([c.rivals for c in together], truth.confused),
        "most_robbed_named": _named([c.losses for c in alone], truth.robbed),
    }


def _rank(expected: Sequence[float | None], real: NDArray[np.float64]) -> float | None:
    if any(value is None for value in expected) or len(expected) < 3:
        return None
    return float(spearmanr(expected, real).statistic)


def _within(checks: Sequence[ClassCheck], real: NDArray[np.float64]) -> float:
    ranges = [check.accuracy_range or (0.0, 1.0) for check in checks]
    inside = [low <= value <= high for (low, high), value in zip(ranges, real, strict=True)]
    return float(np.mean(inside))


def _named(named: Sequence[Sequence[Any]], truth: Sequence[Any]) -> float | None:
    """Return how often the true class, where there is one, is among the first three named."""
    pairs = [(parts, other) for parts, other in zip(named, truth, strict=True) if other is not None]
    hits = [other in [part.label for part in parts[:N_NAMED]] for parts, other in pairs]
    return float(np.mean(hits)) if hits else None


def timing() -> dict[str, Any]:
    """Time checks and adds of single classes to a model of a thousand seen classes, in turn."""
    n_attributes = FULL.n_attributes[-1]
    model = fitted_model(FULL, "closed-form", n_attributes, 2 * N_SEEN, N_SEEN)
    rng = np.random.default_rng(0)
    held_out = rng.permutation(N_SEEN)[:750]
    accuracies = rng.random(750)
    folds, gammas = np.repeat([0.0, 1.0, 2.0], 250), np.zeros(750)
    labels = tuple(model.seen_classes_[held_out].tolist())
    # Accuracies from nowhere: what is timed does not depend on them, only that they are there.
    model.set_held_out(HeldOutClasses(labels, folds, gammas, gammas, accuracies, accuracies))
    rows = rng.random((N_TIMED, n_attributes))
    first = _milliseconds(lambda: model.check_class(rows[0]))
    checks, adds = [], []
    for number, row in enumerate(rows):
        checks.append(_milliseconds(lambda row=row: model.check_class(row)))
        trial = copy(model)
        trial.class_doubts({"a first one": row})  # what an add makes once is there
        adds.append(_milliseconds(lambda n=number, r=row, t=trial: t.add_classes({f"n {n}": r})))
    check, add = np.median(checks, axis=0), np.median(adds, axis=0)
    return {
        "n_seen": N_SEEN,
        "n_features": FULL.n_features,
        "n_attributes": n_attributes,
        "check_ms": check[0],
        "check_cpu_ms": check[1],
        "check_p95_cpu_ms": np.percentile([cpu for _, cpu in checks], 95),
        "first_check_cpu_ms": first[1],
        "add_ms": add[0],
        "add_cpu_ms": add[1],
        "checks_per_add": check[1] / add[1],
    }


def _milliseconds(work: Callable[[], Any]) -> tuple[float, float]:
    """Return wall and CPU time."""
    took = timed(work)[1]
    return 1000.0 * took.wall, 1000.0 * took.cpu


def rows_of(root: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each set and seed, and one for a model selected on validation classes."""
    for name, attributes in SETS:
        for seed in range(N_SEEDS):
            yield row_of(name, attributes, seed, False, root)
    yield row_of("CUB", "att", 0, True, root)


def main() -> None:
    """Measure and write the record."""
    args = arguments(__doc__, "class_checks").parse_args()
    one_thread()
    rows = []
    for row in rows_of(args.root):
        rows.append(row)
        print(row, flush=True)
    write_record(args.out, {"rows": rows, "time": timing()})


if __name__ == "__main__":
    main()
