"""One pass over any source: class counts, sums and second moments, mergeable, in float64."""

from hgkt.statistics.classes import (
    ClassStatistics,
    SpannedStatistics,
    Statistics,
    class_counts_and_means,
    class_sums,
)
from hgkt.statistics.examples import ExampleSums
from hgkt.statistics.gathered import GatheredStatistics, Sums

__all__ = [
    "ClassStatistics",
    "ExampleSums",
    "GatheredStatistics",
    "SpannedStatistics",
    "Statistics",
    "Sums",
    "class_counts_and_means",
    "class_sums",
]
