"""Ways to damage a file: bytes, texts, members of an archive, and parts of a model folder."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
_NUMBERS = ["-1", "0", "99999999999999999999", "1e400", "NaN", "4294967296", "1.5", "true", '"x"']
_BYTES = [b"\x00", b"\xff", b"[", b'"', b"\n", b",", b"\x93NUMPY", b"PK\x03\x04", b"PAR1"]


def _flip(data: bytearray, rng: Rng) -> bytearray:
    for place in rng.integers(0, len(data), rng.integers(1, 9)):
        data[place] ^= 1 << int(rng.integers(8))
    return data


def _flip_header(data: bytearray, rng: Rng) -> bytearray:
    for place in rng.integers(0, min(len(data), 256), rng.integers(1, 5)):
        data[place] = int(rng.integers(256))
    return data


def _flip_end(data: bytearray, rng: Rng) -> bytearray:
    for place in rng.integers(max(0, len(data) - 256), len(data), rng.integers(1, 5)):
        data[place] = int(rng.integers(256))
    return data


def _overwrite(data: bytearray, rng: Rng) -> bytearray:
    start, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    filler = rng.bytes(length) if rng.random() < 0.5 else bytes([rng.integers(256)]) * length
    data[start : start + length] = filler
    return data


def _truncate(data: bytearray, rng: Rng) -> bytearray:
    return data[: rng.integers(len(data))]


def _insert(data: bytearray, rng: Rng) -> bytearray:
    place = int(rng.integers(len(data)))
    piece = _BYTES[rng.integers(len(_BYTES))] * int(rng.choice([1, 4, 1000, 100_000]))
    return data[:place] + piece[: 4 * len(data)] + data[place:]


def _remove(data: bytearray, rng: Rng) -> bytearray:
    start = int(rng.integers(len(data)))
    del data[start : start + int(rng.integers(1, 2 + len(data) // 4))]
    return data


def _swap(data: bytearray, rng: Rng) -> bytearray:
    first, second = sorted(rng.integers(0, len(data), 2).tolist())
    middle = (first + second) // 2
    return data[:first] + data[middle:second] + data[first:middle] + data[second:]


def _number(data: bytearray, rng: Rng) -> bytearray:
    """Put another number where digits stand: in JSON, CSV, and the headers of arrays."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", bytes(data[:100_000])))
    if not found:
        return _flip(data, rng)
    place = found[rng.integers(len(found))]
    data[place.start() : place.end()] = _NUMBERS[rng.integers(len(_NUMBERS))].encode()
    return data


def _members(data: bytearray, rng: Rng) -> bytearray:
    """Change what an archive holds, with lengths and checksums made anew."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = [(info.filename, archive.read(info)) for info in archive.infolist()]
    except Exception:  # it was damaged before; what zipfile raises then has no common base
        return _flip(data, rng)
    if not parts:
        return _flip(data, rng)
    index, other = (int(i) for i in rng.integers(0, len(parts), 2))
    name, content = parts[index]
    choice = rng.integers(4)
    if choice == 0:
        parts[index] = (name, bytes(mutated_bytes(content, rng)))
    elif choice == 1:
        parts[index] = (name, parts[other][1])
    elif choice == 2:
        parts.append(parts[other])
    else:
        del parts[index]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return bytearray(buffer.getvalue())


_PLAIN: list[Callable[[bytearray, Rng], bytearray]] = [
    *(_flip, _flip_header, _flip_end, _overwrite, _truncate),
    *(_insert, _remove, _swap, _number),
]


def mutated_bytes(data: bytes, rng: Rng) -> bytes:
    """Return damaged content; one time in four it is damaged twice."""
    result = bytearray(data)
    for _ in range(1 if rng.random() < 0.75 else 2):
        if not result:
            break
        known = [_members, *_PLAIN] if result[:2] == b"PK" else _PLAIN
        result = known[rng.integers(len(known))](result, rng)
    return bytes(result)


# ---------------------------------------------------------------------- model folders
def mutated_array(array: Any, rng: Rng) -> Any:
    """Return an array that none should be taken for: of another shape or kind, or not finite."""
    floats = array.dtype.kind == "f"
    choices = ["longer", "axes", "kind", *(["nan", "inf"] if floats and array.size else [])]
    if array.ndim and len(array) > 1:
        choices.append("shorter")
    choice = choices[rng.integers(len(choices))]
    if choice in ("nan", "inf"):
        broken = array.copy()
        broken.flat[rng.integers(array.size)] = {"nan": np.nan, "inf": -np.inf}[choice]
        return broken
    if choice == "kind":
        return array.astype(np.int64 if floats else np.float64)
    if choice == "axes" or not array.ndim:
        return array[None]
    return array[:-1] if choice == "shorter" else np.concatenate([array, array[-1:]])


def mutated_config(config: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """Return a config that fits no model: an entry is missing, or of another kind."""
    values: list[Any] = [None, -3, 10**9, "x", [], {}, [[]], 1e300, "none", True]
    changed = dict(config)
    keys = ["method", "n_features", "n_attributes", "has_attributes", "labels", "parameters"]
    key = keys[rng.integers(len(keys))]
    if rng.random() < 0.3:
        del changed[key]
        return changed
    value = values[rng.integers(len(values))]
    if value == config[key] or (key == "has_attributes" and isinstance(value, bool)):
        value = None
    return changed | {key: value if key != "parameters" or value != {} else 7}
