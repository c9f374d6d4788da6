"""Networks that turn images into features: by name, and by the record that says exactly which."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._registry import Entry, Registry
from hgkt._validation import check_finite
from hgkt.exceptions import DataError
from hgkt.vision.images import MAX_PIXELS, Preprocessing, decode_image, measure_image, normalize

_BATCH = 32
_LITE_SIZES = (224, 240, 260, 280, 300)

BACKBONES = Registry(
    "backbone",
    {
        f"efficientnet-lite{number}": Entry(
            "hgkt.vision.efficientnet_lite:open_efficientnet_lite",
            f"1280 features of the whole image at {size}×{size}; weights come with pip, offline",
        )
        for number, size in enumerate(_LITE_SIZES)
    }
    | {
        "transformers": Entry(
            "hgkt.vision.huggingface:open_transformers",
            "a vision model of transformers: its hub name (owner/model) or a folder",
        )
    },
)
"""What opens a backbone: it takes what is known of its record, and where to compute."""


@dataclass
class Backbone:
    """An image network without its classifier.

    Made by `load_backbone`.

    Parameters
    ----------
    record : dict
        What JSON can say about it: ``name``, ``family``, ``source``, ``sha256`` of the weights,
        ``n_features``, ``features`` (which layer), ``preprocessing``, ``versions``.
    preprocessing : Preprocessing
        How images become inputs.
    forward : callable
        Takes a torch tensor (n, 3, height, width) and returns one (n, n_features).
    device : str
        Where it computes: "cpu" or "cuda".
    channels_last : bool
        Whether inputs are laid out with channels last, which convolutions on a CPU prefer.

    Examples
    --------
    >>> from PIL import Image
    >>> from hgkt.vision import load_backbone
    >>> backbone = load_backbone("efficientnet-lite0")
    >>> backbone.extract([Image.new("RGB", (300, 200), "red")]).shape
    (1, 1280)
    """

    record: dict[str, Any]
    preprocessing: Preprocessing
    forward: Callable[[Any], Any] = field(repr=False)
    device: str = "cpu"
    channels_last: bool = False

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return int(self.record["n_features"])

    def count_pixels(self, source: Any, max_pixels: int = MAX_PIXELS) -> int:
        """Return how many pixels an image costs to decode and resize; reads its head alone.

        A large JPEG is decoded at a fraction of its size. It counts at that size, and at least a
        quarter of its own, since all of it is read.
        """
        whole, decoded = measure_image(source, max_pixels, self.preprocessing.draft_size())
        resized = self.preprocessing.resized(*decoded)
        return max(math.prod(decoded), math.prod(whole) // 4, math.prod(resized))

    def extract(
        self,
        images: Iterable[Any],
        max_pixels: int = MAX_PIXELS,
        names: Sequence[str] | None = None,
    ) -> NDArray[np.float32]:
        """Return the features of images; each is decoded, made small, and forgotten.

        Parameters
        ----------
        images : iterable
            Whatever `open_image` takes: paths, bytes, files, PIL images, arrays.
        max_pixels : int
            A larger image is refused before it is decoded.
        names : sequence of str, optional
            How to call each image in front of the sentence that refuses it.

        Returns
        -------
        ndarray of shape (n_images, n_features), float32
        """
        parts, batch = [np.empty((0, self.n_features), dtype=np.float32)], []
        for number, image in enumerate(images):
            try:
                batch.append(decode_image(image, self.preprocessing, max_pixels))
            except DataError as error:
                if names is None:
                    raise
                raise DataError(f"{names[number]}: {error}") from None
            if len(batch) == _BATCH:
                parts.append(self.extract_pixels(batch))
                batch = []
        return np.concatenate([*parts, self.extract_pixels(batch)])

    def extract_pixels(self, pixels: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the features of images that are resized and cropped already, in one batch.

        Parameters
        ----------
        pixels : sequence of ndarray of shape (height, width, 3), uint8
            As `hgkt.vision.images.decode_image` returns them.

        Returns
        -------
        ndarray of shape (len(pixels), n_features), float32
        """
        features = np.empty((len(pixels), self.n_features), dtype=np.float32)
        shapes: dict[tuple[int, ...], list[int]] = {}
        for row, array in enumerate(pixels):
            shapes.setdefault(array.shape, []).append(row)
        for rows in shapes.values():
            inputs = normalize(np.stack([pixels[row] for row in rows]), self.preprocessing)
            features[rows] = self._run(inputs)
        check_finite(features, f"features of backbone {self.record['name']!r}")
        return features

    def _run(self, inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        import torch

        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        with torch.inference_mode():
            tensor = torch.from_numpy(inputs).to(self.device).contiguous(memory_format=layout)
            return np.asarray(self.forward(tensor).float().cpu())


def load_backbone(
    name_or_record: str | Mapping[str, Any], device: str = "cpu", source: str | None = None
) -> Backbone:
    """Open a backbone by name, or the very one of a record.

    Parameters
    ----------
    name_or_record : str or mapping
        ``"efficientnet-lite0"``; ``"microsoft/resnet-101"`` or a folder that transformers wrote;
        or the record of a backbone. With a record the weights must have the record's checksum,
        and the record's preprocessing is used.
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
    from hgkt._arrays import torch_device

    record = {} if isinstance(name_or_record, str) else _checked_record(name_or_record)
    request = _parse(name_or_record) if isinstance(name_or_record, str) else dict(record)
    if source:
        request["source"] = source
    backbone: Backbone = BACKBONES.load(request["name"])(request, torch_device(device))
    if record:
        _check_same(backbone.record, record)
    if record.get("preprocessing"):
        backbone.preprocessing = Preprocessing.from_dict(record["preprocessing"])
        backbone.record["preprocessing"] = backbone.preprocessing.to_dict()
    return backbone


def _checked_record(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the record of a backbone, or refuse one that does not say which it is."""
    if not isinstance(record.get("name"), str) or not isinstance(record.get("sha256"), str):
        raise DataError("a backbone record must have a name and the sha256 of the weights")
    return record


def _parse(text: str) -> dict[str, Any]:
    """Return what is known of a record; a folder or ``owner/model`` is a model of transformers."""
    if text not in BACKBONES and ("/" in text or Path(text).is_dir()):
        return {"name": "transformers", "source": text}
    return {"name": text.lower()}


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def feature_stem(record: Mapping[str, Any]) -> str:
    """Return how the features of a backbone are called: its name, fit for a file name."""
    source = str(record.get("source") or "")
    name = source if record["name"] == "transformers" else str(record["name"])
    return re.sub(r"[^\w.-]+", "-", Path(name).name).strip("-") or "features"


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a record that decides about the features; versions and paths do not."""
    keys = ("family", "sha256", "n_features", "features", "preprocessing")
    return {key: record.get(key) for key in keys}


def _check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse weights that are not those of a record."""
    for key in ("family", "sha256", "n_features"):
        if expected.get(key) != found.get(key):
            what = {"sha256": "weights with the checksum"}.get(key, key)
            raise DataError(
                f"backbone {found['name']!r} has {what} {found.get(key)!s:.20}, but the record was "
                f"made with {expected.get(key)!s:.20}; features of the two do not mix"
            )
