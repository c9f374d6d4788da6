"""Listing, the journal, workers and extraction: nothing twice, nothing lost, never fatal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from hgkt._journal import Journal
from hgkt.exceptions import DataError
from hgkt.vision import (
    ImageEntry,
    Preprocessing,
    extract_features,
    find_images,
    list_images,
    open_image,
    read_manifest,
)
from hgkt.vision.backbones import Backbone
from hgkt.vision.extraction import decode_all, file_key
from hgkt.vision.listing import passed_over

HOW = Preprocessing(height=8, width=8, mean=(0, 0, 0), std=(1, 1, 1))


class Means:
    """A network small enough to check by hand: the mean of each channel; it counts its images."""

    def __init__(self, stop_after=None):
        self.n_images, self.stop_after = 0, stop_after

    def __call__(self, inputs):
        if self.stop_after is not None and self.n_images >= self.stop_after:
            raise KeyboardInterrupt
        self.n_images += len(inputs)
        return inputs.mean(dim=(2, 3))


def means(stop_after=None):
    network = Means(stop_after)
    record = {"name": "means", "n_features": 3, "sha256": "0"}
    return Backbone(record, HOW, network), network


@pytest.fixture
def images(tmp_path):
    """Ten gray images of two classes, and three files that are none."""
    folder = tmp_path / "images"
    for number in range(10):
        path = folder / ("cat" if number < 5 else "dog/deep/er") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 7), (20 * number,) * 3).save(path)
    (folder / "cat" / "bad.jpg").write_bytes(b"no image")
    (folder / "cat" / ".hidden.png").write_bytes(b"x")
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.png").write_bytes(b"x")
    (folder / "cat" / "notes.txt").write_text("x")
    (folder / "dog" / "folder.jpg").mkdir()
    return folder


def test_list_images_takes_the_first_folder_as_the_class(images):
    entries = list_images(images)
    assert [entry.id for entry in entries][:3] == ["cat/0.png", "cat/1.png", "cat/2.png"]
    assert {e.id: e.label for e in entries}["dog/deep/er/7.png"] == "dog"
    assert len(entries) == 11
    os.symlink(images, images / "dog" / "loop")  # leads back
    assert len(find_images(images)) == 11
    (images / "loose.png").write_bytes(b"x")
    with pytest.raises(DataError, match=r"loose\.png lies outside any class folder"):
        list_images(images)
    (images / "empty").mkdir()
    with pytest.raises(DataError, match="has no images"):
        list_images(images / "empty")


def test_files_that_are_no_images_are_counted_by_suffix(images):
    assert passed_over(images) == {".txt": 1}
    (images / "cat" / "a.MOV").write_bytes(b"x")
    (images / "dog" / "README").write_bytes(b"x")
    assert passed_over(images) == {".mov": 1, ".txt": 1, "README": 1}
    raw = images.parent / "raw"
    (raw / "cat").mkdir(parents=True)
    (raw / "cat" / "1.cr2").write_bytes(b"x")
    with pytest.raises(DataError, match=r"raw has no images.*1 file was passed over.*\.cr2 \(1\)"):
        list_images(raw)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_read_manifest_keeps_order_class_and_split(images, suffix):
    frame = pd.DataFrame(
        {
            "file": ["images/dog/deep/er/9.png", "images/cat/0.png", "images/none.png"],
            "class": ["007", "nan", "dog"],
            "split": ["test_seen", "", "train"],
        }
    )
    path = images.parent / f"manifest{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    entries = read_manifest(path)
    assert [(e.label, e.split) for e in entries] == [
        ("007", "test_seen"),
        ("nan", ""),
        ("dog", "train"),
    ]
    found = extract_features(entries, means()[0])
    np.testing.assert_allclose(found.features[:, 0], [180 / 255, 0], atol=1e-6)
    assert found.unreadable[0][0].id == "images/none.png"
    inside = frame.assign(file=frame["file"].str.removeprefix("images/"))
    inside.to_csv(images.parent / "m.csv", index=False)
    assert read_manifest(images.parent / "m.csv", images)[1].path.is_file()


def test_read_manifest_refuses_with_one_sentence(tmp_path):
    def refused(sentence, text, name="m.csv"):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(DataError, match=sentence) as error:
            read_manifest(path)
        assert "\n" not in str(error.value)

    refused("has no column 'class'", "file\na.png\n")
    refused("row 1 of .* has split 'validation'", "file,class,split\na,x,\nb,x,validation\n")
    refused("row 1 of .* names the file 'a' a second time", "file,class\na,x\na,y\n")
    refused("row 0 of .* has no class", "file,class\na,\n")
    refused("has no rows", "file,class\n")
    refused("has the suffix '.txt'; a table", "", "m.txt")
    refused("cannot be read as a table", "", "m.csv")
    refused("cannot be read as a table", "nonsense", "m.parquet")


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.endure
def test_extract_features_reads_in_order_and_reports_the_rest(images, workers):
    entries = list_images(images)
    backbone, network = means()
    calls = []
    found = extract_features(
        entries, backbone, batch_size=4, workers=workers, progress=lambda *a: calls.append(a)
    )
    expected = [20 * int(Path(entry.id).stem) / 255 for entry in found.entries]
    np.testing.assert_allclose(found.features, np.array(expected)[:, None] * [1, 1, 1], atol=1e-6)
    assert [entry.id for entry, _ in found.unreadable] == ["cat/bad.jpg"]
    assert "is not an image" in found.unreadable[0][1]
    assert network.n_images == 10
    assert calls[-1][:3] == ("extract", 11, 11)


@pytest.mark.endure
def test_decode_all_is_what_one_image_at_a_time_gives(photo):
    paths = [photo(name) for name in ("china.jpg", "chelsea.png", "rocket.jpg", "flower.jpg")] * 3
    how = Preprocessing(shortest_edge=40, crop=(32, 32))
    for workers in (0, 1):
        for path, pixels in zip(paths, decode_all(paths, how, workers), strict=True):
            image = open_image(path, at_least=(80, 80))
            ratio = 40 / min(image.size)
            size = tuple(max(40, int(side * ratio)) for side in image.size)
            small = np.asarray(image.resize(size, Image.Resampling.BILINEAR))
            top, left = (small.shape[0] - 32) // 2, (small.shape[1] - 32) // 2
            np.testing.assert_array_equal(pixels, small[top : top + 32, left : left + 32])


def test_extract_features_is_fatal_only_if_nothing_is_readable(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    entries = [ImageEntry("a", tmp_path / "a.png"), ImageEntry("b", tmp_path / "b.png")]
    with pytest.raises(DataError, match=r"none of the 2 images could be read; the first: .*a\.png"):
        extract_features(entries, means()[0])


def test_extract_features_resumes_and_extracts_nothing_twice(images, tmp_path):
    entries = list_images(images)
    whole = extract_features(entries, means()[0]).features
    backbone, first = means(stop_after=6)
    with pytest.raises(KeyboardInterrupt), Journal(tmp_path / "j", {"sha256": "0"}, 3) as journal:
        extract_features(entries, backbone, journal, batch_size=3)
    backbone, second = means()
    with Journal(tmp_path / "j", {"sha256": "0"}, 3) as journal:
        assert len(journal) == first.n_images == 6
        found = extract_features(entries, backbone, journal, batch_size=3)
        assert found.n_resumed == 6
        assert first.n_images + second.n_images == 10
        np.testing.assert_array_equal(found.features, whole)
        assert [e.id for e, _ in found.unreadable] == ["cat/bad.jpg"]
        np.testing.assert_array_equal(found.rows(slice(2, 5)), whole[2:5])
    # A file that changed is extracted again.
    Image.new("RGB", (9, 7), (255,) * 3).save(images / "cat" / "0.png")
    backbone, third = means()
    with Journal(tmp_path / "j", {"sha256": "0"}, 3) as journal:
        found = extract_features(entries, backbone, journal)
        np.testing.assert_allclose(found.features[0], 1, atol=1e-6)
        journal.remove()
    assert third.n_images == 1
    assert not (tmp_path / "j").exists()


def test_journal_cuts_off_what_a_crash_left_half_written(tmp_path):
    rng = np.random.default_rng(0)
    keys = [(f"/{n}.png", n, n) for n in range(6)]
    rows = rng.random((6, 4), dtype=np.float32)
    with Journal(tmp_path / "j", {}, 4) as journal:
        journal.append(keys[:3], rows[:3])
        journal.append(keys[3:], rows[3:])
    index, features = tmp_path / "j" / "rows.jsonl", tmp_path / "j" / "features.f32"
    whole = (index.read_bytes(), features.read_bytes())
    header = whole[0].index(b"\n") + 1
    for _ in range(80):
        # Features are written first, so an index line is only there where its features are.
        n_rows = int(rng.integers(0, 7))
        lines = whole[0].split(b"\n")[: 1 + n_rows]
        tail = b"\n" + whole[0].split(b"\n")[1 + n_rows][: int(rng.integers(0, 9))]
        index.write_bytes(b"\n".join(lines) + tail)
        extra = int(rng.integers(0, 1 + len(whole[1]) - 16 * n_rows))
        features.write_bytes(whole[1][: 16 * n_rows + extra])
        with Journal(tmp_path / "j", {}, 4) as journal:
            assert len(journal) == n_rows
            missing = [n for n in range(6) if keys[n] not in journal]
            journal.append([keys[n] for n in missing], rows[missing])
        with Journal(tmp_path / "j", {}, 4) as journal:
            np.testing.assert_array_equal(journal.rows(keys), rows)
    index.write_bytes(whole[0][: header // 2])  # not even the header was finished
    with Journal(tmp_path / "j", {}, 4) as journal:
        assert len(journal) == 0
    assert json.loads(index.read_text())["n_features"] == 4


def test_journal_refuses_another_backbone_and_a_second_writer(tmp_path):
    with (
        Journal(tmp_path / "j", {"backbone": "a"}, 4),
        pytest.raises(DataError, match="another ext"),
    ):
        Journal(tmp_path / "j", {"backbone": "a"}, 4).__enter__()
    with pytest.raises(DataError, match="unfinished extraction with another backbone"):
        Journal(tmp_path / "j", {"backbone": "b"}, 4).__enter__()
    assert file_key(tmp_path / "none") is None
