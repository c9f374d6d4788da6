"""HGKTClassifier: the paper's two relations in closed form."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from hgkt._arrays import FeatureMap, scoring_device
from hgkt._typing import Progress
from hgkt._validation import attribute_matrix, attribute_table, label_text
from hgkt.calibration import Fold
from hgkt.calibration.folds import FEW_CLASSES
from hgkt.closed_form.ensemble import FEATURE_MAPS, MemberPool
from hgkt.closed_form.grid import score_grid
from hgkt.closed_form.member import METRICS, Ensemble, Member
from hgkt.closed_form.scoring import Scorer
from hgkt.closed_form.transfer import ClosedFormTransfer
from hgkt.estimators.base import arrays_under
from hgkt.estimators.class_comparison import ClassComparison, NewClass
from hgkt.estimators.class_table import ClassRows, ClassTable
from hgkt.estimators.explain import TransferClassifier
from hgkt.exceptions import ClassWarning, DataError
from hgkt.statistics import ExampleSums, Statistics, Sums
from hgkt.statistics.classes import summed, together

_PRIOR = 0.3  # α of a shared space, where nothing is selected
_EXAMPLES = "examples/"
_ROWS_THAT_TELL = 5  # per class: folds hold out one in five


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
        How an instance is compared with a class embedding. A search on class folds chooses between
        the two for an ensemble, and where fewer than twenty classes were seen; "euclidean" it
        keeps.
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
    observed : bool, default=False
        Whether seen classes stay at their observed means instead of leaning on their attributes.
    prior : float, optional
        α, how much of a class's description is in its prior mean, where they share a space; by
        default 0.3 in a shared space.
    shared_space : bool or int, default=False
        Whether class vectors lie in the space of the features, as those of CLIP's two towers do,
        or of one sentence encoder; a number: that of the `attribute_blocks` does. Then the
        description of a class is a first guess of its mean.
    members : list of dict, optional
        Several closed forms whose scores are added instead of one, as selection on validation
        classes finds them, each a dict of the parameters `feature_map`, `shrinkage`, `kernel`,
        `kernel_scale`, `attribute_map`, `relevance`, `block_weights`, `ridge`, `norm_power`,
        `observed`, `prior`, whose place it takes, and a `weight`. With a shared space one may be
        ``{"kernel": "zero-shot", "weight": …}``: the plain cosine of row and description.
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
    class_embeddings_ : ndarray of shape (n_classes, n_columns)
        What rows are multiplied with once they are in the metric of the visual space: embeddings
        divided by their length, in each metric of an ensemble side by side. A model of few rows,
        at least 4,096 features and four times as many as rows, has a coordinate per row and one
        more instead of one per feature.
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

    mathematics_version: ClassVar[int] = 3  # 1: one closed form; 2: a mixture; 3: an ensemble
    can_grow: ClassVar[bool] = True

    _transfer: ClosedFormTransfer
    _examples: Mapping[Any, ExampleSums] = {}
    """Sums over the examples of classes that came by their attributes, kept apart so that such a
    class can be removed or edited as if it had never been there."""
    _comparison: ClassComparison | None = None

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
        observed: bool = False,
        prior: float | None = None,
        shared_space: bool | int = False,
        members: list[dict[str, Any]] | None = None,
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
        self.observed = observed
        self.prior = prior
        self.shared_space = shared_space
        self.members = members
        self.calibration = calibration
        self.device = device

    # ------------------------------------------------------------------ hooks of the contract
    def _fit_seen(
        self, X: NDArray[Any], codes: NDArray[np.intp], attributes: NDArray[np.float64]
    ) -> ClassRows:
        self._transfer = ClosedFormTransfer(self._settings())
        if self.intra and len(attributes) > 1 and len(X) == len(attributes):
            warnings.warn(
                f"each of the {len(X)} classes has one row, which tells nothing of how rows of a "
                "class differ: they are compared without a metric of the inside of classes; "
                "two rows of some classes are enough for one",
                ClassWarning,
                stacklevel=3,
            )
        return {"embedding": self._transfer.fit(X, codes, attributes)}

    def _fit_sums(self, sums: Sums, attributes: NDArray[np.float64]) -> ClassRows:
        transfer = ClosedFormTransfer(self._settings())
        transfer.dtype = sums.dtype
        statistics = {name: sums.of(name) for name in transfer.spaces}
        self._transfer = transfer
        return {"embedding": transfer.solve(statistics, attributes)}

    def gather_options(self, select: bool = False) -> dict[str, Any]:
        """Return the feature maps to sum: its own, or all that an ensemble may have."""
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

    def _settings(self) -> Ensemble:
        shared: dict[str, Any] = {
            "metric": self.metric,
            "weighting": self.weighting,
            "n_neighbors": self.n_neighbors,
            "attribute_blocks": self.attribute_blocks,
            "shared_space": self.shared_space,
            "device": self.device,
        }
        if self.members is not None:
            return Ensemble.from_list(self.members, **shared)
        prior = self.prior
        if prior is None:
            prior = _PRIOR if self.shared_space is not False else 0.0
        member = Member(
            self.feature_map,
            self.shrinkage if self.intra else 1.0,
            self.kernel if self.inter else "linear",
            self.kernel_scale,
            self.attribute_map,
            self.relevance,
            None if self.block_weights is None else tuple(self.block_weights),
            self.ridge,
            self.norm_power,
            self.observed,
            prior,
        )
        return Ensemble((member,), **shared)

    def member_table(self) -> tuple[list[str], list[list[str]]] | None:
        """Return the members as header and rows of words; None where there is one alone."""
        return None if self.members is None else self._settings().table()

    # ------------------------------------------------------------------ selection
    def member_pools(self, n_classes: int) -> list[MemberPool]:
        """Return the members among which selection chooses an ensemble, for so many classes.

        Of fewer than twenty classes validation decides between cosines and distances, unless
        `metric` was set to "euclidean"; see `plain_stages`. In a shared space only directions say
        something.
        """
        base = replace(self._settings(), members=(Member(),), zero_shot=0.0)
        free = self.metric == "cosine" and not base.shares_space and n_classes < FEW_CLASSES
        return [
            MemberPool.of(replace(base, metric=metric), self.intra, self.inter)
            for metric in (METRICS if free else (self.metric,))
        ]

    def plain_stages(self, counts: NDArray[np.intp]) -> list[Any]:
        """Return cosines and distances where fewer than twenty classes were seen, by enough rows.

        Cosines are taken from the mean of the class means. Of few classes each makes up much of
        that mean, all lie alike far from it, and directions alone do not tell a new class from
        its neighbour: the γ that it needs then takes every image from a seen class. Lengths tell
        them apart, as a rule; the folds on which γ is found anyway say whether they do, if most
        classes have a row to spare for them.
        """
        is_free = self.metric == "cosine" and self.members is None and self.shared_space is False
        tell = len(counts) < FEW_CLASSES and np.median(counts) >= _ROWS_THAT_TELL
        return [{"metric": list(METRICS)}] if is_free and tell else []

    def score_grid(
        self,
        grid: Sequence[Mapping[str, Any]],
        fold: Fold,
        progress: Progress | None = None,
    ) -> Iterator[tuple[int, NDArray[Any]]]:
        """Score a grid with one decomposition per feature map."""
        settings = [clone(self).set_params(**params)._settings() for params in grid]
        scored = score_grid(settings, fold)
        for done, item in enumerate(scored, start=1):
            yield item
            if progress is not None:
                progress("select", done, len(grid), {})

    # ------------------------------------------------------------------ growing
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
            features, codes, seen, attributes = self._check_training_data(X, y, class_attributes)
            self._start_fit()
            rows = self._fit_seen(features, codes, attributes)
            self._take_seen(seen, attributes, rows, class_attributes is not None)
            return self
        features, labels = self._check_labelled(X, y, reset=False)
        with self._lock():
            names, codes = np.unique(labels, return_inverse=True)
            statistics = self._transfer.gather(features, codes, len(names))
            described = self._table.described
            new = {
                name: ExampleSums.of(features[codes == code], self._example_maps())
                for code, name in enumerate(names.tolist())
                if name in described
            }
            self.__dict__.update(self._with_examples(names, statistics, new, class_attributes))
        return self

    def example_sums(self, X: ArrayLike) -> ExampleSums:
        """Sum up examples of one class: all that `grow` needs of them.

        Besides the feature maps of this model those are used that selection chooses among, so
        that a model trained later can take the sums over.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return ExampleSums.of(self._check_features(X), self._example_maps())

    def grown_examples(self) -> dict[Any, ExampleSums]:
        """Return the sums over all examples of each class that was added and has grown."""
        check_is_fitted(self)
        return dict(self._examples)

    def grow(self, examples: Mapping[Any, ExampleSums], class_attributes: Any = None) -> Self:
        """Take in sums over examples of some classes: the model of `partial_fit` on their rows.

        All classes grow at once, at the cost of one; all or nothing.

        Parameters
        ----------
        examples : mapping of class to ExampleSums
            What `example_sums` returned, by class: added, grown or learned ones.
        class_attributes : mapping or DataFrame, optional
            Attributes of classes that the model does not know yet; they are added first.
        """
        check_is_fitted(self)
        with self._lock():
            draft = self._snapshot()
            draft._add_others(class_attributes)
            names = draft._check_examples(examples)
            if names:
                statistics = {
                    kind: _join_sums([examples[name] for name in names], kind)
                    for kind in draft._transfer.spaces
                }
                described = draft._table.described
                new = {name: examples[name] for name in names if name in described}
                labels = np.array(names, dtype=draft._table.labels.dtype)
                draft.__dict__.update(draft._with_examples(labels, statistics, new, None))
            changed = ("_table", "_transfer", "_examples")
            self.__dict__.update({name: getattr(draft, name) for name in changed})
        return self

    def _example_maps(self) -> list[FeatureMap]:
        return [*self._settings().feature_maps, *FEATURE_MAPS]

    def _check_examples(self, examples: Mapping[Any, ExampleSums]) -> list[Any]:
        """Return the classes that are to grow, in a fixed order; refuse what does not fit."""
        for name, sums in examples.items():
            if self._table.row_of(name) is None:
                raise DataError(
                    f"class {label_text(name)} is unknown to this model; add it by its attributes "
                    "before it grows"
                )
            if not isinstance(sums, ExampleSums):
                raise DataError(
                    f"the examples of class {label_text(name)} must come as example_sums returns "
                    f"them; got {type(sums).__name__}"
                )
            if sums.n_features != self.n_features_in_:
                raise DataError(
                    f"the examples of class {label_text(name)} have {sums.n_features} features; "
                    f"{self.n_features_in_} are expected"
                )
        return [name for name in self._table.classes.tolist() if name in examples]

    def _with_examples(
        self,
        names: NDArray[Any],
        statistics: Mapping[FeatureMap, Statistics],
        new: Mapping[Any, ExampleSums],
        class_attributes: Any,
    ) -> dict[str, Any]:
        """Return the attributes of the model that has learned from examples of some classes.

        Parameters
        ----------
        names : ndarray of shape (n,)
            The classes.
        statistics : mapping of Statistics by feature map
            Of their examples, by row of `names`.
        new : mapping of ExampleSums by class
            What of them belongs to classes that came by their attributes.
        class_attributes : mapping, DataFrame or None
            Attributes of classes that the model does not know yet.
        """
        old = self._table.seen_classes
        seen = np.unique(np.concatenate([old, names]))
        attributes = self._learned_attributes(seen, class_attributes)
        own, other = np.searchsorted(seen, old), np.searchsorted(seen, names)
        merged = {
            kind: together(statistics[kind].over(other, len(seen)), before.over(own, len(seen)))
            for kind, before in self._transfer.statistics.items()
        }
        examples = dict(self._examples)
        for name, sums in new.items():
            examples[name] = examples[name].merge(sums) if name in examples else sums
        return self._solved(seen, attributes, merged, examples)

    def _learned_attributes(self, seen: NDArray[Any], given: Any) -> NDArray[np.float64]:
        """Return attributes (L, d) of all classes with instances, those of new ones as given."""
        table = self._table
        if not table.has_attributes:
            if given is not None:
                raise DataError(
                    "this model was fitted without class_attributes; it cannot take them later"
                )
            return np.eye(len(seen))
        own = dict(zip(table.labels.tolist(), table.attributes.array, strict=True))
        vectors = attribute_table(given) if given is not None else {}
        for name in vectors.keys() & own.keys():
            row = attribute_matrix(vectors, [name], self._n_attributes)[0]
            if not np.allclose(row, own[name], rtol=1e-6, atol=1e-9):
                raise DataError(
                    f"class {label_text(name)} is known with other attributes, by which it was "
                    "learned; leave it out of class_attributes, or fit anew"
                )
        table.refuse_new([name for name in seen.tolist() if name not in own])
        return attribute_matrix({**vectors, **own}, seen.tolist(), self._n_attributes)

    def _solved(
        self,
        seen: NDArray[Any],
        attributes: NDArray[np.float64],
        statistics: Mapping[FeatureMap, Statistics],
        examples: Mapping[Any, ExampleSums],
        vectors: Mapping[Any, NDArray[np.float64]] | None = None,
    ) -> dict[str, Any]:
        """Return the attributes of the model solved anew.

        Parameters
        ----------
        seen : ndarray of shape (L,)
            The classes with examples.
        attributes : ndarray of shape (L, d)
        statistics : mapping of Statistics by feature map
            Of all examples.
        examples : mapping of ExampleSums by class
            What of them belongs to classes that came by their attributes.
        vectors : mapping of ndarray of shape (d,), optional
            The classes known by their attributes alone; by default those of now without `seen`.
        """
        if vectors is None:
            learned = set(seen.tolist())
            vectors = {n: row for n, row in self._added_vectors().items() if n not in learned}
        described = self._table.described
        transfer = ClosedFormTransfer(self._settings())
        transfer.dtype = self._transfer.dtype
        grown = np.array([name in described for name in seen.tolist()], dtype=bool)
        rows = {"embedding": transfer.solve(statistics, attributes, grown)}
        table = ClassTable.of(
            seen,
            attributes,
            rows,
            grown=grown,
            learned_shares=transfer.learned_shares(grown),
            has_attributes=self._table.has_attributes,
        )
        if vectors:
            new = np.array(list(vectors.values()))
            table = table.add(list(vectors), new, {"embedding": transfer.embed(new)})
        return {"_table": table, "_transfer": transfer, "_examples": examples}

    def _added_vectors(self) -> dict[Any, NDArray[np.float64]]:
        """Return the attributes of the classes that are known by nothing else."""
        table = self._table
        return dict(zip(table.added_classes.tolist(), table.added_attributes, strict=True))

    def _grown_among(self, names: Collection[Any]) -> set[Any]:
        return set(self._table.seen_classes[self._table.grown].tolist()).intersection(names)

    def _removed(self, names: Collection[Any]) -> dict[str, Any]:
        grown = self._grown_among(names)
        if not grown:
            return super()._removed(names)
        seen = self._table.seen_classes
        stays = np.array([name not in grown for name in seen.tolist()])
        statistics = {}
        for kind, old in self._transfer.statistics.items():
            factors = [self._examples[name].sums_under(kind).factor for name in grown]
            statistics[kind] = old.without(stays, np.concatenate(factors))
        examples = {name: sums for name, sums in self._examples.items() if name not in grown}
        vectors = {n: row for n, row in self._added_vectors().items() if n not in set(names)}
        attributes = self._table.seen_attributes[stays]
        return self._solved(seen[stays], attributes, statistics, examples, vectors)

    def _edited(self, vectors: Mapping[Any, NDArray[np.float64]]) -> dict[str, Any]:
        grown = self._grown_among(vectors)
        if not grown:
            return super()._edited(vectors)
        table = self._table
        attributes = table.seen_attributes.copy()
        for row, name in enumerate(table.seen_classes.tolist()):
            if name in grown:
                attributes[row] = vectors[name]
        others = {name: vectors.get(name, row) for name, row in self._added_vectors().items()}
        statistics = self._transfer.statistics
        return self._solved(table.seen_classes, attributes, statistics, self._examples, others)

    def _renamed(self, names: Mapping[Any, Any]) -> dict[str, Any]:
        examples = {names.get(name, name): sums for name, sums in self._examples.items()}
        return super()._renamed(names) | {"_examples": examples}

    def _take_seen(
        self,
        classes: NDArray[Any],
        attributes: NDArray[np.float64],
        rows: ClassRows,
        has_attributes: bool,
    ) -> None:
        super()._take_seen(classes, attributes, rows, has_attributes)
        self._examples = {}

    def _state(self) -> dict[str, NDArray[Any]]:
        own = {
            f"{_EXAMPLES}{row}": np.frombuffer(self._examples[name].to_bytes(), dtype=np.uint8)
            for row, name in enumerate(self._table.seen_classes.tolist())
            if name in self._examples
        }
        return super()._state() | own

    def _restore(
        self,
        state: Mapping[str, NDArray[Any]],
        labels: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> None:
        super()._restore(state, labels, attributes, has_attributes)
        seen = self._table.seen_classes.tolist()
        self._examples = {
            seen[int(row)]: ExampleSums.from_bytes(data.tobytes())
            for row, data in arrays_under(_EXAMPLES, state).items()
        }

    # ------------------------------------------------------------------ before a class is added
    def _compare_new(self, attributes: NDArray[np.float64]) -> NewClass:
        comparison = self._comparison
        if comparison is None or not comparison.is_of(self):
            comparison = ClassComparison.of(self)
        self._comparison = comparison.follow(self._table.attributes)
        return self._comparison.new_class(attributes, self._row_penalties(n_more=1))

    # ------------------------------------------------------------------ places
    def class_points(self) -> NDArray[Any]:
        """Return where `in_metric` would put the classes, ordered as ``classes_``."""
        return self._transfer.points(self.class_embeddings_)

    def _row_points(self, features: NDArray[Any]) -> NDArray[Any]:
        return self._transfer.points(features, of_rows=True)

    # ------------------------------------------------------------------ explaining
    @property
    def attribute_relevance_(self) -> NDArray[np.float64]:
        """Weight of each attribute, one on average over the attributes of its block."""
        check_is_fitted(self)
        return self._transfer.attribute_relevance()

    def _sources(self, column: int) -> tuple[NDArray[np.float64], float]:
        return self._transfer.sources(self.class_attributes_[column], self._seen_row(column))

    def _pulls(self, row: NDArray[Any], column: int) -> tuple[NDArray[np.float64], float]:
        return self._transfer.pulls(row, self.class_attributes_[column], self._seen_row(column))

    def _seen_row(self, column: int) -> int | None:
        """Return the position of a learned class among seen ones; None of described and grown."""
        row = int(self._table.order[column])
        return row if row < self._table.n_seen and not self._table.grown[row] else None


def _join_sums(examples: list[ExampleSums], kind: FeatureMap) -> Statistics:
    """Return the statistics of some classes from the sums of each under a feature map."""
    sums = [each.sums_under(kind) for each in examples]
    counts = np.array([each.n_examples for each in examples], dtype=np.float64)
    totals = np.stack([part.total for part in sums])
    return summed(np.concatenate([part.factor for part in sums]), totals, counts)
