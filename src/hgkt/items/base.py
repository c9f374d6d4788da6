"""One classifier of raw items: what makes features of them, a fitted model, classes in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators import GZSLClassifier, load_model
from hgkt.estimators.scoring import rank_classes
from hgkt.language.describer import ClassDescription, Describer

if TYPE_CHECKING:
    from hgkt.items.training import Training


@dataclass(frozen=True)
class Guess:
    """A class that an item may be of.

    Parameters
    ----------
    label : str
        The class.
    score : float
        Higher is better; scores of one item compare.
    seen : bool
        Whether the class was learned from examples; otherwise it is known by description.
    """

    label: Any
    score: float
    seen: bool


class ItemClassifier(ABC):
    """A fitted model that reads raw items and takes new classes in words.

    A kind of items is a subclass that says how they become `features`.

    Parameters
    ----------
    classifier : GZSLClassifier
        The model; ``about_`` says what its features and attributes were made with.

    Attributes
    ----------
    training_ : Training or None
        What it was trained on, what was left out and what was chosen; None of a loaded model.
    """

    training_: Training | None = None

    def __init__(self, classifier: GZSLClassifier) -> None:
        self.classifier = classifier
        self.about: dict[str, Any] = getattr(classifier, "about_", {})

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> Self:
        """Load a model folder, as `save` or ``hgkt train`` wrote it; `options` as for the class."""
        return cls(load_model(path), **options)

    def save(self, path: str | Path) -> Path:
        """Write the model folder; an existing model there is replaced in one step."""
        return self.classifier.save(path)

    @abstractmethod
    def features(self, items: Any) -> NDArray[np.float32]:
        """Return the features (n_items, n_features) of items; one item counts as a list of one."""

    # ------------------------------------------------------------------ classes
    @cached_property
    def describer(self) -> Describer:
        """What turns descriptions of classes into attribute vectors."""
        return Describer(self.about, self.classifier.class_attributes_.shape[1])

    @property
    def classes_(self) -> NDArray[Any]:
        """All classes, sorted."""
        return self.classifier.classes_

    @property
    def seen_classes_(self) -> NDArray[Any]:
        """Classes learned from examples."""
        return self.classifier.seen_classes_

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """Classes known by description alone."""
        return self.classifier.unseen_classes_

    def add_classes(self, classes: Mapping[str, Any]) -> Self:
        """Add classes by what is said about them; no retraining, all or nothing.

        Parameters
        ----------
        classes : mapping
            From name to a text (or several, of which the mean is taken), to attributes by name,
            to a vector, or to a `hgkt.language.ClassDescription` that has several of these. A
            model takes what it was trained on: texts, numbers, or both.
        """
        described = [ClassDescription.of(name, value) for name, value in classes.items()]
        vectors = self.describer.vectors(described)
        self.classifier.add_classes(dict(zip(classes, vectors, strict=True)))
        return self

    def remove_classes(self, classes: Sequence[str]) -> Self:
        """Remove classes that are known by description; all or nothing."""
        self.classifier.remove_classes(classes)
        return self

    # ------------------------------------------------------------------ answers
    def predict(self, items: Any, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the best class of each item.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        return self.classifier.predict(self.features(items), among)

    def rank(
        self, items: Any, top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[list[Guess]]:
        """Return the `top` best classes of each item, the best first.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        top : int
            How many.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        return self.rank_features(self.features(items), top, among)

    def rank_features(
        self, features: NDArray[Any], top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[list[Guess]]:
        """Return what `rank` does for items whose features (n, n_features) are made already."""
        model = self.classifier
        best, scores = rank_classes(model, features, model.candidates(among), top)
        seen = set(model.seen_classes_.tolist())
        return [
            [Guess(name, score, name in seen) for name, score in zip(names, values, strict=True)]
            for names, values in zip(model.classes_[best].tolist(), scores.tolist(), strict=True)
        ]
