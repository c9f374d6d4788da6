"""Class folds of the seen classes, the seen–unseen curve, and the calibration γ found on them."""

from hgkt.calibration.curve import SeenUnseenCurve, best_calibration, seen_unseen_curve
from hgkt.calibration.folds import FoldRows, class_folds, split_fold, validation_folds
from hgkt.calibration.held_out import HeldOutClasses, HeldOutRows
from hgkt.calibration.law import Calibration, ScoredFold, fit_calibration

__all__ = [
    "Calibration",
    "FoldRows",
    "HeldOutClasses",
    "HeldOutRows",
    "ScoredFold",
    "SeenUnseenCurve",
    "best_calibration",
    "class_folds",
    "fit_calibration",
    "seen_unseen_curve",
    "split_fold",
    "validation_folds",
]
