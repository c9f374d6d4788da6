"""The paper's squared loss over instances, computed from class means, exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.neighbors import frozen_array
from hgkt.statistics.classes import class_counts_and_means

LOSS_NODES = ("class", "instance", "representative")
REDUCTIONS = ("mean", "sum")
CLASS_WEIGHTS = ("image", "balanced")
_CHUNK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Targets:
    """What the squared loss needs of the features, whatever their number.

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of instances of each class.
    means : array-like of shape (n_classes, n_features)
        Class means.
    scatter : array-like of shape (n_classes,), optional
        Σ_{i∈c} ‖x_i − x̄_c‖²; without it the reported loss lacks its constant part.
    representatives : array-like of shape (n_classes, n_features), optional
        Features of the representatives; the losses ``instance`` and ``representative`` need them.

    Examples
    --------
    >>> targets = Targets.from_features(np.array([[1.0], [3.0], [5.0]]), [0, 0, 1], 2)
    >>> targets.means.ravel(), targets.scatter
    (array([2., 5.]), array([2., 0.]))
    """

    counts: NDArray[np.float64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64] | None = None
    representatives: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for name in ("counts", "means", "scatter", "representatives"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen_array(getattr(self, name), np.float64))
        sizes = {len(a) for a in (self.counts, self.means, self.scatter, self.representatives)
                 if a is not None}  # fmt: skip
        if len(sizes) > 1:
            raise DataError(f"targets must have one row a class; got {sorted(sizes)} rows")
        if (self.counts < 1).any():
            code = int(np.flatnonzero(self.counts < 1)[0])
            raise DataError(f"class {code} has no instance; at least one is expected")

    @classmethod
    def from_features(
        cls,
        X: NDArray[Any],
        codes: ArrayLike,
        n_classes: int,
        representatives: ArrayLike | None = None,
    ) -> Self:
        """Reduce features (N, D) with class codes (N,) in two chunked passes.

        Parameters
        ----------
        X : ndarray of shape (N, D)
            Features; a memory-mapped array stays on disk.
        codes : array-like of shape (N,)
            Class of each row.
        n_classes : int
            Number of classes.
        representatives : array-like of shape (n_classes,), optional
            Row of X that represents each class.
        """
        labels = np.asarray(codes, dtype=np.intp)
        counts, means = class_counts_and_means(X, labels, n_classes)
        scatter = np.zeros(n_classes)
        for start in range(0, len(X), _CHUNK_ROWS):
            rows = labels[start : start + _CHUNK_ROWS]
            residuals = X[start : start + _CHUNK_ROWS] - means[rows]
            norms = np.einsum("ij,ij->i", residuals, residuals)
            scatter += np.bincount(rows, norms, minlength=n_classes)
        chosen = None if representatives is None else X[np.asarray(representatives, np.intp)]
        return cls(counts, means, scatter, chosen)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.counts)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return int(self.means.shape[1])

    @property
    def norm(self) -> float:
        """Root mean square norm of the instances; without `scatter`, of their class means."""
        squares = self.counts * np.square(self.means).sum(axis=1)
        total = squares.sum() + (0.0 if self.scatter is None else self.scatter.sum())
        return float(np.sqrt(total / self.counts.sum()))

    def scaled(self, factor: float) -> Self:
        """Return the targets of features that are `factor` times as long."""
        scatter = None if self.scatter is None else self.scatter * factor**2
        chosen = None if self.representatives is None else self.representatives * factor
        return type(self)(self.counts, self.means * factor, scatter, chosen)

    def instance_weights(self, class_weight: str) -> NDArray[np.float64]:
        """Weight of one instance of each class in the loss, (n_classes,); they sum to one."""
        check_choice("class_weight", class_weight, CLASS_WEIGHTS)
        if class_weight == "image":
            return np.full(self.n_classes, 1.0 / self.counts.sum())
        return 1.0 / (self.n_classes * self.counts)


@dataclass(frozen=True, eq=False)
class SquaredObjective:
    """A weighted squared distance between rows of embeddings and fixed targets.

    ``loss = Σ_rows weights · ‖z − targets‖² + constant`` equals the mean over instances of
    ‖h − x‖² that the paper writes: Σ_{i∈c} ‖z − x_i‖² = N_c ‖z − x̄_c‖² + Σ_{i∈c} ‖x_i − x̄_c‖².

    Parameters
    ----------
    targets : ndarray of shape (n_rows, n_features)
        Rows are the L representatives, or L ordinary rows and then L representatives.
    weights : ndarray of shape (n_rows,)
        Weight of each row, with 1/n_features in it where the reduction is a mean.
    constant : float
        The part of the loss that no weight can change.
    needs_ordinary : bool
        Whether the ordinary rows come first.
    """

    targets: NDArray[np.float64]
    weights: NDArray[np.float64]
    constant: float
    needs_ordinary: bool

    @classmethod
    def build(
        cls,
        targets: Targets,
        loss_nodes: str = "class",
        reduction: str = "mean",
        class_weight: str = "image",
    ) -> Self:
        """Choose the reading of the loss.

        Parameters
        ----------
        targets : Targets
            Reduced features.
        loss_nodes : {"class", "instance", "representative"}
            Paper gap: the loss sums over all images with h(y_i), a function of the class.
            ``class``: every image against the representative's embedding of its class;
            ``instance``: every image against its own node's embedding; ``representative``: the L
            representatives against their own features, each counted once.
        reduction : {"mean", "sum"}
            Over the D features. Paper gap: the norm is a sum, but the weight decay of 0.001 is
            that of DEM, whose loss is a mean.
        class_weight : {"image", "balanced"}
            Every image counts the same (the paper), or every class.

        Examples
        --------
        >>> targets = Targets([2, 1], [[2.0], [5.0]], scatter=[2.0, 0.0])
        >>> SquaredObjective.build(targets).weights.round(3)
        array([0.667, 0.333])
        """
        check_choice("loss_nodes", loss_nodes, LOSS_NODES)
        check_choice("reduction", reduction, REDUCTIONS)
        scale = 1.0 / targets.n_features if reduction == "mean" else 1.0
        weights = scale * targets.instance_weights(class_weight)
        scatter = np.zeros(targets.n_classes) if targets.scatter is None else targets.scatter
        if loss_nodes == "class":
            return cls(targets.means, weights * targets.counts, float(weights @ scatter), False)
        if targets.representatives is None:
            raise DataError(
                f"loss_nodes={loss_nodes!r} needs the features of the representatives in targets"
            )
        if loss_nodes == "representative":
            equal = np.full(targets.n_classes, scale / targets.n_classes)
            return cls(targets.representatives, equal, 0.0, False)
        # Take the representative out of its class: mean and scatter of the ordinary instances.
        n_ordinary = targets.counts - 1
        divisor = np.maximum(n_ordinary, 1)
        offset = targets.means - targets.representatives
        ordinary = targets.means + offset / divisor[:, None] * (n_ordinary > 0)[:, None]
        removed = targets.counts / divisor * np.square(offset).sum(axis=1)
        rest = np.where(n_ordinary > 0, np.maximum(scatter - removed, 0.0), 0.0)
        constant = 0.0 if targets.scatter is None else float(weights @ rest)
        return cls(
            np.concatenate([ordinary, targets.representatives]),
            np.concatenate([weights * n_ordinary, weights]),
            constant,
            True,
        )

    def numpy_loss(self, embeddings: NDArray[Any]) -> float:
        """Return the loss of embeddings (n_rows, n_features), in float64."""
        errors = np.square(np.asarray(embeddings, np.float64) - self.targets).sum(axis=1)
        return float(self.weights @ errors) + self.constant
