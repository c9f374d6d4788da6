"""Scores of many rows against many classes on a torch device; what `_scoring` does, on tensors.

Rows go in blocks and classes in blocks, as there. Rows in host memory are copied to the device
while the block before them is scored. What comes back is the best classes, or blocks of scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hgkt._arrays import is_tensor
from hgkt._validation import LONGEST_ROW, check_features
from hgkt.closed_form.scoring import Scorer
from hgkt.estimators._best_tensors import best_of_blocks, block_best
from hgkt.estimators._scoring import Candidates, ClassBlock, slices

if TYPE_CHECKING:
    from hgkt.estimators.base import GZSLClassifier

_ROW_NUMBERS = 2**25  # features of a block: 128 MiB in float32
_SCORE_NUMBERS = 2**26
_CLASSES = 8192


class _Blocks(NamedTuple):
    """How many rows go at once, and the parts of the class tables that they meet."""

    n_rows: int
    classes: list[tuple[NDArray[Any], slice, ClassBlock]]


def score_blocks(
    model: GZSLClassifier, there: Scorer, features: Any, seen: bool, added: bool
) -> Iterator[tuple[slice, ClassBlock, NDArray[Any]]]:
    """Yield rows, classes and their scores on the host; see `_scoring.score_blocks`."""
    blocks = _blocks(model, features, seen, added)
    for rows, X in _row_blocks(features, blocks.n_rows, there):
        prepared = there.features(X)
        for table, own, block in blocks.classes:
            yield rows, block, there.scores(prepared, table, own).cpu().numpy()


def top_classes(
    model: GZSLClassifier, there: Scorer, features: Any, candidates: Candidates, k: int
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the `k` best classes of each row and their scores; see `_scoring.top_classes`."""
    blocks = _blocks(model, features, candidates.seen, candidates.added)
    wanted = [_on(there, table, own, candidates.inside(block))
              for table, own, block in blocks.classes]  # fmt: skip
    positions = torch.empty((len(features), k), dtype=torch.int64, device=there.device)
    scores = torch.empty((len(features), k), dtype=torch.float64, device=there.device)
    for rows, X in _row_blocks(features, blocks.n_rows, there):
        prepared = there.features(X)
        found = []
        for part in wanted:
            if part is not None:
                values, columns = block_best(part.scores(there, prepared), k)
                found.append((values.double() - part.penalty, part.positions(columns)))
        scores[rows], positions[rows] = best_of_blocks(found, k)
    return positions.cpu().numpy(), scores.cpu().numpy()


def best_classes(
    model: GZSLClassifier, there: Scorer, features: Any, candidates: Candidates, gamma: float
) -> NDArray[np.intp]:
    """Return the best class of each row by the folded metric; see `_scoring.best_classes`."""
    blocks = _blocks(model, features, candidates.seen, candidates.added)
    first = 0 if candidates.seen else candidates.n_seen
    best = torch.empty(len(features), dtype=torch.int64, device=there.device)
    for rows, X in _row_blocks(features, blocks.n_rows, there):
        prepared = there.rows(X)
        groups: dict[bool, list[Any]] = {True: [], False: []}
        for table, own, block in blocks.classes:
            values, columns = block_best(there.order(prepared, table, own), 1)
            groups[block.seen].append((values, columns + (block.first - first)))
        seen, added = (best_of_blocks(found, 1) if found else None for found in groups.values())
        if seen is None or added is None:
            only = seen or added
            assert only is not None
            best[rows] = only[1][:, 0]
            continue
        gaps = (seen[0] - added[0])[:, 0]
        is_seen = gaps >= 0 if gamma == 0.0 else _exceeds(there, prepared, gaps, gamma)
        best[rows] = torch.where(is_seen, seen[1][:, 0], added[1][:, 0])
    return best.cpu().numpy()


def _exceeds(there: Scorer, rows: torch.Tensor, gaps: torch.Tensor, gamma: float) -> torch.Tensor:
    """Say for which rows (n, D) a gap in the folded scores is at least γ in the scores."""
    low, high = there.length_bounds(rows)
    ends = torch.stack([gamma * low, gamma * high]).sort(dim=0).values
    exceeds = gaps >= ends[1]
    unclear = torch.nonzero(~exceeds & (gaps > ends[0]))[:, 0]
    if len(unclear):
        exceeds[unclear] = gaps[unclear] / there.lengths(rows[unclear]) >= gamma
    return exceeds


class _Part(NamedTuple):
    """Candidates within one block of classes, on the device."""

    table: NDArray[Any]
    some: slice | torch.Tensor
    places: int | torch.Tensor
    penalty: float
    penalties: torch.Tensor | None

    def scores(self, there: Scorer, prepared: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = there.scores(prepared, self.table, self.some)
        return scores if self.penalties is None else scores.sub_(self.penalties)

    def positions(self, columns: torch.Tensor) -> torch.Tensor:
        return columns + self.places if isinstance(self.places, int) else self.places[columns]


def _on(there: Scorer, table: NDArray[Any], own: slice, wanted: Any) -> _Part | None:
    """Return the candidates of a block as tensors; None where there is none."""
    if not wanted.n:
        return None
    device = there.device
    some: slice | torch.Tensor
    if isinstance(wanted.local, slice):
        some = slice(own.start + wanted.local.start, own.start + wanted.local.stop)
    else:
        some = torch.tensor(wanted.local + own.start, device=device)
    places = wanted.places
    if not isinstance(places, int):
        places = torch.tensor(places, device=device)
    if isinstance(wanted.penalty, float):
        return _Part(table, some, places, wanted.penalty, None)
    penalties = torch.tensor(wanted.penalty, dtype=there.dtype, device=device)
    return _Part(table, some, places, 0.0, penalties)


def _blocks(model: GZSLClassifier, features: Any, seen: bool, added: bool) -> _Blocks:
    """Cut rows and classes; how seen classes meet rows does not depend on added ones."""
    n_seen, n_added = len(model.seen_classes_), len(model.unseen_classes_)
    width = min(n_seen, _CLASSES)
    n_rows = max(1, min(_ROW_NUMBERS // features.shape[1], _SCORE_NUMBERS // width))
    groups = [(model._seen_table["embedding"], True, 0, n_seen, width)] if seen else []
    if added and n_added:
        table = model._added_table["embedding"].array
        groups.append((table, False, n_seen, n_added, _SCORE_NUMBERS // n_rows))
    return _Blocks(
        n_rows,
        [
            (table, own, ClassBlock({}, kind, first + own.start, first + own.stop))
            for table, kind, first, n, step in groups
            for own in slices(n, min(step, _CLASSES))
        ],
    )


def _row_blocks(features: Any, n_rows: int, there: Scorer) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield blocks of rows on the device, refused where they cannot be compared."""
    parts = slices(len(features), n_rows)
    blocks: Iterator[tuple[slice, torch.Tensor]]
    if is_tensor(features):
        blocks = ((rows, features[rows].to(there.dtype)) for rows in parts)
    elif there.device == "cpu":
        blocks = ((rows, torch.tensor(features[rows], dtype=there.dtype)) for rows in parts)
    else:
        blocks = _copied_ahead(features, parts, there)
    for rows, X in blocks:
        if not bool((torch.linalg.vector_norm(X, dim=-1) <= LONGEST_ROW).all()):
            check_features(np.asarray(features.cpu() if is_tensor(features) else features),
                           "features")  # fmt: skip
        yield rows, X


def _copied_ahead(
    features: NDArray[Any], parts: Iterator[slice], there: Scorer
) -> Iterator[tuple[slice, torch.Tensor]]:
    """Yield blocks of rows of the host while the next one is on its way to the device."""
    copying: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    now = torch.cuda.current_stream()

    def send(rows: slice) -> tuple[slice, torch.Tensor, torch.cuda.Event]:
        staged = _staged(features[rows], there.dtype)
        with torch.cuda.stream(copying):
            block = staged.to(there.device, non_blocking=True)
            return rows, block, copying.record_event()

    def taken(rows: slice, block: torch.Tensor, sent: torch.cuda.Event) -> Any:
        now.wait_event(sent)
        block.record_stream(now)  # its memory is not given away before it is read
        return rows, block

    waiting = None
    for rows in parts:
        coming = send(rows)
        if waiting is not None:
            yield taken(*waiting)
        waiting = coming
    if waiting is not None:
        yield taken(*waiting)


def _staged(rows: NDArray[Any], dtype: torch.dtype) -> torch.Tensor:
    """Return rows in page-locked memory, from which a device reads while the CPU goes on."""
    if not rows.flags.writeable:  # torch warns of memory that it must not write
        staged = torch.empty(rows.shape, dtype=dtype, pin_memory=True)
        np.copyto(staged.numpy(), rows, casting="same_kind")
        return staged
    source = torch.from_numpy(rows)
    if source.dtype == dtype and source.is_contiguous() and source.is_pinned():
        return source
    return torch.empty(rows.shape, dtype=dtype, pin_memory=True).copy_(source)
