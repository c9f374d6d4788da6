"""Algorithm 1: the heterogeneous graph, its lossless class-level quotient, sampling, exports."""

from hgkt.graph.construction import (
    SPACES,
    ClassNeighbors,
    HeterogeneousGraph,
    class_graph,
    construct_graph,
    join_representatives,
    nearest_classes,
)
from hgkt.graph.quotient import AGGREGATIONS, Quotient, SampledNeighbors, sample_neighbors

__all__ = [
    "AGGREGATIONS",
    "SPACES",
    "ClassNeighbors",
    "HeterogeneousGraph",
    "Quotient",
    "SampledNeighbors",
    "class_graph",
    "construct_graph",
    "join_representatives",
    "nearest_classes",
    "sample_neighbors",
]
