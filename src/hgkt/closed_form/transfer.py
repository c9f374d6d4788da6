"""HGKT with its two relations in closed form: statistics in, class embeddings out.

*Intra-class*: the metric W of `hgkt.closed_form.metric`. *Inter-class*: a kernel k between
attribute vectors carries the class means V to any class, z(a) = k(a, A)(K + Λ)⁻¹(V − m)W, the
posterior mean of a Gaussian process over classes with noise Λ on the observed class means. Where
rows and descriptions share a space the description t of a class is itself a guess of its mean, and
the prior mean of the process: z(a) = (α(t − t̄) + k(a, A)(K + Λ)⁻¹(V − m − α(T − t̄)))W.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import FeatureMap, batches, fitting_device, map_rows, put, unit_rows
from hgkt.closed_form.kernels import ClassKernel, split_blocks
from hgkt.closed_form.member import Ensemble, KernelKey, Member, MetricKey, ProcessKey
from hgkt.closed_form.metric import WithinClassSpectrum
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
    scales : dict of ndarray of shape (D,)
        What makes the metric of each shrinkage of the first: rows of (φ(x) − m)P times a scale.
    description_center : ndarray of shape (D,)
        t̄, the mean of the mapped descriptions of seen classes, where they are in this space.
    statistics : Statistics
        Sums of the mapped features, so that the model can grow. Where rows were few the sums are
        in coordinates of their span, and D is the number of those wherever else it stands here.
    """

    center: NDArray[Any]
    projection: NDArray[Any]
    scales: dict[float | str, NDArray[Any]]
    description_center: NDArray[Any]
    statistics: Statistics
    variances: dict[float | str, float]
    """Of instances around their class mean along an axis of each metric, on average; not saved."""

    def __init__(self, feature_map: FeatureMap, shrinkages: Sequence[float | str]) -> None:
        self.feature_map, self.shrinkages = feature_map, shrinkages

    def solve_metrics(
        self, statistics: Statistics, device: str | None, grown: NDArray[np.bool_]
    ) -> None:
        """Compute center, projection and scales, in float64."""
        spectrum = WithinClassSpectrum.of(statistics, device)
        values = [spectrum.value_of(shrinkage) for shrinkage in self.shrinkages]
        self.statistics = statistics
        self.center, self.projection = spectrum.center, spectrum.projection(values[0])
        if grown.any() and not grown.all():
            # The mean of a few examples is noise that every class would feel.
            self.center = statistics.means[(statistics.counts > 0) & ~grown].mean(axis=0)
        n_free = statistics.n_instances - int((statistics.counts > 0).sum())
        freedom = statistics.n_instances / max(n_free, 1)
        first = spectrum.shrunk(values[0])
        self.scales, self.variances = {}, {}
        for shrinkage, value in zip(self.shrinkages, values, strict=True):
            shrunk = spectrum.shrunk(value)
            self.scales[shrinkage] = np.sqrt(first) / np.sqrt(shrunk)
            self.variances[shrinkage] = float((spectrum.eigenvalues / shrunk).mean() * freedom)

    def take_descriptions(self, texts: NDArray[np.float64], grown: NDArray[np.bool_]) -> None:
        """Find t̄ of the descriptions (L, D) of seen classes."""
        some = ~grown if grown.any() and not grown.all() else np.ones(len(texts), dtype=bool)
        self.description_center = self.mapped(texts)[some].mean(axis=0)

    def mapped(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return φ(x) of rows (n, D), in the coordinates of the statistics."""
        return self.statistics.coordinates(map_rows(rows, self.feature_map))

    def into(
        self, rows: NDArray[np.float64], center: NDArray[Any], shrinkage: float | str
    ) -> NDArray[np.float64]:
        """Return (φ − center)P (n, D) of mapped rows in the metric of a shrinkage, in float64."""
        center, projection = (
            np.asarray(part, dtype=np.float64) for part in (center, self.projection)
        )
        result: NDArray[np.float64] = (rows - center) @ projection * self.scales[shrinkage]
        return result

    def cast(self, dtype: Any) -> None:
        """Keep what features meet in their type."""
        with np.errstate(over="ignore"):
            self.center, self.projection = self.center.astype(dtype), self.projection.astype(dtype)
            self.scales = {key: scale.astype(dtype) for key, scale in self.scales.items()}
        _refuse_infinite(self.projection, dtype)


class Process:
    """A Gaussian process over classes, and what it makes of the class means in one metric.

    Attributes
    ----------
    dual : ndarray of shape (L, D)
        (K + Λ)⁻¹(V − m − α(T − t̄))W: kernel rows times it are embeddings, up to the prior mean.
    """

    dual: NDArray[Any]

    def __init__(self, kernel: ClassKernel, noise: NDArray[np.float64]) -> None:
        self.kernel, self.noise = kernel, noise

    @cached_property
    def posterior(self) -> ClassPosterior:
        """Variances, and weights of the seen classes."""
        return ClassPosterior(self.kernel.seen, self.noise)

    @cached_property
    def _linear_map(self) -> NDArray[Any]:
        """The map (d', D) that a linear kernel amounts to."""
        references = self.kernel.linear_references()
        return (references.T @ self.dual.astype(np.float64)).astype(self.dual.dtype)

    def products(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Return k(a, A)·dual (n, D), reading no more than that needs.

        It is a kernel row times what all seen classes hold, L × D numbers. A linear kernel needs
        them once only: k(a, A)α = a(Aᵀα). A sparse one needs the rows of the neighbours alone.
        """
        kernel = self.kernel
        if kernel.is_linear and kernel.linear_references().shape[1] < len(kernel.seen):
            return _product(kernel.linear_rows(attributes), self._linear_map)
        return _product(kernel(attributes), self.dual)


class ClosedFormTransfer:
    """Fit, embed and score by an ensemble of closed forms; keeps the statistics so it can grow.

    The row of a class in the class table is what rows of features are multiplied with, block by
    block: in each metric the weighted sum of its members' embeddings, each divided by the power of
    its length; then, with zero-shot, the description. Scores are products of features and rows.

    Parameters
    ----------
    settings : Ensemble
        The members.
    """

    def __init__(self, settings: Ensemble) -> None:
        self.settings = settings
        self.spaces = {
            name: VisualSpace(name, [s for other, s in settings.metric_keys if other == name])
            for name in settings.feature_maps
        }
        self.processes: dict[ProcessKey, Process] = {}
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
        grown = np.zeros(len(attributes), dtype=bool) if grown is None else grown
        device, self._scorers, self.processes = fitting_device(self.settings.device), {}, {}
        self._attributes = attributes
        for name, space in self.spaces.items():
            own = statistics[name]
            if self.settings.shares_space:  # descriptions do not lie in the span of few rows
                own = own.whole()
            space.solve_metrics(own, device, grown)
            if self.settings.shares_space:
                texts = descriptions(self.settings, attributes, space.statistics.n_features)
                space.take_descriptions(texts, grown)
        kernels = self._fitted_kernels()
        for member in self.settings.members:
            if member.process_key not in self.processes:
                kernel = kernels[member.kernel_key]
                noise = self.settings.noise(member.ridge, self.counts, kernel.seen, grown)
                if grown.any() and self.settings.weighting == "count":
                    noise = self._grown_noise(member, kernel, noise, grown)
                process = self.processes[member.process_key] = Process(kernel, noise)
                process.dual = process.posterior.dual(self.residuals(member)).astype(self.dtype)
                _refuse_infinite(process.dual, self.dtype)
        table = self._rows(attributes, observed=~grown)
        for space in self.spaces.values():
            space.cast(self.dtype)
        return table

    def _fitted_kernels(
        self, relevance: Mapping[KernelKey, list[NDArray[np.float64]]] | None = None
    ) -> dict[KernelKey, ClassKernel]:
        """Return the kernel of each key; relevance is learned where none is given."""
        kernels: dict[KernelKey, ClassKernel] = {}
        for member in self.settings.members:
            key = member.kernel_key
            if key not in kernels:
                kernel = self.settings.class_kernel(member.kernel_settings)
                known = relevance[key] if relevance is not None and member.relevance else ()
                kernels[key] = kernel.fit(self._attributes, self._learner(member), known)
        return kernels

    def _learner(self, member: Member) -> Any:
        """Return what weighs mapped attributes (L, d) by what the means in a metric say."""

        def learn(rows: NDArray[np.float64]) -> NDArray[np.float64]:
            vectors = self.source_vectors(member.metric_key)
            return attribute_relevance(rows, vectors @ vectors.T, relevance_noise(self.counts))

        return learn

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

    # ------------------------------------------------------------------ what is carried
    def source_vectors(self, metric: MetricKey) -> NDArray[np.float64]:
        """Return (V − m)W (L, D): the seen means in a metric."""
        space = self.spaces[metric[0]]
        return space.into(space.statistics.means, space.center, metric[1])

    def prior_means(
        self, member: Member, attributes: NDArray[np.float64]
    ) -> NDArray[np.float64] | float:
        """Return α(t − t̄)W (n, D) of classes (n, d); 0 without a shared space."""
        if not member.prior:
            return 0.0
        space = self.spaces[member.feature_map]
        texts = descriptions(self.settings, attributes, space.statistics.n_features)
        rows = space.into(space.mapped(texts), space.description_center, member.shrinkage)
        return member.prior * rows

    def residuals(self, member: Member) -> NDArray[np.float64]:
        """Return (V − m − α(T − t̄))W (L, D): what the kernel carries from class to class."""
        prior = self.prior_means(member, self._attributes)
        return self.source_vectors(member.metric_key) - prior

    # ------------------------------------------------------------------ classes that grow
    def _grown_noise(
        self,
        member: Member,
        kernel: ClassKernel,
        noise: NDArray[np.float64],
        grown: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return Λ (L,) with ν/n for classes that have `grown` (L,).

        λ, the noise of a class mean, is chosen such that unseen classes are predicted well. It
        says little about how noisy the mean of one, two or five examples is. So the noise of a
        class that grows is measured. ν is the variance of one example around the mean of its
        class in units of the kernel: σ²/τ², σ² measured inside classes and
        τ² = tr(Rᵀ(K + Λ)⁻¹R)/(L·D), the scale of the Gaussian process at which the residuals R of
        the other classes are most likely. The mean of n examples has the noise ν/n, and its
        weight beside the prediction v/(v + ν/n) is the one of least squared error.
        """
        others = ~grown
        if not others.any():
            return noise
        inner = kernel.seen[np.ix_(others, others)]
        means = self.residuals(member)[others]
        carried = ClassPosterior(inner, noise[others]).dual(means)
        signal = float(np.einsum("id,id->d", carried, means).mean()) / len(means)
        if signal <= 0:
            return noise
        variance = self.spaces[member.feature_map].variances[member.shrinkage]
        least = _LEAST_NOISE * np.diag(inner).mean()
        own = variance / signal / np.maximum(self.counts, 1.0)
        return np.where(grown, np.maximum(own, least), noise)

    def learned_shares(self, grown: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return how far each grown class (L,) has become one that was learned, from 0 to 1.

        The weight of its own examples in its embedding, over that of the other classes' on
        average; zero for those others.
        """
        if grown.all() or not grown.any():
            return grown.astype(np.float64)
        found = []
        for member in self.settings.members:
            weights = self.processes[member.process_key].posterior.own_weights()
            full = 1.0 if member.observed else weights[~grown].mean()
            found.append(np.where(grown, np.clip(weights / full, 0.0, 1.0), 0.0))
        shares = [member.weight for member in self.settings.members]
        return np.average(found, axis=0, weights=shares)

    # ------------------------------------------------------------------ embedding and scoring
    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d): one kernel row for each process."""
        with np.errstate(over="ignore", invalid="ignore"):
            rows = self._rows(attributes)
        finite = np.isfinite(rows).all(axis=1)
        if not finite.all():
            number = int(np.flatnonzero(~finite)[0]) + 1
            raise DataError(
                f"the attributes of new class {number} of {len(attributes)} are too large to be "
                "compared with those of the seen classes; scale them to ordinary numbers"
            )
        return rows

    def _rows(
        self, attributes: NDArray[np.float64], observed: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return rows of the class table (n, width); for `observed` see `vectors`."""
        return self.join(self.vectors(attributes, observed), attributes)

    def vectors(
        self, attributes: NDArray[np.float64], observed: NDArray[np.bool_] | None = None
    ) -> list[NDArray[Any]]:
        """Return each member's embeddings (n, D) of classes (n, d).

        Where `observed` (L,) is given the classes are the seen ones, and it says which of them
        may stay at their observed means.
        """
        products: dict[ProcessKey, NDArray[Any]] = {}
        for member in self.settings.members:
            if member.process_key not in products:
                process = self.processes[member.process_key]
                if observed is None:
                    carried = process.products(attributes)
                else:
                    carried = process.kernel.seen.astype(self.dtype) @ process.dual
                products[member.process_key] = carried + self.prior_means(member, attributes)
        found = [products[member.process_key] for member in self.settings.members]
        return found if observed is None else self._stay(found, observed)

    def vectors_without(self, held_out: NDArray[np.intp]) -> list[NDArray[Any]]:
        """Return each member's embeddings (L, D) in a model that lacks some seen classes.

        Metrics and relevance stay those of all classes.
        """
        products: dict[ProcessKey, NDArray[Any]] = {}
        for member in self.settings.members:
            if member.process_key not in products:
                weights = self.processes[member.process_key].posterior.weights_without(held_out)
                found = weights @ self.residuals(member)
                products[member.process_key] = found + self.prior_means(member, self._attributes)
        rest = np.ones(len(self.counts), dtype=bool)
        rest[held_out] = False
        return self._stay([products[m.process_key] for m in self.settings.members], rest)

    def _stay(self, vectors: list[NDArray[Any]], observed: NDArray[np.bool_]) -> list[NDArray[Any]]:
        """Return embeddings (L, D) with observed means where a member has them."""
        return [
            np.where(observed[:, None], self.source_vectors(member.metric_key), rows)
            if member.observed
            else rows
            for member, rows in zip(self.settings.members, vectors, strict=True)
        ]

    @property
    def seen_attributes(self) -> NDArray[np.float64]:
        """Attributes (L, d) of the seen classes."""
        return self._attributes

    def join(
        self, vectors: Sequence[NDArray[Any]], attributes: NDArray[np.float64]
    ) -> NDArray[Any]:
        """Return rows of the class table (n, width) from each member's embeddings (n, D)."""
        blocks: list[NDArray[Any]] = []
        for metric in self.settings.metric_keys:
            own = [
                pair
                for pair in zip(self.settings.members, vectors, strict=True)
                if pair[0].metric_key == metric
            ]
            blocks += self._block(own)
        if self.settings.zero_shot:
            texts = descriptions(self.settings, attributes)
            blocks.append(self.settings.zero_shot * unit_rows(texts))
        return np.concatenate(blocks, axis=1).astype(self.dtype)

    def _block(self, own: list[tuple[Member, NDArray[Any]]]) -> list[NDArray[Any]]:
        """Return what members of one metric add to a row of the class table.

        A cosine: Σ w z/‖z‖^p. Distances: Σ w z and Σ w ‖z‖² with weights that sum to one, so that
        −Σ w ‖x − z‖² is the product of (2x, −1, −‖x‖²) with the row.
        """
        if self.settings.metric == "euclidean":
            total = sum(member.weight for member, _ in own)
            parts = [(m.weight / total, rows.astype(np.float64)) for m, rows in own]
            mean: Any = sum(share * rows for share, rows in parts)
            squares: Any = sum(share * (rows**2).sum(axis=1) for share, rows in parts)
            return [mean, squares[:, None], np.ones((len(mean), 1))]
        block: Any = 0.0
        for member, rows in own:
            block = block + rows * (member.weight / length_powers(rows, member))[:, None]
        return [block]

    def points(self, rows: NDArray[Any], of_rows: bool = False) -> NDArray[Any]:
        """Return the places (n, D) of rows of the class table, or of features of rows.

        With distances both have more than their place, and features have it twice.
        """
        if self.settings.metric != "euclidean":
            return rows
        places = rows[:, :-2]
        return places / 2.0 if of_rows else places

    def scorer(self, device: str | None = None) -> Scorer:
        """Return what scores by this transfer, on a torch device or by NumPy; made once each."""
        if device not in self._scorers:
            self._scorers[device] = Scorer(self, device)
        return self._scorers[device]

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Bring features (n, D) to where rows of the class table are: (n, width)."""
        result: NDArray[Any] = self.scorer().features(X)
        return result

    def score_mapped(self, features: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
        """Score features (n, width) that are there already."""
        result: NDArray[Any] = self.scorer().scores(features, rows)
        return result

    # ------------------------------------------------------------------ explaining
    def source_weights(
        self, member: Member, attributes: NDArray[np.float64], seen: int | None = None
    ) -> NDArray[np.float64]:
        """Return how much of each seen class (L,) is in a member's embedding of a class (d,).

        k(a, A)(K + Λ)⁻¹ and, where it is the `seen` class at this position and stays at its
        observed mean, all of itself.
        """
        process = self.processes[member.process_key]
        if member.observed and seen is not None:
            found: NDArray[np.float64] = np.eye(1, len(process.noise), seen)[0]
            return found
        rows = process.kernel(attributes[None]) if seen is None else process.kernel.seen[[seen]]
        weights: NDArray[np.float64] = process.posterior.weights(rows)[0]
        return weights

    def sources(
        self, attributes: NDArray[np.float64], seen: int | None
    ) -> tuple[NDArray[np.float64], float]:
        """Return of what a class (d,) is made: of seen classes (L,), and of its description.

        Averaged over the members by their weights.
        """
        weights, total = np.zeros(len(self.counts)), self.settings.zero_shot
        description = self.settings.zero_shot
        for member in self.settings.members:
            weights += member.weight * self.source_weights(member, attributes, seen)
            total += member.weight
            if not (member.observed and seen is not None):
                description += member.weight * member.prior
        return weights / total, description / total

    def pulls(
        self, row: NDArray[Any], attributes: NDArray[np.float64], seen: int | None
    ) -> tuple[NDArray[np.float64], float]:
        """Return what seen classes (L,), and its description, add to the score of a class (d,).

        Of cosines they sum to the score of the row (1, D).
        """
        found, described = np.zeros(len(self.counts)), 0.0
        features = np.asarray(self.features(row), dtype=np.float64)[0]
        keys = self.settings.metric_keys
        width = (len(features) - 2) if self.settings.metric == "euclidean" else len(self.center)
        for member in self.settings.members:
            weights = self.source_weights(member, attributes, seen)
            stays = member.observed and seen is not None
            vectors = self.source_vectors(member.metric_key) if stays else self.residuals(member)
            prior = 0.0 if stays else self.prior_means(member, attributes[None])
            if self.settings.metric == "euclidean":
                found += member.weight * weights  # how much of each class, not of the distance
                continue
            place = keys.index(member.metric_key) * width
            unit = features[place : place + width]
            length = length_powers((weights @ vectors + prior)[None].reshape(1, -1), member)[0]
            found += member.weight / length * weights * (vectors @ unit)
            if not isinstance(prior, float):
                described += member.weight / length * float(prior[0] @ unit)
        if self.settings.zero_shot:
            text = descriptions(self.settings, attributes[None])
            described += self.settings.zero_shot * float(
                unit_rows(text)[0] @ features[-text.size :]
            )
        return found, described

    # ------------------------------------------------------------------ what is not known
    def variances(self, attributes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the posterior variance (n,) of the means of classes (n, d), over the members."""

        def own(process: Process) -> NDArray[np.float64]:
            kernel = process.kernel
            return process.posterior.variance(kernel(attributes), kernel.own(attributes))

        return self._averaged(own)

    def left_out_variances(self) -> NDArray[np.float64]:
        """Return the posterior variance (L,) of every seen class as a new one."""
        return self._averaged(lambda process: process.posterior.left_out_variance())

    def variances_without(self, held_out: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the posterior variance (L,) of seen classes in a model that lacks some."""

        def own(process: Process) -> NDArray[np.float64]:
            posterior = process.posterior
            return posterior.variance_of(posterior.weights_without(held_out))

        return self._averaged(own)

    def _averaged(self, compute: Callable[[Process], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Average what is computed of each process over the members, by their weights."""
        found = {key: compute(process) for key, process in self.processes.items()}
        members = self.settings.members
        weights = [member.weight for member in members]
        return np.average([found[m.process_key] for m in members], axis=0, weights=weights)

    @property
    def center(self) -> NDArray[Any]:
        """m (D,) of the first feature map; all have as many coordinates."""
        return next(iter(self.spaces.values())).center

    def attribute_relevance(self) -> NDArray[np.float64]:
        """Return the weight of each attribute (d,), averaged over members that weigh them."""
        members = [member for member in self.settings.members if member.relevance]
        if not members:
            raise AttributeError("no kernel of this model weighs attributes by their relevance")
        found = [self.processes[m.process_key].kernel.attribute_relevance() for m in members]
        return np.average(found, axis=0, weights=[member.weight for member in members])

    # ------------------------------------------------------------------ saving
    def state(self) -> dict[str, NDArray[Any]]:
        """Return every array that `restore` needs."""
        arrays: dict[str, NDArray[Any]] = {}
        for index, space in enumerate(self.spaces.values()):
            prefix, statistics = f"space{index}/", space.statistics
            arrays |= {
                f"{prefix}center": space.center,
                f"{prefix}projection": space.projection,
                f"{prefix}scales": np.stack(list(space.scales.values())),
                f"{prefix}counts": statistics.counts,
                f"{prefix}sums": statistics.sums,
                f"{prefix}second_moment": statistics.second_moment,
            }
            if isinstance(statistics, SpannedStatistics):
                arrays[f"{prefix}span"] = statistics.span
            if self.settings.shares_space:
                arrays[f"{prefix}description_center"] = space.description_center
        for index, process in enumerate(self.processes.values()):
            prefix = f"process{index}/"
            arrays |= {f"{prefix}noise": process.noise, f"{prefix}dual": process.dual}
            for block, factors in enumerate(process.kernel.relevance):
                arrays[f"{prefix}relevance{block}"] = factors
        return arrays

    def restore(self, state: Mapping[str, NDArray[Any]], attributes: NDArray[np.float64]) -> None:
        """Set what `state` returned; kernels follow from the seen attributes (L, d)."""
        self._attributes = attributes
        for index, space in enumerate(self.spaces.values()):
            own = _below(state, f"space{index}/")
            space.center, space.projection = own["center"], own["projection"]
            space.scales = dict(zip(space.shrinkages, own["scales"], strict=True))
            sums = own["counts"], own["sums"], own["second_moment"]
            space.statistics = restored(*sums, own.get("span"))
            if "description_center" in own:
                space.description_center = own["description_center"]
        self.dtype = next(iter(self.spaces.values())).center.dtype
        members = {member.process_key: member for member in self.settings.members}
        saved = {key: _below(state, f"process{n}/") for n, key in enumerate(members)}
        n_blocks = len(self.settings.attribute_blocks or [0])
        relevance = {
            members[key].kernel_key: [own[f"relevance{block}"] for block in range(n_blocks)]
            for key, own in saved.items()
            if members[key].relevance
        }
        kernels = self._fitted_kernels(relevance)
        for key, own in saved.items():
            process = self.processes[key] = Process(kernels[members[key].kernel_key], own["noise"])
            process.dual = own["dual"]


def descriptions(
    settings: Ensemble, attributes: NDArray[np.float64], n_features: int | None = None
) -> NDArray[np.float64]:
    """Return the descriptions (n, D) that attribute vectors (n, d) hold in the features' space."""
    texts = attributes
    if settings.shared_space is not True:
        texts = split_blocks(attributes, settings.attribute_blocks)[int(settings.shared_space)]
    if n_features is not None and texts.shape[1] != n_features:
        raise DataError(
            f"shared_space: class vectors have {texts.shape[1]} numbers where features have "
            f"{n_features}; of one space both have as many"
        )
    return texts


def length_powers(rows: Any, member: Member) -> Any:
    """Return ‖z‖^p (n,) of embeddings (n, D), to divide by; 1 for one of no length."""
    lengths = np.linalg.norm(rows, axis=1)
    return np.where(lengths > 0, lengths, 1.0) ** member.norm_power


def _refuse_infinite(rows: NDArray[Any], dtype: Any) -> None:
    if not np.isfinite(rows).all():
        raise DataError(
            f"the features are too small to be compared in {np.dtype(dtype).name}; scale them "
            "to ordinary numbers, or map them (feature_map='l2')"
        )


def _below(state: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): array for k, array in state.items() if k.startswith(prefix)}


def _product(rows: NDArray[np.float64], held: NDArray[Any]) -> NDArray[Any]:
    """Multiply rows (n, L) with (L, D); where nearly all are zero only those that are not."""
    rows = rows.astype(held.dtype)
    used = np.flatnonzero(rows.any(axis=0))
    few = _FEW_ROWS * len(used) <= len(held)
    product: NDArray[Any] = rows[:, used] @ held[used] if few else rows @ held
    return product
