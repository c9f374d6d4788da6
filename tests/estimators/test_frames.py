"""DataFrames in: feature names survive saving, and tables the wrong way round get a hint."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from hgkt import HGKTClassifier, load_model
from hgkt.estimators.methods import build_method
from hgkt.exceptions import DataError, UnknownNameError

X = np.array([[3.0, 1.0, 0.1], [3.0, 1.2, 0.1], [1.0, 3.0, 0.1], [1.1, 3.0, 0.2]])
Y = ["cat", "cat", "dog", "dog"]
TABLE = pd.DataFrame([[1.0, 0.0], [0.0, 1.0]], index=["cat", "dog"], columns=["purrs", "barks"])


class Own(HGKTClassifier):
    """A method of one's own."""


def test_a_loaded_model_refuses_reversed_columns_as_before(tmp_path):
    frame = pd.DataFrame(X, columns=["red", "green", "blue"])
    model = HGKTClassifier().fit(frame, Y, TABLE)
    loaded = load_model(model.save(tmp_path / "model"))
    assert loaded.feature_names_in_.tolist() == ["red", "green", "blue"]
    assert loaded.predict(frame).tolist() == model.predict(frame).tolist()
    for one in (model, loaded):
        with pytest.raises(ValueError, match="same order"):
            one.predict(frame[["blue", "green", "red"]])
    plain = load_model(HGKTClassifier().fit(X, Y, TABLE).save(tmp_path / "plain"))
    assert not hasattr(plain, "feature_names_in_")


def test_tables_the_wrong_way_round_get_a_hint():
    with pytest.raises(DataError, match=r"a column per class; .* use frame\.T"):
        HGKTClassifier().fit(X, Y, TABLE.T)
    with pytest.raises(DataError, match=r"column 'name'; .* frame\.set_index\('name'\)"):
        HGKTClassifier().fit(X, Y, TABLE.rename_axis("name").reset_index())
    numbers = [3, 3, 7, 7]
    with pytest.raises(DataError, match=r"class 3 has no attributes .* its keys are strings"):
        HGKTClassifier().fit(X, numbers, {"3": [1.0, 0.0], "7": [0.0, 1.0]})
    with pytest.raises(DataError, match=r"class '3' has no attributes .* its keys are numbers"):
        HGKTClassifier().fit(X, list("3377"), {3: [1.0, 0.0], 7: [0.0, 1.0]})


def test_a_method_of_ones_own_is_found_by_its_import_path(monkeypatch):
    module = ModuleType("own_methods")
    module.Own = Own
    monkeypatch.setitem(sys.modules, "own_methods", module)
    assert type(build_method("own_methods:Own", parameters={"ridge": 0.5})) is Own
    with pytest.raises(UnknownNameError, match="'own_methods:Other' cannot be imported"):
        build_method("own_methods:Other")
    with pytest.raises(UnknownNameError, match="'nowhere:Own' cannot be imported: No module"):
        build_method("nowhere:Own")
    with pytest.raises(UnknownNameError, match="is no subclass of GZSLClassifier"):
        build_method("pathlib:Path")
