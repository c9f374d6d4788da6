"""The graph with every edge written out, for PyTorch Geometric and NetworkX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import import_extra
from hgkt.exceptions import DataError
from hgkt.graph.construction import MAX_EDGES, HeterogeneousGraph

if TYPE_CHECKING:
    import networkx
    import torch_geometric.data

ROLES = ("ordinary", "representative")


def edge_lists(
    graph: HeterogeneousGraph, max_edges: int | None = MAX_EDGES
) -> dict[str, NDArray[np.intp]]:
    """Write out the directed edges (source, target): the target averages over its sources.

    Parameters
    ----------
    graph : HeterogeneousGraph
    max_edges : int or None
        The most edges to write out; None for no limit.

    Returns
    -------
    dict of str to ndarray of shape (2, n_edges)
        Instance indices under the keys ``"intra"`` and ``"inter"``.

    Examples
    --------
    >>> from hgkt.graph import ClassNeighbors
    >>> graph = HeterogeneousGraph([0, 0, 1], [0, 2], ClassNeighbors.from_rows([[1], []]))
    >>> {kind: edges.tolist() for kind, edges in edge_lists(graph).items()}
    {'intra': [[1, 0], [0, 1]], 'inter': [[2], [0]]}
    """
    n_edges = graph.n_edges()
    if max_edges is not None and n_edges > max_edges:
        raise DataError(
            f"the graph has {n_edges} edges, more than max_edges={max_edges}; hgkt.graph.Quotient "
            "needs none of them, or pass max_edges=None to write them all out"
        )
    parts = [np.empty((2, 0), dtype=np.intp)]
    if graph.intra:
        order = np.argsort(graph.codes, kind="stable")
        for members in np.split(order, np.cumsum(graph.counts)[:-1]):
            targets, sources = np.repeat(members, len(members)), np.tile(members, len(members))
            parts.append(np.stack([sources, targets])[:, sources != targets])
    inter = np.stack([graph.neighbors.indices, graph.neighbors.rows])
    return {"intra": np.concatenate(parts, axis=1), "inter": graph.representatives[inter]}


def to_pyg(
    graph: HeterogeneousGraph,
    attributes: ArrayLike | None = None,
    max_edges: int | None = MAX_EDGES,
) -> torch_geometric.data.HeteroData:
    """Convert to a PyTorch Geometric `HeteroData` with two node types and up to four edge types.

    Parameters
    ----------
    graph : HeterogeneousGraph
    attributes : array-like of shape (n_classes, n_attributes), optional
        Class attributes; each node's ``x`` is the row of its class.
    max_edges : int or None
        The most edges to write out; None for no limit.

    Returns
    -------
    torch_geometric.data.HeteroData
        Node types ``ordinary`` and ``representative`` with ``instance`` (index in the graph),
        ``y`` (class) and ``x``; edge types ``(role, "intra", role)`` and
        ``("representative", "inter", "representative")``.
    """
    torch = import_extra("torch", "graph")

    data = import_extra("torch_geometric.data", "graph").HeteroData()
    roles = graph.is_representative.astype(np.intp)
    # Position of each instance among the nodes of its role.
    position = np.empty(graph.n_instances, dtype=np.intp)
    for role, name in enumerate(ROLES):
        instances = np.flatnonzero(roles == role)
        position[instances] = np.arange(len(instances))
        data[name].num_nodes = len(instances)
        data[name].instance = torch.from_numpy(instances)
        data[name].y = torch.from_numpy(graph.codes[instances])
        if attributes is not None:
            data[name].x = torch.from_numpy(np.asarray(attributes)[graph.codes[instances]])
    for kind, (sources, targets) in edge_lists(graph, max_edges).items():
        for source_role, source_name in enumerate(ROLES):
            for target_role, target_name in enumerate(ROLES):
                here = (roles[sources] == source_role) & (roles[targets] == target_role)
                if here.any():
                    edges = np.stack([position[sources[here]], position[targets[here]]])
                    data[source_name, kind, target_name].edge_index = torch.from_numpy(edges)
    return data


def to_networkx(
    graph: HeterogeneousGraph, max_edges: int | None = MAX_EDGES
) -> networkx.DiGraph[Any]:
    """Convert to a directed NetworkX graph.

    Parameters
    ----------
    graph : HeterogeneousGraph
    max_edges : int or None
        The most edges to write out; None for no limit.

    Returns
    -------
    networkx.DiGraph
        Nodes are instances with ``code`` and ``role``; an edge leads from a neighbour to the node
        that averages over it and has ``kind`` ``"intra"`` or ``"inter"``.
    """
    result = import_extra("networkx", "graph").DiGraph()
    roles = graph.is_representative
    for instance, code in enumerate(graph.codes.tolist()):
        result.add_node(instance, code=code, role=ROLES[int(roles[instance])])
    for kind, edges in edge_lists(graph, max_edges).items():
        result.add_edges_from(edges.T.tolist(), kind=kind)
    return result
