"""From an RGB image to the numbers a network takes: resize, crop, scale, normalise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import import_extra
from hgkt.exceptions import DataError
from hgkt.vision.images import MAX_PIXELS

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Pillow's numbers, which are also those of a transformers `resample`.
INTERPOLATIONS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes a network's input; part of a backbone's record.

    Parameters
    ----------
    height, width : int, optional
        Resize the whole image to this size, whatever its proportions.
    shortest_edge : int, optional
        Instead: resize, keeping the proportions, until the shorter side has this length.
    crop : (int, int), optional
        Height and width of the middle part that is kept; a smaller image gets black borders.
    interpolation : str
        Pillow's filter.
    antialias : bool
        Whether the filter grows with the reduction; Pillow's filters (but "nearest") do.
    jpeg_draft : int
        A JPEG may be decoded smaller as long as its sides stay this many times the size to
        which it is resized; 0 means never.
    scale : float
        Factor of the 8-bit values.
    mean, std : (float, float, float)
        Subtracted and divided by, per channel, after scaling.

    Examples
    --------
    >>> from PIL import Image
    >>> from hgkt.vision import Preprocessing, preprocess
    >>> gray = Image.new("RGB", (40, 20), (51, 51, 51))
    >>> array = preprocess(gray, Preprocessing(shortest_edge=8, crop=(8, 8), mean=(0, 0, 0)))
    >>> array.shape, round(float(array[0, 0, 0] * 0.229), 3)
    ((3, 8, 8), 0.2)
    """

    height: int | None = None
    width: int | None = None
    shortest_edge: int | None = None
    crop: tuple[int, int] | None = None
    interpolation: str = "bilinear"
    antialias: bool = True
    jpeg_draft: int = 2
    scale: float = 1.0 / 255.0
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise DataError(
                f"interpolation {self.interpolation!r} is unknown; one of "
                f"{', '.join(INTERPOLATIONS)} is expected"
            )
        if self.crop is not None:
            object.__setattr__(self, "crop", tuple(self.crop))
        for name in ("mean", "std"):
            first, second, third = getattr(self, name)
            object.__setattr__(self, name, (float(first), float(second), float(third)))

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can say."""
        values = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Read what `to_dict` wrote."""
        try:
            return cls(**values)
        except (TypeError, ValueError) as error:
            raise DataError(f"the preprocessing of a backbone record is wrong: {error}") from None

    def resized(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after the resize of an image of this size."""
        if self.shortest_edge is not None:
            short, long = min(width, height), max(width, height)
            new = (self.shortest_edge, max(1, int(self.shortest_edge * long / short)))
            return new if width <= height else (new[1], new[0])
        return self.width or width, self.height or height

    def draft_size(self) -> tuple[int, int] | None:
        """Return the least width and height at which a JPEG may be decoded."""
        width = self.shortest_edge or self.width
        height = self.shortest_edge or self.height
        if not self.jpeg_draft or width is None or height is None:
            return None
        return width * self.jpeg_draft, height * self.jpeg_draft


def preprocess(image: Image, record: Preprocessing | Mapping[str, Any]) -> NDArray[np.float32]:
    """Turn an RGB image into a network's input.

    Parameters
    ----------
    image : PIL.Image.Image
        As `open_image` returns it.
    record : Preprocessing or mapping
        The preprocessing, or a backbone's record that has it.

    Returns
    -------
    ndarray of shape (3, height, width), float32
    """
    if not isinstance(record, Preprocessing):
        record = Preprocessing.from_dict(record.get("preprocessing", record))
    return normalize(to_pixels(image, record), record)


def to_pixels(image: Image, how: Preprocessing) -> NDArray[np.uint8]:
    """Resize and crop; return (height, width, 3) 8-bit values, a quarter of the final size."""
    pil = import_extra("PIL.Image", "vision")
    size = how.resized(*image.size)
    if math.prod(size) > MAX_PIXELS:
        raise DataError(
            f"the image is too long and narrow ({image.width}×{image.height}); resized it would "
            f"have {math.prod(size):,} pixels, and at most {MAX_PIXELS:,} are accepted"
        )
    if size != image.size:
        image = image.resize(size, pil.Resampling(INTERPOLATIONS.index(how.interpolation)))
    pixels = np.asarray(image, dtype=np.uint8)
    return pixels if how.crop is None else _center_crop(pixels, how.crop)


def normalize(pixels: NDArray[np.uint8], how: Preprocessing) -> NDArray[np.float32]:
    """Scale and normalise 8-bit values (…, height, width, 3) to float32 (…, 3, height, width)."""
    slope = np.float32(how.scale) / np.asarray(how.std, dtype=np.float32)
    shift = np.asarray(how.mean, dtype=np.float32) / np.asarray(how.std, dtype=np.float32)
    values = pixels * slope - shift
    return np.ascontiguousarray(np.moveaxis(values, -1, -3), dtype=np.float32)


def _center_crop(pixels: NDArray[np.uint8], crop: tuple[int, int]) -> NDArray[np.uint8]:
    height, width = crop
    missing = [max(0, wanted - has) for wanted, has in zip(crop, pixels.shape, strict=False)]
    if any(missing):
        # The larger half goes before the image, as transformers does it.
        borders = [(missed - missed // 2, missed // 2) for missed in missing]
        pixels = np.pad(pixels, [*borders, (0, 0)])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return np.ascontiguousarray(pixels[top : top + height, left : left + width])
