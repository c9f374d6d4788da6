"""What the graph refuses, it refuses with one whole sentence; what is left out has a default."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hgkt.exceptions import DataError, MissingExtraError
from hgkt.graph import (
    ClassNeighbors,
    HeterogeneousGraph,
    Quotient,
    class_graph,
    construct_graph,
    nearest_classes,
    sample_neighbors,
)
from hgkt.graph.export import edge_lists

CODES, CHOSEN = [0, 0, 1], [0, 2]
GRAPH = HeterogeneousGraph(CODES, CHOSEN, ClassNeighbors.from_rows([[1], [0]]))
TWO, THREE = np.ones((2, 2)), np.ones((3, 2))


def built(features: Any, codes: Any, attributes: Any, **options: Any) -> Any:
    return construct_graph(features, codes, attributes, **{"representatives": CHOSEN, **options})


def checked(codes: list, representatives: list, rows: list) -> Any:
    neighbors = ClassNeighbors.from_rows(rows)
    return HeterogeneousGraph(codes, representatives, neighbors).validate()


REFUSALS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: built(TWO, CODES, TWO),
        "there are 2 rows of features and 3 codes; the same number is expected",
    ),
    (
        lambda: built(THREE, CODES, THREE),
        "there are 3 rows of attributes and 2 representatives; one of each a class is expected",
    ),
    (
        lambda: built(THREE, CODES, TWO, space="hyperbolic"),
        "space must be one of 'wasserstein', 'euclidean', 'cosine', 'attributes'; got 'hyperbolic'",
    ),
    (
        lambda: nearest_classes(TWO, np.ones((2, 3)), 1, "cosine"),
        "queries have 2 columns and references 3; the same number is expected",
    ),
    (
        lambda: nearest_classes(TWO, THREE, 1, "cosine", exclude_self=True),
        "exclude_self expects the same classes twice; got 2 queries and 3 references",
    ),
    (
        lambda: nearest_classes(TWO, TWO, 0),
        "k must be an integer in [1, inf]; got 0",
    ),
    (
        lambda: nearest_classes(TWO, TWO, 1, "manhattan"),
        "space must be one of 'wasserstein', 'euclidean', 'cosine', 'attributes'; got 'manhattan'",
    ),
    (
        lambda: nearest_classes(TWO[0], TWO, 1),
        "queries must be a matrix, one row a class; got shape (2,)",
    ),
    (
        lambda: nearest_classes(TWO, TWO[0], 1),
        "references must be a matrix, one row a class; got shape (2,)",
    ),
    (
        lambda: nearest_classes(TWO, TWO * np.inf, 1),
        "references contain infinity (inf) in row 0; only finite numbers are accepted",
    ),
    (
        lambda: ClassNeighbors([0, 1, 3], [1]).validate(),
        "indptr of the class graph must rise from 0 to the number of edges (1); got 0 to 3",
    ),
    (
        lambda: ClassNeighbors([1, 1, 1], [1]).validate(),
        "indptr of the class graph must rise from 0 to the number of edges (1); got 1 to 1",
    ),
    (
        lambda: ClassNeighbors([0, 2, 1], [1]).validate(),
        "indptr of the class graph must rise from 0 to the number of edges (1); got 0 to 1",
    ),
    (
        lambda: ClassNeighbors.from_rows([[2], [0]]).validate(2),
        "class 0 has neighbour 2; classes 0 to 1 are expected",
    ),
    (
        lambda: ClassNeighbors.from_rows([[1], [-1]]).validate(),
        "class 1 has neighbour -1; classes 0 to 1 are expected",
    ),
    (
        lambda: ClassNeighbors.from_rows([[0], []]).validate(),
        "class 0 is listed as its own neighbour",
    ),
    (
        lambda: ClassNeighbors.from_rows([[], [0, 0]]).validate(7),
        "class 1 lists a neighbour twice",
    ),
    (
        lambda: GRAPH.neighbors_of(-1),
        "instance -1 does not exist; 0 to 2 are expected",
    ),
    (
        lambda: GRAPH.neighbors_of(3),
        "instance 3 does not exist; 0 to 2 are expected",
    ),
    (
        lambda: GRAPH.n_edges("outer"),
        "kind must be one of 'intra', 'inter', 'all'; got 'outer'",
    ),
    (
        lambda: checked(CODES, CHOSEN, [[1]]),
        "the class graph has 1 classes and there are 2 representatives; "
        "the same number is expected",
    ),
    (
        lambda: checked([0, -1, 1], CHOSEN, [[1], [0]]),
        "instance 1 has class -1; 0 to 1 are expected",
    ),
    (
        lambda: checked([0, 0, 2], CHOSEN, [[1], [0]]),
        "instance 2 has class 2; 0 to 1 are expected",
    ),
    (
        lambda: checked([0, 0, 0], [0, 1], [[1], [0]]),
        "class 1 has no instance, so it has no representative",
    ),
    (
        lambda: checked(CODES, [0, 3], [[1], [0]]),
        "the representative of class 1 is instance 3; 0 to 2 are expected",
    ),
    (
        lambda: checked(CODES, [-3, 2], [[1], [0]]),
        "the representative of class 0 is instance -3; 0 to 2 are expected",
    ),
    (
        lambda: checked(CODES, [0, 1], [[1], [0]]),
        "the representative of class 1 is instance 1, which belongs to class 0",
    ),
    (
        lambda: Quotient([1, 2, 3], ClassNeighbors.empty(2)),
        "there are 3 counts and 2 classes in the class graph; the same number is expected",
    ),
    (
        lambda: Quotient([1, 0], ClassNeighbors.empty(2)),
        "class 1 has no instance; at least one is expected",
    ),
    (
        lambda: Quotient([1, 2], ClassNeighbors.empty(2), aggregation="sum"),
        "aggregation must be one of 'union', 'per-type', 'inter-only'; got 'sum'",
    ),
    (
        lambda: sample_neighbors(
            Quotient([1], ClassNeighbors.empty(1)), [0], [True], 0, np.random.default_rng(0)
        ),
        "n_sampled must be an integer in [1, inf]; got 0",
    ),
    (
        lambda: edge_lists(GRAPH, max_edges=3),
        "the graph has 4 edges, more than max_edges=3; hgkt.graph.Quotient needs none of them, "
        "or pass max_edges=None to write them all out",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_refusals_are_whole_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        call()
    assert str(refused.value) == sentence


def test_nothing_is_refused_at_the_very_edge() -> None:
    assert edge_lists(GRAPH, max_edges=4)["intra"].shape == (2, 2)
    assert GRAPH.neighbors_of(0).tolist() == [1, 2]
    assert GRAPH.neighbors_of(2).tolist() == [0]
    ClassNeighbors.from_rows([[1], [0]]).validate()
    ClassNeighbors.from_rows([[6], [0, 1]]).validate(7)  # into another set, "itself" included
    assert (
        Quotient([1, 1], ClassNeighbors.empty(2)).mixing().toarray().tolist() == np.eye(4).tolist()
    )


def test_construct_graph_takes_two_directed_wasserstein_neighbours_unless_told() -> None:
    rng = np.random.default_rng(0)
    features, attributes = rng.random((6, 9)) ** 3, rng.random((6, 4))
    graph = construct_graph(features, range(6), attributes, representatives=range(6))
    expected = class_graph(features, 2, "wasserstein", directed=True)
    assert graph.neighbors.degrees.tolist() == [2] * 6
    assert graph.neighbors.indices.tolist() == expected.indices.tolist()
    assert class_graph(features, 2).indices.tolist() == expected.indices.tolist()
    nearest = nearest_classes(features, features, 3)  # itself too
    assert nearest[:, 0].tolist() == list(range(6))
    assert nearest[:, 1:].ravel().tolist() == expected.indices.tolist()


def test_graph_indices_are_integers_even_where_there_is_none() -> None:
    bare = HeterogeneousGraph([0, 1], [0, 1], ClassNeighbors.empty(2), intra=False)
    assert bare.neighbors_of(0).dtype == np.intp
    assert ClassNeighbors.from_rows([]).n_classes == 0
    for edges in edge_lists(bare).values():
        assert edges.shape == (2, 0)
        assert edges.dtype == np.intp
    assert class_graph(np.ones((1, 2)), 3).indices.dtype == np.intp


def test_exports_stop_at_two_million_edges_unless_told() -> None:
    # 1415 instances of one class have 1415 · 1414 = 2 000 810 edges, 1414 of them 1 997 982.
    graph = HeterogeneousGraph(np.zeros(1415, int), [0], ClassNeighbors.empty(1))
    for export in (edge_lists, HeterogeneousGraph.to_networkx, HeterogeneousGraph.to_pyg):
        with pytest.raises(DataError, match="has 2000810 edges, more than max_edges=2000000;"):
            export(graph)
    smaller = HeterogeneousGraph(np.zeros(1414, int), [0], ClassNeighbors.empty(1))
    assert edge_lists(smaller)["intra"].shape == (2, 1_997_982)


def test_to_pyg_without_attributes_has_classes_only() -> None:
    data = GRAPH.to_pyg()
    assert data["ordinary"].y.tolist() == [0]
    assert data["representative"].y.tolist() == [0, 1]
    assert data["representative"].num_nodes == 2
    assert "x" not in data["ordinary"]


@pytest.mark.parametrize(
    ("export", "package"), [("to_pyg", "torch_geometric"), ("to_networkx", "networkx")]
)
def test_exports_name_the_extra_that_is_missing(
    export: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (package, f"{package}.data"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError) as refused:
        getattr(GRAPH, export)()
    assert str(refused.value) == (
        f"this needs the package {package!r}; install it with pip install 'hgkt[graph]'"
    )
