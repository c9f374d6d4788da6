"""Items that looked like no known class, kept until somebody says what they are.

They lie in one table, in the database of the class registry or in one of a folder of its own. Any
number of processes may write, and what a killed one had not written is lost: nobody was told that
it is kept.
"""

from __future__ import annotations

import hashlib
import io
import logging
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self, Unpack

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.engine import Connection

from hgkt.estimators import GZSLClassifier
from hgkt.estimators.scoring import ConfidentRanking, rank_with_confidence
from hgkt.exceptions import DataError
from hgkt.language import ClassDescription
from hgkt.serving import database as db
from hgkt.serving.database import Database, FileId, RegistryError
from hgkt.serving.edition import Edition, model_identity
from hgkt.serving.events import UnknownItemError
from hgkt.serving.live_model import ServedModel
from hgkt.serving.registry import Asked, Receipt
from hgkt.serving.settings import ServiceSettings

ItemKind = Literal["features", "image", "text"]
DATABASE = "database"
"""What stands for the database of the class registry where a folder could be named."""
_FILE = "unknown.sqlite"
_MAX_WAITING_BYTES = 64 * 2**20  # that wait to be written
_LEAST_BYTES = 2**20  # as which a small batch counts
_PATIENCE = 10.0  # seconds
_SIDE = 512  # pixels of a kept image

_ITEMS = db.unknown_items
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class KeptItem:
    """What is known of one item beside its features.

    Parameters
    ----------
    id : str
        Its name, made of its features.
    kept_at : str
        When it came, ISO 8601 in UTC.
    kind : {"features", "image", "text"}
        What is kept of it: its features alone, or its image or text as well.
    reject : float
        The share of rows of known classes that may be rejected, as it was asked for.
    class_name : str, optional
        The class that was made of it.
    """

    id: str
    kept_at: str
    kind: ItemKind
    reject: float
    class_name: str | None = None


@dataclass(frozen=True, eq=False)
class KeptItems:
    """What is kept, the oldest first.

    Parameters
    ----------
    items : tuple of KeptItem
    features : ndarray of shape (n, n_features), float32
    """

    items: tuple[KeptItem, ...]
    features: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.items)

    @property
    def ids(self) -> tuple[str, ...]:
        """The name of each."""
        return tuple(item.id for item in self.items)


class Inbox:
    """Unknown items of one model, within a number and a time.

    Parameters
    ----------
    address : str
        Address of the database.
    model_id : str
        Whose features they are.
    max_items : int
        How many are kept; the oldest go.
    days : float
        How long one is kept.
    file : FileId, optional
        The file that a SQLite database must be.

    Examples
    --------
    >>> import tempfile
    >>> with Inbox(folder_address(tempfile.mkdtemp()), "model") as inbox:
    ...     inbox.keep(np.ones((2, 3)))  # equal rows are one item
    ...     len(inbox.items())
    1
    """

    def __init__(
        self,
        address: str,
        model_id: str,
        max_items: int = 10_000,
        days: float = 30.0,
        file: FileId | None = None,
    ) -> None:
        self.model_id, self.max_items = model_id, max_items
        self._age = timedelta(days=days)
        self._database = Database(address, file)

    @classmethod
    def open(cls, settings: ServiceSettings, model: GZSLClassifier) -> Self | None:
        """Open the inbox that the settings of a service name; None where nothing is kept."""
        if settings.keep_unknown is None:
            return None
        if model.confidence_ is None:
            raise DataError(
                "this model cannot tell unknown items: it has no thresholds from validation "
                "classes; serve it without --keep-unknown, or train it on six classes or more"
            )
        address, file = settings.database_url(), settings.database_id
        if settings.keep_unknown != DATABASE:
            address, file = folder_address(settings.keep_unknown), None
        limits = settings.max_unknown, settings.unknown_days
        return cls(address, model_identity(model), *limits, file)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_details: object) -> None:
        self.close()

    # ------------------------------------------------------------------ writing
    def keep(
        self,
        features: NDArray[Any],
        contents: Sequence[bytes] | None = None,
        kind: ItemKind = "features",
        reject: float = 0.05,
    ) -> None:
        """Keep items, each once; what is too old or too much goes.

        Parameters
        ----------
        features : ndarray of shape (n, n_features)
        contents : sequence of bytes, optional
            JPEG images, or texts in UTF-8.
        kind : {"features", "image", "text"}
            What `contents` are.
        reject : float
            The share of rows of known classes by which they were rejected.
        """
        rows = np.ascontiguousarray(features, dtype="<f4")
        now = datetime.now(UTC)
        values = [
            {
                "model_id": self.model_id,
                "id": hashlib.sha256(row.tobytes()).hexdigest()[:32],
                "kept_at": _written(now),
                "kind": kind if contents is not None else "features",
                "reject": reject,
                "features": row.tobytes(),
                "content": None if contents is None else contents[number],
            }
            for number, row in enumerate(rows)
        ]
        with self._database.writing() as connection:
            # SQLite has the same words for it as PostgreSQL.
            connection.execute(insert(_ITEMS).on_conflict_do_nothing(), values)
            self._tidy(connection, now)

    def _tidy(self, connection: Connection, now: datetime) -> None:
        own, oldest = _ITEMS.c.model_id == self.model_id, _written(now - self._age)
        # Of models that are not served any more nobody else would take the old ones away.
        connection.execute(_ITEMS.delete().where(_ITEMS.c.kept_at < oldest))
        count = sa.select(sa.func.count()).select_from(_ITEMS).where(own)
        excess = int(connection.execute(count).scalar_one()) - self.max_items
        if excess > 0:
            order = (_ITEMS.c.kept_at, _ITEMS.c.id)
            first = sa.select(_ITEMS.c.id).where(own).order_by(*order).limit(excess)
            connection.execute(_ITEMS.delete().where(own, _ITEMS.c.id.in_(first)))

    def set_class(self, ids: Collection[str], name: str) -> None:
        """Say which class was made of some items."""
        own = (_ITEMS.c.model_id == self.model_id, _ITEMS.c.id == sa.bindparam("item"))
        statement = _ITEMS.update().where(*own).values(class_name=name)
        with self._database.writing() as connection:
            connection.execute(statement, [{"item": one} for one in ids])

    def forget(self, item: str | None = None) -> int:
        """Delete an item, or all of this model; return how many there were."""
        statement = _ITEMS.delete().where(_ITEMS.c.model_id == self.model_id)
        if item is not None:
            statement = statement.where(_ITEMS.c.id == item)
        with self._database.writing() as connection:
            return int(connection.execute(statement).rowcount)

    # ------------------------------------------------------------------ reading
    def stamp(self) -> tuple[Any, ...]:
        """Return what differs wherever `items` does: numbers and times, quickly."""
        kept_at, classes = _ITEMS.c.kept_at, _ITEMS.c.class_name
        columns = sa.func.count(), sa.func.max(kept_at), sa.func.count(classes)
        with self._database.reading() as connection:
            return tuple(connection.execute(sa.select(*columns).where(*self._own())).one())

    def _own(self) -> tuple[Any, ...]:
        """Return what selects items of this model that are not too old."""
        oldest = _written(datetime.now(UTC) - self._age)
        return (_ITEMS.c.model_id == self.model_id, _ITEMS.c.kept_at >= oldest)

    def items(self) -> KeptItems:
        """Return all items of this model that are not too old."""
        names = ("id", "kept_at", "kind", "reject", "class_name", "features")
        found = (
            sa.select(*(_ITEMS.c[name] for name in names))
            .where(*self._own())
            .order_by(_ITEMS.c.kept_at, _ITEMS.c.id)
        )
        with self._database.reading() as connection:
            rows = connection.execute(found).all()
        features = [np.frombuffer(row.features, dtype="<f4") for row in rows]
        return KeptItems(
            tuple(KeptItem(*row[:-1]) for row in rows),
            np.stack(features) if features else np.zeros((0, 0), dtype=np.float32),
        )

    def content(self, name: str) -> tuple[ItemKind, bytes]:
        """Return what an item is and its image or text; raise where there is none."""
        found = sa.select(_ITEMS.c.kind, _ITEMS.c.content).where(
            _ITEMS.c.model_id == self.model_id, _ITEMS.c.id == name
        )
        with self._database.reading() as connection:
            row = connection.execute(found).one_or_none()
        if row is None or row.content is None:
            raise UnknownItemError(name)
        return row.kind, row.content


def _written(moment: datetime) -> str:
    """Return a time in UTC as it is kept beside items."""
    return moment.isoformat(timespec="microseconds")


def folder_address(folder: str | Path) -> str:
    """Return the address of the database in a folder of kept items; the folder is made."""
    path = Path(folder).absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"unknown items cannot be kept in {path}: {error.strerror}") from None
    return f"sqlite:///{path / _FILE}"


def existing_address(folder: str | Path) -> str:
    """Return the address of the database in a folder where items are kept; refuse any other."""
    if not (Path(folder) / _FILE).is_file():
        raise DataError(f"{folder} keeps no unknown items; `hgkt serve --keep-unknown` makes it")
    return folder_address(folder)


@dataclass(frozen=True, eq=False)
class Waiting:
    """Kept items that are unknown to an edition, too, and what it says of them.

    Parameters
    ----------
    items : KeptItems
        Those of which no class was made that is still there, and which the edition rejects.
    novelty : ndarray of shape (n,)
    nearest : tuple of str
        The likeliest known class of each.
    """

    items: KeptItems
    novelty: NDArray[np.float64]
    nearest: tuple[str, ...]

    @classmethod
    def of(cls, inbox: Inbox, edition: Edition) -> Self:
        """Ask the edition again: items that a new class explains wait no longer."""
        kept, model = inbox.items(), edition.model
        if not len(kept):
            return cls(kept, np.zeros(0), ())
        found = rank_with_confidence(model, kept.features, model.candidates(), 1)
        rejected = found.novelty > 1.0 - np.array([item.reject for item in kept.items])
        free = np.array([item.class_name not in edition.columns for item in kept.items])
        rows = np.flatnonzero(rejected & free)
        nearest = tuple(edition.names[column] for column in found.best[rows, 0].tolist())
        items = KeptItems(tuple(kept.items[row] for row in rows.tolist()), kept.features[rows])
        return cls(items, found.novelty[rows], nearest)


def make_class(
    served: ServedModel,
    inbox: Inbox,
    ids: Collection[str],
    description: ClassDescription,
    **asked: Unpack[Asked],
) -> Receipt:
    """Let a class learn from kept items, and add it unless the model has it, in one change.

    A class that the model has keeps its description. The items wait again when the class is gone.
    """
    kept, wanted = inbox.items(), set(ids)
    if missing := wanted.difference(kept.ids):
        raise UnknownItemError(min(missing))
    rows = [row for row, item in enumerate(kept.ids) if item in wanted]
    receipt = served.teach(description, kept.features[rows], **asked)
    # Last: were the process killed before it, most items are recognised and wait no longer.
    inbox.set_class(wanted, receipt.names[0])
    return receipt


class InboxWriter:
    """Writes to an inbox in a thread of its own: no prediction waits for a disk.

    Parameters
    ----------
    inbox : Inbox
        Where items are kept; it is closed with the writer.
    """

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self._thread = ThreadPoolExecutor(1, "hgkt-unknown")
        self._n_bytes, self._counting = 0, threading.Lock()

    def keep_rejected(
        self,
        features: NDArray[Any],
        found: ConfidentRanking | None,
        reject: float,
        contents: Sequence[bytes] | None = None,
        kind: ItemKind = "features",
    ) -> None:
        """Have the rows of a request kept soon that were rejected, as `Inbox.keep` does.

        They are dropped where too much waits.
        """
        if found is None or not found.unknown.any():
            return
        rows = np.flatnonzero(found.unknown)
        items = np.array(features[rows], dtype="<f4")
        own = None if contents is None else [contents[row] for row in rows.tolist()]
        n_bytes = max(_LEAST_BYTES, items.nbytes + sum(map(len, own or ())))

        def keep() -> None:
            self._count(-n_bytes)
            try:
                small = [_small(one) for one in own] if own and kind == "image" else own
                self.inbox.keep(items, small, kind, reject)
            except RegistryError as error:
                logger.warning("unknown items were not kept: %s", error)
            except Exception:
                logger.exception("unknown items were not kept")

        if self._count(n_bytes):
            self._thread.submit(keep)

    def _count(self, n_bytes: int) -> bool:
        """Add to what waits, where there is room for it."""
        with self._counting:
            has_room = self._n_bytes + n_bytes <= _MAX_WAITING_BYTES
            self._n_bytes += n_bytes if has_room else 0
        return has_room

    def flush(self) -> None:
        """Wait a while until what this process was given before is written."""
        wait([self._thread.submit(lambda: None)], _PATIENCE)

    def close(self) -> None:
        """Write what waits and close the inbox."""
        self.flush()
        self._thread.shutdown(wait=False, cancel_futures=True)
        self.inbox.close()


def _small(content: bytes) -> bytes:
    """Return an image as a JPEG that shows what is on it, and takes little room."""
    from hgkt.vision import open_image

    image = open_image(content, at_least=(_SIDE, _SIDE))
    image.thumbnail((_SIDE, _SIDE))
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return file.getvalue()
