"""The registry's tables, digests of their rows, and the way from an older release's tables.

Every row carries a digest of what it says, and a model's row one of all its classes together, so
that a damaged database is told and not believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

SCHEMA_VERSION = 2
_SETUP_LOCK = 0x48474B54  # "HGKT": the advisory lock under which PostgreSQL's tables are made
_SUM_MODULUS = 2**256
EMPTY = f"{0:064x}"
"""The sum of no digests."""

metadata = sa.MetaData()

# An integer that grows by itself; in SQLite only an INTEGER PRIMARY KEY does.
_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _digest(name: str = "digest") -> sa.Column[str]:
    return sa.Column(name, sa.String(64), nullable=False)


schema_table = sa.Table(
    "hgkt_schema", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)
models = sa.Table(
    "hgkt_models",
    metadata,
    sa.Column("model_id", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    _digest("content"),
    _digest(),
)
classes = sa.Table(
    "hgkt_classes",
    metadata,
    sa.Column("id", _COUNTER, primary_key=True),
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary, nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("added_at", sa.String(32), nullable=False),
    _digest(),
    sa.UniqueConstraint("model_id", "name"),
)
removed = sa.Table(
    "hgkt_removed",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    _digest(),
)
events = sa.Table(
    "hgkt_events",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary),
    sa.Column("text", sa.Text),
    sa.Column("created_at", sa.String(32), nullable=False),
    _digest(),
)
requests = sa.Table(
    "hgkt_requests",
    metadata,
    sa.Column("model_id", sa.ForeignKey(models.c.model_id), primary_key=True),
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("receipt", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
    _digest(),
)
_TABLES_OF_1 = (models, classes, removed, events)


def row_digest(table: sa.Table, row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that a row says, but its number and its digest.

    Examples
    --------
    >>> first = row_digest(removed, {"model_id": "birds", "name": "zebra"})
    >>> first == row_digest(removed, {"model_id": "birdsz", "name": "ebra"})
    False
    """
    digest = hashlib.sha256(table.name.encode())
    for column in table.columns:
        if column.name in ("id", "digest"):
            continue
        value = row[column.name]
        content = value if isinstance(value, bytes) else str(value).encode()
        # Kind and length keep apart what would read the same one after the other.
        digest.update(f"|{type(value).__name__} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()


def digested(table: sa.Table, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its digest."""
    return {**row, "digest": row_digest(table, row)}


def intact(table: sa.Table, row: Any) -> bool:
    """Return whether a row that was read says what was written."""
    values = row._mapping
    return bool(values["digest"] == row_digest(table, values))


def add_digests(total: str, digests: Iterable[str], sign: int = 1) -> str:
    """Return a sum of digests with others added, or taken away where `sign` is -1.

    The sum does not depend on the order, so that it can follow single changes.

    Examples
    --------
    >>> total = add_digests(EMPTY, ["ff", "01"])
    >>> add_digests(total, ["01", "ff"], sign=-1) == EMPTY
    True
    """
    change = sum(int(digest, 16) for digest in digests)
    return f"{(int(total, 16) + sign * change) % _SUM_MODULUS:064x}"


def create_tables(connection: Connection) -> int:
    """Create or complete the tables, within a write transaction; return their version.

    Tables of version 1 get digests, made of what they say now.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_SETUP_LOCK)))
    if not sa.inspect(connection).has_table(schema_table.name):
        metadata.create_all(connection)
        connection.execute(schema_table.insert().values(version=SCHEMA_VERSION))
    newest = sa.select(sa.func.max(schema_table.c.version))
    version: int = connection.execute(newest).scalar_one()
    if version == 1:
        _complete_version_1(connection)
        connection.execute(schema_table.insert().values(version=SCHEMA_VERSION))
        version = SCHEMA_VERSION
    return version


def _complete_version_1(connection: Connection) -> None:
    for table in _TABLES_OF_1:
        for column in table.columns:
            if column.name in ("digest", "content"):
                command = f"ALTER TABLE {table.name} ADD COLUMN {column.name} VARCHAR(64)"
                connection.exec_driver_sql(command)
    requests.create(connection)
    for table in (classes, removed, events):
        _fill(connection, table, lambda _values: {})
    _fill(connection, models, lambda values: {"content": content_sum(connection, values)})
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
        extra["digest"] = row_digest(table, {**values, **extra})
        connection.execute(table.update().where(own).values(extra))


def content_sum(connection: Connection, model: Mapping[str, Any]) -> str:
    """Return the sum of the digests of a model's classes and removed names."""
    total = EMPTY
    for table in (classes, removed):
        query = sa.select(table.c.digest).where(table.c.model_id == model["model_id"])
        total = add_digests(total, connection.execute(query).scalars())
    return total
