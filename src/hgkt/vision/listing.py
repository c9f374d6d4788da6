"""Which images there are and which class each has: class folders, or a manifest."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hgkt.exceptions import DataError
from hgkt.vision.images import IMAGE_SUFFIXES

_MANIFEST_SUFFIXES = (".csv", ".parquet")


@dataclass(frozen=True)
class ImageEntry:
    """One image to extract.

    Parameters
    ----------
    id : str
        How it is called in tables: its path inside the folder, or as the manifest has it.
    path : Path
        Where it is.
    label : str
        Its class; empty where none is known.
    split : str
        "train", "test_seen", "test_unseen", or empty.
    """

    id: str
    path: Path
    label: str = ""
    split: str = ""


def find_images(folder: Path) -> list[Path]:
    """Return all image files under a folder, sorted; hidden files and folders are passed over.

    Parameters
    ----------
    folder : Path
        The folder; links to folders are followed once.

    Returns
    -------
    list of Path
    """
    return sorted(path for path in _walk(folder) if path.suffix.lower() in IMAGE_SUFFIXES)


def passed_over(images: str | Path) -> dict[str, int]:
    """Count by suffix the files of a folder that are passed over; of a manifest, none.

    Parameters
    ----------
    images : path
        As `find_entries` takes it, or any folder of images.

    Returns
    -------
    dict of str to int
        The suffix in small letters, or the name of a file without one.
    """
    if not Path(images).is_dir():
        return {}
    others = (p for p in _walk(Path(images)) if p.suffix.lower() not in IMAGE_SUFFIXES)
    counts = Counter(path.suffix.lower() or path.name for path in others)
    return dict(sorted(counts.items()))


def passed_over_text(counts: Mapping[str, int]) -> str:
    """Say how many files were passed over, and why.

    Examples
    --------
    >>> passed_over_text({".mov": 2, ".txt": 1})
    '3 files were passed over, since their suffix is not that of an image: .mov (2), .txt (1)'
    """
    total = sum(counts.values())
    kinds = ", ".join(f"{suffix} ({count})" for suffix, count in counts.items())
    files, their = ("file was", "its") if total == 1 else ("files were", "their")
    return f"{total} {files} passed over, since {their} suffix is not that of an image: {kinds}"


def find_entries(images: str | Path, manifest: str | Path | None = None) -> list[ImageEntry]:
    """Return the images of a folder with one sub-folder per class, or of a manifest.

    Parameters
    ----------
    images : path
        The folder, or the manifest itself (.csv, .parquet).
    manifest : path, optional
        A manifest whose files are inside `images`.

    Returns
    -------
    list of ImageEntry
    """
    images = Path(images)
    if manifest is not None:
        if not images.is_dir():
            raise DataError(f"{images} is no folder; with --manifest the folder of its files is")
        return read_manifest(manifest, images)
    if images.suffix.lower() in _MANIFEST_SUFFIXES and images.is_file():
        return read_manifest(images)
    return list_images(images)


def class_folders(images: str | Path) -> list[str]:
    """Return the names of the class folders, those without images too; of a manifest, none.

    Parameters
    ----------
    images : path
        As `find_entries` takes it.

    Returns
    -------
    list of str
        Sorted.
    """
    return sorted(path.name for path in Path(images).glob("[!.]*/"))


def list_images(folder: str | Path) -> list[ImageEntry]:
    """Return the images of a folder that has one sub-folder per class.

    Parameters
    ----------
    folder : path
        The class of an image is the first folder on the way to it; it may lie deeper.

    Returns
    -------
    list of ImageEntry
        Sorted by path.
    """
    folder = Path(folder)
    if not folder.exists():
        raise DataError(f"{folder} does not exist; a folder of images or a manifest is expected")
    if not folder.is_dir():
        raise DataError(f"{folder} is neither a folder of images nor a manifest (.csv, .parquet)")
    entries = []
    for path in find_images(folder):
        inside = path.relative_to(folder)
        if len(inside.parts) == 1:
            raise DataError(
                f"{path} lies outside any class folder; one sub-folder per class is expected, or a "
                "manifest with columns file and class"
            )
        entries.append(ImageEntry(inside.as_posix(), path, inside.parts[0]))
    if not entries:
        others = passed_over(folder)
        raise DataError(
            f"{folder} has no images; one sub-folder per class with images is expected"
            + (f" ({passed_over_text(others)})" if others else "")
        )
    return entries


def read_manifest(path: str | Path, root: str | Path | None = None) -> list[ImageEntry]:
    """Read a table with columns ``file``, ``class`` and optionally ``split``.

    Parameters
    ----------
    path : path
        The table, .csv or .parquet.
    root : path, optional
        What files are relative to; by default the folder of the manifest.

    Returns
    -------
    list of ImageEntry
        In the order of the table.
    """
    from hgkt.data.dataset import SPLITS
    from hgkt.data.tables import check_column, read_frame

    path = Path(path)
    frame = read_frame(path)
    for column in ("file", "class"):
        check_column(frame, path, column, "file and class are expected")
    base = Path(root) if root is not None else path.parent
    splits = frame["split"].fillna("").astype(str) if "split" in frame else [""] * len(frame)
    entries: list[ImageEntry] = []
    files, labels = frame["file"].astype(str), frame["class"].astype(str)
    rows = zip(files, labels, splits, files.duplicated(), strict=True)
    for row, (file, label, split, is_repeated) in enumerate(rows):
        if not file or not label.strip():
            raise DataError(f"row {row} of {path} has no {'class' if file else 'file'}")
        if is_repeated:
            raise DataError(f"row {row} of {path} names the file {file!r} a second time")
        if split.strip() not in (*SPLITS, ""):
            raise DataError(
                f"row {row} of {path} has split {split!r}; expected is one of {', '.join(SPLITS)}"
            )
        entries.append(ImageEntry(file, base / file, label, split.strip()))
    if not entries:
        raise DataError(f"{path} has no rows; one row per image is expected")
    return entries


def _refuse(error: OSError) -> None:
    raise DataError(f"{error.filename} cannot be read: {error.strerror}")


def _walk(folder: Path) -> Iterator[Path]:
    met: set[str] = set()
    for parent, folders, files in os.walk(folder, followlinks=True, onerror=_refuse):
        place = os.path.realpath(parent)
        if place in met:  # a link that leads back
            folders.clear()
            continue
        met.add(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent) / name for name in files if not name.startswith("."))
