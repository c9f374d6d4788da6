"""What all changes of the registry share: they are counted, made once, and refuse wrong names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from hgkt.serving import schema
from hgkt.serving.changes import Change
from hgkt.serving.entries import ClassEntry, ClassExistsError, UnknownClassError, utc_now
from hgkt.serving.events import Origin
from hgkt.serving.history import RegistryHistory
from hgkt.serving.idempotency import AnsweredError, KeyedRequest, Receipt, oldest_kept, request_row
from hgkt.serving.rows import class_entry


class RegistryChanges(RegistryHistory):
    """A registry whose changes come one after another, each counted once."""

    @contextmanager
    def _changing(
        self, saved: Collection[str], request: KeyedRequest | None, origin: Origin
    ) -> Iterator[Change]:
        """One change, which is counted where the block ends well."""
        origin.check()
        with self._writing() as connection:
            self._lock_model(connection)
            model = self._model(connection)
            if request is not None and self._answered(connection, request) is not None:
                raise AnsweredError(request)
            change = Change(connection, model, origin, utc_now())
            yield change
            change.count()
            if request is not None:
                self._keep(change, request, saved)

    def _keep(self, change: Change, request: KeyedRequest, saved: Collection[str]) -> None:
        """Remember what a request is answered, and forget those of long ago."""
        connection, known = change.connection, schema.requests
        connection.execute(known.delete().where(known.c.created_at < oldest_kept(change.now)))
        count = sa.select(sa.func.count()).select_from(schema.classes)
        n_added = connection.execute(count.where(self._own(schema.classes))).scalar_one()
        rest = set(saved)
        for table in (schema.classes, schema.removed):
            rest -= self._present(connection, table, sorted(rest))
        receipt = Receipt(
            change.revision,
            tuple(change.names),
            n_added + len(rest),
            request.doubts,
            change.n_examples,
        )
        row = request_row(request, receipt, change.now) | {"model_id": self.model_id}
        connection.execute(known.insert(), [schema.digested(known, row)])

    def _known(
        self, change: Change, names: Sequence[str], saved: Collection[str]
    ) -> tuple[dict[str, ClassEntry | None], set[str]]:
        """Return classes as they are, and which of the folder's names were removed before.

        Refuses a name that no class has. What nobody told of a class of the folder is None.
        """
        here = self._named_rows(change.connection, schema.classes, names)
        gone = self._present(change.connection, schema.removed, names)
        told: Mapping[str, ClassEntry] = saved if isinstance(saved, Mapping) else {}
        found: dict[str, ClassEntry | None] = {}
        for name in names:
            if name not in here and (name not in saved or name in gone):
                raise UnknownClassError(name)
            found[name] = class_entry(here[name]) if name in here else told.get(name)
        return found, gone

    def _refuse_taken(self, change: Change, names: Sequence[str], saved: Collection[str]) -> None:
        taken = self._present(change.connection, schema.classes, names)
        taken |= set(names) & set(saved) - self._present(change.connection, schema.removed, names)
        for name in names:
            if name in taken:
                raise ClassExistsError(name)
