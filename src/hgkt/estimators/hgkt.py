"""HGKTClassifier: the paper's two relations in closed form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hgkt._arrays import scoring_device
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix
from hgkt.closed_form.family import FEATURE_MAPS, FEW_CLASSES, MixtureFamily
from hgkt.closed_form.grid import GridData, score_grid
from hgkt.closed_form.kernels import KernelTerm, relevance_keys
from hgkt.closed_form.mixture import METRICS, MetricTerm, Mixture, Ridge
from hgkt.closed_form.scoring import Scorer
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.estimators._growing import GrowingClassifier
from hgkt.estimators._rivalry import Newcomer, Rivalry
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import Rule
from hgkt.statistics import Sums

_ROWS_THAT_TELL = 5  # per class: folds hold out one in five


class HGKTClassifier(GrowingClassifier):
    """Heterogeneous graph-based knowledge transfer, its two relations solved in closed form.

    Instances of a class are related to each other, and classes to their neighbours; knowledge
    travels along both relations to classes that are known by their attributes alone. The in-class
    relation becomes the metric of the visual space, the inter-class relation a kernel between
    classes (docs page *closed form*). :class:`HGKTNetworkClassifier` is the paper's own way: a
    graph over the instances and a network trained by gradient descent.

    Parameters
    ----------
    feature_map : {"sqrt+l2", "l2", "none"} or float, default="sqrt+l2"
        Map of each feature row: signed square root (a number: that power) and unit norm.
    attribute_map : {"sqrt+l2", "l2", "none"} or float, default="sqrt+l2"
        The same for attribute vectors.
    metric : {"cosine", "euclidean"}, default="cosine"
        How an instance is compared with a class embedding. A search on class folds chooses between
        the two for a mixture, and where fewer than twenty classes were seen; "euclidean" it keeps.
    intra, inter : bool, default=True
        Whether in-class and inter-class relations are used; the paper's two ablations. Without
        them a Euclidean metric and a linear map of attributes are left.
    weighting : {"count", "uniform"}, default="count"
        How far the mean of a class is trusted: by its number of instances, or all alike.
    shrinkage : float in [0, 1] or "oas", default=0.5
        Share of the identity in the within-class scatter.
    kernel : {"rbf", "quadratic", "linear", "knn"}, default="rbf"
        The relation between classes, see `hgkt.closed_form.ClassKernel`.
    kernel_scale : float, default=1.0
        Inverse squared bandwidth in units of the median distance.
    n_neighbors : int, default=2
        Neighbours of a class in the "knn" kernel; clipped to what is there.
    ridge : float, default=0.03
        λ, noise of a class mean in units of the kernel.
    norm_power : float, default=1.0
        Cosine: the power of the embedding's length a score is divided by; above one it damps
        classes that attract the images of others.
    relevance : bool, default=False
        Whether each attribute is weighted by what the class means say of its relevance.
    attribute_blocks : list of int, optional
        Widths of attribute blocks of different origin, each with its own kernel.
    block_weights : list of float, optional
        Weights of the blocks' kernels; equal by default.
    mixture : dict, optional
        Several metrics, kernels and ridges at once instead of one of each, as selection on
        validation classes finds them: ``Mixture.to_dict`` of `hgkt.closed_form.Mixture`. It takes
        the place of `feature_map`, `shrinkage`, `attribute_map`, `kernel`, `kernel_scale`,
        `relevance`, `block_weights` and `ridge`.
    calibration : float, dict or "auto", default="auto"
        γ, taken off the score of every class seen in training, see :class:`GZSLClassifier`. "auto":
        `fit` finds it on seen classes left out in turn, where there are six or more;
        ``calibration_`` says what it found. 0: none.
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where statistics are gathered and decomposed; "auto": on a GPU where there is one. Rows are
        scored on a GPU with "cuda" alone, and by NumPy where a model so fitted finds none.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        Labels: all, learned from instances, added by attributes.
    class_embeddings_ : ndarray of shape (n_classes, n_metrics · n_features)
        In the metric of the visual space; in a mixture of several, in each of them side by side.
        A model of few rows, at least 4,096 features and four times as many as rows, has a
        coordinate per row and one more instead of one per feature.
    attribute_relevance_ : ndarray of shape (n_attributes,)
        Weight of each attribute, one on average; where relevance is used.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[9, 1, 1, 0], [8, 2, 1, 0], [1, 9, 1, 0], [2, 8, 1, 0.0]])
    >>> y = ["horse", "horse", "tiger", "tiger"]
    >>> attributes = {"horse": [1.0, 0.0], "tiger": [0.0, 1.0]}
    >>> model = HGKTClassifier().fit(X, y, class_attributes=attributes)
    >>> model.add_classes({"zebra": [0.6, 0.8]}).classes_.tolist()
    ['horse', 'tiger', 'zebra']
    >>> model.predict([[9, 1, 0, 0]]).tolist()
    ['horse']
    """

    mathematics_version: ClassVar[int] = 2  # 1: one closed form; 2: a mixture
    _rivalry: Rivalry | None = None

    def __init__(
        self,
        *,
        feature_map: str | float = "sqrt+l2",
        attribute_map: str | float = "sqrt+l2",
        metric: str = "cosine",
        intra: bool = True,
        inter: bool = True,
        weighting: str = "count",
        shrinkage: float | str = 0.5,
        kernel: str = "rbf",
        kernel_scale: float = 1.0,
        n_neighbors: int = 2,
        ridge: float = 0.03,
        norm_power: float = 1.0,
        relevance: bool = False,
        attribute_blocks: list[int] | None = None,
        block_weights: list[float] | None = None,
        mixture: dict[str, Any] | None = None,
        calibration: float | str | Mapping[str, float] = "auto",
        device: str = "auto",
    ) -> None:
        self.feature_map = feature_map
        self.attribute_map = attribute_map
        self.metric = metric
        self.intra = intra
        self.inter = inter
        self.weighting = weighting
        self.shrinkage = shrinkage
        self.kernel = kernel
        self.kernel_scale = kernel_scale
        self.n_neighbors = n_neighbors
        self.ridge = ridge
        self.norm_power = norm_power
        self.relevance = relevance
        self.attribute_blocks = attribute_blocks
        self.block_weights = block_weights
        self.mixture = mixture
        self.calibration = calibration
        self.device = device

    # ------------------------------------------------------------------ hooks of the contract
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassTable:
        self._transfer = ClosedFormTransfer(self._settings())
        return {"embedding": self._transfer.fit(X, codes, attributes)}

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassTable:
        transfer = ClosedFormTransfer(self._settings())
        transfer.dtype = sums.dtype
        statistics = {name: sums.of(name) for name in transfer.spaces}
        self._transfer = transfer
        return {"embedding": transfer.solve(statistics, attributes)}

    def gather_options(self, select: bool = False) -> dict[str, Any]:
        """Return the feature maps to sum: its own, or all that a mixture may have."""
        return {"feature_maps": FEATURE_MAPS if select else tuple(self._settings().feature_maps)}

    def _make_transfer(self) -> ClosedFormTransfer:
        return ClosedFormTransfer(self._settings())

    def _folded(self, n_classes: int) -> Scorer | None:
        scorer = self._transfer.scorer()
        return scorer if scorer.saves(n_classes) else None

    def _device_scores(self) -> Scorer | None:
        device = scoring_device(self.device)
        if device is None or self._transfer.on_small_side:
            return None
        return self._transfer.scorer(device)

    def _settings(self) -> Mixture:
        shared: dict[str, Any] = {
            "norm_power": self.norm_power,
            "metric": self.metric,
            "weighting": self.weighting,
            "n_neighbors": self.n_neighbors,
            "attribute_blocks": self.attribute_blocks,
            "device": self.device,
        }
        if self.mixture is not None:
            return Mixture.from_dict(self.mixture, **shared)
        blocks = None if self.block_weights is None else tuple(self.block_weights)
        kernel = self.kernel if self.inter else "linear"
        return Mixture(
            (MetricTerm(self.feature_map, self.shrinkage if self.intra else 1.0),),
            (KernelTerm(kernel, self.kernel_scale, self.attribute_map, self.relevance, blocks),),
            (Ridge(self.ridge),),
            **shared,
        )

    def _transfer_rules(self, names: Collection[str]) -> dict[str, Rule]:
        settings = self._settings()
        rules = {"noise": Rule("L", low=0.0)}
        if len(settings.ridges) > 1:
            rules["noises"] = Rule(f"{len(settings.ridges)} L", low=0.0)
        for index, name in enumerate(settings.feature_maps):
            prefix, axes, space = f"space{index}/" if index else "", "D", {}
            if f"{prefix}span" in names:
                rank = f"rank_{chr(ord('a') + index)}"
                space, axes = {"span": Rule(f"{rank} D")}, f"{rank}+1"
            square = f"{axes} {axes}"
            space |= {"center": Rule(axes), "projection": Rule(square), "dual": Rule(f"L {axes}"),
                      "counts": Rule("L", low=0.0), "sums": Rule(f"L {axes}"),
                      "second_moment": Rule(square)}  # fmt: skip
            n_metrics = sum(term.feature_map == name for term in settings.metrics)
            if n_metrics > 1:
                space["scales"] = Rule(f"{n_metrics} {axes}")
            rules |= {f"{prefix}{key}": rule for key, rule in space.items()}
        for number, (_, block) in enumerate(relevance_keys(settings.class_kernel())):
            width = self.attribute_blocks[block] if self.attribute_blocks else "d"
            rules[f"relevance{number}"] = Rule(str(width), low=0.0)
        return rules

    # ------------------------------------------------------------------ selection
    def mixture_families(self) -> list[MixtureFamily]:
        """Return the metrics, kernels, ridges and powers from which selection mixes a model.

        Cosines win where features are many. Where they are few, a length says something and
        distances win: validation decides, unless `metric` was set to "euclidean".
        """
        base = self._settings()
        base = replace(base, metrics=base.metrics[:1])  # members bring their own
        comparisons = METRICS if self.metric == "cosine" else (self.metric,)
        return [
            MixtureFamily.of(replace(base, metric=metric), self.intra, self.inter)
            for metric in comparisons
        ]

    def plain_stages(self, counts: NDArray[np.intp]) -> list[Any]:
        """Return cosines and distances where fewer than twenty classes were seen, by enough rows.

        Cosines are taken from the mean of the class means. Of few classes each makes up much of
        that mean, all lie alike far from it, and directions alone do not tell a new class from
        its neighbour: the γ that it needs then takes every image from a seen class. Lengths tell
        them apart, as a rule; the folds on which γ is found anyway say whether they do, if most
        classes have a row to spare for them.
        """
        is_free = self.metric == "cosine" and self.mixture is None
        tell = len(counts) < FEW_CLASSES and np.median(counts) >= _ROWS_THAT_TELL
        return [{"metric": list(METRICS)}] if is_free and tell else []

    def fit_score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        X: NDArray[Any],
        y: NDArray[Any],
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Score a grid with one decomposition per feature map."""
        settings = [clone(self).set_params(**params)._settings() for params in grid]
        features, codes, _, attributes = self._check_training_data(X, y, class_attributes)
        new = attribute_matrix(new_attributes, list(new_attributes), attributes.shape[1])
        data = GridData.of_rows(features, codes, attributes, new, X_eval)
        yield from _told(score_grid(settings, data), len(grid), progress)

    def score_grid_sums(
        self,
        grid: Sequence[Mapping[str, Any]],
        sums: Sums,
        class_attributes: Mapping[Any, ArrayLike],
        new_attributes: Mapping[Any, ArrayLike],
        X_eval: NDArray[Any],
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Score a grid from sums, with one decomposition per feature map."""
        settings = [clone(self).set_params(**params)._settings() for params in grid]
        attributes = attribute_matrix(class_attributes, sums.classes.tolist())
        new = attribute_matrix(new_attributes, list(new_attributes), attributes.shape[1])
        data = GridData.of_sums(sums, attributes, new, X_eval)
        yield from _told(score_grid(settings, data), len(grid), progress)

    # ------------------------------------------------------------------ before a class is added
    def _newcomer(self, attributes: NDArray[np.float64]) -> Newcomer:
        rivalry = self._rivalry
        if rivalry is None or not rivalry.is_of(self):
            rivalry = Rivalry.of(self)
        self._rivalry = rivalry.follow(self._added_attributes.array)
        return self._rivalry.newcomer(attributes, self._table_penalties(n_more=1))

    # ------------------------------------------------------------------ explaining
    @property
    def attribute_relevance_(self) -> NDArray[np.float64]:
        """Weight of each attribute, one on average over the attributes of its block."""
        check_is_fitted(self)
        return self._transfer.kernel.attribute_relevance()

    def _source_weights(self, column: int) -> NDArray[np.float64]:
        result: NDArray[np.float64] = self._transfer.source_weights(
            self.class_attributes_[column : column + 1]
        )[0]
        return result

    def _pulls(self, row: NDArray[Any], column: int) -> NDArray[np.float64]:
        weights = self._source_weights(column)
        return self._transfer.pulls(row, self.class_embeddings_[column], weights)


def _told(
    scored: Iterator[tuple[int, NDArray[Any]]], total: int, progress: Progress | None
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Pass scores on, and tell how many settings are done."""
    for done, item in enumerate(scored, start=1):
        yield item
        if progress is not None:
            progress("select", done, total, {})
