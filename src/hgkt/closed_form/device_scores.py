"""Scores of a fitted closed form on a torch device, its tables kept there between calls.

What a score is stands in `transfer` and `folding`; here are the same products on tensors. Those of
float32 are computed in float32, unless torch was told to allow TF32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt.closed_form.accelerated import lengths_of, measured, positive, to_power
from hgkt.closed_form.folding import SLACK
from hgkt.closed_form.kept_rows import KeptRows
from hgkt.closed_form.mixture import Mixture

if TYPE_CHECKING:
    import torch

    from hgkt.closed_form.transfer import ClosedFormTransfer

_there: WeakKeyDictionary[Any, dict[str, DeviceScores]] = WeakKeyDictionary()


def on_device(transfer: ClosedFormTransfer, device: str) -> DeviceScores:
    """Return a fitted transfer's scores on a device; its arrays are copied there once."""
    kept = _there.setdefault(transfer, {})
    if device not in kept:
        kept[device] = DeviceScores(transfer, device)
    return kept[device]


class DeviceScores:
    """What a closed form needs of itself to score, on a device.

    Class tables are given as the NumPy arrays that a model holds. What scoring needs of them is
    computed on the device once per class: a table that grows at its end costs its new rows, and
    what is kept goes when the array goes.

    Parameters
    ----------
    transfer : ClosedFormTransfer
        A fitted transfer; it is read, not kept.
    device : str
        A torch device.
    """

    def __init__(self, transfer: ClosedFormTransfer, device: str) -> None:
        import torch

        self.device = device
        self.dtype = torch.float64 if np.dtype(transfer.dtype) == np.float64 else torch.float32
        self._settings: Mixture = transfer.settings
        self._spaces = {
            name: (self._put(space.center), self._put(space.projection))
            for name, space in transfer.spaces.items()
        }
        self._metrics = [(name, self._put(s), w) for name, s, w in transfer.metric_scales()]
        self._tables, self._squares = KeptRows(torch.cat), KeptRows(torch.cat)
        self._folded = KeptRows(torch.cat)
        folded = transfer.folded
        self.folds = folded is not None
        if folded is not None:
            spectrum = folded.spectrum
            self._directions = self._put(spectrum.directions)
            self._along = self._put(spectrum.scales) ** 2
            self._ends = spectrum.lowest**2, spectrum.highest**2

    def _put(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.tensor(np.ascontiguousarray(array), dtype=self.dtype, device=self.device)

    # ------------------------------------------------------------------ scores
    def features(self, X: torch.Tensor) -> torch.Tensor:
        """Bring features (n, D) into every metric, side by side (n, G·D)."""
        import torch

        mapped = {name: self._centred(X, name) @ P for name, (_, P) in self._spaces.items()}
        if len(self._metrics) > 1:
            blocks = [mapped[name] * scale for name, scale, _ in self._metrics]
        else:  # the scale of the first metric is one
            blocks = list(mapped.values())
        if self._settings.metric == "cosine":
            pairs = [measured(block) for block in blocks]
            blocks = [block / positive(lengths)[:, None] for block, lengths in pairs]
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)

    def scores(
        self, features: torch.Tensor, table: NDArray[Any], some: slice | torch.Tensor
    ) -> torch.Tensor:
        """Score features (n, G·D) in the metrics against some rows of a class table: (n, c)."""
        import torch

        rows: torch.Tensor = self._tables.of(table, self._scaled)[some]
        if self._settings.metric == "cosine":
            return features @ rows.T
        squares = self._squares.of(table, self._squared)[some]
        own = (features * features).sum(dim=1, keepdim=True)
        return torch.addmm(-squares, features, rows.T, alpha=2.0).sub_(own)

    def _scaled(self, embeddings: NDArray[Any]) -> torch.Tensor:
        """Return embeddings (C, G·D) times what products with them are multiplied by."""
        rows = self._put(embeddings)
        if self._settings.metric != "cosine":
            return rows
        parts = rows.reshape(len(rows), len(self._metrics), -1)
        weights = self._put(np.array([weight for *_, weight in self._metrics]))
        factors = weights / positive(lengths_of(parts)) ** self._settings.norm_power
        return (parts * factors[:, :, None]).reshape(rows.shape)

    def _squared(self, embeddings: NDArray[Any]) -> torch.Tensor:
        return (self._put(embeddings) ** 2).sum(dim=1)

    # ------------------------------------------------------------------ the metric, folded
    def rows(self, X: torch.Tensor) -> torch.Tensor:
        """Return φ(x) − m (n, D) of features (n, D); where the metric can be folded."""
        return self._centred(X, next(iter(self._spaces)))

    def order(self, rows: torch.Tensor, table: NDArray[Any], some: slice) -> torch.Tensor:
        """Return numbers (n, c) that order classes as their scores do; see `FoldedMetric`."""
        folded: torch.Tensor = self._folded.of(table, self._fold)[some]
        return rows @ folded.T

    def _fold(self, embeddings: NDArray[Any]) -> torch.Tensor:
        ((_, projection),) = self._spaces.values()
        return self._scaled(embeddings) @ projection.T

    def lengths(self, rows: torch.Tensor) -> torch.Tensor:
        """Return what `order` is to be divided by (n,) to give scores."""
        ((_, projection),) = self._spaces.values()
        projected = rows @ projection
        scaled, lengths = measured(projected)
        if scaled is not projected:
            lengths = lengths * positive(projected.abs().amax(dim=1) / scaled.abs().amax(dim=1))
        return positive(lengths)

    def length_bounds(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return below and above what `lengths` is (n,)."""
        along = (rows @ self._directions) ** 2
        rest = (lengths_of(rows) ** 2 - along.sum(dim=1)).clamp_(min=0.0)
        known = along @ self._along
        low, high = ((known + end * rest).sqrt() for end in self._ends)
        return low - SLACK * high, (1.0 + SLACK) * high

    def _centred(self, X: torch.Tensor, name: FeatureMap) -> torch.Tensor:
        """Return φ(x) − m (n, D) under one feature map."""
        import torch

        center = self._spaces[name][0]
        rows = to_power(X, name)
        if rows is None:
            return X - center
        rows, lengths = measured(rows)
        return torch.addcmul(-center, rows, 1.0 / positive(lengths)[:, None])
