"""Scores of many rows against many classes, a block at a time, and the best classes of each row.

A block is some rows against some classes, so that the matrix of all scores is never held where
only the best classes are asked for. How seen classes are cut into blocks depends on them and on
the features alone: their scores are bit-identical whatever classes are added.

There are two ways to the best class: the plain one through scores, and the folded one of a method
that can order classes without bringing rows into its metric. Both run on NumPy's arrays and, where
a method can, on tensors of a torch device. Of the methods here the closed form does both, by its
`Scorer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from hgkt._arrays import batches, is_tensor
from hgkt._validation import LONGEST_ROW, check_features
from hgkt.calibration.novelty import rejected
from hgkt.estimators.class_table import ClassRows
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.closed_form.scoring import Scorer
    from hgkt.estimators.base import GZSLClassifier

_BLOCK_NUMBERS = 2**22  # scores, or features, of a block: 16 MiB in float32
_DEVICE_ROW_NUMBERS = 2**25  # features of a block on a device: 128 MiB in float32
_DEVICE_SCORE_NUMBERS = 2**26
_BLOCK_CLASSES = 8192
_CHUNK_NUMBERS = 2**24  # numbers in the largest intermediate of confident answers: 128 MiB

_FEW = 64  # among so few candidates sorting all is the fastest
_MANY = 1024  # among so many, looking at the maxima of groups first is
_GROUP = 64


# ---------------------------------------------------------------------- blocks of scores
@dataclass(frozen=True)
class ClassBlock:
    """Some classes, from row `first` to `stop` of a class table; `own` are their rows in `rows`."""

    rows: ClassRows
    own: slice
    seen: bool
    first: int
    stop: int


def score_blocks(
    model: GZSLClassifier, features: Any
) -> Iterator[tuple[slice, ClassBlock, NDArray[Any]]]:
    """Yield rows, classes, and the scores (n_rows, n_classes) of the two without γ.

    Parameters
    ----------
    model : GZSLClassifier
        A snapshot of a fitted model.
    features : ndarray of shape (n, n_features)
        Checked features.
    """
    for rows, block, scores in _blocks(model, features):
        yield rows, block, scores.cpu().numpy() if is_tensor(scores) else scores


def _blocks(
    model: GZSLClassifier, features: Any, seen: bool = True, added: bool = True
) -> Iterator[tuple[slice, ClassBlock, Any]]:
    """As `score_blocks`, of seen or added classes or of both; on a device scores stay there."""
    scorer = model._device_scores()
    if scorer is not None:
        n_rows, blocks = _device_blocks(model, features.shape[1], seen, added)
        for rows, X in _device_rows(features, n_rows, scorer):
            prepared = scorer.features(X)
            for block in blocks:
                yield rows, block, scorer.scores(prepared, block.rows["embedding"], block.own)
        return
    blocks = _class_blocks(model, seen, added)
    width = max(features.shape[1], _width(model, model._table.n_seen))
    for rows in batches(len(features), max(1, _BLOCK_NUMBERS // width)):
        prepared = model._map_features(features[rows])
        n_rows = len(prepared)
        for block in blocks:
            # Only added classes may be so many that fewer rows go at once; see the module's text.
            step = n_rows if block.seen else max(1, _BLOCK_NUMBERS // (block.stop - block.first))
            own = {key: array[block.own] for key, array in block.rows.items()}
            for some in batches(n_rows, step):
                scores = model._score(prepared[some], own, block.seen)
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
    shape = sum(len(rows) for rows in features), len(model._table.labels)
    scores: NDArray[Any] | None = None
    start = 0
    for part in features:
        for rows, block, found in score_blocks(model, part):
            if scores is None:
                scores = np.empty(shape, dtype=found.dtype)
            scores[start + rows.start : start + rows.stop, block.first : block.stop] = found
        start += len(part)
    return np.empty(shape) if scores is None else scores


def _class_blocks(
    model: GZSLClassifier, seen: bool, added: bool, width: int | None = None
) -> list[ClassBlock]:
    """Cut the rows of the groups that are wanted into blocks of bounded size."""
    table = model._table
    groups = [(table.seen, True, 0, table.n_seen)] if seen else []
    n_added = len(table.labels) - table.n_seen
    if added and n_added:
        groups.append((table.added_rows, False, table.n_seen, n_added))
    return [
        ClassBlock(rows, own, kind, first + own.start, first + own.stop)
        for rows, kind, first, n in groups
        for own in batches(n, _width(model, n) if kind or width is None else width)
    ]


def _width(model: GZSLClassifier, n_classes: int) -> int:
    return min(n_classes, _BLOCK_CLASSES) if model._scores_classes_apart else n_classes


# ---------------------------------------------------------------------- the best classes
def top_classes(
    model: GZSLClassifier, features: Any, columns: NDArray[np.intp], k: int
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
    best = BestClasses(len(features), k)
    parts: dict[int, CandidateBlock] = {}
    for rows, block, scores in _blocks(model, features, candidates.seen, candidates.added):
        if block.first not in parts:
            parts[block.first] = candidates.inside(block)
        part = parts[block.first]
        if part.n:
            best.take(rows, scores[:, part.local], part.places, part.penalty)
    return best.positions, best.scores


def best_classes(
    model: GZSLClassifier, features: Any, columns: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the position in `columns` (n,) of the best class of each row.

    Parameters
    ----------
    model, features, columns
        As for `top_classes`.
    """
    candidates = Candidates.of(model, columns)
    gamma, scorer = candidates.gamma, model._device_scores()
    folded: Scorer | None
    if scorer is not None:
        folded = scorer if scorer.can_fold else None
    else:
        folded = model._folded(len(columns))
    if folded is None or gamma is None or not candidates.are_groups:
        return top_classes(model, features, columns, 1)[0][:, 0]
    best = np.empty(len(features), dtype=np.intp)
    if scorer is not None:
        n_rows, blocks = _device_blocks(model, features.shape[1], candidates.seen, candidates.added)
        parts = _device_rows(features, n_rows, scorer)
    else:
        blocks = _class_blocks(model, candidates.seen, candidates.added)
        some = batches(len(features), max(1, _BLOCK_NUMBERS // features.shape[1]))
        parts = ((rows, features[rows]) for rows in some)
    for rows, X in parts:
        found = _folded_best(folded, folded.rows(X), blocks, candidates, gamma)
        best[rows] = found.cpu().numpy() if is_tensor(found) else found
    return best


def _folded_best(
    folded: Scorer,
    rows: Any,
    blocks: Sequence[ClassBlock],
    candidates: Candidates,
    gamma: float,
) -> Any:
    """Return the best position of each row (n, D); rows go into the metric only where γ decides."""
    first = 0 if candidates.seen else candidates.n_seen
    groups: dict[bool, tuple[Any, Any]] = {}
    for block in blocks:
        order = folded.order(rows, block.rows["embedding"], block.own)
        found = order.argmax(axis=1)
        pair = _take(order, found[:, None])[:, 0], found + (block.first - first)
        if block.seen in groups:
            values, positions = groups[block.seen]
            better = pair[0] > values  # of equals the first one is kept
            pair = _where(better, pair[0], values), _where(better, pair[1], positions)
        groups[block.seen] = pair
    if len(groups) == 1:
        return next(iter(groups.values()))[1]
    gaps = groups[True][0] - groups[False][0]
    is_seen = gaps >= 0 if gamma == 0.0 else _exceeds(folded, rows, gaps, gamma)
    return _where(is_seen, groups[True][1], groups[False][1])


def _exceeds(folded: Scorer, rows: Any, gaps: Any, gamma: float) -> Any:
    """Say for which rows (n, D) a gap in the folded scores is at least γ in the scores."""
    ends = [gamma * bound for bound in folded.length_bounds(rows)]
    low, high = ends if gamma > 0 else reversed(ends)
    exceeds = gaps >= high
    unclear = _positions(~exceeds & (gaps > low))
    if len(unclear):
        exceeds[unclear] = gaps[unclear] / folded.lengths(rows[unclear]) >= gamma
    return exceeds


class CandidateBlock(NamedTuple):
    """The candidates in a block of classes: where they are there, and among all candidates."""

    local: slice | NDArray[np.intp]
    places: int | NDArray[np.intp]
    penalty: float | NDArray[np.float64]
    n: int


@dataclass(frozen=True)
class Candidates:
    """The rows of a class table that are asked for, and what γ takes off all rows (C,)."""

    rows: NDArray[np.intp]
    are_run: bool  # one after another, as the table has them
    n_seen: int
    penalties: NDArray[np.float64]

    @classmethod
    def of(cls, model: GZSLClassifier, columns: NDArray[np.intp]) -> Candidates:
        """Look up classes that are given as columns of ``classes_``."""
        rows = model._table.order[columns]
        are_run = bool((rows[1:] - rows[:-1] == 1).all())
        return cls(rows, are_run, model._table.n_seen, model._row_penalties())

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

    def inside(self, block: ClassBlock) -> CandidateBlock:
        """Return which of them are in a block."""
        local: slice | NDArray[np.intp]
        places: int | NDArray[np.intp]
        if self.are_run:
            start = max(int(self.rows[0]), block.first)
            stop = max(start, min(int(self.rows[-1]) + 1, block.stop))
            local, places = slice(start - block.first, stop - block.first), start - self.rows[0]
            n = stop - start
        else:
            inside = (self.rows >= block.first) & (self.rows < block.stop)
            places = np.flatnonzero(inside)  # ascending: of equals the first is found first
            local = self.rows[places] - block.first
            n = len(places)
        own = self.penalties[block.first : block.stop][local]
        same = n and (own == own[0]).all()
        return CandidateBlock(local, places, float(own[0]) if same else own, n)


class BestClasses:
    """The `k` best classes of each row so far, as scores come block by block.

    Attributes
    ----------
    positions : ndarray of shape (n, k)
        Among the candidates, the best first; of equals the first one.
    scores : ndarray of shape (n, k)
        Their scores.
    """

    def __init__(self, n_rows: int, k: int) -> None:
        self.positions = np.empty((n_rows, k), dtype=np.intp)
        self.scores = np.empty((n_rows, k))
        self._n_found = np.zeros(n_rows, dtype=np.intp)

    def take(
        self,
        rows: slice,
        scores: Any,
        places: int | NDArray[np.intp],
        penalty: float | NDArray[np.float64],
    ) -> None:
        """Look at scores (n, c) of some rows and classes, what γ takes off still in.

        Parameters
        ----------
        rows : slice
        scores : ndarray or tensor of shape (n, c)
        places : int or ndarray of shape (c,)
            Where the columns stand among all candidates: from here on, or one by one.
        penalty : float or ndarray of shape (c,)
            What γ takes off: the same off all columns, or one by one.
        """
        k = self.positions.shape[1]
        if isinstance(penalty, np.ndarray):
            scores, penalty = scores - _like(penalty, scores), 0.0
        found = best_columns(scores, min(k, scores.shape[1]))
        values = _take(scores, found)
        if is_tensor(found):
            found, values = found.cpu().numpy(), values.cpu().numpy()
        values = values.astype(np.float64) - penalty
        positions = places + found if isinstance(places, int | np.integer) else places[found]
        n_found = int(self._n_found[rows.start])
        if n_found:
            positions = np.concatenate([self.positions[rows, :n_found], positions], axis=1)
            values = np.concatenate([self.scores[rows, :n_found], values], axis=1)
            order = np.lexsort((positions, -values), axis=1)[:, :k]
            positions, values = _take(positions, order), _take(values, order)
        n_found = positions.shape[1]
        self.positions[rows, :n_found], self.scores[rows, :n_found] = positions, values
        self._n_found[rows] = n_found


def best_columns(scores: Any, k: int) -> Any:
    """Return the columns (n, k) of the highest scores, the best first; the first one of equals.

    Parameters
    ----------
    scores : ndarray or tensor of shape (n, n_classes)
    k : int
        At most as many as there are classes.

    Examples
    --------
    >>> best_columns(np.array([[1.0, 3.0, 2.0, 3.0]]), 3)
    array([[1, 3, 2]])
    """
    if k == 1:
        return scores.argmax(axis=1)[:, None]
    n_classes = scores.shape[1]
    if n_classes <= max(_FEW, 2 * k):
        return _descending(scores)[:, :k]
    outside = None
    if n_classes >= _MANY and k <= n_classes // (2 * _GROUP):
        columns, outside = _best_groups(scores, k)
        few = _take(scores, columns)
        found = _take(columns, _highest(few, k))
    else:
        few, found = scores, _highest(scores, k)
    found = _ascending(found)  # the first one of equals in front
    best = _take(found, _descending(_take(scores, found)))
    last = _take(scores, best[:, -1:])
    # Of equals at the end of the list any may have been found: such rows are sorted anew.
    tied = (few >= last).sum(axis=1) > k
    if outside is not None:
        tied |= (outside >= last)[:, 0]
    rows = _positions(tied)
    if len(rows):
        best[rows] = _descending(scores[rows])[:, :k]
    return best


def _best_groups(scores: Any, k: int) -> tuple[Any, Any]:
    """Return columns (n, m) that hold the `k` best, and the best score (n, 1) outside of them.

    The `k` best are in the `k` groups of the best maxima, or in the tail that is no group.
    """
    n_rows, n_groups = len(scores), scores.shape[1] // _GROUP
    whole = n_groups * _GROUP
    maxima = scores[:, :whole].reshape(n_rows, _GROUP, n_groups)
    maxima = maxima.amax(dim=1) if is_tensor(maxima) else maxima.max(axis=1)
    groups = _highest(maxima, k + 1)
    groups = _take(groups, _descending(_take(maxima, groups)))
    every = _like(np.arange(scores.shape[1]), groups)
    inside = (groups[:, :k, None] + n_groups * every[:_GROUP]).reshape(n_rows, -1)
    tail = every[None, whole:]
    return _beside(inside, tail), _take(maxima, groups[:, k:])


# ---------------------------------------------------------------------- arrays and tensors
def _take(values: Any, columns: Any) -> Any:
    if is_tensor(values):
        return values.gather(1, columns)
    return np.take_along_axis(values, columns, axis=1)


def _highest(values: Any, k: int) -> Any:
    """Return columns (n, k) of the highest values, in no order."""
    if is_tensor(values):
        return values.topk(k, dim=1, sorted=False).indices
    return np.argpartition(-values, k - 1, axis=1)[:, :k]


def _descending(values: Any) -> Any:
    """Return the columns of values, the highest first and of equals the first one."""
    if is_tensor(values):
        return values.argsort(dim=1, descending=True, stable=True)
    return np.argsort(-values, axis=1, kind="stable")


def _ascending(values: Any) -> Any:
    return values.sort(dim=1).values if is_tensor(values) else np.sort(values, axis=1)


def _positions(mask: Any) -> Any:
    return mask.nonzero()[:, 0] if is_tensor(mask) else np.flatnonzero(mask)


def _where(mask: Any, yes: Any, no: Any) -> Any:
    return yes.where(mask, no) if is_tensor(mask) else np.where(mask, yes, no)


def _beside(left: Any, right: Any) -> Any:
    """Join columns (n, a) and the same columns (1, b) of every row."""
    if not is_tensor(left):
        return np.concatenate([left, np.broadcast_to(right, (len(left), right.shape[1]))], axis=1)
    import torch

    return torch.cat([left, right.expand(len(left), -1)], dim=1)


def _like(values: NDArray[Any], array: Any) -> Any:
    """Return values as an array of the module and, if they are floats, of the type of another."""
    if not is_tensor(array):
        return values
    import torch

    dtype = array.dtype if values.dtype.kind == "f" else torch.int64
    return torch.tensor(values, dtype=dtype, device=array.device)


# ---------------------------------------------------------------------- on a torch device
def _device_blocks(
    model: GZSLClassifier, n_features: int, seen: bool, added: bool
) -> tuple[int, list[ClassBlock]]:
    """Return how many rows go at once, and the blocks of classes that they meet.

    How seen classes meet rows does not depend on added ones.
    """
    width = min(model._table.n_seen, _BLOCK_CLASSES)
    n_rows = max(1, min(_DEVICE_ROW_NUMBERS // n_features, _DEVICE_SCORE_NUMBERS // width))
    step = min(_DEVICE_SCORE_NUMBERS // n_rows, _BLOCK_CLASSES)
    return n_rows, _class_blocks(model, seen, added, step)


def _device_rows(features: Any, n_rows: int, scorer: Scorer) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows on the device, refused where they cannot be compared.

    Rows in host memory are copied to a GPU while the block before them is scored.
    """
    import torch

    parts = batches(len(features), n_rows)
    blocks: Iterator[tuple[slice, Any]]
    if is_tensor(features):
        blocks = ((rows, features[rows].to(scorer.dtype)) for rows in parts)
    elif scorer.device == "cpu":
        blocks = ((rows, torch.tensor(features[rows], dtype=scorer.dtype)) for rows in parts)
    else:
        blocks = _copied_ahead(features, parts, scorer)
    for rows, X in blocks:
        if not bool((X.norm(dim=1) <= LONGEST_ROW).all()):
            host = features.cpu() if is_tensor(features) else features
            check_features(np.asarray(host), "features")
        yield rows, X


def _copied_ahead(
    features: NDArray[Any], parts: Iterator[slice], scorer: Scorer
) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows of the host while the next one is on its way to the device."""
    import torch

    copying: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    current = torch.cuda.current_stream()
    waiting = None
    for rows in parts:
        staged = _staged(features[rows], scorer.dtype)
        with torch.cuda.stream(copying):
            block = staged.to(scorer.device, non_blocking=True)
            coming = rows, block, copying.record_event()
        if waiting is not None:
            yield _arrived(current, *waiting)
        waiting = coming
    if waiting is not None:
        yield _arrived(current, *waiting)


def _arrived(stream: Any, rows: slice, block: Any, sent: Any) -> tuple[slice, Any]:
    stream.wait_event(sent)
    block.record_stream(stream)  # its memory is not given away before it is read
    return rows, block


def _staged(rows: NDArray[Any], dtype: Any) -> Any:
    """Return rows in page-locked memory, from which a device reads while the CPU goes on."""
    import torch

    if not rows.flags.writeable:  # torch warns of memory that it must not write
        staged = torch.empty(rows.shape, dtype=dtype, pin_memory=True)
        np.copyto(staged.numpy(), rows, casting="same_kind")
        return staged
    source = torch.from_numpy(rows)
    if source.dtype == dtype and source.is_contiguous() and source.is_pinned():
        return source
    return torch.empty(rows.shape, dtype=dtype, pin_memory=True).copy_(source)


# ---------------------------------------------------------------------- rankings
@dataclass(frozen=True)
class ConfidentRanking:
    """The best classes of some rows and, where the model can tell, how sure that is.

    Parameters
    ----------
    best : ndarray of shape (n, k)
        Columns of ``classes_``, the best first.
    scores : ndarray of shape (n, k)
        Of those classes.
    probabilities : ndarray of shape (n, k)
        Of those classes.
    novelty : ndarray of shape (n,)
        See `GZSLClassifier.novelty`.
    unknown : ndarray of shape (n,)
        Whether the row is rejected.
    sets : list of list, or None
        Labels of each prediction set, the likeliest first.
    """

    best: NDArray[np.intp]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    novelty: NDArray[np.float64]
    unknown: NDArray[np.bool_]
    sets: list[list[Any]] | None


def rank_classes(
    model: GZSLClassifier, X: ArrayLike, columns: NDArray[np.intp], k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `k` best of some classes for each row; the first one of equals.

    Scores of all classes are never held for all rows.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    X : array-like of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates, as columns of ``classes_``; see `GZSLClassifier.candidates`.
    k : int
        How many; fewer where there are fewer candidates.

    Returns
    -------
    best : ndarray of shape (n, k)
        Columns of ``classes_``, the best first.
    scores : ndarray of shape (n, k)
        Their scores.
    """
    check_is_fitted(model)
    moment = model._snapshot()
    found, scores = top_classes(moment, moment._check_rows(X), columns, min(k, len(columns)))
    return columns[found], scores


def rank_with_confidence(
    model: GZSLClassifier,
    X: ArrayLike,
    columns: NDArray[np.intp],
    k: int,
    reject: float | None = None,
    coverage: float | None = None,
) -> ConfidentRanking:
    """Return the `k` best of some classes for each row, and how sure each answer is.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model with ``confidence_``.
    X : array-like of shape (n, n_features)
        Features.
    columns : ndarray of int
        The candidates, as columns of ``classes_``.
    k : int
        How many; fewer where there are fewer candidates.
    reject, coverage : float, optional
        See `GZSLClassifier.answers`.
    """
    if model.confidence_ is None:
        raise DataError(
            "this model cannot say how sure it is: it has no thresholds from validation classes; "
            'fit it by hgkt.ClassFoldSearch, or with calibration="auto" on six classes or more'
        )
    features: Any = X if is_tensor(X) else np.asarray(X)
    among = model.classes_[columns].tolist()
    k = min(k, len(columns))
    step = max(1, _CHUNK_NUMBERS // max(features.shape[1], len(model.classes_)))
    best, scores, probabilities, novelties = [], [], [], []
    sets: list[list[Any]] = []
    for rows in batches(len(features), step):
        found = model.answers(features[rows], among, reject, coverage)
        order = best_columns(found.scores, k)
        best.append(columns[order])
        scores.append(_take(found.scores, order))
        probabilities.append(_take(found.probabilities, order))
        novelties.append(np.asarray(found.novelty))
        if coverage is not None:
            sets += [names.tolist() for names in found.sets()]
    novelty = np.concatenate(novelties)
    return ConfidentRanking(
        np.concatenate(best),
        np.concatenate(scores),
        np.concatenate(probabilities),
        novelty,
        np.zeros(len(novelty), bool) if reject is None else rejected(novelty, reject),
        None if coverage is None else sets,
    )


def prepare_rows(model: GZSLClassifier) -> None:
    """Compute now what the first row would wait for.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted model.
    """
    check_is_fitted(model)
    model.predict(np.zeros((1, model.n_features_in_), dtype=np.float32))
