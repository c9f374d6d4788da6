"""Optimal transport between feature histograms: barycenters, distances, representatives."""

from hgkt.transport.entropic import entropic_barycenter, entropic_distances, ground_cost
from hgkt.transport.line import line_barycenter, line_distances, line_pairwise
from hgkt.transport.representatives import Representatives, select_representatives
from hgkt.transport.simplex import to_simplex
from hgkt.transport.streaming import StreamedRepresentatives, stream_representatives

__all__ = [
    "Representatives",
    "StreamedRepresentatives",
    "entropic_barycenter",
    "entropic_distances",
    "ground_cost",
    "line_barycenter",
    "line_distances",
    "line_pairwise",
    "select_representatives",
    "stream_representatives",
    "to_simplex",
]
