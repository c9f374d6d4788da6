"""What the service answers from: immutable snapshots of the model, kept level with the registry."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from hgkt._validation import attribute_matrix
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.views import view_of
from hgkt.exceptions import DataError
from hgkt.serving._snapshot import Cache, Snapshot, follow_events, label_of, load_snapshot
from hgkt.serving.entries import (
    ClassEntry,
    ClassEvent,
    ClassExistsError,
    ClassLearnedError,
    check_name,
    utc_now,
)
from hgkt.serving.registry import ClassRegistry, RegistryError, model_identity
from hgkt.serving.settings import ServiceSettings

if TYPE_CHECKING:
    from hgkt.language import ClassDescription, Describer

__all__ = ["Snapshot", "SnapshotStore", "label_of", "open_store"]

logger = logging.getLogger(__name__)


class SnapshotStore:
    """The current snapshot of a served model; writes go through the registry.

    A thread looks every `poll_seconds` for what other processes have changed and puts a new
    snapshot in the place of the old one. Readers take `current()` once and work with that.

    Parameters
    ----------
    model : GZSLClassifier
        The model as loaded from its folder; it is not changed.
    registry : ClassRegistry
        Where added classes are kept.
    poll_seconds : float
        How often to look.
    describer : Describer, optional
        Turns descriptions into attribute vectors; by default that of the model.
    """

    def __init__(
        self,
        model: GZSLClassifier,
        registry: ClassRegistry,
        poll_seconds: float = 0.25,
        describer: Describer | None = None,
    ) -> None:
        self.registry = registry
        self.poll_seconds = poll_seconds
        self._base = view_of(model)
        self._saved = frozenset(map(str, model.unseen_classes_.tolist()))
        self._seen = frozenset(model.seen_classes_.tolist())
        self._n_attributes = model.class_attributes_.shape[1]
        self._describer = describer
        self._describing = threading.Lock()
        self._changing = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._trouble: str | None = None
        self._current = self._reload(Cache())

    # ------------------------------------------------------------------ reading
    def current(self) -> Snapshot:
        """Return the newest snapshot of this process; costs nothing."""
        return self._current

    def refresh(self) -> Snapshot:
        """Look for changes now and return the newest snapshot."""
        try:
            if self.registry.revision() != self._current.revision:
                with self._changing:
                    self._catch_up()
        except RegistryError as error:
            self._trouble = str(error)
            raise
        self._trouble = None
        return self._current

    def healthy(self) -> bool:
        """Return whether the last look at the registry went well and the thread still looks."""
        alive = self._thread is None or self._thread.is_alive()
        return alive and self._trouble is None

    @property
    def trouble(self) -> str | None:
        """What was wrong at the last look, in a sentence."""
        return self._trouble

    @property
    def describer(self) -> Describer:
        """What turns descriptions into attribute vectors."""
        if self._describer is None:
            from hgkt.language import Describer

            self._describer = Describer(getattr(self._base, "about_", {}), self._n_attributes)
        return self._describer

    # ------------------------------------------------------------------ changing
    def add(self, descriptions: Sequence[ClassDescription]) -> Snapshot:
        """Add described classes, all or nothing; return a snapshot that has them.

        Parameters
        ----------
        descriptions : sequence of ClassDescription
            Names and what is known of them.
        """
        now = self.refresh()
        labels: dict[Any, ClassDescription] = {}
        for description in descriptions:
            check_name(description.name)
            label = now.label(description.name)
            if label in labels:
                raise DataError(f"class {description.name!r} was given twice")
            if label in now.columns():
                raise ClassExistsError(description.name)
            labels[label] = description
        describer = self.describer
        with self._describing:  # one sentence encoder, one thread at a time
            vectors = describer.vectors(descriptions)
        table = dict(zip(labels, vectors, strict=True))
        self._try(table)
        time = utc_now()
        entries = [
            ClassEntry(str(label), table[label], "\n".join(given.texts or []) or None, time)
            for label, given in labels.items()
        ]
        revision = self.registry.add(entries, self._saved)
        return self._reach(revision, "add", entries)

    def remove(self, names: Sequence[str]) -> Snapshot:
        """Remove added classes, all or nothing; return a snapshot without them.

        Parameters
        ----------
        names : sequence of str
            The classes.
        """
        now = self.refresh()
        labels = dict.fromkeys(now.find(name) for name in names)
        for label in labels:
            if label in self._seen:
                raise ClassLearnedError(str(label))
        entries = [ClassEntry(str(label), np.empty(0)) for label in labels]
        revision = self.registry.remove([entry.name for entry in entries], self._saved)
        return self._reach(revision, "remove", entries)

    def _try(self, table: Mapping[Any, Any]) -> None:
        """Refuse classes that the model cannot take, before they are written."""
        rows = attribute_matrix(table, list(table), self._n_attributes)
        with np.errstate(all="ignore"):
            trial = view_of(self._base)
            trial.remove_classes(trial.unseen_classes_.tolist())
            trial.add_classes(dict(zip(table, rows, strict=True)))
            scores = trial.score_classes(np.ones((1, trial.n_features_in_)))[0]
        embedded = [grown.array for grown in trial._added_table.values()]
        for row, label in enumerate(table):
            # A score that is infinite or no number would win every prediction.
            good = all(np.isfinite(array[row]).all() for array in embedded)
            if not good or not scores[len(self._seen) + row] < np.inf:
                raise DataError(
                    f"the attributes of class {str(label)!r} are too large for this model; its "
                    "scores would not be finite numbers"
                )

    def _reach(self, revision: int, kind: str, entries: Sequence[ClassEntry]) -> Snapshot:
        """Return a snapshot at `revision`, the change that was just written, or later."""
        with self._changing:
            if self._current.revision == revision - 1:
                # Nobody came between, so what is written is known without asking again.
                log = [ClassEvent(revision, kind, entry) for entry in entries]
                self._current = follow_events(self._current, log)
            elif self._current.revision < revision:
                self._catch_up()
        return self._current

    # ------------------------------------------------------------------ following the registry
    def _catch_up(self) -> None:
        """Put the newest snapshot in place; the lock for changes is held."""
        known = self._current
        log = self.registry.events_after(known.revision)
        if log and log[0].revision == known.revision + 1:
            with self._readable():
                self._current = follow_events(known, log)
        elif log or self.registry.revision() != known.revision:
            # The log has a gap or goes back: it was pruned, or the database was restored.
            self._current = self._reload(known._shared)

    def _reload(self, shared: Cache) -> Snapshot:
        state = self.registry.state()
        with self._readable():
            return load_snapshot(self._base, state, shared)

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
                pass  # told in the log where it happened; the old snapshot goes on answering
            except Exception:
                self._trouble = "the class registry could not be followed; the log says why"
                logger.exception("following the class registry failed")


def open_store(settings: ServiceSettings, model: GZSLClassifier) -> SnapshotStore:
    """Open the registry that the settings name for a loaded model; the caller starts and closes.

    Parameters
    ----------
    settings : ServiceSettings
        The service's settings.
    model : GZSLClassifier
        The model, as loaded from its folder.
    """
    registry = ClassRegistry(settings.database_url(), model_identity(model))
    try:
        return SnapshotStore(model, registry, settings.poll_seconds)
    except Exception:
        registry.close()
        raise
