"""HGKT with its two relations in closed form: statistics in, class embeddings out.

*Intra-class*: the metric W of `hgkt.closed_form.metric`. *Inter-class*: a kernel k between
attribute vectors carries the class means V to any class, z(a) = k(a, A)(K + Λ)⁻¹(V − m)W, the
posterior mean of a Gaussian process over classes with noise Λ on the observed class means.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, batches, fitting_device, map_rows, put
from hgkt.closed_form.kernels import ClassKernel, relevance_keys
from hgkt.closed_form.metric import WithinClassSpectrum
from hgkt.closed_form.mixture import Mixture
from hgkt.closed_form.posterior import ClassPosterior
from hgkt.closed_form.relevance import attribute_relevance, relevance_noise
from hgkt.closed_form.scoring import Scorer
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics, SpannedStatistics, Statistics
from hgkt.statistics.classes import has_small_side, restored

_DEVICE_ROWS = 32768
_FEW_ROWS = 4  # rows are gathered where they are at most one in so many
_LEAST_NOISE = 1e-6  # of the kernel: classes described alike would leave nothing to solve


def gather(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    n_classes: int,
    feature_map: FeatureMap,
    device: str | None = None,
) -> Statistics:
    """Map features (N, D) batch by batch and collect their statistics; few rows by their span.

    With a torch device they are summed there.
    """
    if has_small_side(*X.shape):
        mapped = map_rows(np.asarray(X, dtype=np.float64), feature_map)
        return SpannedStatistics.of_rows(mapped, codes, n_classes)
    if device is not None:
        return _gather_on(device, X, codes, n_classes, feature_map)
    statistics = ClassStatistics(n_classes, X.shape[1])
    for rows in batches(len(X)):
        mapped = map_rows(np.asarray(X[rows], dtype=np.float64), feature_map)
        statistics.update(mapped, codes[rows])
    return statistics


def _gather_on(
    device: str, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int, feature_map: FeatureMap
) -> ClassStatistics:
    """Collect the statistics of mapped features (N, D) on a torch device, in float64."""
    import torch

    statistics = ClassStatistics(n_classes, X.shape[1])
    sums = put(statistics.sums, np.float64, device)
    moment = put(statistics.second_moment, np.float64, device)
    for rows in batches(len(X), _DEVICE_ROWS):
        mapped = map_rows(put(X[rows], np.float64, device), feature_map)
        labels = torch.tensor(codes[rows], dtype=torch.int64, device=device)
        # In the order of the rows; `index_add_` adds in whatever order threads come.
        sums.index_put_((labels,), mapped, accumulate=True)
        moment += mapped.T @ mapped
    statistics.counts += np.bincount(codes, minlength=n_classes)
    statistics.sums += sums.cpu().numpy()
    statistics.second_moment += moment.cpu().numpy()
    return statistics


class VisualSpace:
    """One feature map, its in-class metrics and the class means in them.

    Attributes
    ----------
    center : ndarray of shape (D,)
        m, the mean of the class means, without those of classes that have grown.
    projection : ndarray of shape (D, D)
        P with P Pᵀ = W² of the first metric.
    scales : ndarray of shape (S, D)
        What makes each metric of the first: rows of (φ(x) − m)P times a scale.
    dual : ndarray of shape (L, D)
        What kernel rows multiply to give embeddings in the first metric.
    statistics : Statistics
        Sums of the mapped features, so that the model can grow. Where rows were few the sums are
        in coordinates of their span, and D is the number of those wherever else it stands here.
    """

    center: NDArray[Any]
    projection: NDArray[Any]
    scales: NDArray[Any]
    dual: NDArray[Any]
    statistics: Statistics
    variances: NDArray[np.float64]
    """(S, D): of instances around their class mean, along the axes of each metric; not saved."""

    def solve_metrics(
        self,
        statistics: Statistics,
        shrinkages: list[float | str],
        device: str | None,
        grown: NDArray[np.bool_] | None = None,
    ) -> None:
        """Compute center, projection and scales, in float64."""
        spectrum = WithinClassSpectrum.of(statistics, device)
        values = [spectrum.value_of(shrinkage) for shrinkage in shrinkages]
        self.statistics = statistics
        self.center, self.projection = spectrum.center, spectrum.projection(values[0])
        if grown is not None and not grown.all():
            # The mean of a few examples is noise that every class would feel.
            self.center = statistics.means[(statistics.counts > 0) & ~grown].mean(axis=0)
        shrunk = np.stack([spectrum.shrunk(value) for value in values])
        self.scales = np.sqrt(shrunk[0]) / np.sqrt(shrunk)
        n_free = statistics.n_instances - int((statistics.counts > 0).sum())
        self.variances = spectrum.eigenvalues / shrunk * statistics.n_instances / max(n_free, 1)

    def source_vectors(self) -> NDArray[np.float64]:
        """Return (V − m)P (L, D): the seen means in the first metric."""
        center, projection = (
            np.asarray(part, dtype=np.float64) for part in (self.center, self.projection)
        )
        result: NDArray[np.float64] = (self.statistics.means - center) @ projection
        return result

    def cast(self, dtype: Any) -> None:
        """Keep what features meet in their type."""
        with np.errstate(over="ignore"):
            self.center, self.projection = self.center.astype(dtype), self.projection.astype(dtype)
            self.scales, self.dual = self.scales.astype(dtype), self.dual.astype(dtype)
        if not (np.isfinite(self.projection).all() and np.isfinite(self.dual).all()):
            raise DataError(
                f"the features are too small to be compared in {np.dtype(dtype).name}; scale them "
                "to ordinary numbers, or map them (feature_map='l2')"
            )


class ClosedFormTransfer:
    """Fit, embed and score by a mixture of closed forms; keeps the statistics so it can grow.

    A class has one embedding of length D in each metric; its row of the class table holds them
    side by side.

    Parameters
    ----------
    settings : Mixture
        Metrics, kernels and ridges.
    """

    def __init__(self, settings: Mixture) -> None:
        self.settings = settings
        self.spaces = {name: VisualSpace() for name in settings.feature_maps}
        self._scorers: dict[str | None, Scorer] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_scorers": {}}  # they remember tables

    def fit(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Learn from features (N, D), codes (N,), attributes (L, d); return embeddings."""
        self.dtype = X.dtype
        return self.solve(self.gather(X, codes, len(attributes)), attributes)

    def gather(
        self, X: NDArray[Any], codes: NDArray[np.intp], n_classes: int
    ) -> dict[FeatureMap, Statistics]:
        """Collect the statistics of features (N, D), one set for each feature map."""
        device = fitting_device(self.settings.device)
        return {name: gather(X, codes, n_classes, name, device) for name in self.spaces}

    def solve(
        self,
        statistics: Mapping[FeatureMap, Statistics],
        attributes: NDArray[np.float64],
        grown: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Compute metrics and transfer from statistics; return the seen embeddings.

        `grown` (L,) says which classes came by their attributes: how far their examples are
        trusted is measured, see `_grown_noise`.
        """
        device, self._scorers = fitting_device(self.settings.device), {}
        for derived in ("posterior", "_linear_maps"):  # of an earlier solution
            self.__dict__.pop(derived, None)
        for name, space in self.spaces.items():
            shrinkages = [m.shrinkage for m in self.settings.metrics if m.feature_map == name]
            space.solve_metrics(statistics[name], shrinkages, device, grown)
        self.kernel = self.settings.class_kernel().fit(attributes, self._learn_relevance)
        self.noise = self.settings.noise(self.counts, self.kernel.seen, grown)
        if grown is not None and self.settings.weighting == "count":
            self.noise = self._grown_noise(grown)
        for space in self.spaces.values():
            space.dual = self.posterior.dual(space.source_vectors())
            space.cast(self.dtype)
        return self._embeddings(self.kernel.seen)

    @property
    def counts(self) -> NDArray[np.float64]:
        """Instances of each seen class (L,)."""
        return next(iter(self.spaces.values())).statistics.counts

    @property
    def on_small_side(self) -> bool:
        """Whether features are brought into the span of rows before they meet a metric."""
        return any(isinstance(s, SpannedStatistics) for s in self.statistics.values())

    @property
    def statistics(self) -> dict[FeatureMap, Statistics]:
        """The statistics so far, by feature map."""
        return {name: space.statistics for name, space in self.spaces.items()}

    def _learn_relevance(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weigh mapped attributes (L, d) by what the means in the first metric say."""
        vectors = next(iter(self.spaces.values())).source_vectors()
        return attribute_relevance(rows, vectors @ vectors.T, relevance_noise(self.counts))

    @cached_property
    def posterior(self) -> ClassPosterior:
        """The Gaussian process over classes."""
        return ClassPosterior(self.kernel.seen, self.noise, self.settings.ridge_shares())

    # ------------------------------------------------------------------ classes that grow
    def _grown_noise(self, grown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return Λ (R, L) with ν/n in the columns of classes that have `grown` (L,).

        λ, the noise of a class mean, is chosen such that unseen classes are predicted well. It
        says little about how noisy the mean of one, two or five examples is, and a mixture has
        many λ. So the noise of a class that grows is measured. ν is the variance of one example
        around the mean of its class in units of the kernel: σ²/τ², σ² measured inside classes and
        τ² = tr(Vᵀ(K + Λ)⁻¹V)/(L·D), the scale of the Gaussian process at which the means V of the
        other classes are most likely. The mean of n examples has the noise ν/n, and its weight
        beside the prediction v/(v + ν/n) is the one of least squared error.
        """
        others, noise = ~grown, self.noise.copy()
        if grown.all() or others.all():
            return noise
        kernel = self.kernel.seen[np.ix_(others, others)]
        shares = self.settings.ridge_shares()
        precision = ClassPosterior(kernel, noise[:, others], shares).precision
        ratio = self._variance_ratio(precision, others)
        if ratio > 0:
            least = _LEAST_NOISE * np.diag(kernel).mean()
            noise[:, grown] = np.maximum(ratio / np.maximum(self.counts[grown], 1.0), least)
        return noise

    def _variance_ratio(self, precision: NDArray[np.float64], rows: NDArray[np.bool_]) -> float:
        """Return ν, averaged over the metrics by their weights; 0 where nothing tells it."""
        found: dict[object, list[float]] = {}
        for name, space in self.spaces.items():
            means = space.source_vectors()[rows]
            spread = np.einsum("id,id->d", precision @ means, means) / len(means)
            signals = (spread * space.scales**2).mean(axis=1)
            noises = space.variances.mean(axis=1)
            ratios = np.divide(noises, signals, out=np.zeros_like(noises), where=signals > 0)
            found[name] = ratios.tolist()
        terms = self.settings.metrics
        ratios = [found[term.feature_map].pop(0) for term in terms]
        return float(np.average(ratios, weights=[term.weight for term in terms]))

    def learned_shares(self, grown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return how far each grown class (L,) has become one that was learned, from 0 to 1.

        The weight of its own examples in its embedding, over that of the other classes' on
        average; zero for those others.
        """
        if grown.all() or not grown.any():
            return grown.astype(np.float64)
        weights = self.posterior.own_weights()
        return np.where(grown, np.clip(weights / weights[~grown].mean(), 0.0, 1.0), 0.0)

    # ------------------------------------------------------------------ embedding and scoring
    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d): one kernel row each."""
        with np.errstate(over="ignore", invalid="ignore"):
            embeddings = self._side_by_side(self._kernel_products(attributes))
        finite = np.isfinite(embeddings).all(axis=1)
        if not finite.all():
            number = int(np.flatnonzero(~finite)[0]) + 1
            raise DataError(
                f"the attributes of new class {number} of {len(attributes)} are too large to be "
                "compared with those of the seen classes; scale them to ordinary numbers"
            )
        return embeddings

    def _kernel_products(self, attributes: NDArray[np.float64]) -> dict[FeatureMap, NDArray[Any]]:
        """Return the embeddings (n, D) in each first metric, reading no more than they need.

        An embedding is a kernel row times what all seen classes hold, L × D numbers. A linear
        kernel needs them once only: k(a, A)α = a(Aᵀα). A sparse one needs the rows of the
        neighbours alone.
        """
        kernel = self.kernel
        if kernel.is_linear and kernel.linear_references().shape[1] < len(kernel.seen):
            rows = kernel.linear_rows(attributes)
            return {name: _product(rows, map_) for name, map_ in self._linear_maps.items()}
        rows = kernel(attributes)
        return {name: _product(rows, space.dual) for name, space in self.spaces.items()}

    @cached_property
    def _linear_maps(self) -> dict[FeatureMap, NDArray[Any]]:
        """The maps (d', D) that a linear kernel amounts to."""
        references = self.kernel.linear_references()
        return {
            name: (references.T @ space.dual.astype(np.float64)).astype(space.dual.dtype)
            for name, space in self.spaces.items()
        }

    def _embeddings(self, kernel: NDArray[np.float64]) -> NDArray[Any]:
        """Return the embeddings (n, G·D) of classes with kernel rows (n, L)."""
        return self._side_by_side(
            {name: kernel.astype(s.dual.dtype) @ s.dual for name, s in self.spaces.items()}
        )

    def _side_by_side(self, products: Mapping[FeatureMap, NDArray[Any]]) -> NDArray[Any]:
        """Return the embeddings (n, G·D) of classes from those (n, D) in each first metric."""
        blocks = [products[name] * scale for name, scale, _ in self.metric_scales()]
        return np.concatenate(blocks, axis=1).astype(self.dtype)

    def metric_scales(self) -> list[tuple[FeatureMap, NDArray[Any], float]]:
        """Feature map, scale and weight of each metric of the mixture, in its order."""
        seen = dict.fromkeys(self.spaces, 0)
        metrics = []
        for term in self.settings.metrics:
            index = seen[term.feature_map]
            seen[term.feature_map] += 1
            scale = self.spaces[term.feature_map].scales[index]
            metrics.append((term.feature_map, scale, term.weight))
        return metrics

    def scorer(self, device: str | None = None) -> Scorer:
        """Return what scores by this transfer, on a torch device or by NumPy; made once each."""
        if device not in self._scorers:
            self._scorers[device] = Scorer(self, device)
        return self._scorers[device]

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Bring features (n, D) into every metric, side by side (n, G·D)."""
        result: NDArray[Any] = self.scorer().features(X)
        return result

    def score_mapped(self, features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score features (n, G·D) that are in the metrics already."""
        result: NDArray[Any] = self.scorer().scores(features, embeddings)
        return result

    # ------------------------------------------------------------------ explaining
    def source_weights(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return k(a, A) Σ_r w_r (K + Λ_r)⁻¹ (n, L): how much of each seen mean is in a class."""
        return self.posterior.weights(self.kernel(attributes))

    def source_vectors(self) -> NDArray[np.float64]:
        """Return the seen means in every metric (L, G·D), what the source weights multiply."""
        vectors = {name: space.source_vectors() for name, space in self.spaces.items()}
        blocks = [vectors[name] * scale for name, scale, _ in self.metric_scales()]
        return np.concatenate(blocks, axis=1)

    def pulls(
        self, row: NDArray[Any], embedding: NDArray[Any], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return what each seen class (L,) adds to the score of a row (1, D) for a class.

        `embedding` (G·D,) and `weights` (L,) are the class's own.
        """
        if self.settings.metric != "cosine":
            return weights
        feature = np.asarray(self.features(row), dtype=np.float64)[0]
        vectors, width = self.source_vectors(), len(feature) // len(self.settings.metrics)
        total = np.zeros(len(weights))
        for index, term in enumerate(self.settings.metrics):
            part = slice(index * width, (index + 1) * width)
            own = np.asarray(embedding[part], dtype=np.float64)
            scale = np.linalg.norm(own) ** self.settings.norm_power
            products = vectors[:, part] @ feature[part]
            total += term.weight * weights * products / (scale if scale > 0 else 1.0)
        return total

    # ------------------------------------------------------------------ saving
    def state(self) -> dict[str, NDArray[Any]]:
        """Return every array that `restore` needs; the first space's have plain names."""
        arrays: dict[str, NDArray[Any]] = {"noise": self.noise[0]}
        if len(self.noise) > 1:
            arrays["noises"] = self.noise
        for index, space in enumerate(self.spaces.values()):
            prefix = "" if index == 0 else f"space{index}/"
            arrays |= {
                f"{prefix}center": space.center,
                f"{prefix}projection": space.projection,
                f"{prefix}dual": space.dual,
                f"{prefix}counts": space.statistics.counts,
                f"{prefix}sums": space.statistics.sums,
                f"{prefix}second_moment": space.statistics.second_moment,
            }
            if isinstance(space.statistics, SpannedStatistics):
                arrays[f"{prefix}span"] = space.statistics.span
            if len(space.scales) > 1:
                arrays[f"{prefix}scales"] = space.scales
        for number, key in enumerate(sorted(self.kernel.relevance, key=repr)):
            arrays[f"relevance{number}"] = self.kernel.relevance[key]
        return arrays

    def restore(self, state: Mapping[str, NDArray[Any]], attributes: NDArray[np.float64]) -> None:
        """Set what `state` returned; the kernel follows from the seen attributes (L, d)."""
        self.noise = state["noises"] if "noises" in state else state["noise"][None]
        for index, space in enumerate(self.spaces.values()):
            prefix = "" if index == 0 else f"space{index}/"
            space.center, space.projection = state[f"{prefix}center"], state[f"{prefix}projection"]
            space.dual = state[f"{prefix}dual"]
            ones = np.ones((1, len(space.center)), dtype=space.center.dtype)
            space.scales = state.get(f"{prefix}scales", ones)
            counts, sums = state[f"{prefix}counts"], state[f"{prefix}sums"]
            moment, span = state[f"{prefix}second_moment"], state.get(f"{prefix}span")
            space.statistics = restored(counts, sums, moment, span)
        self.dtype = next(iter(self.spaces.values())).center.dtype
        kernel = self.settings.class_kernel()
        self.kernel = kernel.fit(attributes, relevance=_relevance_of(kernel, state))


def _product(rows: NDArray[np.float64], held: NDArray[Any]) -> NDArray[Any]:
    """Multiply rows (n, L) with (L, D); where nearly all are zero only those that are not."""
    rows = rows.astype(held.dtype)
    used = np.flatnonzero(rows.any(axis=0))
    few = _FEW_ROWS * len(used) <= len(held)
    product: NDArray[Any] = rows[:, used] @ held[used] if few else rows @ held
    return product


def _relevance_of(
    kernel: ClassKernel, state: Mapping[str, NDArray[Any]]
) -> dict[tuple[FeatureMap, int], NDArray[np.float64]]:
    """Give the saved factors of attributes back to the views they belong to."""
    keys = enumerate(relevance_keys(kernel))
    return {key: state[f"relevance{number}"] for number, key in keys}
