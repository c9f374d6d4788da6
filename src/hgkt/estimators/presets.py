"""Named sets of parameters of `HGKTClassifier`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PRESETS: dict[str, Mapping[str, Any]] = {
    # The two relations in closed form; every value is the constructor's default.
    "default": {},
    # The literal reading of the paper. What it leaves open ("Paper gap" in the code) is the
    # constructor's first choice; docs/choices.md shows what the alternatives give.
    "paper": {
        "transfer": "network",
        "feature_map": "none",
        "attribute_map": "none",
        "metric": "euclidean",
        "n_neighbors": 2,
        "mu": 0.5,
        "representative": "wasserstein",
        "solver": "exact",
        "graph_space": "wasserstein",
        "unseen_space": "attributes",
        "symmetric": False,
        "aggregation": "union",
        "loss_nodes": "class",
        "loss_reduction": "sum",
        "weighting": "count",
        "n_hidden": 1600,
        "activation": "leaky_relu",
        "output_activation": "leaky_relu",
        "learning_rate": 1e-4,
        "weight_decay": 1e-3,
        "training": "quotient",
    },
}
