"""Classes grow up: what a few images of a class do that was added by its attributes.

    python benchmarks/growing.py --root DATA [--out FILE]

A closed form is chosen on validation classes, fitted, given the unseen classes by attributes, and
then fed n images of each of them with `partial_fit`. Ten images of every unseen class are set aside
for that, whatever n is, so every n is tested on the same images (`protocol`). "ensemble" is what
selection chooses by default, "single" the best single closed form. Beside the latter stands the
nearest class mean in the same metric, which knows the n images but not the attributes.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import FEATURES, arguments, load, one_thread, write_record
from hgkt._arrays import normalised_scores
from hgkt.calibration.curve import SeenUnseenCurve, best_calibration, seen_unseen_curve
from hgkt.calibration.folds import split_fold
from hgkt.data import GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, gzsl_metrics

SETS, N_SEEDS = ("CUB", "AWA1"), 5
STEPS = (1, 2, 5, 10)
POSTERIOR, CLASS_MEAN = "attributes and images", "images only"
CALIBRATIONS = ("none", "kept", "graded", "matched")
MODEL = "model"
SINGLE, ENSEMBLE = "single", "ensemble"
METRICS = ("ts", "tr", "H", "zsl", "ausuc", "H_star")
N_DRAWS = 1  # per validation fold, to choose the matched calibration


@dataclass(frozen=True)
class Images:
    """What the model was fitted on, test images of old classes, and images of new ones."""

    X_fit: NDArray[Any]
    y_fit: NDArray[Any]
    X_old: NDArray[Any]
    y_old: NDArray[Any]
    X_new: NDArray[Any]
    y_new: NDArray[Any]

    def with_more(self, rows: NDArray[np.intp]) -> Images:
        """Return the same where the model has also seen some rows of the new classes."""
        X = np.concatenate([self.X_fit, self.X_new[rows]])
        return replace(self, X_fit=X, y_fit=np.concatenate([self.y_fit, self.y_new[rows]]))


@dataclass(frozen=True)
class Scores:
    """Scores of one model, columns of old classes first, without calibration."""

    method: str
    n_images: int
    old: NDArray[Any]
    y_old: NDArray[Any]
    new: NDArray[Any]
    y_new: NDArray[Any]
    classes: NDArray[Any]
    n_old: int
    penalties: NDArray[np.float64] | None = None
    """What the model itself takes off each class."""

    @property
    def data(self) -> tuple[Any, ...]:
        """What curves and metrics are computed from."""
        return self.old, self.y_old, self.new, self.y_new, self.classes, self.n_old

    def curve(self) -> SeenUnseenCurve:
        """Accuracies for every γ that is taken off the old classes."""
        return seen_unseen_curve(*self.data)

    def metrics(self, gamma: float) -> dict[str, float]:
        """Figures in percent with γ taken off the old classes."""
        values = gzsl_metrics(*self.data, calibration=gamma).to_dict()
        return {name: values[name] for name in METRICS}

    def as_answered(self) -> dict[str, float]:
        """Figures in percent with what the model itself takes off."""
        old, new = self.old - self.penalties, self.new - self.penalties
        return replace(self, old=old, new=new).metrics(0.0)


@dataclass(frozen=True)
class Protocol:
    """Which images of the new classes are given one after another, and which are left to test on.

    Parameters
    ----------
    steps : tuple of (int, ndarray)
        How many images each class has then, and the rows that are given to get there: none, one
        more, one more, three more, five more.
    left : ndarray
        Rows to test on, the same at every step.
    """

    steps: tuple[tuple[int, NDArray[np.intp]], ...]
    left: NDArray[np.intp]


def protocol(y_new: NDArray[Any], seed: int) -> Protocol:
    """Draw images of each new class: those that are given at n = 0, 1, 2, 5, 10, and the rest."""
    rng = np.random.default_rng(seed)
    names = np.unique(y_new)
    drawn = np.array([rng.permutation(np.flatnonzero(y_new == n))[: STEPS[-1]] for n in names])
    stops = (0, 0, *STEPS)
    steps = tuple((stop, drawn[:, start:stop].ravel()) for start, stop in pairwise(stops))
    return Protocol(steps, np.setdiff1d(np.arange(len(y_new)), drawn))


def grow(
    model: HGKTClassifier, images: Images, seed: int, class_means: bool = True
) -> Iterator[Scores]:
    """Yield the scores of the model as each added class gets 0, 1, 2, … images."""
    model = copy.deepcopy(model)
    old, new = model.seen_classes_, model.unseen_classes_
    drawn = protocol(images.y_new, seed)
    tests = images.X_old, images.X_new[drawn.left]
    labels = {"y_old": images.y_old, "y_new": images.y_new[drawn.left]}
    labels |= {"classes": np.concatenate([old, new]), "n_old": len(old)}
    known = images
    for n, rows in drawn.steps:
        if n:
            model.partial_fit(images.X_new[rows], images.y_new[rows])
        columns = model.candidates(labels["classes"].tolist())
        scored = [model.score_classes(X, penalty=False)[:, columns] for X in tests]
        paid = model.penalties_[columns]
        yield Scores(POSTERIOR, n, scored[0], new=scored[1], penalties=paid, **labels)
        if n and class_means:
            known = known.with_more(rows)
            scored = class_mean_scores(model, known, tests, labels["classes"])
            yield Scores(CLASS_MEAN, n, scored[0], new=scored[1], **labels)


def class_mean_scores(
    model: HGKTClassifier,
    known: Images,
    tests: tuple[NDArray[Any], ...],
    classes: NDArray[Any],
) -> list[NDArray[Any]]:
    """Cosines, in the metric of the model, of test images with the mean images of the classes."""
    mapped = model._map_features(known.X_fit)
    means = np.array([mapped[known.y_fit == name].mean(axis=0) for name in classes])
    return [normalised_scores(model._map_features(X), means, 1.0) for X in tests]


def matched_calibrations(
    dataset: GZSLDataset, params: dict[str, Any], class_means: bool
) -> dict[str, float]:
    """Choose γ for each method and number of images by growing the validation classes."""
    X, y = dataset.rows("train")
    table = dataset.attributes_of(dataset.seen_classes)
    curves: dict[str, list[SeenUnseenCurve]] = {}
    for number, (train, val) in enumerate(dataset.class_folds()):
        rows = split_fold(y, train, val, random_state=[0, number])
        model = HGKTClassifier(**params, calibration=0)
        model.fit(X[rows.fit], y[rows.fit], class_attributes={name: table[name] for name in train})
        model.add_classes({name: table[name] for name in val})
        parts = (rows.fit, rows.val_seen, rows.val_unseen)
        images = Images(*(array[part] for part in parts for array in (X, y)))
        for seed in range(N_DRAWS):
            for scores in grow(model, images, seed, class_means):
                curves.setdefault(_key(scores), []).append(scores.curve())
    return {key: best_calibration(group)[0] for key, group in curves.items()}


def chosen(dataset: GZSLDataset, kind: str) -> ClassFoldSearch:
    """Choose the ensemble, or the best single closed form, on validation classes."""
    X, y = dataset.rows("train")
    data = X, y, dataset.attributes_of(dataset.seen_classes), dataset.class_folds()
    search = ClassFoldSearch(HGKTClassifier(device="cpu")).fit(*data)
    if kind == ENSEMBLE:
        return search
    members = [result for result in search.cv_results_ if "members" not in result.params]
    best = max(members, key=lambda result: result.mean)
    only = {name: [value] for name, value in best.params.items() if value is not None}
    return ClassFoldSearch(HGKTClassifier(device="cpu"), stages=[only]).fit(*data)


def run(name: str, kind: str, root: str) -> dict[str, Any]:
    """Select, fit and grow on one data set; return the result."""
    dataset = load(name, root)
    X, y = dataset.rows("train")
    search = chosen(dataset, kind)
    params = {**search.best_params_, "device": "cpu"}
    gammas = matched_calibrations(dataset, params, kind == SINGLE)
    model = HGKTClassifier(**params, calibration=search.calibration_.to_dict())
    model.fit(X, y, dataset.attributes_of(dataset.seen_classes))
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    images = Images(X, y, *dataset.rows("test_seen"), *dataset.rows("test_unseen"))
    return {
        "data": name,
        "model": kind,
        "features": FEATURES[name],
        "fingerprint": dataset.fingerprint(),
        "n_old_classes": len(dataset.seen_classes),
        "n_new_classes": len(dataset.unseen_classes),
        "params": search.best_params_,
        "law": search.calibration_.to_dict(),
        "matched_calibrations": gammas,
        "calibration": model.gamma_,
        "rows": [row for seed in range(N_SEEDS) for row in tested(model, images, seed, gammas)],
    }


def tested(
    model: HGKTClassifier, images: Images, seed: int, gammas: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Yield the figures of one draw of images, for each n, method and reading of γ."""
    n_average = len(images.X_fit) / len(model.seen_classes_)
    for scores in grow(model, images, seed, any(key.startswith(CLASS_MEAN) for key in gammas)):
        kept = model.gamma_
        graded = kept * max(0.0, 1.0 - scores.n_images / n_average)
        values = (0.0, kept, graded, gammas[_key(scores)])
        about = {"method": scores.method, "n_images": scores.n_images, "seed": seed}
        for calibration, gamma in zip(CALIBRATIONS, values, strict=True):
            yield {**about, "calibration": calibration, "gamma": gamma, **scores.metrics(gamma)}
        if scores.penalties is not None:
            yield {**about, "calibration": MODEL, **scores.as_answered()}


def main() -> None:
    """Run the data sets and write the record."""
    args = arguments(__doc__, "growing").parse_args()
    one_thread()
    results = []
    for kind in (SINGLE, ENSEMBLE):
        for name in SETS:
            results.append(run(name, kind, args.root))
            write_record(args.out, {"results": results})
            print(f"{name}, {kind}: done", file=sys.stderr)


def _key(scores: Scores) -> str:
    return f"{scores.method}, n={scores.n_images}"


if __name__ == "__main__":
    main()
