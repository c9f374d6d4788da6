"""Many closed forms on one fold for the price of one decomposition per feature map.

A class embedding is a combination of the seen means, z = Σ_c α_c (v_c − m)W, so x̂ᵀz needs only the
products of x with the L means. One decomposition serves every shrinkage of a feature map, one
(n × L) product per metric serves every kernel, ridge and norm, and the α of a kernel and a ridge
serve every metric. What is kept of the features is those products, by NumPy or on a torch device.
Descriptions that share the space of the features are further vectors of that kind.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from threading import Lock
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import (
    FeatureMap,
    array_module,
    batches,
    fitting_device,
    map_rows,
    put,
    to_numpy,
    unit_rows,
)
from hgkt.calibration import Fold, Instances
from hgkt.calibration.curve import ValidationRows, class_weights
from hgkt.closed_form.kernels import ClassKernel
from hgkt.closed_form.member import Ensemble, KernelKey, Member, MetricKey
from hgkt.closed_form.metric import whitened
from hgkt.closed_form.posterior import dual_coefficients
from hgkt.closed_form.relevance import attribute_relevance, relevance_noise
from hgkt.closed_form.transfer import descriptions, gather
from hgkt.statistics import Statistics
from hgkt.statistics.classes import has_small_side

_N_KEPT = 9  # metrics and priors in which xᵀz is kept
_DEVICE_NUMBERS = 2**27  # scores of several ridges at once


class _Products(NamedTuple):
    """Inner products in one metric of rows x, seen means v and descriptions t of all classes."""

    rows_means: Any  # (n, L)
    means: Any  # (L, L)
    lengths: Any  # (n,)
    rows_texts: Any = None  # (n, C)
    means_texts: Any = None  # (L, C)
    texts: Any = None  # (C, C)


class _Carried(NamedTuple):
    """Inner products of rows, of residuals r = v − αt, and of what is added to what they carry."""

    rows: Any  # x·r (n, L)
    gram: Any  # r·r (L, L)
    rows_prior: Any = None  # x·αt (n, C)
    gram_prior: Any = None  # r·αt (L, C)
    prior: Any = None  # ‖αt‖² (C,)


class FoldScorer:
    """Scores of any members in given metrics on one fold.

    Parameters
    ----------
    fold : Fold
        Statistics or rows to fit on, rows to score, attributes of seen and of new classes.
    metrics : iterable of (feature map, shrinkage)
        Every metric that will be asked for.
    settings : Ensemble
        What all members share: comparison, weighting, blocks, space.
    precision : {"float32", "float64"}
        Of products and scores.
    device : str, optional
        A torch device; by default NumPy computes.
    """

    def __init__(
        self,
        fold: Fold,
        metrics: Iterable[MetricKey],
        settings: Ensemble,
        precision: str = "float32",
        device: str | None = None,
    ) -> None:
        self.attributes, self.new_attributes = fold.attributes, fold.new_attributes
        self.settings, self.device = settings, device
        self._products: dict[MetricKey, _Products] = {}
        self._relevance: dict[tuple[MetricKey, FeatureMap], list[NDArray[np.float64]]] = {}
        self._learning = Lock()
        self._clear()
        X_eval, texts = put(fold.X_eval, precision, device), cast(Any, None)
        if settings.shares_space:
            everyone = np.concatenate([fold.attributes, fold.new_attributes])
            texts = put(descriptions(settings, everyone, X_eval.shape[1]), precision, device)
        self._rows_and_texts = X_eval, texts
        keys = list(dict.fromkeys(metrics))
        for name in dict.fromkeys(name for name, _ in keys):
            statistics = _statistics(fold, name, device)
            if texts is not None:
                statistics = statistics.whole()
            self.counts = statistics.counts
            both = X_eval if texts is None else array_module(texts).concatenate([X_eval, texts])
            placed = statistics.coordinates(map_rows(both, name))
            shrinkages = [shrinkage for other, shrinkage in keys if other == name]
            for shrinkage, rows, means in whitened(statistics, placed, shrinkages):
                self._products[name, shrinkage] = _multiplied(rows, means, len(X_eval))

    def _clear(self) -> None:
        """Drop what is kept of the last kernel and ridge."""
        self._kernel_of: tuple[Any, Any] = (None, None)
        self._weights_of: tuple[Any, Any] = (None, None)
        self._dots_of: dict[tuple[MetricKey, float], tuple[Any, Any]] = {}

    def thread_copy(self) -> FoldScorer:
        """Return a scorer of the same fold for another thread.

        Products and what is learned of attributes are shared, scores are not.
        """
        other = copy.copy(self)
        other._clear()
        return other

    # ------------------------------------------------------------------ scores
    def scores(self, ensemble: Ensemble) -> NDArray[Any]:
        """Return the scores (n, L + U) of an ensemble whose metrics are among those given."""
        weights = np.array([member.weight for member in ensemble.members])
        if ensemble.metric == "euclidean":
            weights = weights / weights.sum()
        total: Any = 0.0
        for weight, member in zip(weights.tolist(), ensemble.members, strict=True):
            scores = self._member_scores(member, ensemble.metric)
            total = total + (scores if weight == 1.0 else weight * scores)
        if ensemble.zero_shot:
            total = total + ensemble.zero_shot * self._zero_shot()
        return to_numpy(total)

    def zero_shot(self) -> NDArray[Any]:
        """Return the cosines (n, L + U) of rows and descriptions."""
        return to_numpy(self._zero_shot())

    def _zero_shot(self) -> Any:
        rows, texts = self._rows_and_texts
        return unit_rows(rows) @ unit_rows(texts).T

    def _member_scores(self, member: Member, metric: str) -> Any:
        products = self._products[member.metric_key]
        scores = _order(*self._dots(member), metric, member.norm_power)
        if metric == "euclidean":
            scores -= (products.lengths**2)[:, None]
        else:
            scores /= _divisors(products)[:, None]
        return scores

    def _dots(self, member: Member) -> tuple[Any, Any]:
        """Return xᵀz (n, C) and ‖z‖² (C,); kept for members that differ in the norm only."""
        weights = self._weights(member)  # first: other weights drop the dots that are kept
        key = (member.metric_key, member.prior)
        if key not in self._dots_of:
            if len(self._dots_of) == _N_KEPT:
                del self._dots_of[next(iter(self._dots_of))]
            self._dots_of[key] = _combined(weights, self._carried(*key))
        found = self._dots_of[key]
        if not member.observed:
            return found
        return _observed(*found, self._products[member.metric_key])

    def _carried(self, metric: MetricKey, prior: float) -> _Carried:
        """Return the products of what a kernel carries in a metric under a prior α."""
        own = self._products[metric]
        if not prior:
            return _Carried(own.rows_means, own.means)
        n_seen = len(own.means)
        texts, cross = own.texts[:n_seen], own.means_texts[:, :n_seen]
        return _Carried(
            own.rows_means - prior * own.rows_texts[:, :n_seen],
            own.means - prior * (cross + cross.T) + prior**2 * texts[:, :n_seen],
            prior * own.rows_texts,
            prior * (own.means_texts - prior * texts),
            prior**2 * array_module(own.texts).diagonal(own.texts),
        )

    def _weights(self, member: Member) -> Any:
        """Return the source weights α (L, L + U) of all classes; the same in every metric."""
        key = (member.kernel_key, member.ridge)
        if self._weights_of[0] != key:
            self._weights_of = (key, self._ridge_weights(member, [member.ridge])[0])
            self._dots_of = {}
        return self._weights_of[1]

    def _ridge_weights(self, member: Member, ridges: Sequence[float]) -> Any:
        """Return the source weights α (R, L, L + U) of all classes for each ridge."""
        kernel, targets = self._kernel(member)
        noise = np.stack([self.settings.noise(r, self.counts, kernel.seen) for r in ridges])
        parts = [put(array, np.float64, self.device) for array in (kernel.seen, noise, targets)]
        if self.device is None:
            weights: Any = np.stack([dual_coefficients(parts[0], n, parts[2]) for n in parts[1]])
        else:
            weights = dual_coefficients(*parts)
        gram = next(iter(self._products.values())).means  # in the precision of products
        return array_module(weights).asarray(weights, dtype=gram.dtype)

    def _kernel(self, member: Member) -> tuple[ClassKernel, NDArray[np.float64]]:
        """Return the fitted kernel, and its columns (L, L + U) of seen and new classes."""
        key: KernelKey = member.kernel_key
        if self._kernel_of[0] != key:
            kernel = self.settings.class_kernel(member.kernel_settings)
            learned = (member.metric_key, member.attribute_map)
            with self._learning if member.relevance else nullcontext():  # once, for all threads
                known = self._relevance.get(learned, []) if member.relevance else []
                kernel.fit(self.attributes, self._learner(member.metric_key), known)
                if member.relevance:
                    self._relevance[learned] = kernel.relevance
            columns = np.concatenate([kernel.seen, kernel(self.new_attributes)]).T
            self._kernel_of = (key, (kernel, columns))
        found: tuple[ClassKernel, NDArray[np.float64]] = self._kernel_of[1]
        return found

    def _learner(self, metric: MetricKey) -> Any:
        """Return what weighs mapped attributes (L, d) by what the means in a metric say."""

        def learn(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            gram = to_numpy(self._products[metric].means).astype(np.float64)
            return attribute_relevance(rows, gram, relevance_noise(self.counts), self.device)

        return learn

    # ------------------------------------------------------------------ areas on a device
    def areas(
        self, members: Sequence[Member], truth: ValidationRows, metric: str
    ) -> NDArray[np.float64]:
        """Return the area under the curve (n_members,) of each member alone, as fractions.

        For tensors: all ridges of a kernel are solved at once, and areas are computed where the
        scores are.

        Parameters
        ----------
        members : sequence of Member
        truth : ValidationRows
            The true classes of the rows to score.
        metric : {"cosine", "euclidean"}
            How rows and embeddings are compared.
        """
        areas, found = _Areas(truth, self.device), np.empty(len(members))
        groups: dict[Any, dict[Any, list[int]]] = {}
        for index, member in enumerate(members):
            key = member.metric_key, member.norm_power, member.observed, member.prior
            groups.setdefault(member.kernel_key, {}).setdefault(key, []).append(index)
        for parts in groups.values():
            everyone = [members[index] for group in parts.values() for index in group]
            ridges = list(dict.fromkeys(member.ridge for member in everyone))
            alphas = self._ridge_weights(everyone[0], ridges)
            for group in parts.values():
                values = self._group_areas(alphas, members[group[0]], metric, areas)
                for index in group:
                    found[index] = values[ridges.index(members[index].ridge)]
        return found

    def _group_areas(self, alphas: Any, like: Member, metric: str, areas: _Areas) -> list[float]:
        """Return the areas (R,) of members like one but for the ridge, for weights (R, L, C)."""
        products = self._products[like.metric_key]
        carried = self._carried(like.metric_key, like.prior)
        step = max(1, _DEVICE_NUMBERS // (alphas.shape[0] * alphas.shape[2]))
        parts = []
        for rows in batches(len(carried.rows), step):
            some = carried._replace(rows=carried.rows[rows])
            if carried.rows_prior is not None:
                some = some._replace(rows_prior=carried.rows_prior[rows])
            dots, squares = _combined(alphas, some)
            if like.observed:
                own = products._replace(rows_means=products.rows_means[rows])
                dots, squares = _observed(dots, squares, own)
            order = _order(dots, squares, metric, like.norm_power)
            parts.append(areas.tops(order))
        divisors = 1.0 if metric == "euclidean" else _divisors(products).double()
        found: list[float] = areas(parts, divisors).tolist()
        return found


def _multiplied(rows: Any, means: Any, n_rows: int) -> _Products:
    """Return the products of rows (n, D) with means (L, D), and with descriptions below them."""
    own, texts = rows[:n_rows], rows[n_rows:]
    lengths = array_module(own).linalg.vector_norm(own, axis=1)
    found = _Products(own @ means.T, means @ means.T, lengths)
    if not len(texts):
        return found
    texts = texts - texts[: len(means)].mean(axis=0)
    return found._replace(
        rows_texts=own @ texts.T, means_texts=means @ texts.T, texts=texts @ texts.T
    )


def _combined(weights: Any, carried: _Carried) -> tuple[Any, Any]:
    """Return xᵀz (…, n, C) and ‖z‖² (…, C) of embeddings with source weights (…, L, C)."""
    dots, squares = carried.rows @ weights, (weights * (carried.gram @ weights)).sum(axis=-2)
    if carried.prior is not None:
        dots = dots + carried.rows_prior
        squares = squares + 2.0 * (weights * carried.gram_prior).sum(axis=-2) + carried.prior
    return dots, squares


def _observed(dots: Any, squares: Any, products: _Products) -> tuple[Any, Any]:
    """Return xᵀz and ‖z‖² with seen classes at their observed means."""
    xp = array_module(dots)
    n_seen = products.means.shape[0]
    own = xp.broadcast_to(products.rows_means, (*dots.shape[:-1], n_seen))
    lengths = xp.broadcast_to(xp.diagonal(products.means), (*squares.shape[:-1], n_seen))
    return (
        xp.concatenate([own, dots[..., n_seen:]], axis=-1),
        xp.concatenate([lengths, squares[..., n_seen:]], axis=-1),
    )


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


def _order(dots: Any, squares: Any, metric: str, norm_power: float) -> Any:
    """Return scores (…, n, C) up to what is the same for all classes of a row."""
    squares = squares[..., None, :]
    if metric == "euclidean":
        return 2.0 * dots - squares
    where = array_module(squares).where
    return dots * where(squares > 0, squares, 1.0) ** (-norm_power / 2.0)


def _divisors(products: _Products) -> Any:
    """Return the lengths (n,) of rows to divide by."""
    return array_module(products.lengths).where(products.lengths > 0, products.lengths, 1.0)


def _statistics(fold: Fold, feature_map: FeatureMap, device: str | None) -> Statistics:
    """Return the sums of the rows that a fold is fitted on, under a feature map."""
    if isinstance(fold.training, Instances):
        return gather(*fold.training, len(fold.attributes), feature_map, device)
    return fold.training.of(feature_map)


def fold_scorer(
    fold: Fold, metrics: Iterable[MetricKey], settings: Ensemble, precision: str = "float32"
) -> FoldScorer:
    """Return the scorer of a fold where `settings` say to compute; a small side stays on NumPy."""
    # In the span of few rows of many features there is little to compute.
    rows = fold.training.X if isinstance(fold.training, Instances) else None
    small = rows is not None and has_small_side(*rows.shape)
    device = None if small else fitting_device(settings.device)
    return FoldScorer(fold, metrics, settings, precision, device)


def score_grid(
    settings: Sequence[Ensemble], fold: Fold
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield ``(index, scores (n, L + U))`` for every setting, in an order that shares work."""
    groups: dict[str, list[int]] = {}
    for index, ensemble in enumerate(settings):
        bare = replace(ensemble, members=Ensemble().members, zero_shot=0.0, metric="cosine")
        groups.setdefault(repr(bare), []).append(index)
    for group in groups.values():
        metrics = [key for index in group for key in settings[index].metric_keys]
        scorer = fold_scorer(fold, metrics, settings[group[0]], "float64")
        for index in sorted(group, key=lambda index: _sharing_key(settings[index])):
            yield index, scorer.scores(settings[index])


def _sharing_key(ensemble: Ensemble) -> str:
    first = ensemble.members[0]
    return repr((first.kernel_key, first.ridge, first.metric_key, first.prior))
