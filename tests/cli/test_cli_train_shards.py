"""`hgkt train` on shards: out of core, resumed, and as in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hgkt._plain import plain
from hgkt.data import load_digits, open_shards, write_tables
from hgkt.data.tables import _samples_frame, write_samples
from hgkt.estimators import load_model
from hgkt.exceptions import DataError


@pytest.fixture(scope="module")
def digits():
    return load_digits()


@pytest.fixture
def shards(digits, tmp_path):
    """Digits as four Parquet files beside a table of classes."""
    folder = write_tables(digits, tmp_path / "shards")
    (folder / "samples.parquet").unlink()
    frame = _samples_frame(digits)
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), 4)):
        part = frame.iloc[rows].reset_index(drop=True)
        features = digits.features[rows]
        write_samples(folder / f"{number}.parquet", part, 64, lambda s, X=features: X[s])
    return folder


def test_train_on_shards_is_training_in_memory(hgkt, shards, digits, tmp_path):
    whole = write_tables(digits, tmp_path / "whole")
    options = ["--with-unseen", "--json"]
    expected = json.loads(hgkt("train", "--data", whole, "--out", tmp_path / "a", *options).stdout)
    found = json.loads(
        hgkt("train", "--data", shards, "--workers", 1, "--out", tmp_path / "b", *options).stdout
    )
    assert found["gathered"] == {"n_shards": 4, "n_rows_kept": 1151, "checkpoint": None}
    for key in ("n_instances", "n_seen_classes", "n_added_classes", "parameters"):
        if key != "parameters":
            assert found[key] == expected[key]
    assert found["gamma"] == pytest.approx(expected["gamma"], rel=1e-3)
    left, right = load_model(tmp_path / "a"), load_model(tmp_path / "b")
    X = digits.rows("test_unseen")[0]
    assert (left.predict(X) == right.predict(X)).mean() > 0.99
    about = json.loads((tmp_path / "b" / "config.json").read_text())["about"]
    assert about["layout"] == "shards"
    assert about["attribute_names"] == list(digits.attribute_names)
    assert len(about["fingerprint"]["shards"]) == 64


def test_train_selects_from_a_checkpoint_that_an_earlier_run_left(hgkt, shards, tmp_path):
    sums = tmp_path / "sums"
    options = ["--data", shards, "--checkpoint", sums, "--workers", 1]
    options += ["--select", "--json"]
    first = json.loads(hgkt("train", "--out", tmp_path / "a", *options).stdout)
    made = {path.name: path.stat().st_mtime_ns for path in sums.iterdir()}
    assert len(made) == 5
    assert first["validation"]["n_settings"] > 50
    second = json.loads(hgkt("train", "--out", tmp_path / "b", *options).stdout)
    assert {path.name: path.stat().st_mtime_ns for path in sums.iterdir()} == made
    assert plain(second["chosen"]) == plain(first["chosen"])
    said = hgkt("train", "--out", tmp_path / "c", *options[:-2]).stdout
    assert "read in 4 shards; 1151 rows kept to choose on; the sums are in" in said


def test_train_reads_a_table_folder_in_shards_where_asked(hgkt, digits, tmp_path):
    folder = write_tables(digits, tmp_path / "npy", format="npy")
    options = ["--data", folder, "--method", "ridge", "--checkpoint", tmp_path / "s", "--json"]
    document = json.loads(hgkt("train", "--out", tmp_path / "m", *options).stdout)
    assert document["gathered"]["n_shards"] == 1
    assert document["n_instances"] == 1151


def test_train_trains_the_network_on_shards(hgkt, shards, digits, tmp_path):
    options = ["--preset", "exact", "--device", "cpu", "-p", "n_hidden=8", "-p", "n_steps=3"]
    where = ["--data", shards, "--out", tmp_path / "m"]
    document = json.loads(hgkt("train", *where, *options, "--json").stdout)
    assert document["gathered"]["n_shards"] == 4
    model, X = load_model(tmp_path / "m"), digits.rows("test_seen")[0]
    whole = write_tables(digits, tmp_path / "whole")
    hgkt("train", "--data", whole, "--no-calibrate", "--out", tmp_path / "w", *options)
    expected = load_model(tmp_path / "w").score_classes(X)
    np.testing.assert_allclose(model.score_classes(X), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(DataError, match="--select and --calibrate of a network need its rows"):
        hgkt("train", *where, *options, "--select", "--overwrite")


def test_train_on_shards_refuses_with_one_sentence(hgkt, shards, tmp_path):
    out = ["--out", tmp_path / "m"]
    cases = [
        (["--data", shards, "--method", "sse"], "SSEClassifier learns from rows, not from"),
        (["--data", "digits", "--workers", 2], "'digits' is none"),
        (["--data", shards, "--attributes", "sent"], "attributes 'sent' of shards must be 'att'"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(DataError, match=sentence):
            hgkt("train", *arguments, *out)
    (shards / "classes.parquet").unlink()
    with pytest.raises(DataError, match="has no table of classes"):
        hgkt("train", "--data", shards, *out)
    assert not (tmp_path / "m").exists()


def test_rows_of_a_class_that_no_table_has_are_named(shards):
    frame = shards / "classes.csv"
    (shards / "classes.parquet").unlink()
    frame.write_text("name,a0,a1\nzero,1,0\none,0,1\n")
    with pytest.raises(DataError, match=r"0\.parquet row group 0 has rows of class 'eight', which"):
        _ = open_shards(shards).class_counts
