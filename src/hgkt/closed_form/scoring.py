"""Scores of a fitted closed form: rows against class tables, by NumPy or on a torch device.

With u = φ(x) − m the score of class c is uᵀP z_c·f_c / ‖uᵀP‖ in each metric P, where f_c is what
the embedding z_c is divided by. It can be had in two ways. The *plain* one brings rows into the
metrics and multiplies them with embeddings. The *folded* one multiplies u with rows P z_c f_c, each
computed once. The denominator ‖uᵀP‖ is the same for all classes. It has no part in which of them
is best, unless γ is taken off some; and then bounds on it decide for most rows.
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
        self._settings = transfer.settings
        self._spaces = {
            name: (space.statistics, self._put(space.center), self._put(space.projection))
            for name, space in transfer.spaces.items()
        }
        self._metrics = [(name, self._put(scale)) for name, scale, _ in transfer.metric_scales()]
        weights = [weight for *_, weight in transfer.metric_scales()]
        self._weights = put(weights, np.float64, device)
        self.dtype = self._metrics[0][1].dtype
        # It saves a product where one metric compares by cosines. On the small side there is none
        # to save: features are brought into the span of the rows.
        self.can_fold = (
            self._settings.metric == "cosine"
            and len(self._metrics) == 1
            and not transfer.on_small_side
        )
        self._projection = next(iter(transfer.spaces.values())).projection
        self._tables, self._factors = _TableMemo(self._put), _TableMemo(self._class_factors)
        self._folded = _TableMemo(self._fold)

    def _put(self, array: Any) -> Any:
        return put(array, self._type, self.device)

    # ------------------------------------------------------------------ plain
    def features(self, X: Any) -> Any:
        """Bring features (n, D) into every metric, side by side (n, G·D).

        For the cosine rows have unit length in each.
        """
        mapped = {name: self._centred(X, name) @ P for name, (_, _, P) in self._spaces.items()}
        if len(self._metrics) > 1:
            blocks = [mapped[name] * scale for name, scale in self._metrics]
        else:  # the scale of the first metric is one
            blocks = list(mapped.values())
        if self._settings.metric == "cosine":
            blocks = [unit_rows(block) for block in blocks]
        return blocks[0] if len(blocks) == 1 else array_module(blocks[0]).concatenate(blocks, 1)

    def scores(self, features: Any, table: NDArray[Any], some: Any = slice(None)) -> Any:
        """Score features (n, G·D) that are in the metrics against rows of a class table: (n, c)."""
        embeddings = (table if self.device is None else self._tables(table))[some]
        factors = self._factors(table)[some]
        if self._settings.metric == "euclidean":
            own = array_module(features).einsum("ij,ij->i", features, features)[:, None]
            return -(own + factors[:, 0] - 2.0 * (features @ embeddings.T))
        width = features.shape[1] // factors.shape[1]
        scores = features[:, :width] @ embeddings[:, :width].T
        scores *= factors[:, 0]
        for index in range(1, factors.shape[1]):
            part = slice(index * width, (index + 1) * width)
            product = features[:, part] @ embeddings[:, part].T
            product *= factors[:, index]
            scores += product
        return scores

    def _class_factors(self, table: NDArray[Any]) -> Any:
        """Return what products with embeddings (C, G·D) are multiplied by in each metric (C, G).

        For distances it is their squared lengths (C, 1), which are added.
        """
        embeddings = self._put(table)
        xp = array_module(embeddings)
        if self._settings.metric == "euclidean":
            return xp.einsum("ij,ij->i", embeddings, embeddings)[:, None]
        parts = embeddings.reshape(len(embeddings), len(self._metrics), -1)
        lengths = xp.linalg.vector_norm(parts, axis=2)
        powers = xp.where(lengths > 0, lengths, 1.0) ** self._settings.norm_power
        return xp.asarray(self._weights / powers, dtype=embeddings.dtype)

    def _centred(self, X: Any, name: FeatureMap) -> Any:
        """Return φ(x) − m (n, D) under one feature map."""
        statistics, center, _ = self._spaces[name]
        rows = X if self.device is not None else np.asarray(X, dtype=self._type)
        return statistics.coordinates(map_rows(rows, name)) - center

    # ------------------------------------------------------------------ folded
    def saves(self, n_classes: int) -> bool:
        """Whether folding takes fewer operations than bringing features into the metric."""
        return self.can_fold and n_classes <= len(self._space[1])

    def rows(self, X: Any) -> Any:
        """Return u (n, D) of features (n, D)."""
        return self._centred(X, next(iter(self._spaces)))

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
        return (self._put(table) * self._class_factors(table)) @ self._space[2].T

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
