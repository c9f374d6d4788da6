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

from hgkt._validation import UNKNOWN, check_number
from hgkt.estimators import GZSLClassifier, load_model
from hgkt.language.describer import ClassDescription, Describer
from hgkt.unknown import Group, Suggestion, find_groups, suggest
from hgkt.unknown.groups import MIN_SIZE

if TYPE_CHECKING:
    from hgkt.estimators.class_check import ClassCheck
    from hgkt.items.training import Training


@dataclass(frozen=True)
class Guess:
    """A class that an item may be of.

    Parameters
    ----------
    label : str
        The class.
    probability : float
        Of this class among the candidates; see `ItemClassifier.predict_proba`.
    seen : bool
        Whether the class was learned from examples; otherwise it is known by description.
    """

    label: Any
    probability: float
    seen: bool


@dataclass(frozen=True)
class Answer:
    """What a model says of one item.

    Parameters
    ----------
    label : str or None
        The class; None where the item looks like no known class and was rejected.
    guesses : tuple of Guess
        The likeliest classes, the best first, whether or not the item was rejected.
    novelty : float or None
        From 0 to 1, how little the item looks like any known class; None where the model has no
        thresholds from validation classes.
    set : tuple of str or None
        The classes among which the true one is, where a coverage was asked for.
    """

    label: Any
    guesses: tuple[Guess, ...]
    novelty: float | None = None
    set: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Relative:
    """A learned class that an item is near to.

    Parameters
    ----------
    label : str
        The class.
    probability : float
        Of this class, were only learned classes possible.
    example : str or None
        A typical item of it that the model was trained on: the file of a photo, or a sentence.
        None where none was kept.
    """

    label: Any
    probability: float
    example: str | None


@dataclass(frozen=True)
class Explanation:
    """Why an item was given its class.

    Parameters
    ----------
    guess : Guess
        The class, its probability, and whether it was learned.
    nearest : tuple of Relative
        The learned classes that the item is nearest to, the nearest first.
    """

    guess: Guess
    nearest: tuple[Relative, ...]


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
        self.classifier.add_classes(self._vectors(classes))
        return self

    def check_class(self, description: Any, name: str | None = None) -> ClassCheck:
        """Say what would become of a class if it were added; nothing is changed.

        Parameters
        ----------
        description : str, sequence, mapping or ClassDescription
            What is said about it, as `add_classes` takes it.
        name : str, optional
            Its name, which must be free.

        Returns
        -------
        ClassCheck
            ``str(check)`` says it in sentences.
        """
        label = "new class" if name is None else name
        return self.classifier.check_class(self._vectors({label: description})[label], name)

    def grow(self, examples: Mapping[str, Any], classes: Mapping[str, Any] | None = None) -> Self:
        """Let classes learn from examples; no retraining, all or nothing.

        Parameters
        ----------
        examples : mapping
            From class to its items, as `features` takes them: added, grown or learned classes.
        classes : mapping, optional
            Classes that the model does not know yet, as `add_classes` takes them.
        """
        model = self.classifier
        sums = {name: model.example_sums(self.features(items)) for name, items in examples.items()}
        model.grow(sums, self._vectors(classes) if classes else None)
        return self

    def remove_classes(self, classes: Sequence[str]) -> Self:
        """Remove classes that are known by description; all or nothing."""
        self.classifier.remove_classes(classes)
        return self

    def _vectors(self, classes: Mapping[str, Any]) -> dict[str, NDArray[np.float64]]:
        """Return the attribute vectors of classes that are described."""
        described = [ClassDescription.of(name, value) for name, value in classes.items()]
        return dict(zip(classes, self.describer.vectors(described), strict=True))

    # ------------------------------------------------------------------ answers
    # `items` is one item or several, as `features` takes them; `among` are the candidates: "all",
    # "seen", "unseen" or a sequence of classes.
    def predict(
        self, items: Any, among: str | Sequence[Any] = "all", reject: float | None = None
    ) -> NDArray[Any]:
        """Return the best class of each item.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        reject : float, optional
            The share of items of known classes that may be rejected by mistake. Items that look
            like no known class are then labelled `hgkt.UNKNOWN`.
        """
        return self.classifier.predict(self.features(items), among, reject)

    def predict_proba(self, items: Any, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the probability of every candidate for each item; see `GZSLClassifier`."""
        return self.classifier.predict_proba(self.features(items), among)

    def predict_set(
        self, items: Any, coverage: float = 0.9, among: str | Sequence[Any] = "all"
    ) -> list[NDArray[Any]]:
        """Return for each item the classes among which the true one is, with a probability.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        coverage : float, default=0.9
            How often a set is to hold the true class.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        return self.classifier.predict_set(self.features(items), coverage, among)

    def novelty(self, items: Any) -> NDArray[np.float64]:
        """Return how little each item looks like any known class, from 0 to 1."""
        return self.classifier.novelty(self.features(items))

    def rank(
        self, items: Any, top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[list[Guess]]:
        """Return the `top` likeliest classes of each item, the best first.

        The probabilities of a model without thresholds from validation classes order the classes
        and are not calibrated.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        top : int
            How many.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        return [list(answer.guesses) for answer in self.answers(self.features(items), top, among)]

    def groups(self, items: Any, min_size: int = MIN_SIZE) -> list[Group]:
        """Find groups among items that look like no known class, the largest first.

        Parameters
        ----------
        items : item or iterable of items
            Those that `predict` rejects; see `features`.
        min_size : int, default=5
            The fewest items of a group.

        Returns
        -------
        list of hgkt.unknown.Group
            Each may become a class: ``model.grow({name: its items}, {name: description})``.
        """
        return find_groups(self.classifier, self.features(items), min_size)

    def suggest(self, items: Any, n: int = 20) -> list[Suggestion]:
        """Choose items whose labels would help most, the best first; see `hgkt.unknown.suggest`.

        Parameters
        ----------
        items : iterable of items
            Without labels; see `features`.
        n : int, default=20
            How many to choose.
        """
        return suggest(self.classifier, self.features(items), n)

    def answers(
        self,
        features: NDArray[Any],
        top: int = 1,
        among: str | Sequence[Any] = "all",
        reject: float | None = None,
        coverage: float | None = None,
    ) -> list[Answer]:
        """Return all that is asked of items whose features are made; they are scored once.

        Parameters
        ----------
        features : ndarray of shape (n_items, n_features)
            What `features` returned.
        top : int
            How many classes to name.
        among, reject, coverage
            See `predict` and `predict_set`.
        """
        check_number("top", top, low=1, integer=True)
        model = self.classifier
        found = model.answers(features, among, reject, coverage)
        seen = set(model.seen_classes_.tolist())
        sets = None if coverage is None else found.sets()
        # Equal probabilities, of ones and zeros, are told apart by the score.
        order = np.lexsort((-found.scores, -found.probabilities), axis=1)[:, :top]
        answers = []
        for row, columns in enumerate(order):
            names = found.classes[columns].tolist()
            chances = found.probabilities[row, columns].tolist()
            answers.append(
                Answer(
                    None if found.labels[row] == UNKNOWN else names[0],
                    tuple(Guess(n, p, n in seen) for n, p in zip(names, chances, strict=True)),
                    None if found.novelty is None else float(found.novelty[row]),
                    None if sets is None else tuple(sets[row].tolist()),
                )
            )
        return answers

    def explain(
        self, items: Any, top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[Explanation]:
        """Say of each item which learned classes it is nearest to, with an example of each.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        top : int
            How many learned classes to name.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates of the answer.
        """
        return self.explain_features(self.features(items), top, among)

    def explain_features(
        self, features: NDArray[Any], top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[Explanation]:
        """Return what `explain` does for items whose features (n, n_features) are made."""
        examples = self.about.get("examples") or {}
        answers = self.answers(features, 1, among)
        nearest = self.answers(features, top, "seen")
        return [
            Explanation(
                answer.guesses[0],
                tuple(
                    Relative(guess.label, guess.probability, examples.get(guess.label))
                    for guess in near.guesses
                ),
            )
            for answer, near in zip(answers, nearest, strict=True)
        ]
