"""Vision models of transformers: by hub name or from a folder, safetensors only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt._validation import import_extra
from hgkt.exceptions import DataError, DownloadError
from hgkt.vision.backbone import Backbone, package_versions
from hgkt.vision.processor_config import read_preprocessing
from hgkt.vision.weights import files_sha256, find_source

if TYPE_CHECKING:
    from hgkt.vision.registry import BackboneRequest

_WANTED = ("config.json", "*processor_config.json", "model*.safetensors", "*.index.json")


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
    """

    class_name: str
    output: str
    meaning: str
    convolutional: bool = False


_AVERAGE = "average of the last feature map"
_NORMED = "average of the last feature map, layer-normalised"
_TOKEN = "class token of the last layer, layer-normalised"

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
    "clip": Pooling(
        "CLIPVisionModelWithProjection", "image_embeds", "image tower, projected (not normalised)"
    ),
    "siglip": Pooling("SiglipVisionModel", "pooler_output", "attention pool of the image tower"),
}


def open_transformers(request: BackboneRequest) -> Backbone:
    """Open a vision model of transformers; `POOLINGS` says which types and which features.

    Only safetensors weights are read, and only code of transformers itself is run.

    Parameters
    ----------
    request : BackboneRequest
        Source (a folder or a hub name), revision and device.

    Returns
    -------
    Backbone
    """
    import torch

    if not request.source:
        raise DataError("transformers needs a model: its hub name (owner/model) or a folder")
    folder, revision = _folder(request.source, request.revision)
    config = _read_json(folder / "config.json")
    kind = str(config.get("model_type"))
    # A folder may hold one tower alone.
    kind = kind.removesuffix("_vision_model")
    if kind not in POOLINGS:
        raise DataError(
            f"{request.source} is a model of type {kind!r}; image features are taken from: "
            f"{', '.join(POOLINGS)}"
        )
    pooling = POOLINGS[kind]
    weights = sorted(folder.glob("model*.safetensors"))
    if not weights:
        raise DataError(f"{folder} has no model.safetensors; other weight formats are not read")
    how = read_preprocessing(folder)
    model = _load(folder, pooling).eval().to(request.device)
    if pooling.convolutional:
        model = model.to(memory_format=torch.channels_last)

    def forward(inputs: Any) -> Any:
        output = model(pixel_values=inputs)
        if pooling.output == "class_token":
            return output.last_hidden_state[:, 0]
        return getattr(output, pooling.output).flatten(1)

    with torch.inference_mode():
        height, width = how.crop or (how.resized(256, 256)[1], how.resized(256, 256)[0])
        n_features = int(forward(torch.zeros(1, 3, height, width, device=request.device)).shape[1])
    is_folder = find_source(request.source) is not None
    record = {
        "name": "transformers",
        "family": "transformers",
        "source": str(folder) if is_folder else request.source,
        "revision": revision,
        "model_type": kind,
        "sha256": files_sha256(weights),
        "n_features": n_features,
        "features": pooling.meaning,
        "preprocessing": how.to_dict(),
        "versions": package_versions(["transformers", "torch", "pillow"]),
    }
    return Backbone(record, how, forward, request.device, pooling.convolutional)


def _folder(source: str, revision: str | None) -> tuple[Path, str | None]:
    """Return the folder of a model: itself, the hub's cache, or a fresh download."""
    path = find_source(source)
    if path is not None:
        if not path.is_dir():
            raise DataError(f"{path} is no folder; a folder that transformers wrote is expected")
        return path, None
    if source.count("/") != 1 or source.startswith((".", "/", "~")):
        raise DataError(
            f"the folder {source} does not exist; give a folder, a hub name (owner/model), or put "
            "it in the folder that $HGKT_WEIGHTS names"
        )
    hub = import_extra("huggingface_hub", "vision")
    settings = {"revision": revision, "allow_patterns": list(_WANTED)}
    try:
        folder = Path(hub.snapshot_download(source, local_files_only=True, **settings))
        if any(folder.glob("model*.safetensors")):
            return folder, folder.name
    except Exception:  # not in the cache
        pass
    try:
        folder = Path(hub.snapshot_download(source, **settings))
    except Exception as error:  # the network, the hub and its client fail in many ways
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DownloadError(
            f"the model {source} is neither in the cache nor could it be downloaded: {reason}"
        ) from None
    return folder, folder.name


def _load(folder: Path, pooling: Pooling) -> Any:
    transformers = import_extra("transformers", "vision")
    options: dict[str, Any] = {"local_files_only": True, "use_safetensors": True}
    if pooling.output == "class_token":
        options["add_pooling_layer"] = False
    with _quiet(transformers):
        try:
            model, info = getattr(transformers, pooling.class_name).from_pretrained(
                folder, output_loading_info=True, **options
            )
        except Exception as error:  # damaged files surface as errors of several libraries
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise DataError(f"the model in {folder} cannot be loaded: {reason}") from None
    missing = sorted(info["missing_keys"])
    if missing:
        raise DataError(
            f"the weights in {folder} lack {len(missing)} parameters of {pooling.class_name} "
            f"(first: {missing[0]}); random ones would make random features"
        )
    # Half-precision checkpoints are widened: features are float32 whatever the file holds.
    return model.float()


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Keep loading bars and notes about unused parameters off the terminal."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _read_json(path: Path) -> dict[str, Any]:
    try:
        loaded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise DataError(f"{path} must hold one JSON object")
    return loaded
