"""What a closed form depends on: its metrics, its kernels, its noise; one of each, or a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, check_map
from hgkt._validation import check_choice, check_number
from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.exceptions import DataError

METRICS = ("cosine", "euclidean")
WEIGHTINGS = ("count", "uniform")


@dataclass(frozen=True)
class MetricTerm:
    """One metric of the visual space: a feature map and a shrinkage of the in-class scatter.

    Parameters
    ----------
    feature_map : str or float
        Map of each feature row.
    shrinkage : float in [0, 1] or "oas"
        Share of the identity in the within-class scatter.
    weight : float
        What its scores are multiplied by before they are added.
    """

    feature_map: FeatureMap = "sqrt+l2"
    shrinkage: float | str = 0.5
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_map("feature_map", self.feature_map)
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ("oas",))
        else:
            check_number("shrinkage", self.shrinkage, low=0.0, high=1.0)
        check_number("weight", self.weight, low=0.0, open_low=True)


class Ridge(NamedTuple):
    """λ, noise of a class mean in units of the kernel, and its share in the mixture."""

    ridge: float
    weight: float = 1.0


@dataclass(frozen=True)
class Mixture:
    """The settings of a closed form.

    Scores of several metrics are added; several kernels are added to one; embeddings of several
    ridges are averaged. All of it is linear in the class means, so a class has one embedding in
    each metric whatever the number of kernels and ridges.

    Parameters
    ----------
    metrics : tuple of MetricTerm
    kernels : tuple of KernelTerm
    ridges : tuple of Ridge
    norm_power : float
        Power of the embedding's length that a score is divided by.
    metric : {"cosine", "euclidean"}
        How instances and embeddings are compared; "euclidean" needs a single metric term.
    weighting : {"count", "uniform"}
        Whether the noise of a class mean falls with its number of instances.
    n_neighbors : int
        Neighbours in "knn" kernels.
    attribute_blocks : list of int, optional
        Widths of attribute blocks.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    """

    metrics: tuple[MetricTerm, ...] = (MetricTerm(),)
    kernels: tuple[KernelTerm, ...] = (KernelTerm(attribute_map="sqrt+l2"),)
    ridges: tuple[Ridge, ...] = (Ridge(0.03),)
    norm_power: float = 1.0
    metric: str = "cosine"
    weighting: str = "count"
    n_neighbors: int = 2
    attribute_blocks: list[int] | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for ridge, weight in self.ridges:
            check_number("ridge", ridge, low=0.0, open_low=True)
            check_number("weight", weight, low=0.0, open_low=True)
        check_number("n_neighbors", self.n_neighbors, low=1, integer=True)
        check_number("norm_power", self.norm_power, low=0.0)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_choice("metric", self.metric, METRICS)
        for name in ("metrics", "kernels", "ridges"):
            if not getattr(self, name):
                raise DataError(f"a mixture needs at least one of its {name}; got none")
        if self.metric == "euclidean" and len(self.metrics) > 1:
            raise DataError(
                "metric='euclidean' compares in one metric; a mixture of several needs 'cosine'"
            )

    @property
    def feature_maps(self) -> list[FeatureMap]:
        """The feature maps that occur, each once."""
        return list(dict.fromkeys(term.feature_map for term in self.metrics))

    def class_kernel(self) -> ClassKernel:
        """Return the kernel between classes, not fitted."""
        return ClassKernel(self.kernels, self.attribute_blocks, self.n_neighbors)

    def noise(
        self,
        counts: NDArray[np.float64],
        kernel: NDArray[np.float64],
        grown: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return Λ (R, L), a row for each ridge: λ·k̄·N̄/N_c for classes of N_c instances.

        The mean of N_c instances misses the class's true mean with variance σ²/N_c; λ is that
        noise for a class of average size, in units of k̄, the mean of k(a, a). A class of few
        instances therefore leans on its attributes. Classes that have `grown` (L,) do not count
        in the average size N̄, so that they leave the noise of the others as it was.

        Examples
        --------
        >>> Mixture(ridges=(Ridge(0.01),)).noise(np.array([10.0, 40.0, 40.0]), np.eye(3))
        array([[0.03  , 0.0075, 0.0075]])
        """
        counts = counts if self.weighting == "count" else np.ones_like(counts)
        sizes = counts if grown is None or grown.all() else counts[~grown]
        shape = sizes.mean() / np.maximum(counts, 1.0)
        return np.outer([ridge for ridge, _ in self.ridges], np.diag(kernel).mean() * shape)

    def ridge_shares(self) -> NDArray[np.float64]:
        """Return the share (R,) of each ridge; they sum to one."""
        weights = np.array([weight for _, weight in self.ridges])
        result: NDArray[np.float64] = weights / weights.sum()
        return result

    def to_dict(self) -> dict[str, Any]:
        """Return the terms as `HGKTClassifier`'s parameter ``mixture`` takes them."""
        return {
            "metrics": [asdict(term) for term in self.metrics],
            "kernels": [asdict(term) for term in self.kernels],
            "ridges": [ridge._asdict() for ridge in self.ridges],
        }

    @classmethod
    def from_dict(cls, terms: Mapping[str, Any], **settings: Any) -> Self:
        """Make a mixture of what `to_dict` returned, or of its JSON, and other settings."""
        kinds = {"metrics": MetricTerm, "kernels": KernelTerm, "ridges": Ridge}
        if not isinstance(terms, Mapping) or set(terms) != set(kinds):
            raise DataError(
                "mixture must be a dict of three lists, 'metrics', 'kernels' and 'ridges'; "
                f"got {terms!r:.80}"
            )
        try:
            parts: dict[str, Any] = {
                name: tuple(kind(**_hashable(row)) for row in terms[name])
                for name, kind in kinds.items()
            }
        except TypeError as error:
            raise DataError(f"a term of the mixture cannot be read: {error}") from error
        return cls(**parts, **settings)


def _hashable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}
