"""HGKT with its two relations in closed form: statistics in, class embeddings out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._devices import torch_device
from hgkt._geometry import FeatureMap, check_map, distance_scores, map_rows, normalised_scores
from hgkt._validation import check_choice, check_number
from hgkt.closed_form.accelerated import gather_on
from hgkt.closed_form.kernels import ClassKernel
from hgkt.closed_form.metric import (
    WithinClassSpectrum,
    dual_coefficients,
    transfer_noise,
)
from hgkt.statistics import ClassStatistics

METRICS = ("cosine", "euclidean")
WEIGHTINGS = ("count", "uniform")
_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class ClosedFormSettings:
    """What the closed form depends on, checked."""

    feature_map: FeatureMap
    attribute_map: FeatureMap
    shrinkage: float | str
    kernel: str
    kernel_scale: float
    n_neighbors: int
    ridge: float
    weighting: str
    attribute_blocks: list[int] | None
    block_weights: list[float] | None
    metric: str
    norm_power: float
    device: str

    def __post_init__(self) -> None:
        check_map("feature_map", self.feature_map)
        check_map("attribute_map", self.attribute_map)
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ("oas",))
        else:
            check_number("shrinkage", self.shrinkage, low=0.0, high=1.0)
        check_number("kernel_scale", self.kernel_scale, low=0.0, open_low=True)
        check_number("n_neighbors", self.n_neighbors, low=1, integer=True)
        check_number("ridge", self.ridge, low=0.0, open_low=True)
        check_number("norm_power", self.norm_power, low=0.0)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_choice("metric", self.metric, METRICS)

    def gather(self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int) -> ClassStatistics:
        """Map features (N, D) chunk by chunk and collect their statistics."""
        device = torch_device(self.device)
        if device != "cpu":
            return gather_on(device, X, codes, n_classes, self.feature_map)
        statistics = ClassStatistics(n_classes, X.shape[1])
        for start in range(0, len(X), _CHUNK_ROWS):
            rows = slice(start, start + _CHUNK_ROWS)
            mapped = map_rows(np.asarray(X[rows], dtype=np.float64), self.feature_map)
            statistics.update(mapped, codes[rows])
        return statistics

    def spectrum(self, statistics: ClassStatistics) -> WithinClassSpectrum:
        """Decompose the within-class scatter where the settings say."""
        return WithinClassSpectrum.of(statistics, torch_device(self.device))

    def class_kernel(self, attributes: NDArray[np.float64]) -> ClassKernel:
        """Return the kernel with the seen classes (L, d) as references."""
        return ClassKernel(
            self.kernel,
            self.kernel_scale,
            self.attribute_map,
            self.attribute_blocks,
            self.block_weights,
            self.n_neighbors,
        ).fit(attributes)

    def shrinkage_of(self, spectrum: WithinClassSpectrum) -> float:
        """Return the number that `shrinkage` stands for."""
        if isinstance(self.shrinkage, str):
            return spectrum.oracle_shrinkage()
        return float(self.shrinkage)

    def noise(
        self, counts: NDArray[np.float64], kernel: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return Λ (L,) for class means of `counts` instances under the kernel (L, L)."""
        counts = counts if self.weighting == "count" else np.ones_like(counts)
        return float(np.diag(kernel).mean()) * transfer_noise(counts, self.ridge)


class ClosedFormTransfer:
    """Fit, embed and score by DESIGN's closed form; keeps the statistics so that it can grow.

    Parameters
    ----------
    settings : ClosedFormSettings
        Parameters.
    """

    def __init__(self, settings: ClosedFormSettings) -> None:
        self.settings = settings

    def fit(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Learn from features (N, D), codes (N,), attributes (L, d); return embeddings (L, D)."""
        self.dtype = X.dtype
        statistics = self.settings.gather(X, codes, len(attributes))
        return self.solve(statistics, attributes)

    def solve(self, statistics: ClassStatistics, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Compute metric and transfer from statistics; return the seen embeddings (L, D)."""
        self.statistics = statistics
        spectrum = self.settings.spectrum(statistics)
        projection = spectrum.projection(self.settings.shrinkage_of(spectrum))
        deviations = (statistics.means - spectrum.center) @ projection
        self.kernel = self.settings.class_kernel(attributes)
        seen = self.kernel.seen
        self.noise = self.settings.noise(statistics.counts, seen)
        self.dual = dual_coefficients(seen, self.noise, deviations)
        self.center = spectrum.center.astype(self.dtype)
        self.projection = projection.astype(self.dtype)
        return (seen @ self.dual).astype(self.dtype)

    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d): one kernel row each."""
        return (self.kernel(attributes) @ self.dual).astype(self.dtype)

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Bring features (n, D) into the metric."""
        mapped = map_rows(np.asarray(X, dtype=self.dtype), self.settings.feature_map)
        return (mapped - self.center) @ self.projection

    def score_mapped(self, features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score features that are in the metric already."""
        if self.settings.metric == "euclidean":
            return distance_scores(features, embeddings)
        return normalised_scores(features, embeddings, self.settings.norm_power)

    def source_weights(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return k(a, A)(K + Λ)⁻¹ (n, L): how much of each seen mean is in an embedding."""
        return dual_coefficients(self.kernel.seen, self.noise, self.kernel(attributes).T).T

    def source_vectors(self) -> NDArray[np.float64]:
        """Return (V − m)P (L, D), what the source weights multiply."""
        center = self.statistics.means[self.statistics.counts > 0].mean(axis=0)
        return (self.statistics.means - center) @ np.asarray(self.projection, dtype=np.float64)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return every array that `restore` needs."""
        return {
            "center": self.center,
            "projection": self.projection,
            "dual": self.dual,
            "noise": self.noise,
            "counts": self.statistics.counts,
            "sums": self.statistics.sums,
            "second_moment": self.statistics.second_moment,
        }

    def restore(self, state: Mapping[str, NDArray[Any]], attributes: NDArray[np.float64]) -> None:
        """Set what `state` returned; the kernel follows from the seen attributes (L, d)."""
        self.center, self.projection = state["center"], state["projection"]
        self.dual, self.noise, self.dtype = state["dual"], state["noise"], self.center.dtype
        self.statistics = ClassStatistics(*state["sums"].shape)
        self.statistics.counts = state["counts"]
        self.statistics.sums = state["sums"]
        self.statistics.second_moment = state["second_moment"]
        self.kernel = self.settings.class_kernel(attributes)
