"""What calibration takes off the score of each class, and how that follows its growth."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration import Calibration
from hgkt.estimators._calibrating import AUTO
from hgkt.estimators._order import ClassOrder
from hgkt.estimators._snapshots import snapshot


class CalibratedScores(metaclass=ABCMeta):
    """A classifier that takes γ off the scores of the classes it was fitted on."""

    classes_: NDArray[Any]
    seen_classes_: NDArray[Any]
    unseen_classes_: NDArray[Any]
    calibration: float | str | Mapping[str, float] = 0.0
    _own_calibration: Calibration | None = None
    _order: ClassOrder
    _grown: NDArray[np.bool_]
    _learned_shares: NDArray[np.float64]

    @abstractmethod
    def candidates(self, among: str | Sequence[Any] = "all") -> NDArray[np.intp]:
        """Return the columns of ``classes_`` that `among` stands for."""

    @property
    def penalties_(self) -> NDArray[np.float64]:
        """What calibration takes off the scores, one number per class, ordered as ``classes_``."""
        now = snapshot(self)
        return now._table_penalties()[now._order.rows]

    def _table_penalties(self, n_more: int = 0) -> NDArray[np.float64]:
        """What calibration takes off each class, in the order of the tables.

        With `n_more` classes to come. A class that has grown pays the offset by the share by
        which it has become a learned one, and nothing of what depends on numbers of classes:
        it stays one of those that were added.
        """
        law, n_paying = self.calibration_, int((~self._grown).sum())
        gamma = law.gamma(n_paying, len(self.classes_) - n_paying + n_more)
        own = np.where(self._grown, law.offset * self._learned_shares, gamma)
        return np.concatenate([own, np.zeros(len(self.unseen_classes_))])

    @property
    def calibration_(self) -> Calibration:
        """The calibration in force: the parameter, or what `fit` found."""
        if self.calibration == AUTO:
            return self._own_calibration or Calibration()
        return Calibration.of(self.calibration)

    @property
    def gamma_(self) -> float:
        """γ in force: what a class that was seen at the first fit pays now."""
        now = snapshot(self)
        n_paying = int((~now._grown).sum())
        return now.calibration_.gamma(n_paying, len(now.classes_) - n_paying)

    def learned_shares(self) -> NDArray[np.float64]:
        """Return how far each class is known by images of its own, ordered as ``classes_``.

        1 for classes learnt from images, 0 for those added by their attributes; one that was
        added and has grown lies in between.
        """
        now = snapshot(self)
        shares = np.zeros(len(now.classes_))
        shares[now.candidates("seen")] = np.where(now._grown, now._learned_shares, 1.0)
        return shares
