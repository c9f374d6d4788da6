"""HGKT with its two relations in closed form: statistics in, class embeddings out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, map_rows, torch_device, unit_rows
from hgkt.closed_form.accelerated import gather_on
from hgkt.closed_form.carrying import Carrier
from hgkt.closed_form.folding import FoldedMetric
from hgkt.closed_form.growth import with_grown_noise
from hgkt.closed_form.kept_rows import KeptRows
from hgkt.closed_form.kernels import ClassKernel, relevance_keys
from hgkt.closed_form.metric import WithinClassSpectrum, dual_coefficients
from hgkt.closed_form.mixture import Mixture
from hgkt.closed_form.posterior import ClassPosterior
from hgkt.closed_form.relevance import attribute_relevance
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics, SpannedStatistics, Statistics
from hgkt.statistics.classes import has_small_side, restored

_CHUNK_ROWS = 4096
RELEVANCE_RIDGE = 0.03


def gather(
    X: NDArray[Any],
    codes: NDArray[np.intp],
    n_classes: int,
    feature_map: FeatureMap,
    device: str = "cpu",
) -> Statistics:
    """Map features (N, D) chunk by chunk and collect their statistics; few rows by their span."""
    if has_small_side(*X.shape):
        mapped = map_rows(np.asarray(X, dtype=np.float64), feature_map)
        return SpannedStatistics.of_rows(mapped, codes, n_classes)
    device = torch_device(device)
    if device != "cpu":
        return gather_on(device, X, codes, n_classes, feature_map)
    statistics = ClassStatistics(n_classes, X.shape[1])
    for start in range(0, len(X), _CHUNK_ROWS):
        rows = slice(start, start + _CHUNK_ROWS)
        mapped = map_rows(np.asarray(X[rows], dtype=np.float64), feature_map)
        statistics.update(mapped, codes[rows])
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
        device: str,
        grown: NDArray[np.bool_] | None = None,
    ) -> None:
        """Compute center, projection and scales, in float64."""
        spectrum = WithinClassSpectrum.of(statistics, torch_device(device))
        values = [
            spectrum.oracle_shrinkage() if isinstance(s, str) else float(s) for s in shrinkages
        ]
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
        self._factors, self._squares = KeptRows(), KeptRows()

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
        device = self.settings.device
        return {name: gather(X, codes, n_classes, name, device) for name in self.spaces}

    def solve(
        self,
        statistics: Mapping[FeatureMap, Statistics],
        attributes: NDArray[np.float64],
        grown: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Compute metrics and transfer from statistics; return the seen embeddings.

        `grown` (L,) says which classes came by their attributes; see `hgkt.closed_form.growth`.
        """
        for name, space in self.spaces.items():
            shrinkages = [m.shrinkage for m in self.settings.metrics if m.feature_map == name]
            space.solve_metrics(statistics[name], shrinkages, self.settings.device, grown)
        self.kernel = self.settings.class_kernel().fit(attributes, self._learn_relevance)
        self.noise = self.settings.noise(self.counts, self.kernel.seen, grown)
        if (
            grown is not None
            and 0 < grown.sum() < len(grown)
            and self.settings.weighting == "count"
        ):
            self.noise = with_grown_noise(self, grown)
        weights = self._weights(np.eye(len(attributes)))
        for space in self.spaces.values():
            space.dual = weights @ space.source_vectors()
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
        counts = self.counts
        noise = RELEVANCE_RIDGE * counts.mean() / np.maximum(counts, 1.0)
        return attribute_relevance(rows, vectors @ vectors.T, noise)

    @cached_property
    def posterior(self) -> ClassPosterior:
        """The Gaussian process over classes; a transfer is solved once."""
        return ClassPosterior(self.kernel.seen, self.noise, self.settings.ridge_shares())

    @cached_property
    def _carrier(self) -> Carrier:
        return Carrier(self.kernel, {name: space.dual for name, space in self.spaces.items()})

    def _weights(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rows (n, L) times Σ_r w_r (K + Λ_r)⁻¹."""
        parts = zip(self.settings.ridge_shares(), self.noise, strict=True)
        weights = np.zeros_like(rows)
        for share, noise in parts:
            weights += share * dual_coefficients(self.kernel.seen, noise, rows.T).T
        return weights

    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d): one kernel row each."""
        with np.errstate(over="ignore", invalid="ignore"):
            embeddings = self._side_by_side(self._carrier(attributes))
        finite = np.isfinite(embeddings).all(axis=1)
        if not finite.all():
            number = int(np.flatnonzero(~finite)[0]) + 1
            raise DataError(
                f"the attributes of new class {number} of {len(attributes)} are too large to be "
                "compared with those of the seen classes; scale them to ordinary numbers"
            )
        return embeddings

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

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Bring features (n, D) into every metric, side by side (n, G·D).

        For the cosine rows have unit length in each.
        """
        rows = np.asarray(X, dtype=self.dtype)
        mapped = {
            name: (space.statistics.coordinates(map_rows(rows, name)) - space.center)
            @ space.projection
            for name, space in self.spaces.items()
        }
        metrics = self.metric_scales()
        if len(metrics) > 1:
            blocks = [mapped[name] * scale for name, scale, _ in metrics]
        else:  # the scale of the first metric is one
            blocks = list(mapped.values())
        if self.settings.metric == "cosine":
            blocks = [unit_rows(block) for block in blocks]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)

    def score_mapped(self, features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score features (n, G·D) that are in the metrics already."""
        if self.settings.metric == "euclidean":
            own = np.einsum("ij,ij->i", features, features)[:, None]
            squares = own + self._squares.of(embeddings, _squared_lengths)
            distances: NDArray[Any] = squares - 2.0 * (features @ embeddings.T)
            return -distances
        factors = self._factors.of(embeddings, self._class_factors)
        width = features.shape[1] // factors.shape[1]
        scores: NDArray[Any] = features[:, :width] @ embeddings[:, :width].T
        scores *= factors[:, 0]
        for index in range(1, factors.shape[1]):
            part = slice(index * width, (index + 1) * width)
            product = features[:, part] @ embeddings[:, part].T
            product *= factors[:, index]
            scores += product
        return scores

    def _class_factors(self, embeddings: NDArray[Any]) -> NDArray[Any]:
        """Return what products with embeddings (C, G·D) are multiplied by in each metric (C, G)."""
        terms, power = self.settings.metrics, self.settings.norm_power
        parts = np.split(embeddings, len(terms), axis=1)
        lengths = np.stack([np.linalg.norm(part, axis=1) for part in parts], axis=1)
        weights = np.array([term.weight for term in terms])
        factors: NDArray[Any] = weights / np.where(lengths > 0, lengths, 1.0) ** power
        return factors.astype(embeddings.dtype)

    @cached_property
    def folded(self) -> FoldedMetric | None:
        """The metric folded into the class tables; None where that is no saving.

        It saves the product of features and metric where one metric compares by cosines. On the
        small side there is no such product: features are brought into the span of the rows.
        """
        if self.settings.metric != "cosine" or len(self.settings.metrics) > 1:
            return None
        if self.on_small_side:
            return None
        ((feature_map, space),) = self.spaces.items()
        return FoldedMetric(feature_map, space.center, space.projection, self._class_factors)

    # ------------------------------------------------------------------ explaining
    def source_weights(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return k(a, A) Σ_r w_r (K + Λ_r)⁻¹ (n, L): how much of each seen mean is in a class."""
        return self._weights(self.kernel(attributes))

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


def _squared_lengths(embeddings: NDArray[Any]) -> NDArray[Any]:
    squares: NDArray[Any] = np.einsum("ij,ij->i", embeddings, embeddings)
    return squares


def _relevance_of(
    kernel: ClassKernel, state: Mapping[str, NDArray[Any]]
) -> dict[tuple[FeatureMap, int], NDArray[np.float64]]:
    """Give the saved factors of attributes back to the views they belong to."""
    keys = enumerate(relevance_keys(kernel))
    return {key: state[f"relevance{number}"] for number, key in keys}
