"""The benchmark's data sets: what is known of them, and fetching one from a mirror that has it."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from hgkt._files import atomic_folder, file_sha256, read_json
from hgkt.exceptions import DataError, DownloadError, UnknownNameError

_CHUNK_BYTES = 2**18
ARCHIVE_URL = "http://datasets.d2.mpi-inf.mpg.de/xian/xlsa17.zip"
ARCHIVE_CITATION = (
    "Xian, Lampert, Schiele, Akata: Zero-Shot Learning - A Comprehensive Evaluation of the Good, "
    "the Bad and the Ugly, TPAMI 41(9), 2019"
)


@dataclass(frozen=True)
class Facts:
    """One data set of the benchmark; counts as in the paper's table of data sets.

    Parameters
    ----------
    name : str
        Name of its folder.
    n_attributes, n_seen_classes, n_unseen_classes : int
        Widths and class counts.
    n_train, n_test_seen, n_test_unseen : int
        Image counts of the published split.
    citation : str
        Whom to cite.
    terms : str
        What is known of the licence.
    homepage : str
        Where images and terms are.
    mirrors : tuple of str
        Addresses of an archive that holds the folder; empty where none is known.
    split_fingerprints : tuple of str
        ``fingerprint()["split"]`` of files that hold the published split.
    """

    name: str
    n_attributes: int
    n_seen_classes: int
    n_unseen_classes: int
    n_train: int
    n_test_seen: int
    n_test_unseen: int
    citation: str
    terms: str
    homepage: str
    mirrors: tuple[str, ...] = (ARCHIVE_URL,)
    split_fingerprints: tuple[str, ...] = ()

    def counts(self) -> dict[str, int]:
        """Return the counts under the keys of ``GZSLDataset.summary``."""
        return {key: value for key, value in vars(self).items() if key.startswith("n_")}


_RESEARCH = "for research; the terms are on the data set's page"

_ALL = (
    Facts(
        "SUN", 102, 645, 72, 10320, 2580, 1440,
        "Patterson and Hays: SUN Attribute Database, CVPR 2012",
        _RESEARCH, "https://cs.brown.edu/~gmpatter/sunattributes.html",
        split_fingerprints=("f93fc5a30d4f3db43008ff0330125a330f486d7484fdc86b758363d62b4f48be",),
    ),
    Facts(
        "CUB", 312, 150, 50, 7057, 1764, 2967,
        "Wah, Branson, Welinder, Perona, Belongie: The Caltech-UCSD Birds-200-2011 Dataset, 2011",
        _RESEARCH, "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        split_fingerprints=("a25a6fafec36810334e82ed87037970c61eaffce845503f06119ad9892bce49d",),
    ),
    Facts(
        "AWA1", 85, 40, 10, 19832, 4958, 5685,
        "Lampert, Nickisch, Harmeling: Attribute-Based Classification for Zero-Shot Visual Object "
        "Categorization, TPAMI 36(3), 2014",
        _RESEARCH, "https://cvml.ista.ac.at/AwA/",
        split_fingerprints=("10ea49be870a0a8c8c98d94ffde224c031301a6b27cc985097759c52f9a0c92a",),
    ),
    Facts(
        "AWA2", 85, 40, 10, 23527, 5882, 7913,
        ARCHIVE_CITATION,
        _RESEARCH, "https://cvml.ista.ac.at/AwA2/",
        split_fingerprints=("4e26f4993ff324576e547c55f214d18de01bbd3ca78e7e47f173e7fa536a10ee",),
    ),
    Facts(
        "APY", 64, 20, 12, 5932, 1483, 7924,
        "Farhadi, Endres, Hoiem, Forsyth: Describing Objects by their Attributes, CVPR 2009",
        _RESEARCH, "https://vision.cs.uiuc.edu/attributes/",
    ),
    # Not in the paper and not in the benchmark's archive; counts of the split that circulates.
    Facts(
        "FLO", 1024, 82, 20, 5631, 1403, 1155,
        "Nilsback and Zisserman: Automated Flower Classification over a Large Number of Classes, "
        "ICVGIP 2008",
        _RESEARCH, "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        mirrors=(),
    ),
)  # fmt: skip

CATALOG: dict[str, Facts] = {facts.name: facts for facts in _ALL}


def find_facts(name: str) -> Facts | None:
    """Return what is known of a data set by that name, upper or lower case, or None.

    Examples
    --------
    >>> find_facts("AwA2").n_train
    23527
    """
    return CATALOG.get(name.upper())


def mirrors_of(facts: Facts, extra: Sequence[str] = ()) -> list[str]:
    """Return the addresses to try: `extra`, those in ``$HGKT_MIRRORS``, then the known ones."""
    from_environment = os.environ.get("HGKT_MIRRORS", "").replace(",", " ").split()
    return list(dict.fromkeys([*extra, *from_environment, *facts.mirrors]))


# ---------------------------------------------------------------------- the archive
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
                folders = ", ".join(sorted(_folders(file))[:12]) or "nothing"
                raise DownloadError(f"{archive} holds no folder {name}; it holds: {folders}")
            with atomic_folder(target) as scratch:
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


# ---------------------------------------------------------------------- downloads
DownloadProgress = Callable[[int, int | None], None]
"""Called as ``progress(bytes so far, bytes in all or None)``."""


def download(
    urls: str | Sequence[str],
    target: str | Path,
    sha256: str | None = None,
    progress: DownloadProgress | None = None,
    timeout: float = 30.0,
    complaint: Callable[[Path], str | None] | None = None,
) -> Path:
    """Fetch a file from the first mirror that has it.

    A transfer that breaks off leaves ``<target>.part`` and is taken up where it stopped, if the
    file of that mirror is unchanged. The file gets its name only when it is whole.

    Parameters
    ----------
    urls : str or sequence of str
        Addresses (http or https), tried in order.
    target : path
        Where the file goes. One that is there already, with the right checksum where one is
        given, is left as it is.
    sha256 : str, optional
        Checksum expected, in hexadecimal.
    progress : callable, optional
        Called with the bytes so far and the bytes in all (None: unknown).
    timeout : float
        Seconds without an answer after which a mirror is given up.
    complaint : callable, optional
        Looks at the finished file and says what is wrong with it, or returns None. Dead links
        often answer with a page instead of the file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    DownloadError
        When every mirror failed; it says how each did and where to put the file by hand.
    """
    target = Path(target)
    expected = sha256.lower() if sha256 else None
    if target.is_file() and expected in (None, file_sha256(target)):
        return target
    part, answers = target.with_name(f"{target.name}.part"), []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for url in [urls] if isinstance(urls, str) else urls:
            try:
                _fetch(url, part, progress, timeout)
                _check(part, expected, complaint)
                os.replace(part, target)
                return target
            except _MirrorError as error:
                answers.append(f"{url} said: {error}")
    except OSError as error:
        raise DownloadError(f"cannot write {target}: {error.strerror or error}") from error
    raise DownloadError(
        f"{target.name} could not be downloaded ({'; '.join(answers) or 'no mirror is known'}); "
        f"fetch it by other means and put it at {target}, or name another mirror"
    )


class _MirrorError(Exception):
    """What one mirror said."""


def _check(
    part: Path, expected: str | None, complaint: Callable[[Path], str | None] | None
) -> None:
    """Refuse and remove a file that is another one than expected."""
    wrong = complaint(part) if complaint is not None and expected is None else None
    if expected is not None and (found := file_sha256(part)) != expected:
        wrong = f"a file with checksum {found[:12]}…, expected {expected[:12]}…"
    if wrong:
        part.unlink()
        raise _MirrorError(wrong)


def _fetch(url: str, part: Path, progress: DownloadProgress | None, timeout: float) -> None:
    """Fetch what the .part lacks; a note beside it says where its beginning came from."""
    if not re.match(r"https?://", url):
        raise _MirrorError("not an http or https address")
    note = part.with_name(f"{part.name}.json")
    offset, headers = _resume_point(url, part, note)
    try:
        with urlopen(Request(url, headers=headers), timeout=timeout) as response:
            offset, total = _agreed_range(response, offset)
            note.write_text(json.dumps({"url": url, "validator": _validator(response)}))
            done = _append(response, part, offset, total, progress)
    except HTTPError as error:
        error.close()
        if error.code == 416 and offset:
            # Nothing is left to send, or the file there is shorter: the whole file settles it.
            part.unlink(missing_ok=True)
            return _fetch(url, part, progress, timeout)
        raise _MirrorError(f"{error.code} {error.reason}") from error
    except (URLError, HTTPException, TimeoutError, ConnectionError, ValueError) as error:
        reason = getattr(error, "reason", None) or error or type(error).__name__
        raise _MirrorError(str(reason)) from error
    if total is not None and done != total:
        raise _MirrorError(f"the transfer broke off after {done} of {total} bytes")
    note.unlink(missing_ok=True)


def _resume_point(url: str, part: Path, note: Path) -> tuple[int, dict[str, str]]:
    """Return how much of the .part may stay and the headers that ask for the rest."""
    headers = {"User-Agent": "hgkt", "Accept-Encoding": "identity"}
    try:
        offset, known = part.stat().st_size, read_json(note)
    except (OSError, DataError):
        return 0, headers
    if not offset or known.get("url") != url or not known.get("validator"):
        return 0, headers
    return offset, {**headers, "Range": f"bytes={offset}-", "If-Range": str(known["validator"])}


def _append(
    response: Any,
    part: Path,
    offset: int,
    total: int | None,
    progress: DownloadProgress | None,
) -> int:
    """Write what comes to the .part; return how much there is then."""
    done = offset
    with open(part, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.truncate()
        while chunk := _read(response):
            file.write(chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
        file.flush()
        os.fsync(file.fileno())
    return done


def _agreed_range(response: Any, offset: int) -> tuple[int, int | None]:
    """Return where the answer starts and the size of the whole file."""
    if response.status == 206:
        match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != offset:
            raise _MirrorError("a piece that was not asked for")
        return offset, None if match[2] == "*" else int(match[2])
    length = response.headers.get("Content-Length")
    return 0, int(length) if length is not None else None


def _read(response: Any) -> bytes:
    """Read on; an error of the network must not pass for one of the disk."""
    try:
        return bytes(response.read(_CHUNK_BYTES))
    except OSError as error:
        raise _MirrorError(f"the transfer broke off ({error.strerror or error})") from error


def _validator(response: Any) -> str | None:
    """Return what tells whether the file of a mirror has changed; a weak ETag does not."""
    etag: str | None = response.headers.get("ETag")
    modified: str | None = response.headers.get("Last-Modified")
    return etag if etag and not etag.startswith("W/") else modified
