"""Names and descriptions to sentences."""

from __future__ import annotations

import pytest

from hgkt.exceptions import DataError
from hgkt.language import class_words, make_sentence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("001.Black_footed_Albatross", "black footed albatross"),
        ("polar+bear", "polar bear"),
        ("Sooty Tern", "sooty tern"),
        ("Three-toed__Woodpecker", "three-toed woodpecker"),
        ("six", "six"),
        ("12", "12"),
        ("7.", "7."),
        ("3.5_inch_disk", "3.5 inch disk"),
        ("747_400", "747 400"),
        ("_", "_"),
    ],
)
def test_class_words_writes_a_name_as_words(name, words):
    assert class_words(name) == words


def test_make_sentence_fills_the_template():
    assert make_sentence("002.Sooty_Tern") == "a photo of a sooty tern."
    assert make_sentence("002.Sooty_Tern", words=False) == "a photo of a 002.Sooty_Tern."
    assert make_sentence("x", " two\n lines ", "{description} ({name})") == "two lines (x)"
    # Braces in a name are text: they never reach the template.
    assert make_sentence("{description}", "d", "{name}: {description}") == "{description}: d"


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("okapi", "an okapi"),
        ("Indigo_Bunting", "an indigo bunting"),
        ("underwing moth", "an underwing moth"),
        ("unicorn", "a unicorn"),
        ("European_robin", "a european robin"),
        ("one-way sign", "a one-way sign"),
        ("hourglass", "an hourglass"),
        ("x-ray", "an x-ray"),
        ("8-track", "an 8-track"),
        ("the Eiffel tower", "the eiffel tower"),
        ("zebra", "a zebra"),
    ],
)
def test_the_article_follows_the_name(name, phrase):
    assert make_sentence(name) == f"a photo of {phrase}."
    assert make_sentence(name, template="is it an {name}?") == f"is it {phrase}?"


def test_names_of_texts_have_a_neutral_template():
    assert make_sentence("accept_reservations", template="text") == "accept reservations"
    assert make_sentence("x", "y", template="photo") == "a photo of an x. y"


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("a photo", "neither {name} nor {description}"),
        ("{name} {color}", r"field \{color\}"),
        ("{name.__class__}", r"field \{name.__class__\}"),
        ("{name!r}", r"field \{name!r\}"),
        ("{name:>999999999}", r"field \{name:>999999999\}"),
        ("{0} {name}", r"field \{0\}"),
        ("{name", "cannot be read"),
    ],
)
def test_make_sentence_refuses_other_templates(template, sentence):
    with pytest.raises(DataError, match=sentence) as error:
        make_sentence("x", "y", template)
    assert "\n" not in str(error.value)
