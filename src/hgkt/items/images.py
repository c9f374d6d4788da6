"""Photographs: a classifier that reads them, and a folder of them as a data set."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._hub import WEIGHTS_VARIABLE, find_local
from hgkt._typing import Progress
from hgkt.estimators import GZSLClassifier
from hgkt.exceptions import DataError
from hgkt.items.base import ItemClassifier
from hgkt.items.tables import ReadItems, class_vectors, item_dataset, read_classes
from hgkt.language.encoder import load_encoder
from hgkt.language.towers import TOWERS, tower_type
from hgkt.vision import Extraction, ImageEntry, extract_features, load_backbone
from hgkt.vision.backbones import Backbone, feature_stem
from hgkt.vision.extraction import feature_journal
from hgkt.vision.listing import class_folders, find_entries, passed_over


class ImageClassifier(ItemClassifier):
    """A fitted model, and the backbone and the encoder that it was made with.

    Made by `train_on_images`, or by `load` from any model folder whose features came from images.

    Parameters
    ----------
    classifier : GZSLClassifier
        The model; ``about_`` says what its features and attributes were made with.
    device : {"auto", "cpu", "cuda"}
        Where features are extracted.
    weights : path, optional
        Where the weights of the backbone are now, if not where they were.

    Examples
    --------
    >>> model = ImageClassifier.load("photo-model")  # doctest: +SKIP
    >>> model.predict(["a.jpg", "b.png"])  # doctest: +SKIP
    array(['horse', 'zebra'], dtype='<U5')
    >>> model.add_classes({"okapi": "a brown animal with striped legs"})  # doctest: +SKIP
    """

    _needed = "backbone"
    _unfit = (
        "this model reads features: it does not know the backbone of those that it was trained on, "
        "so it cannot read images"
    )

    def __init__(
        self, classifier: GZSLClassifier, device: str = "auto", weights: str | Path | None = None
    ) -> None:
        super().__init__(classifier, device)
        self._weights = None if weights is None else str(weights)

    @cached_property
    def backbone(self) -> Backbone:
        """The network that makes features of images, loaded on first use."""
        return load_backbone(self.about["backbone"], self._device, self._weights)

    def features(self, items: Any) -> NDArray[np.float32]:
        """Return the features of images; one that cannot be read is an error.

        Parameters
        ----------
        items : image or iterable of images
            Paths, bytes, PIL images or arrays (height, width, 3) of uint8. One image counts as a
            list of one.

        Returns
        -------
        ndarray of shape (n_images, n_features), float32
        """
        return self.backbone.extract(_listed(items))

    def extract(
        self, entries: Sequence[ImageEntry], progress: Progress | None = None
    ) -> Extraction:
        """Extract the features of image files; those that cannot be read are reported.

        Parameters
        ----------
        entries : sequence of ImageEntry
            The files.
        progress : callable, optional
            Called as ``progress(stage, done, total, values)``.
        """
        return extract_features(entries, self.backbone, progress=progress)


def _listed(images: Any) -> list[Any]:
    """Return a list of images, also of a single one."""
    single = isinstance(images, str | bytes | os.PathLike) or hasattr(images, "getbbox")
    if single or (isinstance(images, np.ndarray) and images.ndim < 4 and images.dtype != object):
        return [images]
    if not isinstance(images, Iterable):
        raise DataError(
            "images must be paths, PIL images or arrays (height, width, 3) of uint8; got "
            f"{type(images).__name__}"
        )
    return list(images)


def read_photos(
    images: str | Path,
    classes: Any = None,
    *,
    backbone: str = "efficientnet-lite0",
    encoder: str | None = None,
    template: str | Sequence[str] | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 0,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> ReadItems:
    """Describe the classes of a folder of photographs and extract its features.

    Parameters
    ----------
    images : path
        A folder with one sub-folder per class, whose name is the class; or a manifest.
    classes : path, mapping or DataFrame, optional
        What the classes look like; see `train_on_images`.
    backbone : str
        Network that makes features of images; see `hgkt.vision.load_backbone`.
    encoder : str, optional
        Sentence encoder; by default the text tower of the backbone where it has one (CLIP,
        SigLIP), so that photos and descriptions are vectors of one space, else "minilm".
    template : str or sequence of str, optional
        How name and description become a sentence; of several the vectors are averaged.
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
    ReadItems
    """
    images = Path(images)
    entries = find_entries(images)
    labels = sorted({*(entry.label for entry in entries), *class_folders(images)})
    class_info = read_classes(classes, labels, str(images))
    network = load_backbone(backbone, device)
    # Words first: they take seconds, and what is wrong with them is known before hours of work.
    reads = encoder or text_tower(network.record) or "minilm"
    vectors, n_cut = class_vectors(
        class_info, lambda: load_encoder(reads, "cpu", template), progress
    )
    with nullcontext() if cache is None else feature_journal(network, cache) as journal:
        found = extract_features(entries, network, journal, batch_size, workers, progress=progress)
        features = found.features
    about = {
        "features": feature_stem(network.record),
        "layout": "images",
        "backbone": dict(network.record),
        "shares_space": (vectors.encoder or {}).get("weights") == network.record["sha256"],
    }
    files, of_class, splits = zip(*((e.id, e.label, e.split) for e in found.entries), strict=True)
    name = images.resolve().stem
    dataset = item_dataset(name, features, of_class, class_info, vectors, about, splits, files)
    unreadable = tuple((entry.id, reason) for entry, reason in found.unreadable)
    others, parents = passed_over(images), class_info.parents
    return ReadItems(dataset, files, unreadable, found.n_resumed, n_cut, others, parents)


def text_tower(record: Mapping[str, Any]) -> str | None:
    """Return by which name the text tower of a backbone is loaded; None where it has none."""
    source = str(record.get("source"))
    if record.get("model_type") not in TOWERS:
        return None
    folder = find_local(source, WEIGHTS_VARIABLE)  # one of the hub is a whole model
    return source if folder is None or tower_type(folder) else None
