"""Train on raw items in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import unit_rows
from hgkt._typing import Progress
from hgkt.data import GZSLDataset
from hgkt.estimators import GZSLClassifier
from hgkt.estimators.methods import method_for
from hgkt.evaluation import Fitted, fit_dataset
from hgkt.exceptions import DataError
from hgkt.items.images import ImageClassifier, read_photos
from hgkt.items.tables import ReadItems
from hgkt.items.texts import TextClassifier, read_texts

Classifier = TypeVar("Classifier", ImageClassifier, TextClassifier)
Estimator = GZSLClassifier | Callable[[GZSLDataset], GZSLClassifier]


@dataclass(frozen=True)
class Training:
    """What a model was trained on, what was left out, and how it was chosen.

    Parameters
    ----------
    data : str
        Name of the folder.
    n_items : int
        How many items it learned from.
    described : dict of str to ndarray
        Attributes of the classes that were added because they have no item.
    unseen : dict of str to ndarray
        Attributes of all classes without an item to learn from; a manifest may test some of them.
    unreadable : tuple of (str, str)
        Items that were left out, each with the sentence that says why.
    passed_over : dict of str to int
        How many files of the folder are no items, by suffix.
    n_pairs : int
        How many classes have two items or more, which is what validation classes need.
    n_resumed : int
        How many features were in the cache already.
    n_cut : int
        How many descriptions were longer than the encoder reads.
    fitted : Fitted
        The parameters that were chosen, and on what.
    """

    data: str
    n_items: int
    described: dict[str, NDArray[Any]]
    unseen: dict[str, NDArray[Any]]
    unreadable: tuple[tuple[str, str], ...]
    passed_over: dict[str, int]
    n_pairs: int
    n_resumed: int
    n_cut: int
    fitted: Fitted


def train_on_images(
    images: str | Path,
    classes: Any = None,
    *,
    estimator: Estimator | None = None,
    select: bool | str = "auto",
    calibrate: bool | str = "auto",
    favour: str | float = "classes",
    random_state: int = 0,
    device: str = "auto",
    keep_examples: bool = True,
    progress: Progress | None = None,
    **reading: Any,
) -> ImageClassifier:
    """Learn classes from photographs, and others from what is said about them.

    Photographs that cannot be read are left out; ``training_`` of the model says which, and what
    was chosen.

    Parameters
    ----------
    images : path
        A folder with one sub-folder per class, whose name is the class; or a manifest with
        columns ``file`` and ``class``.
    classes : path, mapping or DataFrame, optional
        What the classes look like: a table (.csv, .parquet) or DataFrame with ``name`` and
        ``description``, columns of numbers, or both; or a mapping from name to text or vector.
        A column ``parent`` names the group of each class; a group may have a row with its own
        parent, and needs no photographs. A class without photographs is known by this alone. By
        default, and for every class of which no sentence is given, the name is all there is.
    estimator : GZSLClassifier or callable, optional
        The method, or what makes it for the data set that was read; by default `HGKTClassifier`.
    select : bool or "auto", default="auto"
        Whether to choose parameters on validation classes; see `hgkt.evaluation.fit_dataset`.
    calibrate : bool or "auto", default="auto"
        Whether to choose the calibration γ there.
    favour : {"classes", "learned", "described", "balanced"} or float, default="classes"
        What γ favours, see `hgkt.calibration.Favour`. A number: the share of items that will be of
        classes known by description.
    random_state : int
        Seed of the validation classes.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    keep_examples : bool, default=True
        Whether the model remembers the file of one typical photograph per class, which `explain`
        shows.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.
    **reading
        How photographs and words are read: ``backbone``, ``encoder``, ``template``,
        ``batch_size``, ``workers`` and ``cache`` of `read_photos`. With CLIP or SigLIP as backbone
        its own text tower is the encoder. A cache keeps extracted features, for a run that is
        interrupted and for the next one.

    Returns
    -------
    ImageClassifier
        Its `predict` takes paths, PIL images and arrays.

    Examples
    --------
    >>> model = train_on_images(
    ...     "photos", {"okapi": "a brown animal with striped legs"}
    ... )  # doctest: +SKIP
    >>> model.predict("unknown.jpg")  # doctest: +SKIP
    array(['okapi'], dtype='<U5')
    """
    read = partial(read_photos, images, classes, **reading)
    choices = _Choices(select, calibrate, favour, random_state)
    return _train(ImageClassifier, read, estimator, choices, device, keep_examples, progress)


def train_on_texts(
    texts: Any,
    labels: Sequence[str] | None = None,
    classes: Any = None,
    *,
    estimator: Estimator | None = None,
    select: bool | str = "auto",
    calibrate: bool | str = "auto",
    favour: str | float = "classes",
    random_state: int = 0,
    device: str = "auto",
    keep_examples: bool = True,
    progress: Progress | None = None,
    **reading: Any,
) -> TextClassifier:
    """Learn classes from texts, and others from their names or what is said about them.

    Parameters
    ----------
    texts : path, DataFrame or sequence of str
        The texts. A table (.csv, .parquet, .jsonl) or DataFrame has columns ``text`` and
        ``class``.
    labels : sequence of str, optional
        The class of each text, where `texts` is no table.
    classes : path, mapping or DataFrame, optional
        Classes, by ``name`` and, where the name does not say it all, ``description``; or a mapping
        from name to text. A column ``parent`` names the group of each class; see
        `train_on_images`. A class without texts is known by this alone.
    estimator, select, calibrate, favour, random_state, device, progress
        As for `train_on_images`.
    keep_examples : bool, default=True
        Whether the model remembers one typical text per class, which `explain` shows; say False
        where texts are private.
    **reading
        How texts are read: ``encoder`` ("minilm", the folder of a sentence-transformers model, or
        a hub name), ``template`` and ``cache`` of `read_texts`. A cache keeps encoded texts, for
        a run that is interrupted and for the next one.

    Returns
    -------
    TextClassifier
        Its `predict` takes texts.

    Examples
    --------
    >>> model = train_on_texts(
    ...     ["what is on my account", "my money, please", "will it rain", "is it hot today"],
    ...     ["balance", "balance", "weather", "weather"],
    ...     {"report lost card": ""},
    ... )
    >>> model.predict("sun or snow?").tolist(), model.unseen_classes_.tolist()
    (['weather'], ['report lost card'])
    """
    read = partial(read_texts, texts, labels, classes, **reading)
    choices = _Choices(select, calibrate, favour, random_state)
    return _train(TextClassifier, read, estimator, choices, device, keep_examples, progress)


class _Choices(NamedTuple):
    """What is chosen on validation classes; see `hgkt.evaluation.fit_dataset`."""

    select: bool | str
    calibrate: bool | str
    favour: str | float
    random_state: int


def _train(
    kind: type[Classifier],
    read_items: Callable[..., ReadItems],
    estimator: Estimator | None,
    choices: _Choices,
    device: str,
    keep_examples: bool,
    progress: Progress | None,
) -> Classifier:
    """Read, fit, add the classes that are only described, and say what the model was made with."""
    if not (estimator is None or callable(estimator) or isinstance(estimator, GZSLClassifier)):
        raise DataError(f"estimator must be a method of hgkt; got {type(estimator).__name__}")
    read = read_items(device=device, progress=progress)
    dataset = read.dataset
    if estimator is None:
        estimator = method_for(dataset, device=device)
    method = estimator if isinstance(estimator, GZSLClassifier) else estimator(dataset)
    fitted = fit_dataset(method, dataset, **choices._asdict(), progress=progress)
    model, described = fitted.model, dataset.attributes_of(dataset.described_classes)
    model.add_classes(described).set_parents(read.parents)
    found = {name: getattr(fitted, name) for name in ("selected", "chosen", "validation")}
    model.about_ = {**dataset.provenance(), **found}
    if keep_examples:
        model.about_["examples"] = _typical_items(dataset, read.items)
    made = kind(model, device)
    made.training_ = Training(
        data=dataset.name,
        n_items=len(dataset.train),
        described=described,
        unseen=dataset.attributes_of(dataset.unseen_classes),
        unreadable=read.unreadable,
        passed_over=read.passed_over,
        n_pairs=int((np.bincount(dataset.labels[dataset.train]) > 1).sum()),
        n_resumed=read.n_resumed,
        n_cut=read.n_cut,
        fitted=fitted,
    )
    return made


def _typical_items(dataset: GZSLDataset, items: Sequence[str]) -> dict[str, str]:
    """Return the item of each seen class whose features are nearest to the class mean."""
    typical = {}
    for code in dataset.seen_classes:
        rows = dataset.train[dataset.labels[dataset.train] == code]
        features = unit_rows(dataset.features[rows].astype(np.float64))
        nearest = rows[int((features @ features.mean(axis=0)).argmax())]
        typical[dataset.class_names[code]] = items[nearest]
    return typical
