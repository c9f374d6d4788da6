"""Vision models of transformers: by hub name or from a folder, safetensors only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgkt._files import files_sha256, read_json
from hgkt._hub import WEIGHTS, WEIGHTS_VARIABLE, find_local, hub_folder, load_pretrained
from hgkt._validation import import_extra
from hgkt.exceptions import DataError
from hgkt.vision.backbones import Backbone, package_versions
from hgkt.vision.images import INTERPOLATIONS, Preprocessing

_FETCHED = ("config.json", "*processor_config.json", WEIGHTS, "*.index.json")
_PROCESSORS = ("CLIP", "Bit", "ConvNext", "ViT", "DeiT", "Siglip")
_CONVNEXT_WHOLE = 384  # from this size on ConvNext's processor takes the whole image


@dataclass(frozen=True)
class Pooling:
    """Which class reads a model type and what of its output are the features.

    Parameters
    ----------
    class_name : str
        Class of transformers.
    output : str
        "pooler_output", "image_embeds", or "class_token": the first token of the last layer.
    meaning : str
        The features, for the record.
    convolutional : bool
        Whether channels-last inputs are faster.
    unit : bool
        Whether features are scaled to length one, as models do that compare them with texts.
    """

    class_name: str
    output: str
    meaning: str
    convolutional: bool = False
    unit: bool = False


_AVERAGE = "average of the last feature map"
_NORMED = "average of the last feature map, layer-normalised"
_TOKEN = "class token of the last layer, layer-normalised"
_PROJECTED = "image tower, projected, length one"
_ATTENDED = "attention pool of the image tower, length one"

POOLINGS = {
    "resnet": Pooling("ResNetModel", "pooler_output", _AVERAGE, True),
    "regnet": Pooling("RegNetModel", "pooler_output", _AVERAGE, True),
    "convnext": Pooling("ConvNextModel", "pooler_output", _NORMED, True),
    "convnextv2": Pooling("ConvNextV2Model", "pooler_output", _NORMED, True),
    "swin": Pooling("SwinModel", "pooler_output", "average of the last tokens, layer-normalised"),
    "dinov2": Pooling("Dinov2Model", "pooler_output", _TOKEN),
    "dinov2_with_registers": Pooling("Dinov2WithRegistersModel", "pooler_output", _TOKEN),
    # Checkpoints for classification have no pooler; the class token is what they classify.
    "vit": Pooling("ViTModel", "class_token", _TOKEN),
    "deit": Pooling("DeiTModel", "class_token", _TOKEN),
    # Their text towers are in `hgkt.language.towers`.
    "clip": Pooling("CLIPVisionModelWithProjection", "image_embeds", _PROJECTED, unit=True),
    "siglip": Pooling("SiglipVisionModel", "pooler_output", _ATTENDED, unit=True),
}


def open_transformers(request: Mapping[str, Any], device: str) -> Backbone:
    """Open a vision model of transformers; `POOLINGS` says which types and which features.

    Only safetensors weights are read, and only code of transformers itself is run.

    Parameters
    ----------
    request : mapping
        Has its ``source``, a folder or a hub name, and maybe the ``revision``.
    device : str
        Where to compute.

    Returns
    -------
    Backbone
    """
    import torch

    source = request.get("source")
    if not source:
        raise DataError("transformers needs a model: its hub name (owner/model) or a folder")
    folder, revision = _folder(source, request.get("revision"))
    config = read_json(folder / "config.json")
    kind = str(config.get("model_type"))
    # A folder may hold one tower alone.
    kind = kind.removesuffix("_vision_model")
    if kind not in POOLINGS:
        raise DataError(
            f"{source} is a model of type {kind!r}; image features are taken from: "
            f"{', '.join(POOLINGS)}"
        )
    pooling = POOLINGS[kind]
    how = read_preprocessing(folder)
    bare = {"add_pooling_layer": False} if pooling.output == "class_token" else {}
    model = load_pretrained(pooling.class_name, folder, "vision", **bare).eval().to(device)
    if pooling.convolutional:
        model = model.to(memory_format=torch.channels_last)

    def forward(inputs: Any) -> Any:
        output = model(pixel_values=inputs)
        if pooling.output == "class_token":
            return output.last_hidden_state[:, 0]
        features = getattr(output, pooling.output).flatten(1)
        return torch.nn.functional.normalize(features, dim=1) if pooling.unit else features

    with torch.inference_mode():
        height, width = how.crop or how.resized(256, 256)[::-1]
        n_features = int(forward(torch.zeros(1, 3, height, width, device=device)).shape[1])
    record = {
        "name": "transformers",
        "family": "transformers",
        "source": source if revision else str(folder),  # a folder has no revision
        "revision": revision,
        "model_type": kind,
        "sha256": files_sha256(folder.glob(WEIGHTS)),
        "n_features": n_features,
        "features": pooling.meaning,
        "preprocessing": how.to_dict(),
        "versions": package_versions(["transformers", "torch", "pillow"]),
    }
    return Backbone(record, how, forward, device, pooling.convolutional)


def _folder(source: str, revision: str | None) -> tuple[Path, str | None]:
    """Return the folder of a model: itself, the hub's cache, or a fresh download."""
    path = find_local(source, WEIGHTS_VARIABLE)
    if path is not None:
        if not path.is_dir():
            raise DataError(f"{path} is no folder; a folder that transformers wrote is expected")
        return path, None
    if source.count("/") != 1 or source.startswith((".", "/", "~")):
        raise DataError(
            f"the folder {source} does not exist; give a folder, a hub name (owner/model), or put "
            "it in the folder that $HGKT_WEIGHTS names"
        )
    folder = hub_folder(source, _FETCHED, WEIGHTS, "vision", revision)
    return folder, folder.name


def read_preprocessing(folder: Path) -> Preprocessing:
    """Read how images become inputs of the model in `folder`.

    Transformers reads the file and fills in what it does not say. The work itself is ours: the
    same pixels to 5e-7, a quarter faster, and processes that decode need not import transformers.

    Parameters
    ----------
    folder : Path
        Has ``preprocessor_config.json``, or ``processor_config.json`` with a part
        ``image_processor``. Processors of CLIP, BiT (DINOv2), ConvNext (ResNet), ViT, DeiT and
        SigLIP are known; any other is refused, as its rules could differ.

    Returns
    -------
    Preprocessing
    """
    files = [folder / name for name in ("preprocessor_config.json", "processor_config.json")]
    path = next((file for file in files if file.is_file()), None)
    if path is None:
        raise DataError(f"{folder} has no {files[0].name}, which says how images are resized")
    config = read_json(path)
    config = config.get("image_processor", config)
    named = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
    kind = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", named)
    if kind not in _PROCESSORS:
        raise DataError(
            f"{path} has the image processor {named or 'of no name'!r}; known are those of "
            f"{', '.join(_PROCESSORS)}"
        )
    if config.get("do_pad"):
        raise DataError(f"{path} asks for padding (do_pad), which is not supported")
    transformers = import_extra("transformers", "vision")
    # Pillow's variant, under its name of today or of transformers 4; the other needs torchvision.
    names = (f"{kind}ImageProcessorPil", f"{kind}ImageProcessor")
    processor = next(getattr(transformers, name) for name in names if hasattr(transformers, name))
    try:
        return _preprocessing(processor.from_dict(config).to_dict(), kind)
    except Exception as error:  # the processors check little, and fail in many ways
        raise DataError(f"{path} lacks or garbles a setting: {error!r}") from None


def _preprocessing(config: dict[str, Any], kind: str) -> Preprocessing:
    """Translate the settings of a processor, all of them given."""
    geometry: dict[str, Any] = {}
    if config["do_resize"]:
        size = {side: int(length) for side, length in config["size"].items() if length}
        if not size or set(size) - {"height", "width", "shortest_edge"}:
            raise ValueError(f"size {size} is not supported")
        geometry = _convnext(size["shortest_edge"], config) if kind == "ConvNext" else size
    if config.get("do_center_crop"):
        geometry["crop"] = (int(config["crop_size"]["height"]), int(config["crop_size"]["width"]))
    if config["do_normalize"]:
        geometry |= {"mean": config["image_mean"], "std": config["image_std"]}
    else:
        geometry |= {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    return Preprocessing(
        **geometry,
        interpolation=INTERPOLATIONS[int(config["resample"])],
        scale=float(config["rescale_factor"]) if config["do_rescale"] else 1.0,
    )


def _convnext(edge: int, config: dict[str, Any]) -> dict[str, Any]:
    """ConvNext's own rule: enlarge by 1/crop_pct and keep the middle, or take the whole."""
    if edge >= _CONVNEXT_WHOLE:
        return {"height": edge, "width": edge}
    # Files of transformers 4 leave crop_pct empty, which meant 224/256.
    share = float(config["crop_pct"] or 224 / 256)
    return {"shortest_edge": int(edge / share), "crop": (edge, edge)}
