"""Many closed forms on one fold on a torch device: what `grid` does, on tensors.

There is no decomposition: a Cholesky factor of each shrunk scatter is the metric. All ridges of a
kernel are solved at once, and what the search is after by default, the area under the seen–unseen
curve, is computed where the scores are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap
from hgkt.calibration.curve import ValidationRows, class_weights
from hgkt.closed_form.accelerated import lengths_of, map_tensor, relevance_gradient_on
from hgkt.closed_form.kernels import ClassKernel, KernelTerm
from hgkt.closed_form.metric import WithinClassSpectrum, oracle_shrinkage, rounding
from hgkt.closed_form.mixture import MetricTerm, Mixture, Ridge
from hgkt.closed_form.relevance import attribute_relevance
from hgkt.closed_form.transfer import RELEVANCE_RIDGE
from hgkt.statistics import Statistics

if TYPE_CHECKING:
    from hgkt.closed_form.grid import GridData, MetricKey, SumsGridData

_NUMBERS = 2**27  # scores of several ridges at once
_LEAST_SHRINKAGE = 0.01  # below it a factor of the scatter may not exist

_Kernels = tuple[KernelTerm, ...]
_Ridges = tuple[Ridge, ...]


class _Products(NamedTuple):
    """Inner products in one metric: rows with means (n, L), means with means (L, L)."""

    cross: torch.Tensor
    gram: torch.Tensor
    lengths: torch.Tensor


class DeviceFoldScorer:
    """Scores of any mixture of given metrics on one fold, on a device; see `FoldScorer`.

    Parameters
    ----------
    data, metrics, settings
        As for `FoldScorer`.
    precision : {"float32", "float64"}
        Of products and scores; factors and solutions are float64.
    device : str
        A torch device.
    """

    def __init__(
        self,
        data: GridData | SumsGridData,
        metrics: Iterable[MetricTerm],
        settings: Mixture,
        precision: str,
        device: str,
    ) -> None:
        self.attributes, self.new_attributes = data.attributes, data.new_attributes
        self.settings, self._device = settings, device
        self._dtype = torch.float64 if precision == "float64" else torch.float32
        self._products: dict[MetricKey, _Products] = {}
        self._kernel: tuple[_Kernels, ClassKernel, NDArray[np.float64]] | None = None
        self._solved: tuple[Any, torch.Tensor] | None = None
        self._relevance: dict[tuple[FeatureMap, int], NDArray[np.float64]] = {}
        wanted = dict.fromkeys((term.feature_map, term.shrinkage) for term in metrics)
        X_eval = self._put(np.asarray(data.X_eval), self._dtype)
        for name in dict.fromkeys(name for name, _ in wanted):
            statistics = data.statistics(name, device)
            self.counts = statistics.counts
            mapped = map_tensor(X_eval, name)
            self._multiply(statistics, mapped, [key for key in wanted if key[0] == name])

    def _put(self, array: NDArray[Any], dtype: torch.dtype = torch.float64) -> torch.Tensor:
        return torch.tensor(array, dtype=dtype, device=self._device)

    def put_first(self, term: MetricTerm) -> None:
        """Have relevance learned from this metric."""
        key = (term.feature_map, term.shrinkage)
        if key != next(iter(self._products)):
            self._products = {key: self._products[key], **self._products}
            self._relevance, self._kernel, self._solved = {}, None, None

    # ------------------------------------------------------------------ metrics
    def _multiply(
        self, statistics: Statistics, mapped: torch.Tensor, keys: Sequence[MetricKey]
    ) -> None:
        """Keep the products of mapped rows (n, D) with the class means in each metric."""
        center = statistics.means[statistics.counts > 0].mean(axis=0)
        rows = mapped - self._put(center, self._dtype)
        means = self._put(statistics.means - center, self._dtype)
        metrics = _Metrics(statistics, self._put)
        for key in keys:
            projection = metrics.projection(key[1]).to(self._dtype)
            projected, sources = rows @ projection, means @ projection
            self._products[key] = _Products(
                projected @ sources.T, sources @ sources.T, lengths_of(projected)
            )

    # ------------------------------------------------------------------ scores
    def scores(self, mixture: Mixture) -> NDArray[Any]:
        """Return the scores (n, L + U) of a mixture whose metrics are among those given."""
        total = sum(term.weight * self._metric_scores(mixture, term) for term in mixture.metrics)
        assert isinstance(total, torch.Tensor)
        return total.cpu().numpy()

    def metric_scores(self, mixture: Mixture, term: MetricTerm) -> NDArray[Any]:
        """Return the scores (n, L + U) in one metric, without its weight."""
        return self._metric_scores(mixture, term).cpu().numpy()

    def _metric_scores(self, mixture: Mixture, term: MetricTerm) -> torch.Tensor:
        products = self._products[term.feature_map, term.shrinkage]
        alphas = self._weights(mixture.kernels, [mixture.ridges])
        (dots,), (squares,) = products.cross @ alphas, _squares(alphas, products.gram)
        ordered = _ordered(dots, squares, mixture)
        if mixture.metric == "euclidean":
            return ordered - (products.lengths**2)[:, None]
        return ordered / _row_lengths(products)[:, None]

    # ------------------------------------------------------------------ areas
    def areas(self, members: Sequence[Mixture], truth: ValidationRows) -> NDArray[np.float64]:
        """Return the area under the curve (n_members,) of single closed forms, as fractions.

        Parameters
        ----------
        members : sequence of Mixture
            Mixtures of one metric each.
        truth : ValidationRows
            The true classes of the rows to score.
        """
        found = np.empty(len(members))
        rows = _Truth(truth, self._device)
        for kernels, metric, group in _together(members):
            ridges = list(dict.fromkeys(members[index].ridges for index in group))
            alphas = self._weights(kernels, ridges)
            ways = list(dict.fromkeys((members[i].metric, members[i].norm_power) for i in group))
            first = {(members[i].metric, members[i].norm_power): members[i] for i in group}
            values = self._areas(metric, alphas, [first[way] for way in ways], rows)
            for index in group:
                way = ways.index((members[index].metric, members[index].norm_power))
                found[index] = values[way, ridges.index(members[index].ridges)]
        return found

    def _areas(
        self, metric: MetricKey, alphas: torch.Tensor, ways: Sequence[Mixture], rows: _Truth
    ) -> NDArray[np.float64]:
        """Return the areas (n_ways, R) in one metric for weights (R, L, C)."""
        products = self._products[metric]
        squares = _squares(alphas, products.gram)[:, None]
        step = max(1, _NUMBERS // (alphas.shape[0] * alphas.shape[2]))
        tops: list[list[_Tops]] = [[] for _ in ways]
        for start in range(0, len(products.cross), step):
            dots = products.cross[start : start + step] @ alphas
            for place, way in zip(tops, ways, strict=True):
                place.append(_tops(_ordered(dots, squares, way), rows.n_seen))
        lengths = _row_lengths(products).double()
        found = []
        for place, way in zip(tops, ways, strict=True):
            top = _Tops(*(torch.cat(parts, dim=1) for parts in zip(*place, strict=True)))
            gaps = top.seen.double() - top.unseen.double()
            gaps = gaps if way.metric == "euclidean" else gaps / lengths
            found.append(rows.area(gaps, top))
        return torch.stack(found).cpu().numpy()

    # ------------------------------------------------------------------ transfer
    def _weights(self, kernels: _Kernels, ridges: Sequence[_Ridges]) -> torch.Tensor:
        """Return the source weights α (R, L, L + U) of all classes for each choice of ridges."""
        key = (kernels, tuple(ridges))
        if self._solved is None or self._solved[0] != key:
            kernel, new = self._fit_kernel(kernels)
            seen = self._put(kernel.seen)
            every = tuple(ridge for choice in ridges for ridge in choice)
            mixture = Mixture(ridges=every, weighting=self.settings.weighting)
            noise = self._put(mixture.noise(self.counts, kernel.seen))
            factors = torch.linalg.cholesky(seen + torch.diag_embed(noise))
            solved = torch.cholesky_solve(torch.cat([seen, self._put(new)]).T, factors)
            shares = [Mixture(ridges=choice).ridge_shares() for choice in ridges]
            solved *= self._put(np.concatenate(shares))[:, None, None]
            parts = torch.split(solved.to(self._dtype), [len(choice) for choice in ridges])
            self._solved = (key, torch.stack([part.sum(dim=0) for part in parts]))
        return self._solved[1]

    def _fit_kernel(self, terms: _Kernels) -> tuple[ClassKernel, NDArray[np.float64]]:
        if self._kernel is None or self._kernel[0] != terms:
            settings = self.settings
            kernel = ClassKernel(terms, settings.attribute_blocks, settings.n_neighbors)
            kernel.fit(self.attributes, self._learn_relevance, self._relevance)
            self._relevance |= kernel.relevance
            self._kernel = (terms, kernel, kernel(self.new_attributes))
        return self._kernel[1:]

    def _learn_relevance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh mapped attributes (L, d) by what the means in the first metric say."""
        gram = next(iter(self._products.values())).gram.double().cpu().numpy()
        noise = RELEVANCE_RIDGE * self.counts.mean() / np.maximum(self.counts, 1.0)
        gradient = relevance_gradient_on(self._device, rows, gram, noise)
        return attribute_relevance(rows, gram, noise, gradient)


class _Metrics:
    """The metrics of one feature map, one for each shrinkage of its scatter."""

    def __init__(self, statistics: Statistics, put: Any) -> None:
        self._statistics, self._put = statistics, put
        weighted = put(statistics.means * np.sqrt(statistics.counts)[:, None])
        scatter = put(statistics.second_moment) - weighted.T @ weighted
        self._scatter = scatter / max(statistics.n_instances, 1)
        trace = float(torch.trace(self._scatter))
        self._width, self._n = statistics.n_features, statistics.n_instances
        self._mean = trace / self._width
        if trace * self._n <= rounding(statistics):
            self._mean = 0.0  # nothing is known of the inside of classes

    def projection(self, shrinkage: float | str) -> torch.Tensor:
        """Return P (D, D) with P Pᵀ = W², in float64."""
        eye = torch.eye(len(self._scatter), dtype=torch.float64, device=self._scatter.device)
        if self._mean == 0.0:
            return eye
        if isinstance(shrinkage, str):
            squares = float((self._scatter**2).sum())
            shrinkage = oracle_shrinkage(self._mean, squares, self._width, self._n)
        if shrinkage < _LEAST_SHRINKAGE:
            spectrum = WithinClassSpectrum.of(self._statistics, str(self._scatter.device))
            projection: torch.Tensor = self._put(spectrum.projection(shrinkage))
            return projection
        shrunk = (1.0 - shrinkage) * self._scatter + shrinkage * self._mean * eye
        factor = torch.linalg.cholesky(shrunk)
        inverse: torch.Tensor = torch.linalg.solve_triangular(factor, eye, upper=False)
        return inverse.T


class _Tops(NamedTuple):
    """Of rows in R settings: scores and columns (R, n) of the best seen and unseen class."""

    seen: torch.Tensor
    unseen: torch.Tensor
    best_seen: torch.Tensor
    best_unseen: torch.Tensor


class _Truth:
    """The true classes of validation rows, on a device."""

    def __init__(self, truth: ValidationRows, device: str) -> None:
        self.n_seen, self._n_rows = truth.n_seen, truth.n_seen_rows
        parts = truth.truth[: self._n_rows], truth.truth[self._n_rows :]
        self._columns = [torch.tensor(part, device=device) for part in parts]
        self._weights = [torch.tensor(class_weights(part), device=device) for part in parts]

    def area(self, gaps: torch.Tensor, tops: _Tops) -> torch.Tensor:
        """Return the area (R,) of settings whose rows change their answer at γ = gaps (R, n).

        A row of a seen class that is right is above one of an unseen class that is right where
        it changes at a higher γ: by then the other one is right, too.
        """
        n = self._n_rows
        seen, unseen = gaps[:, :n].contiguous(), gaps[:, n:].contiguous()
        right = self._weights[0] * (tops.best_seen[:, :n] == self._columns[0])
        gained = self._weights[1] * (tops.best_unseen[:, n:] + self.n_seen == self._columns[1])
        ordered = seen.sort(dim=1)
        below = right.gather(1, ordered.indices).cumsum(dim=1)
        below = torch.nn.functional.pad(below, (1, 0))
        places = [torch.searchsorted(ordered.values, unseen, right=side) for side in (False, True)]
        lost = sum(below.gather(1, place) for place in places) / 2.0
        return (gained * (below[:, -1:] - lost)).sum(dim=1)


def _together(members: Sequence[Mixture]) -> Iterator[tuple[_Kernels, MetricKey, list[int]]]:
    """Yield kernels, a metric, and the members that have both, kernel after kernel."""
    groups: dict[_Kernels, dict[MetricKey, list[int]]] = {}
    for index, member in enumerate(members):
        (term,) = member.metrics
        own = groups.setdefault(member.kernels, {})
        own.setdefault((term.feature_map, term.shrinkage), []).append(index)
    for kernels, metrics in groups.items():
        for metric, group in metrics.items():
            yield kernels, metric, group


def _squares(alphas: torch.Tensor, gram: torch.Tensor) -> torch.Tensor:
    """Return ‖z‖² (R, C) of classes with source weights (R, L, C)."""
    return (alphas * (gram @ alphas)).sum(dim=1)


def _ordered(dots: torch.Tensor, squares: torch.Tensor, mixture: Mixture) -> torch.Tensor:
    """Return scores (…, n, C) up to what is the same for all classes of a row."""
    if mixture.metric == "euclidean":
        return 2.0 * dots - squares
    return dots * torch.where(squares > 0, squares, 1.0) ** (-mixture.norm_power / 2.0)


def _tops(ordered: torch.Tensor, n_seen: int) -> _Tops:
    seen, unseen = ordered[..., :n_seen].max(dim=2), ordered[..., n_seen:].max(dim=2)
    return _Tops(seen.values, unseen.values, seen.indices, unseen.indices)


def _row_lengths(products: _Products) -> torch.Tensor:
    return torch.where(products.lengths > 0, products.lengths, 1.0)
