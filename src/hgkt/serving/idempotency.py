"""Changes that were asked for with an idempotency key: made once, answered again.

What a change was answered is kept in the transaction that made it, so that the two are there
together or not at all, whichever process is asked and however often one was killed between.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from hgkt._files import sha256
from hgkt.exceptions import DataError, HGKTError

KEPT = timedelta(days=1)
"""How long a key is remembered."""


@dataclass(frozen=True)
class Receipt:
    """What a change did, as its first answer said it.

    Parameters
    ----------
    revision : int
        The change's number.
    names : tuple of str
        The classes that were changed, by the names that they have now.
    n_added : int
        How many added classes the model had afterwards, grown ones among them.
    doubts : tuple of str
        What was doubtful about them.
    n_examples : int
        How many examples a class that was changed had grown by then.
    """

    revision: int
    names: tuple[str, ...]
    n_added: int
    doubts: tuple[str, ...] = ()
    n_examples: int = 0

    def to_json(self) -> str:
        """Return the receipt as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        found = json.loads(text)
        found |= {name: tuple(found[name]) for name in ("names", "doubts")}
        return cls(**found)


@dataclass(frozen=True)
class KeyedRequest:
    """A request with a key of its own.

    Parameters
    ----------
    key : str
        What the client calls it.
    fingerprint : str
        Digest of what it asks for.
    doubts : tuple of str
        What is doubtful about it, for the receipt.

    Examples
    --------
    >>> first, second = (KeyedRequest.of("k1", "DELETE", name) for name in ("zebra", "horse"))
    >>> first.fingerprint == second.fingerprint
    False
    """

    key: str
    fingerprint: str
    doubts: tuple[str, ...] = ()

    @classmethod
    def of(cls, key: str, *content: str) -> Self:
        """Make the request of its key and all that it asks for."""
        return cls(key, sha256(json.dumps(content)))

    def check(self, fingerprint: str) -> None:
        """Refuse a key that another request had."""
        if fingerprint != self.fingerprint:
            raise DataError(
                f"the idempotency key {self.key!r} was sent before with another request; every "
                "request needs a key of its own"
            )


class AnsweredError(HGKTError):
    """A change was made already, under the same key; its receipt can be had."""

    def __init__(self, request: KeyedRequest) -> None:
        super().__init__(f"the request with the idempotency key {request.key!r} was answered")


def oldest_kept(now: str) -> str:
    """Return the time before which keys are forgotten.

    Examples
    --------
    >>> oldest_kept("2026-11-16T12:00:00.000+00:00")
    '2026-11-15T12:00:00.000+00:00'
    """
    kept = datetime.fromisoformat(now).astimezone(UTC) - KEPT
    return kept.isoformat(timespec="milliseconds")


def request_row(request: KeyedRequest, receipt: Receipt, now: str) -> dict[str, Any]:
    """Return what the table of requests keeps of one."""
    return {
        "key": request.key,
        "fingerprint": request.fingerprint,
        "receipt": receipt.to_json(),
        "created_at": now,
    }
