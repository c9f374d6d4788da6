"""Classes grow up: what a few images of a class do that was added by its attributes.

    python benchmarks/growing.py --root DATA [--data CUB,AWA1] [--seeds 5] [--out FILE]

The closed form is chosen on validation classes, fitted, given the unseen classes by attributes, and
then fed n images of each of them with `partial_fit`. Ten images of every unseen class are set aside
for that, whatever n is, so every n is tested on the same images. Beside it stands the nearest class
mean in the same metric, which knows the n images but not the attributes.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from _script import FEATURES, arguments, one_thread, write_record
from hgkt._geometry import normalised_scores
from hgkt.calibration.curve import SeenUnseenCurve, best_calibration, seen_unseen_curve
from hgkt.calibration.folds import split_fold
from hgkt.data import GZSLDataset, load_dataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import ClassFoldSearch, gzsl_metrics

STEPS = (1, 2, 5, 10)
POSTERIOR, CLASS_MEAN = "attributes and images", "images only"
CALIBRATIONS = ("none", "kept", "graded", "matched")
METRICS = ("ts", "tr", "H", "zsl", "ausuc", "H_star")
N_DRAWS = 2  # draws per validation fold from which the matched calibration is chosen


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
    seconds: float

    def curve(self) -> SeenUnseenCurve:
        """Accuracies for every γ that is taken off the old classes."""
        return seen_unseen_curve(
            self.old, self.y_old, self.new, self.y_new, self.classes, self.n_old
        )

    def metrics(self, gamma: float) -> dict[str, float]:
        """Figures in percent with γ taken off the old classes."""
        data = (self.old, self.y_old, self.new, self.y_new, self.classes, self.n_old)
        values = gzsl_metrics(*data, calibration=gamma).to_dict()
        return {name: values[name] for name in METRICS}


def grow(model: HGKTClassifier, images: Images, seed: int) -> Iterator[Scores]:
    """Yield the scores of the model as each added class gets 0, 1, 2, … images.

    Images come as they would in use: one more, one more, three more, five more.
    """
    model = copy.deepcopy(model)
    old, new = model.seen_classes_, model.unseen_classes_
    drawn = draw(images.y_new, STEPS[-1], seed)
    left = np.setdiff1d(np.arange(len(images.y_new)), drawn)
    tests = images.X_old, images.X_new[left]
    labels = {"y_old": images.y_old, "y_new": images.y_new[left]}
    classes = np.concatenate([old, new])
    for n_before, n in zip((None, 0, *STEPS), (0, *STEPS), strict=False):
        start = time.perf_counter()
        if n_before is not None:
            rows = drawn[:, n_before:n].ravel()
            model.partial_fit(images.X_new[rows], images.y_new[rows])
        seconds = time.perf_counter() - start
        columns = model.candidates(classes.tolist())
        scored = [model.score_classes(X, penalty=False)[:, columns] for X in tests]
        yield Scores(
            POSTERIOR, n, scored[0], new=scored[1], classes=classes, n_old=len(old),
            seconds=seconds, **labels,
        )  # fmt: skip
        if n:
            known = images.with_more(drawn[:, :n].ravel())
            scored = class_mean_scores(model, known, tests, classes)
            yield Scores(
                CLASS_MEAN, n, scored[0], new=scored[1], classes=classes, n_old=len(old),
                seconds=0.0, **labels,
            )  # fmt: skip


def draw(y: NDArray[Any], n: int, seed: int) -> NDArray[np.intp]:
    """Return rows (n_classes, n): `n` images of each class at random."""
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(np.flatnonzero(y == name))[:n] for name in np.unique(y)])


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


def matched_calibrations(dataset: GZSLDataset, params: dict[str, Any]) -> dict[str, float]:
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
            for scores in grow(model, images, seed):
                curves.setdefault(_key(scores), []).append(scores.curve())
    return {key: best_calibration(group)[0] for key, group in curves.items()}


def run(name: str, root: str, n_seeds: int) -> dict[str, Any]:
    """Select, fit and grow on one data set."""
    start = time.perf_counter()
    dataset = load_dataset(name, root=root, features=FEATURES[name])
    X, y = dataset.rows("train")
    search = ClassFoldSearch(HGKTClassifier(device="cpu"))
    search.fit(X, y, dataset.attributes_of(dataset.seen_classes), folds=dataset.class_folds())
    model = search.best_estimator_
    params = {**search.best_params_, "device": "cpu"}
    gammas = matched_calibrations(dataset, params)
    model.add_classes(dataset.attributes_of(dataset.unseen_classes))
    n_average = len(X) / len(dataset.seen_classes)
    images = Images(X, y, *dataset.rows("test_seen"), *dataset.rows("test_unseen"))
    rows = []
    for seed in range(n_seeds):
        for scores in grow(model, images, seed):
            kept = model.gamma_
            graded = kept * max(0.0, 1.0 - scores.n_images / n_average)
            values = (0.0, kept, graded, gammas[_key(scores)])
            for calibration, gamma in zip(CALIBRATIONS, values, strict=True):
                row = {"method": scores.method, "n_images": scores.n_images, "seed": seed,
                       "calibration": calibration, "gamma": gamma,
                       "partial_fit_seconds": scores.seconds, **scores.metrics(gamma)}  # fmt: skip
                rows.append(row)
        print(f"{name}: seed {seed} done", file=sys.stderr)
    return {
        "data": name,
        "features": FEATURES[name],
        "fingerprint": dataset.fingerprint(),
        "n_old_classes": len(dataset.seen_classes),
        "n_new_classes": len(dataset.unseen_classes),
        "params": search.best_params_,
        "calibration": model.gamma_,
        "matched_calibrations": gammas,
        "seconds": time.perf_counter() - start,
        "rows": rows,
    }


def main() -> None:
    """Run the data sets and write the record."""
    parser = arguments(__doc__, "growing")
    parser.add_argument("--data", default="CUB,AWA1")
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    one_thread()
    results = [run(name, args.root, args.seeds) for name in args.data.split(",")]
    write_record(args.out, {"results": results})


def _key(scores: Scores) -> str:
    return f"{scores.method}, n={scores.n_images}"


if __name__ == "__main__":
    main()
