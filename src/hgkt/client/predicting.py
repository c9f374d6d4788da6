"""Predictions of a service."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt.client.answers import RankedRows, SureRows
from hgkt.client.base import ServiceClient
from hgkt.client.sending import (
    ARROW,
    BATCH_BYTES,
    IMAGES,
    OCTETS,
    Among,
    batches,
    feature_rows,
    image_files,
    question,
)

_LONG_QUERY = 4000  # beyond, class names go in the body: heads are limited everywhere


class PredictingClient(ServiceClient):
    """A client that predicts."""

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
        if reject is not None:
            return self.answers(X, 1, among, reject=reject, revision=revision).labels
        return self.rank(X, top_k=1, among=among, revision=revision).labels[:, 0]

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
        asked = question(top_k, among, revision)
        parts = (self._rank(batch, asked) for batch in self._batches(feature_rows(X)))
        return RankedRows.together(list(parts))

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
        asked = question(top_k, among, revision) | {"confidence": True}
        asked |= {} if reject is None else {"reject": reject}
        asked |= {} if coverage is None else {"coverage": coverage}
        parts = []
        for batch in self._batches(feature_rows(X)):
            body = asked | {"features": batch.tolist()}
            answer = self._connection.ask("POST", "/v1/predict", json=body)
            parts.append(self._read(answer, lambda found: SureRows.of(found.json())))
        return SureRows.together(parts)

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
        parts = []
        for batch in batches(image_files(images), IMAGES):
            answer = self._connection.ask(
                "POST",
                "/v1/predict/image",
                params=question(1, among, revision),
                files=[("images", file) for file in batch],
                headers={"Accept": ARROW},
            )
            parts.append(self._read(answer, lambda found: RankedRows.from_arrow(found.content)))
        return RankedRows.together(parts).labels[:, 0]

    def _batches(self, rows: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        step = min(self.batch_rows, max(1, BATCH_BYTES // rows[0].nbytes))
        return [rows[start : start + step] for start in range(0, len(rows), step)]

    def _rank(self, rows: NDArray[np.float32], asked: dict[str, Any]) -> RankedRows:
        content: dict[str, Any] = {"headers": {"Accept": ARROW}}
        if len(urlencode(asked, doseq=True)) > _LONG_QUERY:
            content["json"] = asked | {"features": rows.tolist()}
        else:
            content["headers"]["Content-Type"] = OCTETS
            content |= {"params": asked, "content": rows.tobytes()}
        answer = self._connection.ask("POST", "/v1/predict", **content)
        return self._read(answer, lambda found: RankedRows.from_arrow(found.content))
