"""What every client of a service does: connect, ask whether it is there, and what it serves."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from hgkt._validation import check_number
from hgkt.client.connection import Connection, RetryPolicy
from hgkt.exceptions import ServiceError

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_PROBE_SECONDS = 5.0


class ServiceClient:
    """A connection to a service: whether it is there, and what it serves.

    `hgkt.Client` says what it takes.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retry: RetryPolicy | None = None,
        batch_rows: int = 1024,
        **options: Any,
    ) -> None:
        check_number("batch_rows", batch_rows, low=1, integer=True)
        self._connection = Connection(url, api_key, timeout, retry or RetryPolicy(), options)
        self.batch_rows = batch_rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._connection.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def model(self) -> dict[str, Any]:
        """Return what is served, what it reads and what a request may carry."""
        card: dict[str, Any] = self._connection.json_of(self._connection.ask("GET", "/v1/model"))
        return card

    def models(self) -> dict[str, Any]:
        """Return the models of a service that has several, and which one is current."""
        found: dict[str, Any] = self._connection.json_of(self._connection.ask("GET", "/v1/models"))
        return found

    def switch_model(self, name: str, adopt: str | None = None) -> dict[str, Any]:
        """Make one of a service's models the current one; return what the service says of it.

        Parameters
        ----------
        name : str
            The model.
        adopt : str, optional
            A model whose classes it takes over first.
        """
        body = {"model": name} if adopt is None else {"model": name, "adopt": adopt}
        answer = self._connection.ask("PUT", "/v1/alias", json=body)
        done: dict[str, Any] = self._connection.json_of(answer)
        return done

    def health(self) -> bool:
        """Return whether the service answers; asked once."""
        return self._connection.probe("/health", _PROBE_SECONDS)

    def ready(self) -> bool:
        """Return whether the service can predict and change classes; asked once."""
        return self._connection.probe("/ready", _PROBE_SECONDS)

    def wait_until_ready(self, seconds: float = 60.0) -> Self:
        """Return as soon as the service is ready; raise a ServiceError where it never is.

        Parameters
        ----------
        seconds : float
            How long to wait.
        """
        deadline = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"the service at {self._connection.url} is not ready after {seconds:g} s"
                )
            time.sleep(0.1)
        return self

    def _read(self, answer: httpx.Response, read: Callable[[httpx.Response], T]) -> T:
        try:
            return read(answer)
        except (ValueError, KeyError, TypeError):
            raise self._connection.strange(answer) from None
