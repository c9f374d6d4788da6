"""Algorithm 1 of the paper: the heterogeneous graph over the instances of seen classes.

1. All instances of a class are joined: a complete graph per class, implied by the class codes.
2. The barycenter of each class is found in Wasserstein space (`hgkt.transport`).
3. The instance nearest to the barycenter represents its class.
4. Each representative is joined to those of its k nearest classes.

`construct_graph` is the whole algorithm. The N_c² edges inside classes are never written out;
message passing runs on `hgkt.graph.Quotient`, which is lossless.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from hgkt._arrays import unit_rows
from hgkt._validation import check_choice, check_finite, check_number
from hgkt.exceptions import DataError
from hgkt.transport import line_pairwise, select_representatives, to_simplex

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

SPACES = ("wasserstein", "euclidean", "cosine", "attributes")
"""Where classes look for neighbours; ``attributes`` is the cosine of attribute vectors."""
EDGE_KINDS = ("intra", "inter", "all")
MAX_EDGES = 2_000_000
"""Edges that an export writes out unless told otherwise: about 32 MB of indices."""


def construct_graph(
    features: NDArray[Any],
    codes: ArrayLike,
    attributes: ArrayLike,
    *,
    method: str = "wasserstein",
    k: int = 2,
    space: str = "wasserstein",
    symmetric: bool = False,
    intra: bool = True,
    representatives: ArrayLike | None = None,
    **options: Any,
) -> HeterogeneousGraph:
    """Return the heterogeneous graph over the instances of seen classes: Algorithm 1, steps 1 to 4.

    Parameters
    ----------
    features : ndarray of shape (n_instances, n_features)
        Visual features.
    codes : array-like of shape (n_instances,)
        Class of each instance, from 0 to n_classes − 1.
    attributes : array-like of shape (n_classes, n_attributes)
        Class attributes; read where `space` is ``"attributes"``.
    method : {"wasserstein", "euclidean", "random", "medoid"}, default="wasserstein"
        How the representative of a class is chosen, see `hgkt.transport.select_representatives`.
    k : int, default=2
        Number of neighbouring classes; 0 leaves out the edges between classes, as one of the
        paper's ablations does. The paper's best is 2.
    space : {"wasserstein", "euclidean", "cosine", "attributes"}, default="wasserstein"
        Where classes are near each other. Paper gap: Algorithm 1 says "k-nearest neighbors in S"
        without a metric; its conclusion speaks of the Wasserstein space.
    symmetric : bool, default=False
        Whether inter-class edges carry both ways.
    intra : bool, default=True
        Whether there are edges inside classes; the paper's other ablation leaves them out.
    representatives : array-like of shape (n_classes,), optional
        Instances that represent the classes, where they are chosen already (steps 2 and 3).
    **options
        `solver`, `reg`, `device`, `random_state` and `progress` of `select_representatives`.

    Returns
    -------
    HeterogeneousGraph

    Examples
    --------
    >>> X = np.array([[4.0, 1, 0], [3, 2, 0], [4, 2, 0], [0, 1, 4], [1, 4, 1]])
    >>> graph = construct_graph(X, [0, 0, 0, 1, 2], np.eye(3), k=1)
    >>> graph.representatives, graph.neighbors.indices
    (array([2, 3, 4]), array([2, 2, 0]))
    """
    if len(features) != np.size(codes):
        raise DataError(
            f"there are {len(features)} rows of features and {np.size(codes)} codes; "
            "the same number is expected"
        )
    if representatives is None:
        n_classes = len(np.asarray(attributes))
        found = select_representatives(features, codes, n_classes, method, **options)
        representatives = found.indices
    chosen = np.asarray(representatives, dtype=np.intp)
    # A representative that is no row is named below.
    rows = features[chosen] if ((chosen >= 0) & (chosen < len(features))).all() else features[:0]
    return join_representatives(
        rows, codes, attributes, chosen, k=k, space=space, symmetric=symmetric, intra=intra
    )


def join_representatives(
    rows: NDArray[Any],
    codes: ArrayLike,
    attributes: ArrayLike,
    representatives: ArrayLike,
    *,
    k: int = 2,
    space: str = "wasserstein",
    symmetric: bool = False,
    intra: bool = True,
) -> HeterogeneousGraph:
    """Return the graph from the features of the representatives alone, `rows` (L, D).

    Steps 1 and 4 of Algorithm 1, for instances that are not in memory together; parameters as in
    `construct_graph`.
    """
    check_choice("space", space, SPACES)
    chosen = np.asarray(representatives, dtype=np.intp)
    attributes = np.asarray(attributes)
    if len(attributes) != len(chosen):
        raise DataError(
            f"there are {len(attributes)} rows of attributes and {len(chosen)} representatives; "
            "one of each a class is expected"
        )
    # Checked before neighbours are looked for, so that a wrong representative is named as such.
    bare = HeterogeneousGraph(
        np.asarray(codes, dtype=np.intp), chosen, ClassNeighbors.empty(len(chosen)), intra
    ).validate()
    if k == 0:
        return bare
    nodes = attributes if space == "attributes" else rows
    neighbors = class_graph(nodes, k, space, directed=not symmetric)
    return HeterogeneousGraph(bare.codes, chosen, neighbors, intra)


@dataclass(frozen=True, eq=False)
class HeterogeneousGraph:
    """Instances joined within their class, and class representatives joined to each other.

    A node is an ordinary instance or the representative of its class. *Intra-class* edges join
    all instances of a class with each other; *inter-class* edges lead to a representative from
    the representatives of neighbouring classes. Both are implied by arrays of sizes N and L·k.

    Parameters
    ----------
    codes : array-like of shape (n_instances,)
        Class of each instance, from 0 to n_classes − 1.
    representatives : array-like of shape (n_classes,)
        The instance that represents each class.
    neighbors : ClassNeighbors
        Inter-class edges: ``neighbors.of(c)`` are the classes over which c averages.
    intra : bool
        Whether the complete in-class graphs are there (False in the ablation).

    Examples
    --------
    >>> neighbors = ClassNeighbors.from_rows([[1], [0]])
    >>> graph = HeterogeneousGraph([0, 0, 0, 1], [1, 3], neighbors)
    >>> graph.n_edges("intra"), graph.n_edges("inter")
    (6, 2)
    >>> graph.neighbors_of(0), graph.neighbors_of(1)
    (array([1, 2]), array([0, 2, 3]))
    """

    codes: NDArray[np.intp]
    representatives: NDArray[np.intp]
    neighbors: ClassNeighbors
    intra: bool = True

    def __post_init__(self) -> None:
        for name in ("codes", "representatives"):
            object.__setattr__(self, name, frozen_array(getattr(self, name), np.intp))

    @property
    def n_instances(self) -> int:
        """Number of nodes."""
        return len(self.codes)

    @property
    def n_classes(self) -> int:
        """Number of classes, each with one representative."""
        return len(self.representatives)

    @cached_property
    def counts(self) -> NDArray[np.intp]:
        """Number of instances of each class, of shape (n_classes,)."""
        return frozen_array(np.bincount(self.codes, minlength=self.n_classes), np.intp)

    @property
    def is_representative(self) -> NDArray[np.bool_]:
        """Role of each instance, of shape (n_instances,)."""
        roles = np.zeros(self.n_instances, dtype=bool)
        roles[self.representatives] = True
        return roles

    def n_edges(self, kind: str = "all") -> int:
        """Count directed edges.

        Parameters
        ----------
        kind : {"intra", "inter", "all"}
            Edges within classes, between representatives, or both.
        """
        check_choice("kind", kind, EDGE_KINDS)
        intra = int((self.counts * (self.counts - 1)).sum()) if self.intra else 0
        inter = self.neighbors.n_edges
        return {"intra": intra, "inter": inter, "all": intra + inter}[kind]

    def neighbors_of(self, instance: int) -> NDArray[np.intp]:
        """Return the instances over which one instance averages, in-class ones first."""
        if not 0 <= instance < self.n_instances:
            raise DataError(
                f"instance {instance} does not exist; 0 to {self.n_instances - 1} are expected"
            )
        code = self.codes[instance]
        members = np.flatnonzero((self.codes == code) & self.intra)
        members = np.setdiff1d(members, instance, assume_unique=True)
        if instance != self.representatives[code]:
            return members
        return np.concatenate([members, self.representatives[self.neighbors.of(code)]])

    def validate(self) -> HeterogeneousGraph:
        """Check that all parts fit together and return the graph; the error names what does not."""
        if self.neighbors.n_classes != self.n_classes:
            raise DataError(
                f"the class graph has {self.neighbors.n_classes} classes and there are "
                f"{self.n_classes} representatives; the same number is expected"
            )
        outside = (self.codes < 0) | (self.codes >= self.n_classes)
        if outside.any():
            row = int(np.flatnonzero(outside)[0])
            raise DataError(
                f"instance {row} has class {self.codes[row]}; "
                f"0 to {self.n_classes - 1} are expected"
            )
        for code, row in enumerate(self.representatives):
            if not self.counts[code]:
                raise DataError(f"class {code} has no instance, so it has no representative")
            if not 0 <= row < self.n_instances:
                raise DataError(
                    f"the representative of class {code} is instance {row}; "
                    f"0 to {self.n_instances - 1} are expected"
                )
            if self.codes[row] != code:
                raise DataError(
                    f"the representative of class {code} is instance {row}, which belongs to class "
                    f"{self.codes[row]}"
                )
        self.neighbors.validate()
        return self

    def to_pyg(
        self, attributes: ArrayLike | None = None, max_edges: int | None = MAX_EDGES
    ) -> torch_geometric.data.HeteroData:
        """Write all edges out as a PyTorch Geometric graph; see `hgkt.graph.export.to_pyg`."""
        from hgkt.graph.export import to_pyg

        return to_pyg(self, attributes, max_edges)

    def to_networkx(self, max_edges: int | None = MAX_EDGES) -> networkx.DiGraph[Any]:
        """Write all edges out as a NetworkX graph; see `hgkt.graph.export.to_networkx`."""
        from hgkt.graph.export import to_networkx

        return to_networkx(self, max_edges)


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
        One row per class: the features of its representative, or its attributes.
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
        One row per class: the features of its representative, or its attributes.
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
        return np.array(line_pairwise(to_simplex(rows), to_simplex(others)))
    if space == "euclidean":
        return cdist(rows, others, "sqeuclidean")
    # ‖a/|a| − b/|b|‖² = 2(1 − cos), computed pair by pair: equal rows tie exactly, which a matrix
    # product does not promise.
    distances = cdist(unit_rows(rows), unit_rows(others), "sqeuclidean") / 2
    distances[~rows.any(axis=1)] = 1.0
    distances[:, ~others.any(axis=1)] = 1.0
    return distances
