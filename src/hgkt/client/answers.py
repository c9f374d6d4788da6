"""What a service answers, as Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import UNKNOWN


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

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Read the JSON of a service."""
        rows = document["predictions"]
        tops = [row["top"] for row in rows]
        sets = [row["set"] for row in rows]
        return cls(
            labels=np.array([UNKNOWN if row["label"] is None else row["label"] for row in rows]),
            top_labels=np.array([[item["label"] for item in top] for top in tops]),
            scores=np.array([[item["score"] for item in top] for top in tops]),
            probabilities=np.array([[item["probability"] for item in top] for top in tops]),
            novelty=np.array([row["novelty"] for row in rows]),
            sets=None if sets[0] is None else sets,
            revision=document["revision"],
        )

    @classmethod
    def together(cls, parts: Sequence[Self]) -> Self:
        """Join batches; classes that came or went between them leave the fewest per row."""
        k = min(part.top_labels.shape[1] for part in parts)
        sets = [row for part in parts for row in part.sets or []]
        return cls(
            labels=np.concatenate([part.labels for part in parts]),
            top_labels=np.concatenate([part.top_labels[:, :k] for part in parts]),
            scores=np.concatenate([part.scores[:, :k] for part in parts]),
            probabilities=np.concatenate([part.probabilities[:, :k] for part in parts]),
            novelty=np.concatenate([part.novelty for part in parts]),
            sets=None if parts[0].sets is None else sets,
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

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Read one entry of the service's list."""
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})


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

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Read the answer to a change."""
        listed = [document[field] for field in ("added", "removed", "changed") if field in document]
        return cls(
            names=tuple(listed[0]) if listed else (document["name"],),
            revision=document["revision"],
            n_classes=document["n_classes"],
            warnings=tuple(document.get("warnings", ())),
            n_examples=document.get("n_examples", 0),
        )


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

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Read a line of the log."""
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})
