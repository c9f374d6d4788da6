"""How sure an answer is: probabilities, "none of these" and prediction sets, all from folds."""

from hgkt.confidence.bundle import Confidence, fit_confidence
from hgkt.confidence.novelty import Novelty
from hgkt.confidence.samples import FoldSample, keep_samples
from hgkt.confidence.sets import SetThresholds
from hgkt.confidence.temperatures import Temperatures, plain_probabilities

__all__ = [
    "Confidence",
    "FoldSample",
    "Novelty",
    "SetThresholds",
    "Temperatures",
    "fit_confidence",
    "keep_samples",
    "plain_probabilities",
]
