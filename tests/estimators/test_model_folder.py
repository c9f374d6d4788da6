from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pandas as pd
import pytest

from hgkt.estimators import HGKTClassifier, load_model
from hgkt.estimators.model_folder import ModelFolder, read_model_folder, write_model_folder
from hgkt.exceptions import ModelFolderError

MADE = ("sha256", "format_version")  # what writing puts into a config


@pytest.fixture
def model():
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 4)), np.repeat(["a", "b", "c"], 10)
    table = {"a": [1.0, 0.0], "b": [0.0, 1.0], "c": [0.5, 0.5]}
    return HGKTClassifier().fit(X, y, table)


def rewrite(path, config=None, arrays=None, classes=None):
    """Change parts of a saved folder, with all digests recomputed."""
    old = read_model_folder(path)
    (path / "config.json").unlink()
    shutil.rmtree(path)
    config = {
        k: v for k, v in (config or old.config).items() if k not in ("sha256", "format_version")
    }
    kept = old.arrays if arrays is None else arrays
    table = old.classes if classes is None else classes
    return write_model_folder(path, ModelFolder(config, kept, table, old.card))


def content(value):
    classes = pd.DataFrame({"name": ["a"], "seen": [True], "attributes": [[1.0]]})
    return ModelFolder({"method": "m"}, {"x": np.full(3, value)}, classes, "card")


def test_folder_round_trip_and_replacement(tmp_path):
    path = write_model_folder(tmp_path / "m", content(1.0))
    write_model_folder(path, content(2.0))
    folder = read_model_folder(path)
    np.testing.assert_array_equal(folder.arrays["x"], 2.0)
    assert folder.card == "card"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m"]
    assert sorted(p.name for p in path.iterdir()) == [
        "README.md", "classes.parquet", "config.json", "model.safetensors",
    ]  # fmt: skip


def test_crash_while_writing_leaves_the_old_folder(tmp_path, monkeypatch):
    path = write_model_folder(tmp_path / "m", content(1.0))

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(ModelFolderError, match="No space left on device"):
        write_model_folder(path, content(2.0))
    np.testing.assert_array_equal(read_model_folder(path).arrays["x"], 1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_replacement_without_atomic_exchange_works_too(tmp_path, monkeypatch):
    monkeypatch.setattr("hgkt._files._exchange", lambda first, second: False)
    path = write_model_folder(tmp_path / "m", content(1.0))
    write_model_folder(path, content(2.0))
    np.testing.assert_array_equal(read_model_folder(path).arrays["x"], 2.0)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "classes.parquet"])
def test_incomplete_folder_is_named(model, tmp_path, name):
    path = model.save(tmp_path / "m")
    (path / name).unlink()
    with pytest.raises(ModelFolderError, match=f"incomplete: {name} is missing"):
        load_model(path)


@pytest.mark.parametrize("name", ["model.safetensors", "classes.parquet"])
def test_altered_file_is_noticed(model, tmp_path, name):
    path = model.save(tmp_path / "m")
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 1
    (path / name).write_bytes(bytes(data))
    with pytest.raises(ModelFolderError, match="checksum differs"):
        load_model(path)


def test_other_version_and_broken_config_are_refused(model, tmp_path):
    path = model.save(tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "format_version": 99}))
    with pytest.raises(ModelFolderError, match="version 99; this release reads version 6"):
        load_model(path)
    (path / "config.json").write_text("{")
    with pytest.raises(ModelFolderError, match="not valid JSON"):
        load_model(path)
    (path / "config.json").write_text("[]")
    with pytest.raises(ModelFolderError, match="must hold one JSON object"):
        load_model(path)


def test_unknown_parameter_in_config_is_refused(model, tmp_path):
    path = model.save(tmp_path / "m")
    config = json.loads((path / "config.json").read_text())
    config["parameters"]["wings"] = 2
    rewrite(path, config)
    with pytest.raises(ModelFolderError, match=r"does not hold a complete model: .*wings"):
        load_model(path)


def test_path_that_cannot_be_written_is_refused(model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFolderError, match="cannot write"):
        model.save(tmp_path / "file" / "m")


def test_other_folders_are_left_alone(model, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("meow")
    with pytest.raises(ModelFolderError, match="is not a model folder; it is left alone"):
        model.save(tmp_path / "photos")
    assert (tmp_path / "photos" / "cat.jpg").read_text() == "meow"
    with pytest.raises(ModelFolderError, match="there is no model folder"):
        load_model(tmp_path / "nothing")


def test_moved_folder_loads(model, tmp_path):
    path = model.save(tmp_path / "m")
    shutil.move(path, tmp_path / "elsewhere")
    assert load_model(tmp_path / "elsewhere").classes_.tolist() == ["a", "b", "c"]


def test_calibration_is_kept(tmp_path, model):
    X = np.random.default_rng(1).random((5, 4))
    before = model.score_classes(X)
    loaded = load_model(model.set_params(calibration=0.3).save(tmp_path / "m"))
    np.testing.assert_allclose(loaded.score_classes(X), before - 0.3)


def test_card_says_what_the_model_is(model, tmp_path):
    path = model.add_classes({"d": [1.0, 1.0]}).save(tmp_path / "m", data="toy")
    card = (path / "README.md").read_text()
    assert "4 classes: 3 learned from instances, 1 added" in card
    assert "- data: toy" in card
