"""What a service answers, as Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


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

    @classmethod
    def from_arrow(cls, body: bytes) -> Self:
        """Read the Arrow stream of a service."""
        import pyarrow as pa

        with pa.ipc.open_stream(body) as reader:
            table = reader.read_all().combine_chunks()
        n_rows = table.num_rows
        labels, scores = table.column("label"), table.column("score")
        if "top_labels" in table.column_names:
            labels = table.column("top_labels").combine_chunks().flatten()
            scores = table.column("top_scores").combine_chunks().flatten()
        return cls(
            labels=np.array(labels.to_pylist(), dtype=np.str_).reshape(n_rows, -1),
            scores=scores.to_numpy().reshape(n_rows, -1),
            seen=np.array(table.column("seen").to_pylist(), dtype=np.bool_),
            revision=int(table.schema.metadata[b"revision"]),
        )

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Join batches; classes that came or went between them leave the fewest per row."""
        k = min(part.labels.shape[1] for part in parts)
        return cls(
            labels=np.concatenate([part.labels[:, :k] for part in parts]),
            scores=np.concatenate([part.scores[:, :k] for part in parts]),
            seen=np.concatenate([part.seen for part in parts]),
            revision=min(part.revision for part in parts),
        )


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
    """

    name: str
    seen: bool
    text: str | None = None
    added_at: str | None = None

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Read one entry of the service's list."""
        return cls(document["name"], document["seen"], document["text"], document["added_at"])


@dataclass(frozen=True)
class ClassChange:
    """Classes were added or removed, and that is on disk.

    Parameters
    ----------
    names : tuple of str
        Which classes, as the service writes them.
    revision : int
        Number of changes of the classes so far.
    n_classes : int
        How many classes there are now.
    warnings : tuple of str
        What is doubtful about them, such as a class described like another.
    """

    names: tuple[str, ...]
    revision: int
    n_classes: int
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, document: dict[str, Any], field: str) -> Self:
        """Read an answer that names the classes in `field`."""
        return cls(
            names=tuple(document[field]),
            revision=document["revision"],
            n_classes=document["n_classes"],
            warnings=tuple(document.get("warnings", ())),
        )
