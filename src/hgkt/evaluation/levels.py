"""How right answers are on every level of a taxonomy, when they back off, and how far off else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import label_text
from hgkt.estimators import Taxonomy
from hgkt.exceptions import DataError

FLOORS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Floors at which back-off is looked at."""


@dataclass(frozen=True)
class LevelAccuracy:
    """Accuracy of the likeliest node of one level, in percent.

    Parameters
    ----------
    level : int
        From 1, the top; the last one is that of the classes.
    n_nodes : int
        How many classes and groups stand there.
    accuracy : float
        Mean over the true classes, each counting alike.
    of_rows : float
        Share of rows.
    """

    level: int
    n_nodes: int
    accuracy: float
    of_rows: float


@dataclass(frozen=True)
class BackOff:
    """Answers that are as deep as a floor of probability lets them be; in percent of rows.

    Parameters
    ----------
    at_least : float
        The floor, as a fraction.
    coverage : float
        Rows that get an answer, a class or a group.
    risk : float or None
        Of those, the ones whose true class does not lie there; None where none is answered.
    classes : float
        Rows that are answered with a class.
    """

    at_least: float
    coverage: float
    risk: float | None
    classes: float


@dataclass(frozen=True)
class TaxonomyReport:
    """What `taxonomy_report` found.

    Parameters
    ----------
    levels : tuple of LevelAccuracy
        From the top to the classes.
    back_off : tuple of BackOff
        One for each floor.
    distance : float or None
        Mean number of steps in the tree from a wrong class to the true one; None without mistakes.
    """

    levels: tuple[LevelAccuracy, ...]
    back_off: tuple[BackOff, ...]
    distance: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def taxonomy_report(
    labels: ArrayLike,
    probabilities: NDArray[Any],
    tree: Taxonomy,
    floors: Sequence[float] = FLOORS,
) -> TaxonomyReport:
    """Measure answers on every level of a taxonomy.

    Parameters
    ----------
    labels : array-like of shape (n,)
        The true class of each row.
    probabilities : ndarray of shape (n, C)
        Of the classes, in the order of `tree`; see `GZSLClassifier.predict_proba`.
    tree : Taxonomy
        Of the same classes; ``model.taxonomy()``.
    floors : sequence of float
        The floors of `Taxonomy.back_off` to measure.

    Returns
    -------
    TaxonomyReport

    Examples
    --------
    >>> tree = Taxonomy.of(["gala", "jazz", "leek"], {"gala": "apple", "jazz": "apple"})
    >>> chances = np.array([[0.5, 0.4, 0.1], [0.3, 0.5, 0.2]])
    >>> report = taxonomy_report(["gala", "gala"], chances, tree, [0.8])
    >>> [level.accuracy for level in report.levels], report.distance, report.back_off[0].risk
    ([100.0, 50.0], 2.0, 0.0)
    """
    place = {name: code for code, name in enumerate(tree.names[: tree.n_classes].tolist())}
    truth = np.empty(len(probabilities), dtype=np.intp)
    for row, label in enumerate(np.asarray(labels).tolist()):
        if label not in place:
            raise DataError(
                f"row {row} is of {label_text(label)}, which is no class of the taxonomy"
            )
        truth[row] = place[label]
    answers = probabilities.argmax(axis=1)
    steps = tree.distances(answers, truth)[answers != truth]
    return TaxonomyReport(
        tuple(_level(level, truth, probabilities, tree) for level in range(1, tree.n_levels + 1)),
        tuple(_backed_off(floor, truth, probabilities, tree) for floor in floors),
        float(steps.mean()) if len(steps) else None,
    )


def _level(
    level: int, truth: NDArray[np.intp], probabilities: NDArray[Any], tree: Taxonomy
) -> LevelAccuracy:
    nodes, chances = tree.at_level(probabilities, level)
    right = nodes[chances.argmax(axis=1)] == tree.names[tree.standing(level)[truth]]
    counts = np.bincount(truth)
    rates = np.bincount(truth, weights=right)[counts > 0] / counts[counts > 0]
    return LevelAccuracy(level, len(nodes), 100 * float(rates.mean()), 100 * float(right.mean()))


def _backed_off(
    floor: float, truth: NDArray[np.intp], probabilities: NDArray[Any], tree: Taxonomy
) -> BackOff:
    found, _ = tree.back_off(probabilities, floor)
    answered = found >= 0
    wrong = ~(tree.paths[truth] == found[:, None]).any(axis=1)
    risk = 100 * float(wrong[answered].mean()) if answered.any() else None
    is_class = answered & (found < tree.n_classes)
    return BackOff(floor, 100 * float(answered.mean()), risk, 100 * float(is_class.mean()))
