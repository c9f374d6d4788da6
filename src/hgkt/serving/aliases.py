"""Which of several models answers: kept in the registry's database, for all processes."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.serving import schema
from hgkt.serving.entries import utc_now
from hgkt.serving.registry import ClassRegistry

_LOCK = 0x48474B55  # the advisory lock under which PostgreSQL's aliases are changed


@dataclass(frozen=True)
class AliasChange:
    """What an alias was made to stand for.

    Parameters
    ----------
    revision : int
        Number of changes of the alias so far.
    model_id, model_name : str
        The model's identity, which decides, and what it was called.
    changed_at : str
        Time in ISO 8601, UTC.
    changed_by : str or None
        Id of the API key that asked for it.
    """

    revision: int
    model_id: str
    model_name: str
    changed_at: str
    changed_by: str | None = None


class AliasStore:
    """One alias in the database of a class registry.

    Changes are only ever appended, one transaction each.

    Parameters
    ----------
    registry : ClassRegistry
        Whose database it is; the caller closes it.
    alias : str
        The alias's name; services that share a database for other models have one each.
    """

    def __init__(self, registry: ClassRegistry, alias: str) -> None:
        self.registry, self.alias = registry, alias

    def read(self) -> AliasChange | None:
        """Return what the alias stands for; None where nobody has said it yet."""
        with self.registry._reading() as connection:
            return self._last(connection)

    def point(self, model_id: str, model_name: str, changed_by: str | None = None) -> AliasChange:
        """Make the alias stand for a model; where it does already, nothing is written.

        Parameters
        ----------
        model_id, model_name : str
            The model's identity, and what it is called.
        changed_by : str, optional
            Id of the API key that asks for it.
        """
        with self.registry._writing() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            last = self._last(connection)
            if last is not None and (last.model_id, last.model_name) == (model_id, model_name):
                return last
            number = 1 if last is None else last.revision + 1
            new = AliasChange(number, model_id, model_name, utc_now(), changed_by)
            row = schema.digested(schema.aliases, vars(new) | {"alias": self.alias})
            connection.execute(schema.aliases.insert(), [row])
        return new

    def _last(self, connection: Connection) -> AliasChange | None:
        table = schema.aliases
        query = sa.select(table).where(table.c.alias == self.alias)
        rows = self.registry._rows(
            connection, table, query.order_by(table.c.revision.desc()).limit(1)
        )
        if not rows:
            return None
        found = rows[0]
        return AliasChange(
            found.revision, found.model_id, found.model_name, found.changed_at, found.changed_by
        )
