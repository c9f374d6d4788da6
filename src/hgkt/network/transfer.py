"""HGKT as published: graph (Algorithm 1), network (Algorithm 2), inductive step (Algorithm 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._devices import torch_device
from hgkt._geometry import FeatureMap, check_map, distance_scores, map_rows, normalised_scores
from hgkt._typing import Progress
from hgkt._validation import check_choice, check_number, import_extra
from hgkt.graph import HeterogeneousGraph, Quotient, join_representatives, nearest_classes
from hgkt.graph.neighbors import SPACES, ClassNeighbors
from hgkt.network.weights import EmbedderWeights, SeenEmbeddings
from hgkt.transport import select_representatives

if TYPE_CHECKING:
    from hgkt.network.objectives import Targets
    from hgkt.network.streaming import ReducedInstances

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
    """Arguments of `hgkt.network.config.TrainingConfig`, which checks them."""

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
        import_extra("torch", "network")  # before representatives take their time
        from hgkt.network.objectives import Targets

        if representatives is None:
            representatives = self.choose_representatives(X, codes, progress)
        X = map_rows(X, self.settings.feature_map)
        targets = Targets.from_features(X, codes, len(attributes), representatives)
        return self._train(X, codes, attributes, representatives, targets, progress, on_snapshot)

    def fit_reduced(
        self,
        instances: ReducedInstances,
        attributes: NDArray[np.float64],
        progress: Progress | None = None,
    ) -> NDArray[Any]:
        """Learn from what `reduce_batches` kept of the rows, and attributes (L, d)."""
        codes, chosen = instances.codes, instances.representatives
        return self._train(None, codes, attributes, chosen, instances.targets, progress)

    def _train(
        self,
        X: NDArray[Any] | None,
        codes: NDArray[np.intp],
        attributes: NDArray[np.float64],
        representatives: NDArray[np.intp],
        targets: Targets,
        progress: Progress | None,
        on_snapshot: OnSnapshot | None = None,
    ) -> NDArray[Any]:
        """Build the graph and train; mapped features (N, D) are needed to draw instances only."""
        import_extra("torch", "network")
        from hgkt.network.config import TrainingConfig
        from hgkt.network.training import train_embedder

        config = TrainingConfig(**self.settings.training)
        self.attributes = attributes = map_rows(attributes, self.settings.attribute_map)
        self.graph = join_representatives(
            np.asarray(targets.representatives),
            codes,
            attributes,
            representatives=representatives,
            k=self.settings.n_neighbors,
            space=self.settings.graph_space,
            symmetric=self.settings.symmetric,
            intra=self.settings.intra,
            inter=self.settings.n_neighbors > 0,
        )
        self.quotient = Quotient.from_graph(self.graph, self.settings.aggregation)

        def snapshot(step: int, weights: EmbedderWeights) -> None:
            assert on_snapshot is not None
            on_snapshot(step, self, self._embed_seen(weights))

        result = train_embedder(
            self.quotient,
            attributes,
            targets,
            config,
            instances=(X, codes) if config.mode == "sampled" and X is not None else None,
            representatives=representatives,
            progress=progress,
            on_snapshot=snapshot if on_snapshot is not None else None,
        )
        self.losses = np.asarray(result.losses, dtype=np.float64)
        return self._embed_seen(result.weights)

    def choose_representatives(
        self, X: NDArray[Any], codes: NDArray[np.intp], progress: Progress | None = None
    ) -> NDArray[np.intp]:
        """Return the row (L,) of each class's representative (Algorithm 1, steps 2 and 3)."""
        method, options = self.settings.representative_method()
        return select_representatives(
            map_rows(X, self.settings.feature_map),
            codes,
            int(codes.max()) + 1,
            method,
            random_state=self.settings.training["seed"],
            progress=progress,
            **options,
        ).indices

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
        training = self.settings.training
        self.attributes = map_rows(attributes, self.settings.attribute_map)
        self.losses = state["losses"]
        self.graph = HeterogeneousGraph(
            state["codes"],
            state["representatives"],
            ClassNeighbors(state["indptr"], state["indices"]),
            self.settings.intra,
        ).validate()
        self.quotient = Quotient.from_graph(self.graph, self.settings.aggregation)
        self._embed_seen(
            EmbedderWeights.from_arrays(
                state, training["mu"], output_activation=training["output_activation"]
            )
        )
