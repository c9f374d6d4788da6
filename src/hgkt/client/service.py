"""The client: predictions, classes and their history, and what a service answers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, Unpack
from urllib.parse import quote, urlencode
from uuid import uuid4

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._arrays import batches
from hgkt._validation import UNKNOWN, check_finite, check_number
from hgkt.client.connection import Connection, RetryPolicy
from hgkt.exceptions import DataError, ServiceError, first_line

if TYPE_CHECKING:
    from hgkt._predictions import Predictions, Ranked

Among = str | Sequence[str]
Description = ArrayLike | Mapping[str, float] | str
Kind = Literal["all", "seen", "added"]

OCTETS = "application/octet-stream"
BATCH_BYTES = 16 * 2**20
IMAGES = 16  # of one request
TEXTS = 64
_PAGE = 1000
_PROBE_SECONDS = 5.0
_LONG_QUERY = 4000  # beyond, class names go in the body: heads are limited everywhere


# ---------------------------------------------------------------------- answers
@dataclass(frozen=True)
class RankedRows:
    """The best classes of some rows.

    Parameters
    ----------
    labels : ndarray of str, shape (n, k)
        Class names, the best first; fewer than asked for where there are fewer candidates.
    scores : ndarray of shape (n, k)
        Their scores; higher is better.
    seen : ndarray of bool, shape (n,)
        Whether the best class was learned from instances.
    revision : int
        Number of changes of the classes that were known to all of these answers.
    """

    labels: NDArray[np.str_]
    scores: NDArray[np.float64]
    seen: NDArray[np.bool_]
    revision: int


@dataclass(frozen=True)
class SureRows:
    """The best classes of some rows, and how sure that is.

    Parameters
    ----------
    labels : ndarray of str, shape (n,)
        The best class, or `hgkt.UNKNOWN` where the row was rejected.
    top_labels : ndarray of str, shape (n, k)
        Class names, the best first, of rejected rows too.
    scores, probabilities : ndarray of shape (n, k)
        Their scores, and how likely they are.
    novelty : ndarray of shape (n,)
        Share of rows of known classes that look less strange.
    sets : list of list of str, or None
        Classes among which the true one is, where a coverage was asked for.
    revision : int
        Number of changes of the classes that were known to all of these answers.
    """

    labels: NDArray[np.str_]
    top_labels: NDArray[np.str_]
    scores: NDArray[np.float64]
    probabilities: NDArray[np.float64]
    novelty: NDArray[np.float64]
    sets: list[list[str]] | None
    revision: int


def _tops(found: Iterable[Predictions]) -> list[list[Ranked]]:
    """Return the best classes of each row: as many of all, should classes come or go meanwhile."""
    tops = [row.top for part in found for row in part.predictions]
    fewest = min(map(len, tops))
    return [top[:fewest] for top in tops]


def _each(tops: Sequence[Sequence[Ranked]], what: str) -> NDArray[Any]:
    """Return one thing that is known of the best classes of each row, (n, k)."""
    return np.array([[getattr(item, what) for item in top] for top in tops])


def _revision(found: Iterable[Predictions]) -> int:
    """Return the lowest revision of the batches."""
    return min(part.revision for part in found)


def _labels(found: Iterable[Predictions]) -> NDArray[np.str_]:
    """Return the best class of each row, or `hgkt.UNKNOWN` where it was rejected."""
    labels = [row.label for part in found for row in part.predictions]
    return np.array([UNKNOWN if label is None else label for label in labels])


@dataclass(frozen=True)
class ClassInfo:
    """A class that a service knows.

    Parameters
    ----------
    name : str
        Its name.
    seen : bool
        Whether it was learned from instances.
    text : str or None
        The text that it was described by.
    added_at : str or None
        When it was added, ISO 8601 in UTC.
    kind : {"described", "grown", "learned"}
        By what it is known: its description, examples that it got there, or the model's training.
    n_examples : int
        How many examples it has grown by there.
    """

    name: str
    seen: bool
    text: str | None = None
    added_at: str | None = None
    kind: str = "described"
    n_examples: int = 0


@dataclass(frozen=True)
class ClassChange:
    """Classes were changed, and that is on disk.

    Parameters
    ----------
    names : tuple of str
        Which classes, as the service writes them, by the names that they have now.
    revision : int
        Number of changes of the classes so far.
    n_classes : int
        How many classes there are now.
    warnings : tuple of str
        What is doubtful about them, such as a class described like another.
    n_examples : int
        How many examples a class that grew has grown by.
    """

    names: tuple[str, ...]
    revision: int
    n_classes: int
    warnings: tuple[str, ...] = ()
    n_examples: int = 0


@dataclass(frozen=True)
class LoggedChange:
    """What one change did to one class, as the service's log has it.

    Parameters
    ----------
    revision : int
        The number of the change.
    kind : {"add", "remove", "edit", "rename", "grow", "rollback"}
        What happened.
    created_at : str
        When, ISO 8601 in UTC.
    who : str or None
        Id of the API key.
    reason : str or None
        Why, as the client said it.
    before, after : dict or None
        The class then: ``name``, ``vector``, ``text``, ``n_examples``; None where it was not there.
    target : int or None
        The revision that a rollback went back to.
    """

    revision: int
    kind: str
    created_at: str
    who: str | None = None
    reason: str | None = None
    before: dict[str, Any] | None = field(default=None, repr=False)
    after: dict[str, Any] | None = field(default=None, repr=False)
    target: int | None = None


@dataclass(frozen=True)
class _Classes:
    """A page of the service's list of classes."""

    classes: list[ClassInfo]
    n_matching: int


@dataclass(frozen=True)
class _Log:
    """A page of the service's log."""

    events: list[LoggedChange]


class ChangeOptions(TypedDict, total=False):
    """What every change takes besides, both optional.

    Parameters
    ----------
    reason : str
        Why; the service's log keeps it.
    idempotency_key : str
        By what the service knows this very change again, should it be sent from elsewhere too; by
        default a new one, kept over the retries of the call.
    """

    reason: str | None
    idempotency_key: str | None


# ---------------------------------------------------------------------- the client
class Client:
    """A model behind ``hgkt serve``, used like one in this process.

    Every method that changes classes takes a `reason`, which the service's log keeps, and an
    `idempotency_key`, by which the service knows this very change again should it be sent from
    elsewhere too; by default a new one, kept over the retries of the call.

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

    def __exit__(self, *_problem: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()

    def model(self) -> dict[str, Any]:
        """Return what is served, what it reads and what a request may carry."""
        return self._connection.ask(dict[str, Any], "GET", "/v1/model")

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

    # ------------------------------------------------------------------ predictions
    def predict(
        self,
        X: ArrayLike,
        among: Among = "all",
        reject: float | None = None,
        revision: int | None = None,
    ) -> NDArray[np.str_]:
        """Return the class (n,) of each feature row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Feature rows; computed with as float32.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        reject : float, optional
            Share of rows of known classes that may be rejected by mistake. Rows that look like
            none of the known classes are then labelled `hgkt.UNKNOWN`.
        revision : int, optional
            Answer with the classes of this revision, as they were then.
        """
        asked = _question(among=among, reject=reject, revision=revision)
        return _labels(self._ask(X, asked))

    def rank(
        self, X: ArrayLike, top_k: int = 5, among: Among = "all", revision: int | None = None
    ) -> RankedRows:
        """Return the best classes of each feature row.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Feature rows; computed with as float32.
        top_k : int
            How many classes per row.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        revision : int, optional
            Answer with the classes of this revision, as they were then.
        """
        asked = _question(top_k=top_k, among=among, revision=revision)
        found = self._ask(X, asked)
        tops = _tops(found)
        seen = np.array([top[0].seen for top in tops])
        return RankedRows(_each(tops, "label"), _each(tops, "score"), seen, _revision(found))

    def answers(
        self,
        X: ArrayLike,
        top_k: int = 1,
        among: Among = "all",
        reject: float | None = None,
        coverage: float | None = None,
        revision: int | None = None,
    ) -> SureRows:
        """Return the best classes of each feature row, and how sure that is.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Feature rows; computed with as float32.
        top_k : int
            How many classes per row.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        reject : float, optional
            Share of rows of known classes that may be rejected by mistake.
        coverage : float, optional
            How often the set of a row is to hold its true class.
        revision : int, optional
            Answer with the classes of this revision, as they were then.
        """
        asked = _question(
            top_k=top_k,
            among=among,
            revision=revision,
            confidence=True,
            reject=reject,
            coverage=coverage,
        )
        found = self._ask(X, asked)
        rows: list[Any] = [row for part in found for row in part.predictions]
        tops = _tops(found)
        return SureRows(
            labels=_labels(found),
            top_labels=_each(tops, "label"),
            scores=_each(tops, "score"),
            probabilities=_each(tops, "probability"),
            novelty=np.array([row.novelty for row in rows]),
            sets=None if rows[0].set is None else [row.set for row in rows],
            revision=_revision(found),
        )

    def predict_images(
        self,
        images: Iterable[str | Path | bytes],
        among: Among = "all",
        revision: int | None = None,
    ) -> NDArray[np.str_]:
        """Return the class (n,) of each image.

        Parameters
        ----------
        images : iterable of path or bytes
            Image files, or their content.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        revision : int, optional
            Answer with the classes of this revision, as they were then.
        """
        asked = _question(among=among, revision=revision)
        return _labels(
            self._predict("/v1/predict/image", params=asked, files=form)
            for form in image_forms(images)
        )

    def predict_texts(
        self,
        texts: str | Iterable[str],
        among: Among = "all",
        reject: float | None = None,
        revision: int | None = None,
    ) -> NDArray[np.str_]:
        """Return the class (n,) of each text.

        Parameters
        ----------
        texts : str or iterable of str
            The texts; one counts as a list of one.
        among : str or sequence of str
            The candidates: ``"all"``, ``"seen"``, ``"unseen"`` or class names.
        reject : float, optional
            Share of texts of known classes that may be rejected by mistake. Texts that look like
            none of the known classes are then labelled `hgkt.UNKNOWN`.
        revision : int, optional
            Answer with the classes of this revision, as they were then.
        """
        asked = _question(among=among, reject=reject, revision=revision)
        return _labels(
            self._predict("/v1/predict/text", json=asked | {"texts": batch})
            for batch in text_batches(texts)
        )

    def _batches(self, X: ArrayLike) -> list[NDArray[np.float32]]:
        rows = feature_rows(X)
        size = min(self.batch_rows, max(1, BATCH_BYTES // rows[0].nbytes))
        return [rows[part] for part in batches(len(rows), size)]

    def _ask(self, X: ArrayLike, asked: dict[str, Any]) -> list[Predictions]:
        """Return what is answered to a question of rows, batch by batch."""
        found = []
        for rows in self._batches(X):
            content: dict[str, Any] = {"json": asked | {"features": rows.tolist()}}
            if len(urlencode(asked, doseq=True)) <= _LONG_QUERY:
                headers = {"Content-Type": OCTETS}
                content = {"params": asked, "content": rows.tobytes(), "headers": headers}
            found.append(self._predict("/v1/predict", **content))
        return found

    def _predict(self, path: str, **content: Any) -> Predictions:
        from hgkt._predictions import Predictions

        return self._connection.ask(Predictions, "POST", path, **content)

    # ------------------------------------------------------------------ classes
    def classes(self, kind: Kind = "all", query: str = "") -> list[ClassInfo]:
        """Return the classes, those with `query` in their name in any case.

        Parameters
        ----------
        kind : {"all", "seen", "added"}
            Which classes; one that was added and has grown is both.
        query : str
            Part of the name.
        """
        found: list[ClassInfo] = []
        while True:
            page = {"kind": kind, "query": query, "offset": len(found), "limit": _PAGE}
            some = self._connection.ask(_Classes, "GET", "/v1/classes", params=page)
            found += some.classes
            if not some.classes or len(found) >= some.n_matching:
                return found

    def add_class(
        self,
        name: str,
        vector: ArrayLike | None = None,
        attributes: Mapping[str, float] | None = None,
        text: str | None = None,
        **change: Unpack[ChangeOptions],
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
        **change
            `reason` and `idempotency_key`.
        """
        item = class_body(name, vector, attributes, text)
        return self._change("POST", "/v1/classes", change, {"classes": [item]})

    def add_classes(
        self, classes: Mapping[str, Description], **change: Unpack[ChangeOptions]
    ) -> ClassChange:
        """Add classes, all or none.

        Parameters
        ----------
        classes : mapping of str to array-like, mapping or str
            Names, and their attribute vectors, attributes by name, or descriptions in words.
        **change
            `reason` and `idempotency_key`.
        """
        return self._change("POST", "/v1/classes", change, {"classes": described(classes)})

    def check_classes(self, classes: Mapping[str, Description]) -> list[dict[str, Any]]:
        """Say what would become of classes, each as if it were added alone; nothing is changed.

        Parameters
        ----------
        classes : mapping of str to array-like, mapping or str
            As in `add_classes`.

        Returns
        -------
        list of dict
            Per class its rivals, what it would take from others, the accuracy to expect, and all
            of it in ``sentences``.
        """
        body = {"classes": described(classes)}
        return self._connection.ask(dict[str, Any], "POST", "/v1/classes/check", json=body)[
            "classes"
        ]

    def edit_class(
        self,
        name: str,
        vector: ArrayLike | None = None,
        attributes: Mapping[str, float] | None = None,
        text: str | None = None,
        new_name: str | None = None,
        **change: Unpack[ChangeOptions],
    ) -> ClassChange:
        """Describe an added class anew; it keeps what it has learned from examples.

        Parameters
        ----------
        name : str
            The class.
        vector, attributes, text
            As in `add_class`.
        new_name : str, optional
            What it is called from now on.
        **change
            `reason` and `idempotency_key`.
        """
        item = class_body(name, vector, attributes, text) | {"name": new_name}
        return self._change("PATCH", _place(name), change, item)

    def rename_class(
        self, name: str, new_name: str, **change: Unpack[ChangeOptions]
    ) -> ClassChange:
        """Give an added class another name.

        Parameters
        ----------
        name, new_name : str
            What it is called, and what it is to be called.
        **change
            `reason` and `idempotency_key`.
        """
        return self.edit_class(name, new_name=new_name, **change)

    def remove_class(self, name: str, **change: Unpack[ChangeOptions]) -> ClassChange:
        """Remove a class that was added.

        Parameters
        ----------
        name : str
            Its name.
        **change
            `reason` and `idempotency_key`.
        """
        return self._change("DELETE", _place(name), change)

    def grow_class(
        self,
        name: str,
        X: ArrayLike | None = None,
        images: Iterable[str | Path | bytes] | None = None,
        texts: str | Iterable[str] | None = None,
        **change: Unpack[ChangeOptions],
    ) -> ClassChange:
        """Let a class learn from examples: feature rows, images or texts, one of the three.

        More than one batch of them goes in several changes, each made once.

        Parameters
        ----------
        name : str
            The class, added or learned.
        X : array-like of shape (n, n_features), optional
            Feature rows.
        images : iterable of path or bytes, optional
            Image files, or their content.
        texts : str or iterable of str, optional
            Texts.
        **change
            `reason` and `idempotency_key`.
        """
        if sum(given is not None for given in (X, images, texts)) != 1:
            raise DataError("examples come as X, as images or as texts, one of the three")
        parts: list[dict[str, Any]]
        if X is not None:
            headers = {"Content-Type": OCTETS}
            parts = [{"content": rows.tobytes(), "headers": headers} for rows in self._batches(X)]
        elif texts is not None:
            parts = [{"body": {"texts": batch}} for batch in text_batches(texts)]
        else:
            parts = [{"files": form} for form in image_forms(images or ())]
        first_key = change.get("idempotency_key")
        for number, part in enumerate(parts):
            if first_key is not None and number:
                change["idempotency_key"] = f"{first_key}-{number}"
            done = self._change("POST", f"{_place(name)}/examples", change, **part)
        return done

    # ------------------------------------------------------------------ history
    def events(self, after: int = 0, name: str | None = None) -> Iterator[LoggedChange]:
        """Yield what was changed after a revision, in order, one class at a time.

        Parameters
        ----------
        after : int
            The last revision that is known.
        name : str, optional
            Only a class that has or had this name.
        """
        while True:
            page = {"after": after, "limit": _PAGE} | _said(name=name)
            found = self._connection.ask(_Log, "GET", "/v1/events", params=page).events
            yield from found
            if not found:
                return
            after = found[-1].revision

    def rollback(self, revision: int, **change: Unpack[ChangeOptions]) -> ClassChange:
        """Make the classes what they were right after a change, by a change of its own.

        Parameters
        ----------
        revision : int
            Number of the change; 0 is before the first one.
        **change
            `reason` and `idempotency_key`.
        """
        return self._change("POST", "/v1/rollback", change, {"revision": revision})

    def _change(
        self,
        method: str,
        path: str,
        change: ChangeOptions,
        body: dict[str, Any] | None = None,
        **content: Any,
    ) -> ClassChange:
        """Ask for a change; its reason goes with the JSON body, or as a parameter without one."""
        said = _said(**(body or {}), reason=change.get("reason"))
        content["params" if body is None else "json"] = said
        key = change.get("idempotency_key") or str(uuid4())  # the same at every try
        content["headers"] = content.get("headers", {}) | {"Idempotency-Key": key}
        return self._connection.ask(ClassChange, method, path, **content)


# ---------------------------------------------------------------------- what is sent
def feature_rows(X: ArrayLike) -> NDArray[np.float32]:
    """Return feature rows as they are sent; the service says whether their width fits."""
    found = np.asarray(X)
    if found.ndim != 2 or not found.size or found.dtype.kind not in "fiub":
        raise DataError(
            f"X has shape {found.shape} and holds {found.dtype}; rows of numbers are expected"
        )
    check_finite(found, "features")
    with np.errstate(over="ignore"):  # the service refuses what becomes infinite
        return np.ascontiguousarray(found, dtype="<f4")


def _question(**fields: Any) -> dict[str, Any]:
    """Return what is asked of rows, checked, as query parameters and JSON bodies have it."""
    import msgspec

    from hgkt._predictions import Question

    if not isinstance(fields["among"], str):
        fields["among"] = list(fields["among"])
    try:
        return msgspec.to_builtins(msgspec.convert(fields, Question))
    except msgspec.ValidationError as error:
        raise DataError(f"the question cannot be asked: {error}") from None


def image_forms(images: Iterable[str | Path | bytes]) -> list[list[tuple[str, Any]]]:
    """Return images as forms carry them; at least one is expected."""
    files = [("images", _file(image)) for image in images]
    if not files:
        raise DataError("there are no images; at least one is expected")
    return [files[part] for part in batches(len(files), IMAGES)]


def _file(image: str | Path | bytes) -> tuple[str, bytes]:
    if isinstance(image, bytes):
        return "image", image
    try:
        return Path(image).name, Path(image).read_bytes()
    except OSError as error:
        raise DataError(f"the image {image} cannot be read: {first_line(error)}") from None


def text_batches(texts: str | Iterable[str]) -> list[list[str]]:
    """Return texts in batches; at least one is expected, and none may be empty."""
    found = [texts] if isinstance(texts, str) else list(texts)
    if not found:
        raise DataError("there are no texts; at least one is expected")
    for position, text in enumerate(found):
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"text {position} is empty; words are expected")
    return [found[part] for part in batches(len(found), TEXTS)]


def described(classes: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return classes as JSON has them, each description by its kind."""
    return [class_body(name, **{_kind(said): said}) for name, said in classes.items()]


def _kind(description: Any) -> str:
    if isinstance(description, str):
        return "text"
    return "attributes" if isinstance(description, Mapping) else "vector"


def class_body(
    name: str, vector: Any = None, attributes: Any = None, text: str | None = None
) -> dict[str, Any]:
    """Return a class as JSON has it, without what is not said."""
    said = _said(name=name, text=text)
    if vector is not None:
        row = np.asarray(vector)
        if row.ndim != 1 or row.dtype.kind not in "fiub":
            raise DataError(f"the vector of class {name!r} must be one row of numbers")
        said["vector"] = _finite(row, name)
    if attributes is not None:
        values = _finite([*attributes.values()], name)
        said["attributes"] = dict(zip(map(str, attributes), values, strict=True))
    return said


def _finite(values: ArrayLike, name: str) -> list[float]:
    row = np.asarray(values, dtype=np.float64)
    if not np.isfinite(row).all():
        raise DataError(f"the attributes of class {name!r} must be finite numbers")
    return row.tolist()


def _place(name: str) -> str:
    """Return the path of a class."""
    return f"/v1/classes/{quote(name, safe='')}"


def _said(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}
