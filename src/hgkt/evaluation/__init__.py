"""Metrics, the protocol, selection on validation classes and run records."""

from hgkt.calibration.curve import SeenUnseenCurve, seen_unseen_curve
from hgkt.calibration.folds import FoldRows, class_folds, split_fold
from hgkt.evaluation.bulk import BulkReport, gather, predict_shards
from hgkt.evaluation.comparison import PairedDifference, paired_difference
from hgkt.evaluation.levels import BackOff, LevelAccuracy, TaxonomyReport, taxonomy_report
from hgkt.evaluation.metrics import (
    ClassAccuracies,
    GZSLMetrics,
    class_accuracies,
    gzsl_metrics,
    harmonic_mean,
    per_class_accuracy,
    top_k_accuracy,
)
from hgkt.evaluation.protocol import evaluate
from hgkt.evaluation.records import RunRecord, ZSLResult, load_records, records_frame
from hgkt.evaluation.scorers import ClassKFold, ausuc, h_score, zsl_score
from hgkt.evaluation.selection import (
    ClassFoldSearch,
    Fitted,
    SettingResult,
    fit_dataset,
    fit_gathered,
)

__all__ = [
    "BackOff",
    "BulkReport",
    "ClassAccuracies",
    "ClassFoldSearch",
    "ClassKFold",
    "Fitted",
    "FoldRows",
    "GZSLMetrics",
    "LevelAccuracy",
    "PairedDifference",
    "RunRecord",
    "SeenUnseenCurve",
    "SettingResult",
    "TaxonomyReport",
    "ZSLResult",
    "ausuc",
    "class_accuracies",
    "class_folds",
    "evaluate",
    "fit_dataset",
    "fit_gathered",
    "gather",
    "gzsl_metrics",
    "h_score",
    "harmonic_mean",
    "load_records",
    "paired_difference",
    "per_class_accuracy",
    "predict_shards",
    "records_frame",
    "seen_unseen_curve",
    "split_fold",
    "taxonomy_report",
    "top_k_accuracy",
    "zsl_score",
]
