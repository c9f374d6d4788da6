"""Groups of classes: sums, levels, back-off, and how models keep them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hgkt.estimators import HGKTClassifier, Taxonomy, load_model
from hgkt.exceptions import DataError

# fruit > apple > (gala, jazz), fruit > lemon; milk > (oat, soy); salt alone.
CLASSES = ["gala", "jazz", "lemon", "oat", "soy", "salt"]
PARENTS = {
    "gala": "apple",
    "jazz": "apple",
    "apple": "fruit",
    "lemon": "fruit",
    "oat": "milk",
    "soy": "milk",
}
ROW = np.array([[0.45, 0.25, 0.1, 0.1, 0.06, 0.04]])


@pytest.fixture(scope="module")
def tree():
    return Taxonomy.of(CLASSES, PARENTS)


def answer(tree, row, at_least):
    (node,), (chance,) = tree.back_off(np.atleast_2d(row), at_least)
    return (None if node < 0 else str(tree.names[node])), round(float(chance), 9)


def test_nodes_are_the_classes_then_the_groups(tree):
    assert tree.names.tolist() == [*CLASSES, "apple", "fruit", "milk"]
    assert tree.depths.tolist() == [3, 3, 2, 2, 2, 1, 2, 1, 1]
    assert tree.to_parents() == PARENTS
    assert tree.n_levels == 3


def test_the_probability_of_a_group_is_the_sum_of_its_classes(tree):
    groups = tree.probabilities(ROW)[0, len(CLASSES) :]
    np.testing.assert_allclose(groups, [0.7, 0.8, 0.16])
    names, chances = tree.at_level(ROW, 1)
    assert names.tolist() == ["salt", "fruit", "milk"]
    np.testing.assert_allclose(chances, [[0.04, 0.8, 0.16]])
    names, chances = tree.at_level(ROW, 2)
    assert names.tolist() == ["lemon", "oat", "soy", "salt", "apple"]
    np.testing.assert_allclose(chances, [[0.1, 0.1, 0.06, 0.04, 0.7]])
    names, chances = tree.at_level(ROW, 3)
    np.testing.assert_array_equal(chances, ROW)


@pytest.mark.parametrize(
    ("at_least", "expected"),
    [
        (0.4, ("gala", 0.45)),
        (0.5, ("apple", 0.7)),
        (0.7, ("apple", 0.7)),
        (0.75, ("fruit", 0.8)),
        (0.9, (None, 0.8)),
    ],
)
def test_back_off_goes_as_deep_as_the_floor_lets_it(tree, at_least, expected):
    assert answer(tree, ROW, at_least) == expected


def test_distances_count_steps_through_the_root(tree):
    others = ["gala", "jazz", "lemon", "apple", "oat", "salt"]
    nodes = [tree.names.tolist().index(name) for name in others]
    assert tree.distances(np.zeros(6, dtype=int), np.array(nodes)).tolist() == [0, 2, 3, 1, 5, 4]


def test_a_class_may_have_others_below_it():
    tree = Taxonomy.of(["orange", "blood orange"], {"blood orange": "orange"})
    np.testing.assert_allclose(tree.probabilities(np.array([[0.6, 0.3]])), [[0.9, 0.3]])
    assert answer(tree, [0.6, 0.3], 0.8) == ("orange", 0.9)
    assert answer(tree, [0.6, 0.3], 0.2) == ("orange", 0.9)
    assert answer(tree, [0.2, 0.7], 0.6) == ("blood orange", 0.7)


def test_without_parents_every_class_stands_alone():
    tree = Taxonomy.of(["a", "b"])
    assert answer(tree, [0.7, 0.3], 0.6) == ("a", 0.7)
    assert answer(tree, [0.7, 0.3], 0.8) == (None, 0.7)
    with pytest.raises(DataError, match="there are no groups"):
        tree.level("group")


def test_levels_have_numbers_and_group_only_where_it_is_clear(tree):
    assert Taxonomy.of(["a"], {"a": "b"}).level("group") == 1
    assert tree.level(2) == 2
    with pytest.raises(DataError, match="could be any of 2; give a number from 1"):
        tree.level("group")
    for wrong in (0, 4, "family", True):
        with pytest.raises(DataError, match="level must be"):
            tree.level(wrong)


@pytest.mark.parametrize(
    ("parents", "sentence"),
    [
        ({"gala": "gala"}, "'gala' lies in itself: gala, gala"),
        ({"gala": "apple", "apple": "gala"}, "'gala' lies in itself: gala, apple, gala"),
        ([("gala", "apple")], "parents must map"),
        ({"gala": 3}, "have names; got 3"),
        ({"gala": ["apple"]}, "have names"),
        ({"gala": " "}, "blank name"),
        ({str(n): str(n + 1) for n in range(40)}, "more than 32 levels deep"),
    ],
)
def test_what_is_no_tree_is_refused_in_a_sentence(parents, sentence):
    with pytest.raises(DataError, match=sentence):
        Taxonomy.of(["gala"], parents)


@st.composite
def trees(draw):
    """A tree whose node n has its parent among the nodes before it, and probabilities."""
    above = [draw(st.integers(-1, n - 1)) for n in range(draw(st.integers(1, 12)))]
    parents = {f"n{n}": f"n{p}" for n, p in enumerate(above) if p >= 0}
    leaves = [f"n{n}" for n in range(len(above)) if n not in above or draw(st.booleans())]
    weights = draw(arrays(float, (3, len(leaves)), elements=st.floats(0.01, 1)))
    return Taxonomy.of(leaves, parents), weights / weights.sum(axis=1, keepdims=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trees(), st.floats(0.01, 1), st.floats(0.01, 1))
def test_sums_hold_and_back_off_is_monotone_and_deepest(case, one, two):
    tree, chances = case
    sums = tree.probabilities(chances)
    own = np.hstack([chances, np.zeros((len(chances), len(tree.names) - tree.n_classes))])
    for node in range(len(tree.names)):
        children = tree.parents == node
        np.testing.assert_allclose(sums[:, node], own[:, node] + sums[:, children].sum(axis=1))
    for level in range(1, tree.n_levels + 1):
        np.testing.assert_allclose(tree.at_level(chances, level)[1].sum(axis=1), 1)
    low, high = sorted([one, two])
    deep, chance = tree.back_off(chances, low)
    shallow, _ = tree.back_off(chances, high)
    for row, (node, above) in enumerate(zip(deep.tolist(), shallow.tolist(), strict=True)):
        assert above < 0 or above in tree.paths[node]
        if node >= 0:
            assert chance[row] == sums[row, node] >= low
        if low > 0.5:
            passing = sums[row] >= low
            assert tree.depths[node] == tree.depths[passing].max() if passing.any() else node < 0


# ---------------------------------------------------------------------- models
def fitted(small):
    return HGKTClassifier().fit(small["X"], small["y"], small["seen"])


def test_groups_live_with_the_classes_of_a_model(small, tmp_path):
    model = fitted(small).set_parents({"class a": "left", "class b": "left", "left": "top"})
    model.add_classes(small["unseen"], parents={"class g": "right"})
    expected = {"class a": "left", "class b": "left", "left": "top", "class g": "right"}
    assert model.parents_ == expected
    assert load_model(model.save(tmp_path / "m")).parents_ == expected
    model.remove_classes(["class g"])
    assert "right" not in model.taxonomy().names
    model.add_classes({"class g": small["unseen"]["class g"]})
    assert model.parents_ == expected  # it came back to its place
    model.rename_classes({"class a": "class b", "class b": "class a", "class g": "green"})
    assert model.parents_ == {"class a": "left", "class b": "left", "left": "top", "green": "right"}
    model.rename_classes({"class a": "left"})
    assert model.parents_ == {"class b": "left", "left": "top", "green": "right"}
    model.set_parents({"class b": None, "class z": "left"})
    assert model.parents_ == {"left": "top", "green": "right"}
    assert model.taxonomy("unseen").names.tolist() == ["class h", "green", "right"]


def test_a_wrong_group_changes_nothing(small):
    model = fitted(small).set_parents({"class a": "left"})
    row = small["unseen"]["class g"]
    for parents, sentence in [
        ({"class g": "class g"}, "lies in itself"),
        ({"class x": "left"}, "'class x' is neither a class nor a group"),
        ({"class g": "Left"}, "differs from"),
    ]:
        with pytest.raises(DataError, match=sentence):
            model.add_classes({"class g": row}, parents=parents)
    assert model.parents_ == {"class a": "left"}
    assert "class g" not in model.classes_
    assert model.fit(small["X"], small["y"], small["seen"]).parents_ == {}


def test_a_check_says_when_the_nearest_classes_lie_elsewhere(small):
    model = fitted(small)
    row = small["unseen"]["class g"]
    near = [rival.label for rival in model.check_class(row).rivals[:3]]
    far = next(name for name in model.classes_ if name not in near)
    model.set_parents({near[0]: "left", far: "right"})
    assert model.check_class(row, "new", "left").strays == ()
    assert model.check_class(row, "new", "a group of its own").strays == ()
    check = model.check_class(row, "new", "right")
    assert check.strays == ((near[0], "left"), (near[1], None), (near[2], None))
    sentence = (
        f"Its nearest known classes are {near[0]} (in left), {near[1]} and {near[2]}: none of them "
        "lies in right."
    )
    assert sentence in str(check)
    assert check.to_dict()["strays"] == [[near[0], "left"], [near[1], None], [near[2], None]]
    with pytest.raises(DataError, match="lies in itself"):
        model.check_class(row, "new", "new")
