"""The best classes of each row among tensors of scores; what `_best` does, on a torch device."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_MANY = 1024  # among so many, looking at the maxima of groups first is the fastest
_GROUP = 64

Found = tuple[torch.Tensor, torch.Tensor]
"""Scores (n, k) and columns or positions (n, k)."""


def block_best(scores: torch.Tensor, k: int) -> Found:
    """Return the `k` highest of scores (n, c) and their columns, the first of equals first.

    All columns where there are fewer than `k`. Not in order of the scores.

    Examples
    --------
    >>> values, columns = block_best(torch.tensor([[1.0, 3.0, 2.0, 3.0]]), 1)
    >>> values.tolist(), columns.tolist()
    ([[3.0]], [[1]])
    """
    if k == 1:
        top = scores.max(dim=1)
        return top.values[:, None], top.indices[:, None]
    n_classes = scores.shape[1]
    if n_classes <= k:
        columns = torch.arange(n_classes, device=scores.device).expand(scores.shape)
        return scores, columns
    if n_classes >= _MANY and k < n_classes // (2 * _GROUP):
        values, columns, tied = _grouped_best(scores, k)
    else:
        values, columns = scores.topk(k + 1, dim=1)
        tied = values[:, k] == values[:, k - 1]
        values, columns = values[:, :k], columns[:, :k]
    rows = torch.nonzero(tied)[:, 0]
    if len(rows):  # of equals at the end of the list torch may keep any
        order = scores[rows].sort(dim=1, descending=True, stable=True)
        values[rows], columns[rows] = order.values[:, :k], order.indices[:, :k]
    return values, columns


def best_of_blocks(found: Sequence[Found], k: int) -> Found:
    """Return the best `k` of what blocks had, the best first and of equals the lowest position."""
    values, positions = found[0]
    if len(found) == 1 and k == 1:
        return values, positions
    if len(found) > 1:
        values = torch.cat([part[0] for part in found], dim=1)
        positions = torch.cat([part[1] for part in found], dim=1)
    top = values.topk(min(k + 1, values.shape[1]), dim=1)
    if not bool((top.values[:, 1:] == top.values[:, :-1]).any()):
        return top.values[:, :k], positions.gather(1, top.indices[:, :k])
    by_place = positions.sort(dim=1)
    ranked = values.gather(1, by_place.indices).sort(dim=1, descending=True, stable=True)
    return ranked.values[:, :k], by_place.values.gather(1, ranked.indices)[:, :k]


def _grouped_best(scores: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As `block_best` for many classes, and which rows have equals at the end of the list.

    The `k` best are in the `k` groups of the best maxima, or in the tail that is no group.
    """
    n_rows, n_groups = len(scores), scores.shape[1] // _GROUP
    whole = n_groups * _GROUP
    maxima = scores[:, :whole].reshape(n_rows, _GROUP, n_groups).amax(dim=1)
    best_groups = maxima.topk(k + 1, dim=1)
    inside = torch.arange(_GROUP, device=scores.device) * n_groups
    columns = (best_groups.indices[:, :k, None] + inside).reshape(n_rows, -1)
    tail = torch.arange(whole, scores.shape[1], device=scores.device).expand(n_rows, -1)
    columns = torch.cat([columns, tail], dim=1)
    values, found = scores.gather(1, columns).topk(k + 1, dim=1)
    last = values[:, k - 1]
    tied = (values[:, k] == last) | (best_groups.values[:, k] >= last)
    return values[:, :k], columns.gather(1, found[:, :k]), tied
