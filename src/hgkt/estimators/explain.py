"""Methods that embed classes in visual space, and can say from which seen classes they did.

`TransferClassifier` is the base of the closed form and of the network; the records and functions
below it say why a class is where it is, and why an instance was given its class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import batches
from hgkt._validation import check_number
from hgkt.estimators.base import GZSLClassifier, arrays_under
from hgkt.estimators.class_table import ClassRows
from hgkt.estimators.methods import take_preset
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.closed_form.transfer import ClosedFormTransfer
    from hgkt.network.transfer import NetworkTransfer

_CHUNK_CLASSES = 512  # altered classes embedded at once: bounds memory for long text vectors
_PREFIX = "transfer/"


@dataclass(frozen=True)
class Contribution:
    """A seen class and its weight.

    Parameters
    ----------
    label : str or int
        The seen class.
    weight : float
        How much of it is in what is explained; negative where it pushes away.
    """

    label: Any
    weight: float


@dataclass(frozen=True)
class ClassExplanation:
    """From which seen classes a class was made.

    Parameters
    ----------
    label : str or int
        The class.
    seen : bool
        Whether it was learned from instances.
    sources : tuple of Contribution
        Seen classes, the strongest first. In the closed form all of them, and Σ weight·(v_c − m)W
        is the embedding, without a prior; of several members, averaged by their weights; in the
        network its neighbours in the graph, each with its share.
    description : float
        How much of its description is in it, where rows and descriptions share a space.
    """

    label: Any
    seen: bool
    sources: tuple[Contribution, ...]
    description: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return asdict(self)


@dataclass(frozen=True)
class PredictionExplanation:
    """Why an instance was given its class.

    Parameters
    ----------
    label : str or int
        The class predicted.
    score : float
        Its score.
    margin : float
        Score minus that of the first runner-up.
    runner_ups : tuple of Contribution
        The next classes with their scores.
    pulls : tuple of Contribution
        Seen classes behind the predicted one and what each adds to its score; in the closed form
        all pulls (with that of the description, and the calibration of a seen class) sum to the
        score, where rows are compared by cosines.
    description : float
        What the description of the predicted class adds, where it is in the space of the rows.
    """

    label: Any
    score: float
    margin: float
    runner_ups: tuple[Contribution, ...]
    pulls: tuple[Contribution, ...]
    description: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and dicts."""
        return asdict(self)


class TransferClassifier(GZSLClassifier):
    """A method that embeds classes by a transfer, and can say from which seen classes.

    Subclasses implement `_fit_seen`, which sets ``_transfer``, `_make_transfer`, `_sources`
    and, where a score is a sum over seen classes, `_pulls`.
    """

    _scores_classes_apart: ClassVar[bool] = True
    _transfer: ClosedFormTransfer | NetworkTransfer

    @classmethod
    def from_preset(cls, name: str, **parameters: Any) -> Self:
        """Return a classifier with the parameters of a preset, some of them overridden.

        Parameters
        ----------
        name : {"default", "paper", "exact"}
            The preset: "default" of HGKTClassifier; of HGKTNetworkClassifier "paper", the letter of
            the paper, and "exact", its defaults: the same problem without noise of sampling.
        **parameters
            Parameters that differ from it.

        Examples
        --------
        >>> from hgkt import HGKTNetworkClassifier
        >>> HGKTNetworkClassifier.from_preset("paper", mu=0.1).get_params()["n_sampled"]
        50
        """
        return take_preset(cls, name, parameters)

    @abstractmethod
    def _make_transfer(self) -> ClosedFormTransfer | NetworkTransfer:
        """Return a transfer with this model's parameters, to be restored."""

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassRows:
        return {"embedding": self._transfer.embed(attributes)}

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        return self._transfer.features(X)

    def _score(self, X: NDArray[Any], rows: ClassRows, seen: bool) -> NDArray[Any]:
        return self._transfer.score_mapped(X, rows["embedding"])

    def _state(self) -> dict[str, NDArray[Any]]:
        transfer = {_PREFIX + key: array for key, array in self._transfer.state().items()}
        return super()._state() | transfer

    def _restore(
        self,
        state: Mapping[str, NDArray[Any]],
        labels: NDArray[Any],
        attributes: NDArray[np.float64],
        has_attributes: bool,
    ) -> None:
        super()._restore(state, labels, attributes, has_attributes)
        self._transfer = self._make_transfer()
        self._transfer.restore(arrays_under(_PREFIX, state), self._table.seen_attributes)

    # ------------------------------------------------------------------ explaining
    @abstractmethod
    def _sources(self, column: int) -> tuple[NDArray[np.float64], float]:
        """Return how much of each seen class (L,), and of its description, is in a class."""

    def _pulls(self, row: NDArray[Any], column: int) -> tuple[NDArray[np.float64], float]:
        """Return what these add to the score of one row (1, D) for the class in `column`."""
        return self._sources(column)

    def explain_class(self, label: Any) -> ClassExplanation:
        """Say from which seen classes a class was made.

        Parameters
        ----------
        label : str or int
            Any class of the model.
        """
        moment = self._snapshot()
        column = moment.column_of(label)
        weights, description = moment._sources(column)
        seen = bool(moment.seen_mask_[column])
        return ClassExplanation(label, seen, moment._rank(weights), description)

    def explain(self, X: ArrayLike, n_runner_ups: int = 3) -> list[PredictionExplanation]:
        """Say for each row why it was given its class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_runner_ups : int
            How many other classes to name.
        """
        check_number("n_runner_ups", n_runner_ups, low=1, integer=True)
        moment = self._snapshot()
        features = moment._check_features(X)
        scores = moment.score_classes(features)
        labels = moment.classes_.tolist()
        explanations = []
        for row, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
            best, others = order[0], order[1 : n_runner_ups + 1]
            pulls, description = moment._pulls(features[row : row + 1], int(best))
            explanations.append(
                PredictionExplanation(
                    labels[best],
                    float(scores[row, best]),
                    float(scores[row, best] - scores[row, order[1]]),
                    tuple(Contribution(labels[c], float(scores[row, c])) for c in others),
                    moment._rank(pulls),
                    description,
                )
            )
        return explanations

    def pulls_of(self, x: ArrayLike, label: Any) -> tuple[Contribution, ...]:
        """Say which seen classes pulled one instance to a class, the strongest first.

        Parameters
        ----------
        x : array-like of shape (n_features,) or (1, n_features)
            The instance.
        label : str or int
            A class of the model.
        """
        moment = self._snapshot()
        return moment._rank(moment._pulls(moment.one_row(x), moment.column_of(label))[0])

    def _rank(self, weights: NDArray[np.float64]) -> tuple[Contribution, ...]:
        order = np.argsort(-np.abs(weights), kind="stable")
        labels = self._table.seen_classes.tolist()
        return tuple(Contribution(labels[c], float(weights[c])) for c in order if weights[c] != 0)


class AlteredClass:
    """A class with each attribute in turn at the mean of the seen classes, ready to score.

    Each altered class is embedded as a new class would be, and its score is compared with that of
    the class embedded the same way. A calibration shifts both alike and has no part in the
    difference. Embedding is most of the work; whoever explains many instances of one class makes
    this once.

    Parameters
    ----------
    model : GZSLClassifier
        Any fitted method.
    label : str or int
        A class of the model.

    Examples
    --------
    >>> from hgkt import HGKTClassifier
    >>> X = np.array([[3.0, 1.0, 1.0], [3.0, 1.2, 1.0], [1.0, 3.0, 1.0], [1.0, 1.0, 3.0]])
    >>> attributes = {"cat": [1.0, 0.0, 0.5], "dog": [0.0, 1.0, 0.5], "fox": [0.0, 0.0, 0.5]}
    >>> model = HGKTClassifier().fit(X, ["cat", "cat", "dog", "fox"], attributes)
    >>> weights = AlteredClass(model, "cat").weights(np.array([[3.0, 1.1, 1.0]]))
    >>> (weights > 0).tolist()
    [[True, True, False]]
    """

    def __init__(self, model: GZSLClassifier, label: Any) -> None:
        column = model.column_of(label)
        if not model._table.has_attributes:
            raise DataError(
                "this model was fitted without class_attributes, so no attribute speaks for a class"
            )
        if model.retrains_on_add:
            raise DataError(
                f"{type(model).__name__} learns a class anew when it is added, so what one of its "
                "attributes does cannot be told"
            )
        self._model = model
        own = model.class_attributes_[column]
        mean = model._table.seen_attributes.mean(axis=0)
        # An attribute that is at the mean already has no weight, whatever the rounding.
        self._changed = np.flatnonzero(own != mean)
        self._n_attributes = len(own)
        rows = np.tile(own, (len(self._changed) + 1, 1))
        rows[np.arange(1, len(rows)), self._changed] = mean[self._changed]
        self._tables = [
            model._embed_classes(rows[part]) for part in batches(len(rows), _CHUNK_CLASSES)
        ]

    def weights(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return the weight of each attribute (n, n_attributes) for rows (n, n_features).

        It is the score of the class minus its score were the attribute at the mean; negative where
        the attribute speaks against the class.
        """
        prepared = self._model._map_features(X)
        parts = [self._model._score(prepared, table, False) for table in self._tables]
        scores = np.concatenate(parts, axis=1).astype(np.float64)
        weights = np.zeros((len(X), self._n_attributes))
        weights[:, self._changed] = scores[:, :1] - scores[:, 1:]
        return weights


def seen_pulls(
    model: GZSLClassifier, x: ArrayLike, label: Any, n: int | None = None
) -> tuple[Contribution, ...]:
    """Say which seen classes pulled an instance to a class, the strongest first.

    Parameters
    ----------
    model : GZSLClassifier
        A fitted method; calibrated or not.
    x : array-like of shape (n_features,) or (1, n_features)
        The instance.
    label : str or int
        A class of the model.
    n : int, optional
        How many to return; by default all.

    Returns
    -------
    tuple of Contribution
        Empty for a method that cannot tell (all but HGKT).
    """
    return model.pulls_of(x, label)[:n] if isinstance(model, TransferClassifier) else ()
