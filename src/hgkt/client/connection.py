"""Requests to a service: sent again where that is safe and helps, errors as sentences."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from hgkt._validation import check_number, import_extra
from hgkt.exceptions import (
    DataError,
    ServiceError,
    ServiceRefusedError,
    ServiceUnavailableError,
    first_line,
)

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
_KEY_HEADER, _ID_HEADER = "X-API-Key", "X-Request-ID"
_PASSING = frozenset({429, 502, 503, 504})


# Not the library httpx-retries: it shortens a long Retry-After, and adds no jitter to one.
@dataclass(frozen=True)
class RetryPolicy:
    """When to send a request again, and after what pause.

    A request is sent again where the service cannot be reached, breaks the connection off, or
    answers 429, 502, 503 or 504. Pauses are drawn from 0 to a limit that doubles each time, so
    that many clients do not come back at the same moment; they are never shorter than what the
    service asks for with ``Retry-After``.

    Parameters
    ----------
    retries : int
        How many times a request is sent again.
    first, most : float
        Limit of the first pause, and of any, in seconds.

    Examples
    --------
    >>> policy = RetryPolicy(first=1.0, most=3.0)
    >>> [policy.limit(number) for number in range(4)]
    [1.0, 2.0, 3.0, 3.0]
    """

    retries: int = 5
    first: float = 0.2
    most: float = 10.0

    def __post_init__(self) -> None:
        check_number("retries", self.retries, low=0, integer=True)
        check_number("first", self.first, low=0.0)
        check_number("most", self.most, low=0.0)

    def limit(self, number: int) -> float:
        """Return the longest pause, in seconds, before a retry; they are counted from 0."""
        return float(min(self.most, self.first * 2.0 ** min(number, 60)))

    def pause(self, number: int, retry_after: str | None = None) -> float:
        """Draw a pause, in seconds.

        Parameters
        ----------
        number : int
            Which retry, from 0.
        retry_after : str, optional
            The header of that name: seconds, or a date.
        """
        return seconds_of(retry_after) + random.uniform(0.0, self.limit(number))


def seconds_of(retry_after: str | None) -> float:
    """Return how long a header ``Retry-After`` asks to wait; 0 where it says nothing sensible.

    Examples
    --------
    >>> seconds_of("3"), seconds_of("soon"), seconds_of("Wed, 21 Oct 2015 07:28:00 GMT")
    (3.0, 0.0, 0.0)
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())


class Connection:
    """Sends requests to one service.

    Parameters
    ----------
    url : str
        Where the service answers.
    api_key : str, optional
        Sent with every request.
    timeout : float
        Seconds that a call may take, its retries included.
    retry : RetryPolicy
        When to send again.
    options : dict
        For ``httpx.Client``, such as ``verify`` or ``headers``.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout: float,
        retry: RetryPolicy,
        options: Mapping[str, Any],
    ) -> None:
        self._httpx = import_extra("httpx", "client")
        self._msgspec = import_extra("msgspec", "client")
        check_number("timeout", timeout, low=0.0, open_low=True)
        if not url.startswith(("http://", "https://")):
            raise DataError(f"{url!r} is no address of a service; http://… or https://… is one")
        self.url, self.timeout, self.retry = url.rstrip("/"), timeout, retry
        self._client: httpx.Client = self._httpx.Client(**options)
        if api_key is not None:
            self._client.headers[_KEY_HEADER] = api_key

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def ask(self, kind: type[T], method: str, path: str, **content: Any) -> T:
        """Send a request and return its answer, or raise a ServiceError with what is wrong.

        Parameters
        ----------
        kind : type
            What the JSON of the answer is read as.
        method, path : str
            What to ask for; the path begins with a slash.
        **content
            ``params``, ``headers``, ``content``, ``json`` or ``files``, as httpx takes them; the
            same is sent at every try.
        """
        deadline = time.monotonic() + self.timeout
        for number in count():
            found = self._try(method, path, max(deadline - time.monotonic(), 0.001), content)
            retry_after = None
            if isinstance(found, ServiceError):
                error = found
            elif found.status_code < 400:
                return self._read(kind, found)
            else:
                error, retry_after = _error(found), found.headers.get("Retry-After")
                if found.status_code not in _PASSING:
                    raise error
            pause = self.retry.pause(number, retry_after)
            if number == self.retry.retries or time.monotonic() + pause > deadline:
                raise error
            time.sleep(pause)
        raise AssertionError  # the count never ends

    def probe(self, path: str, timeout: float) -> bool:
        """Return whether something is there and well, asked once.

        Parameters
        ----------
        path : str
            What to ask for.
        timeout : float
            Seconds to wait for the answer.
        """
        found = self._try("GET", path, min(timeout, self.timeout), {})
        return not isinstance(found, ServiceError) and found.status_code == 200

    def _read(self, kind: type[T], answer: httpx.Response) -> T:
        try:
            return self._msgspec.json.decode(answer.content, type=kind)
        except self._msgspec.DecodeError:
            form = answer.headers.get("Content-Type", "nothing")
            raise ServiceError(
                f"{answer.request.url.path} at {self.url} answered with {form}, which hgkt serve "
                "does not; is it another service?",
                answer.status_code,
            ) from None

    def _try(
        self, method: str, path: str, timeout: float, content: Mapping[str, Any]
    ) -> httpx.Response | ServiceError:
        """Send a request once; an error is returned where another try may help."""
        try:
            return self._client.request(method, self.url + path, timeout=timeout, **content)
        except self._httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            return ServiceUnavailableError(f"the service at {self.url} does not answer: {reason}")
        except (self._httpx.HTTPError, self._httpx.InvalidURL) as error:
            raise ServiceError(f"{self.url} cannot be asked: {first_line(error)}") from None


def _error(answer: httpx.Response) -> ServiceError:
    """Return what went wrong, in the service's own sentence where there is one."""
    status = answer.status_code
    try:
        detail = answer.json()["detail"]
    except (ValueError, TypeError, LookupError):
        detail = None
    if not isinstance(detail, str):
        place = answer.request.url.copy_with(query=None)
        detail = f"{place} answered {status} {answer.reason_phrase}"
    kind = ServiceRefusedError if status < 500 and status != 429 else ServiceUnavailableError
    return kind(detail, status, answer.headers.get(_ID_HEADER))
