"""The experiments by name, in the order of the report. Adding one is a file and one line here."""

from __future__ import annotations

from hgkt._registry import Entry, Registry

_FAMILIES = {
    "tables of the paper": {
        "table-data": ("tables.statistics:EXPERIMENT", "the data sets in numbers"),
        "table-zsl": ("tables.results:ZSL", "conventional zero-shot accuracy"),
        "table-gzsl": ("tables.results:GZSL", "generalized: ts, tr and H"),
        "figure-classes": ("figures.classes:EXPERIMENT", "results and confusions by class"),
        "figure-ranks": ("figures.comparison:RANKS", "mean ranks of the methods"),
        "figure-curves": ("figures.comparison:CURVES", "accuracy at every calibration"),
    },
    "ablations": {
        "ablation-intra": ("ablations:INTRA", "with and without the relation within classes"),
        "ablation-inter": ("ablations:INTER", "with and without the relation between classes"),
        "ablation-selection": ("ablations:SELECTION", "three ways to select representatives"),
        "ablation-mu": ("ablations:MU", "weight μ of the neighbours"),
        "ablation-k": ("ablations:NEIGHBORS", "number of neighbours k"),
        "ablation-barycenter": ("figures.transport:BARYCENTERS", "exact ones and Sinkhorn's"),
        "ablation-training": ("figures.training:TRAINING", "on the quotient and by sampling"),
        "ablation-permutation": ("figures.transport:PERMUTATIONS", "channels in another order"),
        "ablation-calibration": ("figures.calibration:EXPERIMENT", "with and without calibration"),
        "ablation-choices": ("ablations:CHOICES", "what the paper leaves open, choice by choice"),
    },
    "figures": {
        "figure-iterations": ("figures.training:ITERATIONS", "accuracy along the training steps"),
        "figure-tsne": ("figures.tsne:EXPERIMENT", "features and embeddings in the plane"),
        "figure-representatives": (
            "figures.graph:REPRESENTATIVES",
            "images that stand for a class",
        ),
        "figure-confidence": ("figures.confidence:EXPERIMENT", "how sure answers are, and rightly"),
        "figure-graph": ("figures.graph:GRAPH", "the graph of the classes"),
    },
}

EXPERIMENTS = Registry(
    "experiment",
    {
        name: Entry(f"hgkt.experiments.{target}", summary, family=family)
        for family, entries in _FAMILIES.items()
        for name, (target, summary) in entries.items()
    },
)
