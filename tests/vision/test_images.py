"""`open_image`: every mode to upright RGB, every bad file to one sentence."""

from __future__ import annotations

import io
import resource
import sys
from contextlib import suppress
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image, ImageFile

from hgkt.exceptions import DataError
from hgkt.vision import open_image
from hgkt.vision.images import measure_image

RNG = np.random.default_rng(0)


def saved(image, format, **options):
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


@pytest.fixture
def rgb():
    return Image.fromarray(RNG.integers(0, 256, (24, 36, 3), dtype=np.uint8))


def test_open_image_reads_path_bytes_and_file_alike(tmp_path, rgb):
    path = tmp_path / "a.png"
    rgb.save(path)
    expected = np.asarray(rgb)
    with path.open("rb") as file:
        for source in (path, str(path), path.read_bytes(), file):
            image = open_image(source)
            assert image.mode == "RGB"
            np.testing.assert_array_equal(np.asarray(image), expected)


def test_open_image_takes_what_is_open_already_and_pixels(rgb):
    pixels = np.asarray(rgb)
    for source in (rgb, pixels, np.dstack([pixels, np.full((24, 36), 255, np.uint8)])):
        np.testing.assert_array_equal(np.asarray(open_image(source)), pixels)
    gray = pixels[:, :, 0]
    for source in (gray, gray[:, :, None]):
        np.testing.assert_array_equal(np.asarray(open_image(source))[:, :, 1], gray)
    with pytest.raises(DataError, match=r"shape \(3, 24\) and type float32; \(height, width, 3\)"):
        open_image(np.ones((3, 24), np.float32))
    with pytest.raises(DataError, match=r"shape \(2, 24, 36, 3\)"):
        open_image(np.stack([pixels, pixels]))
    with pytest.raises(DataError, match="has no pixels"):
        open_image(np.zeros((0, 4, 3), np.uint8))
    with pytest.raises(DataError, match="too many pixels"):
        open_image(rgb, max_pixels=100)
    damaged = Image.open(io.BytesIO(saved(rgb, "PNG")[:200]))
    with pytest.raises(DataError, match="the image is damaged"):
        open_image(damaged)


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "LAB"])
def test_open_image_converts_other_modes_as_pillow_does(rgb, mode):
    image = rgb.convert("RGB").convert(mode) if mode != "LAB" else Image.new("LAB", (6, 4), 90)
    data = saved(image, "TIFF")
    expected = Image.open(io.BytesIO(data)).convert("RGB")
    np.testing.assert_array_equal(np.asarray(open_image(data)), np.asarray(expected))


def test_open_image_cmyk_jpeg_keeps_its_colors():
    red = Image.new("RGB", (32, 32), (220, 30, 40)).convert("CMYK")
    pixel = np.asarray(open_image(saved(red, "JPEG", quality=95)))[16, 16].astype(int)
    assert np.abs(pixel - (220, 30, 40)).max() <= 6


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_open_image_composites_transparency_on_white(mode):
    if mode == "P":
        image = Image.new("P", (4, 4), 0)
        image.putpalette([0, 0, 0, 255, 0, 0])
        data = saved(image, "PNG", transparency=0)
        expected = (255, 255, 255)
    elif mode == "LA":
        data, expected = saved(Image.new("LA", (4, 4), (0, 51)), "PNG"), (204, 204, 204)
    else:
        data = saved(Image.new("RGBA", (4, 4), (255, 0, 0, 51)), "PNG")
        expected = (255, 204, 204)
    assert open_image(data).getpixel((0, 0)) == expected


def test_open_image_scales_16_bit_gray_to_8_bit():
    values = np.array([[0, 257, 32896, 65535]], dtype=np.uint16)
    for format in ("PNG", "TIFF"):
        got = np.asarray(open_image(saved(Image.fromarray(values), format)))
        np.testing.assert_array_equal(got[0, :, 0], [0, 1, 128, 255])


def test_open_image_scales_a_16_bit_pgm_and_refuses_what_is_wider():
    pgm = b"P5 2 1 65535 " + np.array([257, 32896], ">u2").tobytes()
    np.testing.assert_array_equal(np.asarray(open_image(pgm))[0, :, 0], [1, 128])
    for kind in (np.float32, np.int32):
        wide = Image.fromarray(np.array([[0, 1]], dtype=kind))
        for source in (wide, saved(wide, "TIFF")):
            with pytest.raises(DataError, match="pixels of 32 bits; 8 or 16 bits are expected"):
                open_image(source)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_open_image_applies_the_rotation_of_the_camera(orientation):
    upright = np.zeros((6, 10, 3), dtype=np.uint8)
    upright[0, :, 0], upright[:, 0, 1] = 255, 255
    undo = {
        1: lambda a: a,
        2: np.fliplr,
        3: lambda a: np.rot90(a, 2),
        4: np.flipud,
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, 3),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(undo[orientation](upright)))
    got = open_image(saved(stored, "PNG", exif=exif))
    np.testing.assert_array_equal(np.asarray(got), upright)


def test_open_image_takes_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (5, 5), color) for color in ("red", "blue")]
    data = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert open_image(data).getpixel((2, 2)) == (255, 0, 0)


def test_open_image_drafts_a_jpeg_but_never_below_what_is_wanted(photo):
    path = photo("china.jpg")  # 640×427
    assert open_image(path, at_least=(300, 200)).size == (320, 214)
    assert open_image(path, at_least=(321, 200)).size == (640, 427)
    assert open_image(path, at_least=(80, 50)).size == (80, 54)
    assert open_image(path, at_least=(5000, 5000)).size == (640, 427)
    # Lying on its side: the wanted size is that of the upright image.
    exif = Image.Exif()
    exif[0x0112] = 6
    data = saved(Image.open(path), "JPEG", exif=exif)
    assert open_image(data, at_least=(200, 300)).size == (214, 320)


def test_open_image_meets_every_bad_file_with_one_sentence(tmp_path, rgb):
    noise = Image.fromarray(RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8))
    jpeg, png = saved(noise, "JPEG"), saved(noise, "PNG")
    folder = tmp_path / "folder.jpg"
    folder.mkdir()
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n"
    wrong_sum = bytearray(png)
    wrong_sum[20] ^= 0xFF
    files = {
        "empty.jpg": (b"", "is empty"),
        "text.jpg": (b"not an image at all", "is not an image"),
        "short.jpg": (jpeg[: len(jpeg) // 2], "is truncated"),
        "short.png": (png[: len(png) // 2], "is truncated|is damaged"),
        "header.jpg": (jpeg[:12], "is not an image|is truncated|is damaged"),
        "sum.png": (bytes(wrong_sum), "is damaged|is not an image"),
        "script.jpg": (script, "is not an image"),
    }
    for name, (data, sentence) in files.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=sentence) as error:
            open_image(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)
        if data:
            with pytest.raises(DataError, match="the content "):
                open_image(data)
    with pytest.raises(DataError, match=r"folder\.jpg is a folder"):
        open_image(folder)
    with pytest.raises(DataError, match="does not exist"):
        open_image(tmp_path / "none.jpg")
    with pytest.raises(DataError, match="is empty"):
        open_image(b"")


def test_open_image_refuses_a_bomb_before_decoding():
    header = b"P5 30000 30000 255\n"  # 900 million pixels in 19 bytes
    with pytest.raises(DataError, match="too many pixels"):
        open_image(header)
    small = saved(Image.new("L", (100, 50)), "PNG")
    assert open_image(small, max_pixels=5000).size == (100, 50)
    with pytest.raises(DataError, match=r"too many pixels \(100×50\); at most 4,999"):
        open_image(small, max_pixels=4999)


def test_open_image_survives_damaged_bytes(rgb):
    """Damage a byte at a time: a picture or one sentence, and never another error."""
    for format in ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP"):
        data = saved(rgb, format)
        for position in RNG.integers(0, len(data), 60):
            damaged = bytearray(data)
            damaged[position] ^= int(RNG.integers(1, 256))
            with suppress(DataError):
                assert open_image(bytes(damaged), max_pixels=10**6).mode == "RGB"


def test_open_image_needs_little_more_memory_than_two_pictures():
    image = saved(Image.new("RGBA", (2000, 2000), (9, 9, 9, 9)), "PNG")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    open_image(image)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 3.5 * 4 * 2000 * 2000


def test_measure_image_reads_the_head_alone(photo):
    whole, decoded = measure_image(photo("coffee.png"), at_least=(10, 10))
    assert whole == decoded == Image.open(photo("coffee.png")).size
    large = saved(Image.new("RGB", (800, 1600)), "JPEG")
    assert measure_image(large, at_least=(90, 90)) == ((800, 1600), (100, 200))
    assert open_image(large, at_least=(90, 90)).size == (100, 200)
    # Pixels are missing, and are not looked at.
    assert measure_image(large[:800]) == ((800, 1600), (800, 1600))
    with pytest.raises(DataError, match="too many pixels"):
        measure_image(large, max_pixels=1000)
    with pytest.raises(DataError, match="not an image"):
        measure_image(b"nonsense")


def test_open_image_refuses_a_line():
    line = saved(Image.new("L", (100_001, 1)), "PNG")
    for read in (open_image, measure_image):
        with pytest.raises(DataError, match="too long and narrow"):
            read(line)


def test_avif_is_read_and_heic_says_what_reads_it(photo, tmp_path, monkeypatch):
    image = Image.open(photo("coffee.png")).convert("RGB")
    features = pytest.importorskip("PIL.features")
    if features.check("avif"):
        image.save(tmp_path / "a.avif")
        assert open_image(tmp_path / "a.avif").size == image.size
    heic = tmp_path / "a.HEIC"
    heic.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(DataError, match=r"a\.HEIC is a HEIC image; reading it needs pip install"):
        open_image(heic)


def test_heic_is_read_where_its_package_is_installed(tmp_path, monkeypatch):
    """A stand-in for pillow-heif, which registers a reader under its name."""

    class HeifFile(ImageFile.ImageFile):
        format = "HEIF"

        def _open(self):
            self._size, self._mode = (2, 1), "RGB"
            self.tile = []

        def load(self):
            self.im = Image.new("RGB", (2, 1), "red").im
            return super().load()

    def register_heif_opener():
        Image.register_open("HEIF", HeifFile, lambda head: head[4:12] == b"ftypheic")

    opener = SimpleNamespace(register_heif_opener=register_heif_opener)
    monkeypatch.setitem(sys.modules, "pillow_heif", opener)
    monkeypatch.setattr(Image, "OPEN", dict(Image.OPEN))
    monkeypatch.setattr(Image, "ID", list(Image.ID))
    heic = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64)
    assert open_image(heic).getpixel((0, 0)) == (255, 0, 0)
