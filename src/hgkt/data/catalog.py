"""What is known of the benchmark's data sets, and getting one out of its archive, safely."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from hgkt._files import atomic_folder
from hgkt.exceptions import DownloadError, UnknownNameError

if TYPE_CHECKING:
    from hgkt.data.fetch import DownloadProgress

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
        keys = ("n_attributes", "n_seen_classes", "n_unseen_classes")
        return {
            key: getattr(self, key) for key in (*keys, "n_train", "n_test_seen", "n_test_unseen")
        }


_RESEARCH = "for research; the terms are on the data set's page"

_ALL = (
    Facts(
        "SUN", 102, 645, 72, 10320, 2580, 1440,
        "Patterson and Hays: SUN Attribute Database, CVPR 2012",
        _RESEARCH, "https://cs.brown.edu/~gmpatter/sunattributes.html",
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
    from hgkt.data.fetch import download

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
