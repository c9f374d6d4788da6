"""Evidence of attributes and pulls of seen classes, for every method."""

from __future__ import annotations

import numpy as np
import pytest
from tests.evidence import attribute_evidence

from hgkt.estimators import METHODS, HGKTClassifier
from hgkt.estimators.explain import AlteredClass, seen_pulls
from hgkt.exceptions import ClassWarning, DataError

FAST = {"n_hidden": 16, "n_steps": 40, "n_epochs": 3, "learning_rate": 1e-2, "random_state": 0}


def variants():
    # A method that trains again for every class has no class that only its attributes would change.
    for name in METHODS:
        if METHODS.load(name).retrains_on_add:
            continue
        yield pytest.param(name, {}, id=name)


def build(name, params, small):
    model = METHODS.load(name)()
    known = model.get_params()
    model.set_params(**{k: v for k, v in {**FAST, **params}.items() if k in known})
    model.fit(small["X"], small["y"], class_attributes=small["seen"])
    return model.add_classes(small["unseen"])


def brute_force(model, x, vector, mean):
    """Add the class and each altered class under other names, and score them."""
    rows = {"as it is": vector}
    for position in range(len(vector)):
        altered = np.array(vector, dtype=float)
        altered[position] = mean[position]
        rows[f"without {position}"] = altered
    with pytest.warns(ClassWarning, match="'as it is' is described like"):
        model.add_classes(rows)
    columns = model.candidates(list(rows))
    scores = model.score_classes(x[None])[0, columns]
    model.remove_classes(list(rows))
    return scores[0] - scores[1:]


@pytest.mark.parametrize(("name", "params"), list(variants()))
@pytest.mark.parametrize("label", ["class h", "class b"])
def test_attribute_evidence_equals_adding_the_altered_class(name, params, label, small_of):
    small = small_of(name)
    model = build(name, params, small)
    x = small["X_unseen"][3]
    mean = np.mean(list(small["seen"].values()), axis=0)
    vector = {**small["seen"], **small["unseen"]}[label]
    expected = brute_force(model, x, vector, mean)
    evidence = attribute_evidence(model, x, label)
    found = {item.position: item.weight for item in evidence}
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(
        [found[i] for i in range(len(vector))], expected, rtol=1e-6, atol=1e-9 * scale
    )
    assert [item.value for item in evidence] == [vector[item.position] for item in evidence]
    sizes = [abs(item.weight) for item in evidence]
    assert sizes == sorted(sizes, reverse=True)


def test_attribute_evidence_of_an_added_class_refers_to_its_own_score(small):
    model = build("hgkt", {"calibration": 0.4}, small)
    x = small["X_unseen"][0]
    score = model.score_classes(x[None])[0, model.candidates(["class g"])[0]]
    strongest = attribute_evidence(model, x, "class g")[0]
    altered = np.array(small["unseen"]["class g"])
    altered[strongest.position] = np.mean(list(small["seen"].values()), axis=0)[strongest.position]
    model.add_classes({"altered": altered})
    other = model.score_classes(x[None])[0, model.column_of("altered")]
    assert score - other == pytest.approx(strongest.weight, abs=1e-12)


def test_attribute_evidence_is_the_same_behind_a_calibration(small):
    model = build("ridge", {}, small)
    x = small["X_unseen"][5]
    before = attribute_evidence(model, x, "class b")
    assert attribute_evidence(model.set_params(calibration=0.7), x, "class b") == before


def test_altered_class_explains_many_rows_at_once(small):
    model = build("hgkt", {}, small)
    X = small["X_unseen"][:4]
    together = AlteredClass(model, "class h").weights(X)
    for row, weights in zip(X, together, strict=True):
        for item in attribute_evidence(model, row, "class h"):
            assert weights[item.position] == pytest.approx(item.weight, abs=1e-12)


def test_seen_pulls_sum_to_the_score_of_the_closed_form(small):
    model = build("hgkt", {"calibration": 0.2}, small)
    x = small["X_unseen"][2]
    pulls = seen_pulls(model, x, "class h")
    column = model.classes_.tolist().index("class h")
    assert sum(pull.weight for pull in pulls) == pytest.approx(
        model.score_classes(x[None])[0, column]
    )
    assert {pull.label for pull in pulls} <= set(small["seen"])
    assert len(seen_pulls(model, x, "class h", n=2)) == 2


def test_seen_pulls_are_empty_for_a_method_that_cannot_tell(small):
    assert seen_pulls(build("ridge", {}, small), small["X"][0], "class b") == ()


def test_evidence_refuses_what_it_cannot_answer(small):
    model = build("hgkt", {}, small)
    with pytest.raises(DataError, match="class 'yak' is unknown to this model"):
        attribute_evidence(model, small["X"][0], "yak")
    with pytest.raises(DataError, match="one instance is expected"):
        attribute_evidence(model, small["X"][:2], "class b")
    with pytest.raises(DataError, match="contain NaN"):
        seen_pulls(model, np.full(12, np.nan), "class b")
    plain = HGKTClassifier().fit(small["X"], small["y"])
    with pytest.raises(DataError, match="fitted without class_attributes"):
        attribute_evidence(plain, small["X"][0], "class b")
