"""One estimator, many threads: classes come and go while others predict."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt.estimators import METHODS
from hgkt.exceptions import DataError


def hammer(readers: list[Callable[[], Any]], writer: Callable[[], Any]) -> None:
    """Call readers again and again, each in its thread, until the writer is done."""
    done = threading.Event()

    def read(call: Callable[[], Any]) -> int:
        count = 0
        while not done.is_set():
            call()
            count += 1
        return count

    with ThreadPoolExecutor(len(readers)) as pool:
        reading = [pool.submit(read, call) for call in readers]
        try:
            writer()
        finally:
            done.set()
        assert all(future.result() for future in reading)


@pytest.mark.parametrize("name", ["hgkt", "eszsl"])
def test_every_prediction_is_one_of_some_moment(name: str, small: dict[str, Any]) -> None:
    rows = small["X_unseen"]
    model = METHODS.load(name)().fit(small["X"], small["y"], small["seen"])
    g, h = ({key: value} for key, value in small["unseen"].items())
    moments = [model]
    for table in ({}, g, h, g | h):
        moments.append(copy.copy(model).add_classes(table) if table else model)
    predictions = {tuple(m.predict(rows)) for m in moments}
    shapes = {m.score_classes(rows).shape for m in moments}
    seen_only = model.score_classes(rows)[:, model.candidates("seen")]
    names = small["seen"].keys()

    def predict() -> None:
        assert tuple(model.predict(rows)) in predictions

    def score() -> None:
        assert model.score_classes(rows).shape in shapes
        assert tuple(model.predict(rows, among=list(names))) == expected

    def look() -> None:
        assert model.class_attributes_.shape[1] == 5
        assert len(model.penalties_) in (6, 7, 8)
        assert model.seen_mask_.sum() == 6
        assert model.column_of("class a") == 0
        if name == "hgkt":
            assert model.predict_proba(rows).shape in shapes
            assert len(model.predict_set(rows, coverage=0.5)) == len(rows)
            assert model.explain(rows[:1])[0].label in {*names, *g, *h}
            assert model.class_embeddings_.shape[1] == 12

    def change() -> None:
        for _ in range(150):
            model.add_classes(g).add_classes(h)
            model.remove_classes(["class g"]).remove_classes(["class h"])

    expected = tuple(model.predict(rows, among=list(names)))
    hammer([predict, score, look], change)
    assert model.classes_.tolist() == list(names)
    assert (model.score_classes(rows)[:, model.candidates("seen")] == seen_only).all()


def test_many_threads_add_and_none_is_lost(small: dict[str, Any]) -> None:
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    rng = np.random.default_rng(7)
    tables = [{f"new {i} {j}": rng.random(5)} for i in range(4) for j in range(25)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(model.add_classes, tables))
    expected = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    for table in tables:
        expected.add_classes(table)
    assert model.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(model.class_attributes_, expected.class_attributes_)
    np.testing.assert_array_equal(model.predict(small["X"]), expected.predict(small["X"]))


def test_learning_while_others_predict(small: dict[str, Any]) -> None:
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"] | small["unseen"])
    hammer(
        [lambda: model.predict(small["X"]), lambda: model.score_classes(small["X"])],
        lambda: [model.partial_fit(small["X_unseen"], small["y_unseen"]) for _ in range(30)],
    )
    assert len(model.seen_classes_) == 8


def test_a_change_that_fails_shows_nowhere(small: dict[str, Any]) -> None:
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    with pytest.raises(DataError):
        model.add_classes(small["unseen"] | {"class i": [1.0]})
    assert len(model.classes_) == 6
    model.add_classes(small["unseen"])
    assert len(model.classes_) == 8


def test_copies_change_apart(small: dict[str, Any]) -> None:
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):  # noqa: S301
        other.add_classes(small["unseen"])
        model.add_classes({"class z": np.arange(5.0)})
        assert model.column_of("class z") == 6
        with pytest.raises(DataError, match="'class g' is unknown"):
            model.column_of("class g")
        with pytest.raises(DataError, match="'class z' is unknown"):
            other.column_of("class z")
        model.remove_classes(["class z"])
        assert len(other.classes_) == 8


def test_parameters_set_meanwhile_stay(small: dict[str, Any]) -> None:
    model = HGKTClassifier().fit(small["X"], small["y"], small["seen"])
    embed = model._transfer.embed

    def embed_and_set(attributes):  # as another thread may, while a class is added
        model.calibration = 0.5
        return embed(attributes)

    model._transfer.embed = embed_and_set
    model.add_classes({"class g": small["unseen"]["class g"]})
    assert model.calibration == 0.5
    assert "class g" in model.classes_
