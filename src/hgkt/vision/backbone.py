"""A network that turns images into features, and the record that says exactly which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_finite
from hgkt.exceptions import DataError
from hgkt.vision.images import MAX_PIXELS, open_image
from hgkt.vision.preprocessing import Preprocessing, normalize, to_pixels

if TYPE_CHECKING:
    from PIL.Image import Image

_BATCH = 32


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
    classifier : callable, optional
        Takes features (n, n_features) and returns the scores of the classes that the network
        was trained on, where its weights have them.

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
    classifier: Callable[[Any], Any] | None = field(default=None, repr=False)

    @property
    def n_features(self) -> int:
        """Length of a feature vector."""
        return int(self.record["n_features"])

    def open(self, source: Any, max_pixels: int = MAX_PIXELS) -> Image:
        """Open an image as `open_image` does, a large JPEG only as large as it is needed."""
        return open_image(source, max_pixels, self.preprocessing.draft_size())

    def extract(self, images: Sequence[Image]) -> NDArray[np.float32]:
        """Return the features of RGB images.

        Parameters
        ----------
        images : sequence of PIL.Image.Image
            As `open_image` returns them.

        Returns
        -------
        ndarray of shape (len(images), n_features), float32
        """
        features = np.empty((len(images), self.n_features), dtype=np.float32)
        for start in range(0, len(images), _BATCH):
            part = [
                to_pixels(image, self.preprocessing) for image in images[start : start + _BATCH]
            ]
            features[start : start + len(part)] = self.extract_pixels(part)
        return features

    def extract_pixels(self, pixels: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return the features of images that are resized and cropped already, in one batch.

        Parameters
        ----------
        pixels : sequence of ndarray of shape (height, width, 3), uint8
            As `hgkt.vision.preprocessing.to_pixels` returns them.

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

        with torch.inference_mode():
            tensor = torch.from_numpy(inputs).to(self.device)
            if self.channels_last:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            output = self.forward(tensor).float().cpu().numpy()
        return np.asarray(output, dtype=np.float32)


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a record that decides about the features; versions and paths do not."""
    keys = ("family", "sha256", "n_features", "features", "preprocessing")
    return {key: record.get(key) for key in keys}


def check_same(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse weights that are not those of a record."""
    for key in ("family", "sha256", "n_features"):
        if expected.get(key) != found.get(key):
            what = {"sha256": "weights with the checksum"}.get(key, key)
            raise DataError(
                f"backbone {found['name']!r} has {what} {_short(found.get(key))}, but the record "
                f"was made with {_short(expected.get(key))}; features of the two do not mix"
            )


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) > 20 else text
