"""Estimators: the contract of all methods, HGKT itself, saving and loading."""

from hgkt._registry import Entry
from hgkt.estimators.base import GZSLClassifier
from hgkt.estimators.class_check import ClassCheck, Loss, Rival, TellingAttribute
from hgkt.estimators.explain import ClassExplanation, Contribution, PredictionExplanation
from hgkt.estimators.hgkt import HGKTClassifier
from hgkt.estimators.methods import METHODS, presets_of
from hgkt.estimators.model_folder import load_model
from hgkt.estimators.network import HGKTNetworkClassifier
from hgkt.estimators.taxonomy import Taxonomy

__all__ = [
    "METHODS",
    "ClassCheck",
    "ClassExplanation",
    "Contribution",
    "Entry",
    "GZSLClassifier",
    "HGKTClassifier",
    "HGKTNetworkClassifier",
    "Loss",
    "PredictionExplanation",
    "Rival",
    "Taxonomy",
    "TellingAttribute",
    "load_model",
    "presets_of",
]
