"""Tables of names and descriptions to class vectors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hgkt.data import AttributeFile, read_attribute_file, write_attribute_file
from hgkt.exceptions import DataError
from hgkt.language import describe_classes, load_encoder, read_class_list


def describe_table(path, encoder, with_attributes=None):
    return describe_classes(read_class_list(path, with_attributes), encoder)


def test_describe_table_averages_the_rows_of_a_class(encoder, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("name,description\n01.Tern,white\ngull,\n01.Tern,noisy\n")
    found = describe_table(path, encoder)
    assert found.file.names == ("01.Tern", "gull")
    assert found.descriptions == ("white noisy", "")
    assert found.sentences == (
        "a photo of a tern. white",
        "a photo of a tern. noisy",
        "a photo of a gull.",
    )
    rows = encoder.encode(found.sentences)
    mean = rows[:2].mean(axis=0)
    expected = [mean / np.linalg.norm(mean), rows[2]]
    np.testing.assert_allclose(found.file.attributes, expected, atol=1e-6)
    assert found.file.kinds == ("text",)
    assert found.n_cut == 0


def test_describe_table_puts_attributes_in_front(encoder, tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text("name,description,wings,legs\na,x,3,4\nb,y,0,2\na,z,3,4\n")
    found = describe_table(path, encoder, with_attributes=path).file
    plain = describe_table(path, encoder).file
    assert (found.blocks, found.kinds) == ((2, 384), ("att", "text"))
    assert found.attribute_names == ("wings", "legs")
    np.testing.assert_allclose(found.attributes[:, :2], [[0.6, 0.8], [0, 1]], rtol=1e-6)
    np.testing.assert_allclose(found.attributes[:, 2:], plain.attributes, atol=1e-6)
    again = read_attribute_file(write_attribute_file(tmp_path / "f.parquet", found))
    np.testing.assert_array_equal(again.attributes, found.attributes)
    assert again.encoder == encoder.record
    assert (again.blocks, again.kinds, again.attribute_names) == (
        found.blocks,
        found.kinds,
        found.attribute_names,
    )


def test_describe_table_reads_parquet_and_counts_cut_sentences(encoder, tmp_path):
    frame = pd.DataFrame({"name": ["a", "b"], "description": [None, "bird " * 300]})
    frame.to_parquet(tmp_path / "c.parquet")
    found = describe_table(tmp_path / "c.parquet", encoder)
    assert found.sentences[0] == "a photo of an a."
    assert found.n_cut == 1


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("title\nx\n", "has no column 'name'; one row per class is expected; it has 'title'$"),
        ("name;description\nx;y\n", "it has 'name;description'; columns are separated by commas"),
        ("Name,Description\nx,y\n", "it has 'Name', 'Description'; write 'name' in small letters"),
        ("name\n", "holds no class"),
        ("name,description\n ,x\n", "row 0 of .* has no name"),
    ],
)
def test_describe_table_refuses_with_one_sentence(encoder, tmp_path, content, sentence):
    (tmp_path / "c.csv").write_text(content)
    with pytest.raises(DataError, match=sentence):
        describe_table(tmp_path / "c.csv", encoder)


def test_describe_table_refuses_attributes_that_do_not_fit(encoder, tmp_path):
    path, other = tmp_path / "c.csv", tmp_path / "o.csv"
    path.write_text("name,description\na,x\nb,y\n")
    for content, sentence in [
        ("name,wings\na,1\n", "class 'b' has no row"),
        ("name,wings\na,1\na,2\nb,1\n", "class 'a' twice, with other attributes"),
        ("name,wings\na,1\nb,\n", "'b' contain NaN or infinity at position 0"),
    ]:
        other.write_text(content)
        with pytest.raises(DataError, match=sentence):
            describe_table(path, encoder, with_attributes=other)
    file = AttributeFile(("a", "b"), np.ones((2, 384)), (384,), ("text",), encoder.record)
    written = write_attribute_file(tmp_path / "t.parquet", file)
    with pytest.raises(DataError, match="was made by a sentence encoder"):
        describe_table(path, encoder, with_attributes=written)
    with pytest.raises(DataError, match="no place for them"):
        describe_table(path, load_encoder("minilm", template="a {name}"))


def test_a_list_of_classes_has_the_rule_for_names(tmp_path):
    for rows, sentence in [("fox\nFox\n", "differs from class"), ("fo\u200bx\n", "invisible"),
                           ("renarde\u0301\n", "form NFC")]:  # fmt: skip
        (tmp_path / "classes.csv").write_text(f"name\n{rows}", encoding="utf-8")
        with pytest.raises(DataError, match=rf"classes\.csv: class .*{sentence}"):
            read_class_list(tmp_path / "classes.csv")
