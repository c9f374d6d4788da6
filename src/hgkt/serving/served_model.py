"""The served model: the current edition for readers, kept level with the class registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_class_name
from hgkt.estimators import GZSLClassifier
from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import Edition, label_of, made_with
from hgkt.serving.entries import (
    ClassEntry,
    ClassExistsError,
    ClassLearnedError,
    NoGrowthError,
    UnknownClassError,
    utc_now,
)
from hgkt.serving.events import NOBODY, ClassEvent, Origin
from hgkt.serving.following import FollowedModel
from hgkt.serving.idempotency import AnsweredError, KeyedRequest, Receipt
from hgkt.serving.identity import model_identity
from hgkt.serving.proposals import edit_doubts, refuse_unsound, refuse_unusable
from hgkt.serving.registry import ClassRegistry
from hgkt.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from hgkt.language import ClassDescription, Describer


class ServedModel(FollowedModel):
    """A model whose classes come, change and go while it is read.

    Parameters
    ----------
    model : GZSLClassifier
        The model as loaded from its folder; it is not changed.
    registry : ClassRegistry
        Where added classes are kept.
    poll_seconds : float
        How often to look.

    Attributes
    ----------
    trouble : str or None
        What was wrong at the last look, in a sentence.
    """

    def __init__(
        self, model: GZSLClassifier, registry: ClassRegistry, poll_seconds: float = 0.25
    ) -> None:
        super().__init__(model, registry, poll_seconds)
        self._describing = threading.Lock()
        self._growing = threading.Lock()

    @classmethod
    def open(cls, model: GZSLClassifier, settings: ServiceSettings) -> Self:
        """Open the registry that the settings name for a model; the caller starts and closes."""
        file = None if settings.pin is None else settings.pin.database
        registry = ClassRegistry(settings.database_url(), model_identity(model), file)
        try:
            return cls(model, registry, settings.poll_seconds)
        except Exception:
            registry.close()
            raise

    @cached_property
    def describer(self) -> Describer:
        """What turns descriptions into attribute vectors."""
        from hgkt.language import Describer

        return Describer(made_with(self._base), self._n_attributes)

    def vectors(self, descriptions: Sequence[ClassDescription]) -> list[NDArray[np.float64]]:
        """Return the attribute vector of each description."""
        describer = self.describer
        with self._describing:  # one sentence encoder, one thread at a time
            return list(describer.vectors(descriptions))

    # ------------------------------------------------------------------ changing
    def add(
        self,
        descriptions: Sequence[ClassDescription],
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> tuple[Edition, list[str]]:
        """Add described classes, all or nothing.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            The classes.
        request : KeyedRequest, optional
            What asks for it, of which a receipt is kept; see `once`.
        origin : Origin
            Who and why, for the log.

        Returns
        -------
        edition : Edition
            One that has the classes.
        doubts : list of str
            What is doubtful about them, in sentences.
        """
        edition = self.refresh()
        given: dict[str, ClassDescription] = {}
        for description in descriptions:
            name = edition.canonical(description.name)
            check_class_name(name)
            if name in given:
                raise DataError(f"class {description.name!r} was given twice")
            if name in edition.columns:
                raise ClassExistsError(description.name)
            given[name] = description
        vectors = dict(zip(given, self.vectors(descriptions), strict=True))
        labels = {label_of(edition.model, name): vector for name, vector in vectors.items()}
        doubts = edition.model.class_doubts(labels)
        refuse_unusable(self._base, vectors)
        now = utc_now()
        entries = [
            ClassEntry(name, vectors[name], _text(described), now)
            for name, described in given.items()
        ]
        if request is not None:
            request = replace(request, doubts=tuple(doubts))
        revision = self.registry.add(entries, self._saved, request, origin)
        log = [ClassEvent(revision, "add", entry) for entry in entries]
        return self._reach(revision, log), doubts

    def remove(
        self,
        names: Sequence[str],
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> Edition:
        """Remove added classes, all or nothing; return an edition without them."""
        edition = self.refresh()
        leaving = [self._changeable(edition, name, "removed") for name in dict.fromkeys(names)]
        revision = self.registry.remove(leaving, self._saved, request, origin)
        log = [ClassEvent(revision, "remove", ClassEntry(name)) for name in leaving]
        return self._reach(revision, log)

    def edit(
        self,
        name: str,
        description: ClassDescription | None = None,
        new_name: str | None = None,
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> tuple[Edition, list[str]]:
        """Give an added class another description, another name, or both.

        Parameters
        ----------
        name : str
            The class.
        description : ClassDescription, optional
            By what it is described from now on; its own name does not count.
        new_name : str, optional
            What it is called from now on.
        request, origin
            As in `add`.

        Returns
        -------
        edition : Edition
            One that has it so.
        doubts : list of str
            What is doubtful about it, in sentences.
        """
        edition = self.refresh()
        if description is None and new_name is None:
            raise DataError(f"nothing was said that class {name!r} is to become")
        old = self._changeable(edition, name, "edited")
        new = old if new_name is None else edition.canonical(new_name)
        check_class_name(new)
        if new != old and new in edition.columns:
            raise ClassExistsError(str(new_name))
        if description is None:
            vector = edition.model.class_attributes_[edition.columns[old]]
        else:
            vector = self.vectors([description])[0]
        doubts = edit_doubts(edition, old, new, vector)
        if request is not None:
            request = replace(request, doubts=tuple(doubts))
        if description is None:
            revision = self.registry.rename({old: new}, self._saved, request, origin)
        else:
            refuse_unusable(self._base, {new: vector})
            entry = ClassEntry(new, np.asarray(vector, dtype=np.float64), _text(description))
            revision = self.registry.edit({old: entry}, self._saved, request, origin)
        return self._reach(revision), doubts

    def grow(
        self,
        name: str,
        X: NDArray[Any],
        request: KeyedRequest | None = None,
        origin: Origin = NOBODY,
    ) -> Edition:
        """Let a class learn from feature rows (n, n_features) of its own; return an edition so.

        Their sums are kept, the rows are not. The model is tried before anything is written.
        """
        with self._growing:  # one after another: every change solves the model anew
            edition = self.refresh()
            model = edition.model
            if not model.can_grow:
                raise NoGrowthError(
                    f"the method of this model, {type(model).__name__}, cannot learn from more "
                    "examples once it is fitted"
                )
            column = edition.find(name)
            known = edition.names[column]
            sums = model.example_sums(X)
            event = ClassEvent(edition.revision + 1, "grow", ClassEntry(known), sums=sums)
            grown = edition.follow([event])
            if grown is None:
                raise AssertionError("growth can always be followed")
            refuse_unsound(grown.model, known)
            revision = self.registry.grow(
                {known: sums}, self._saved, request, origin, learned=self._learned
            )
            return self._reach(revision, prepared=(edition, grown))

    def rollback(
        self, revision: int, request: KeyedRequest | None = None, origin: Origin = NOBODY
    ) -> Edition:
        """Make the classes what they were at a revision, by a change of its own."""
        self.refresh()
        self.at(revision)  # a state that no longer fits the model is refused before it is written
        return self._reach(self.registry.rollback(revision, self._saved, request, origin))

    def _changeable(self, edition: Edition, name: str, change: str) -> str:
        """Return the name of a class that was added, as the model writes it."""
        known = edition.names[edition.find(name)]
        if known in self._learned:
            raise ClassLearnedError(known, change)
        return known

    def once(self, request: KeyedRequest, change: Callable[[], object]) -> Receipt:
        """Make a change, unless its request was answered before; return the receipt.

        Parameters
        ----------
        request : KeyedRequest
            What asks for it.
        change : callable
            Makes it, by `add` or `remove` with the same request.
        """
        receipt = self.registry.receipt(request)
        if receipt is None:
            try:
                change()
            except (AnsweredError, ClassExistsError, UnknownClassError):
                # The same request may have been faster, in this process or another.
                receipt = self.registry.receipt(request)
                if receipt is None:
                    raise
        receipt = receipt or self.registry.receipt(request)
        if receipt is None:
            raise RegistryError("corrupt", self.registry.place)  # it was written a moment ago
        if self._current.revision < receipt.revision:
            self.refresh()
        return receipt


def _text(description: ClassDescription) -> str | None:
    return "\n".join(description.texts or []) or None
