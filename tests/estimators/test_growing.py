"""Classes that were added by their attributes grow, change, and go."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from hgkt.data import load_dataset
from hgkt.estimators import METHODS, HGKTClassifier, HGKTNetworkClassifier, load_model
from hgkt.exceptions import ClassWarning, DataError, ModelFolderError
from hgkt.statistics import ExampleSums

RELEVANT = {"attribute_map": "l2", "relevance": True, "norm_power": 1.2}
MEMBERS = [
    RELEVANT | {"shrinkage": 0.5, "ridge": 0.03, "weight": 2.0},
    RELEVANT | {"shrinkage": 0.5, "ridge": 0.3, "weight": 4.0, "observed": True},
    RELEVANT | {"feature_map": 0.25, "shrinkage": 0.7, "ridge": 0.03},
    RELEVANT | {"feature_map": 0.25, "shrinkage": 0.7, "ridge": 0.3, "weight": 2.0},
]
SETTINGS = [{}, {"members": MEMBERS}, {"metric": "euclidean"}, {"observed": True}]


def fitted(small, **params):
    model = HGKTClassifier(calibration=0.1, **params)
    return model.fit(small["X"], small["y"], class_attributes=small["seen"])


@pytest.fixture(params=range(len(SETTINGS)))
def model(request, small):
    return fitted(small, **SETTINGS[request.param]).add_classes(small["unseen"])


@pytest.fixture(scope="session")
def grown(small):
    """A model whose class g has grown by four instances; class h is described."""
    model = fitted(small).add_classes(small["unseen"])
    return model.grow({"class g": model.example_sums(rows_of(small, "class g", 4))})


def rows_of(small, name, n):
    return small["X_unseen"][small["y_unseen"] == name][:n]


def assert_same(one, two, small, atol=1e-10):
    assert one.classes_.tolist() == two.classes_.tolist()
    assert one.seen_mask_.tolist() == two.seen_mask_.tolist()
    assert one.class_groups().tolist() == two.class_groups().tolist()
    np.testing.assert_allclose(one.penalties_, two.penalties_, atol=atol)
    X = np.concatenate([small["X"], small["X_unseen"]])
    np.testing.assert_allclose(one.score_classes(X), two.score_classes(X), atol=atol)


# ---------------------------------------------------------------------- growing
def test_sums_grow_the_model_that_the_rows_would(model, small):
    """One call of two classes, an added and a learned one, against partial_fit on the rows."""
    more = {"class g": rows_of(small, "class g", 5), "class b": small["X"][:3]}
    sums = {name: model.example_sums(X) for name, X in more.items()}
    by_sums = copy(model).grow(sums)
    X, y = np.concatenate(list(more.values())), np.repeat(list(more), [5, 3])
    assert_same(by_sums, copy(model).partial_fit(X, y), small)
    assert by_sums.unseen_classes_.tolist() == ["class h"]
    assert not np.allclose(
        by_sums.score_classes(small["X"]), model.score_classes(small["X"]), atol=1e-3
    )


def test_growing_step_by_step_equals_growing_at_once(model, small):
    X = rows_of(small, "class g", 6)
    stepped = copy(model)
    for part in (X[4:], X[:1], X[1:4]):
        stepped.grow({"class g": model.example_sums(part)})
    assert_same(stepped, copy(model).grow({"class g": model.example_sums(X)}), small)


def test_growing_a_view_leaves_its_model_alone(model, small):
    before = model.score_classes(small["X_unseen"])
    view = copy(model).grow({"class g": model.example_sums(rows_of(small, "class g", 3))})
    assert view.unseen_classes_.tolist() == ["class h"]
    assert model.unseen_classes_.tolist() == ["class g", "class h"]
    assert np.array_equal(model.score_classes(small["X_unseen"]), before)
    sibling = copy(view).remove_classes(["class g"])
    assert "class g" in view.classes_
    assert "class g" not in sibling.classes_


def test_a_class_may_come_and_grow_in_one_step(small):
    model = fitted(small)
    sums = {"class g": model.example_sums(rows_of(small, "class g", 5))}
    one = copy(model).grow(sums, class_attributes=small["unseen"])
    assert_same(one, copy(model).add_classes(small["unseen"]).grow(sums), small)


def test_a_failed_growth_changes_nothing(small):
    model = fitted(small)
    sums = model.example_sums(small["X_unseen"])
    with pytest.raises(DataError, match="class 'class x' is unknown to this model; add it"):
        model.grow({"class g": sums, "class x": sums}, class_attributes=small["unseen"])
    assert model.classes_.tolist() == list(small["seen"])
    model.add_classes({"class y": small["unseen"]["class h"]})
    with pytest.raises(DataError, match="'class g' is unknown"):
        model.column_of("class g")


def test_sums_of_another_width_or_map_are_refused(small):
    model = fitted(small).add_classes(small["unseen"])
    narrow = ExampleSums.of(small["X"][:, :7], ["sqrt+l2"])
    with pytest.raises(DataError, match="examples of class 'class g' have 7 features; 12 are"):
        model.grow({"class g": narrow})
    plain = ExampleSums.of(small["X"], ["none"])
    with pytest.raises(DataError, match="under the feature maps 'none', not under 'sqrt\\+l2'"):
        model.grow({"class g": plain})
    with pytest.raises(DataError, match="must come as example_sums returns them; got list"):
        model.grow({"class g": small["X"].tolist()})


def test_sums_can_be_taken_over_by_a_model_with_other_maps(small):
    """Stored before a retrained model chose another feature map."""
    old, new = fitted(small), fitted(small, feature_map=0.25)
    X = rows_of(small, "class g", 5)
    stored = ExampleSums.from_bytes(old.example_sums(X).to_bytes())
    new.add_classes(small["unseen"])
    by_rows = copy(new).partial_fit(X, ["class g"] * 5)
    assert_same(copy(new).grow({"class g": stored}), by_rows, small)


@pytest.mark.parametrize("name", [name for name in METHODS if not METHODS.load(name).can_grow])
def test_a_method_that_cannot_grow_says_so(name):
    model = METHODS.load(name)()
    for call in (lambda: model.example_sums([[1.0]]), lambda: model.grow({})):
        with pytest.raises(DataError, match="cannot learn from more examples once it is fitted"):
            call()
    assert not hasattr(model, "partial_fit")


# ---------------------------------------------------------------------- removing
def test_a_grown_class_is_removed_as_if_it_had_never_been(model, small):
    sums = {n: model.example_sums(rows_of(small, n, 4)) for n in ("class g", "class h")}
    both = copy(model).grow(sums).grow({"class g": sums["class h"]})
    alone = copy(model).remove_classes(["class g"]).grow({"class h": sums["class h"]})
    assert_same(both.remove_classes(["class g"]), alone, small, atol=1e-8)
    with pytest.raises(DataError, match="class 'class a' was learned from instances and cannot"):
        both.remove_classes(["class h", "class a"])
    assert "class h" in both.classes_


def test_a_saved_model_can_still_grow_and_shrink(grown, small, tmp_path):
    loaded = load_model(grown.save(tmp_path / "model"))
    more = {"class g": grown.example_sums(rows_of(small, "class g", 9)[4:])}
    assert_same(loaded.grow(more), copy(grown).grow(more), small)
    loaded.remove_classes(["class g"])
    plain = fitted(small).add_classes({"class h": small["unseen"]["class h"]})
    assert_same(loaded, plain, small, atol=1e-8)


def test_sums_that_do_not_fit_their_counts_are_refused(grown, tmp_path):
    from hgkt.estimators.model_folder import read_model_folder, write_model_folder
    from hgkt.statistics import ExampleSums

    path = grown.save(tmp_path / "model")
    folder = read_model_folder(path)
    name = f"examples/{grown._table.row_of('class g')}"
    sums = ExampleSums.from_bytes(folder.arrays[name].tobytes())
    wrong = ExampleSums(sums.n_examples - 1, sums.maps).to_bytes()
    folder.arrays[name] = np.frombuffer(wrong, dtype=np.uint8)
    write_model_folder(path, folder)
    with pytest.raises(ModelFolderError, match="example sums are damaged: the sums under"):
        load_model(path)


# ---------------------------------------------------------------------- editing and renaming
@pytest.fixture(params=["hgkt", "eszsl", "hgkt-network"])
def described(request, small):
    cls = METHODS.load(request.param)
    fast = {"n_hidden": 8, "n_steps": 5} if cls is HGKTNetworkClassifier else {}
    model = cls(**fast).fit(small["X"], small["y"], class_attributes=small["seen"])
    return model.add_classes(small["unseen"])


def test_editing_equals_removing_and_adding(described, small):
    other = {"class g": small["unseen"]["class h"] * 0.5 + 0.1}
    edited = copy(described).edit_classes(other)
    again = copy(described).remove_classes(["class g"]).add_classes(other)
    assert np.array_equal(edited.score_classes(small["X"]), again.score_classes(small["X"]))
    assert np.array_equal(edited.class_attributes_, again.class_attributes_)
    assert edited.unseen_classes_.tolist() == ["class g", "class h"]  # it keeps its place


def test_editing_a_grown_class_keeps_what_it_learned(grown, small):
    other = {"class g": small["unseen"]["class g"] + 0.2, "class h": small["unseen"]["class h"] / 2}
    sums = {"class g": grown.example_sums(rows_of(small, "class g", 4))}
    expected = fitted(small).add_classes(other).grow(sums)
    assert_same(copy(grown).edit_classes(other), expected, small)


def test_an_edit_is_all_or_nothing(described, small):
    before = described.class_attributes_
    good = small["unseen"]["class h"] + 0.1
    for table, words in [
        ({"class g": good, "class x": good}, "class 'class x' is unknown, so it cannot be edited"),
        ({"class g": good, "class a": good}, "learned from instances and cannot be edited; fit"),
        ({"class g": good, "class h": good[:2]}, "'class h' has 2 attributes; 5 are expected"),
    ]:
        with pytest.raises(DataError, match=words):
            described.edit_classes(table)
    assert np.array_equal(described.class_attributes_, before)
    with pytest.warns(ClassWarning, match="'class g' is described like class 'class h'"):
        described.edit_classes({"class g": small["unseen"]["class h"]})


def test_renamed_classes_score_as_before(described, small):
    before = described.score_classes(small["X"])[:, described.candidates()]
    described.rename_classes({"class g": "zebra", "class a": "okapi", "class b": "class b"})
    assert described.classes_.tolist() == sorted(described.classes_.tolist())
    assert described.unseen_classes_.tolist() == ["zebra", "class h"]
    assert described.seen_classes_.tolist()[:2] == ["okapi", "class b"]
    after = described.score_classes(small["X"])[:, described.candidates()]
    assert np.array_equal(before, after)


def test_names_may_be_swapped_and_must_be_free(described):
    was = described.class_attributes_[described.column_of("class g")]
    described.rename_classes({"class g": "class h", "class h": "class g"})
    assert np.array_equal(described.class_attributes_[described.column_of("class h")], was)
    for names, words in [
        ({"class g": "class a"}, "class 'class a' is there already"),
        ({"class x": "class y"}, "class 'class x' is unknown"),
        ({"class g": "new", "class h": "new"}, "two classes cannot both be named 'new'"),
        ({"class g": 3}, "the classes of this model are strings"),
    ]:
        with pytest.raises(DataError, match=words):
            described.rename_classes(names)
    assert described.unseen_classes_.tolist() == ["class h", "class g"]


def test_a_renamed_model_is_saved_loaded_and_grows(small, tmp_path):
    model = HGKTClassifier().fit(small["X"], small["y"], class_attributes=small["seen"])
    model.add_classes(small["unseen"])
    sums = model.example_sums(rows_of(small, "class g", 4))
    twin = copy(model).grow({"class g": sums})
    names = {"class a": "zoo", "class g": "aardvark"}
    model.grow({"class g": sums}).rename_classes(names)
    model = load_model(model.save(tmp_path / "model"))
    assert model.check_class(small["unseen"]["class h"] * 0.7).accuracy is not None
    model.grow({"zoo": sums, "aardvark": sums})
    twin.grow({"class a": sums, "class g": sums})
    columns = [names.get(name, name) for name in twin.classes_.tolist()]
    np.testing.assert_allclose(
        model.score_classes(small["X"])[:, model.candidates(columns)],
        twin.score_classes(small["X"]),
        atol=1e-10,
    )
    model.remove_classes(["aardvark"])
    assert "aardvark" not in model.classes_


def test_accuracy_rises_with_examples_of_digits():
    data = load_dataset("digits")
    model = HGKTClassifier(calibration=0.1)
    model.fit(*data.rows("train"), data.attributes_of(data.seen_classes))
    model.add_classes(data.attributes_of(data.unseen_classes))
    X, y = data.rows("test_unseen")
    first = {name: np.flatnonzero(y == name)[:10] for name in model.unseen_classes_.tolist()}
    rest = np.setdiff1d(np.arange(len(y)), np.concatenate(list(first.values())))
    before = (model.predict(X[rest]) == y[rest]).mean()
    model.grow({name: model.example_sums(X[rows]) for name, rows in first.items()})
    assert (model.predict(X[rest]) == y[rest]).mean() > before + 0.05
