"""Instances that the page offers to try: a fixed spread over the test parts of a data set."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.data import load_dataset
from hgkt.exceptions import DataError
from hgkt.serving.edition import made_with

N_SAMPLES = 60


@dataclass(frozen=True)
class SampleInstance:
    """One instance.

    Parameters
    ----------
    id : str
        Its number among the samples, as text.
    label : str
        Its true class.
    features : ndarray of shape (n_features,)
        Its features.
    thumbnail : str or None
        A small picture as a data URI, where the features are pixels.
    """

    id: str
    label: str
    features: NDArray[np.float32]
    thumbnail: str | None


def load_samples(model: Any, name: str, root: Path | None = None) -> list[SampleInstance]:
    """Load instances that a model can read, half of test_seen and half of test_unseen.

    Parameters
    ----------
    model : GZSLClassifier
        The model; features and attributes are taken of the kind that it was made with.
    name : str
        Data set: a name or a path.
    root : Path, optional
        Folder of the benchmark's folders.
    """
    about = made_with(model)
    options: dict[str, Any] = {}
    if about.get("layout") == "xlsa17":
        made = str(about.get("features", ""))
        options = {"features": Path(made).stem, "attributes": about["attributes"]}
    data = load_dataset(name, root=root, mmap=True, validate=False, **options)
    if data.features.shape[1] != model.n_features_in_:
        raise DataError(
            f"data set {data.name!r} has {data.features.shape[1]} features a row; "
            f"the model expects {model.n_features_in_}"
        )
    parts = (data.test_seen, data.test_unseen)
    rows = [row for part in parts for row in spread(data.labels, part, N_SAMPLES // 2)]
    instances, pixels = [], data.about.get("pixels")
    for number, row in enumerate(rows):
        features = np.array(data.features[row], dtype=np.float32)
        label = data.class_names[data.labels[row]]
        thumbnail = pixel_thumbnail(features, **pixels) if pixels else None
        instances.append(SampleInstance(str(number), label, features, thumbnail))
    return instances


def spread(labels: NDArray[np.intp], rows: NDArray[np.intp], n: int) -> list[int]:
    """Choose `n` of `rows`, evenly over classes and, within a class, over its rows.

    Examples
    --------
    >>> spread(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 3, 4, 5]), 4)
    [0, 2, 3, 5]
    """
    codes = np.unique(labels[rows])
    if not len(codes) or n < 1:
        return []
    if len(codes) > n:
        codes = codes[np.linspace(0, len(codes) - 1, n).round().astype(int)]
    share, more = divmod(n, len(codes))
    chosen: list[int] = []
    for position, code in enumerate(codes):
        own = np.sort(rows[labels[rows] == code])
        wanted = min(share + (position < more), len(own))
        places = np.linspace(0, len(own) - 1, wanted).round().astype(int)
        chosen.extend(own[places].tolist())
    return chosen


def pixel_thumbnail(features: NDArray[np.float32], height: int, width: int, maximum: float) -> str:
    """Draw features that are pixels as a PNG, dark ink on white.

    Parameters
    ----------
    features : ndarray of shape (height * width,)
        Intensities from 0 to `maximum`.
    height, width : int
        Size of the image.
    maximum : float
        Intensity of full ink.
    """
    from PIL import Image

    ink = np.clip(features.reshape(height, width) / maximum, 0.0, 1.0)
    buffer = io.BytesIO()
    image = Image.fromarray((255 * (1.0 - ink)).round().astype(np.uint8))
    image.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
