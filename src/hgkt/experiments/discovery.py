"""Which data sets are there: folders under a root, or those the user names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from hgkt._files import sha256
from hgkt.data import DATASETS, data_root, find_folder
from hgkt.data.catalog import find_facts
from hgkt.data.xlsa17 import feature_files
from hgkt.exceptions import DataError, HGKTError
from hgkt.experiments.plan import DataSpec

if TYPE_CHECKING:
    from hgkt.data import GZSLDataset

PAPER_SETS = ("SUN", "CUB", "AWA1", "AWA2", "APY")
"""The data sets of the paper, in the order of its tables."""

_USUAL = "res101"
_KEPT = 4  # data sets of the paper take up to 0.6 GB each


@dataclass(frozen=True)
class Found:
    """What discovery gave.

    Parameters
    ----------
    data : tuple of DataSpec
        Data sets that can be loaded, with their fingerprints.
    missing : tuple of str
        Data sets of the paper that are not there.
    """

    data: tuple[DataSpec, ...]
    missing: tuple[str, ...]


def discover(
    root: str | Path | None = None,
    names: Sequence[str] = (),
    features: str = "",
    attributes: str = "att",
    note: Callable[[str], None] | None = None,
) -> Found:
    """Find, load and fingerprint the data sets of a run.

    Parameters
    ----------
    root : path, optional
        Folder that holds data-set folders; by default ``$HGKT_DATA``.
    names : sequence of str
        Names or paths of those wanted; by default every folder of the benchmark's layout under
        `root`, or the embedded digits where there is none.
    features : str
        Feature file of these folders, without suffix; by default res101 where it is there, else
        the first.
    attributes : str
        Their attributes: "att", "original_att", "sent", or kinds joined by "+".
    note : callable, optional
        Called with one line for every folder under `root` that cannot be used. A data set that
        was asked for by name raises instead.

    Returns
    -------
    Found

    Examples
    --------
    >>> found = discover(names=["digits"])
    >>> [data.name for data in found.data], len(found.data[0].fingerprint)
    (['digits'], 64)
    """
    forget_loaded()  # a run reads what is there now, once
    folders = _folders(data_root(root))
    if names:
        specs = [_locate(name, root, features, attributes) for name in names]
        found = [with_fingerprint(spec) for spec in dict.fromkeys(specs)]
    else:
        found = []
        for folder in folders:
            try:
                found.append(with_fingerprint(_spec(folder, features, attributes)))
            except HGKTError as problem:
                if note is not None:
                    note(f"{folder.name} is left out: {problem}")
        found = found or [with_fingerprint(DataSpec("digits", "digits"))]
    present = {_name(folder) for folder in folders} | {spec.name for spec in found}
    order = {name: place for place, name in enumerate(PAPER_SETS)}
    found.sort(key=lambda spec: (order.get(spec.name, len(order)), spec.name))
    return Found(tuple(found), tuple(name for name in PAPER_SETS if name not in present))


@lru_cache(maxsize=_KEPT)
def _loaded(data: DataSpec) -> GZSLDataset:
    return data.load()


def forget_loaded() -> None:
    """Let go of the data sets that `load_once` keeps."""
    _loaded.cache_clear()


def load_once(data: DataSpec) -> GZSLDataset:
    """Load a data set, once per process, and make sure that it is the one that was planned on.

    Parameters
    ----------
    data : DataSpec
        The data set; an empty fingerprint fits any.
    """
    dataset = _loaded(replace(data, fingerprint=""))
    if data.fingerprint and fingerprint_of(dataset) != data.fingerprint:
        raise DataError(f"the data set in {data.location} has changed since the run started")
    return dataset


def with_fingerprint(data: DataSpec) -> DataSpec:
    """Return the same data set with the fingerprint that it has now.

    Parameters
    ----------
    data : DataSpec
        Its own fingerprint is not looked at.
    """
    return replace(data, fingerprint=fingerprint_of(load_once(replace(data, fingerprint=""))))


def fingerprint_of(dataset: GZSLDataset) -> str:
    """Return one SHA-256 over split and content of a data set.

    Parameters
    ----------
    dataset : GZSLDataset
        The data.
    """
    parts = dataset.fingerprint()
    return sha256(f"{parts['split']} {parts['content']}")


def _locate(name: str, root: str | Path | None, features: str, attributes: str) -> DataSpec:
    if name.lower() in DATASETS:
        return DataSpec(name.lower(), name.lower())
    folder = find_folder(name, root)
    if (folder / "att_splits.mat").is_file():
        return _spec(folder, features, attributes)
    return DataSpec(folder.resolve().name, str(folder.resolve()))


def _spec(folder: Path, features: str, attributes: str) -> DataSpec:
    """Return a folder in the benchmark's layout; without a wish, with res101 or the first."""
    files = feature_files(folder)
    usual = files[0] if files and _USUAL not in files else _USUAL
    return DataSpec(_name(folder), str(folder.resolve()), features or usual, attributes)


def _folders(base: Path | None) -> list[Path]:
    if base is None:
        return []
    if not base.is_dir():
        raise DataError(f"{base} is no folder; the folder that holds the data sets is expected")
    return [path for path in sorted(base.iterdir()) if (path / "att_splits.mat").is_file()]


def _name(folder: Path) -> str:
    """Name a folder as the paper does, whatever the case of its letters."""
    name = folder.resolve().name
    facts = find_facts(name)
    return name if facts is None else facts.name
