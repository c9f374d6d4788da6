"""`hgkt.train_on_images` and the model it gives, on drawn pictures with the real networks."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import hgkt
from hgkt.exceptions import DataError
from hgkt.items import read_photos
from hgkt.language import ClassDescription


@pytest.fixture(scope="module")
def model(drawings):
    classes = {"blue square": "a square in blue"}
    return hgkt.train_on_images(drawings / "photos", classes, device="cpu")


def new_photos(drawings):
    return sorted((drawings / "new").rglob("*.png"))


def test_it_learns_from_photos_and_from_words(drawings, model):
    assert len(model.seen_classes_) == 8
    assert model.unseen_classes_.tolist() == ["blue square"]
    assert "red circle" in model.seen_classes_  # of one photo
    photos = new_photos(drawings)
    truth = np.array([path.parent.name for path in photos])
    seen = truth != "blue square"
    named = model.predict(photos)
    assert (named == truth)[seen].mean() > 0.5  # chance is 1/9
    guess = model.rank(drawings / "new" / "blue square" / "2.png", top=9)[0]
    assert {g.label: g.seen for g in guess}["blue square"] is False
    chances = [g.probability for g in guess]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1)


def test_photos_get_every_answer_that_rows_get(drawings, model):
    photos = new_photos(drawings)
    rows = model.features(photos)
    inner = model.classifier
    assert model.predict_proba(photos) == pytest.approx(inner.predict_proba(rows))
    assert model.novelty(photos) == pytest.approx(inner.novelty(rows))
    assert model.predict(photos, reject=0.5).tolist() == inner.predict(rows, reject=0.5).tolist()
    assert hgkt.UNKNOWN in model.predict(photos, reject=0.5)
    assert {*map(len, model.predict_set(photos, 0.5, "seen"))} <= {*range(1, 9)}
    answers = model.answers(rows, top=2, reject=0.5, coverage=0.5)
    expected = inner.answers(rows, reject=0.5, coverage=0.5)
    for row, answer in enumerate(answers):
        assert (answer.label or hgkt.UNKNOWN) == expected.labels[row]
        assert answer.guesses[0].label == model.predict(photos[row])[0]
        assert answer.guesses[0].probability == expected.probabilities[row].max()
        assert list(answer.set) == expected.sets()[row].tolist()
        assert answer.novelty == expected.novelty[row]
    with pytest.raises(DataError, match="top must be"):
        model.rank(photos[0], top=0)


def test_an_answer_is_explained_by_learned_classes_and_their_photos(drawings, model):
    photo = drawings / "new" / "blue square" / "2.png"
    (reason,) = model.explain(photo, top=2, among="unseen")
    assert reason.guess == model.rank(photo, 1, "unseen")[0][0]
    assert (reason.guess.label, reason.guess.seen) == ("blue square", False)
    assert [r.label for r in reason.nearest] == [g.label for g in model.rank(photo, 2, "seen")[0]]
    for relative in reason.nearest:
        assert (drawings / "photos" / relative.example).parent.name == relative.label


def test_classes_are_checked_and_grow(drawings, tmp_path):
    folder = hgkt.train_on_images(
        drawings / "photos", {"blue square": "a blue square"}, device="cpu", keep_examples=False
    ).save(tmp_path / "m")
    model = hgkt.ImageClassifier.load(folder, device="cpu")
    check = model.check_class("a disk in blue", "blue disk")
    assert "blue disk" in str(check)
    assert "blue disk" not in model.classes_
    photo = drawings / "new" / "blue square" / "2.png"
    moon = drawings / "new" / "green circle" / "2.png"
    model.grow({"blue square": photo, "moon": [moon]}, {"moon": "a green moon"})
    assert {"blue square", "moon"} <= set(model.seen_classes_)
    assert model.unseen_classes_.tolist() == []
    assert model.predict(photo).tolist() == ["blue square"]
    assert all(r.example is None for r in model.explain(photo)[0].nearest)


def test_predict_takes_paths_images_and_arrays_alike(drawings, model):
    paths = new_photos(drawings)[:3]
    images = [Image.open(path) for path in paths]
    arrays = np.stack([np.asarray(image) for image in images])
    expected = model.predict(paths).tolist()
    assert model.predict([str(path) for path in paths]).tolist() == expected
    assert model.predict(images).tolist() == expected
    assert model.predict(arrays).tolist() == expected
    for one in (paths[0], str(paths[0]), images[0], arrays[0], paths[0].read_bytes()):
        assert model.predict(one).tolist() == expected[:1]
    among = ["green circle", "blue square"]
    assert set(model.predict(paths, among=among)) <= set(among)
    with pytest.raises(DataError, match=r"none.png does not exist"):
        model.predict(drawings / "none.png")
    with pytest.raises(DataError, match="uint8 are expected"):
        model.predict(arrays[0].astype(float))
    with pytest.raises(DataError, match=r"images must be paths.*got int"):
        model.predict(3)


def test_classes_come_by_words_and_stay_after_loading(drawings, model, tmp_path):
    model.add_classes({"moon": ["a white disk", "at night"], "sun": "a yellow disk"})
    again = hgkt.ImageClassifier.load(model.save(tmp_path / "m"), device="cpu")
    model.remove_classes(["moon", "sun"])
    assert {"moon", "sun", "blue square"} == set(again.unseen_classes_)
    photos = new_photos(drawings)[:2]
    assert again.predict(photos, among="seen").tolist() == model.predict(photos, "seen").tolist()
    assert again.classifier.about_["backbone"]["name"] == "efficientnet-lite0"
    again.remove_classes(["moon"]).add_classes({"moon": ClassDescription("moon", text="a disk")})
    assert "moon" in again.classes_
    with pytest.raises(DataError, match="is there already"):
        again.add_classes({"sun": "again"})
    plain = hgkt.load_model(tmp_path / "m")
    plain.about_ = {}
    with pytest.raises(DataError, match="cannot read images"):
        hgkt.ImageClassifier(plain)


@pytest.mark.endure
def test_numbers_tell_classes_as_well(drawings, tmp_path):
    table = pd.read_csv(drawings / "numbers.csv", index_col="name")
    model = hgkt.train_on_images(drawings / "photos", table, device="cpu", cache=tmp_path / "c")
    assert model.predict(drawings / "new" / "blue square" / "2.png").tolist() == ["blue square"]
    model.add_classes({"purple circle": {"red": 0.5, "blue": 0.5, "circle": 1}})
    assert model.classifier.about_["attribute_names"] == list(table.columns)
    # The features are in the cache now; with a description beside them there are two blocks.
    both = table.reset_index().assign(description="a shape")
    photos = read_photos(drawings / "photos", both, cache=tmp_path / "c", device="cpu")
    assert photos.n_resumed == len(photos.dataset.train) == 15
    assert photos.dataset.about["attribute_kinds"] == ["att", "text"]
    vectors = {name: row.to_numpy() for name, row in table.iterrows()}
    same = read_photos(drawings / "photos", vectors, cache=tmp_path / "c", device="cpu")
    np.testing.assert_array_equal(same.dataset.class_attributes[-1], vectors["blue square"])


def test_an_empty_folder_is_a_class_known_by_name(drawings, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(drawings / "photos" / "red square", folder / "red square")
    shutil.copytree(drawings / "photos" / "green circle", folder / "green circle")
    (folder / "blue moon").mkdir()
    (folder / "green circle" / "bad.png").write_bytes(b"no picture")
    photos = read_photos(folder, device="cpu")
    data = photos.dataset
    assert data.names(data.described_classes) == ["blue moon"]
    assert [file for file, _ in photos.unreadable] == ["green circle/bad.png"]
    # Two classes are too few to choose anything on, and enough to train.
    model = hgkt.train_on_images(folder, device="cpu")
    assert model.classifier.about_["validation"] is None
    assert set(model.classes_) == {"red square", "green circle", "blue moon"}


def test_a_manifest_says_what_is_train(drawings, tmp_path):
    rows = "".join(
        f"{name}/{number}.png,{name},{split}\n"
        for name in ("red square", "green circle")
        for number, split in ((0, "train"), (1, "test_seen"))
    )
    (drawings / "photos" / "list.csv").write_text(f"file,class,split\n{rows}")
    try:
        data = read_photos(drawings / "photos" / "list.csv", device="cpu").dataset
    finally:
        (drawings / "photos" / "list.csv").unlink()
    assert (len(data.train), len(data.test_seen)) == (2, 2)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (
            {"Blue_Circle": "round"},
            "calls a class 'Blue_Circle' that is 'blue circle' in",
        ),
        ({"moon": [1.0, 2.0]}, r"class 'blue circle' of .*photos has no row in the table"),
        ({"moon": "a disk", "sun": [1.0]}, "'sun' has a vector where others have texts"),
        ([1, 2], "classes must be a table .* got list"),
        ("none.csv", "none.csv does not exist"),
        (pd.DataFrame({"name": ["moon"], "big": [1.0]}), "'blue circle' of .* has no row in"),
    ],
)
def test_classes_are_refused_before_a_photo_is_opened(drawings, monkeypatch, classes, sentence):
    monkeypatch.setattr("hgkt.items.images.load_backbone", lambda *a: pytest.fail("loaded"))
    with pytest.raises(DataError, match=sentence):
        hgkt.train_on_images(drawings / "photos", classes)


def test_folders_without_pictures_are_refused(tmp_path):
    for folder, sentence in [
        (tmp_path / "none", "none does not exist"),
        (tmp_path, "has no images"),
    ]:
        with pytest.raises(DataError, match=sentence):
            hgkt.train_on_images(folder)
    with pytest.raises(DataError, match="estimator must be a method of hgkt; got str"):
        hgkt.train_on_images(tmp_path, estimator="ridge")
