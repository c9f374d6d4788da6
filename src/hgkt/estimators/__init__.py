"""Estimators: the contract of all methods, HGKT itself, calibration, saving and loading."""

from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.calibration import CalibratedStacking
from hgkt.estimators.explanations import ClassExplanation, Contribution, PredictionExplanation
from hgkt.estimators.folder import load_model
from hgkt.estimators.hgkt import HGKTClassifier
from hgkt.estimators.registry import METHODS

__all__ = [
    "METHODS",
    "CalibratedStacking",
    "ClassExplanation",
    "Contribution",
    "GZSLClassifier",
    "HGKTClassifier",
    "PredictionExplanation",
    "load_model",
]
