"""The client: predictions, classes and their history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from numpy.typing import ArrayLike

from hgkt.client.answers import ClassChange, ClassInfo, LoggedChange
from hgkt.client.predicting import PredictingClient
from hgkt.client.sending import (
    IMAGES,
    OCTETS,
    Description,
    batches,
    described,
    feature_rows,
    image_files,
    sendable,
)
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    import httpx

Kind = Literal["all", "seen", "added"]
_PAGE = 1000


class Client(PredictingClient):
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
        reason: str | None = None,
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
        idempotency_key, reason : str, optional
            As for every change.
        """
        item = {"name": name, "vector": vector, "attributes": attributes, "text": text}
        return self._add([item], idempotency_key, reason)

    def add_classes(
        self,
        classes: Mapping[str, Description],
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> ClassChange:
        """Add classes, all or none.

        Parameters
        ----------
        classes : mapping of str to array-like, mapping or str
            Names, and their attribute vectors, attributes by name, or descriptions in words.
        idempotency_key, reason : str, optional
            As for every change.
        """
        return self._add([described(*item) for item in classes.items()], idempotency_key, reason)

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
        items = [sendable(described(*item)) for item in classes.items()]
        answer = self._connection.ask("POST", "/v1/classes/check", json={"classes": items})
        found: list[dict[str, Any]] = self._read(answer, lambda found: found.json()["classes"])
        return found

    def edit_class(
        self,
        name: str,
        vector: ArrayLike | None = None,
        attributes: Mapping[str, float] | None = None,
        text: str | None = None,
        new_name: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
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
        idempotency_key, reason : str, optional
            As for every change.
        """
        body = sendable(
            {"name": name, "vector": vector, "attributes": attributes, "text": text}
        ) | _said(reason=reason)
        del body["name"]
        return self._change("PATCH", name, "", idempotency_key, json=body | _said(name=new_name))

    def rename_class(
        self,
        name: str,
        new_name: str,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> ClassChange:
        """Give an added class another name.

        Parameters
        ----------
        name, new_name : str
            What it is called, and what it is to be called.
        idempotency_key, reason : str, optional
            As for every change.
        """
        body = {"name": new_name} | _said(reason=reason)
        return self._change("PATCH", name, "", idempotency_key, json=body)

    def remove_class(
        self, name: str, idempotency_key: str | None = None, reason: str | None = None
    ) -> ClassChange:
        """Remove a class that was added.

        Parameters
        ----------
        name : str
            Its name.
        idempotency_key, reason : str, optional
            As for every change.
        """
        return self._change("DELETE", name, "", idempotency_key, params=_said(reason=reason))

    def grow_class(
        self,
        name: str,
        X: ArrayLike | None = None,
        images: Iterable[str | Path | bytes] | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> ClassChange:
        """Let a class learn from examples: feature rows or images, one of the two.

        More than one batch of them goes in several changes, each made once.

        Parameters
        ----------
        name : str
            The class, added or learned.
        X : array-like of shape (n, n_features), optional
            Feature rows.
        images : iterable of path or bytes, optional
            Image files, or their content.
        idempotency_key, reason : str, optional
            As for every change.
        """
        if (X is None) == (images is None):
            raise DataError("examples come as X or as images, one of the two")
        parts: list[dict[str, Any]]
        if X is not None:
            kind = {"Content-Type": OCTETS}
            rows = self._batches(feature_rows(X))
            parts = [{"content": batch.tobytes(), "headers": kind} for batch in rows]
        else:
            files = batches(image_files(images or ()), IMAGES)
            parts = [{"files": [("images", file) for file in batch]} for batch in files]
        changes = []
        for number, part in enumerate(parts):
            key = idempotency_key
            if key is not None and number:
                key = f"{key}-{number}"
            part["params"] = _said(reason=reason)
            changes.append(self._change("POST", name, "/examples", key, **part))
        return changes[-1]

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
            answer = self._connection.ask("GET", "/v1/events", params=page)
            found = self._read(
                answer, lambda each: [LoggedChange.of(line) for line in each.json()["events"]]
            )
            yield from found
            if not found:
                return
            after = found[-1].revision

    def oldest(self) -> int:
        """Return the first revision that can be gone back to; pruning moves it."""
        answer = self._connection.ask("GET", "/v1/events", params={"limit": 1})
        return self._read(answer, lambda each: int(each.json()["oldest"]))

    def rollback(
        self, revision: int, idempotency_key: str | None = None, reason: str | None = None
    ) -> ClassChange:
        """Make the classes what they were right after a change, by a change of its own.

        Parameters
        ----------
        revision : int
            Number of the change; 0 is before the first one.
        idempotency_key, reason : str, optional
            As for every change.
        """
        body = {"revision": revision} | _said(reason=reason)
        answer = self._connection.change("POST", "/v1/rollback", idempotency_key, json=body)
        return ClassChange.of(answer)

    def prune(self, before: int) -> int:
        """Have the log begin later; return how many of its lines went.

        Parameters
        ----------
        before : int
            The first revision that can still be had afterwards.
        """
        answer = self._connection.ask("POST", "/v1/events/prune", json={"before": before})
        return int(self._read(answer, lambda found: found.json()["n_removed"]))

    # ------------------------------------------------------------------ requests
    def _add(
        self, items: list[dict[str, Any]], idempotency_key: str | None, reason: str | None
    ) -> ClassChange:
        body = {"classes": [sendable(item) for item in items]} | _said(reason=reason)
        return ClassChange.of(
            self._connection.change("POST", "/v1/classes", idempotency_key, json=body)
        )

    def _change(
        self, method: str, name: str, behind: str, idempotency_key: str | None, **content: Any
    ) -> ClassChange:
        path = f"/v1/classes/{quote(name, safe='')}{behind}"
        return ClassChange.of(self._connection.change(method, path, idempotency_key, **content))


def _said(**fields: Any) -> dict[str, Any]:
    """Return the fields that say something."""
    return {name: value for name, value in fields.items() if value is not None}


def _class_page(answer: httpx.Response) -> tuple[list[ClassInfo], int]:
    document = answer.json()
    return [ClassInfo.of(item) for item in document["classes"]], document["n_matching"]
