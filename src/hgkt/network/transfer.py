"""HGKT as published, from features to scores: graph, network and inductive step.

`NetworkTransfer` constructs the graph (Algorithm 1, `hgkt.graph.construct_graph`), trains the
network (Algorithm 2, `hgkt.network.train`) and embeds classes that come later (Algorithm 3, step
2). Rows that are never in memory together are first reduced to what the exact loss and the graph
need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import (
    FeatureMap,
    check_map,
    distance_scores,
    map_rows,
    normalised_scores,
    torch_device,
)
from hgkt._typing import Progress
from hgkt._validation import check_choice, check_number, import_extra
from hgkt.exceptions import DataError
from hgkt.graph import (
    SPACES,
    ClassNeighbors,
    HeterogeneousGraph,
    Quotient,
    construct_graph,
    join_representatives,
    nearest_classes,
)
from hgkt.network.weights import EmbedderWeights, SeenEmbeddings
from hgkt.statistics.classes import present_sums
from hgkt.transport.streaming import Batches, stream_representatives

if TYPE_CHECKING:
    from hgkt.network.loss import Targets

UNSEEN_SPACES = ("attributes", "visual")
REPRESENTATIVES = ("wasserstein", "sinkhorn", "euclidean", "random", "medoid")


@dataclass(frozen=True)
class NetworkSettings:
    """What the graph, the network and its comparison with features depend on, checked."""

    feature_map: FeatureMap
    attribute_map: FeatureMap
    n_neighbors: int
    representative: str
    reg: float
    graph_space: str
    unseen_space: str
    symmetric: bool
    aggregation: str
    intra: bool
    metric: str
    training: dict[str, Any]
    """Arguments of `hgkt.network.train.TrainingConfig`, which checks them."""

    def __post_init__(self) -> None:
        check_map("feature_map", self.feature_map)
        check_map("attribute_map", self.attribute_map)
        check_number("n_neighbors", self.n_neighbors, low=0, integer=True)
        check_choice("representative", self.representative, REPRESENTATIVES)
        check_number("reg", self.reg, low=0.0, open_low=True)
        check_choice("graph_space", self.graph_space, SPACES)
        check_choice("unseen_space", self.unseen_space, UNSEEN_SPACES)
        check_choice("metric", self.metric, ("cosine", "euclidean"))

    @property
    def representative_key(self) -> tuple[Any, ...]:
        """What the choice of representatives depends on."""
        return (self.feature_map, self.representative, self.reg, self.training["seed"])

    def representative_method(self) -> tuple[str, dict[str, Any]]:
        """Return method and options of `select_representatives`."""
        if self.representative != "sinkhorn":
            return self.representative, {}
        # The exact solver takes seconds; hundreds of iterations of the other are for a GPU.
        device = torch_device(self.training["device"])
        return "wasserstein", {"solver": "sinkhorn", "reg": self.reg, "device": device}

    def edges(self) -> dict[str, Any]:
        """Return the options of the graph, beside its representatives."""
        return {
            "k": self.n_neighbors,
            "space": self.graph_space,
            "symmetric": self.symmetric,
            "intra": self.intra,
        }


OnSnapshot = Callable[[int, "NetworkTransfer", NDArray[Any]], None]


class NetworkTransfer:
    """Fit, embed and score by the paper's three algorithms.

    Parameters
    ----------
    settings : NetworkSettings
        Parameters.
    """

    def __init__(self, settings: NetworkSettings) -> None:
        self.settings = settings

    def fit(
        self,
        X: NDArray[Any],
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        progress: Progress | None = None,
        representatives: NDArray[np.intp] | None = None,
        on_snapshot: OnSnapshot | None = None,
    ) -> NDArray[Any]:
        """Learn from features (N, D), codes (N,) and attributes (L, d).

        `representatives` (L,) saves choosing them again; `on_snapshot` is called as
        ``on_snapshot(step, self, seen embeddings)`` after each of the training's snapshot steps.
        """
        self._check_training()
        from hgkt.network.loss import Targets

        X = map_rows(X, self.settings.feature_map)
        self.attributes = map_rows(attributes, self.settings.attribute_map)
        method, options = self.settings.representative_method()
        self.graph = construct_graph(
            X,
            codes,
            self.attributes,
            method=method,
            representatives=representatives,
            random_state=self.settings.training["seed"],
            progress=progress,
            **self.settings.edges(),
            **options,
        )
        targets = Targets.from_features(X, codes, len(attributes), self.graph.representatives)
        return self._train(targets, X, progress, on_snapshot)

    def fit_reduced(
        self,
        instances: ReducedInstances,
        attributes: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Learn from what `reduce_batches` left of the rows, and attributes (L, d)."""
        self._check_training()
        self.attributes = map_rows(attributes, self.settings.attribute_map)
        self.graph = join_representatives(
            np.asarray(instances.targets.representatives),
            instances.codes,
            self.attributes,
            instances.representatives,
            **self.settings.edges(),
        )
        return self._train(instances.targets, None, progress)

    def _check_training(self) -> None:
        """Refuse what cannot be trained before representatives take their time."""
        import_extra("torch", "network")
        from hgkt.network.train import TrainingConfig

        self._config = TrainingConfig(**self.settings.training)

    def _train(
        self,
        targets: Targets,
        X: NDArray[Any] | None,
        progress: Progress | None,
        on_snapshot: OnSnapshot | None = None,
    ) -> NDArray[Any]:
        """Train on the graph; mapped features (N, D) are needed to draw instances only."""
        from hgkt.network.train import train_embedder

        self.quotient = Quotient.from_graph(self.graph, self.settings.aggregation)

        def snapshot(step: int, weights: EmbedderWeights) -> None:
            assert on_snapshot is not None
            on_snapshot(step, self, self._embed_seen(weights))

        result = train_embedder(
            self.quotient,
            self.attributes,
            targets,
            self._config,
            instances=None if X is None else (X, self.graph.codes),
            representatives=self.graph.representatives,
            progress=progress,
            on_snapshot=snapshot if on_snapshot is not None else None,
        )
        self.losses = np.asarray(result.losses, dtype=np.float64)
        return self._embed_seen(result.weights)

    def _embed_seen(self, weights: EmbedderWeights) -> NDArray[Any]:
        self.weights = weights
        self.seen: SeenEmbeddings = weights.embed_seen(self.attributes, self.quotient.mixing())
        return self.seen.representative

    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d) and nearest seen classes (Algorithm 3)."""
        rows = map_rows(attributes, self.settings.attribute_map)
        neighbors = self._nearest_seen(rows)
        return self.weights.embed_new(rows, neighbors, self.attributes, self.seen.hidden)

    def neighbors(self, attributes: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the seen classes (U, k) that new classes average over; k = 0 without edges."""
        return self._nearest_seen(map_rows(attributes, self.settings.attribute_map))

    def _nearest_seen(self, attributes: NDArray[np.float64]) -> NDArray[np.intp]:
        if self.settings.n_neighbors == 0:
            return np.empty((len(attributes), 0), dtype=np.intp)
        k = self.settings.n_neighbors
        if self.settings.unseen_space == "attributes":
            return nearest_classes(attributes, self.attributes, k, "attributes")
        # Paper gap: an unseen class has no visual feature, yet Figure 2 looks for its neighbours
        # in visual space; a first pass without neighbours gives it a place there.
        alone = np.empty((len(attributes), 0), dtype=np.intp)
        rows = self.weights.embed_new(attributes, alone, self.attributes, self.seen.hidden)
        return nearest_classes(rows, self.seen.representative, k, "euclidean")

    def score(self, X: NDArray[Any], *embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score features (n, D) against the rows of all embeddings, side by side."""
        features = self.features(X)
        return np.concatenate([self.score_mapped(features, rows) for rows in embeddings], axis=1)

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Map features (n, D)."""
        dtype = self.seen.representative.dtype
        return map_rows(np.asarray(X, dtype=dtype), self.settings.feature_map)

    def score_mapped(self, features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score mapped features against embeddings (C, D)."""
        if self.settings.metric == "euclidean":
            return distance_scores(features, embeddings)
        return normalised_scores(features, embeddings, 1.0)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return every array that `restore` needs."""
        return {
            **self.weights.arrays(),
            "codes": self.graph.codes,
            "representatives": self.graph.representatives,
            "indptr": self.graph.neighbors.indptr,
            "indices": self.graph.neighbors.indices,
            "losses": self.losses,
        }

    def restore(self, state: Mapping[str, NDArray[Any]], attributes: NDArray[np.float64]) -> None:
        """Set what `state` returned; `attributes` (L, d) are those of seen classes."""
        self.attributes = map_rows(attributes, self.settings.attribute_map)
        self.losses = state["losses"]
        self.graph = HeterogeneousGraph(
            state["codes"],
            state["representatives"],
            ClassNeighbors(state["indptr"], state["indices"]),
            self.settings.intra,
        ).validate()
        self.quotient = Quotient.from_graph(self.graph, self.settings.aggregation)
        training = self.settings.training
        weights = EmbedderWeights.from_arrays(state, training["mu"], training["output_activation"])
        self._embed_seen(weights)


@dataclass(frozen=True)
class ReducedInstances:
    """All that the exact loss and the graph need of N rows.

    Parameters
    ----------
    codes : ndarray of shape (N,)
        Class of each row, in the order of the stream; classes without rows are left out.
    classes : ndarray of shape (L,)
        The code that each class had in the batches.
    targets : Targets
        Counts, means, scatter and representatives of the mapped rows.
    representatives : ndarray of shape (L,)
        Number of each representative's row.
    excess : ndarray of shape (L,)
        See `StreamedRepresentatives`.
    dtype : dtype
        Of the features.
    """

    codes: NDArray[np.intp]
    classes: NDArray[np.intp]
    targets: Targets
    representatives: NDArray[np.intp]
    excess: NDArray[np.float64]
    dtype: Any


def reduce_batches(
    settings: NetworkSettings,
    batches: Batches,
    n_classes: int,
    memory: int,
    progress: Progress | None = None,
) -> ReducedInstances:
    """Read batches once, or twice where a class does not fit into its share of memory.

    Parameters
    ----------
    settings : NetworkSettings
        The map of rows, and how representatives are chosen.
    batches : callable
        Returns an iterable of features (k, D) and class codes (k,), the same at every call.
    n_classes : int
        Number of classes that codes may name.
    memory : int
        See `stream_representatives`.
    progress : callable, optional
        Told of the second pass.
    """
    from hgkt.network.loss import Targets

    if settings.training["n_sampled"] is not None:
        raise DataError(
            "n_sampled draws instances, which must then be in memory; leave it None to learn from "
            "batches"
        )
    sums = TargetSums(n_classes)

    def mapped() -> Iterator[tuple[NDArray[Any], NDArray[np.intp]]]:
        counting = not sums.codes
        for X, codes in batches():
            rows = map_rows(X, settings.feature_map)
            if counting:
                sums.update(rows, codes)
            yield rows, codes

    method, options = settings.representative_method()
    found = stream_representatives(
        mapped,
        n_classes,
        method,
        memory=memory,
        random_state=settings.training["seed"],
        progress=progress,
        **options,
    )
    present = np.flatnonzero(sums.counts)
    codes = np.searchsorted(present, np.concatenate(sums.codes))
    targets = Targets(
        sums.counts[present], sums.means[present], sums.scatter[present], found.features[present]
    )
    return ReducedInstances(
        codes, present, targets, found.indices[present], found.excess[present], found.features.dtype
    )


class TargetSums:
    """Counts, means and scatter of classes, batch by batch, without cancellation.

    Means and scatters of batches are joined by the formula of Chan, Golub and LeVeque: the
    difference of large squares, which loses digits, does not occur.

    Parameters
    ----------
    n_classes : int
        Number of classes.

    Examples
    --------
    >>> sums = TargetSums(1)
    >>> sums.update(np.array([[1.0], [3.0]]), np.array([0, 0]))
    >>> sums.update(np.array([[5.0]]), np.array([0]))
    >>> sums.means.ravel(), sums.scatter
    (array([3.]), array([8.]))
    """

    def __init__(self, n_classes: int) -> None:
        self.counts, self.scatter = np.zeros(n_classes), np.zeros(n_classes)
        self.means = np.zeros((n_classes, 0))
        self.codes: list[NDArray[np.intp]] = []

    def update(self, X: NDArray[Any], codes: NDArray[np.intp]) -> None:
        """Take in rows (n, D) with their classes (n,)."""
        if not self.codes:
            self.means = np.zeros((len(self.counts), X.shape[1]))
        self.codes.append(codes)
        present, counts, sums = present_sums(X, codes)
        means = sums / counts[:, None]
        residuals = X - means[np.searchsorted(present, codes)]
        norms = np.einsum("ij,ij->i", residuals, residuals)
        inside = np.bincount(np.searchsorted(present, codes), norms, minlength=len(present))
        before = self.counts[present]
        after = before + counts
        steps = means - self.means[present]
        self.means[present] += steps * (counts / after)[:, None]
        between = np.einsum("ij,ij->i", steps, steps) * before * counts / after
        self.scatter[present] += inside + between
        self.counts[present] = after
