"""The experiments by name, in the order of the report. Adding one is a file and one line here."""

from __future__ import annotations

from hgkt._registry import Entry, Registry

_PAPER, _ABLATION, _FIGURE = "tables of the paper", "ablations", "figures"


def _experiment(module: str, summary: str, family: str) -> Entry:
    return Entry(f"hgkt.experiments.{module}:EXPERIMENT", summary, family=family)


EXPERIMENTS = Registry(
    "experiment",
    {
        "table-data": _experiment("tables.statistics", "the data sets in numbers", _PAPER),
        "table-zsl": _experiment("tables.zsl", "conventional zero-shot accuracy", _PAPER),
        "table-gzsl": _experiment("tables.gzsl", "generalized: ts, tr and H", _PAPER),
        "figure-ranks": _experiment("tables.ranks", "mean ranks of the methods", _PAPER),
        "figure-curves": _experiment(
            "tables.curves", "seen-unseen accuracy at every calibration", _PAPER
        ),
        "ablation-intra": _experiment(
            "ablations.intra", "with and without the relation within classes", _ABLATION
        ),
        "ablation-inter": _experiment(
            "ablations.inter", "with and without the relation between classes", _ABLATION
        ),
        "ablation-selection": _experiment(
            "ablations.selection", "three ways to select representatives", _ABLATION
        ),
        "ablation-mu": _experiment("ablations.mu", "weight μ of the neighbours", _ABLATION),
        "ablation-k": _experiment("ablations.neighbors", "number of neighbours k", _ABLATION),
        "ablation-barycenter": _experiment(
            "ablations.barycenter", "exact barycenters and Sinkhorn", _ABLATION
        ),
        "ablation-training": _experiment(
            "ablations.training", "training on the quotient and by sampling", _ABLATION
        ),
        "ablation-permutation": _experiment(
            "ablations.permutation", "does the order of the channels matter", _ABLATION
        ),
        "ablation-calibration": _experiment(
            "ablations.calibration", "with and without calibration", _ABLATION
        ),
        "ablation-choices": _experiment(
            "ablations.choices", "what the paper leaves open, choice by choice", _ABLATION
        ),
        "figure-iterations": _experiment(
            "figures.iterations", "accuracy along the training steps", _FIGURE
        ),
        "figure-tsne": _experiment("figures.tsne", "features and embeddings in the plane", _FIGURE),
        "figure-representatives": _experiment(
            "figures.representatives", "the images that stand for their classes", _FIGURE
        ),
        "figure-graph": _experiment("figures.graph", "the graph of the classes", _FIGURE),
    },
)
