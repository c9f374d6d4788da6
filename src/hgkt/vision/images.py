"""An image, whatever it is, as upright 8-bit RGB, and as the numbers that a network takes."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from hgkt._files import reading
from hgkt._plain import plain
from hgkt._validation import check_choice, import_extra
from hgkt.exceptions import DataError, first_line

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_SUFFIXES = frozenset(
    (
        *(".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".webp", ".gif", ".bmp", ".avif"),
        *(".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".heic", ".heif"),
    )
)
MAX_PIXELS = 89_478_485  # Pillow's own limit: 256 MB of RGB
MAX_SIDE = 100_000  # JPEG and WebP end earlier; resizing a line takes memory by its length

# Pillow knows more formats; some of them start other programs (PostScript) or are rarely tested.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "MPO", "HEIF")
# The brands by which a file says, in bytes 4 to 12, that it is a HEIC image.
_HEIF_BRANDS = (b"ftypheic", b"ftypheix", b"ftyphevc", b"ftyphevx", b"ftypmif1", b"ftypmsf1")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Pillow's numbers, which are also those of a transformers `resample`.
INTERPOLATIONS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


def open_image(
    source: str | os.PathLike[str] | bytes | BinaryIO | Image | NDArray[Any],
    max_pixels: int = MAX_PIXELS,
    at_least: tuple[int, int] | None = None,
) -> Image:
    """Decode an image to upright 8-bit RGB.

    The rotation that a camera noted (EXIF) is applied; transparent parts become white; of an
    animation the first frame is taken; 16-bit gray values are divided by 257.

    Parameters
    ----------
    source : path, bytes, binary file, PIL image or ndarray
        The image: JPEG, PNG, WebP, GIF, BMP, TIFF, PPM, JPEG 2000, AVIF or, with
        ``hgkt[heif]``, HEIC; or one that is open already; or its pixels, uint8, (height, width)
        or (height, width, 3 or 4).
    max_pixels : int
        Refuse an image with more pixels, before it is decoded.
    at_least : (width, height), optional
        A JPEG may be decoded at 1/2, 1/4 or 1/8 of its size as long as it stays at least so
        large, which is much faster where the image is made small anyway.

    Returns
    -------
    PIL.Image.Image
        Mode "RGB".

    Raises
    ------
    DataError
        One sentence: missing, empty, not an image, truncated, damaged or too large.

    Examples
    --------
    >>> from hgkt.vision import open_image
    >>> open_image(b"P6 2 1 255 " + bytes([255, 0, 0, 0, 0, 255])).getpixel((0, 0))
    (255, 0, 0)
    >>> open_image(b"hello")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: the content is not an image in a format that is read
    """
    pil = import_extra("PIL.Image", "vision")
    if isinstance(source, np.ndarray):
        source = _from_pixels(source)
    if isinstance(source, pil.Image):
        return _from_open(source, max_pixels)
    with _opened(source, max_pixels) as image:
        _draft(image, at_least)
        image.load()
        image = _upright(image)
        return image if image.mode == "RGB" and not image.has_transparency_data else _to_rgb(image)


def measure_image(
    source: str | os.PathLike[str] | bytes | BinaryIO,
    max_pixels: int = MAX_PIXELS,
    at_least: tuple[int, int] | None = None,
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return width and height of an image, and those at which `open_image` would decode it.

    The head of the file is read and no more. Parameters and errors are those of `open_image`.

    Examples
    --------
    >>> measure_image(b"P6 2 1 255 " + bytes(6))
    ((2, 1), (2, 1))
    """
    with _opened(source, max_pixels) as image:
        whole = image.size
        _draft(image, at_least)
        return whole, image.size


@contextmanager
def _opened(source: Any, max_pixels: int) -> Iterator[Any]:
    """Open a file that is not too large; say in one sentence what goes wrong meanwhile."""
    pil = import_extra("PIL.Image", "vision")
    name, stream = _stream(source)
    try:
        with pil.open(stream, formats=_formats(pil)) as image:
            _check_head(image, name, max_pixels)
            yield image
    except DataError:
        raise
    except pil.UnidentifiedImageError:
        raise DataError(f"{name} {_unread_format(stream)}") from None
    except pil.DecompressionBombError:
        raise _too_large(name, "", min(max_pixels, MAX_PIXELS)) from None
    except Exception as error:  # decoders meet damaged bytes with errors of every kind
        raise DataError(f"{name} is damaged: {first_line(error)}") from None
    finally:
        if isinstance(source, str | os.PathLike):
            stream.close()


def _check_head(image: Any, name: str, max_pixels: int) -> None:
    """Refuse an image by what its head says."""
    size = f"{image.width}×{image.height}"
    if image.width * image.height > max_pixels:
        raise _too_large(name, f" ({size})", max_pixels)
    if max(image.size) > MAX_SIDE:
        raise DataError(
            f"{name} is too long and narrow ({size}); sides of at most {MAX_SIDE:,} pixels are "
            "accepted"
        )
    # PPM and PNG files of 16 bits are opened as if they had 32.
    if image.mode == "F" or (image.mode == "I" and image.format not in ("PPM", "PNG")):
        raise DataError(f"{name} has pixels of 32 bits; 8 or 16 bits are expected")


def _from_open(image: Any, max_pixels: int) -> Any:
    _check_head(image, "the image", max_pixels)
    try:
        return _to_rgb(_upright(image))
    except Exception as error:  # it is read from its file only now
        raise DataError(f"the image is damaged: {first_line(error)}") from None


def _from_pixels(pixels: NDArray[Any]) -> Any:
    pil = import_extra("PIL.Image", "vision")
    channels = pixels.shape[2:] or (1,)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or channels[0] not in (1, 3, 4):
        raise DataError(
            f"an image given as an array has shape {pixels.shape} and type {pixels.dtype}; "
            "(height, width, 3) and uint8 are expected"
        )
    if not pixels.size:
        raise DataError("an image given as an array is empty; it has no pixels")
    return pil.fromarray(pixels[:, :, 0] if channels == (1,) and pixels.ndim == 3 else pixels)


def _stream(source: Any) -> tuple[str, Any]:
    """Return how to call the source in a sentence, and a binary file."""
    if isinstance(source, bytes | bytearray | memoryview):
        if not len(source):
            raise DataError("the content is empty; it has no bytes")
        return "the content", io.BytesIO(source)
    if hasattr(source, "read"):
        return str(getattr(source, "name", None) or "the image given as a file"), source
    path = Path(source)
    with reading(path, "an image"):
        if path.is_dir():
            raise DataError(f"{path} is a folder; an image file is expected")
        if path.stat().st_size == 0:
            raise DataError(f"{path} is empty; it has no bytes")
        return str(path), path.open("rb")


def _formats(pil: Any) -> list[str]:
    pil.init()
    if "HEIF" not in pil.OPEN:
        with suppress(ImportError):  # photos of telephones, where pillow-heif is installed
            import_module("pillow_heif").register_heif_opener()
    return [name for name in _FORMATS if name in pil.OPEN]


def _unread_format(stream: Any) -> str:
    """Say in a clause what a file is that no reader takes, and what would read it."""
    stream.seek(4)
    if stream.read(8) in _HEIF_BRANDS:
        return "is a HEIC image; reading it needs pip install 'hgkt[heif]'"
    return "is not an image in a format that is read"


def _too_large(name: str, size: str, max_pixels: int) -> DataError:
    return DataError(f"{name} has too many pixels{size}; at most {max_pixels:,} are accepted")


def _draft(image: Any, at_least: tuple[int, int] | None) -> None:
    """Let the JPEG decoder shrink; wanted sizes are those of the upright image."""
    if at_least is None or image.format not in ("JPEG", "MPO"):
        return
    # Pillow takes the smaller of the two ratios, so neither side falls below what is wanted.
    lies_on_its_side = _orientation(image) >= 5
    image.draft(None, at_least[::-1] if lies_on_its_side else at_least)


def _orientation(image: Any) -> int:
    with suppress(Exception):  # damaged notes of a camera do not make the picture unreadable
        return int(image.getexif().get(0x0112, 1))
    return 1


def _upright(image: Any) -> Any:
    if _orientation(image) != 1:
        with suppress(Exception):
            return import_extra("PIL.ImageOps", "vision").exif_transpose(image)
    return image


def _to_rgb(image: Any) -> Any:
    """Convert to RGB; what is transparent becomes white."""
    pil = import_extra("PIL.Image", "vision")
    if image.mode.startswith("I"):
        values = np.array(image, dtype=np.float32)
        values /= 257.0  # in place, since such an image may be large
        np.rint(values, out=values)
        return pil.fromarray(values.astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    top = image if image.mode == "RGBA" else image.convert("RGBA")
    canvas = pil.new("RGB", top.size, "white")
    canvas.paste(top, mask=top)
    return canvas


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
    >>> from hgkt.vision import Preprocessing
    >>> how = Preprocessing(shortest_edge=8, crop=(8, 8), mean=(0, 0, 0))
    >>> array = normalize(to_pixels(Image.new("RGB", (40, 20), (51, 51, 51)), how), how)
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
        check_choice("interpolation", self.interpolation, INTERPOLATIONS)
        if self.crop is not None:
            object.__setattr__(self, "crop", tuple(self.crop))
        for name in ("mean", "std"):
            first, second, third = getattr(self, name)
            object.__setattr__(self, name, (float(first), float(second), float(third)))

    def to_dict(self) -> dict[str, Any]:
        """Return what JSON can say."""
        values: dict[str, Any] = plain(self)
        return values

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
        width, height = self.shortest_edge or self.width, self.shortest_edge or self.height
        if not (self.jpeg_draft and width and height):
            return None
        return width * self.jpeg_draft, height * self.jpeg_draft


def decode_image(
    source: Any, how: Preprocessing, max_pixels: int = MAX_PIXELS
) -> NDArray[np.uint8]:
    """Open an image, a large JPEG only as large as it is needed, and return `to_pixels` of it."""
    return to_pixels(open_image(source, max_pixels, how.draft_size()), how)


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
    if how.crop is not None:
        height, width = how.crop
        # Of a smaller image this is negative, and Pillow adds black borders.
        left, top = (image.width - width) // 2, (image.height - height) // 2
        image = image.crop((left, top, left + width, top + height))
    return np.asarray(image, dtype=np.uint8)


def normalize(pixels: NDArray[np.uint8], how: Preprocessing) -> NDArray[np.float32]:
    """Scale and normalise 8-bit values (…, height, width, 3) to float32 (…, 3, height, width)."""
    slope = np.float32(how.scale) / np.asarray(how.std, dtype=np.float32)
    shift = np.asarray(how.mean, dtype=np.float32) / np.asarray(how.std, dtype=np.float32)
    values = pixels * slope - shift
    return np.ascontiguousarray(np.moveaxis(values, -1, -3), dtype=np.float32)
