"""Preprocessing against hand computation and against transformers' own processors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from hgkt.exceptions import DataError
from hgkt.vision import Preprocessing, open_image
from hgkt.vision.huggingface import read_preprocessing
from hgkt.vision.images import normalize, to_pixels

transformers = pytest.importorskip("transformers")


def preprocess(image, how):
    return normalize(to_pixels(image, how), how)


def test_preprocess_whole_image_is_resize_scale_normalise(photo):
    image = open_image(photo("coffee.png"))
    how = Preprocessing(height=32, width=48, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))
    small = np.asarray(image.resize((48, 32), Image.Resampling.BILINEAR), dtype=np.float64)
    expected = (small / 255 - [0.1, 0.2, 0.3]) / [0.5, 0.6, 0.7]
    got = preprocess(image, how)
    assert got.dtype == np.float32
    assert got.shape == (3, 32, 48)
    np.testing.assert_allclose(got, expected.transpose(2, 0, 1), atol=2e-6)
    record = json.loads(json.dumps({"preprocessing": how.to_dict()}))
    again = Preprocessing.from_dict(record["preprocessing"])
    np.testing.assert_array_equal(preprocess(image, again), got)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("CLIPImageProcessorPil", {}),
        ("CLIPImageProcessorPil", {"size": {"shortest_edge": 33}, "crop_size": 32}),
        ("CLIPImageProcessorPil", {"size": {"shortest_edge": 20}, "crop_size": 31}),
        ("BitImageProcessorPil", {"size": {"shortest_edge": 256}, "resample": 3}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 224}, "crop_pct": 0.875}),
        ("ConvNextImageProcessorPil", {"size": {"shortest_edge": 384}}),
        ("ViTImageProcessorPil", {}),
        ("ViTImageProcessorPil", {"do_normalize": False, "do_rescale": False}),
        ("DeiTImageProcessorPil", {}),
        ("SiglipImageProcessorPil", {}),
    ],
)
def test_read_preprocessing_agrees_with_the_processor_of_transformers(
    tmp_path, photo, kind, options
):
    if not hasattr(transformers, kind):
        pytest.skip(f"this transformers has no {kind}")
    processor = getattr(transformers, kind)(**options)
    processor.save_pretrained(tmp_path)
    how = read_preprocessing(tmp_path)
    for name in ("chelsea.png", "rocket.jpg"):
        image = open_image(photo(name)).crop((0, 0, 211, 300))
        expected = np.asarray(processor(image, return_tensors="np")["pixel_values"])[0]
        got = preprocess(image, how)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, atol=1e-5 * max(1, np.abs(expected).max()))


def test_read_preprocessing_knows_the_short_files_of_old_models(tmp_path):
    def read(**config):
        (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
        return read_preprocessing(tmp_path)

    common = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    clip = read(feature_extractor_type="CLIPFeatureExtractor", size=224, crop_size=224, **common)
    assert (clip.shortest_edge, clip.crop, clip.interpolation) == (224, (224, 224), "bicubic")
    vit = read(feature_extractor_type="ViTFeatureExtractor", size=224, **common)
    assert (vit.height, vit.width, vit.crop, vit.interpolation) == (224, 224, None, "bilinear")
    for empty in ({}, {"crop_pct": None}):
        resnet = read(
            feature_extractor_type="ConvNextFeatureExtractor", size=224, **common, **empty
        )
        assert (resnet.shortest_edge, resnet.crop) == (256, (224, 224))
    with pytest.raises(DataError, match="image processor 'OwlImageProcessor'; known are"):
        read(image_processor_type="OwlImageProcessor", **common)
    silent = read(image_processor_type="ViTImageProcessorFast")  # what transformers takes then
    assert (silent.height, silent.width, silent.mean) == (224, 224, (0.5, 0.5, 0.5))
    for garbled in (
        {"size": "large"},
        {"size": {"longest_edge": 100}},
        {"size": 224, "resample": 99},
        {"size": 224, "image_mean": [0.5, 0.5]},
    ):
        with pytest.raises(DataError, match="lacks or garbles a setting: ") as error:
            read(image_processor_type="ViTImageProcessor", **common | garbled)
        assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="asks for padding"):
        read(image_processor_type="ViTImageProcessor", size=224, do_pad=True, **common)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(DataError, match=r"has no preprocessor_config\.json"):
        read_preprocessing(tmp_path)


def test_preprocessing_refuses_unknown_settings():
    with pytest.raises(DataError, match=r"interpolation must be one of .*; got 'magic'"):
        Preprocessing(interpolation="magic")
    with pytest.raises(DataError, match="preprocessing of a backbone record is wrong"):
        Preprocessing.from_dict({"zoom": 2})


def test_draft_changes_features_of_a_large_photograph_little(tmp_path, photo, lite0):
    """A JPEG decoded at half size and then resized is nearly the whole one resized."""
    large = Image.open(photo("astronaut.png")).convert("RGB").resize((1200, 1000), 3)
    large.save(tmp_path / "large.jpg", quality=95)
    path = tmp_path / "large.jpg"
    assert open_image(path, at_least=lite0.preprocessing.draft_size()).size == (600, 500)
    a, b = lite0.extract([path, open_image(path)]).astype(np.float64)
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.995


def test_a_line_is_not_blown_up_to_a_picture():
    line = Image.new("RGB", (100_000, 2))
    with pytest.raises(DataError, match="too long and narrow"):
        preprocess(line, Preprocessing(shortest_edge=256, crop=(224, 224)))
    assert preprocess(line, Preprocessing(height=8, width=8)).shape == (3, 8, 8)
