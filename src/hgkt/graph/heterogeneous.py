"""The heterogeneous graph of Algorithm 1, kept without its N_c² in-class edges."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_choice
from hgkt.exceptions import DataError
from hgkt.graph.neighbors import ClassNeighbors, frozen_array

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

EDGE_KINDS = ("intra", "inter", "all")
MAX_EDGES = 2_000_000
"""Edges that an export writes out unless told otherwise: about 32 MB of indices."""


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
