"""What a closed form depends on: one member, or several whose scores are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, check_map
from hgkt._validation import check_choice, check_number
from hgkt.closed_form.kernels import ClassKernel, KernelSettings
from hgkt.exceptions import DataError

METRICS = ("cosine", "euclidean")
WEIGHTINGS = ("count", "uniform")
ZERO_SHOT = "zero-shot"

MetricKey = tuple[FeatureMap, float | str]
"""Feature map and shrinkage: what a metric of the visual space is made of."""

KernelKey = tuple[KernelSettings, MetricKey | None]
"""A kernel, and the metric in which relevance is learned, where it is."""

ProcessKey = tuple[KernelKey, float, MetricKey, float]
"""A kernel, the noise λ of the class means, their metric, and α: a process over classes."""


@dataclass(frozen=True)
class Member:
    """One closed form: a metric inside classes, a kernel between them, and how they combine.

    Parameters
    ----------
    feature_map : str or float
        Map of each feature row.
    shrinkage : float in [0, 1] or "oas"
        Share of the identity in the within-class scatter.
    kernel, kernel_scale, attribute_map, relevance, block_weights
        See `hgkt.closed_form.KernelSettings`.
    ridge : float
        λ, noise of a class mean in units of the kernel.
    norm_power : float
        Power of the embedding's length that a score is divided by.
    observed : bool
        Whether seen classes stay at their observed means.
    prior : float
        α, how much of a class's description is in its prior mean, where rows and descriptions
        share a space.
    weight : float
        What its scores are multiplied by before they are added.
    """

    feature_map: FeatureMap = "sqrt+l2"
    shrinkage: float | str = 0.5
    kernel: str = "rbf"
    kernel_scale: float = 1.0
    attribute_map: FeatureMap = "sqrt+l2"
    relevance: bool = False
    block_weights: tuple[float, ...] | None = None
    ridge: float = 0.03
    norm_power: float = 1.0
    observed: bool = False
    prior: float = 0.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_map("feature_map", self.feature_map)
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ("oas",))
        else:
            check_number("shrinkage", self.shrinkage, low=0.0, high=1.0)
        check_number("ridge", self.ridge, low=0.0, open_low=True)
        check_number("norm_power", self.norm_power, low=0.0)
        check_number("prior", self.prior, low=0.0)
        for name in ("observed", "relevance"):
            if not isinstance(getattr(self, name), bool):
                raise DataError(f"{name} must be true or false; got {getattr(self, name)!r}")
        check_number("weight", self.weight, low=0.0, open_low=True)
        _ = self.kernel_settings  # refuses what is no kernel

    @property
    def metric_key(self) -> MetricKey:
        """Members of one metric share its decomposition, and their embeddings add up."""
        return self.feature_map, self.shrinkage

    @property
    def kernel_settings(self) -> KernelSettings:
        """The kernel between classes."""
        return KernelSettings(
            self.kernel, self.kernel_scale, self.attribute_map, self.relevance, self.block_weights
        )

    @property
    def kernel_key(self) -> KernelKey:
        """Members of one kernel share its matrix."""
        return self.kernel_settings, self.metric_key if self.relevance else None

    @property
    def process_key(self) -> ProcessKey:
        """Members of one Gaussian process share what is solved, and the vectors it gives."""
        return self.kernel_key, self.ridge, self.metric_key, self.prior

    def words(self) -> list[str]:
        """Return what tells the member from others, in words."""
        scaled = self.kernel in ("rbf", "knn")
        more = {
            "relevance": self.relevance,
            "observed means": self.observed,
            f"prior {self.prior:g}": self.prior > 0,
            f"blocks {list(self.block_weights or ())}": self.block_weights is not None,
        }
        return [
            f"{self.weight:.3g}",
            f"{self.feature_map} {self.shrinkage}",
            f"{self.kernel} {self.kernel_scale:g}" if scaled else self.kernel,
            str(self.attribute_map),
            f"{self.ridge:g}",
            f"{self.norm_power:g}",
            ", ".join(word for word, told in more.items() if told),
        ]


@dataclass(frozen=True)
class Ensemble:
    """The settings of a closed form: members whose scores are added, and what they share.

    Members of one metric have one embedding per class together: each is divided by the power of
    its length, and their weighted sum is what rows are multiplied with.

    Parameters
    ----------
    members : tuple of Member
    zero_shot : float
        Weight of the plain cosine of row and description, where they share a space.
    metric : {"cosine", "euclidean"}
        How instances and embeddings are compared; "euclidean" needs members of one metric.
    weighting : {"count", "uniform"}
        Whether the noise of a class mean falls with its number of instances.
    n_neighbors : int
        Neighbours in "knn" kernels.
    attribute_blocks : list of int, optional
        Widths of attribute blocks.
    shared_space : bool or int
        Whether class vectors lie in the space of the features; a number: that attribute block.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    """

    members: tuple[Member, ...] = (Member(),)
    zero_shot: float = 0.0
    metric: str = "cosine"
    weighting: str = "count"
    n_neighbors: int = 2
    attribute_blocks: list[int] | None = None
    shared_space: bool | int = False
    device: str = "auto"

    def __post_init__(self) -> None:
        check_number("n_neighbors", self.n_neighbors, low=1, integer=True)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_choice("metric", self.metric, METRICS)
        if not self.members:
            raise DataError("an ensemble needs at least one member besides zero-shot; got none")
        if self.metric == "euclidean" and (len(self.metric_keys) > 1 or self.zero_shot):
            raise DataError(
                "metric='euclidean' compares in one metric; members of several, or zero-shot, "
                "need 'cosine'"
            )
        if not self.shares_space and (self.zero_shot or any(m.prior for m in self.members)):
            raise DataError(
                "prior and zero-shot members need class vectors in the space of the features; "
                "set shared_space"
            )
        if self.shares_space and self.shared_space is not True:
            n_blocks = len(self.attribute_blocks or [0])
            check_number("shared_space", self.shared_space, low=0, high=n_blocks - 1, integer=True)

    @property
    def shares_space(self) -> bool:
        """Whether rows and class descriptions lie in one space."""
        return self.shared_space is not False

    @property
    def feature_maps(self) -> list[FeatureMap]:
        """The feature maps that occur, each once."""
        return list(dict.fromkeys(member.feature_map for member in self.members))

    @property
    def metric_keys(self) -> list[MetricKey]:
        """The metrics that occur, each once."""
        return list(dict.fromkeys(member.metric_key for member in self.members))

    def members_of(self, metric: MetricKey) -> list[Member]:
        """Return the members of one metric."""
        return [member for member in self.members if member.metric_key == metric]

    def class_kernel(self, settings: KernelSettings) -> ClassKernel:
        """Return a kernel between classes, not fitted."""
        return ClassKernel(settings, self.attribute_blocks, self.n_neighbors)

    def noise(
        self,
        ridge: float,
        counts: NDArray[np.float64],
        kernel: NDArray[np.float64],
        grown: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Return Λ (L,): λ·k̄·N̄/N_c for classes of N_c instances.

        The mean of N_c instances misses the class's true mean with variance σ²/N_c; λ is that
        noise for a class of average size, in units of k̄, the mean of k(a, a). A class of few
        instances therefore leans on its attributes. Classes that have `grown` (L,) do not count
        in the average size N̄, so that they leave the noise of the others as it was.

        Examples
        --------
        >>> Ensemble().noise(0.01, np.array([10.0, 40.0, 40.0]), np.eye(3))
        array([0.03  , 0.0075, 0.0075])
        """
        counts = counts if self.weighting == "count" else np.ones_like(counts)
        sizes = counts if grown is None or grown.all() else counts[~grown]
        shape = sizes.mean() / np.maximum(counts, 1.0)
        result: NDArray[np.float64] = ridge * np.diag(kernel).mean() * shape
        return result

    def to_list(self) -> list[dict[str, Any]]:
        """Return the members as `HGKTClassifier`'s parameter ``members`` takes them."""
        rows = [asdict(member) for member in self.members]
        return rows + ([{"kernel": ZERO_SHOT, "weight": self.zero_shot}] if self.zero_shot else [])

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the members as a person reads them: a header, and a row of words for each.

        Examples
        --------
        >>> header, rows = Ensemble((Member(), Member(kernel="linear", observed=True))).table()
        >>> header
        ['weight', 'features', 'kernel', 'attributes', 'ridge', 'power', 'more']
        >>> rows[1]
        ['1', 'sqrt+l2 0.5', 'linear', 'sqrt+l2', '0.03', '1', 'observed means']
        """
        rows = [member.words() for member in self.members]
        if self.zero_shot:
            rows.append([f"{self.zero_shot:.3g}", "", ZERO_SHOT, "", "", "", ""])
        return ["weight", "features", "kernel", "attributes", "ridge", "power", "more"], rows

    @classmethod
    def from_list(cls, rows: Sequence[Mapping[str, Any]], **settings: Any) -> Self:
        """Make an ensemble of what `to_list` returned, or of its JSON, and other settings."""
        if not (isinstance(rows, list | tuple) and all(isinstance(row, Mapping) for row in rows)):
            raise DataError(f"members must be a list of dicts, one per member; got {rows!r:.80}")
        alone = [_checked(row, ("kernel", "weight")) for row in rows if _is_zero_shot(row)]
        zero_shot = [row.get("weight", 1.0) for row in alone]
        for weight in zero_shot:
            check_number("weight", weight, low=0.0, open_low=True)
        members = [Member(**_checked(row, _NAMES)) for row in rows if not _is_zero_shot(row)]
        return cls(tuple(members), float(sum(zero_shot)), **settings)


_NAMES = tuple(field.name for field in fields(Member))


def _is_zero_shot(row: Mapping[str, Any]) -> bool:
    return bool(row.get("kernel") == ZERO_SHOT)


def _checked(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a row of `members` as keywords; what is not among `names` is refused."""
    unknown = [name for name in row if name not in names]
    if unknown:
        raise DataError(
            f"a member has no {unknown[0]!r}; it may have: {', '.join(_NAMES)}, "
            f"or kernel='{ZERO_SHOT}' and a weight"
        )
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
