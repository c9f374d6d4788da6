"""Methods whose costly training does not depend on all of their parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hgkt.baselines._shared.shared_fit import Setting, SharedFitClassifier, group_settings
from hgkt.estimators.base import ClassTable


class SharedTrainingClassifier(SharedFitClassifier):
    """A method in two steps: train, then prepare what scoring needs.

    `_late` names the parameters that only the second step reads: settings that differ in nothing
    else share one training.
    """

    _late: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def _train(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> None:
        """Learn what does not depend on the late parameters."""

    @abstractmethod
    def _prepare(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        """Set what does depend on them and return the table of seen classes."""

    def _fit_settings(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        settings: Sequence[Setting],
    ) -> Iterator[tuple[int, ClassTable]]:
        for group in group_settings(settings, self._late):
            for index in group:
                self.set_params(**settings[index])
                self._check_params()
                if index == group[0]:
                    self._train(X, codes, attributes)
                yield index, self._prepare(X, codes, attributes)
