"""The client: predictions and classes of a service."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar
from urllib.parse import quote, urlencode

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_finite, check_number
from hgkt.client.answers import ClassChange, ClassInfo, RankedRows
from hgkt.client.connection import Connection, RetryPolicy
from hgkt.exceptions import DataError, ServiceError, first_line

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
Among = str | Sequence[str]
Description = ArrayLike | Mapping[str, float] | str
Kind = Literal["all", "seen", "added"]

_OCTETS, _ARROW = "application/octet-stream", "application/vnd.apache.arrow.stream"
_BATCH_BYTES = 16 * 2**20
_LONG_QUERY = 4000  # beyond, class names go in the body: heads are limited everywhere
_PAGE = 1000
_IMAGES = 16
_PROBE_SECONDS = 5.0


class Client:
    """A model behind ``hgkt serve``, used like one in this process.

    Parameters
    ----------
    url : str
        Where the service answers, such as ``http://localhost:8000``.
    api_key : str, optional
        A key of the service; changes need one where it has any.
    timeout : float
        Seconds that a call may take, its retries included.
    retry : RetryPolicy, optional
        When a request is sent again; by default up to five times.
    batch_rows : int
        Rows per request; more are sent one batch after the other.
    **options
        For ``httpx.Client``: ``verify``, ``cert``, ``proxy``, ``headers`` and the like.

    Examples
    --------
    >>> client = Client("http://localhost:8000", api_key="correct horse battery")
    >>> client
    Client('http://localhost:8000')
    >>> client.close()
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

    # ------------------------------------------------------------------ predictions
    def predict(self, X: ArrayLike, among: Among = "all") -> NDArray[np.str_]:
        """Return the class (n,) of each feature row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Feature rows; computed with as float32.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        """
        return self.rank(X, top_k=1, among=among).labels[:, 0]

    def rank(self, X: ArrayLike, top_k: int = 5, among: Among = "all") -> RankedRows:
        """Return the best classes of each feature row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Feature rows; computed with as float32.
        top_k : int
            How many classes per row.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        """
        rows = _rows(X)
        step = min(self.batch_rows, max(1, _BATCH_BYTES // rows[0].nbytes))
        batches = (rows[start : start + step] for start in range(0, len(rows), step))
        return RankedRows.together([self._rank(batch, top_k, among) for batch in batches])

    def predict_images(
        self, images: Iterable[str | Path | bytes], among: Among = "all"
    ) -> NDArray[np.str_]:
        """Return the class (n,) of each image.

        Parameters
        ----------
        images : iterable of path or bytes
            Image files, or their content.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        """
        files = [_file(image) for image in images]
        if not files:
            raise DataError("there are no images; at least one is expected")
        parts = []
        for batch in _batches(files, _IMAGES):
            answer = self._connection.ask(
                "POST",
                "/v1/predict/image",
                params=_question(1, among),
                files=[("images", file) for file in batch],
                headers={"Accept": _ARROW},
            )
            parts.append(self._read(answer, lambda found: RankedRows.from_arrow(found.content)))
        return RankedRows.together(parts).labels[:, 0]

    def _rank(self, rows: NDArray[np.float32], top_k: int, among: Among) -> RankedRows:
        question = _question(top_k, among)
        content: dict[str, Any] = {"headers": {"Accept": _ARROW}}
        if len(urlencode(question, doseq=True)) > _LONG_QUERY:
            content["json"] = {"features": rows.tolist(), "top_k": top_k, "among": list(among)}
        else:
            content["headers"]["Content-Type"] = _OCTETS
            content |= {"params": question, "content": rows.tobytes()}
        answer = self._connection.ask("POST", "/v1/predict", **content)
        return self._read(answer, lambda found: RankedRows.from_arrow(found.content))

    # ------------------------------------------------------------------ classes
    def classes(self, kind: Kind = "all", query: str = "") -> list[ClassInfo]:
        """Return the classes, those with `query` in their name in any case.

        Parameters
        ----------
        kind : {"all", "seen", "added"}
            Which classes.
        query : str
            Part of the name.
        """
        found: list[ClassInfo] = []
        while True:
            page = {"kind": kind, "query": query, "offset": len(found), "limit": _PAGE}
            answer = self._connection.ask("GET", "/v1/classes", params=page)
            some, n_matching = self._read(answer, _class_page)
            found += some
            if not some or len(found) >= n_matching:
                return found

    def add_class(
        self,
        name: str,
        vector: ArrayLike | None = None,
        attributes: Mapping[str, float] | None = None,
        text: str | None = None,
        idempotency_key: str | None = None,
    ) -> ClassChange:
        """Add a class by numbers, by named attributes, by text, or by several of them.

        Parameters
        ----------
        name : str
            Its name.
        vector : array-like, optional
            All attributes, or all that are not made of text.
        attributes : mapping of str to float, optional
            Attributes by name; others are 0.
        text : str, optional
            What the class looks like, in a sentence.
        idempotency_key : str, optional
            By what the service knows this very change again, should it be sent from elsewhere
            too; by default a new one, kept over the retries of this call.
        """
        item = {"name": name, "vector": vector, "attributes": attributes, "text": text}
        return self._add([item], idempotency_key)

    def add_classes(
        self, classes: Mapping[str, Description], idempotency_key: str | None = None
    ) -> ClassChange:
        """Add classes, all or none.

        Parameters
        ----------
        classes : mapping of str to array-like, mapping or str
            Names, and their attribute vectors, attributes by name, or descriptions in words.
        idempotency_key : str, optional
            As in `add_class`.
        """
        return self._add([_described(*item) for item in classes.items()], idempotency_key)

    def remove_class(self, name: str, idempotency_key: str | None = None) -> ClassChange:
        """Remove a class that was added.

        Parameters
        ----------
        name : str
            Its name.
        idempotency_key : str, optional
            As in `add_class`.
        """
        path = f"/v1/classes/{quote(name, safe='')}"
        return ClassChange.of(self._connection.change("DELETE", path, idempotency_key), "removed")

    def _add(self, items: list[dict[str, Any]], idempotency_key: str | None) -> ClassChange:
        body = {"classes": [_sendable(item) for item in items]}
        answer = self._connection.change("POST", "/v1/classes", idempotency_key, json=body)
        return ClassChange.of(answer, "added")

    # ------------------------------------------------------------------ the service
    def model(self) -> dict[str, Any]:
        """Return what is served, what it reads and what a request may carry."""
        card: dict[str, Any] = self._connection.json_of(self._connection.ask("GET", "/v1/model"))
        return card

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


# ---------------------------------------------------------------------- what is sent
def _rows(X: ArrayLike) -> NDArray[np.float32]:
    """Return feature rows as they are sent; the service says whether their width fits."""
    rows = np.asarray(X)
    if rows.ndim != 2 or not rows.size or rows.dtype.kind not in "fiub":
        raise DataError(
            f"X has shape {rows.shape} and holds {rows.dtype}; rows of numbers are expected"
        )
    check_finite(rows, "features")
    with np.errstate(over="ignore"):  # the service refuses what becomes infinite
        return np.ascontiguousarray(rows, dtype="<f4")


def _question(top_k: int, among: Among) -> dict[str, Any]:
    return {"top_k": top_k, "among": among if isinstance(among, str) else list(among)}


def _file(image: str | Path | bytes) -> tuple[str, bytes]:
    if isinstance(image, bytes):
        return "image", image
    try:
        return Path(image).name, Path(image).read_bytes()
    except OSError as error:
        raise DataError(f"the image {image} cannot be read: {first_line(error)}") from None


def _batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _described(name: str, description: Description) -> dict[str, Any]:
    if isinstance(description, str):
        return {"name": name, "text": description}
    if isinstance(description, Mapping):
        return {"name": name, "attributes": description}
    return {"name": name, "vector": description}


def _sendable(item: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a class as JSON has it, without what is not said."""
    sent = {key: value for key, value in item.items() if value is not None}
    name = item["name"]
    if "vector" in sent:
        vector = np.asarray(sent["vector"])
        if vector.ndim != 1 or vector.dtype.kind not in "fiub":
            raise DataError(f"the vector of class {name!r} must be one row of numbers")
        sent["vector"] = _finite(vector, name).tolist()
    if "attributes" in sent:
        values = _finite(np.array([*sent["attributes"].values()], dtype=float), name)
        sent["attributes"] = dict(zip(map(str, sent["attributes"]), values.tolist(), strict=True))
    return sent


def _finite(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"the attributes of class {name!r} must be finite numbers")
    return values


def _class_page(answer: httpx.Response) -> tuple[list[ClassInfo], int]:
    document = answer.json()
    return [ClassInfo.of(item) for item in document["classes"]], document["n_matching"]
