"""A check before a class is added."""

from __future__ import annotations

import json
from copy import deepcopy

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.members import MEMBERS

from hgkt.data import GZSLDataset, load_dataset
from hgkt.estimators import METHODS, ClassCheck, HGKTClassifier, Rival, load_model
from hgkt.evaluation import ClassFoldSearch
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def data():
    """Classes in twelve families of five, some of them close, some wide: easy and hard ones."""
    rng = np.random.default_rng(0)
    families, widths = rng.random((12, 6)), np.geomspace(0.03, 0.4, 12)
    attributes = np.repeat(families, 5, axis=0)
    attributes += np.repeat(widths, 5)[:, None] * rng.normal(size=(60, 6))
    means = np.tanh(attributes @ rng.normal(size=(6, 32))) @ rng.normal(size=(32, 24))
    codes = np.repeat(np.arange(60), 30)
    features = means[codes] + 20.0 + 1.5 * rng.normal(size=(len(codes), 24))
    seen = rng.permutation(60)[:42]
    rows = np.flatnonzero(np.isin(codes, seen))
    return GZSLDataset(
        name="families",
        features=features.astype(np.float32),
        labels=codes,
        class_names=tuple(f"class {code:02d}" for code in range(60)),
        class_attributes=attributes.astype(np.float32),
        train=np.delete(rows, np.s_[::5]),
        test_seen=rows[::5],
        test_unseen=np.flatnonzero(~np.isin(codes, seen)),
    )


@pytest.fixture(scope="module")
def fitted(data):
    X, y = data.rows("train")
    return HGKTClassifier(device="cpu").fit(X, y, data.attributes_of(data.seen_classes))


@pytest.fixture
def model(fitted):
    return deepcopy(fitted)


@pytest.fixture(scope="module")
def unseen(data):
    return data.attributes_of(data.unseen_classes)


def fresh(model):
    """The same model, as if it had never been asked."""
    other = deepcopy(model)
    other._comparison = None
    return other


def assert_alike(check, other, rel=1e-5):
    """Equal up to rounding."""
    first, second = check.to_dict(), other.to_dict()
    assert first["sentences"] == second["sentences"]
    assert check.accuracy == pytest.approx(other.accuracy, rel=rel)
    assert [r.label for r in check.rivals] == [r.label for r in other.rivals]


@pytest.fixture(scope="module", params=["one", "several", "distances"])
def any_fitted(request, data, fitted):
    params = {
        "several": {"members": [{**member, "attribute_map": "l2"} for member in MEMBERS]},
        "distances": {"members": MEMBERS[:1], "metric": "euclidean"},
    }
    if request.param == "one":
        return fitted
    X, y = data.rows("train")
    model = HGKTClassifier(device="cpu", **params[request.param])
    return model.fit(X, y, data.attributes_of(data.seen_classes))


def test_expected_accuracy_ranks_like_the_real_one(any_fitted, data, unseen):
    model = deepcopy(any_fitted)
    X, y = data.rows("test_unseen")
    checks = {}
    for name, row in unseen.items():
        others = {key: value for key, value in unseen.items() if key != name}
        checks[name] = deepcopy(model).add_classes(others).check_class(row, name)
    predicted = model.add_classes(unseen).predict(X)
    real = [np.mean(predicted[y == name] == name) for name in unseen]
    expected = [checks[name].accuracy for name in unseen]
    assert spearmanr(expected, real).statistic > 0.4
    assert np.mean(expected) == pytest.approx(np.mean(real), abs=0.15)
    inside = [
        checks[name].accuracy_range[0] - 1e-9 <= accuracy <= checks[name].accuracy_range[1] + 1e-9
        for name, accuracy in zip(unseen, real, strict=True)
    ]
    assert np.mean(inside) >= 0.5


def test_the_most_confused_class_is_among_the_first_three(any_fitted, data, unseen):
    model = deepcopy(any_fitted)
    X, y = data.rows("test_unseen")
    hits = []
    for name, row in unseen.items():
        check = model.check_class(row, name)
        predicted = deepcopy(model).add_classes({name: row}).predict(X[y == name])
        labels, counts = np.unique(predicted[predicted != name], return_counts=True)
        if len(labels):
            hits.append(labels[counts.argmax()] in [r.label for r in check.rivals[:3]])
    assert np.mean(hits) > 0.5


def test_shares_of_rivals_and_accuracy_are_all_images(any_fitted, unseen):
    model = deepcopy(any_fitted)
    check = model.check_class(next(iter(unseen.values())))
    shares = [rival.share for rival in check.rivals]
    assert shares == sorted(shares, reverse=True)
    assert 0 <= check.accuracy <= 1
    assert check.accuracy + sum(shares) <= 1 + 1e-9
    low, high = check.accuracy_range
    assert low <= check.accuracy <= high
    assert check.n_held_out > 25
    assert -1 <= check.rank_correlation <= 1


def test_a_class_near_a_known_one_is_its_rival_and_takes_its_images(model, data):
    ((name, row),) = data.attributes_of(data.seen_classes[-1:]).items()  # of a wide family
    near = row + 0.02
    check = model.check_class(near, "twin")
    assert check.rivals[0].label == name
    assert check.losses[0].label == name
    assert check.losses[0].share > 0.1
    far = model.check_class(np.array([3.0, -2.0, 3.0, -2.0, 3.0, -2.0]), "far")
    assert far.distance > max(0.9, check.distance)
    assert far.variance > 5 * check.variance


def test_duplicates_are_named(model, data):
    name = data.names(data.seen_classes)[3]
    check = model.check_class(data.attributes_of([int(data.seen_classes[3])])[name], "twin")
    assert check.duplicates == (name,)
    assert model.gamma_ > 0  # so the new class is always ahead of its twin
    assert check.losses[0].label == name
    assert check.losses[0].share > 0.3
    assert check.sentences()[0] == (
        f"The attributes are the same as those of {name}: the two cannot be told apart."
    )


def test_attributes_of_zero_say_nothing(model):
    check = model.check_class(np.zeros(6))
    assert check.empty
    assert check.accuracy is None
    assert str(check) == "The attributes are all zero: they say nothing."


def test_nothing_changes_in_the_model(model, data, unseen):
    X = data.rows("test_seen")[0]
    before = model.score_classes(X)
    model.check_class(next(iter(unseen.values())), "new")
    assert "new" not in model.classes_
    np.testing.assert_array_equal(model.score_classes(X), before)


def test_classes_that_come_and_go_are_followed(any_fitted, unseen):
    model = deepcopy(any_fitted)
    rows = list(unseen.values())
    names = list(unseen)
    model.check_class(rows[0])
    model.add_classes({names[1]: rows[1], names[2]: rows[2]})
    assert_alike(model.check_class(rows[0]), fresh(model).check_class(rows[0]))
    model.add_classes({names[3]: rows[0] + 0.01})
    check = model.check_class(rows[0])
    # Of those that were added: what γ favours may keep a learned class ahead of them.
    added = [rival.label for rival in check.rivals if rival.label in names]
    assert added[0] == names[3]
    assert_alike(check, fresh(model).check_class(rows[0]))
    model.remove_classes([names[1]])
    assert_alike(model.check_class(rows[0]), fresh(model).check_class(rows[0]))


def test_a_class_that_grows_up_is_followed(model, data, unseen):
    X, y = data.rows("test_unseen")
    name = list(unseen)[-1]  # of a wide family
    before = model.check_class(unseen[name]).variance
    model.add_classes({name: unseen[name]}).partial_fit(X[y == name][:10], y[y == name][:10])
    check = model.check_class(unseen[name] + 0.02)
    assert name in {rival.label for rival in check.rivals[:2]}
    assert name in {loss.label for loss in check.losses}  # it pays γ now, a newcomer does not
    assert check.variance < before
    assert check.accuracy is not None


def test_a_saved_model_says_the_same(model, unseen, tmp_path):
    loaded = load_model(model.save(tmp_path / "model"))
    for row in list(unseen.values())[:3]:
        # A folder keeps single precision; how far that carries depends on the processor.
        assert_alike(loaded.check_class(row), model.check_class(row), rel=1e-4)


def test_a_selected_model_expects_an_accuracy_too(data, unseen):
    X, y = data.rows("train")
    search = ClassFoldSearch(HGKTClassifier(device="cpu"), stages=[])
    search.fit(X, y, data.attributes_of(data.seen_classes))
    check = search.check_class(next(iter(unseen.values())), "new")
    assert check.accuracy is not None
    assert check.n_held_out > 20


def test_without_folds_rivals_are_named_and_the_reason_is_said(data, unseen):
    X, y = data.rows("train")
    model = HGKTClassifier(calibration=0.1, device="cpu")
    model.fit(X, y, data.attributes_of(data.seen_classes))
    check = model.check_class(next(iter(unseen.values())), "new")
    assert check.accuracy is None
    assert check.losses == ()
    assert len(check.rivals) == 5
    assert check.rivals[0].share is None
    assert check.variance > 0
    assert check.sentences()[-1] == (
        "The accuracy to expect is not known, because no seen class was held out when the model "
        "was fitted: fit it with calibration='auto', or select on class folds."
    )


def test_too_few_classes_are_said_to_be_too_few(small):
    model = HGKTClassifier(device="cpu").fit(small["X"], small["y"], small["seen"])
    held_out = model._validation.held_out
    assert held_out is not None
    model.set_held_out(type(held_out)(*(part[:4] for part in vars(held_out).values())))
    check = model.check_class(small["unseen"]["class g"])
    assert check.accuracy is None
    assert "held out: 6 are needed" in str(check)


def test_a_method_that_cannot_tell_names_like_classes(data, unseen):
    X, y = data.rows("train")
    model = METHODS.load("ridge")().fit(X, y, data.attributes_of(data.seen_classes))
    row = next(iter(unseen.values()))
    check = model.check_class(row, "new")
    cosines = model.class_attributes_ @ row / np.linalg.norm(model.class_attributes_, axis=1)
    assert check.rivals[0].label == model.classes_[cosines.argmax()]
    assert check.variance is check.distance is check.accuracy is None
    assert "HGKTClassifier can" in str(check)


def test_telling_attributes_are_named_where_the_model_has_names():
    digits = load_dataset("digits")
    X, y = digits.rows("train")
    model = HGKTClassifier(device="cpu").fit(X, y, digits.attributes_of(digits.seen_classes))
    six = digits.attributes_of(digits.unseen_classes)["six"]
    assert "counted from 0" in str(model.check_class(six, "six"))
    model.about_ = {"attribute_names": list(digits.attribute_names)}
    check = model.check_class(six, "six")
    first = check.attributes[0]
    assert first.name == digits.attribute_names[first.position]
    assert f"Knowing {first.name} and" in str(check)
    second = check.attributes[1].name
    assert second.removeprefix("no ") != first.name.removeprefix("no ")
    model.about_ = {"attribute_blocks": [len(six)], "attribute_kinds": ["text"]}
    assert model.check_class(six).attributes == ()


def test_an_attribute_that_tells_two_classes_apart_is_found():
    """Two groups differ in one attribute only; a class between them needs just that."""
    rng = np.random.default_rng(0)
    attributes = rng.random((24, 4))
    attributes[12:] = attributes[:12]
    attributes[:12, 2], attributes[12:, 2] = 0.0, 1.0
    means = rng.random((24, 10)) * 0.1 + 3 * attributes[:, 2:3] * np.linspace(0, 1, 10)
    codes = np.repeat(np.arange(24), 8)
    X = means[codes] + 1.0 + 0.1 * rng.random((192, 10))
    names = np.array([f"c{code:02d}" for code in range(24)])
    table = dict(zip(names.tolist(), attributes, strict=True))
    model = HGKTClassifier(attribute_map="none", device="cpu").fit(X, names[codes], table)
    check = model.check_class(np.array([*attributes[0, :2], 0.6, attributes[0, 3]]))
    assert check.attributes[0].position == 2


def test_a_check_is_plain_data_and_sentences(model, unseen):
    check = model.check_class(next(iter(unseen.values())), "okapi")
    document = json.loads(json.dumps(check.to_dict()))
    assert document["name"] == "okapi"
    assert document["sentences"] == check.sentences()
    assert document["rivals"][0]["label"] == check.rivals[0].label
    assert "of the images of okapi should be recognised" in str(check)
    assert all(sentence.endswith(".") for sentence in check.sentences())


@pytest.mark.parametrize(
    ("attributes", "name", "message"),
    [
        ([0.5] * 5, "new", "5"),
        ([0.5] * 5, None, "5"),
        ([np.nan] + [0.5] * 5, "new", "NaN"),
        ([0.5] * 6, 7, "strings"),
    ],
)
def test_what_could_not_be_added_is_refused(model, attributes, name, message):
    with pytest.raises(DataError, match=message):
        model.check_class(attributes, name)


def test_a_name_that_is_taken_is_refused(model):
    with pytest.raises(DataError, match="is there already"):
        model.check_class([0.5] * 6, model.classes_[0])


def test_a_plain_classifier_knows_no_attributes(data):
    X, y = data.rows("train")
    with pytest.raises(DataError, match="fitted without class_attributes"):
        HGKTClassifier(device="cpu").fit(X, y).check_class([0.0])


@pytest.mark.parametrize(
    ("accuracy", "shares", "sentence"),
    [
        (0.11, [0.009, 0.008], "The other 89 % would be spread over many classes"),
        (0.5, [0.3, 0.1], "to a (30 %) and b (10 %), and 10 % to further classes."),
        (0.5, [0.3, 0.2], "The others would go to a (30 %) and b (20 %)."),
        (0.995, [0.003, 0.001], "No known class would get as much as 1 %"),
    ],
)
def test_shares_that_are_said_add_up(accuracy, shares, sentence):
    rivals = tuple(Rival(label, share, 0.5) for label, share in zip("ab", shares, strict=True))
    check = ClassCheck("c", rivals=rivals, accuracy=accuracy, accuracy_range=(0.0, 1.0))
    assert sentence in str(check)
    assert check.elsewhere() == pytest.approx(1 - accuracy - sum(shares))
