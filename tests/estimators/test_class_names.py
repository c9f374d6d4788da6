"""One rule for the names and descriptions of classes, the same at every door."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from hgkt import HGKTClassifier, load_model
from hgkt.data import GZSLDataset
from hgkt.exceptions import ClassWarning, DataError, ModelFolderError

X = np.array([[3.0, 1.0, 0.1], [3.0, 1.2, 0.1], [1.0, 3.0, 0.1], [1.1, 3.0, 0.2]])
Y = ["cat", "cat", "dog", "dog"]
TABLE = {"cat": [1.0, 0.0], "dog": [0.0, 1.0]}
BAD = {
    "all": "that is a group of classes",
    "seen": "that is a group of classes",
    "unseen": "that is a group of classes",
    ".": "cannot be asked for over HTTP",
    "..": "cannot be asked for over HTTP",
    "": "blank name",
    " \t": "blank name",
    " fox": "begins or ends with a blank",
    "fox\u00a0": "begins or ends with a blank",
    "fo\nx": "control character",
    "fo\u200bx": "invisible character .zero-width or bidirectional. in its name, U.200B",
    "\u202efox": "invisible character",
    "fo\ud800x": "lone surrogate",
    "renarde\u0301": "form NFC",
    "f" * 201: "1 to 200 characters; got 201",
    "CAT": "class 'CAT' differs from class 'cat' by case or blanks only",
    "\uff43\uff41\uff54": "differs from class 'cat'",
}


def fit(**extra):
    return HGKTClassifier(device="cpu").fit(X, Y, TABLE | extra)


@pytest.mark.parametrize("name", BAD)
def test_bad_names_are_refused_when_added_fitted_and_read(name):
    model = fit()
    with pytest.raises(DataError, match=BAD[name]):
        model.add_classes({"fox": [1.0, 1.0], name: [1.0, 0.5]})
    assert model.classes_.tolist() == ["cat", "dog"]
    if name != "CAT" and "differs" not in BAD[name]:
        with pytest.raises(DataError, match=BAD[name]):
            HGKTClassifier().fit(X, [name, name, "dog", "dog"], {name: [1.0, 0.0]} | TABLE)
    data = GZSLDataset(
        name="own",
        features=X.astype(np.float32),
        labels=np.array([0, 0, 1, 2]),
        class_names=("cat", "dog", name),
        class_attributes=np.eye(3, dtype=np.float32),
        train=np.array([0, 2]),
        test_seen=np.array([1]),
        test_unseen=np.array([3]),
    )
    with pytest.raises(DataError, match=BAD[name]):
        data.validate()


def test_twins_among_newcomers_and_seen_classes_are_refused():
    with pytest.raises(DataError, match="'Fox' differs from class 'fox'"):
        fit().add_classes({"fox": [1.0, 1.0], "Fox": [1.0, 0.5]})
    with pytest.raises(DataError, match="'cat' differs from class 'Cat'"):
        HGKTClassifier().fit(X, ["Cat", "cat", "dog", "dog"], TABLE | {"Cat": [1.0, 0.5]})
    model = fit().add_classes({"fox": [1.0, 1.0]})
    with pytest.raises(DataError, match="'FOX' differs from class 'fox'"):
        model.add_classes({"FOX": [1.0, 0.5]})
    model.remove_classes(["fox"]).add_classes({"FOX": [1.0, 0.5]})


def test_descriptions_that_say_nothing_new_are_warned_of():
    model = fit(fox=[0.5, 0.6])
    with pytest.warns(ClassWarning, match="'wolf' is described like class 'dog'"):
        model.add_classes({"wolf": [0.0, 1.0]})
    with pytest.warns(ClassWarning, match="'vixen' is described like class 'fox'"):
        model.add_classes({"vixen": [0.5, 0.60001]})
    with pytest.warns(ClassWarning, match="the attributes of class 'nil' are all zero"):
        model.add_classes({"nil": [0.0, 0.0]})
    assert model.class_doubts({"a": [0.2, 0.9], "b": [0.2, 0.9]}) == [
        "class 'b' is described like class 'a': the two cannot be told apart"
    ]
    with pytest.warns(ClassWarning, match="'dog' is described like class 'cat'"):
        HGKTClassifier().fit(X, Y, {"cat": [1.0, 0.0], "dog": [1.0, 0.0]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.add_classes({"elk": [0.5, 0.7]})


FOLDER_NAMES = [" Cat ", "a\nb", "a\x00b", "a\x1bb", "", "CAT", "seen", "..", "x" * 100_000]


@pytest.mark.parametrize("name", [*FOLDER_NAMES, "\u202ecat", "c\u200bat"])
def test_a_folder_with_a_bad_name_is_refused(tmp_path, name):
    model = fit()
    model._add([name], np.array([[0.5, 0.5]]))
    with pytest.raises(ModelFolderError, match="does not hold a complete model: "):
        load_model(model.save(tmp_path / "model"))


def test_doubts_about_many_newcomers_are_those_about_each():
    rng = np.random.default_rng(0)
    rows = rng.random((200, 2))
    rows[150], rows[7], rows[30] = rows[20], 0.0, [2.0, 0.0]
    table = {f"n{index:03d}": row for index, row in enumerate(rows)} | {"huge": [1e300, 1e307]}
    model = HGKTClassifier(calibration=0).fit(X, Y, class_attributes=TABLE)
    many = model.class_doubts(table)
    assert many == [
        "the attributes of class 'n007' are all zero: they say nothing",
        "class 'n150' is described like class 'n020': the two cannot be told apart",
    ]
    assert model.class_doubts({"n020": rows[20], "n150": rows[20]}) == many[1:]
    assert "like class 'cat'" in model.class_doubts({**table, "kitten": [1.0, 1e-6]})[-1]
