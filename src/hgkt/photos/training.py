"""Train on a folder of photographs in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from hgkt._typing import Progress
from hgkt.estimators import GZSLClassifier, HGKTClassifier
from hgkt.evaluation.selection import fit_dataset
from hgkt.exceptions import DataError
from hgkt.photos.model import ImageClassifier
from hgkt.photos.reading import ReadingOptions, read_photos


def train_on_images(
    images: str | Path,
    classes: Any = None,
    *,
    estimator: GZSLClassifier | None = None,
    select: bool | str = "auto",
    calibrate: bool | str = "auto",
    random_state: int = 0,
    device: str = "auto",
    progress: Progress | None = None,
    **reading: Unpack[ReadingOptions],
) -> ImageClassifier:
    """Learn classes from photographs, and others from what is said about them.

    Photographs that cannot be read are left out; `read_photos` says which.

    Parameters
    ----------
    images : path
        A folder with one sub-folder per class, whose name is the class; or a manifest with
        columns ``file`` and ``class``.
    classes : path, mapping or DataFrame, optional
        What the classes look like: a table (.csv, .parquet) or DataFrame with ``name`` and
        ``description``, columns of numbers, or both; or a mapping from name to text or vector.
        A class without photographs is known by this alone. By default, and for every class of
        which no sentence is given, the name is all there is.
    estimator : GZSLClassifier, optional
        The method; by default `HGKTClassifier`.
    select : bool or "auto", default="auto"
        Whether to choose parameters on validation classes; see `hgkt.evaluation.fit_dataset`.
    calibrate : bool or "auto", default="auto"
        Whether to choose the calibration γ there.
    random_state : int
        Seed of the validation classes.
    device : {"auto", "cpu", "cuda"}
        Where to compute.
    progress : callable, optional
        Called as ``progress(stage, done, total, values)``.
    **reading
        How photographs and words are read: ``backbone``, ``encoder``, ``template``,
        ``batch_size``, ``workers`` and ``cache`` of `read_photos`. A cache keeps extracted
        features, for a run that is interrupted and for the next one.

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
    if estimator is not None and not isinstance(estimator, GZSLClassifier):
        raise DataError(f"estimator must be a method of hgkt; got {type(estimator).__name__}")
    photos = read_photos(images, classes, device=device, progress=progress, **reading)
    dataset, blocks = photos.dataset, photos.dataset.about["attribute_blocks"]
    if estimator is None:
        joined = blocks if len(blocks) > 1 else None
        estimator = HGKTClassifier(device=device, attribute_blocks=joined)
    fitted = fit_dataset(
        estimator,
        dataset,
        select=select,
        calibrate=calibrate,
        balance="classes",
        random_state=random_state,
        progress=progress,
    )
    model: Any = fitted.model
    model.add_classes(dataset.attributes_of(dataset.described_classes))
    model.about_ = {
        **dataset.provenance(),
        "chosen": fitted.chosen,
        "validation": fitted.validation,
    }
    return ImageClassifier(model, device)
