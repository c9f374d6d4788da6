"""Algorithm 1: the heterogeneous graph, its lossless class-level quotient, sampling, exports."""

from hgkt.graph.construction import build_graph, join_representatives
from hgkt.graph.heterogeneous import HeterogeneousGraph
from hgkt.graph.neighbors import SPACES, ClassNeighbors, class_graph, nearest_classes
from hgkt.graph.quotient import AGGREGATIONS, Quotient
from hgkt.graph.sampling import SampledNeighbors, sample_neighbors

__all__ = [
    "AGGREGATIONS",
    "SPACES",
    "ClassNeighbors",
    "HeterogeneousGraph",
    "Quotient",
    "SampledNeighbors",
    "build_graph",
    "class_graph",
    "join_representatives",
    "nearest_classes",
    "sample_neighbors",
]
