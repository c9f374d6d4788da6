from __future__ import annotations

from copy import copy

import numpy as np
import pytest

from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.exceptions import ClassWarning

FAST = {"n_hidden": 8, "n_steps": 5, "n_epochs": 1, "random_state": 0}


def fit(name, small):
    model = METHODS.load(name)()
    known = model.get_params()
    model.set_params(**{key: value for key, value in FAST.items() if key in known})
    return model.fit(small["X"], small["y"], class_attributes=small["seen"])


@pytest.fixture(params=[*METHODS, "calibrated"])
def name(request):
    return request.param


@pytest.fixture
def data(small_of, name):
    return small_of(name)


@pytest.fixture
def model(name, data):
    if name == "calibrated":
        return HGKTClassifier(calibration=0.2).fit(data["X"], data["y"], data["seen"])
    return fit(name, data)


def test_view_scores_bit_identically(model, data):
    model.add_classes({"class g": data["unseen"]["class g"]})
    view = copy(model)
    assert type(view) is type(model)
    assert view.classes_.tolist() == model.classes_.tolist()
    assert np.array_equal(view.score_classes(data["X"]), model.score_classes(data["X"]))
    assert view.predict(data["X"]).tolist() == model.predict(data["X"]).tolist()


def test_view_and_model_change_apart(model, data):
    g, h = ({name: data["unseen"][name]} for name in ("class g", "class h"))
    model.add_classes(g)
    before = model.score_classes(data["X_unseen"])
    one, two = copy(model), copy(model)
    one.add_classes(h)
    two.remove_classes(["class g"])
    with pytest.warns(ClassWarning, match="'class i' is described like class 'class h'"):
        three = copy(one).add_classes({"class i": data["unseen"]["class h"]})
    with pytest.warns(ClassWarning, match="'class j' is described like class 'class g'"):
        four = copy(one).add_classes({"class j": data["unseen"]["class g"]})
    assert model.unseen_classes_.tolist() == ["class g"]
    assert one.unseen_classes_.tolist() == ["class g", "class h"]
    assert two.unseen_classes_.tolist() == []
    assert three.unseen_classes_.tolist() == ["class g", "class h", "class i"]
    assert four.unseen_classes_.tolist() == ["class g", "class h", "class j"]
    # Three and four grew from the same rows, one after another.
    assert np.array_equal(three.class_attributes_[-1], data["unseen"]["class h"])
    assert np.array_equal(four.class_attributes_[-1], data["unseen"]["class g"])
    assert np.array_equal(model.score_classes(data["X_unseen"]), before)
    two.add_classes(h)  # a name that others have, too
    model.add_classes(h)
    assert two.unseen_classes_.tolist() == ["class h"]
    assert one.unseen_classes_.tolist() == model.unseen_classes_.tolist()


def test_view_shares_what_was_learned(small):
    model = fit("hgkt", small).add_classes(small["unseen"])
    view = copy(model)
    assert view._transfer is model._transfer
    assert view._table.seen["embedding"] is model._table.seen["embedding"]
    assert np.shares_memory(
        view._table.added["embedding"].array, model._table.added["embedding"].array
    )


def test_view_is_not_touched_by_later_learning(small):
    model = fit("hgkt", small).add_classes(small["unseen"])
    view = copy(model)
    before = view.score_classes(small["X_unseen"])
    model.partial_fit(small["X_unseen"], small["y_unseen"])
    assert model.unseen_classes_.size == 0
    assert view.unseen_classes_.tolist() == list(small["unseen"])
    assert np.array_equal(view.score_classes(small["X_unseen"]), before)
