"""What is known of the benchmark's data sets: counts, split fingerprints, sources, citations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

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

    Parameters
    ----------
    name : str
        Name of the data set.

    Returns
    -------
    Facts or None

    Examples
    --------
    >>> find_facts("AwA2").n_train
    23527
    """
    return CATALOG.get(name.upper())


def mirrors_of(facts: Facts, extra: Sequence[str] = ()) -> list[str]:
    """Return the addresses to try: `extra`, then those in ``$HGKT_MIRRORS``, then the known ones.

    Parameters
    ----------
    facts : Facts
        The data set.
    extra : sequence of str
        Addresses the user gave.

    Returns
    -------
    list of str
        Without repeats.
    """
    from_environment = os.environ.get("HGKT_MIRRORS", "").replace(",", " ").split()
    return list(dict.fromkeys([*extra, *from_environment, *facts.mirrors]))
