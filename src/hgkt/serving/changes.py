"""One change of the classes: the rows that it writes, and the sum of digests that follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.serving import schema
from hgkt.serving.editions import ClassEntry


@dataclass
class Change:
    """One change under way: what it writes, and the sum of digests that follows.

    Parameters
    ----------
    connection : Connection
        Its transaction.
    model_id : str
        The model that it belongs to.
    revision : int
        Its number.
    content : str
        Sum of the digests of the model's classes and removed names.
    """

    connection: Connection
    model_id: str
    revision: int
    content: str

    def insert(self, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows of classes or removed names."""
        if rows:
            whole = [schema.digested(table, row | {"model_id": self.model_id}) for row in rows]
            self.connection.execute(table.insert(), whole)
            self.content = schema.add_digests(self.content, (row["digest"] for row in whole))

    def delete(self, table: sa.Table, rows: Sequence[Any]) -> None:
        """Delete rows of classes, by their numbers."""
        numbers = [row.id for row in rows]
        self.connection.execute(table.delete().where(table.c.id.in_(numbers)))
        self.content = schema.add_digests(self.content, (row.digest for row in rows), sign=-1)

    def log(self, kind: str, entries: Sequence[ClassEntry], now: str) -> None:
        """Write the lines of the log, and count the change."""
        rows = []
        for position, entry in enumerate(entries):
            row = row_of(entry) | {"attributes": None} if kind == "remove" else row_of(entry)
            del row["added_at"]
            row |= {"model_id": self.model_id, "revision": self.revision, "position": position}
            rows.append(schema.digested(schema.events, row | {"kind": kind, "created_at": now}))
        self.connection.execute(schema.events.insert(), rows)
        own = {"model_id": self.model_id, "revision": self.revision, "content": self.content}
        table = schema.models
        query = table.update().where(table.c.model_id == self.model_id)
        self.connection.execute(query.values(schema.digested(table, own)))


def row_of(entry: ClassEntry) -> dict[str, Any]:
    """Return what the tables of classes and events keep of a class."""
    return {
        "name": entry.name,
        "attributes": np.asarray(entry.attributes, dtype="<f8").tobytes(),
        "text": entry.text,
        "added_at": entry.added_at,
    }


def entry_of(row: Any, time: str) -> ClassEntry:
    """Return the class that a row keeps."""
    attributes = np.frombuffer(row.attributes or b"", dtype="<f8").astype(np.float64)
    return ClassEntry(row.name, attributes, row.text, time)
