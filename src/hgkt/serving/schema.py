"""The registry's tables and the digests of their rows.

Every row carries a digest of what it says, and a model's row one of all its classes together, so
that a damaged database is told and not believed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

SCHEMA_VERSION = 3
_SUM_MODULUS = 2**256
EMPTY = f"{0:064x}"
"""The sum of no digests."""

metadata = sa.MetaData()

# An integer that grows by itself; in SQLite only an INTEGER PRIMARY KEY does.
_COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _digest(name: str = "digest") -> sa.Column[str]:
    return sa.Column(name, sa.String(64), nullable=False)


def _later(name: str, kind: Any) -> sa.Column[Any]:
    """A column that version 3 added: empty in older rows, whose digests stay as they were."""
    return sa.Column(name, kind, info={"later": True})


def _owner(**options: Any) -> sa.Column[str]:
    return sa.Column("model_id", sa.ForeignKey(models.c.model_id), **options)


schema_table = sa.Table(
    "hgkt_schema", metadata, sa.Column("version", sa.Integer, primary_key=True, autoincrement=False)
)
models = sa.Table(
    "hgkt_models",
    metadata,
    sa.Column("model_id", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    _digest("content"),
    _later("oldest", sa.BigInteger),  # the first revision that the log leads to; 0 where empty
    _digest(),
)
classes = sa.Table(
    "hgkt_classes",
    metadata,
    sa.Column("id", _COUNTER, primary_key=True),
    _owner(nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary, nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("added_at", sa.String(32), nullable=False),
    _later("place", sa.BigInteger),  # classes are in this order, then in that of their numbers
    _digest(),
    sa.UniqueConstraint("model_id", "name"),
)
removed = sa.Table(
    "hgkt_removed",
    metadata,
    _owner(primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    _digest(),
)
growth = sa.Table(
    "hgkt_growth",
    metadata,
    _owner(primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("n_examples", sa.BigInteger, nullable=False),
    sa.Column("sums", sa.LargeBinary, nullable=False),
    _digest(),
)
events = sa.Table(
    "hgkt_events",
    metadata,
    _owner(primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(8), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("attributes", sa.LargeBinary),
    sa.Column("text", sa.Text),
    sa.Column("created_at", sa.String(32), nullable=False),
    _later("added_at", sa.String(32)),
    _later("place", sa.BigInteger),
    _later("hides", sa.Boolean),  # whether the model folder's class of that name counts no more
    _later("old_name", sa.Text),
    _later("old_attributes", sa.LargeBinary),
    _later("old_text", sa.Text),
    _later("n_before", sa.BigInteger),
    _later("n_examples", sa.BigInteger),
    _later("target", sa.BigInteger),
    _later("who", sa.String(32)),
    _later("reason", sa.Text),
    _later("sums_digest", sa.String(64)),
    _digest(),
    _later("sums", sa.LargeBinary),  # last, so that lists of the log need not read it
)
requests = sa.Table(
    "hgkt_requests",
    metadata,
    _owner(primary_key=True),
    sa.Column("key", sa.String(200), primary_key=True),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("receipt", sa.Text, nullable=False),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
    _digest(),
)
aliases = sa.Table(
    "hgkt_aliases",
    metadata,
    sa.Column("alias", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    _owner(nullable=False),
    sa.Column("model_name", sa.Text, nullable=False),
    sa.Column("changed_at", sa.String(32), nullable=False),
    sa.Column("changed_by", sa.String(64)),
    _digest(),
)
facts = sa.Table(
    "hgkt_facts",
    metadata,
    _owner(primary_key=True),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("written_at", sa.String(32), nullable=False),
    _digest(),
)
CONTENT = (classes, removed, growth)
"""The tables that say what a model's classes are; see `content_sum`."""

_SUMMED_APART = "sums"  # of events: `sums_digest` stands for it


def row_digest(table: sa.Table, row: Mapping[str, Any]) -> str:
    """Return the SHA-256 of all that a row says, but its number and its digest.

    A column that a later version added counts where it says something, so that rows of older
    versions keep their digests.

    Examples
    --------
    >>> first = row_digest(removed, {"model_id": "birds", "name": "zebra"})
    >>> first == row_digest(removed, {"model_id": "birdsz", "name": "ebra"})
    False
    """
    digest = hashlib.sha256(table.name.encode())
    for column in table.columns:
        if column.name in ("id", "digest") or (table is events and column.name == _SUMMED_APART):
            continue
        later = column.info.get("later", False)
        value = row.get(column.name) if later else row[column.name]
        if later and value is None:
            continue
        if later:
            digest.update(f"|{column.name}".encode())
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


def content_sum(connection: Connection, model_id: str) -> str:
    """Return the sum of the digests of a model's classes, removed names and growth."""
    total = EMPTY
    for table in CONTENT:
        query = sa.select(table.c.digest).where(table.c.model_id == model_id)
        total = add_digests(total, connection.execute(query).scalars())
    return total
