"""Estimators: the contract of all methods, HGKT itself, saving and loading."""

from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.checking import ClassCheck, Loss, Rival, TellingAttribute
from hgkt.estimators.explanation import ClassExplanation, Contribution, PredictionExplanation
from hgkt.estimators.hgkt import HGKTClassifier
from hgkt.estimators.hgkt_network import HGKTNetworkClassifier
from hgkt.estimators.methods import METHODS, presets_of
from hgkt.estimators.model_folder import load_model

__all__ = [
    "METHODS",
    "ClassCheck",
    "ClassExplanation",
    "Contribution",
    "GZSLClassifier",
    "HGKTClassifier",
    "HGKTNetworkClassifier",
    "Loss",
    "PredictionExplanation",
    "Rival",
    "TellingAttribute",
    "load_model",
    "presets_of",
]
