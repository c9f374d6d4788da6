"""Photographs and words to a data set that any method can be trained on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from hgkt._typing import Progress
from hgkt.data import GZSLDataset
from hgkt.data.attributes import AttributeFile
from hgkt.exceptions import DataError
from hgkt.items.tables import encode_classes, gather_classes
from hgkt.vision import Extraction, ImageEntry, extract_features, load_backbone
from hgkt.vision.backbones import identity
from hgkt.vision.extraction import Journal
from hgkt.vision.listing import class_folders, find_entries
from hgkt.vision.output import feature_stem


@dataclass(frozen=True, eq=False)
class Photos:
    """Features of photographs and vectors of their classes.

    Parameters
    ----------
    dataset : GZSLDataset
        All photographs are train rows, unless a manifest says otherwise; a class without any is
        in ``described_classes``.
    unreadable : tuple of (ImageEntry, str)
        Photographs that were left out, each with the sentence that says why.
    n_resumed : int
        How many features were in the cache already.
    n_cut : int
        How many descriptions were longer than the encoder reads.
    """

    dataset: GZSLDataset
    unreadable: tuple[tuple[ImageEntry, str], ...] = ()
    n_resumed: int = 0
    n_cut: int = 0


class ReadingOptions(TypedDict, total=False):
    """What `read_photos` takes besides the photographs; `train_on_images` passes it on."""

    backbone: str
    encoder: str
    template: str | None
    batch_size: int
    workers: int
    cache: str | Path | None


def read_photos(
    images: str | Path,
    classes: Any = None,
    *,
    backbone: str = "efficientnet-lite0",
    encoder: str = "minilm",
    template: str | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 0,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Photos:
    """Describe the classes of a folder of photographs and extract its features.

    Parameters
    ----------
    images : path
        A folder with one sub-folder per class, whose name is the class; or a manifest.
    classes : path, mapping or DataFrame, optional
        What the classes look like; see `train_on_images`.
    backbone : str
        Network that makes features of images; see `hgkt.vision.load_backbone`.
    encoder, template : str
        Sentence encoder and how name and description become a sentence.
    device : {"auto", "cpu", "cuda"}
        Where to extract.
    batch_size, workers : int
        See `hgkt.vision.extract_features`.
    cache : path, optional
        Folder that keeps extracted features: what is there already is not extracted again.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.

    Returns
    -------
    Photos
    """
    images = Path(images)
    entries = find_entries(images)
    labels = sorted({*(entry.label for entry in entries), *class_folders(images)})
    gathered = gather_classes(classes, labels, str(images))
    # Words first: they take seconds, and what is wrong with them is known before hours of work.
    vectors, n_cut = encode_classes(gathered, encoder, template, "cpu", progress)
    network = load_backbone(backbone, device)
    made = identity(network.record)
    journal = None if cache is None else Journal(cache, made, network.n_features)
    with nullcontext() if journal is None else journal:
        found = extract_features(entries, network, journal, batch_size, workers, progress=progress)
        dataset = _dataset(images, labels, found, vectors, network.record)
    return Photos(dataset, found.unreadable, found.n_resumed, n_cut)


def _dataset(
    images: Path,
    labels: Sequence[str],
    found: Extraction,
    vectors: AttributeFile,
    record: dict[str, Any],
) -> GZSLDataset:
    names = tuple(dict.fromkeys([*labels, *vectors.names]))
    code = {name: position for position, name in enumerate(names)}
    row_of = {name: row for row, name in enumerate(vectors.names)}
    splits = np.array([entry.split for entry in found.entries])
    # Without a manifest no photograph has a split, and all of them are there to learn from.
    train = np.flatnonzero(splits == ("train" if splits.astype(bool).any() else ""))
    if not len(train):
        raise DataError(f"{images} has no photograph to train on")
    return GZSLDataset(
        name=images.resolve().stem,
        features=found.features,
        labels=np.array([code[entry.label] for entry in found.entries], dtype=np.intp),
        class_names=names,
        class_attributes=vectors.attributes[[row_of[name] for name in names]],
        train=train,
        test_seen=np.flatnonzero(splits == "test_seen"),
        test_unseen=np.flatnonzero(splits == "test_unseen"),
        attribute_names=vectors.attribute_names if vectors.encoder is None else None,
        image_files=tuple(entry.id for entry in found.entries),
        about={
            "features": feature_stem(record),
            "attributes": "+".join(vectors.kinds),
            "layout": "images",
            "backbone": dict(record),
            "attribute_blocks": list(vectors.blocks),
            "attribute_kinds": list(vectors.kinds),
            "attribute_names": vectors.attribute_names and list(vectors.attribute_names),
            **({"encoder": vectors.encoder} if vectors.encoder else {}),
        },
    ).validate()
