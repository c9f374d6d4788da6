"""Reading the registry: its classes now and at any revision, its log, and earlier answers."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.exceptions import DataError
from hgkt.serving import schema
from hgkt.serving.database import RegistryError
from hgkt.serving.entries import ClassEntry, UnknownRevisionError, utc_now
from hgkt.serving.events import ClassEvent, Ledger, RegistryState
from hgkt.serving.idempotency import KeyedRequest, Receipt, oldest_kept
from hgkt.serving.rows import LISTED, class_entry, class_event, sums_intact
from hgkt.serving.transactions import RegistryTables
from hgkt.statistics import ExampleSums

_LOG = schema.events


class RegistryHistory(RegistryTables):
    """What the registry holds, and how it came to that."""

    def revision(self) -> int:
        """Return the number of changes so far."""
        with self._reading() as connection:
            return int(self._model(connection)["revision"])

    def oldest(self) -> int:
        """Return the first revision whose classes the log still leads to."""
        with self._reading() as connection:
            return int(self._model(connection)["oldest"] or 0)

    def state(self) -> RegistryState:
        """Return revision, classes, removed names and growth as they are at one moment."""
        with self._reading(consistent=True) as connection:
            return self._state(connection)

    def state_at(self, revision: int) -> RegistryState:
        """Return the state right after a change; 0 is before the first one.

        Raises `UnknownRevisionError` where the log does not lead there, because there is no such
        revision yet or because it was pruned.
        """
        with self._reading(consistent=True) as connection:
            return self._state_at(connection, revision)[0]

    def entries(self) -> tuple[ClassEntry, ...]:
        """Return the added classes in the order they came."""
        return self.state().entries

    def events_after(self, revision: int) -> list[ClassEvent]:
        """Return what happened after `revision`, the last one known, in order."""
        with self._reading() as connection:
            return self._log(connection, _LOG.c.revision > revision)

    def events(self, after: int = 0, limit: int = 100, name: str | None = None) -> list[ClassEvent]:
        """Return lines of the log after a revision, in order, without the sums of examples.

        Parameters
        ----------
        after : int
            The last revision that is known.
        limit : int
            The most lines, but for a single change with more of them: changes come whole.
        name : str, optional
            Only lines of a class that has or had this name.
        """
        wanted = [self._own(_LOG), _LOG.c.revision > after, _LOG.c.kind != "snapshot"]
        if name is not None:
            wanted.append(sa.or_(_LOG.c.name == name, _LOG.c.old_name == name))
        numbers = sa.select(_LOG.c.revision).where(*wanted).order_by(_LOG.c.revision)
        with self._reading(consistent=True) as connection:
            found = connection.execute(numbers.limit(limit + 1)).scalars().all()
            if not found:
                return []
            last = found[-1]
            if len(found) > limit and last != found[0]:
                last = max(number for number in found if number < last)
            query = sa.select(*LISTED).where(*wanted, _LOG.c.revision <= last)
            query = query.order_by(_LOG.c.revision, _LOG.c.position)
            return [class_event(row) for row in self._rows(connection, _LOG, query)]

    def receipt(self, request: KeyedRequest) -> Receipt | None:
        """Return what a request was answered before, within a day; None for a new one."""
        with self._reading() as connection:
            row = self._answered(connection, request)
            return None if row is None else Receipt.from_json(row.receipt)

    # ------------------------------------------------------------------ within a transaction
    def _state(self, connection: Connection) -> RegistryState:
        model = self._model(connection)
        listed = schema.classes
        order = sa.func.coalesce(listed.c.place, 0), listed.c.id
        rows = self._rows(connection, listed, self._select(listed).order_by(*order))
        gone = self._rows(connection, schema.removed, self._select(schema.removed))
        grown = self._rows(connection, schema.growth, self._select(schema.growth))
        found = schema.add_digests(schema.EMPTY, (row.digest for row in [*rows, *gone, *grown]))
        if found != model["content"]:
            raise RegistryError("corrupt", self.place)  # rows are missing, or too many
        return RegistryState(
            model["revision"],
            tuple(class_entry(row) for row in rows),
            frozenset(row.name for row in gone),
            MappingProxyType({row.name: self._sums(row.sums) for row in grown}),
        )

    def _state_at(
        self, connection: Connection, revision: int
    ) -> tuple[RegistryState, RegistryState]:
        """Return the state at a revision, and today's as the log leads to it."""
        model = self._model(connection)
        newest, oldest = int(model["revision"]), int(model["oldest"] or 0)
        if not oldest <= revision <= newest:
            raise UnknownRevisionError(revision, oldest, newest)
        log = self._log(connection, None)
        ledger = Ledger()
        ledger.follow(event for event in log if event.revision <= revision)
        then = ledger.state(revision)
        ledger.follow(event for event in log if event.revision > revision)
        return then, ledger.state(newest)

    def _log(
        self, connection: Connection, wanted: sa.ColumnElement[bool] | None
    ) -> list[ClassEvent]:
        """Return lines of the log with the sums of examples; all, snapshot included, by None."""
        query = self._select(_LOG).order_by(_LOG.c.revision, _LOG.c.position)
        if wanted is not None:
            query = query.where(wanted, _LOG.c.kind != "snapshot")
        rows = self._rows(connection, _LOG, query)
        if not all(sums_intact(row) for row in rows) or not _whole(rows):
            raise RegistryError("corrupt", self.place)
        try:
            return [class_event(row) for row in rows]
        except DataError:
            raise RegistryError("corrupt", self.place) from None

    def _sums(self, octets: bytes) -> ExampleSums:
        try:
            return ExampleSums.from_bytes(octets)
        except DataError:
            raise RegistryError("corrupt", self.place) from None

    def _answered(self, connection: Connection, request: KeyedRequest) -> Any:
        """Return the row of a request that was answered before; refuse another of its key."""
        known = schema.requests
        query = self._select(known).where(known.c.key == request.key)
        rows = self._rows(
            connection, known, query.where(known.c.created_at > oldest_kept(utc_now()))
        )
        for row in rows:
            request.check(row.fingerprint)
        return rows[0] if rows else None


def _whole(rows: list[Any]) -> bool:
    """Return whether no line is missing within a change, and no change between others."""
    groups = [(key, list(group)) for key, group in groupby(rows, attrgetter("revision"))]
    counted = all([row.position for row in group] == list(range(len(group))) for _, group in groups)
    return counted and (not groups or len(groups) == groups[-1][0] - groups[0][0] + 1)
