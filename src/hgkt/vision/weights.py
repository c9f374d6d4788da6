"""Weight files: where they are, their checksum, and reading them without unpickling objects."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hgkt.exceptions import DataError

WEIGHTS_VARIABLE = "HGKT_WEIGHTS"
_CHUNK_BYTES = 1 << 20


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as error:
        raise DataError(f"the weights {path} cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def files_sha256(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of one file, or of the checksums of several in the order of names."""
    ordered = sorted(paths, key=lambda path: path.name)
    if len(ordered) == 1:
        return file_sha256(ordered[0])
    return hashlib.sha256("".join(map(file_sha256, ordered)).encode()).hexdigest()


def find_source(source: str) -> Path | None:
    """Return the file or folder `source`, else the one of that name in ``$HGKT_WEIGHTS``.

    Parameters
    ----------
    source : str
        A path as the user wrote it or as a record has it.

    Returns
    -------
    Path or None
    """
    path = Path(source).expanduser()
    if path.exists():
        return path.resolve()
    folder = os.environ.get(WEIGHTS_VARIABLE)
    if folder and path.name and (Path(folder) / path.name).exists():
        return (Path(folder) / path.name).resolve()
    return None


def read_state_dict(path: Path) -> dict[str, Any]:
    """Read tensors by name from a .safetensors, .pth, .pt or .bin file.

    Parameters
    ----------
    path : Path
        The file. PyTorch's own format is read with ``weights_only=True``: tensors and plain
        containers are accepted, any other object in the file is refused and never built.

    Returns
    -------
    dict of str to Tensor
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return dict(load_file(path))
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # zip, pickle and safetensors errors have no common base
        if "weights_only" in str(error) or "Unsupported" in str(error):
            reason = "it holds objects that are no tensors, which are never loaded"
        else:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"the weights {path} cannot be read: {reason}") from None
    if isinstance(loaded, dict) and isinstance(loaded.get("state_dict"), dict):
        loaded = loaded["state_dict"]
    if not isinstance(loaded, dict) or not all(torch.is_tensor(v) for v in loaded.values()):
        raise DataError(f"the weights {path} are no mapping of names to tensors")
    # Names as torch.nn.DataParallel writes them.
    return {name.removeprefix("module."): tensor for name, tensor in loaded.items()}
