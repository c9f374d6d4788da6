"""Scores of a fitted closed form: rows against class tables, by NumPy or on a torch device.

With u = φ(x) − m the score of class c is Σ uᵀP e_c / ‖uᵀP‖ over the metrics P, where e_c is its row
of the class table in that metric. It can be had in two ways. The *plain* one brings rows into the
metrics and multiplies them with the table. The *folded* one, of a single metric, multiplies u with
rows P e_c, each computed once. The denominator ‖uᵀP‖ is the same for all classes. It has no part in
which of them is best, unless γ is taken off some; and then bounds on it decide for most rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, array_module, map_rows, put, safe_lengths, unit_rows

if TYPE_CHECKING:
    from hgkt.closed_form.transfer import ClosedFormTransfer

_N_DIRECTIONS = 64
_N_TABLES = 4
_SLACK = 1e-3  # of a bound, for the rounding of what it is made of


class Scorer:
    """What a fitted closed form needs of itself to score, as arrays or as tensors on a device.

    Tensors of float32 are multiplied in float32, unless torch is set to allow TF32.

    Parameters
    ----------
    transfer : ClosedFormTransfer
        A fitted transfer; it is read, not kept.
    device : str, optional
        A torch device; by default NumPy computes.
    """

    def __init__(self, transfer: ClosedFormTransfer, device: str | None = None) -> None:
        self.device, self._type = device, np.dtype(transfer.dtype)
        self._settings = settings = transfer.settings
        self._spaces = {
            name: (space.statistics, self._put(space.center), self._put(space.projection))
            for name, space in transfer.spaces.items()
        }
        self._scales = [
            (name, self._put(transfer.spaces[name].scales[shrinkage]))
            for name, shrinkage in settings.metric_keys
        ]
        self.dtype = self._scales[0][1].dtype
        # It saves a product where one metric compares by cosines. On the small side there is none
        # to save: features are brought into the span of the rows.
        self.can_fold = (
            settings.metric == "cosine"
            and len(self._scales) == 1
            and not settings.zero_shot
            and not transfer.on_small_side
        )
        self._projection = next(iter(transfer.spaces.values())).projection
        self._tables, self._folded = _TableMemo(self._put), _TableMemo(self._fold)

    def _put(self, array: Any) -> Any:
        return put(array, self._type, self.device)

    # ------------------------------------------------------------------ plain
    def features(self, X: Any) -> Any:
        """Bring features (n, D) to where rows of a class table are, side by side (n, width).

        For the cosine they have unit length in each metric; for distances see
        `ClosedFormTransfer.join`.
        """
        rows = X if self.device is not None else np.asarray(X, dtype=self._type)
        mapped = {name: self._centred(rows, name) @ P for name, (_, _, P) in self._spaces.items()}
        if len(self._scales) > 1:
            blocks = [mapped[name] * scale for name, scale in self._scales]
        else:  # the scale of the first metric is one
            blocks = list(mapped.values())
        if self._settings.metric == "euclidean":
            (own,) = blocks
            xp = array_module(own)
            squares = xp.einsum("ij,ij->i", own, own)[:, None]
            blocks = [2.0 * own, -xp.ones_like(squares), -squares]
        else:
            blocks = [unit_rows(block) for block in blocks]
        if self._settings.zero_shot:
            blocks.append(unit_rows(rows))
        return blocks[0] if len(blocks) == 1 else array_module(rows).concatenate(blocks, 1)

    def scores(self, features: Any, table: NDArray[Any], some: Any = slice(None)) -> Any:
        """Score such features (n, width) against rows of a class table: (n, c)."""
        rows = (table if self.device is None else self._tables(table))[some]
        return features @ rows.T

    def _centred(self, rows: Any, name: FeatureMap) -> Any:
        """Return φ(x) − m (n, D) under one feature map."""
        statistics, center, _ = self._spaces[name]
        return statistics.coordinates(map_rows(rows, name)) - center

    # ------------------------------------------------------------------ folded
    def saves(self, n_classes: int) -> bool:
        """Whether folding takes fewer operations than bringing features into the metric."""
        return self.can_fold and n_classes <= len(self._space[1])

    def rows(self, X: Any) -> Any:
        """Return u (n, D) of features (n, D)."""
        rows = X if self.device is not None else np.asarray(X, dtype=self._type)
        return self._centred(rows, next(iter(self._spaces)))

    def order(self, rows: Any, table: NDArray[Any], some: Any = slice(None)) -> Any:
        """Return numbers (n, c) that order the classes of each row u as their scores do."""
        return rows @ self._folded(table)[some].T

    def lengths(self, rows: Any) -> Any:
        """Return what `order` is to be divided by (n,) to give scores."""
        return safe_lengths(rows @ self._space[2])

    def length_bounds(self, rows: Any) -> tuple[Any, Any]:
        """Return below and above what `lengths` is (n,), at a fraction of its cost.

        Features vary much in few directions. Along these the length is computed; along all
        others, where the metric is nearly the same, it is bounded.
        """
        xp, spectrum = array_module(rows), self._spectrum
        along = (rows @ spectrum.directions) ** 2
        rest = xp.einsum("ij,ij->i", rows, rows) - along.sum(axis=1)
        inside, rest = along @ spectrum.scales**2, xp.clip(rest, 0.0, None)
        high = xp.sqrt(inside + spectrum.highest**2 * rest)
        low = xp.sqrt(inside + spectrum.lowest**2 * rest)
        return low - _SLACK * high, (1.0 + _SLACK) * high

    @property
    def _space(self) -> Any:
        """Statistics, center and projection of the only feature map."""
        (space,) = self._spaces.values()
        return space

    def _fold(self, table: NDArray[Any]) -> Any:
        return self._put(table) @ self._space[2].T

    @cached_property
    def _spectrum(self) -> _Spectrum:
        scales = np.linalg.norm(self._projection, axis=0)
        order = np.argsort(scales)
        few, rest = order[:_N_DIRECTIONS], scales[order[_N_DIRECTIONS:]]
        directions = np.ascontiguousarray(self._projection[:, few] / scales[few])
        ends = (float(rest[0]), float(rest[-1])) if len(rest) else (0.0, 0.0)
        return _Spectrum(self._put(directions), self._put(scales[few]), *ends)


class _Spectrum(NamedTuple):
    """The directions (D, k) in which features vary most, their scales (k,), those of the rest."""

    directions: Any
    scales: Any
    lowest: float
    highest: float


class _TableMemo:
    """What was computed last of class tables, row by row.

    Scores need something of every class, such as the length of its embedding; computed for each
    batch of rows it would have the whole table read once more. Tables grow at their end and never
    change elsewhere: one that begins where another does in memory goes on with what that one has.
    """

    def __init__(self, compute: Callable[[NDArray[Any]], Any]) -> None:
        self._compute = compute
        self._last: tuple[tuple[NDArray[Any], Any], ...] = ()

    def __call__(self, table: NDArray[Any]) -> Any:
        """Return what is computed of the rows (C, …) of a table."""
        last = self._last
        for earlier, rows in last:
            if earlier is table:
                return rows
        same = next((e for e in last if np.shares_memory(e[0][:1], table[:1])), None)
        if same is None:
            rows = self._compute(table)
        elif len(same[0]) >= len(table):
            return same[1][: len(table)]
        else:
            new = self._compute(table[len(same[0]) :])
            rows = array_module(new).concatenate([same[1], new])
        others = [entry for entry in last if entry is not same]
        self._last = ((table, rows), *others[: _N_TABLES - 1])
        return rows
