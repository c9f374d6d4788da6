"""Estimators: the contract of all methods, HGKT itself, saving and loading."""

from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.explanation import ClassExplanation, Contribution, PredictionExplanation
from hgkt.estimators.hgkt import HGKTClassifier
from hgkt.estimators.hgkt_network import HGKTNetworkClassifier
from hgkt.estimators.methods import METHODS, presets_of
from hgkt.estimators.model_folder import load_model

__all__ = [
    "METHODS",
    "ClassExplanation",
    "Contribution",
    "GZSLClassifier",
    "HGKTClassifier",
    "HGKTNetworkClassifier",
    "PredictionExplanation",
    "load_model",
    "presets_of",
]
