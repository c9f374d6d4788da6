"""Nearest classes in a chosen space and the directed class graph they make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError

SPACES = ("wasserstein", "euclidean", "cosine", "attributes")
"""Where classes look for neighbours; ``attributes`` is the cosine of attribute vectors."""


@dataclass(frozen=True, eq=False)
class ClassNeighbors:
    """A directed graph over classes in compressed rows; class c averages over ``of(c)``.

    Parameters
    ----------
    indptr : array-like of shape (n_classes + 1,)
        Row c is ``indices[indptr[c]:indptr[c + 1]]``.
    indices : array-like of shape (n_edges,)
        The neighbours, as class codes.

    Examples
    --------
    >>> neighbors = ClassNeighbors.from_rows([[1, 2], [0], []])
    >>> neighbors.of(0), neighbors.degrees
    (array([1, 2]), array([2, 1, 0]))
    """

    indptr: NDArray[np.intp]
    indices: NDArray[np.intp]

    def __post_init__(self) -> None:
        for name in ("indptr", "indices"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), np.intp))

    @classmethod
    def from_rows(cls, rows: Any) -> Self:
        """Build from a list of index lists, or from an index matrix (n, k)."""
        parts = [np.asarray(row, dtype=np.intp) for row in rows]
        indptr = np.concatenate([[0], np.cumsum([len(part) for part in parts], dtype=np.intp)])
        return cls(indptr, np.concatenate([*parts, np.empty(0, dtype=np.intp)]))

    @classmethod
    def empty(cls, n_classes: int) -> Self:
        """Return the graph without edges."""
        return cls(np.zeros(n_classes + 1, dtype=np.intp), np.empty(0, dtype=np.intp))

    @property
    def n_classes(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_edges(self) -> int:
        """Number of directed edges."""
        return len(self.indices)

    @property
    def degrees(self) -> NDArray[np.intp]:
        """Number of neighbours of each class, of shape (n_classes,)."""
        return np.diff(self.indptr)

    @property
    def rows(self) -> NDArray[np.intp]:
        """Row of each entry of `indices`: together the edges in coordinate form."""
        return np.repeat(np.arange(self.n_classes), self.degrees)

    def of(self, code: int) -> NDArray[np.intp]:
        """Return the neighbours of one class."""
        return self.indices[self.indptr[code] : self.indptr[code + 1]]

    def symmetrized(self) -> ClassNeighbors:
        """Return the union of this graph and its reverse, rows sorted."""
        heads = np.concatenate([self.rows, self.indices])
        tails = np.concatenate([self.indices, self.rows])
        pairs = np.unique(np.stack([heads, tails], axis=1), axis=0)
        counts = np.bincount(pairs[:, 0], minlength=self.n_classes)
        return ClassNeighbors(np.concatenate([[0], np.cumsum(counts)]), pairs[:, 1])

    def validate(self, n_references: int | None = None) -> None:
        """Refuse rows that point nowhere, at themselves or twice at the same class.

        Parameters
        ----------
        n_references : int, optional
            Size of the set that `indices` point into; by default the rows' own set, in which a
            class is no neighbour of itself.
        """
        limit = self.n_classes if n_references is None else n_references
        if self.indptr[0] != 0 or self.indptr[-1] != self.n_edges or (self.degrees < 0).any():
            raise DataError(
                "indptr of the class graph must rise from 0 to the number of edges "
                f"({self.n_edges}); got {self.indptr[0]} to {self.indptr[-1]}"
            )
        for code in range(self.n_classes):
            row = self.of(code)
            wrong = row[(row < 0) | (row >= limit)]
            if len(wrong):
                raise DataError(
                    f"class {code} has neighbour {wrong[0]}; classes 0 to {limit - 1} are expected"
                )
            if n_references is None and (row == code).any():
                raise DataError(f"class {code} is listed as its own neighbour")
            if len(np.unique(row)) != len(row):
                raise DataError(f"class {code} lists a neighbour twice")


def nearest_classes(
    queries: ArrayLike,
    references: ArrayLike,
    k: int,
    space: str = "wasserstein",
    exclude_self: bool = False,
) -> NDArray[np.intp]:
    """Find the k nearest reference classes of each query class.

    Parameters
    ----------
    queries : array-like of shape (n_queries, n_features)
        One row a class: the features of its representative, or its attributes.
    references : array-like of shape (n_references, n_features)
        The classes to choose from.
    k : int
        Number of neighbours; clipped to what is there.
    space : {"wasserstein", "euclidean", "cosine", "attributes"}
        ``wasserstein`` is the exact W₂² on a line between rows scaled to the simplex;
        ``attributes`` is ``cosine``, the rows being attributes. A zero row has cosine 0 with all.
    exclude_self : bool
        Whether queries and references are the same classes, none its own neighbour.

    Returns
    -------
    ndarray of shape (n_queries, min(k, n_references))
        Indices of references, nearest first; of equally near ones the lower index comes first.

    Examples
    --------
    >>> nearest_classes([[0.0], [1.0], [3.0]], [[0.0], [1.0], [3.0]], 1, "euclidean", True)
    array([[1],
           [0],
           [1]])
    """
    check_number("k", k, low=1, integer=True)
    check_choice("space", space, SPACES)
    rows, others = _matrix(queries, "queries"), _matrix(references, "references")
    if rows.shape[1] != others.shape[1]:
        raise DataError(
            f"queries have {rows.shape[1]} columns and references {others.shape[1]}; "
            "the same number is expected"
        )
    distances = _distances(rows, others, space)
    n_available = len(others)
    if exclude_self:
        if len(rows) != len(others):
            raise DataError(
                f"exclude_self expects the same classes twice; got {len(rows)} queries and "
                f"{len(others)} references"
            )
        np.fill_diagonal(distances, np.inf)
        n_available -= 1
    return np.argsort(distances, axis=1, kind="stable")[:, : min(k, n_available)]


def class_graph(
    rows: ArrayLike, k: int, space: str = "wasserstein", directed: bool = True
) -> ClassNeighbors:
    """Join each class to its k nearest others.

    Parameters
    ----------
    rows : array-like of shape (n_classes, n_features)
        One row a class: the features of its representative, or its attributes.
    k : int
        Number of neighbours; clipped to n_classes − 1 (the paper's k = 50 exceeds the 40 seen
        classes of AwA).
    space : {"wasserstein", "euclidean", "cosine", "attributes"}
        As in `nearest_classes`.
    directed : bool
        Paper gap: "connected" may mean that c averages over its k nearest (True) or that an edge
        carries both ways (False: the union).

    Examples
    --------
    >>> class_graph([[0.0], [1.0], [3.0]], 1, "euclidean").indices
    array([1, 0, 1])
    >>> class_graph([[0.0], [1.0], [3.0]], 1, "euclidean", directed=False).of(1)
    array([0, 2])
    """
    graph = ClassNeighbors.from_rows(nearest_classes(rows, rows, k, space, exclude_self=True))
    return graph if directed else graph.symmetrized()


def frozen_array(values: ArrayLike, dtype: Any) -> NDArray[Any]:
    """Copy `values` into an array that cannot be written to."""
    array = np.array(values, dtype=dtype)
    array.setflags(write=False)
    return array


def _matrix(values: ArrayLike, what: str) -> NDArray[np.float64]:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise DataError(f"{what} must be a matrix, one row a class; got shape {matrix.shape}")
    check_finite(matrix, what)
    return matrix


def _distances(
    rows: NDArray[np.float64], others: NDArray[np.float64], space: str
) -> NDArray[np.float64]:
    if space == "wasserstein":
        from hgkt.transport import line_pairwise, to_simplex

        return np.array(line_pairwise(to_simplex(rows), to_simplex(others), p=2))
    if space == "euclidean":
        return cdist(rows, others, "sqeuclidean")
    # ‖a/|a| − b/|b|‖² = 2(1 − cos), computed pair by pair: equal rows tie exactly, which a matrix
    # product does not promise.
    norms = [np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, others)]
    units = [
        part / np.where(norm > 0, norm, 1.0)
        for part, norm in zip((rows, others), norms, strict=True)
    ]
    distances = cdist(units[0], units[1], "sqeuclidean") / 2
    distances[(norms[0] == 0) | (norms[1] == 0).T] = 1.0
    return distances
