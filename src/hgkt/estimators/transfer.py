"""Methods that embed classes in visual space, and can say from which seen classes they did."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_number
from hgkt.estimators._presets import refuse_moved_parameters, take_preset
from hgkt.estimators._snapshots import snapshot
from hgkt.estimators.base import ClassTable, GZSLClassifier
from hgkt.estimators.explanation import ClassExplanation, Contribution, PredictionExplanation
from hgkt.estimators.state_rules import Rule

_PREFIX = "transfer/"


class Transfer(Protocol):
    """How knowledge gets from seen classes to others, once it is fitted."""

    def embed(self, attributes: NDArray[np.float64]) -> NDArray[Any]:
        """Embed classes by their attributes (U, d): (U, D)."""
        ...

    def features(self, X: NDArray[Any]) -> NDArray[Any]:
        """Bring features (n, D) to where classes are embedded."""
        ...

    def score_mapped(self, features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
        """Score such features against embeddings (C, D): (n, C)."""
        ...

    def state(self) -> dict[str, NDArray[Any]]:
        """Return every array that `restore` needs."""
        ...

    def restore(self, state: Mapping[str, NDArray[Any]], attributes: NDArray[np.float64]) -> None:
        """Set what `state` returned; `attributes` (L, d) are those of seen classes."""
        ...


class TransferClassifier(GZSLClassifier):
    """A method that embeds classes by a `Transfer`, and can say from which seen classes.

    Subclasses implement `_fit_seen`, which sets ``_transfer``, `_make_transfer`, `_source_weights`
    and, where a score is a sum over seen classes, `_pulls`.
    """

    __signature__: ClassVar[inspect.Signature]
    _scores_classes_apart: ClassVar[bool] = True
    _transfer: Any  # a Transfer; subclasses say which

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        """Refuse a parameter that has moved with a sentence that says where."""
        refuse_moved_parameters(cls, parameters)
        result: Self = super().__new__(cls)
        return result

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Whoever asks for the signature of the class gets that of __init__, not of __new__.
        own = inspect.signature(cls.__init__)
        cls.__signature__ = own.replace(parameters=list(own.parameters.values())[1:])

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
    def _make_transfer(self) -> Transfer:
        """Return a transfer with this model's parameters, to be restored."""

    def _embed_classes(self, attributes: NDArray[np.float64]) -> ClassTable:
        return {"embedding": self._transfer.embed(attributes)}

    def _map_features(self, X: NDArray[Any]) -> NDArray[Any]:
        features: NDArray[Any] = self._transfer.features(X)
        return features

    def _score(self, X: NDArray[Any], table: ClassTable, seen: bool) -> NDArray[Any]:
        scores: NDArray[Any] = self._transfer.score_mapped(X, table["embedding"])
        return scores

    def _state(self) -> dict[str, NDArray[Any]]:
        transfer = {_PREFIX + key: array for key, array in self._transfer.state().items()}
        return super()._state() | transfer

    @abstractmethod
    def _transfer_rules(self, names: Collection[str]) -> dict[str, Rule]:
        """Return what each array of the transfer's state must look like, given those there are."""

    def _state_rules(self, names: Collection[str]) -> dict[str, Rule]:
        there = {name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)}
        own = {_PREFIX + name: rule for name, rule in self._transfer_rules(there).items()}
        return super()._state_rules(names) | own

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self._transfer = self._make_transfer()
        own = {k.removeprefix(_PREFIX): v for k, v in state.items() if k.startswith(_PREFIX)}
        self._transfer.restore(own, self._seen_attributes)
        super()._restore({k: v for k, v in state.items() if not k.startswith(_PREFIX)})

    # ------------------------------------------------------------------ explaining
    @abstractmethod
    def _source_weights(self, column: int) -> NDArray[np.float64]:
        """Weight of each seen class (L,) in the embedding of the class in `column`."""

    def _pulls(self, row: NDArray[Any], column: int) -> NDArray[np.float64]:
        """What each seen class (L,) adds to the score of one row (1, D) for a class."""
        return self._source_weights(column)

    def explain_class(self, label: Any) -> ClassExplanation:
        """Say from which seen classes a class was made.

        Parameters
        ----------
        label : str or int
            Any class of the model.
        """
        now = snapshot(self)
        column = now.column_of(label)
        sources = now._rank(now._source_weights(column))
        return ClassExplanation(label, bool(now.seen_mask_[column]), sources)

    def explain(self, X: ArrayLike, n_runner_ups: int = 3) -> list[PredictionExplanation]:
        """Say for each row why it was given its class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        n_runner_ups : int
            How many other classes to name.
        """
        check_number("n_runner_ups", n_runner_ups, low=1, integer=True)
        now = snapshot(self)
        scores = now.score_classes(X)
        features = now._check_features(X)
        labels = now.classes_.tolist()
        explanations = []
        for row, order in enumerate(np.argsort(-scores, axis=1, kind="stable")):
            best, others = order[0], order[1 : n_runner_ups + 1]
            explanations.append(
                PredictionExplanation(
                    labels[best],
                    float(scores[row, best]),
                    float(scores[row, best] - scores[row, order[1]]),
                    tuple(Contribution(labels[c], float(scores[row, c])) for c in others),
                    now._rank(now._pulls(features[row : row + 1], int(best))),
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
        now = snapshot(self)
        return now._rank(now._pulls(now.one_row(x), now.column_of(label)))

    def _rank(self, weights: NDArray[np.float64]) -> tuple[Contribution, ...]:
        order = np.argsort(-np.abs(weights), kind="stable")
        labels = self.seen_classes_.tolist()
        return tuple(Contribution(labels[c], float(weights[c])) for c in order if weights[c] != 0)
