"""What validation classes say: γ, probabilities, prediction sets, novelty, accuracy to expect.

Seen classes are left out in turn (`folds`); from their scores come the seen–unseen curve, γ, and
how sure an answer is.
"""

from hgkt.calibration.accuracies import Costs, ExpectedAccuracies, fit_accuracies
from hgkt.calibration.confidence import Confidence, fit_confidence
from hgkt.calibration.curve import (
    ScoredFold,
    SeenUnseenCurve,
    best_calibration,
    seen_unseen_curve,
)
from hgkt.calibration.folds import (
    Fold,
    FoldRows,
    FoldSample,
    Instances,
    class_folds,
    folds_of_rows,
    folds_of_sums,
    sample_folds,
    split_fold,
)
from hgkt.calibration.gamma import Calibration, Favour, fit_calibration
from hgkt.calibration.held_out import HeldOutClasses, HeldOutRows
from hgkt.calibration.novelty import Novelty
from hgkt.calibration.sets import SetThresholds
from hgkt.calibration.temperatures import Temperatures, plain_probabilities

__all__ = [
    "Calibration",
    "Confidence",
    "Costs",
    "ExpectedAccuracies",
    "Favour",
    "Fold",
    "FoldRows",
    "FoldSample",
    "HeldOutClasses",
    "HeldOutRows",
    "Instances",
    "Novelty",
    "ScoredFold",
    "SeenUnseenCurve",
    "SetThresholds",
    "Temperatures",
    "best_calibration",
    "class_folds",
    "fit_accuracies",
    "fit_calibration",
    "fit_confidence",
    "folds_of_rows",
    "folds_of_sums",
    "plain_probabilities",
    "sample_folds",
    "seen_unseen_curve",
    "split_fold",
]
