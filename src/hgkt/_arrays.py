"""Arrays: where to compute, batches of rows, row-wise maps, and how rows are compared."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hgkt._validation import check_choice, check_number, import_extra
from hgkt.exceptions import DataError

FeatureMap = str | float
"""``"none"``, ``"l2"``, ``"sqrt+l2"``, or an exponent in (0, 1] followed by the unit norm."""

Rows = TypeVar("Rows")
"""An array or a tensor whose rows are instances or classes."""

MAPS = ("none", "l2", "sqrt+l2")

BATCH_ROWS = 4096
"""Rows that are worked on at once: enough for fast products, few enough to stay small."""


def batches(n_rows: int, size: int = BATCH_ROWS) -> Iterator[slice]:
    """Return the slices that cut so many rows into batches of `size`, the last one maybe smaller.

    Examples
    --------
    >>> list(batches(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    # Not scikit-learn's gen_batches: it checks its arguments for longer than a small product takes.
    return (slice(at, min(at + size, n_rows)) for at in range(0, n_rows, size))


def torch_device(name: str) -> str:
    """Return "cpu" or "cuda" for {"auto", "cpu", "cuda"}.

    torch is imported only where a CUDA driver is there or "cuda" is asked for: a closed-form fit
    on a CPU should not wait for it.
    """
    check_choice("device", name, ("auto", "cpu", "cuda"))
    if name == "cpu":
        return "cpu"
    if name == "auto" and "torch" not in sys.modules and not Path("/proc/driver/nvidia").exists():
        return "cpu"
    if name == "auto" and find_spec("torch") is None:
        return "cpu"
    torch = import_extra("torch", "network")
    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise DataError("device is 'cuda' but torch finds no CUDA device; use 'auto' or 'cpu'")
    return "cpu"


def fitting_device(name: str) -> str | None:
    """Return the torch device on which a closed form of `device` is fitted; None: NumPy."""
    device = torch_device(name)
    return None if device == "cpu" else device


def scoring_device(name: str) -> str | None:
    """Return the torch device on which a model of `device` scores; None: NumPy, on the CPU.

    Only "cuda" scores on a GPU: "auto" is for fits, since a row or two are scored sooner where
    they are. A model that was fitted on a GPU and came to a machine without one scores on the CPU.
    """
    if name != "cuda" or find_spec("torch") is None:
        return None
    torch = import_extra("torch", "network")
    return "cuda" if torch.cuda.is_available() else None


def is_tensor(rows: object) -> bool:
    """Say whether something is a torch tensor; torch is not imported for it."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(rows, torch.Tensor)


def array_module(rows: Any) -> Any:
    """Return the module whose functions take `rows`: torch for a tensor, else NumPy.

    Formulas that call nothing but what the two share are written once. torch takes ``axis`` and
    ``keepdims`` as NumPy does.
    """
    return sys.modules["torch"] if is_tensor(rows) else np


def put(array: Any, dtype: Any, device: str | None) -> Any:
    """Return an array in a type of NumPy's: as a tensor on a torch device, or by NumPy for None."""
    if device is None:
        return np.asarray(array, dtype=dtype)
    torch = import_extra("torch", "network")
    kind = torch.float64 if np.dtype(dtype) == np.float64 else torch.float32
    return torch.tensor(np.ascontiguousarray(array), device=device).to(kind)  # widened there


def put_like(array: NDArray[Any], rows: Any) -> Any:
    """Return an array in the type of `rows`, and where they are."""
    if not is_tensor(rows):
        return np.asarray(array, dtype=rows.dtype)
    torch = sys.modules["torch"]
    return torch.tensor(np.ascontiguousarray(array), dtype=rows.dtype, device=rows.device)


def to_numpy(rows: Any) -> NDArray[Any]:
    """Return an array or a tensor as an array."""
    found: NDArray[Any] = rows.cpu().numpy() if is_tensor(rows) else np.asarray(rows)
    return found


def check_map(name: str, kind: Any) -> None:
    """Refuse what is no map: a name of `MAPS` or an exponent in (0, 1]."""
    if isinstance(kind, str):
        check_choice(name, kind, MAPS)
    else:
        check_number(name, kind, low=0.0, high=1.0, open_low=True)


def map_rows(rows: Rows, kind: FeatureMap) -> Rows:
    """Map each row of an (n, D) array or tensor; an all-zero row stays zero.

    Powers are signed, sign(x)|x|^p, so that features with negative entries have a map too (the
    power normalisation of Perronnin et al., ECCV 2010) and each row is mapped without looking at
    any other: batches may come in any order.

    Examples
    --------
    >>> map_rows(np.array([[9.0, -16.0], [0.0, 0.0]]), "sqrt+l2")
    array([[ 0.6, -0.8],
           [ 0. ,  0. ]])
    """
    power, xp = power_of(kind), array_module(rows)
    if power is None:
        return rows
    if power == 1.0:
        return unit_rows(rows)
    sizes = xp.abs(rows)
    if power == 0.5:
        sizes = xp.sqrt(sizes)
    elif power == 0.25:  # two square roots take a tenth of the time of a general power
        sizes = xp.sqrt(xp.sqrt(sizes))
    else:
        sizes = sizes**power
    mapped: Rows = xp.copysign(sizes, rows)
    return unit_rows(mapped)


def power_of(kind: FeatureMap) -> float | None:
    """Return the exponent that a map applies before the unit norm; None for no map at all."""
    if isinstance(kind, str):
        return {"none": None, "l2": 1.0, "sqrt+l2": 0.5}[kind]
    return float(kind)


def unit_rows(rows: Rows) -> Rows:
    """Scale each row of an (n, D) array or tensor to unit length; a zero row stays zero.

    Examples
    --------
    >>> unit_rows(np.array([[3e-30, 4e-30], [0.0, 0.0]], dtype=np.float32))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    # Not scikit-learn's normalize: it refuses no rows, and takes four times as long for few.
    xp, array = array_module(rows), cast(Any, rows)
    with np.errstate(over="ignore"):
        norms = xp.linalg.vector_norm(array, axis=1, keepdims=True)
    if array.shape[1] and not bool(((norms > 0) & xp.isfinite(norms)).all()):
        # Squares of tiny numbers are zero, of huge ones infinite: such a row is brought to size.
        largest = xp.amax(xp.abs(array), axis=1, keepdims=True)
        lost = ((norms == 0) & (largest > 0)) | xp.isinf(norms)
        if bool(lost.any()):
            array = xp.where(lost, array / xp.where(lost, largest, 1.0), array)
            norms = xp.linalg.vector_norm(array, axis=1, keepdims=True)
    scaled: Rows = array / xp.where(norms > 0, norms, 1.0)
    return scaled


def safe_lengths(rows: Any) -> Any:
    """Return the lengths (n,) of rows (n, D) to divide by: 1 for a zero row.

    Examples
    --------
    >>> safe_lengths(np.array([[3e-30, 4e-30], [0.0, 0.0]], dtype=np.float32)).tolist()
    [5.000000015855384e-30, 1.0]
    """
    xp = array_module(rows)
    lengths = xp.linalg.vector_norm(rows, axis=1)
    if not bool((lengths > 0).all()):  # squares of tiny numbers are zero
        largest = xp.amax(xp.abs(rows), axis=1)
        scaled = rows / xp.where(largest > 0, largest, 1.0)[:, None]
        lengths = largest * xp.linalg.vector_norm(scaled, axis=1)
    return xp.where(lengths > 0, lengths, 1.0)


def normalised_scores(
    features: NDArray[Any], embeddings: NDArray[Any], norm_power: float
) -> NDArray[Any]:
    """Score rows (n, D) against class embeddings (C, D), both in the metric.

    x̂ᵀz/‖z‖^a with x̂ = x/‖x‖: the cosine for a = 1. A power above one takes score from classes
    that lie far from the common mean; such classes attract images of others (hubs).

    Examples
    --------
    >>> normalised_scores(np.array([[3.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]]), 1.0)
    array([[1., 0.]])
    """
    lengths = np.linalg.norm(embeddings, axis=1)
    scaled = embeddings / np.where(lengths > 0, lengths, 1.0)[:, None] ** norm_power
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return (features @ scaled.T) / np.where(norms > 0, norms, 1.0)


def distance_scores(features: NDArray[Any], embeddings: NDArray[Any]) -> NDArray[Any]:
    """Score rows (n, D) against embeddings (C, D) by −‖x−z‖².

    Examples
    --------
    >>> distance_scores(np.array([[3.0, 0.0]]), np.array([[2.0, 0.0], [0.0, 1.0]]))
    array([[ -1., -10.]])
    """
    squared = (features**2).sum(axis=1)[:, None] + (embeddings**2).sum(axis=1)
    scores: NDArray[Any] = 2.0 * (features @ embeddings.T) - squared
    return scores
