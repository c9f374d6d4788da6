"""Preprocessing from the `preprocessor_config.json` of a model folder of transformers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hgkt.exceptions import DataError
from hgkt.vision.preprocessing import INTERPOLATIONS, Preprocessing

_CONVNEXT_WHOLE = 384  # from this size on ConvNext's processor takes the whole image


@dataclass(frozen=True)
class _Defaults:
    """What a processor class of transformers assumes where its file is silent."""

    square: bool  # a bare number means height and width, not the shorter side
    resample: int
    crop: bool


_DEFAULTS = {
    "CLIP": _Defaults(False, 3, True),
    "Bit": _Defaults(False, 3, True),
    "ConvNext": _Defaults(False, 3, False),
    "ViT": _Defaults(True, 2, False),
    "DeiT": _Defaults(True, 3, True),
    "Siglip": _Defaults(True, 3, False),
}


def read_preprocessing(folder: Path) -> Preprocessing:
    """Read how images become inputs of the model in `folder`.

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
    config, path = _read(folder)
    named = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
    kind = re.sub(r"(ImageProcessor|FeatureExtractor)(Fast|Pil)?$", "", named)
    if kind not in _DEFAULTS:
        raise DataError(
            f"{path} has the image processor {named or 'of no name'!r}; known are those of "
            f"{', '.join(_DEFAULTS)}"
        )
    if config.get("do_pad"):
        raise DataError(f"{path} asks for padding (do_pad), which is not supported")
    defaults = _DEFAULTS[kind]
    try:
        geometry = _convnext(config) if kind == "ConvNext" else _geometry(config, defaults)
        scale = config.get("rescale_factor", 1.0 / 255.0) if config.get("do_rescale", True) else 1.0
        normalizes = config.get("do_normalize", True)
        return Preprocessing(
            **geometry,
            interpolation=INTERPOLATIONS[int(config.get("resample", defaults.resample))],
            scale=float(scale),
            mean=_triple(config["image_mean"]) if normalizes else (0.0, 0.0, 0.0),
            std=_triple(config["image_std"]) if normalizes else (1.0, 1.0, 1.0),
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{path} lacks or garbles a setting: {error!r}") from None


def _read(folder: Path) -> tuple[dict[str, Any], Path]:
    for name in ("preprocessor_config.json", "processor_config.json"):
        path = folder / name
        if not path.is_file():
            continue
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read as JSON: {error}") from None
        if isinstance(config, dict):
            config = config.get("image_processor", config)
        if isinstance(config, dict):
            return config, path
        raise DataError(f"{path} must hold one JSON object")
    raise DataError(f"{folder} has no preprocessor_config.json, which says how images are resized")


def _geometry(config: dict[str, Any], defaults: _Defaults) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if config.get("do_resize", True):
        size = config["size"]
        if isinstance(size, dict):
            if "longest_edge" in size or not size:
                raise ValueError(f"size {size} is not supported")
            found = {
                key: int(size[key]) for key in ("height", "width", "shortest_edge") if key in size
            }
        elif defaults.square:
            found = {"height": int(size), "width": int(size)}
        else:
            found = {"shortest_edge": int(size)}
    if config.get("do_center_crop", defaults.crop):
        crop = config["crop_size"]
        sides = (crop["height"], crop["width"]) if isinstance(crop, dict) else (crop, crop)
        found["crop"] = (int(sides[0]), int(sides[1]))
    return found


def _convnext(config: dict[str, Any]) -> dict[str, Any]:
    """ConvNext's own rule: enlarge by 1/crop_pct and keep the middle, or take the whole."""
    if not config.get("do_resize", True):
        return {}
    size = config["size"]
    edge = int(size["shortest_edge"] if isinstance(size, dict) else size)
    if edge >= _CONVNEXT_WHOLE:
        return {"height": edge, "width": edge}
    # transformers reads a missing or empty crop_pct as 224/256.
    larger = int(edge / float(config.get("crop_pct") or 224 / 256))
    return {"shortest_edge": larger, "crop": (edge, edge)}


def _triple(values: Any) -> tuple[float, float, float]:
    first, second, third = values
    return float(first), float(second), float(third)
