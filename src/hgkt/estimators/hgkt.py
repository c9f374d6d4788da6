"""HGKTClassifier: the paper's two relations in closed form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hgkt._geometry import FeatureMap
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table, label_text
from hgkt.closed_form.family import FEATURE_MAPS, MixtureFamily
from hgkt.closed_form.grid import GridData, SumsGridData, score_grid
from hgkt.closed_form.kernels import KernelTerm
from hgkt.closed_form.mixture import METRICS, MetricTerm, Mixture, Ridge
from hgkt.closed_form.transfer import ClosedFormTransfer, relevance_keys
from hgkt.estimators._rivalry import Newcomer, Rivalry
from hgkt.estimators._snapshots import changing
from hgkt.estimators.base import ClassTable
from hgkt.estimators.state_rules import Rule
from hgkt.estimators.transfer import TransferClassifier
from hgkt.exceptions import DataError
from hgkt.statistics import ClassStatistics, Sums


class HGKTClassifier(TransferClassifier):
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
        How an instance is compared with a class embedding.
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
        Where statistics are gathered and decomposed.

    Attributes
    ----------
    classes_, seen_classes_, unseen_classes_ : ndarray
        Labels: all, learned from instances, added by attributes.
    class_embeddings_ : ndarray of shape (n_classes, n_metrics · n_features)
        In the metric of the visual space; in a mixture of several, in each of them side by side.
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
    _transfer: ClosedFormTransfer
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

    def _transfer_rules(self) -> dict[str, Rule]:
        settings = self._settings()
        rules = {"noise": Rule("L", low=0.0)}
        if len(settings.ridges) > 1:
            rules["noises"] = Rule(f"{len(settings.ridges)} L", low=0.0)
        for index, name in enumerate(settings.feature_maps):
            space = {"center": Rule("D"), "projection": Rule("D D"), "dual": Rule("L D"),
                     "counts": Rule("L", low=0.0), "sums": Rule("L D"),
                     "second_moment": Rule("D D")}  # fmt: skip
            n_metrics = sum(term.feature_map == name for term in settings.metrics)
            if n_metrics > 1:
                space["scales"] = Rule(f"{n_metrics} D")
            rules |= {f"space{index}/{key}" if index else key: rule for key, rule in space.items()}
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
        data = GridData(features, codes, attributes, new, X_eval)
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
        data = SumsGridData(sums, attributes, new, X_eval)
        yield from _told(score_grid(settings, data), len(grid), progress)

    # ------------------------------------------------------------------ classes that grow up
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        class_attributes: Any = None,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Take in more instances; any order of batches gives the model of one full fit.

        A class that was added by its attributes becomes a seen one with its first instances. Its
        mean enters the transfer with noise λ·N̄/n for n instances (N̄ on average over classes), so
        its embedding moves from the predicted to the observed mean as n grows: the posterior of
        the mean. Only `fit` finds a calibration; a model that starts here has none.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        class_attributes : mapping or DataFrame, optional
            Attributes of classes that the model does not know yet. Those of others must be the
            ones it knows.
        classes : ignored
            Accepted because scikit-learn's incremental classifiers take it; classes may come at
            any time.
        """
        if not self.__sklearn_is_fitted__():
            # One batch is not what there will be, and earlier rows are gone later: no calibration.
            checked = self._check_training_data(X, y, class_attributes)
            return self._learn(*checked, class_attributes is not None)
        features, labels = self._check_labelled(X, y, reset=False)
        with changing(self) as draft:
            draft._grow(features, labels, class_attributes)
        return self

    def _grow(self, features: NDArray[Any], labels: NDArray[Any], class_attributes: Any) -> None:
        """Take in instances (n, D) of any classes."""
        seen = np.unique(np.concatenate([self.seen_classes_, np.unique(labels)]))
        attributes = self._grown_attributes(seen, class_attributes)
        transfer = ClosedFormTransfer(self._settings())
        transfer.dtype = self._transfer.dtype
        statistics = transfer.gather(features, np.searchsorted(seen, labels), len(seen))
        for name, old in self._grown_statistics(seen).items():
            statistics[name].merge(old)
        table = {"embedding": transfer.solve(statistics, attributes)}
        added = dict(zip(self.unseen_classes_.tolist(), self._added_attributes.array, strict=True))
        left = {name: row for name, row in added.items() if name not in set(seen.tolist())}
        grown = {*self.seen_classes_[self._grown].tolist(), *added}
        self._transfer, self._seen_table = transfer, table
        self._seen_attributes, self.seen_classes_ = attributes, seen
        self._grown = np.array([name in grown for name in seen.tolist()], dtype=bool)
        self._set_added(seen[:0], attributes[:0], {key: rows[:0] for key, rows in table.items()})
        if left:
            self._add(list(left), np.array(list(left.values())))

    def _grown_attributes(self, seen: NDArray[Any], given: Any) -> NDArray[np.float64]:
        """Attributes (L, d) of all classes with instances, known before or given now."""
        if not self._has_attributes:
            if given is not None:
                raise DataError(
                    "this model was fitted without class_attributes; it cannot take them later"
                )
            return np.eye(len(seen))
        known = dict(zip(self.classes_.tolist(), self.class_attributes_, strict=True))
        table = attribute_table(given) if given is not None else {}
        for name in table.keys() & known.keys():
            row = attribute_matrix(table, [name], self._seen_attributes.shape[1])[0]
            if not np.allclose(row, known[name], rtol=1e-6, atol=1e-9):
                raise DataError(
                    f"class {label_text(name)} is known with other attributes, by which it was "
                    "learned; leave it out of class_attributes, or fit anew"
                )
        new = [name for name in seen.tolist() if name not in known]
        self._acquaintance().refuse(new, strings=self.seen_classes_.dtype.kind in "UO")
        table = {**table, **known}
        return attribute_matrix(table, seen.tolist(), self._seen_attributes.shape[1])

    def _grown_statistics(self, seen: NDArray[Any]) -> dict[FeatureMap, ClassStatistics]:
        """Statistics so far by feature map, with rows for the classes that are new."""
        grown = {}
        rows = np.searchsorted(seen, self.seen_classes_)
        for name, old in self._transfer.statistics.items():
            grown[name] = ClassStatistics(len(seen), old.n_features)
            grown[name].counts[rows], grown[name].sums[rows] = old.counts, old.sums
            grown[name].second_moment += old.second_moment
        return grown

    # ------------------------------------------------------------------ before a class is added
    def _newcomer(self, attributes: NDArray[np.float64]) -> Newcomer:
        rivalry = self._rivalry
        if rivalry is None or not rivalry.is_of(self):
            rivalry = Rivalry.of(self)
        self._rivalry = rivalry.follow(self._added_attributes.array)
        n_paying = int((~self._grown).sum())
        gamma = self.calibration_.gamma(n_paying, len(self.classes_) - n_paying + 1)
        penalties = np.zeros(len(self.classes_))
        penalties[: len(self._grown)][~self._grown] = gamma
        return self._rivalry.newcomer(attributes, penalties)

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
