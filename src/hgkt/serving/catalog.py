"""The models that a registry's database knows: their identities, and what is stored of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.exceptions import DataError
from hgkt.serving import schema
from hgkt.serving.entries import utc_now
from hgkt.serving.model_facts import ModelFacts
from hgkt.serving.transactions import RegistryTables

_SHOWN = 12


@dataclass(frozen=True)
class KnownModel:
    """A model that has classes in a database, or had some.

    Parameters
    ----------
    model_id : str
        Its identity.
    revision : int
        Number of changes so far.
    n_classes, n_grown : int
        How many classes were added to it, and how many have grown.
    changed_at : str or None
        When the last change was, as far as the log goes; ISO 8601, UTC.
    facts : ModelFacts or None
        What is known of it; nothing where only an earlier release has served it.
    """

    model_id: str
    revision: int
    n_classes: int
    n_grown: int
    changed_at: str | None
    facts: ModelFacts | None


class ModelCatalog(RegistryTables):
    """All models of a database; itself it is none of them.

    Parameters
    ----------
    url : str
        ``sqlite:///file`` or ``postgresql://user:password@host/database``.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, "")

    def _lock_model(self, connection: Connection) -> None:
        """Leave the models alone."""

    def models(self) -> list[KnownModel]:
        """Return the models, the one that changed last first."""
        with self._reading(consistent=True) as connection:
            rows = self._rows(connection, schema.models, sa.select(schema.models))
            count, last = sa.func.count(), sa.func.max(schema.events.c.created_at)
            n_classes = _per_model(connection, schema.classes, count)
            n_grown = _per_model(connection, schema.growth, count)
            times = _per_model(connection, schema.events, last)
            found = [
                KnownModel(
                    row.model_id,
                    row.revision,
                    n_classes.get(row.model_id, 0),
                    n_grown.get(row.model_id, 0),
                    times.get(row.model_id),
                    read_facts(self, connection, row.model_id),
                )
                for row in rows
            ]
        return sorted(found, key=lambda one: one.changed_at or "", reverse=True)

    def find(self, beginning: str) -> KnownModel:
        """Return the one model whose identity begins so; refuse none and several."""
        known = self.models()
        found = [one for one in known if one.model_id.startswith(beginning.lower())]
        if len(found) == 1:
            return found[0]
        if not found:
            raise DataError(
                f"{self.place} knows no model whose identity begins with {beginning[:80]!r}; "
                "`hgkt classes models` lists them"
            )
        listed = ", ".join(one.model_id[:_SHOWN] for one in found[:5])
        raise DataError(
            f"{len(found)} models of {self.place} have identities that begin with "
            f"{beginning[:80]!r}: {listed}; give more of it"
        )


def _per_model(connection: Connection, table: sa.Table, what: Any) -> dict[str, Any]:
    """Return something that is computed of the rows of each model, by its identity."""
    query = sa.select(table.c.model_id, what).group_by(table.c.model_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def read_facts(tables: RegistryTables, connection: Connection, model_id: str) -> ModelFacts | None:
    """Return what is stored of a model; None where nothing is."""
    table = schema.facts
    query = sa.select(table).where(table.c.model_id == model_id)
    rows = tables._rows(connection, table, query)
    return ModelFacts.from_json(rows[0].facts) if rows else None


def remember(tables: RegistryTables, facts: ModelFacts) -> None:
    """Store what is known of the model of some tables, where that is news.

    Parameters
    ----------
    tables : RegistryTables
        The model's.
    facts : ModelFacts
        What is known of it.
    """
    with tables._reading() as connection:
        if read_facts(tables, connection, tables.model_id) == facts:
            return
    table = schema.facts
    row = {"model_id": tables.model_id, "facts": facts.to_json(), "written_at": utc_now()}
    with tables._writing() as connection:
        tables._lock_model(connection)
        connection.execute(table.delete().where(table.c.model_id == tables.model_id))
        connection.execute(table.insert(), [schema.digested(table, row)])
