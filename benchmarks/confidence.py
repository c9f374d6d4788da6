"""How right probabilities, rejection and prediction sets are, and what they cost.

    python benchmarks/confidence.py --root DATA [--data NAME,...] [--out FILE]

Everything is chosen on validation classes, test rows are read once. Half of the unseen classes
stay unknown in the figures of rejection. For seen classes MAPIE stands beside the prediction sets:
it is given one half of the test images of seen classes to calibrate on and measured on the other
half, with the same probabilities; the model's own thresholds are measured on that half too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from _script import load, run_on_sets
from _timing import in_turns
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.estimators.base import GZSLClassifier
from hgkt.evaluation import evaluate

SETS = {
    "CUB": ("CUB", "att"),
    "CUB sentences": ("CUB", "sent"),
    "AWA1": ("AWA1", "att"),
    "digits": ("digits", "att"),
}
N_SEEDS, REPEATS = 3, 7
_DRAWN = ("reliability", "risk", "sets")


def results(name: str, root: str) -> Iterator[dict[str, Any]]:
    """Yield one row per seed: confidence in each group, unknown classes, MAPIE and costs."""
    folder, attributes = SETS[name]
    data = load(folder, root, attributes=attributes)
    for seed in range(N_SEEDS):
        models: list[GZSLClassifier] = []
        record = evaluate(
            HGKTClassifier(device="cpu"), data, select=True, random_state=seed,
            unknown_classes=len(data.unseen_classes) // 2,
            on_test=lambda model, _, kept=models: kept.append(model),
        )  # fmt: skip
        groups = {
            group: {k: v for k, v in asdict(getattr(record, f"confidence_{group}")).items()
                    if k not in _DRAWN}
            for group in ("seen", "unseen")
        }  # fmt: skip
        yield {
            "data": name, "seed": seed, **groups, "unknown": asdict(record.unknown),
            "mapie": beside_mapie(models[0], data, seed), "cost": cost(models[0], data),
        }  # fmt: skip
        print(f"{name}, seed {seed}: done", flush=True)


class _Seen(ClassifierMixin, BaseEstimator):
    """The probabilities of a model among its seen classes, as MAPIE takes them."""

    def __init__(self, model: Any = None) -> None:
        self.model = model

    @property
    def classes_(self) -> Any:
        return np.arange(len(self.model.seen_classes_))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> _Seen:
        return self

    def predict_proba(self, X: Any) -> Any:
        return self.model.predict_proba(X, "seen")

    def predict(self, X: Any) -> Any:
        return self.predict_proba(X).argmax(axis=1)


def beside_mapie(model: GZSLClassifier, data: GZSLDataset, seed: int) -> dict[str, float]:
    """Return coverage and size of 90 % sets among seen classes, MAPIE's and ours, in percent."""
    from mapie.classification import SplitConformalClassifier

    X, y = data.rows("test_seen")
    codes = np.searchsorted(model.seen_classes_, y)
    calibrate, test = np.array_split(np.random.default_rng(seed).permutation(len(y)), 2)
    reference = SplitConformalClassifier(
        _Seen(model), confidence_level=0.9, conformity_score="lac", prefit=True
    ).conformalize(X[calibrate], codes[calibrate])
    theirs = reference.predict_set(X[test])[1][:, :, 0]
    members = model.answers(X[test], among="seen", coverage=0.9).members
    assert members is not None
    rows = np.arange(len(test))
    return {
        f"{kind}_{who}": value
        for who, inside in (("mapie", theirs), ("own", members))
        for kind, value in (
            ("coverage", 100 * float(inside[rows, codes[test]].mean())),
            ("size", float(inside.sum(axis=1).mean())),
        )
    }


def cost(model: GZSLClassifier, data: GZSLDataset) -> dict[str, float]:
    """Return milliseconds of `predict` and of all answers together, medians of several runs."""
    X = data.rows("test_unseen")[0]
    ways: dict[str, Callable[[], Any]] = {
        "predict": lambda: model.predict(X),
        "answers": lambda: model.answers(X, reject=0.05, coverage=0.8),
    }
    times = {
        name: 1000 * float(np.median([took.wall for took in rounds]))
        for name, rounds in in_turns(ways, REPEATS).items()
    }
    return {**times, "ratio": times["answers"] / times["predict"], "n_rows": len(X)}


if __name__ == "__main__":
    run_on_sets(__doc__, "confidence", ",".join(SETS), results)
