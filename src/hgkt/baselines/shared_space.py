"""Methods for rows and class vectors of one space: zero-shot, Tip-Adapter, discriminant analysis.

Both come from encoders that were made to be compared: the two towers of CLIP or SigLIP, or one
sentence encoder for texts and for the names of their classes. The vector of a class is then a guess
of what its rows look like, and needs no map to be learned.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from hgkt._arrays import FeatureMap, unit_rows
from hgkt._validation import check_choice, check_number
from hgkt.baselines._shared.grids import GridClassifier, Seen, parameters, powers
from hgkt.baselines._shared.rows import similarity_scores
from hgkt.estimators.base import ClassRows
from hgkt.exceptions import DataError
from hgkt.statistics import class_counts_and_means

COMPARISONS = ("linear", "cosine")


class SharedSpaceClassifier(GridClassifier):
    """A method that compares rows with class vectors as they are.

    Without class vectors, as a plain classifier, the mean of its rows stands for each class.
    """

    def _check_training_data(
        self, X: ArrayLike, y: ArrayLike, class_attributes: Any
    ) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[Any], NDArray[np.float64]]:
        X, codes, classes, vectors = super()._check_training_data(X, y, class_attributes)
        if class_attributes is None:
            _, vectors = class_counts_and_means(X, codes, len(classes))
        return X, codes, classes, vectors

    def _gather(self, seen: Seen) -> Any:
        n_features, n_numbers = seen.X.shape[1], seen.attributes.shape[1]
        if n_features != n_numbers:
            raise DataError(
                f"class vectors have {n_numbers} numbers and rows {n_features} features; "
                f"{type(self).__name__} expects both from encoders of one space"
            )
        return seen


@parameters
class ZeroShotClassifier(SharedSpaceClassifier):
    """The class whose description is nearest; nothing is learned.

    score(x, c) = cos(x, t_c), with the vector t_c that an encoder made of the name or the
    description of class c.

    Parameters
    ----------
    feature_map, attribute_map, calibration : ...

    References
    ----------
    Radford et al., "Learning Transferable Visual Models From Natural Language Supervision",
    ICML 2021.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> model = ZeroShotClassifier().fit(X, y, {"horse": [1.0, 0.1], "tiger": [0.1, 1.0]})
    >>> model.add_classes({"zebra": [1.0, 1.0]}).predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0

    def _check_params(self) -> None:
        """There is none but the maps."""

    def _train(self, gathered: Any) -> Any:
        return self._embed_rows(gathered.attributes)

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        return similarity_scores(X, table["embedding"], "cosine")


@parameters
class TipAdapterClassifier(SharedSpaceClassifier):
    """Zero-shot scores, raised by the likeness to a few kept rows of each seen class.

    With the kept rows k of class c, at most 16 as in the paper's largest setting,

        score(x, c) = cos(x, t_c) + α Σ_k exp(−β (1 − cos(x, k))).

    A class that was added has no kept rows, so the cosine alone. This is the variant without
    training.

    Parameters
    ----------
    alpha : float, default=0.01
        α. The authors' code has 100 cos(x, t_c) and α near 1.
    beta : float, default=5.5
        β, the authors' value.
    n_shots : int, default=16
        How many rows of a class are kept at most, drawn at random.
    random_state : int, RandomState instance or None, default=0
        Draws them.
    feature_map, attribute_map, calibration : ...

    Attributes
    ----------
    keys_ : ndarray of shape (n_kept, n_features)
        Kept rows, of length one, class after class.
    starts_ : ndarray of shape (n_seen_classes,)
        Where the kept rows of each class begin.

    References
    ----------
    Zhang et al., "Tip-Adapter: Training-free Adaption of CLIP for Few-shot Classification",
    ECCV 2022.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> model = TipAdapterClassifier().fit(X, y, {"horse": [1.0, 0.1], "tiger": [0.1, 1.0]})
    >>> model.add_classes({"zebra": [1.0, 1.0]}).predict([[2.0, 2.0], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    alpha: float = 0.01
    beta: float = 5.5
    n_shots: int = 16
    random_state: Any = 0
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0

    _learned = ("keys_", "starts_")
    _late = ("alpha", "beta")

    def default_stages(self) -> list[Any]:
        """Return α, 0 among its values, with β."""
        return [{"alpha": [0.0, *powers(-3, 1, 2)], "beta": [1.0, 2.0, 5.5, 10.0, 20.0, 40.0]}]

    def _check_params(self) -> None:
        check_number("alpha", self.alpha, low=0.0)
        check_number("beta", self.beta, low=0.0)
        check_number("n_shots", self.n_shots, low=1, integer=True)

    def _train(self, gathered: Any) -> Any:
        X, codes, attributes = gathered
        order = check_random_state(self.random_state).permutation(len(X))
        order = order[np.argsort(codes[order], kind="stable")]
        counts = np.bincount(codes, minlength=len(attributes))
        rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = np.minimum(counts, self.n_shots)
        self.keys_ = unit_rows(X[order[rank < self.n_shots]])
        self.starts_ = np.cumsum(kept) - kept
        # The class in the cache; -1 is none.
        return {"embedding": attributes, "code": np.arange(len(attributes))}

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        return {"embedding": rows, "code": np.full(len(rows), -1)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        scores = similarity_scores(X, table["embedding"], "cosine")
        cached = np.flatnonzero(table["code"] >= 0)
        if len(cached) and self.alpha:
            likeness = np.exp(self.beta * (similarity_scores(X, self.keys_, "cosine") - 1.0))
            sums = np.add.reduceat(likeness, self.starts_, axis=1)
            scores[:, cached] += self.alpha * sums[:, table["code"][cached]]
        return scores


@parameters
class GDAClassifier(SharedSpaceClassifier):
    """Gaussian discriminant analysis: class means and descriptions in one shared metric.

    The rows of every class have the same covariance. From the N centred rows with scatter S, in D
    dimensions, its inverse is estimated as

        P = D (S + tr(S)/(N − 1) I)⁻¹,

    and a class with centre z has the discriminant g_z(x) = xᵀPz − zᵀPz/2. A seen class has two
    centres, its mean μ_c and its description d_c, and the score (1 − α) g_μ + α g_d; a class that
    was added has g_d.

    Paper gap: the authors add the discriminant of the means to the plain cosine with the
    description, and have no rows of new classes to tell a scale by. Here descriptions are brought
    to the rows: d_c = m + s(t_c − t̄), with the averages m and t̄ over seen classes, which bridges
    the gap between the two towers of CLIP; and the cosine in the metric may stand for g.

    Parameters
    ----------
    alpha : float, default=0.2
        α, weight of the description of a seen class. These defaults are guesses: selection chooses.
    description_scale : float, default=0.5
        s.
    comparison : {"linear", "cosine"}, default="cosine"
        The discriminant g, or the cosine of x − m and the averaged centre in the metric P.
    feature_map, attribute_map, calibration : ...

    Attributes
    ----------
    whitening_ : ndarray of shape (n_features, n_features)
        The square root of P.
    center_ : ndarray of shape (n_features,)
        m.
    description_center_ : ndarray of shape (n_features,)
        t̄.

    References
    ----------
    Wang et al., "A Hard-to-Beat Baseline for Training-free CLIP-based Adaptation", ICLR 2024.

    Examples
    --------
    >>> X = np.array([[4.0, 0.0], [4.0, 0.2], [0.0, 4.0], [0.2, 4.0]])
    >>> y = np.array(["horse", "horse", "tiger", "tiger"])
    >>> model = GDAClassifier().fit(X, y, {"horse": [1.0, 0.1], "tiger": [0.1, 1.0]})
    >>> model.add_classes({"zebra": [1.0, 1.0]}).predict([[2.1, 2.1], [5.0, 0.0]]).tolist()
    ['zebra', 'horse']
    """

    alpha: float = 0.2
    description_scale: float = 0.5
    comparison: str = "cosine"
    feature_map: FeatureMap = "l2"
    attribute_map: FeatureMap = "l2"
    calibration: float = 0.0

    _learned = ("whitening_", "center_", "description_center_")
    _late = ("alpha", "description_scale", "comparison")

    def default_stages(self) -> list[Any]:
        """Return α from the mean alone to the description alone, s, and both comparisons."""
        return [
            {
                "alpha": [0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0],
                "description_scale": [0.1, 0.25, 0.5, 1.0],
                "comparison": list(COMPARISONS),
            }
        ]

    def _check_params(self) -> None:
        check_number("alpha", self.alpha, low=0.0, high=1.0)
        check_number("description_scale", self.description_scale, low=0.0, open_low=True)
        check_choice("comparison", self.comparison, COMPARISONS)

    def _train(self, gathered: Any) -> Any:
        X, codes, attributes = gathered
        rows = np.asarray(X, dtype=np.float64)
        _, means = class_counts_and_means(rows, codes, len(attributes))
        self.whitening_ = _root_precision(rows - means[codes])
        self.center_ = means.mean(axis=0)
        self.description_center_ = attributes.mean(axis=0)
        return (means - self.center_) @ self.whitening_, attributes

    def _finish(self, trained: Any) -> ClassRows:
        means, attributes = trained
        described = self._embed_rows(attributes)
        shares = (("embedding", means), ("bias", _bias(means)))
        return {
            name: (1.0 - self.alpha) * own + self.alpha * described[name] for name, own in shares
        }

    def _embed_rows(self, rows: NDArray[np.float64]) -> ClassRows:
        centres = (rows - self.description_center_) @ self.whitening_ * self.description_scale
        return {"embedding": centres, "bias": _bias(centres)}

    def _score(self, X: NDArray[Any], table: ClassRows, seen: bool) -> NDArray[Any]:
        rows = (np.asarray(X, dtype=np.float64) - self.center_) @ self.whitening_
        if self.comparison == "cosine":
            return similarity_scores(rows, table["embedding"], "cosine")
        scores: NDArray[np.float64] = rows @ table["embedding"].T + table["bias"]
        return scores


def _root_precision(centred: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the symmetric root of P for rows (N, D) less the means of their classes."""
    scatter = centred.T @ centred
    ridge = float(np.trace(scatter)) / max(len(centred) - 1, 1)
    if ridge <= 0.0:  # no class has two rows that differ
        return np.eye(len(scatter))
    values, basis = scipy.linalg.eigh(scatter)
    root = np.sqrt(len(scatter) / (np.maximum(values, 0.0) + ridge))
    found: NDArray[np.float64] = (basis * root) @ basis.T
    return found


def _bias(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    bias: NDArray[np.float64] = -0.5 * (centres**2).sum(axis=1)
    return bias
