"""The registry's tables made, or completed where an older release made them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from hgkt.serving import schema
from hgkt.serving.changes import Change
from hgkt.serving.entries import utc_now
from hgkt.serving.events import NOBODY, Ledger, RegistryState
from hgkt.serving.rows import class_entry, class_event

_SETUP_LOCK = 0x48474B54  # "HGKT": the advisory lock under which PostgreSQL's tables are made
_TABLES_OF_1 = (schema.models, schema.classes, schema.removed, schema.events)


def create_tables(connection: Connection) -> int:
    """Create or complete the tables, within a write transaction; return their version.

    Tables of version 1 get digests, made of what they say now. Those of version 2 get columns for
    what has happened since; where their log does not lead to their classes, it begins anew.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))
    if not sa.inspect(connection).has_table(schema.schema_table.name):
        schema.metadata.create_all(connection)
        _set_version(connection)
    newest = sa.select(sa.func.max(schema.schema_table.c.version))
    version: int = connection.execute(newest).scalar_one()
    if version >= schema.SCHEMA_VERSION:
        return version
    for table in _TABLES_OF_1:
        _add_columns(connection, table)
    for table in (schema.growth, schema.aliases, schema.facts):
        table.create(connection, checkfirst=True)
    if version == 1:
        _complete_version_1(connection)
    for row in connection.execute(sa.select(schema.models)).all():
        if schema.intact(schema.models, row):  # readers tell what is damaged
            _check_log(connection, dict(row._mapping))
    _set_version(connection)
    return schema.SCHEMA_VERSION


def _set_version(connection: Connection) -> None:
    connection.execute(schema.schema_table.insert().values(version=schema.SCHEMA_VERSION))


def _add_columns(connection: Connection, table: sa.Table) -> None:
    """Add the columns that a table lacks; they may be empty."""
    known = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name not in known:
            kind = column.type.compile(connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {column.name} {kind}")


def _complete_version_1(connection: Connection) -> None:
    schema.requests.create(connection)
    for table in (schema.classes, schema.removed, schema.events):
        _fill(connection, table, lambda _values: {})
    _fill(
        connection,
        schema.models,
        lambda values: {"content": schema.content_sum(connection, values["model_id"])},
    )
    if connection.dialect.name == "postgresql":
        # A process of the older release that still runs cannot write rows without digests.
        for table in _TABLES_OF_1:
            command = f"ALTER TABLE {table.name} ALTER COLUMN digest SET NOT NULL"
            connection.exec_driver_sql(command)


def _fill(
    connection: Connection, table: sa.Table, more: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Write the digest of every row, and what else `more` says of it."""
    keys = list(table.primary_key.columns)
    for row in connection.execute(sa.select(table)).all():
        values = dict(row._mapping)
        extra = more(values)
        own = sa.and_(*(key == values[key.name] for key in keys))
        extra["digest"] = schema.row_digest(table, {**values, **extra})
        connection.execute(table.update().where(own).values(extra))


def _check_log(connection: Connection, model: dict[str, Any]) -> None:
    """Have a log begin with today's classes where it does not lead to them.

    Lines of an older log may have been deleted, and it did not always say whether a class of the
    model folder was removed.
    """
    log, listed, gone = schema.events, schema.classes, schema.removed
    own = [table.c.model_id == model["model_id"] for table in (log, listed, gone)]
    lines = connection.execute(
        sa.select(log).where(own[0]).order_by(log.c.revision, log.c.position)
    ).all()
    rows = connection.execute(sa.select(listed).where(own[1]).order_by(listed.c.id)).all()
    names = connection.execute(sa.select(gone.c.name).where(own[2])).scalars()
    if not all(
        schema.intact(table, row)
        for table, found in ((log, lines), (listed, rows))
        for row in found
    ):
        return
    state = RegistryState(model["revision"], tuple(map(class_entry, rows)), frozenset(names))
    ledger = Ledger()
    ledger.follow(map(class_event, lines))
    complete = {line.revision for line in lines} == set(range(1, state.revision + 1))
    if not (complete and ledger.state(state.revision).same_classes(state)):
        Change(connection, model, NOBODY, utc_now()).begin_log(state)
