"""The methods by name. Adding one is a file of its own and one line here."""

from __future__ import annotations

from hgkt._registry import Entry, Registry

METHODS = Registry(
    "method",
    {
        "hgkt": Entry(
            "hgkt.estimators.hgkt:HGKTClassifier",
            "heterogeneous graph-based knowledge transfer",
            "Wang et al., Heterogeneous Graph-based Knowledge Transfer for Generalized Zero-shot "
            "Learning, 2019",
            "graph",
        ),
    },
)
