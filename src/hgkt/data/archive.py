"""Get one data set of the benchmark out of its archive, safely."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from hgkt.data.catalog import CATALOG, find_facts, mirrors_of
from hgkt.data.fetch import DownloadProgress, download
from hgkt.data.scratch import new_folder
from hgkt.exceptions import DownloadError, UnknownNameError


def download_dataset(
    name: str,
    root: str | Path,
    mirrors: Sequence[str] = (),
    sha256: str | None = None,
    progress: DownloadProgress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Fetch the benchmark's archive and unpack the folder of one data set.

    Parameters
    ----------
    name : str
        "SUN", "CUB", "AWA1", "AWA2", "APY" or "FLO", upper or lower case.
    root : path
        Folder that will hold the data set's folder; the archive is kept there too, so that
        another data set needs no second download.
    mirrors : sequence of str
        Addresses to try first; those in ``$HGKT_MIRRORS`` and the known ones follow.
    sha256 : str, optional
        Checksum of the archive.
    progress : callable, optional
        Called with the bytes so far and the bytes in all (None: unknown).
    timeout : float
        Seconds without an answer after which a mirror is given up.

    Returns
    -------
    Path
        The data set's folder; one that is there already is left as it is.
    """
    facts = find_facts(name)
    if facts is None:
        raise UnknownNameError(f"unknown data set {name!r}; choose from: {', '.join(CATALOG)}")
    folder = Path(root) / facts.name
    if (folder / "att_splits.mat").is_file():
        return folder
    urls = mirrors_of(facts, mirrors)
    archive_name = PurePosixPath(urls[0].split("?")[0]).name if urls else f"{facts.name}.zip"
    target = Path(root) / (archive_name or "archive.zip")
    archive = download(urls, target, sha256, progress, timeout, complaint=_not_a_zip)
    return extract_folder(archive, facts.name, folder)


def extract_folder(archive: Path, name: str, target: Path) -> Path:
    """Unpack the folder `name`, wherever it lies in the archive, as `target`.

    Parameters
    ----------
    archive : Path
        A zip file.
    name : str
        Name of the folder, upper or lower case.
    target : Path
        A folder that does not exist yet; nothing is written outside of it.

    Returns
    -------
    Path
        `target`.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            members = _members(file, name)
            if not members:
                there = ", ".join(sorted(_folders(file))[:12]) or "nothing"
                raise DownloadError(f"{archive} holds no folder {name}; it holds: {there}")
            with new_folder(target) as scratch:
                for info, inside in members:
                    destination = scratch.joinpath(*inside.parts)
                    destination.parent.mkdir(parents=True, exist_ok=True)
                    with file.open(info) as source, open(destination, "wb") as sink:
                        shutil.copyfileobj(source, sink)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise DownloadError(
            f"{archive} is not a usable zip archive ({error}); remove it"
        ) from error
    return target


def _not_a_zip(path: Path) -> str | None:
    return None if zipfile.is_zipfile(path) else "something that is not a zip archive"


def _members(file: zipfile.ZipFile, name: str) -> list[tuple[zipfile.ZipInfo, PurePosixPath]]:
    """Return the files under the folder `name` and their paths inside it."""
    found = []
    for info in file.infolist():
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if info.is_dir() or path.is_absolute() or ".." in path.parts or ":" in info.filename:
            continue
        lowered = [part.lower() for part in path.parts[:-1]]
        if name.lower() in lowered and "__macosx" not in lowered:
            start = lowered.index(name.lower()) + 1
            found.append((info, PurePosixPath(*path.parts[start:])))
    return found


def _folders(file: zipfile.ZipFile) -> set[str]:
    return {PurePosixPath(name).parent.name for name in file.namelist()} - {""}
