"""A model that reads images: the features are made with the backbone it was trained with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hgkt.estimators import GZSLClassifier, load_model
from hgkt.estimators.ranking import rank_classes
from hgkt.exceptions import DataError
from hgkt.language.describer import ClassDescription, Describer
from hgkt.vision.backbones import Backbone, load_backbone

_BATCH = 32


@dataclass(frozen=True)
class Guess:
    """A class that an image may be of.

    Parameters
    ----------
    label : str
        The class.
    score : float
        Higher is better; scores of one image compare.
    seen : bool
        Whether the class was learned from photographs; otherwise it is known by description.
    """

    label: Any
    score: float
    seen: bool


class ImageClassifier:
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

    def __init__(
        self,
        classifier: GZSLClassifier,
        device: str = "auto",
        weights: str | Path | None = None,
    ) -> None:
        self.classifier = classifier
        self._about: dict[str, Any] = getattr(classifier, "about_", {})
        if not self._about.get("backbone"):
            raise DataError(
                "this model was trained on features of which it does not know the backbone, so it "
                "cannot read images; use hgkt.load_model and give it features"
            )
        self._device = device
        self._weights = None if weights is None else str(weights)

    @classmethod
    def load(
        cls, path: str | Path, device: str = "auto", weights: str | Path | None = None
    ) -> Self:
        """Load a model folder, as `save` or ``hgkt train`` wrote it."""
        return cls(load_model(path), device, weights)

    def save(self, path: str | Path) -> Path:
        """Write the model folder; an existing model there is replaced in one step."""
        return self.classifier.save(path)

    # ------------------------------------------------------------------ what it was made with
    @cached_property
    def backbone(self) -> Backbone:
        """The network that makes features of images, loaded on first use."""
        network = load_backbone(self._about["backbone"], self._device, self._weights)
        if network.n_features != self.classifier.n_features_in_:
            raise DataError(
                f"backbone {network.record['name']!r} makes {network.n_features} features; the "
                f"model expects {self.classifier.n_features_in_}"
            )
        return network

    @cached_property
    def describer(self) -> Describer:
        """What turns descriptions of classes into attribute vectors."""
        return Describer(self._about, self.classifier.class_attributes_.shape[1])

    # ------------------------------------------------------------------ classes
    @property
    def classes_(self) -> NDArray[Any]:
        """All classes, sorted."""
        return self.classifier.classes_

    @property
    def seen_classes_(self) -> NDArray[Any]:
        """Classes learned from photographs."""
        return self.classifier.seen_classes_

    @property
    def unseen_classes_(self) -> NDArray[Any]:
        """Classes known by description alone."""
        return self.classifier.unseen_classes_

    def add_classes(self, classes: Mapping[str, Any]) -> Self:
        """Add classes by what is said about them; no retraining, all or nothing.

        Parameters
        ----------
        classes : mapping
            From name to a text (or several, of which the mean is taken), to attributes by name,
            to a vector, or to a `hgkt.language.ClassDescription` that has several of these. A
            model takes what it was trained on: texts, numbers, or both.
        """
        described = [_description(name, value) for name, value in classes.items()]
        vectors = self.describer.vectors(described)
        self.classifier.add_classes(dict(zip(classes, vectors, strict=True)))
        return self

    def remove_classes(self, classes: Sequence[str]) -> Self:
        """Remove classes that are known by description; all or nothing."""
        self.classifier.remove_classes(classes)
        return self

    # ------------------------------------------------------------------ images
    def features(self, images: Any) -> NDArray[np.float32]:
        """Return the features of images.

        Parameters
        ----------
        images : image or iterable of images
            Paths, bytes, PIL images or arrays (height, width, 3) of uint8. One image counts as a
            list of one.

        Returns
        -------
        ndarray of shape (n_images, n_features), float32
        """
        sources = _listed(images)
        network = self.backbone
        features = np.empty((len(sources), network.n_features), dtype=np.float32)
        for start in range(0, len(sources), _BATCH):
            part = [network.open(source) for source in sources[start : start + _BATCH]]
            features[start : start + len(part)] = network.extract(part)
        return features

    def predict(self, images: Any, among: str | Sequence[Any] = "all") -> NDArray[Any]:
        """Return the best class of each image.

        Parameters
        ----------
        images : image or iterable of images
            See `features`.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        return self.classifier.predict(self.features(images), among)

    def rank(
        self, images: Any, top: int = 3, among: str | Sequence[Any] = "all"
    ) -> list[list[Guess]]:
        """Return the `top` best classes of each image, the best first.

        Parameters
        ----------
        images : image or iterable of images
            See `features`.
        top : int
            How many.
        among : {"all", "seen", "unseen"} or sequence of classes
            The candidates.
        """
        columns = self.classifier.candidates(among)
        best, scores = rank_classes(self.classifier, self.features(images), columns, top)
        return guesses(self.classifier, best, scores)


def guesses(
    model: GZSLClassifier, best: NDArray[np.intp], scores: NDArray[np.float64]
) -> list[list[Guess]]:
    """Say what ranked columns (n, k) of ``classes_`` and their scores stand for."""
    seen = set(model.seen_classes_.tolist())
    return [
        [Guess(name, score, name in seen) for name, score in zip(names, values, strict=True)]
        for names, values in zip(model.classes_[best].tolist(), scores.tolist(), strict=True)
    ]


def _description(name: str, value: Any) -> ClassDescription:
    if isinstance(value, ClassDescription):
        return value
    if isinstance(value, Mapping):
        return ClassDescription(name, attributes=value)
    several = isinstance(value, list | tuple) and value and isinstance(value[0], str)
    if isinstance(value, str) or several:
        return ClassDescription(name, text=value)
    return ClassDescription(name, vector=value)


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
