"""What a client sends: rows, images, descriptions of classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hgkt._validation import check_finite
from hgkt.exceptions import DataError, first_line

T = TypeVar("T")
Among = str | Sequence[str]
Description = ArrayLike | Mapping[str, float] | str

OCTETS, ARROW = "application/octet-stream", "application/vnd.apache.arrow.stream"
BATCH_BYTES = 16 * 2**20
IMAGES = 16  # of one request


def feature_rows(X: ArrayLike) -> NDArray[np.float32]:
    """Return feature rows as they are sent; the service says whether their width fits."""
    found = np.asarray(X)
    if found.ndim != 2 or not found.size or found.dtype.kind not in "fiub":
        raise DataError(
            f"X has shape {found.shape} and holds {found.dtype}; rows of numbers are expected"
        )
    check_finite(found, "features")
    with np.errstate(over="ignore"):  # the service refuses what becomes infinite
        return np.ascontiguousarray(found, dtype="<f4")


def question(top_k: int, among: Among, revision: int | None) -> dict[str, Any]:
    """Return what is asked of rows, as query parameters and JSON bodies have it."""
    asked: dict[str, Any] = {"top_k": top_k}
    asked["among"] = among if isinstance(among, str) else list(among)
    return asked if revision is None else asked | {"revision": revision}


def image_files(images: Iterable[str | Path | bytes]) -> list[tuple[str, bytes]]:
    """Return images as a form carries them; at least one is expected."""
    files = [_file(image) for image in images]
    if not files:
        raise DataError("there are no images; at least one is expected")
    return files


def _file(image: str | Path | bytes) -> tuple[str, bytes]:
    if isinstance(image, bytes):
        return "image", image
    try:
        return Path(image).name, Path(image).read_bytes()
    except OSError as error:
        raise DataError(f"the image {image} cannot be read: {first_line(error)}") from None


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut a sequence into parts."""
    return (items[start : start + size] for start in range(0, len(items), size))


def described(name: str, description: Description) -> dict[str, Any]:
    """Return a class with its description by kind."""
    if isinstance(description, str):
        return {"name": name, "text": description}
    if isinstance(description, Mapping):
        return {"name": name, "attributes": description}
    return {"name": name, "vector": description}


def sendable(item: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a class as JSON has it, without what is not said."""
    sent = {key: value for key, value in item.items() if value is not None}
    name = item["name"]
    if "vector" in sent:
        vector = np.asarray(sent["vector"])
        if vector.ndim != 1 or vector.dtype.kind not in "fiub":
            raise DataError(f"the vector of class {name!r} must be one row of numbers")
        sent["vector"] = _finite(vector, name).tolist()
    if "attributes" in sent:
        values = _finite(np.array([*sent["attributes"].values()], dtype=float), name)
        sent["attributes"] = dict(zip(map(str, sent["attributes"]), values.tolist(), strict=True))
    return sent


def _finite(values: NDArray[Any], name: str) -> NDArray[np.float64]:
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"the attributes of class {name!r} must be finite numbers")
    return values
