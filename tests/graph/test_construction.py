"""The heterogeneous graph: counts, neighbourhoods, validation, construction, exports."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from hgkt.exceptions import DataError
from hgkt.graph import ClassNeighbors, HeterogeneousGraph, class_graph, construct_graph
from hgkt.graph.export import edge_lists
from hgkt.transport import (
    line_barycenter,
    line_distances,
    line_pairwise,
    select_representatives,
    to_simplex,
)

CODES = np.array([2, 0, 1, 0, 2, 0, 2])
REPRESENTATIVES = [3, 2, 0]
NEIGHBORS = [[1, 2], [0], [1]]


def make_graph(intra: bool = True) -> HeterogeneousGraph:
    neighbors = ClassNeighbors.from_rows(NEIGHBORS)
    return HeterogeneousGraph(CODES, REPRESENTATIVES, neighbors, intra)


def brute_edges(intra: bool = True) -> set[tuple[int, int, str]]:
    edges = set()
    for i in range(7):
        for j in range(7):
            if intra and i != j and CODES[i] == CODES[j]:
                edges.add((j, i, "intra"))
    for code, row in enumerate(NEIGHBORS):
        edges |= {(REPRESENTATIVES[j], REPRESENTATIVES[code], "inter") for j in row}
    return edges


@pytest.mark.parametrize("intra", [True, False])
def test_graph_neighbors_and_counts_agree_with_the_definition(intra: bool) -> None:
    graph, edges = make_graph(intra), brute_edges(intra)
    assert graph.n_edges() == len(edges)
    for kind in ("intra", "inter"):
        assert graph.n_edges(kind) == sum(edge[2] == kind for edge in edges)
    for i in range(7):
        assert sorted(graph.neighbors_of(i)) == sorted(s for s, t, _ in edges if t == i)


@pytest.mark.parametrize("intra", [True, False])
def test_graph_to_networkx_has_every_edge_with_its_kind(intra: bool) -> None:
    exported = make_graph(intra).to_networkx()
    assert set(exported.edges(data="kind")) == brute_edges(intra)
    assert exported.nodes[3] == {"code": 0, "role": "representative"}
    assert exported.nodes[5] == {"code": 0, "role": "ordinary"}
    assert isinstance(exported, nx.DiGraph)


# Without edges inside classes only representatives have any.
@pytest.mark.filterwarnings("ignore:The node types {'ordinary'} are isolated")
@pytest.mark.parametrize("intra", [True, False])
def test_graph_to_pyg_has_every_edge_with_its_type(intra: bool) -> None:
    attributes = np.arange(6.0).reshape(3, 2)
    data = make_graph(intra).to_pyg(attributes)
    assert data.validate()
    found = set()
    for (source, kind, target), store in data.edge_items():
        for s, t in store.edge_index.T.tolist():
            found.add((int(data[source].instance[s]), int(data[target].instance[t]), kind))
    assert found == brute_edges(intra)
    assert data["representative"].instance.tolist() == sorted(REPRESENTATIVES)
    np.testing.assert_array_equal(
        data["ordinary"].x.numpy(), attributes[CODES[data["ordinary"].instance.numpy()]]
    )


def test_graph_export_refuses_too_many_edges_unless_forced() -> None:
    graph = make_graph()
    with pytest.raises(DataError, match=r"has 16 edges, more than max_edges=10"):
        graph.to_pyg(max_edges=10)
    with pytest.raises(DataError, match="max_edges=10"):
        graph.to_networkx(max_edges=10)
    assert sum(edges.shape[1] for edges in edge_lists(graph, None).values()) == 16


def test_graph_of_benchmark_size_counts_edges_without_storing_them() -> None:
    counts = np.full(40, 588)
    codes = np.repeat(np.arange(40), counts)
    neighbors = class_graph(np.random.default_rng(0).random((40, 3)), 2, "euclidean")
    graph = HeterogeneousGraph(codes, np.arange(40) * 588, neighbors).validate()
    assert graph.n_edges("intra") == 40 * 588 * 587
    assert len(graph.neighbors_of(0)) == 587 + 2
    with pytest.raises(DataError, match="Quotient needs none of them"):
        graph.to_networkx()


def test_graph_cannot_be_written_to() -> None:
    graph = make_graph()
    for array in (graph.codes, graph.representatives, graph.counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError):
        graph.intra = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("codes", "representatives", "rows", "message"),
    [
        ([0, 1, 5], [0, 1], [[1], [0]], "instance 2 has class 5; 0 to 1"),
        ([0, 0, 0], [0, 1], [[1], [0]], "class 1 has no instance"),
        ([0, 1, 1], [0, 7], [[1], [0]], "class 1 is instance 7; 0 to 2"),
        ([0, 1, 1], [0, 0], [[1], [0]], "class 1 is instance 0, which belongs to class 0"),
        ([0, 1, 1], [0, 1], [[1], [1]], "class 1 is listed as its own neighbour"),
        ([0, 1, 1], [0, 1], [[1]], "has 1 classes and there are 2 representatives"),
    ],
)
def test_graph_validate_names_what_is_wrong(
    codes: list, representatives: list, rows: list, message: str
) -> None:
    graph = HeterogeneousGraph(codes, representatives, ClassNeighbors.from_rows(rows))
    with pytest.raises(DataError, match=message):
        graph.validate()


def test_graph_refuses_an_unknown_instance_or_kind() -> None:
    with pytest.raises(DataError, match="instance 7 does not exist"):
        make_graph().neighbors_of(7)
    with pytest.raises(DataError, match="kind must be one of"):
        make_graph().n_edges("outer")


@pytest.mark.parametrize("space", ["wasserstein", "euclidean", "cosine", "attributes"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_construct_graph_joins_representatives_in_the_space_asked_for(
    space: str, symmetric: bool
) -> None:
    rng = np.random.default_rng(1)
    features, attributes = rng.random((7, 5)), rng.random((3, 4))
    graph = construct_graph(
        features, CODES, attributes, representatives=REPRESENTATIVES, k=1, space=space,
        symmetric=symmetric,
    )  # fmt: skip
    rows = attributes if space == "attributes" else features[REPRESENTATIVES]
    expected = class_graph(rows, 1, space, directed=not symmetric)
    np.testing.assert_array_equal(graph.neighbors.indices, expected.indices)
    np.testing.assert_array_equal(graph.neighbors.indptr, expected.indptr)
    graph.validate()


def test_construct_graph_leaves_out_either_kind_of_edge() -> None:
    rng = np.random.default_rng(2)
    parts = (rng.random((7, 5)), CODES, rng.random((3, 4)))
    graph = construct_graph(*parts, representatives=REPRESENTATIVES, k=0)
    assert (graph.n_edges("intra"), graph.n_edges("inter")) == (12, 0)
    graph = construct_graph(*parts, representatives=REPRESENTATIVES, k=50, intra=False)
    assert (graph.n_edges("intra"), graph.n_edges("inter")) == (0, 6)


@pytest.mark.parametrize("method", ["wasserstein", "euclidean", "medoid", "random"])
def test_construct_graph_is_algorithm_1(method: str) -> None:
    """The four steps, written out: complete classes, centers, representatives, nearest classes."""
    rng = np.random.default_rng(3)
    features, codes, attributes = rng.random((40, 6)), np.arange(40) % 5, np.eye(5)
    graph = construct_graph(features, codes, attributes, method=method, random_state=1)
    found = select_representatives(features, codes, 5, method, random_state=1)
    np.testing.assert_array_equal(graph.representatives, found.indices)
    distances = line_pairwise(to_simplex(features[found.indices]))
    for instance in range(40):
        code = codes[instance]
        expected = set(np.flatnonzero(codes == code)) - {instance}  # step 1
        if instance == found.indices[code]:  # step 4
            expected |= set(found.indices[np.argsort(distances[code])[1:3]])
        assert set(graph.neighbors_of(instance)) == expected
    members = np.flatnonzero(codes == 0)
    if method == "wasserstein":  # steps 2 and 3
        rows = to_simplex(features[members])
        assert (
            graph.representatives[0]
            == members[np.argmin(line_distances(rows, line_barycenter(rows)))]
        )


def test_construct_graph_refuses_with_a_sentence() -> None:
    X, attributes = np.ones((7, 2)), np.ones((3, 2))
    with pytest.raises(DataError, match="class 1 is instance 3, which belongs to class 0"):
        construct_graph(X, CODES, attributes, representatives=[3, 3, 0])
    with pytest.raises(DataError, match="6 rows of features and 7 codes"):
        construct_graph(X[:6], CODES, attributes, representatives=REPRESENTATIVES)
    with pytest.raises(DataError, match="2 rows of attributes and 3 representatives"):
        construct_graph(X, CODES, attributes[:2], representatives=REPRESENTATIVES)
