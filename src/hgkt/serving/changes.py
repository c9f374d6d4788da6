"""One change of the classes: the rows that it writes, and the sum of digests that follows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.serving import schema
from hgkt.serving.entries import ClassEntry
from hgkt.serving.events import NOTHING, ClassEvent, Origin, RegistryState, differences
from hgkt.serving.rows import event_row

_PLACES = 2**20  # of one change: a class's place is its change's and its own there


@dataclass
class Change:
    """One change under way: what it writes, and the sum of digests that follows.

    Parameters
    ----------
    connection : Connection
        Its transaction.
    model : dict
        The model's row: its id, and its revision, content and oldest as they were.
    origin : Origin
        Who makes it, and why.
    now : str
        When.
    """

    connection: Connection
    model: dict[str, Any]
    origin: Origin
    now: str

    def __post_init__(self) -> None:
        self.revision: int = self.model["revision"] + 1
        self.names: list[str] = []
        self.n_examples = 0
        self._content: str = self.model["content"]
        self._n_lines = 0

    def placed(self, entries: Sequence[ClassEntry]) -> list[ClassEntry]:
        """Return entries with the time and the place of this change, as far as they have none."""
        first = self.revision * _PLACES
        return [
            replace(entry, added_at=entry.added_at or self.now, place=entry.place or first + number)
            for number, entry in enumerate(entries)
        ]

    def insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows of classes, removed names or growth."""
        if rows:
            owner = {"model_id": self.model["model_id"]}
            whole = [schema.digested(table, row | owner) for row in rows]
            self.connection.execute(table.insert(), whole)
            self._content = schema.add_digests(self._content, (row["digest"] for row in whole))

    def delete(self, table: sa.Table, rows: Sequence[Any]) -> None:
        """Delete rows that were read, by their names."""
        names = [row.name for row in rows]
        own = table.c.model_id == self.model["model_id"]
        for start in range(0, len(names), 500):  # databases bound the number of parameters
            some = table.c.name.in_(names[start : start + 500])
            self.connection.execute(table.delete().where(own, some))
        self._content = schema.add_digests(self._content, (row.digest for row in rows), sign=-1)

    def log(self, events: Sequence[ClassEvent]) -> None:
        """Write lines of the log; the revision, who and when are those of this change."""
        self._write(
            replace(event, revision=self.revision, origin=self.origin, created_at=self.now)
            for event in events
        )
        self.names += [event.entry.name for event in events if event.entry.name]
        self.n_examples = events[-1].n_examples

    def count(self) -> None:
        """Give the model the revision of this change, and the sum of its classes."""
        self._update({"revision": self.revision, "content": self._content})

    def begin_log(self, state: RegistryState) -> int:
        """Have the log begin with a state instead of what led to it; return how many lines went."""
        table = schema.events
        old = sa.and_(
            table.c.model_id == self.model["model_id"], table.c.revision <= state.revision
        )
        n_lines = self.connection.execute(table.delete().where(old)).rowcount
        self._write(
            replace(line, kind="snapshot", target=None, created_at=self.now)
            for line in differences(NOTHING, state)
        )
        self._update({"oldest": state.revision})
        return int(n_lines)

    def _write(self, lines: Iterable[ClassEvent]) -> None:
        rows = []
        for line in lines:
            place = {"model_id": self.model["model_id"], "position": self._n_lines}
            rows.append(schema.digested(schema.events, event_row(line) | place))
            self._n_lines += 1
        if rows:
            self.connection.execute(schema.events.insert(), rows)

    def _update(self, values: dict[str, Any]) -> None:
        table = schema.models
        self.model = {**self.model, **values}
        query = table.update().where(table.c.model_id == self.model["model_id"])
        self.connection.execute(query.values(schema.digested(table, self.model)))
