"""What evaluation refuses, it refuses with one whole sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hgkt import HGKTClassifier
from hgkt.evaluation import (
    ClassFoldSearch,
    GZSLMetrics,
    RunRecord,
    class_folds,
    gzsl_metrics,
    load_records,
    per_class_accuracy,
    split_fold,
    top_k_accuracy,
)
from hgkt.exceptions import DataError

ONE = np.zeros((1, 3))
CLASSES = ["ant", "bee", "cat"]


def metrics(scores_seen=ONE, y_seen=("ant",), scores_unseen=ONE, y_unseen=("cat",), n_seen=2):
    return lambda: gzsl_metrics(scores_seen, y_seen, scores_unseen, y_unseen, CLASSES, n_seen)


REFUSALS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: per_class_accuracy([1, 2], [1]),
        "y_true has shape (2,) and y_pred (1,); two vectors of one length are expected",
    ),
    (
        lambda: per_class_accuracy([[1, 2]], [[1, 2]]),
        "y_true has shape (1, 2) and y_pred (1, 2); two vectors of one length are expected",
    ),
    (lambda: per_class_accuracy([], []), "y_true is empty; at least one row is expected"),
    (
        lambda: top_k_accuracy(ONE, ["ant"], ["ant", "bee"]),
        "scores have shape (1, 3); (1, 2) is expected",
    ),
    (lambda: top_k_accuracy(ONE[:0], [], CLASSES), "scores have shape (0, 3); (1, 3) is expected"),
    (
        lambda: top_k_accuracy(ONE, ["yak"], CLASSES),
        "class 'yak' (row 0) is not among the classes",
    ),
    (
        lambda: top_k_accuracy(np.zeros((3, 3)), ["ant", "bee", "yak"], CLASSES),
        "class 'yak' (row 2) is not among the classes",
    ),
    (
        metrics(scores_seen=np.zeros((1, 2))),
        "scores of seen images have shape (1, 2); (n, 3) is expected",
    ),
    (
        metrics(scores_unseen=np.zeros(3)),
        "scores of unseen images have shape (3,); (n, 3) is expected",
    ),
    *(
        (
            metrics(n_seen=n_seen),
            f"n_seen is {n_seen} of 3 classes; at least one seen and one unseen class are expected",
        )
        for n_seen in (0, 3)
    ),
    (metrics(y_seen=("ant", "ant")), "1 rows of scores came with 2 labels"),
    (
        metrics(scores_seen=ONE[:0], y_seen=()),
        "there are no images of seen classes; at least one is expected",
    ),
    (
        metrics(scores_unseen=ONE[:0], y_unseen=()),
        "there are no images of unseen classes; at least one is expected",
    ),
    (metrics(y_seen=("cat",)), "class 'cat' is among the seen images but is no seen class"),
    (metrics(y_unseen=("bee",)), "class 'bee' is among the unseen images but is no unseen class"),
    (metrics(y_unseen=("yak",)), "class 'yak' (row 0) is not among the classes"),
    (
        metrics(scores_seen=ONE * np.nan),
        "scores contain NaN or infinity; only finite numbers are accepted",
    ),
    (lambda: class_folds("abc", n_folds=0), "n_folds must be an integer in [1, inf]; got 0"),
    (lambda: class_folds("abc", share=0), "share must be a number in (0, 1]; got 0"),
    (lambda: class_folds("abc", share=1.1), "share must be a number in (0, 1]; got 1.1"),
    (
        lambda: class_folds("ab"),
        "2 classes cannot be divided into train and validation classes; "
        "at least three are expected",
    ),
    (
        lambda: split_fold("ab", ["a"], ["b"], holdout=0),
        "holdout must be a number in (0, 1]; got 0",
    ),
    (
        lambda: split_fold(["a", "b"], ["a", "b"], ["b"]),
        "class 'b' is both a train and a validation class of one fold",
    ),
    (
        lambda: split_fold([1, 2], [1], [3]),
        "a fold names class 3, which has no instance in y",
    ),
    (
        lambda: split_fold([1, 2], [4], [2]),
        "a fold names class 4, which has no instance in y",
    ),
    (lambda: RunRecord.from_dict({}), "this is no run record of format 'hgkt-run-1'"),
    (
        lambda: RunRecord.from_dict([]),  # type: ignore[arg-type]
        "this is no run record of format 'hgkt-run-1'",
    ),
    (
        lambda: RunRecord.from_dict({"format": "hgkt-run-1", "method": "m"}),
        "the run record lacks 'parameters'",
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSALS)
def test_refusals_are_whole_sentences(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(DataError) as refused:
        call()
    assert str(refused.value) == sentence


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as refused:
        call()
    return str(refused.value)


def test_search_refuses_with_whole_sentences(toy) -> None:
    X, y = toy.rows("train")
    table = toy.attributes_of(toy.seen_classes)
    names = sorted(table)
    model = HGKTClassifier()

    def search(**options: Any) -> Callable[..., str]:
        fold = ClassFoldSearch(model, **{"stages": [], "n_folds": 1, **options})
        return lambda *data, **more: refusal(lambda: fold.fit(*data, **more))

    known = ", ".join(sorted(model.get_params()))
    assert search(metric="mean")(X, y, table) == (
        "metric must be one of 'auto', 'ausuc', 'H', 'zsl', 'favoured'; got 'mean'"
    )
    assert search(calibrate="yes")(X, y, table) == (
        "calibrate must be True, False or 'auto'; got 'yes'"
    )
    assert search()(X, y) == "selection on validation classes needs class_attributes; got None"
    assert search(stages=[{"beta": [1]}])(X, y, table) == (
        f"HGKTClassifier has no parameter 'beta'; choose from: {known}"
    )
    rows = [int(np.flatnonzero(y == name)[0]) for name in names]
    assert search()(X[rows], y[rows], table) == (
        "every train class of a fold has one image only, so none can be held out; "
        "selection needs classes of two images or more"
    )
    fewer = {name: table[name] for name in names[1:]}
    folds = [(names[:8], names[8:])]
    assert search()(X, y, fewer, folds=folds) == (
        f"class {names[0]!r} has no attributes in class_attributes"
    )


def test_search_refuses_a_method_that_loses_a_setting(toy) -> None:
    class Forgetful(HGKTClassifier):
        def score_grid(self, *args: Any, **kwargs: Any) -> Any:
            return iter([])

    X, y = toy.rows("train")
    fold = ClassFoldSearch(Forgetful(), stages=[], n_folds=2)
    assert refusal(lambda: fold.fit(X, y, toy.attributes_of(toy.seen_classes))) == (
        "Forgetful.score_grid scored the setting {} 0 times in 2 folds; once per fold is expected"
    )


def test_a_search_that_is_not_fitted_says_so() -> None:
    search = ClassFoldSearch(HGKTClassifier())
    with pytest.raises(AttributeError) as refused:
        search.decision_function(ONE)
    assert str(refused.value) == "ClassFoldSearch has no attribute 'decision_function' (yet)"


def record(**changes: Any) -> RunRecord:
    values = GZSLMetrics(*range(10))
    parts: dict[str, Any] = {
        "method": "ridge",
        "parameters": {"alpha": 1.0},
        "selected": {},
        "calibration": 0.5,
        "data": {"name": "toy"},
        "seed": 3,
        "metrics": values,
        "uncalibrated": values,
        "calibrated": None,
        "validation": {},
        "timings": {"total": 1.5},
        "versions": {},
        "machine": {},
    }
    return RunRecord(**{**parts, **changes})


def test_records_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    path = record().save(tmp_path)
    assert [again.calibration for again in load_records(tmp_path)] == [0.5]
    document = json.loads(path.read_text())
    path.write_text("{")
    assert refusal(lambda: RunRecord.load(path)).startswith(f"{path} is not valid JSON: ")
    path.write_text("{}")
    assert refusal(lambda: RunRecord.load(path)) == (
        f"{path}: this is no run record of format 'hgkt-run-1'"
    )
    path.write_text(json.dumps({**document, "metrics": {"ts": 1.0}}))
    assert refusal(lambda: RunRecord.load(path)).startswith(
        f"{path}: the run record has other metrics than expected: "
    )
    path.unlink()
    assert refusal(lambda: RunRecord.load(path)) == (f"{path} does not exist")


def test_record_key_tells_what_went_in_from_what_came_out() -> None:
    plain = record()
    assert len(plain.key) == 12
    for change in (
        {"method": "sae"},
        {"parameters": {"alpha": 2.0}},
        {"selected": {"alpha": 1.0}},
        {"data": {"name": "other"}},
        {"seed": 4},
    ):
        assert record(**change).key != plain.key
    for change in ({"timings": {"total": 9.0}}, {"machine": {"n_cpus": 8}}, {"calibration": 1.0}):
        assert record(**change).key == plain.key
    assert record(parameters={"b": 1, "a": 2}).key == record(parameters={"a": 2, "b": 1}).key
    odd = record(method="a-b_c.d e/f", data={"name": "Ünï 1"})
    assert odd.file_name == f"a-b_c.d_e_f-Ünï_1-{odd.key}.json"
