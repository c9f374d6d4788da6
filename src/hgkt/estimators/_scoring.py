"""Scores of many rows against many classes, a block at a time.

A block is some rows against some classes, so that the matrix of all scores is never held where
only the best classes are asked for. How seen classes are cut into blocks depends on them and on
the features alone: their scores are bit-identical whatever classes are added.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators._best import BestFew, BestOne, Penalty, Places
from hgkt.estimators._one_row import best_of_row, row_scores

if TYPE_CHECKING:
    from hgkt.closed_form.scoring import Scorer
    from hgkt.estimators.base import GZSLClassifier

_BLOCK_NUMBERS = 2**22  # scores, or features, of a block: 16 MiB in float32
_BLOCK_CLASSES = 8192


@dataclass(frozen=True)
class ClassBlock:
    """Some rows of one class table, from `first` to `stop` of all classes, seen ones first."""

    table: dict[str, NDArray[Any]]
    seen: bool
    first: int
    stop: int


def score_blocks(
    model: GZSLClassifier, features: NDArray[Any], seen: bool = True, added: bool = True
) -> Iterator[tuple[slice, ClassBlock, NDArray[Any]]]:
    """Yield rows, classes, and the scores (n_rows, n_classes) of the two without γ.

    Parameters
    ----------
    model : GZSLClassifier
        A snapshot of a fitted model.
    features : ndarray of shape (n, n_features)
        Checked features.
    seen, added : bool
        Whose scores are wanted.
    """
    there = model._device_scores()
    if there is not None:
        from hgkt.estimators import _device_scoring

        yield from _device_scoring.score_blocks(model, there, features, seen, added)
        return
    blocks = _class_blocks(model, seen, added)
    single = row_scores(model, features, seen, added) if len(features) == 1 else None
    if single is not None:
        for block in blocks:
            yield slice(0, 1), block, single[:, block.first : block.stop]
        return
    width = max(features.shape[1], _width(model, len(model.seen_classes_)))
    for rows in slices(len(features), _BLOCK_NUMBERS // width):
        prepared = model._map_features(features[rows])
        n_rows = len(prepared)
        for block in blocks:
            # Only added classes may be so many that fewer rows go at once; see the module's text.
            step = n_rows if block.seen else _BLOCK_NUMBERS // (block.stop - block.first)
            for some in slices(n_rows, step):
                scores = model._score(prepared[some], block.table, block.seen)
                yield slice(rows.start + some.start, rows.start + some.stop), block, scores


def table_scores(model: GZSLClassifier, features: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the scores (n, n_classes) of several arrays of features, one below the other.

    Without γ, in the type in which they are computed, and with columns as `candidates` has them:
    seen classes first. Nothing else of that size is made on the way.

    Parameters
    ----------
    model : GZSLClassifier
        A snapshot of a fitted model.
    features : sequence of ndarray of shape (n_i, n_features)
        Checked features.
    """
    shape = sum(len(rows) for rows in features), len(model.classes_)
    scores: NDArray[Any] | None = None
    start = 0
    for part in features:
        for rows, block, found in score_blocks(model, part):
            if scores is None:
                scores = np.empty(shape, dtype=found.dtype)
            scores[start + rows.start : start + rows.stop, block.first : block.stop] = found
        start += len(part)
    return np.empty(shape) if scores is None else scores


def top_classes(
    model: GZSLClassifier, features: NDArray[Any], columns: NDArray[np.intp], k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the positions in `columns` (n, k) of the best classes, and their scores (n, k).

    Of equal scores the class that comes first in `columns` is the better one.

    Parameters
    ----------
    model : GZSLClassifier
        A snapshot of a fitted model.
    features : ndarray of shape (n, n_features)
        Checked features.
    columns : ndarray of int
        The candidates, as columns of ``classes_``.
    k : int
        How many; at most as many as there are candidates.
    """
    candidates = Candidates.of(model, columns)
    there = model._device_scores()
    if there is not None:
        from hgkt.estimators import _device_scoring

        return _device_scoring.top_classes(model, there, features, candidates, k)
    if len(features) == 1:
        single = row_scores(model, features, candidates.seen, candidates.added)
        if single is not None:
            return best_of_row(single, candidates.rows, candidates.penalties, k)
    best = BestOne(len(features)) if k == 1 else BestFew(len(features), k)
    wanted: dict[int, Wanted] = {}
    for rows, block, scores in score_blocks(model, features, candidates.seen, candidates.added):
        if block.first not in wanted:
            wanted[block.first] = candidates.inside(block)
        own = wanted[block.first]
        if own.n:
            best.take(rows, scores[:, own.local], own.places, own.penalty)
    return best.positions, best.scores


def best_classes(
    model: GZSLClassifier, features: NDArray[Any], columns: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the position in `columns` (n,) of the best class of each row.

    Parameters
    ----------
    model, features, columns
        As for `top_classes`.
    """
    candidates = Candidates.of(model, columns)
    gamma, there = candidates.gamma, model._device_scores()
    if there is not None and there.can_fold and candidates.are_groups and gamma is not None:
        from hgkt.estimators import _device_scoring

        return _device_scoring.best_classes(model, there, features, candidates, gamma)
    folded = model._folded(len(columns)) if there is None and candidates.are_groups else None
    if folded is None or gamma is None:
        return top_classes(model, features, columns, 1)[0][:, 0]
    best = np.empty(len(features), dtype=np.intp)
    for rows in slices(len(features), _BLOCK_NUMBERS // features.shape[1]):
        best[rows] = _folded_best(model, folded, folded.rows(features[rows]), candidates, gamma)
    return best


def _folded_best(
    model: GZSLClassifier,
    folded: Scorer,
    rows: NDArray[Any],
    candidates: Candidates,
    gamma: float,
) -> NDArray[np.intp]:
    """Return the best position of each row (n, D); rows go into the metric only where γ decides."""
    seen = added = None
    if candidates.seen:
        seen = BestOne(len(rows))
        seen.take(slice(0, None), folded.order(rows, model._seen_table["embedding"]), 0, 0.0)
    if candidates.added:
        table = model._added_table["embedding"].array
        first = candidates.n_seen if candidates.seen else 0
        added = BestOne(len(rows))
        added.take(slice(0, None), folded.order(rows, table), first, 0.0)
    if seen is None or added is None:
        only = seen or added
        assert only is not None
        return only.positions[:, 0]
    gaps = (seen.scores - added.scores)[:, 0]
    is_seen = gaps >= 0
    if gamma != 0.0:
        is_seen = _exceeds(folded, rows, gaps, gamma)
    return np.where(is_seen, seen.positions[:, 0], added.positions[:, 0])


def _exceeds(
    folded: Scorer, rows: NDArray[Any], gaps: NDArray[np.float64], gamma: float
) -> NDArray[np.bool_]:
    """Say for which rows (n, D) a gap in the folded scores is at least γ in the scores."""
    low, high = folded.length_bounds(rows)
    ends = np.sort([gamma * low, gamma * high], axis=0)
    exceeds: NDArray[np.bool_] = gaps >= ends[1]
    unclear = np.flatnonzero(~exceeds & (gaps > ends[0]))
    if len(unclear):
        exceeds[unclear] = gaps[unclear] / folded.lengths(rows[unclear]) >= gamma
    return exceeds


class Wanted(NamedTuple):
    """What of a block of classes is asked for."""

    local: slice | NDArray[np.intp]
    places: Places
    penalty: Penalty
    n: int


@dataclass(frozen=True)
class Candidates:
    """The rows of the tables that are asked for, and what γ takes off."""

    rows: NDArray[np.intp]
    are_run: bool  # one after another, as the tables have them
    n_seen: int
    penalties: NDArray[np.float64]  # of all classes (C,)

    @classmethod
    def of(cls, model: GZSLClassifier, columns: NDArray[np.intp]) -> Candidates:
        """Look up classes that are given as columns of ``classes_``."""
        rows = model._order.rows[columns]
        are_run = bool((rows[1:] - rows[:-1] == 1).all())
        return cls(rows, are_run, len(model.seen_classes_), model._table_penalties())

    @property
    def seen(self) -> bool:
        """Whether seen classes are among them."""
        return bool(self.rows.min() < self.n_seen)

    @property
    def added(self) -> bool:
        """Whether added classes are among them."""
        return bool(self.rows.max() >= self.n_seen)

    @property
    def gamma(self) -> float | None:
        """What all seen classes pay; None where they differ."""
        own = self.penalties[: self.n_seen]
        return float(own[0]) if (own == own[0]).all() else None

    @property
    def are_groups(self) -> bool:
        """Whether they are all seen classes, all added ones, or both."""
        ends = int(self.rows[0]), int(self.rows[-1]) + 1
        return self.are_run and {*ends} <= {0, self.n_seen, len(self.penalties)}

    def inside(self, block: ClassBlock) -> Wanted:
        """Return which of them are in a block."""
        if self.are_run:
            start = max(int(self.rows[0]), block.first)
            stop = min(int(self.rows[-1]) + 1, block.stop)
            local: slice | NDArray[np.intp] = slice(start - block.first, stop - block.first)
            places: Places = start - int(self.rows[0])
            n = max(0, stop - start)
        else:
            inside = (self.rows >= block.first) & (self.rows < block.stop)
            places = np.flatnonzero(inside)  # ascending: of equals the first is found first
            local = self.rows[places] - block.first
            n = len(places)
        own = self.penalties[block.first : block.stop][local]
        penalty: Penalty = float(own[0]) if n and (own == own[0]).all() else own
        return Wanted(local, places, penalty, n)


def _class_blocks(model: GZSLClassifier, seen: bool, added: bool) -> list[ClassBlock]:
    """Cut the tables of the groups that are wanted into blocks of bounded size."""
    n_seen, n_added = len(model.seen_classes_), len(model.unseen_classes_)
    groups = [(model._seen_table, True, 0, n_seen)] if seen else []
    if added and n_added:
        table = {key: rows.array for key, rows in model._added_table.items()}
        groups.append((table, False, n_seen, n_added))
    return [
        ClassBlock({k: v[own] for k, v in table.items()}, kind, first + own.start, first + own.stop)
        for table, kind, first, n in groups
        for own in slices(n, _width(model, n))
    ]


def _width(model: GZSLClassifier, n_classes: int) -> int:
    return min(n_classes, _BLOCK_CLASSES) if model._scores_classes_apart else n_classes


def slices(n: int, step: int) -> Iterator[slice]:
    """Cut 0 … n into parts of `step`, the last one shorter."""
    step = max(1, step)
    for start in range(0, n, step):
        yield slice(start, min(start + step, n))
