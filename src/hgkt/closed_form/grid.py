"""Many closed forms on one fold for the price of one decomposition per feature map.

A class embedding is a combination of the seen means, z = Σ_c α_c (v_c − m)W, so x̂ᵀz needs only the
products of x with the L means. One decomposition serves every shrinkage of a feature map, one
(n × L) product per metric serves every kernel, ridge and norm, and the α of a kernel and a ridge
serve every metric. What is kept of the features is those products, by NumPy or on a torch device.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, array_module, batches, fitting_device, map_rows, put, to_numpy
from hgkt.calibration import Fold, Instances
from hgkt.calibration.curve import ValidationRows, class_weights
from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.closed_form.metric import whitened
from hgkt.closed_form.mixture import MetricTerm, Mixture, Ridge
from hgkt.closed_form.posterior import averaged_coefficients, dual_coefficients
from hgkt.closed_form.relevance import attribute_relevance, relevance_noise
from hgkt.closed_form.transfer import gather
from hgkt.statistics import Statistics
from hgkt.statistics.classes import has_small_side

MetricKey = tuple[FeatureMap, float | str]

_N_METRICS = 3  # in which xᵀz is kept: as many as a mixture has
_DEVICE_NUMBERS = 2**27  # scores of several ridges at once


class _Products(NamedTuple):
    """Inner products in one metric: rows with means (n, L), means with means (L, L)."""

    cross: Any
    gram: Any
    lengths: Any


class FoldScorer:
    """Scores of any mixture of given metrics on one fold.

    Parameters
    ----------
    fold : Fold
        Statistics or rows to fit on, rows to score, attributes of seen and of new classes.
    metrics : iterable of MetricTerm
        Every metric that will be asked for.
    settings : Mixture
        What all mixtures share: weighting, blocks.
    precision : {"float32", "float64"}
        Of products and scores.
    device : str, optional
        A torch device; by default NumPy computes.
    """

    def __init__(
        self,
        fold: Fold,
        metrics: Iterable[MetricTerm],
        settings: Mixture,
        precision: str = "float32",
        device: str | None = None,
    ) -> None:
        self.attributes, self.new_attributes = fold.attributes, fold.new_attributes
        self.settings, self.device, self._precision = settings, device, precision
        self._products: dict[MetricKey, _Products] = {}
        self._relevance: dict[tuple[FeatureMap, int], NDArray[np.float64]] = {}
        self._learning = Lock()
        self._clear()
        keys = dict.fromkeys((term.feature_map, term.shrinkage) for term in metrics)
        self._relevance_metric = next(iter(keys))
        X_eval = put(fold.X_eval, precision, device)
        for name in dict.fromkeys(name for name, _ in keys):
            statistics = _statistics(fold, name, device)
            self.counts = statistics.counts
            placed = statistics.coordinates(map_rows(X_eval, name))
            shrinkages = [shrinkage for other, shrinkage in keys if other == name]
            for shrinkage, rows, means in whitened(statistics, placed, shrinkages):
                lengths = array_module(rows).linalg.vector_norm(rows, axis=1)
                found = _Products(rows @ means.T, means @ means.T, lengths)
                self._products[name, shrinkage] = found

    def _clear(self) -> None:
        """Drop what is kept of the last kernel and ridges."""
        self._kernel_of: tuple[Any, Any] = (None, None)
        self._weights_of: tuple[Any, Any] = (None, None)
        self._dots_of: dict[MetricKey, tuple[Any, Any]] = {}

    def thread_copy(self) -> FoldScorer:
        """Return a scorer of the same fold for another thread.

        Products and what is learned of attributes are shared, scores are not.
        """
        other = copy.copy(self)
        other._clear()
        return other

    def learn_relevance_from(self, term: MetricTerm) -> None:
        """Have relevance learned from this metric."""
        key = (term.feature_map, term.shrinkage)
        if key != self._relevance_metric:
            self._relevance_metric, self._relevance = key, {}
            if self._kernel_of[0] and any(term.relevance for term in self._kernel_of[0]):
                self._clear()

    # ------------------------------------------------------------------ scores
    def scores(self, mixture: Mixture) -> NDArray[Any]:
        """Return the scores (n, L + U) of a mixture whose metrics are among those given."""
        total: Any = 0.0
        for term in mixture.metrics:
            scores = self._metric_scores(mixture, term)
            total = total + (scores if term.weight == 1.0 else term.weight * scores)
        return to_numpy(total)

    def metric_scores(self, mixture: Mixture, term: MetricTerm) -> NDArray[Any]:
        """Return the scores (n, L + U) in one metric, without its weight."""
        return to_numpy(self._metric_scores(mixture, term))

    def _metric_scores(self, mixture: Mixture, term: MetricTerm) -> Any:
        products = self._products[term.feature_map, term.shrinkage]
        scores = _order(*self._dots(mixture, term), mixture)
        if mixture.metric == "euclidean":
            scores -= (products.lengths**2)[:, None]
        else:
            scores /= _divisors(products)[:, None]
        return scores

    def _dots(self, mixture: Mixture, term: MetricTerm) -> tuple[Any, Any]:
        """Return xᵀz (n, C) and ‖z‖² (C,); kept for mixtures that differ in the norm only."""
        weights = self._weights(mixture)  # first: other weights drop the dots that are kept
        key = (term.feature_map, term.shrinkage)
        if key not in self._dots_of:
            if len(self._dots_of) == _N_METRICS:
                del self._dots_of[next(iter(self._dots_of))]
            products = self._products[key]
            einsum = array_module(weights).einsum
            squares = einsum("ij,ij->j", weights, products.gram @ weights)
            self._dots_of[key] = (products.cross @ weights, squares)
        return self._dots_of[key]

    def _weights(self, mixture: Mixture) -> Any:
        """Return the source weights α (L, L + U) of all classes; the same in every metric."""
        key = (mixture.kernels, mixture.ridges)
        if self._weights_of[0] != key:
            kernel, targets = self._kernel(mixture.kernels)
            noise, shares = mixture.noise(self.counts, kernel.seen), mixture.ridge_shares()
            parts = [self._put(array) for array in (kernel.seen, noise, shares, targets)]
            weights = averaged_coefficients(*parts)
            self._weights_of = (key, self._rounded(weights))
            self._dots_of = {}
        return self._weights_of[1]

    def _put(self, array: NDArray[np.float64]) -> Any:
        return put(array, np.float64, self.device)

    def _rounded(self, weights: Any) -> Any:
        """Return weights in the precision of products."""
        gram = next(iter(self._products.values())).gram
        return array_module(weights).asarray(weights, dtype=gram.dtype)

    def _kernel(self, terms: tuple[KernelTerm, ...]) -> tuple[ClassKernel, NDArray[np.float64]]:
        """Return the fitted kernel, and its columns (L, L + U) of seen and new classes."""
        if self._kernel_of[0] != terms:
            settings = self.settings
            kernel = ClassKernel(terms, settings.attribute_blocks, settings.n_neighbors)
            weighs = any(term.relevance for term in terms)
            with self._learning if weighs else nullcontext():  # once, whoever needs it first
                kernel.fit(self.attributes, self._learn_relevance, self._relevance)
                self._relevance |= kernel.relevance
            columns = np.concatenate([kernel.seen, kernel(self.new_attributes)]).T
            self._kernel_of = (terms, (kernel, columns))
        found: tuple[ClassKernel, NDArray[np.float64]] = self._kernel_of[1]
        return found

    def _learn_relevance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh mapped attributes (L, d) by what the means in one metric say."""
        gram = to_numpy(self._products[self._relevance_metric].gram).astype(np.float64)
        return attribute_relevance(rows, gram, relevance_noise(self.counts), self.device)

    # ------------------------------------------------------------------ areas on a device
    def areas(self, members: Sequence[Mixture], truth: ValidationRows) -> NDArray[np.float64]:
        """Return the area under the curve (n_members,) of single closed forms, as fractions.

        For tensors: all ridges of a kernel are solved at once, and areas are computed where the
        scores are.

        Parameters
        ----------
        members : sequence of Mixture
            Mixtures of one metric, one kernel and one ridge each.
        truth : ValidationRows
            The true classes of the rows to score.
        """
        areas, found = _Areas(truth, self.device), np.empty(len(members))
        groups: dict[Any, dict[Any, list[int]]] = {}
        for index, member in enumerate(members):
            (term,) = member.metrics
            key = (term.feature_map, term.shrinkage), member.metric, member.norm_power
            groups.setdefault(member.kernels, {}).setdefault(key, []).append(index)
        for kernels, parts in groups.items():
            everyone = [members[index] for group in parts.values() for index in group]
            ridges = list(dict.fromkeys(member.ridges[0].ridge for member in everyone))
            alphas = self._ridge_weights(kernels, ridges)
            for (metric, *_), group in parts.items():
                values = self._group_areas(metric, alphas, members[group[0]], areas)
                for index in group:
                    found[index] = values[ridges.index(members[index].ridges[0].ridge)]
        return found

    def _ridge_weights(self, kernels: tuple[KernelTerm, ...], ridges: Sequence[float]) -> Any:
        """Return the source weights α (R, L, L + U) of all classes for each ridge."""
        kernel, targets = self._kernel(kernels)
        settings = replace(self.settings, ridges=tuple(Ridge(ridge) for ridge in ridges))
        noise = settings.noise(self.counts, kernel.seen)
        parts = [self._put(array) for array in (kernel.seen, noise, targets)]
        return self._rounded(dual_coefficients(*parts))

    def _group_areas(
        self, metric: MetricKey, alphas: Any, like: Mixture, areas: _Areas
    ) -> list[float]:
        """Return the areas (R,) of members like one in a metric, for weights (R, L, C)."""
        products = self._products[metric]
        squares = (alphas * (products.gram @ alphas)).sum(axis=1)[:, None]
        step = max(1, _DEVICE_NUMBERS // (alphas.shape[0] * alphas.shape[2]))
        parts = [
            areas.tops(_order(products.cross[rows] @ alphas, squares, like))
            for rows in batches(len(products.cross), step)
        ]
        divisors = 1.0 if like.metric == "euclidean" else _divisors(products).double()
        found: list[float] = areas(parts, divisors).tolist()
        return found


class _Areas:
    """Areas under the seen–unseen curve from scores on a device, many settings at once."""

    def __init__(self, truth: ValidationRows, device: str | None) -> None:
        import torch

        self._torch, self._n_seen, self._n_rows = torch, truth.n_seen, truth.n_seen_rows
        parts = truth.truth[: self._n_rows], truth.truth[self._n_rows :]
        self._columns = [torch.tensor(part, device=device) for part in parts]
        self._weights = [torch.tensor(class_weights(part), device=device) for part in parts]

    def tops(self, scores: Any) -> tuple[Any, ...]:
        """Return scores and columns (R, n) of the best seen and unseen class."""
        seen, unseen = scores[..., : self._n_seen].max(-1), scores[..., self._n_seen :].max(-1)
        return seen.values, unseen.values, seen.indices, unseen.indices

    def __call__(self, parts: Sequence[tuple[Any, ...]], divisors: Any) -> Any:
        """Return the area (R,) of settings whose best classes came in parts of rows.

        Rows change their answer at γ = (best seen − best unseen) / divisor. A row of a seen class
        that is right is above one of an unseen class that is right where it changes at a higher
        γ: by then the other one is right, too.
        """
        torch, n = self._torch, self._n_rows
        top_seen, top_unseen, best_seen, best_unseen = (
            torch.cat(part, dim=1) for part in zip(*parts, strict=True)
        )
        gaps = (top_seen.double() - top_unseen.double()) / divisors
        seen, unseen = gaps[:, :n].contiguous(), gaps[:, n:].contiguous()
        right = self._weights[0] * (best_seen[:, :n] == self._columns[0])
        gained = self._weights[1] * (best_unseen[:, n:] + self._n_seen == self._columns[1])
        ordered = seen.sort(dim=1)
        below = right.gather(1, ordered.indices).cumsum(dim=1)
        below = torch.nn.functional.pad(below, (1, 0))
        places = [torch.searchsorted(ordered.values, unseen, right=side) for side in (False, True)]
        lost = sum(below.gather(1, place) for place in places) / 2.0
        return (gained * (below[:, -1:] - lost)).sum(dim=1)


def _order(dots: Any, squares: Any, mixture: Mixture) -> Any:
    """Return scores (…, n, C) up to what is the same for all classes of a row."""
    if mixture.metric == "euclidean":
        return 2.0 * dots - squares
    where = array_module(squares).where
    return dots * where(squares > 0, squares, 1.0) ** (-mixture.norm_power / 2.0)


def _divisors(products: _Products) -> Any:
    """Return the lengths (n,) of rows to divide by."""
    return array_module(products.lengths).where(products.lengths > 0, products.lengths, 1.0)


def _statistics(fold: Fold, feature_map: FeatureMap, device: str | None) -> Statistics:
    """Return the sums of the rows that a fold is fitted on, under a feature map."""
    if isinstance(fold.training, Instances):
        return gather(*fold.training, len(fold.attributes), feature_map, device)
    return fold.training.of(feature_map)


def fold_scorer(
    fold: Fold, metrics: Iterable[MetricTerm], settings: Mixture, precision: str = "float32"
) -> FoldScorer:
    """Return the scorer of a fold where `settings` say to compute; a small side stays on NumPy."""
    # In the span of few rows of many features there is little to compute.
    rows = fold.training.X if isinstance(fold.training, Instances) else None
    small = rows is not None and has_small_side(*rows.shape)
    device = None if small else fitting_device(settings.device)
    return FoldScorer(fold, metrics, settings, precision, device)


def score_grid(
    settings: Sequence[Mixture], fold: Fold
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield ``(index, scores (n, L + U))`` for every setting, in an order that shares work."""
    for group in _same_surroundings(settings):
        metrics = [term for index in group for term in settings[index].metrics]
        scorer = fold_scorer(fold, metrics, settings[group[0]], "float64")
        order = sorted(group, key=lambda index: _sharing_key(settings[index]))
        for index in order:
            if any(term.relevance for term in settings[index].kernels):
                # As in a fit of this setting alone.
                scorer.learn_relevance_from(settings[index].metrics[0])
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
