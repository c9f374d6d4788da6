"""One classifier of raw items: what makes features of them, a fitted model, classes in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import UNKNOWN, check_number
from hgkt.estimators import GZSLClassifier, Taxonomy, load_model
from hgkt.exceptions import DataError
from hgkt.language.describer import ClassDescription, Describer, keep_descriptions
from hgkt.unknown import MIN_SIZE, Group, Suggestion, find_groups, suggest

if TYPE_CHECKING:
    from hgkt.estimators.base import Answers
    from hgkt.estimators.class_check import ClassCheck
    from hgkt.items.training import Training


@dataclass(frozen=True)
class Guess:
    """A class that an item may be of, or a group of classes.

    Parameters
    ----------
    label : str
        The class or the group.
    probability : float
        Of it among the candidates; see `ItemClassifier.predict_proba`. That of a group is the sum
        over its classes.
    seen : bool
        Whether the class, or one of the group, was learned from examples; otherwise it is known
        by description.
    """

    label: Any
    probability: float
    seen: bool


@dataclass(frozen=True)
class Answer:
    """What a model says of one item.

    Parameters
    ----------
    guess : Guess or None
        The answer: a class, or a group where one was asked for or nothing deeper is sure enough.
        None where the item was rejected, or not even a group is sure enough.
    guesses : tuple of Guess
        The likeliest classes, or groups of the level that was asked for, the best first, whatever
        the answer.
    rejected : bool
        Whether the item looks like no known class.
    novelty : float or None
        From 0 to 1, how little the item looks like any known class; None where the model has no
        thresholds from validation classes.
    set : tuple of str or None
        The classes, or groups of the level that was asked for, among which the true one is, where
        a coverage was asked for.
    """

    guess: Guess | None
    guesses: tuple[Guess, ...]
    rejected: bool = False
    novelty: float | None = None
    set: tuple[Any, ...] | None = None

    @property
    def label(self) -> Any:
        """The class or group; None where there is no answer."""
        return None if self.guess is None else self.guess.label


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

    A kind of items is a subclass that says how they become `features`, and what of ``about_`` a
    model needs for that.

    Parameters
    ----------
    classifier : GZSLClassifier
        The model; ``about_`` says what its features and attributes were made with.
    device : {"auto", "cpu", "cuda"}
        Where features are made.

    Attributes
    ----------
    training_ : Training or None
        What it was trained on, what was left out and what was chosen; None of a loaded model.
    """

    training_: Training | None = None
    _needed: ClassVar[str]
    _unfit: ClassVar[str]

    def __init__(self, classifier: GZSLClassifier, device: str = "auto") -> None:
        self.classifier, self._device = classifier, device
        self.about: dict[str, Any] = getattr(classifier, "about_", {})
        if not self.about.get(self._needed):
            raise DataError(self._unfit)

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

    def taxonomy(self, among: str | Sequence[Any] = "all") -> Taxonomy:
        """Return the groups of the classes, as a tree."""
        return self.classifier.taxonomy(among)

    def add_classes(
        self, classes: Mapping[str, Any], parents: Mapping[str, str | None] | None = None
    ) -> Self:
        """Add classes by what is said about them; no retraining, all or nothing.

        Parameters
        ----------
        classes : mapping
            From name to a text (or several, of which the mean is taken), to attributes by name,
            to a vector, or to a `hgkt.language.ClassDescription` that has several of these. A
            model takes what it was trained on: texts, numbers, or both.
        parents : mapping, optional
            The groups that they lie in, by class; see `GZSLClassifier.set_parents`.
        """
        vectors, texts = self._described(classes)
        self.classifier.add_classes(vectors, parents)
        keep_descriptions(self.classifier, vectors, texts)
        return self

    def check_class(
        self, description: Any, name: str | None = None, parent: str | None = None
    ) -> ClassCheck:
        """Say what would become of a class if it were added; nothing is changed.

        Parameters
        ----------
        description : str, sequence, mapping or ClassDescription
            What is said about it, as `add_classes` takes it.
        name : str, optional
            Its name, which must be free.
        parent : str, optional
            The group that it is to be in; the check says if its nearest classes lie elsewhere.

        Returns
        -------
        ClassCheck
            ``str(check)`` says it in sentences.
        """
        label = "new class" if name is None else name
        vector = self._described({label: description})[0][label]
        return self.classifier.check_class(vector, name, parent)

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
        vectors, texts = self._described(classes or {})
        model.grow(sums, vectors or None)
        keep_descriptions(model, vectors, texts)
        return self

    def remove_classes(self, classes: Sequence[str]) -> Self:
        """Remove classes that are known by description; all or nothing."""
        self.classifier.remove_classes(classes)
        return self

    def _described(
        self, classes: Mapping[str, Any]
    ) -> tuple[dict[str, NDArray[np.float64]], dict[str, list[str]]]:
        """Return the attribute vectors of classes, and the texts they were described by."""
        described = {name: ClassDescription.of(name, value) for name, value in classes.items()}
        vectors = self.describer.vectors(list(described.values()))
        texts = {name: each.texts or [] for name, each in described.items()}
        return dict(zip(classes, vectors, strict=True)), texts

    # ------------------------------------------------------------------ answers
    # `items` is one item or several, as `features` takes them; `among` are the candidates: "all",
    # "seen", "unseen" or a sequence of classes; `level` is "group" or a number from 1, the top.
    def predict(
        self,
        items: Any,
        among: str | Sequence[Any] = "all",
        reject: float | None = None,
        level: str | int | None = None,
        at_least: float | None = None,
    ) -> NDArray[Any]:
        """Return the best class of each item, or the group that is sure enough.

        Parameters
        ----------
        items : item or iterable of items
            See `features`.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        reject : float, optional
            The share of items of known classes that may be rejected by mistake. Items that look
            like no known class are then labelled `hgkt.UNKNOWN`.
        level : "group" or int, optional
            Answer with groups of this level of the taxonomy; 1 is the top. A class that lies
            higher stands for itself.
        at_least : float, optional
            Back off: answer with the class if its probability is at least this, else with the
            deepest group that reaches it, else with `hgkt.UNKNOWN`. See `Taxonomy.back_off`.
        """
        features = self.features(items)
        if level is None and at_least is None:
            return self.classifier.predict(features, among, reject)
        answers = self.answers(features, 1, among, reject, level=level, at_least=at_least)
        labels = [UNKNOWN if answer.guess is None else answer.guess.label for answer in answers]
        return np.array(labels)

    def predict_proba(self, items: Any, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the probability of every candidate for each item; see `GZSLClassifier`."""
        return self.classifier.predict_proba(self.features(items), among)

    def predict_set(
        self,
        items: Any,
        coverage: float = 0.9,
        among: str | Sequence[Any] = "all",
        level: str | int | None = None,
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
        level : "group" or int, optional
            Name the groups of this level that hold the classes of the set.
        """
        answers = self.answers(self.features(items), 1, among, coverage=coverage, level=level)
        return [np.array(answer.set) for answer in answers]

    def novelty(self, items: Any) -> NDArray[np.float64]:
        """Return how little each item looks like any known class, from 0 to 1."""
        return self.classifier.novelty(self.features(items))

    def rank(
        self,
        items: Any,
        top: int = 3,
        among: str | Sequence[Any] = "all",
        level: str | int | None = None,
    ) -> list[list[Guess]]:
        """Return the `top` likeliest classes, or groups, of each item, the best first.

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
        level : "group" or int, optional
            Rank the groups of this level.
        """
        answers = self.answers(self.features(items), top, among, level=level)
        return [list(answer.guesses) for answer in answers]

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
        level: str | int | None = None,
        at_least: float | None = None,
    ) -> list[Answer]:
        """Return all that is asked of items whose features are made; they are scored once.

        Parameters
        ----------
        features : ndarray of shape (n_items, n_features)
            What `features` returned.
        top : int
            How many classes to name.
        among, reject, coverage, level, at_least
            See `predict` and `predict_set`.
        """
        check_number("top", top, low=1, integer=True)
        if level is not None and at_least is not None:
            raise DataError(
                "level and at_least exclude each other: say either how deep or how sure"
            )
        depth = None if level is None else self.taxonomy().level(level)
        found = self.classifier.answers(features, among, reject, coverage)
        tree = Taxonomy.of(found.classes.tolist(), self.classifier.parents_)
        asked = found if depth is None else _at_level(found, tree, depth)
        learned, labels, names = self._learned(tree), asked.classes.tolist(), tree.names.tolist()

        def guess(label: Any, chance: float) -> Guess:
            return Guess(label, chance, label in learned)

        # Equal probabilities, of ones and zeros, are told apart by the score.
        order = np.lexsort((-asked.scores, -asked.probabilities), axis=1)[:, :top]
        guesses = [
            tuple(guess(labels[column], float(chances[column])) for column in columns)
            for chances, columns in zip(asked.probabilities, order, strict=True)
        ]
        best: list[Guess | None] = [ranked[0] for ranked in guesses]
        if at_least is not None:
            nodes, sure = tree.back_off(found.probabilities, at_least)
            best = [
                guess(names[node], chance) if node >= 0 else None
                for node, chance in zip(nodes.tolist(), sure.tolist(), strict=True)
            ]
        nothing = [None] * len(guesses)
        rejected = (found.labels == UNKNOWN).tolist()
        answered = [None if out else one for one, out in zip(best, rejected, strict=True)]
        novelty = nothing if found.novelty is None else found.novelty.tolist()
        sets = nothing if coverage is None else [tuple(each.tolist()) for each in asked.sets()]
        rows = zip(answered, guesses, rejected, novelty, sets, strict=True)
        return [Answer(*row) for row in rows]

    def _learned(self, tree: Taxonomy) -> set[Any]:
        """Return the classes that were learned from examples, and the groups that hold one."""
        seen = np.isin(tree.names[: tree.n_classes], self.seen_classes_)
        holding = (tree.members @ seen) > 0
        holding[: tree.n_classes] = seen  # a class with others below it answers for itself
        return set(tree.names[holding].tolist())

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

        def relatives(guesses: Sequence[Guess]) -> tuple[Relative, ...]:
            return tuple(Relative(g.label, g.probability, examples.get(g.label)) for g in guesses)

        answers, nearest = self.answers(features, 1, among), self.answers(features, top, "seen")
        pairs = zip(answers, nearest, strict=True)
        return [Explanation(answer.guesses[0], relatives(near.guesses)) for answer, near in pairs]


def _at_level(found: Answers, tree: Taxonomy, level: int) -> Answers:
    """Return what is said of rows with the groups of a level in place of classes."""
    names, chances = tree.at_level(found.probabilities, level)
    members = found.members
    if members is not None:  # a group is in a set that holds one of its classes
        members = tree.at_level(members.astype(np.float64), level)[1] > 0
    return replace(found, classes=names, probabilities=chances, scores=chances, members=members)
