"""Who may change classes: API keys, known by digests and named by ids that tell nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from starlette.datastructures import Headers
from starlette.types import Scope

from hgkt._files import sha256
from hgkt.serving.problems import Problem
from hgkt.serving.settings import ServiceSettings

UNKNOWN_KEY = "unknown"
_SCOPE = "hgkt_key_id"
_HEADER = APIKeyHeader(name="X-API-Key", scheme_name="API key", auto_error=False)
_BEARER = HTTPBearer(scheme_name="Bearer", auto_error=False)


class KeyRing:
    """The keys of a service.

    Parameters
    ----------
    keys : sequence of str
        The keys.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.ids = {sha256(key): key_id(key) for key in keys}

    def identify(self, scope: Scope) -> str | None:
        """Return the id of the key of a request, computed once: None without one.

        How long it takes tells nothing of a key that is near, since digests of near keys differ.
        """
        if _SCOPE not in scope:
            given = _sent_key(scope) if self.ids else None
            found = None if given is None else self.ids.get(sha256(given), UNKNOWN_KEY)
            scope[_SCOPE] = found
        known: str | None = scope[_SCOPE]
        return known

    def require(self, scope: Scope) -> str:
        """Return the id of the key of a request; raise a Problem where it has none."""
        found = self.identify(scope)
        if found is None or found == UNKNOWN_KEY:
            missing = "needs an API key" if found is None else "was sent with an unknown API key"
            raise Problem(
                401,
                f"this request {missing}; send one in the header X-API-Key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found


def require_key(settings: ServiceSettings) -> Callable[..., Any]:
    """Return a dependency that lets a request pass only with one of the keys, and names that key.

    It returns the id of the key; without keys in the settings everybody passes, as None. The key
    comes in the header ``X-API-Key`` or as ``Authorization: Bearer KEY``. It is looked at before
    the body only in routes that read the body themselves, or in a dependency: FastAPI reads a body
    that is a parameter first.
    """
    if not settings.api_keys:
        return lambda: None
    keys = KeyRing(settings.api_keys)

    async def check(
        request: Request,
        _header: Annotated[Any, Security(_HEADER)] = None,
        _bearer: Annotated[Any, Security(_BEARER)] = None,
    ) -> str:
        return keys.require(request.scope)

    return check


@lru_cache(maxsize=1024)
def key_id(key: str) -> str:
    """Return a name for a key that may be shown: the same everywhere, and no help in guessing it.

    Examples
    --------
    >>> key_id("correct horse battery")
    '7650441e'
    """
    # scrypt, not a plain digest: a guess at a weak key shall cost something to compare.
    salt = b"hgkt key id"
    return hashlib.scrypt(key.encode(), salt=salt, n=2**12, r=8, p=1, dklen=4).hex()


def _sent_key(scope: Scope) -> str | None:
    """Return the key that came with a request: ``X-API-Key``, or ``Authorization: Bearer KEY``."""
    headers = Headers(scope=scope)
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key") or bearer or None
