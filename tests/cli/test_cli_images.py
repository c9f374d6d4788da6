"""Two commands from photos to a name: `hgkt train --images` and `hgkt classify`."""

from __future__ import annotations

import json
import shutil
from functools import partial

import pandas as pd
import pytest
from typer.testing import CliRunner

from hgkt.cli.main import app
from hgkt.estimators import load_model
from hgkt.exceptions import DataError, ModelFolderError
from hgkt.items import read_photos


@pytest.fixture(scope="module")
def trained(drawings):
    """What `hgkt train --images` prints, and the model it writes."""
    out = drawings / "model"
    arguments = ["train", "--images", drawings / "photos", "--classes", drawings / "numbers.csv"]
    result = CliRunner().invoke(app, [*map(str, arguments), "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_two_commands_name_a_class_without_photos(hgkt, drawings, trained):
    assert trained["n_instances"] == 15
    assert trained["n_seen_classes"] == 8
    assert trained["described"] == ["blue square"]
    assert trained["validation"]["n_folds"] == 6
    assert trained["chosen"]["calibration"] == {"offset": trained["gamma"], "slope": 0.0}
    assert not list(drawings.glob("*.partial"))
    photo = drawings / "new" / "blue square" / "2.png"
    shown = hgkt("classify", photo, "--model", drawings / "model").stdout.splitlines()
    assert shown[0].split() == ["photo", "class", "probability", "known", "by"]
    assert shown[1].startswith(str(photo))
    assert "  blue square  " in shown[1]
    assert shown[1].endswith("description")


def test_classify_takes_photos_and_folders(hgkt, drawings, trained, tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"nothing")
    paths = [drawings / "new", drawings / "photos" / "red circle" / "0.png", bad]
    result = hgkt("classify", *paths, "--model", drawings / "model", "--top", 3, "--json")
    document = json.loads(result.stdout)
    assert document["n_photos"] == 10
    assert document["unreadable"][0]["file"] == str(bad)
    assert "1 image could not be read and was left out" in result.stderr
    last = document["photos"][-1]
    assert (last["file"], last["label"], last["seen"]) == (str(paths[1]), "red circle", True)
    assert next(guess["label"] for guess in last["top"]) == "red circle"
    assert len(last["top"]) == 3
    among = hgkt(
        "classify", paths[1], "--model", drawings / "model", "--among", "blue square,blue circle"
    )
    assert "blue" in among.stdout
    assert hgkt("classify", paths[0], "--model", drawings / "model", "--top", 2).exit_code == 0


def test_classify_says_how_sure_it_is(hgkt, drawings, trained, tmp_path):
    command = ("classify", drawings / "new", "--model", drawings / "model")
    asked = (*command, "--reject", 0.5, "--coverage", 0.5, "--explain", "--top", 2)
    document = json.loads(hgkt(*asked, "--json").stdout)
    rows = document["photos"]
    assert document["calibrated"]
    assert document["n_rejected"] == sum(row["label"] is None for row in rows) > 0
    for row in rows:
        rejected = row["label"] is None
        assert (row["probability"] is None) is (row["seen"] is None) is rejected
        assert rejected or row["label"] == row["top"][0]["label"]
        assert rejected or row["probability"] == row["top"][0]["probability"]
        assert row["set"]
        assert (drawings / "photos" / row["nearest"][0]["example"]).is_file()
        assert "score" not in str(row)
    shown = hgkt(*asked).stdout
    assert shown.splitlines()[0].split() == ["photo", "class", "probability", "known", "by", "set"]
    assert " unknown " in shown
    assert "  near " in shown
    out = tmp_path / "answers.csv"
    assert f"wrote 9 answers to {out}" in hgkt(*asked, "--out", out).stdout
    table = pd.read_csv(out)
    assert table["label"].isna().sum() == document["n_rejected"]
    assert table["probability_2"].tolist() == [row["top"][1]["probability"] for row in rows]
    assert table["set"].tolist() == ["; ".join(row["set"]) for row in rows]
    with pytest.raises(DataError, match=r"--out must end in \.csv; got 'a\.txt'"):
        hgkt(*command, "--out", "a.txt")


def test_classify_refuses_with_one_sentence(hgkt, drawings, trained, tmp_path, model_folder):
    (tmp_path / "empty").mkdir()
    photo = drawings / "new" / "red circle" / "2.png"
    for arguments, sentence in [
        ([tmp_path / "none.jpg", "--model", drawings / "model"], "none.jpg does not exist"),
        ([tmp_path / "empty", "--model", drawings / "model"], "empty has no images"),
        ([photo, "--model", model_folder], "this model reads features"),
        ([photo, "--model", drawings / "model", "--among", "x"], "among names class 'x'"),
    ]:
        with pytest.raises(DataError, match=sentence) as error:
            hgkt("classify", *arguments)
        assert "\n" not in str(error.value)


@pytest.mark.slow
def test_words_train_as_well_and_take_classes_later(hgkt, drawings, tmp_path):
    out = tmp_path / "a model"
    train = ["train", "--images", drawings / "photos", "--classes", drawings / "classes.csv"]
    result = hgkt(*train, "--out", out, "--device", "cpu")
    assert "15 photos of 8 classes, 1 class added" in result.stdout
    assert "known by description alone: blue square" in result.stdout
    hgkt("classes", "add", "--model", out, "--name", "moon", "--text", "a white disk")
    with pytest.raises(ModelFolderError, match="holds a model already; --overwrite replaces"):
        hgkt(*train, "--out", out)
    carried = hgkt(*train, "--out", out, "--carry-classes", "--checkpoint", tmp_path / "kept")
    assert "carried over from the old model: moon" in carried.stdout
    assert set(load_model(out).unseen_classes_) == {"blue square", "moon"}
    assert (tmp_path / "kept" / "rows.jsonl").is_file()
    # Numbers now: a class that is known by words does not fit.
    numbers = [*train[:4], drawings / "numbers.csv", "--checkpoint", tmp_path / "kept", "--json"]
    document = json.loads(hgkt(*numbers, "--out", out, "--carry-classes").stdout)
    assert document["not_carried"] == ["moon"]
    assert document["n_from_cache"] == 15
    hgkt(*numbers, "--out", out, "--overwrite", "--no-calibrate", "--method", "ridge")
    assert load_model(out).unseen_classes_.tolist() == ["blue square"]


def test_bad_pictures_are_left_out_and_named(hgkt, drawings, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(drawings / "photos" / "red square", folder / "red square")
    shutil.copytree(drawings / "photos" / "red circle", folder / "red circle")
    (folder / "red square" / "bad.png").write_bytes(b"")
    (folder / "blue moon").mkdir()
    (folder / "blue moon" / "1.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(64))
    (folder / "blue moon" / "2.cr2").write_bytes(b"raw")
    result = hgkt("train", "--images", folder, "--out", tmp_path / "m")
    assert "3 photos of 2 classes, 1 class added" in result.stdout
    assert "2 photos could not be read and were left out" in result.stdout
    assert "bad.png is empty" in result.stdout
    assert "1.HEIC is a HEIC image; reading it needs pip install 'hgkt[heif]'" in result.stdout
    assert "1 file was passed over, since its suffix is not that of an image: .cr2 (1)" in (
        result.stdout
    )
    assert "too few classes with two photos or more (1): 12 are needed to choose" in result.stdout


def test_train_images_refuses_with_one_sentence(hgkt, drawings, tmp_path, monkeypatch):
    monkeypatch.setattr("hgkt.items.images.load_backbone", lambda *a: pytest.fail("loaded"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "flat").mkdir()
    shutil.copy(drawings / "photos" / "red circle" / "0.png", tmp_path / "flat")
    photos = ["--images", drawings / "photos"]
    for arguments, sentence in [
        (["--images", tmp_path / "none"], "none does not exist; a folder of images"),
        (["--images", tmp_path / "empty"], "empty has no images; one sub-folder per class"),
        (["--images", tmp_path / "flat"], "lies outside any class folder"),
        ([*photos, "--classes", tmp_path / "c.csv"], "c.csv does not exist; a table"),
        ([*photos, "--data", "digits"], "--data and --images do not go together"),
        ([*photos, "--engine", "local"], "--engine and --images do not go together"),
        (["--classes", tmp_path / "c.csv"], "c.csv is not here"),
    ]:
        with pytest.raises(DataError, match=sentence) as error:
            hgkt("train", *arguments, "--out", tmp_path / "m")
        assert "\n" not in str(error.value)
    assert not (tmp_path / "m").exists()


@pytest.mark.endure
def test_an_interrupted_extraction_goes_on(hgkt, drawings, tmp_path, monkeypatch):
    from hgkt.vision.backbones import Backbone

    extract, calls = Backbone.extract_pixels, []

    def stopped(self, pixels):
        calls.append(len(pixels))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return extract(self, pixels)

    monkeypatch.setattr(Backbone, "extract_pixels", stopped)
    arguments = ["train", "--images", drawings / "photos", "--classes", drawings / "numbers.csv"]
    arguments += ["--out", tmp_path / "m"]
    monkeypatch.setattr("hgkt.items.training.read_photos", partial(read_photos, batch_size=4))
    result = hgkt(*arguments)
    assert result.exit_code == 130
    assert "m.partial holds the state: run the same command again" in result.stderr
    assert not (tmp_path / "m").exists()
    document = json.loads(hgkt(*arguments, "--json").stdout)
    assert document["n_from_cache"] == 8
    assert calls[3:] == [4, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


def test_an_unreadable_folder_is_named(drawings, hgkt, tmp_path, monkeypatch):
    import os

    scandir = os.scandir

    def refusing(path):
        if str(path).endswith("red circle"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.raises(DataError, match="red circle cannot be read: Permission denied"):
        hgkt("train", "--images", drawings / "photos", "--out", tmp_path / "m")


@pytest.mark.endure
def test_photos_let_a_class_grow(hgkt, drawings, trained, tmp_path):
    model = shutil.copytree(drawings / "model", tmp_path / "model")
    before = load_model(model)
    one = ("--name", "blue square", "--images", drawings / "new" / "blue square")
    result = hgkt("classes", "grow", "--model", model, *one)
    assert "grown 1 class (blue square) by 1 example;" in result.stdout
    grown = load_model(model)
    assert "blue square" in grown.seen_classes_
    assert grown.learned_shares()[grown.column_of("blue square")] > 0
    result = hgkt("classes", "grow", "--model", model, "--images", drawings / "new", "--json")
    assert json.loads(result.stdout)["n_examples"] == dict.fromkeys(before.classes_.tolist(), 1)
