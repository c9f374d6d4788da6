"""The served model: the current edition for readers, kept level with the class registry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._class_names import check_class_name
from hgkt._validation import attribute_matrix
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving.database import RegistryError
from hgkt.serving.editions import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    ClassLearnedError,
    Edition,
    UnknownClassError,
    label_of,
    made_with,
    utc_now,
)
from hgkt.serving.idempotency import AnsweredError, KeyedRequest, Receipt
from hgkt.serving.identity import model_identity
from hgkt.serving.registry import ClassRegistry
from hgkt.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from hgkt.language import ClassDescription, Describer

logger = logging.getLogger(__name__)


class ServedModel:
    """A model whose classes come and go while it is read.

    A thread looks every `poll_seconds` for what other processes have changed and puts a new
    edition in the place of the old one. Readers take `current()` once and work with that.

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
        self.registry = registry
        self.poll_seconds = poll_seconds
        self._base = view_of(model)
        self._saved = frozenset(map(str, model.unseen_classes_.tolist()))
        self._n_attributes = model.class_attributes_.shape[1]
        self._describing = threading.Lock()
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.trouble: str | None = None
        self._current = self._load()

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

    # ------------------------------------------------------------------ reading
    def current(self) -> Edition:
        """Return the newest edition of this process; costs nothing."""
        return self._current

    def refresh(self) -> Edition:
        """Look for changes now and return the newest edition."""
        try:
            if self.registry.revision() != self._current.revision:
                with self._changing:
                    self._catch_up()
        except RegistryError as error:
            self.trouble = str(error)
            raise
        self.trouble = None
        return self._current

    def healthy(self) -> bool:
        """Return whether the last look at the registry went well and the thread still looks."""
        alive = self._thread is None or self._thread.is_alive()
        return alive and self.trouble is None

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
        self, descriptions: Sequence[ClassDescription], request: KeyedRequest | None = None
    ) -> tuple[Edition, list[str]]:
        """Add described classes, all or nothing.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            The classes.
        request : KeyedRequest, optional
            What asks for it, of which a receipt is kept; see `once`.

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
        describer = self.describer
        with self._describing:  # one sentence encoder, one thread at a time
            vectors = dict(zip(given, describer.vectors(descriptions), strict=True))
        labels = {label_of(edition.model, name): vector for name, vector in vectors.items()}
        doubts = edition.model.class_doubts(labels)
        self._try(vectors)
        now = utc_now()
        entries = [
            ClassEntry(name, vectors[name], "\n".join(described.texts or []) or None, now)
            for name, described in given.items()
        ]
        if request is not None:
            request = replace(request, doubts=tuple(doubts))
        revision = self.registry.add(entries, self._saved, request)
        return self._reach(revision, "add", entries), doubts

    def remove(self, names: Sequence[str], request: KeyedRequest | None = None) -> Edition:
        """Remove added classes, all or nothing; return an edition without them."""
        edition = self.refresh()
        columns = dict.fromkeys(edition.find(name) for name in names)
        for column in columns:
            if edition.seen[column]:
                raise ClassLearnedError(edition.names[column])
        leaving = [edition.names[column] for column in columns]
        revision = self.registry.remove(leaving, self._saved, request)
        return self._reach(revision, "remove", [ClassEntry(name) for name in leaving])

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

    def _try(self, vectors: Mapping[str, Any]) -> None:
        """Refuse classes that the model cannot take, before they are written."""
        table = {label_of(self._base, name): vector for name, vector in vectors.items()}
        rows = attribute_matrix(table, list(table), self._n_attributes)
        with np.errstate(all="ignore"):
            trial = view_of(self._base)
            trial.remove_classes(trial.unseen_classes_.tolist())
            trial._add(list(table), rows)
            scores = trial.score_classes(np.ones((1, trial.n_features_in_)))[0]
        embedded = [grown.array for grown in trial._added_table.values()]
        for row, name in enumerate(vectors):
            # A score that is infinite or no number would win every prediction.
            good = all(np.isfinite(array[row]).all() for array in embedded)
            if not good or not scores[trial.candidates("unseen")[row]] < np.inf:
                raise DataError(
                    f"the attributes of class {name!r} are too large for this model; its "
                    "scores would not be finite numbers"
                )

    def _reach(
        self, revision: int, kind: Literal["add", "remove"], entries: Sequence[ClassEntry]
    ) -> Edition:
        """Return an edition at `revision`, the change that was just written, or later."""
        with self._changing:
            if self._current.revision == revision - 1:
                # Nobody came between, so what is written is known without asking again.
                log = [ClassEvent(revision, kind, entry) for entry in entries]
                self._current = self._current.follow(log)
            elif self._current.revision < revision:
                self._catch_up()
        return self._current

    # ------------------------------------------------------------------ following the registry
    def _catch_up(self) -> None:
        """Put the newest edition in place; the lock for changes is held."""
        known = self._current
        log = self.registry.events_after(known.revision)
        if log and log[0].revision == known.revision + 1:
            with self._readable():
                self._current = known.follow(log)
        elif log or self.registry.revision() != known.revision:
            # The log has a gap or goes back: it was pruned, or the database was restored.
            self._current = self._load()

    def _load(self) -> Edition:
        state = self.registry.state()
        with self._readable():
            return Edition.load(self._base, state)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Say that the registry is damaged where its classes do not fit the model."""
        try:
            yield
        except DataError as error:
            logger.error("the class registry %s: %s", self.registry.place, error)
            raise RegistryError("corrupt", self.registry.place) from error

    # ------------------------------------------------------------------ the thread
    def start(self) -> Self:
        """Begin to follow what other processes change."""
        if self._thread is None:
            self._stop.clear()
            self._thread = threading.Thread(target=self._poll, name="hgkt-registry", daemon=True)
            self._thread.start()
        return self

    def close(self) -> None:
        """Stop following and close the registry."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
            self._thread = None
        self.registry.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_details: object) -> None:
        self.close()

    def _poll(self) -> None:
        while not self._stop.wait(self.poll_seconds):
            try:
                self.refresh()
            except RegistryError:
                pass  # told in the log where it happened; the old edition goes on answering
            except Exception:
                self.trouble = "the class registry could not be followed; the log says why"
                logger.exception("following the class registry failed")
