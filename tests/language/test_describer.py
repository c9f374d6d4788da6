"""What a model needs of a new class."""

from __future__ import annotations

import numpy as np
import pytest

from hgkt.exceptions import DataError
from hgkt.language import ClassDescription, Describer

NAMES = ["black", "hooves", "striped"]


@pytest.fixture
def text_about(encoder):
    return {"encoder": encoder.record, "attribute_blocks": [384], "attribute_kinds": ["text"]}


@pytest.fixture
def mixed_about(encoder):
    return {
        "encoder": encoder.record,
        "attribute_blocks": [3, 384],
        "attribute_kinds": ["att", "text"],
        "attribute_names": NAMES,
    }


def test_describer_says_what_it_accepts(text_about, mixed_about):
    plain, named = Describer({}, 3), Describer({"attribute_names": NAMES}, 3)
    text, mixed = Describer(text_about, 384), Describer(mixed_about, 387)
    assert [d.accepts_text for d in (plain, named, text, mixed)] == [False, False, True, True]
    assert [d.accepts_attributes for d in (plain, named, text, mixed)] == [False, True, False, True]
    two = {**text_about, "attribute_blocks": [384, 384], "attribute_kinds": ["text", "text"]}
    assert not Describer(two, 768).accepts_text
    with pytest.raises(DataError, match="contradicts itself"):
        Describer(text_about, 385)


def test_vectors_of_numbers_and_names():
    describer = Describer({"attribute_names": NAMES}, 3)
    found = describer.vectors(
        [
            ClassDescription("zebra", attributes={"STRIPED ": 1, "hooves": 0.5}),
            ClassDescription("horse", vector=[0, 1, 0]),
        ]
    )
    np.testing.assert_array_equal(found, [[0, 0.5, 1], [0, 1, 0]])
    assert describer.vectors([]).shape == (0, 3)


def test_vectors_of_text_are_those_of_the_encoder(encoder, text_about):
    describer = Describer(text_about, 384)
    found = describer.vectors(
        [
            ClassDescription("scarlet tanager", text="a red bird"),
            ClassDescription("Tern", text=["white", "noisy"]),
            ClassDescription("gull", text=["", "white"]),
            ClassDescription("given", vector=np.arange(384)),
        ]
    )
    expected = encoder.encode(["a photo of a scarlet tanager. a red bird"])
    np.testing.assert_allclose(found[:1], expected, atol=1e-6)
    two = encoder.encode(["a photo of a gull.", "a photo of a gull. white"]).mean(axis=0)
    np.testing.assert_allclose(found[2], two / np.linalg.norm(two), atol=1e-6)
    for empty in (None, "", [" "]):
        with pytest.raises(DataError, match="'gull' needs a text: this model was trained on"):
            describer.vectors([ClassDescription("gull", text=empty)])
    mean = encoder.encode(["a photo of a tern. white", "a photo of a tern. noisy"]).mean(axis=0)
    np.testing.assert_allclose(found[1], mean / np.linalg.norm(mean), atol=1e-6)
    np.testing.assert_array_equal(found[3], np.arange(384))
    assert describer.encoder is describer.encoder


def test_vectors_of_both_parts_are_scaled_each(encoder, mixed_about):
    describer = Describer(mixed_about, 387)
    by_name = ClassDescription("x", attributes={"black": 3, "hooves": 4}, text="a horse")
    by_vector = ClassDescription("x", vector=[3, 4, 0], text="a horse")
    found = describer.vectors([by_name, by_vector])
    np.testing.assert_allclose(found[0, :3], [0.6, 0.8, 0])
    np.testing.assert_allclose(
        found[0, 3:], encoder.encode(["a photo of an x. a horse"])[0], atol=1e-6
    )
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    swapped = {**mixed_about, "attribute_blocks": [384, 3], "attribute_kinds": ["text", "att"]}
    np.testing.assert_allclose(
        Describer(swapped, 387).vectors([by_name])[0], np.roll(found[0], -3), atol=1e-6
    )


@pytest.mark.parametrize(
    ("model", "description", "sentence"),
    [
        ("named", {}, "'x' has no attributes; 3 are expected"),
        ("named", {"text": "a bird"}, "was not trained on texts"),
        ("named", {"vector": [1, 2]}, "'x' has 2 attributes; 3 are expected"),
        ("named", {"vector": [[1, 2, 3]]}, r"shape \(1, 3\)"),
        ("named", {"vector": ["a", "b", "c"]}, "are not numbers"),
        ("named", {"vector": [1, 2, np.nan]}, "NaN or infinity at position 2"),
        ("named", {"vector": [1, 2, 3], "attributes": {"black": 1}}, "give one of them"),
        ("named", {"attributes": {"spots": 1}}, "'x': the model has no attribute 'spots'"),
        ("named", {"attributes": {"black": "much"}}, "a number is expected"),
        ("text", {}, "'x' needs a text"),
        ("text", {"attributes": {"black": 1}}, "knows no attribute names"),
        ("text", {"vector": [1, 2]}, "'x' has 2 attributes; 384 are expected"),
        ("text", {"vector": np.ones(384), "text": "a bird"}, "a full vector and a text"),
        ("mixed", {"text": "a bird"}, "also needs its 3 attributes"),
        ("mixed", {"vector": [1, 2, 3]}, "'x' also needs a text"),
        ("mixed", {"vector": [1, 2], "text": "a bird"}, "2 attributes; 3 or 387 are expected"),
    ],
)
def test_vectors_refuse_with_one_sentence(text_about, mixed_about, model, description, sentence):
    abouts = {
        "named": ({"attribute_names": NAMES}, 3),
        "text": (text_about, 384),
        "mixed": (mixed_about, 387),
    }
    with pytest.raises(DataError, match=sentence) as error:
        Describer(*abouts[model]).vectors([ClassDescription("x", **description)])
    assert "\n" not in str(error.value)


def test_vectors_of_a_model_that_reads_names_only(encoder, text_about):
    about = {**text_about, "encoder": {**encoder.record, "template": "the digit {name}"}}
    describer = Describer(about, 384)
    found = describer.vectors([ClassDescription("six"), ClassDescription("six", text="")])
    np.testing.assert_allclose(found[0], encoder.encode(["the digit six"])[0], atol=1e-6)
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    with pytest.raises(DataError, match="reads names only"):
        describer.vectors([ClassDescription("six", text="a loop")])


def test_vectors_refuse_an_encoder_that_changed(encoder, text_about):
    about = {**text_about, "encoder": {**encoder.record, "identity": "0" * 64}}
    describer = Describer(about, 384)
    assert describer.accepts_text
    with pytest.raises(DataError, match="is not the one that was used"):
        describer.vectors([ClassDescription("x", text="a bird")])


def test_check_made_with_refuses_mixing(encoder, text_about, mixed_about):
    record = encoder.record
    text, mixed = Describer(text_about, 384), Describer(mixed_about, 387)
    text.check_made_with("f", record, [384], ["text"])
    mixed.check_made_with("f", record, [3, 384], ["file", "text"])
    Describer({}, 384).check_made_with("f", None, [384], ["file"])
    for describer, made, sentence in [
        (text, (None, [384], ["file"]), "in f were made without a sentence encoder"),
        (text, ({**record, "identity": "0"}, [384], ["text"]), "made by another encoder"),
        (text, ({**record, "template": "{name}"}, [384], ["text"]), "with the template"),
        (text, (record, [3, 384], ["att", "text"]), "f has 387 attributes per class"),
        (mixed, (record, [384, 3], ["text", "att"]), r"the model expects \[3, 384\]"),
        (Describer({}, 384), (record, [384], ["text"]), "trained on other attributes"),
    ]:
        with pytest.raises(DataError, match=sentence):
            describer.check_made_with("f", *made)
