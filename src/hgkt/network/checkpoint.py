"""Checkpoints of a training run: one safetensors file, written beside and renamed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt._arrays import batches
from hgkt._files import write_file
from hgkt.exceptions import DataError

_FORMAT = "hgkt-checkpoint-1"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a run after some step; random numbers follow from the seed and the step.

    Parameters
    ----------
    step : int
        Number of steps done.
    identity : str
        Hash of settings and data, from `run_identity`.
    arrays : dict of str to ndarray
        Weights, moments of Adam, losses so far.
    """

    step: int
    identity: str
    arrays: dict[str, NDArray[Any]]


def run_identity(settings: Mapping[str, Any], arrays: Iterable[NDArray[Any] | None]) -> str:
    """Hash the settings and arrays that a run depends on.

    Parameters
    ----------
    settings : mapping
        Numbers and strings.
    arrays : iterable of ndarray or None
        Data, in a fixed order; read in chunks of rows.

    Examples
    --------
    >>> run_identity({"mu": 1.0}, [np.zeros(2)]) == run_identity({"mu": 1.0}, [np.zeros(3)])
    False
    """
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True, default=float).encode())
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        for batch in batches(len(array)):
            digest.update(np.ascontiguousarray(array[batch]).data)
    return digest.hexdigest()


def write_checkpoint(path: str | Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; a crash leaves the old file or the new one, never half of one."""
    from safetensors.numpy import save

    metadata = {
        "format": _FORMAT,
        "step": str(checkpoint.step),
        "identity": checkpoint.identity,
    }
    data = save({k: np.ascontiguousarray(v) for k, v in checkpoint.arrays.items()}, metadata)
    write_file(path, data)


def read_checkpoint(path: str | Path, identity: str) -> Checkpoint | None:
    """Read a checkpoint of the run with this identity; None where there is no file.

    Parameters
    ----------
    path : path
        The file.
    identity : str
        What the run depends on; a checkpoint of another run is refused.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        step = int(metadata.get("step", "0"))
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} is not a readable checkpoint: {error}") from error
    if metadata.get("format") != _FORMAT:
        raise DataError(f"{path} is no checkpoint of hgkt; choose another path")
    if metadata.get("identity") != identity:
        raise DataError(
            f"the checkpoint {path} was written with other settings or data; delete it or choose "
            "another path"
        )
    return Checkpoint(step, identity, arrays)
