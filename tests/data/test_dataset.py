"""GZSLDataset: coercion, views, validation, fingerprints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hgkt.data import ClassFold, GZSLDataset
from hgkt.estimators import HGKTClassifier
from hgkt.evaluation import evaluate
from hgkt.exceptions import DataError


def toy(**changes: object) -> GZSLDataset:
    """Four classes: a, b, c seen; d unseen. Rows 0..7, two a class."""
    fields: dict[str, object] = {
        "name": "toy",
        "features": np.arange(24, dtype=float).reshape(8, 3),
        "labels": np.repeat([0, 1, 2, 3], 2),
        "class_names": ("a", "b", "c", "d"),
        "class_attributes": np.eye(4, 5),
        "train": [0, 2, 4],
        "test_seen": [1, 3, 5],
        "test_unseen": [6, 7],
        "folds": (ClassFold([0, 1], [2]),),
    }
    return GZSLDataset(**{**fields, **changes})


def test_dataset_coerces_types_and_gives_views_by_name() -> None:
    data = toy(labels=np.repeat([0.0, 1.0, 2.0, 3.0], 2)).validate()
    assert data.features.dtype == np.float32
    assert data.labels.dtype == np.intp
    assert data.names(data.seen_classes) == ["a", "b", "c"]
    assert data.names(data.unseen_classes) == ["d"]
    X, y = data.rows("test_unseen")
    assert X.tolist() == [[18, 19, 20], [21, 22, 23]]
    assert y.tolist() == ["d", "d"]
    vectors = data.attributes_of([3, 0])
    assert list(vectors) == ["d", "a"]
    assert vectors["d"].dtype == np.float64
    assert vectors["d"].tolist() == [0, 0, 0, 1, 0]
    assert data.class_folds() == [(["a", "b"], ["c"])]


def test_dataset_rows_refuses_unknown_split() -> None:
    with pytest.raises(DataError, match="'train', 'test_seen', 'test_unseen'"):
        toy().rows("val")


def test_dataset_summary_counts() -> None:
    assert toy().summary() == {
        "name": "toy",
        "n_instances": 8,
        "n_features": 3,
        "n_attributes": 5,
        "n_classes": 4,
        "n_seen_classes": 3,
        "n_unseen_classes": 1,
        "n_train": 3,
        "n_test_seen": 3,
        "n_test_unseen": 2,
        "n_folds": 1,
    }


def nan_at(row: int, value: float = np.nan) -> np.ndarray:
    features = np.ones((8, 3))
    features[row, 1] = value
    return features


def attributes_with_inf() -> np.ndarray:
    attributes = np.eye(4, 5)
    attributes[1, 2] = np.inf
    return attributes


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"features": nan_at(5)}, "features contain NaN in row 5"),
        ({"features": nan_at(2, np.inf)}, "infinity .* in row 2"),
        ({"features": np.ones(8)}, "features must be a non-empty matrix"),
        ({"features": np.ones((7, 3))}, "7 rows of features but 8 labels"),
        ({"labels": [0, 0, 1, 1, 2, 2, 3, 9]}, "row 7 has label 9"),
        ({"labels": [0, 0, 1, 1, 2, 2, 3, -1]}, "row 7 has label -1"),
        ({"class_names": ("a", "b", "b", "d")}, "class name 'b' occurs twice"),
        ({"class_names": ("a", " ", "c", "d")}, "a class has the blank name ' '"),
        ({"class_attributes": np.eye(3)}, "class 'd' has no attributes"),
        ({"class_attributes": np.eye(5)}, "5 rows for 4 class names"),
        ({"class_attributes": attributes_with_inf()}, "attributes of class 'b' contain NaN or inf"),
        ({"test_seen": [0, 3, 5]}, "row 0 is in train and in test_seen"),
        ({"test_unseen": [6, 7, 3]}, "row 3 is in test_seen and in test_unseen"),
        ({"train": [0, 2, 4, 6], "test_unseen": [7]}, "class 'd' is in test_unseen but has inst"),
        ({"train": [0, 2], "folds": ()}, "class 'c' is in test_seen but has no instance"),
        ({"train": []}, "the split train is empty"),
        ({"train": [0, 2, 8]}, "train points to row 8"),
        ({"folds": (ClassFold([0, 1], [1]),)}, "class 'b' is a train and a validation class"),
        ({"folds": (ClassFold([0, 1], [3]),)}, "class 'd' is in fold 1 but not in train"),
        ({"folds": (ClassFold([0, 1], []),)}, "fold 1 has no train or no validation class"),
        ({"folds": (ClassFold([0, 1], [7]),)}, "fold 1 has class code 7"),
        ({"attribute_names": ("x",)}, "attribute_names has 1 entries; 5"),
        ({"image_files": ("x",)}, "image_files has 1 entries; 8"),
    ],
)
def test_validate_names_the_class_or_row(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        toy(**changes).validate()


def test_test_rows_are_needed_to_evaluate_only() -> None:
    data = toy(test_seen=[], test_unseen=[]).validate()
    assert data.names(data.unseen_classes) == data.names(data.described_classes) == ["d"]
    assert toy().described_classes.tolist() == []
    with pytest.raises(DataError, match="no rows in test_seen: evaluation needs test rows of seen"):
        data.check_tests()
    with pytest.raises(DataError, match="no rows in test_unseen"):
        evaluate(HGKTClassifier(), toy(test_unseen=[]), calibrate=False)
    assert toy().check_tests()


@pytest.mark.parametrize("labels", [[0.5] * 8, [["0"]] * 8, np.zeros((8, 2), dtype=int)])
def test_dataset_refuses_labels_that_are_no_codes(labels: object) -> None:
    with pytest.raises(DataError, match="labels must be a vector of whole numbers"):
        toy(labels=labels)


def test_validate_accepts_classes_with_equal_attributes() -> None:
    assert toy(class_attributes=np.ones((4, 2))).validate()


def test_fingerprint_split_ignores_order_of_rows_but_not_membership() -> None:
    base = toy().fingerprint()
    assert toy(train=[4, 0, 2]).fingerprint() == base
    moved = toy(train=[1, 2, 4], test_seen=[0, 3, 5]).fingerprint()
    assert moved["split"] != base["split"]
    assert moved["content"] == base["content"]


@pytest.mark.parametrize(
    "changes",
    [
        {"features": np.arange(24.0).reshape(8, 3) + np.eye(8, 3) * 1e-3},
        {"labels": [1, 1, 0, 0, 2, 2, 3, 3]},
        {"class_names": ("a", "b", "c", "e")},
        {"class_attributes": np.eye(4, 5) * 2},
    ],
)
def test_fingerprint_content_sees_every_part(changes: dict[str, object]) -> None:
    assert toy(**changes).fingerprint()["content"] != toy().fingerprint()["content"]


def test_fingerprint_is_the_same_for_memory_map_and_layout(tmp_path) -> None:
    data = toy()
    np.save(tmp_path / "x.npy", np.asfortranarray(data.features.astype(np.float64)))
    mapped = replace(data, features=np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert isinstance(mapped.features, np.memmap)
    assert mapped.fingerprint() == data.fingerprint()
    assert mapped.validate().rows("train")[0].dtype == np.float32


@given(
    st.lists(st.text("ab:1;", min_size=1, max_size=3), min_size=4, max_size=4, unique=True),
    st.lists(st.text("ab:1;", min_size=1, max_size=3), min_size=4, max_size=4, unique=True),
)
def test_fingerprint_tells_any_two_lists_of_names_apart(one: list[str], two: list[str]) -> None:
    same = toy(class_names=one).fingerprint() == toy(class_names=two).fingerprint()
    assert same == (one == two)
