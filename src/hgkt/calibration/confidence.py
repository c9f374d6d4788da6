"""All that makes a model sure of itself, found on validation folds and kept with the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.calibration.folds import FoldSample
from hgkt.calibration.gamma import Calibration, Favour
from hgkt.calibration.novelty import Novelty, fit_novelty
from hgkt.calibration.sets import GroupQuantiles, SetThresholds, fit_sets
from hgkt.calibration.temperatures import Temperatures, fit_temperatures


@dataclass(frozen=True)
class Confidence:
    """Temperatures, thresholds of prediction sets, and the novelty score of a model.

    Parameters
    ----------
    temperatures : Temperatures
    sets : SetThresholds
    novelty : Novelty
    """

    temperatures: Temperatures
    sets: SetThresholds
    novelty: Novelty

    def to_arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what `from_arrays` reads, each a plain array."""
        parts = (self.sets.seen, self.sets.added)
        return {
            "temperatures": np.array(astuple(self.temperatures)),
            "set_quantiles": np.stack([part.values for part in parts]),
            "set_units": np.array([part.n_units for part in parts], dtype=np.float64),
            "novelty_weights": np.asarray(self.novelty.weights),
            "novelty_quantiles": np.asarray(self.novelty.quantiles),
            "novelty_auroc": np.array([self.novelty.auroc]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Confidence:
        """Make a confidence of what `to_arrays` returned."""
        seen, added = (
            GroupQuantiles(values, int(units))
            for values, units in zip(arrays["set_quantiles"], arrays["set_units"], strict=True)
        )
        novelty = Novelty(
            arrays["novelty_weights"],
            arrays["novelty_quantiles"],
            float(arrays["novelty_auroc"][0]),
        )
        temperatures = Temperatures(*arrays["temperatures"].tolist())
        return cls(temperatures, SetThresholds(seen, added), novelty)


def fit_confidence(
    folds: Sequence[FoldSample],
    law: Calibration,
    random_state: int = 0,
    favour: Favour | None = None,
) -> Confidence:
    """Find a model's confidence on validation folds.

    Parameters
    ----------
    folds : sequence of FoldSample
        See :func:`hgkt.calibration.sample_folds`.
    law : Calibration
        γ in force.
    random_state : int, default=0
        Seed of which held-out classes stay unknown.
    favour : Favour, optional
        What that γ was found for; by default "balanced".
    """
    temperatures = fit_temperatures(folds, law, favour)
    scored = (
        (fold, temperatures.probabilities(fold.calibrated(law), fold.groups)) for fold in folds
    )
    return Confidence(
        temperatures, fit_sets(scored), fit_novelty(folds, law, temperatures, random_state)
    )
