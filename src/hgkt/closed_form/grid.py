"""A whole grid of closed forms for the price of one decomposition.

A class embedding is a combination of the seen means, z = Σ_c α_c (v_c − m)W, so x̂ᵀz needs only the
products of x with the L means. One eigendecomposition a feature map serves every shrinkage, one
(n × L) product a shrinkage serves every kernel, ridge and norm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._geometry import map_rows
from hgkt.closed_form.metric import WithinClassSpectrum, dual_coefficients
from hgkt.closed_form.transfer import ClosedFormSettings


@dataclass(frozen=True)
class GridData:
    """One fold: features to fit on and to score, attributes of seen and of new classes.

    Parameters
    ----------
    X : ndarray of shape (N, D)
    codes : ndarray of shape (N,)
    attributes : ndarray of shape (L, d)
    new_attributes : ndarray of shape (U, d)
    X_eval : ndarray of shape (n, D)
    """

    X: NDArray[Any]
    codes: NDArray[np.intp]
    attributes: NDArray[np.float64]
    new_attributes: NDArray[np.float64]
    X_eval: NDArray[Any]


def score_grid(
    settings: Sequence[ClosedFormSettings], data: GridData
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield ``(index, scores (n, L + U))`` for every setting, in an order that shares work."""
    for indices in _groups(settings, ("feature_map",)):
        basis = _FeatureBasis.build(data, settings[indices[0]])
        for inner in _groups(settings, ("shrinkage",), indices):
            products = basis.products(settings[inner[0]])
            for index in inner:
                yield index, products.scores(settings[index], data)


def _groups(
    settings: Sequence[ClosedFormSettings],
    names: tuple[str, ...],
    indices: Sequence[int] | None = None,
) -> list[list[int]]:
    """Group settings that agree in `names`, in order of first appearance."""
    groups: dict[Any, list[int]] = {}
    for index in range(len(settings)) if indices is None else indices:
        key = tuple(getattr(settings[index], name) for name in names)
        groups.setdefault(key, []).append(index)
    return list(groups.values())


@dataclass(frozen=True)
class _FeatureBasis:
    """Features and class means in the eigenbasis of the within-class scatter."""

    spectrum: WithinClassSpectrum
    features: NDArray[np.float64]
    means: NDArray[np.float64]
    counts: NDArray[np.float64]

    @classmethod
    def build(cls, data: GridData, settings: ClosedFormSettings) -> _FeatureBasis:
        statistics = settings.gather(data.X, data.codes, len(data.attributes))
        spectrum = settings.spectrum(statistics)
        mapped = map_rows(np.asarray(data.X_eval, dtype=np.float64), settings.feature_map)
        return cls(
            spectrum,
            (mapped - spectrum.center) @ spectrum.basis,
            (statistics.means - spectrum.center) @ spectrum.basis,
            statistics.counts,
        )

    def products(self, settings: ClosedFormSettings) -> _MetricProducts:
        scale = 1.0 / np.sqrt(self.spectrum.shrunk(settings.shrinkage_of(self.spectrum)))
        features, means = self.features * scale, self.means * scale
        return _MetricProducts(
            self.counts,
            features @ means.T,
            means @ means.T,
            np.linalg.norm(features, axis=1),
            {},
        )


@dataclass(frozen=True)
class _MetricProducts:
    """Inner products in one metric: features with means (n, L), means with means (L, L)."""

    counts: NDArray[np.float64]
    cross: NDArray[np.float64]
    gram: NDArray[np.float64]
    lengths: NDArray[np.float64]
    cache: dict[Any, tuple[NDArray[np.float64], NDArray[np.float64]]]

    def scores(self, settings: ClosedFormSettings, data: GridData) -> NDArray[np.float64]:
        dots, squares = self._dots(settings, data)
        if settings.metric == "euclidean":
            return 2.0 * dots - squares - (self.lengths**2)[:, None]
        lengths = np.where(self.lengths > 0, self.lengths, 1.0)
        powers = np.where(squares > 0, squares, 1.0) ** (settings.norm_power / 2.0)
        return dots / lengths[:, None] / powers

    def _dots(
        self, settings: ClosedFormSettings, data: GridData
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return xᵀz (n, C) and ‖z‖² (C,); kept for settings that differ in the norm only."""
        key = repr(replace(settings, norm_power=1.0, metric="cosine"))
        if key not in self.cache:
            self.cache.clear()
            kernel = settings.class_kernel(data.attributes)
            seen = kernel.seen
            noise = settings.noise(self.counts, seen)
            targets = np.concatenate([seen, kernel(data.new_attributes)]).T
            weights = dual_coefficients(seen, noise, targets)
            squares = np.einsum("ij,ij->j", weights, self.gram @ weights)
            self.cache[key] = (self.cross @ weights, squares)
        return self.cache[key]
