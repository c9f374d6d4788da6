"""Metrics, the protocol, selection on validation classes and run records."""

from hgkt.evaluation.curve import SeenUnseenCurve, seen_unseen_curve
from hgkt.evaluation.folds import FoldRows, class_folds, split_fold
from hgkt.evaluation.metrics import (
    GZSLMetrics,
    gzsl_metrics,
    harmonic_mean,
    per_class_accuracy,
    top_k_accuracy,
)
from hgkt.evaluation.protocol import evaluate
from hgkt.evaluation.records import RunRecord, load_records, records_frame
from hgkt.evaluation.selection import ClassFoldSearch, SettingResult

__all__ = [
    "ClassFoldSearch",
    "FoldRows",
    "GZSLMetrics",
    "RunRecord",
    "SeenUnseenCurve",
    "SettingResult",
    "class_folds",
    "evaluate",
    "gzsl_metrics",
    "harmonic_mean",
    "load_records",
    "per_class_accuracy",
    "records_frame",
    "seen_unseen_curve",
    "split_fold",
    "top_k_accuracy",
]
