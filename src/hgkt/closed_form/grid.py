"""Many closed forms on one fold for the price of one decomposition per feature map.

A class embedding is a combination of the seen means, z = Σ_c α_c (v_c − m)W, so x̂ᵀz needs only the
products of x with the L means. One eigendecomposition serves every shrinkage of a feature map, one
(n × L) product per metric serves every kernel, ridge and norm, and the α of a kernel and a ridge
serve every metric. What is kept of the features is those products.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, map_rows, torch_device
from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.closed_form.metric import dual_coefficients
from hgkt.closed_form.mixture import MetricTerm, Mixture
from hgkt.closed_form.relevance import attribute_relevance
from hgkt.closed_form.transfer import RELEVANCE_RIDGE, gather
from hgkt.closed_form.whitening import whitened
from hgkt.statistics import Statistics, Sums
from hgkt.statistics.classes import has_small_side

if TYPE_CHECKING:
    from hgkt.closed_form.device_grid import DeviceFoldScorer

MetricKey = tuple[FeatureMap, float | str]

_KEPT_METRICS = 3  # in which xᵀz is kept: as many as a mixture has


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

    def statistics(self, feature_map: FeatureMap, device: str) -> Statistics:
        """Return the sums of the rows to fit on."""
        return gather(self.X, self.codes, len(self.attributes), feature_map, device)


@dataclass(frozen=True)
class SumsGridData:
    """One fold whose rows to fit on are known by their sums; otherwise as `GridData`.

    Parameters
    ----------
    sums : Sums
        Of the rows to fit on.
    attributes : ndarray of shape (L, d)
    new_attributes : ndarray of shape (U, d)
    X_eval : ndarray of shape (n, D)
    """

    sums: Sums
    attributes: NDArray[np.float64]
    new_attributes: NDArray[np.float64]
    X_eval: NDArray[Any]

    def statistics(self, feature_map: FeatureMap, device: str) -> Statistics:
        """Return the sums of the rows to fit on."""
        return self.sums.of(feature_map)


@dataclass(frozen=True)
class _Products:
    """Inner products in one metric: rows with means (n, L), means with means (L, L)."""

    cross: NDArray[Any]
    gram: NDArray[Any]
    lengths: NDArray[Any]


class FoldScorer:
    """Scores of any mixture of given metrics on one fold.

    Parameters
    ----------
    data : GridData or SumsGridData
        The fold.
    metrics : iterable of MetricTerm
        Every metric that will be asked for.
    settings : Mixture
        What all mixtures share: weighting, blocks, device.
    precision : {"float32", "float64"}
        Of products and scores.
    """

    def __init__(
        self,
        data: GridData | SumsGridData,
        metrics: Iterable[MetricTerm],
        settings: Mixture,
        precision: str = "float32",
    ) -> None:
        self.attributes, self.new_attributes = data.attributes, data.new_attributes
        self.settings, self._precision = settings, precision
        self._products: dict[MetricKey, _Products] = {}
        self._relevance: dict[tuple[FeatureMap, int], NDArray[np.float64]] = {}
        self._learning = Lock()
        self._forget()
        wanted = dict.fromkeys((term.feature_map, term.shrinkage) for term in metrics)
        for feature_map in dict.fromkeys(name for name, _ in wanted):
            shrinkages = [s for name, s in wanted if name == feature_map]
            self._gather(data, feature_map, shrinkages)

    def _forget(self) -> None:
        """Drop what is kept of the last kernel and ridges."""
        self._kernel_of: tuple[Any, Any] = (None, None)
        self._weights_of: tuple[Any, Any] = (None, None)
        self._dots_of: dict[MetricKey, tuple[NDArray[Any], NDArray[Any]]] = {}

    def beside(self) -> FoldScorer:
        """Return a scorer of the same fold for another thread.

        Products and what is learned of attributes are shared, scores are not.
        """
        other = copy.copy(self)
        other._forget()
        return other

    def put_first(self, term: MetricTerm) -> None:
        """Have relevance learned from this metric."""
        key = (term.feature_map, term.shrinkage)
        if key != next(iter(self._products)):
            self._products = {key: self._products[key], **self._products}
            self._relevance = {}
            self._forget()

    def _gather(
        self,
        data: GridData | SumsGridData,
        feature_map: FeatureMap,
        shrinkages: Sequence[float | str],
    ) -> None:
        statistics = data.statistics(feature_map, "cpu")
        self.counts = statistics.counts
        mapped = map_rows(np.asarray(data.X_eval, dtype=self._precision), feature_map)
        placed = statistics.coordinates(mapped)
        for shrinkage, rows, sources in whitened(statistics, placed, shrinkages):
            lengths = np.linalg.norm(rows, axis=1)
            self._products[feature_map, shrinkage] = _Products(
                rows @ sources.T, sources @ sources.T, lengths
            )

    def scores(self, mixture: Mixture) -> NDArray[Any]:
        """Return the scores (n, L + U) of a mixture whose metrics are among those given."""
        total: Any = 0.0
        for term in mixture.metrics:
            scores = self.metric_scores(mixture, term)
            total = total + (scores if term.weight == 1.0 else term.weight * scores)
        return np.asarray(total)

    def metric_scores(self, mixture: Mixture, term: MetricTerm) -> NDArray[Any]:
        """Return the scores (n, L + U) in one metric, without its weight."""
        products = self._products[term.feature_map, term.shrinkage]
        dots, squares = self._dots(mixture, term)
        if mixture.metric == "euclidean":
            result: NDArray[Any] = 2.0 * dots - squares - (products.lengths**2)[:, None]
            return result
        lengths = np.where(products.lengths > 0, products.lengths, 1.0)
        powers = np.where(squares > 0, squares, 1.0) ** (-mixture.norm_power / 2.0)
        scaled: NDArray[Any] = dots * powers
        scaled /= lengths[:, None]
        return scaled

    def _dots(self, mixture: Mixture, term: MetricTerm) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return xᵀz (n, C) and ‖z‖² (C,); kept for mixtures that differ in the norm only."""
        weights = self._weights(mixture)  # first: other weights drop the dots that are kept
        key = (term.feature_map, term.shrinkage)
        if key not in self._dots_of:
            if len(self._dots_of) == _KEPT_METRICS:
                del self._dots_of[next(iter(self._dots_of))]
            products = self._products[key]
            squares = np.einsum("ij,ij->j", weights, products.gram @ weights)
            self._dots_of[key] = (products.cross @ weights, squares)
        return self._dots_of[key]

    def _weights(self, mixture: Mixture) -> NDArray[Any]:
        """Return the source weights α (L, L + U) of all classes; the same in every metric."""
        key = (mixture.kernels, mixture.ridges)
        if self._weights_of[0] != key:
            kernel, new = self._kernel(mixture.kernels)
            targets = np.concatenate([kernel.seen, new]).T
            weights = np.zeros_like(targets)
            noises = mixture.noise(self.counts, kernel.seen)
            for share, noise in zip(mixture.ridge_shares(), noises, strict=True):
                weights += share * dual_coefficients(kernel.seen, noise, targets)
            self._weights_of = (key, weights.astype(self._precision))
            self._dots_of = {}
        found: NDArray[Any] = self._weights_of[1]
        return found

    def _kernel(self, terms: tuple[KernelTerm, ...]) -> tuple[ClassKernel, NDArray[np.float64]]:
        if self._kernel_of[0] != terms:
            settings = self.settings
            kernel = ClassKernel(terms, settings.attribute_blocks, settings.n_neighbors)
            weighs = any(term.relevance for term in terms)
            with self._learning if weighs else nullcontext():  # once, whoever needs it first
                kernel.fit(self.attributes, self._learn_relevance, self._relevance)
                self._relevance |= kernel.relevance
            self._kernel_of = (terms, (kernel, kernel(self.new_attributes)))
        found: tuple[ClassKernel, NDArray[np.float64]] = self._kernel_of[1]
        return found

    def _learn_relevance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh mapped attributes (L, d) by what the means in the first metric say."""
        gram = next(iter(self._products.values())).gram.astype(np.float64)
        noise = RELEVANCE_RIDGE * self.counts.mean() / np.maximum(self.counts, 1.0)
        return attribute_relevance(rows, gram, noise)


def fold_scorer(
    data: GridData | SumsGridData,
    metrics: Iterable[MetricTerm],
    settings: Mixture,
    precision: str = "float32",
) -> FoldScorer | DeviceFoldScorer:
    """Return the scorer of a fold where `settings` says to compute; see `FoldScorer`.

    Few rows of many features stay on the CPU: on their small side there is little to compute.
    """
    device = torch_device(settings.device)
    if device == "cpu" or (isinstance(data, GridData) and has_small_side(*data.X.shape)):
        return FoldScorer(data, metrics, settings, precision)
    from hgkt.closed_form.device_grid import DeviceFoldScorer

    return DeviceFoldScorer(data, metrics, settings, precision, device)


def score_grid(
    settings: Sequence[Mixture], data: GridData | SumsGridData
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield ``(index, scores (n, L + U))`` for every setting, in an order that shares work."""
    for group in _same_surroundings(settings):
        metrics = [term for index in group for term in settings[index].metrics]
        scorer = fold_scorer(data, metrics, settings[group[0]], "float64")
        order = sorted(group, key=lambda index: _sharing_key(settings[index]))
        for index in order:
            if any(term.relevance for term in settings[index].kernels):
                scorer.put_first(settings[index].metrics[0])  # as in a fit of this setting alone
            yield index, scorer.scores(settings[index])


def _same_surroundings(settings: Sequence[Mixture]) -> list[list[int]]:
    """Group settings that agree in all but metrics, kernels, ridges and the norm."""
    groups: dict[str, list[int]] = {}
    for index, mixture in enumerate(settings):
        bare = replace(mixture, metrics=(MetricTerm(),), kernels=(KernelTerm(),),
                       ridges=Mixture().ridges, norm_power=1.0, metric="cosine")  # fmt: skip
        groups.setdefault(repr(bare), []).append(index)
    return list(groups.values())


def _sharing_key(mixture: Mixture) -> tuple[str, str, str]:
    return repr(mixture.kernels), repr(mixture.ridges), repr(mixture.metrics)
