"""Reading files that may be damaged or meant to harm: one sentence, and bounded memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hgkt.exceptions import DataError, HGKTError, first_line

Refusal = Callable[[str], HGKTError]
"""Makes the error to raise of one sentence: a type of HGKTError, or a function."""

SMALL = 64 * 2**20
"""Bytes that a file of any size may unfold to."""

_RATIO = 100


@contextmanager
def reading(path: str | Path, what: str, error: Refusal = DataError) -> Iterator[None]:
    """Turn whatever goes wrong while a file is read into one sentence.

    Parsers raise whatever a broken byte leads to: index, memory, recursion, syntax and decoding
    errors, and types of their own. Only this package's errors pass as they are.

    Parameters
    ----------
    path : path
        The file.
    what : str
        What it is read as, with its article.
    error : type of HGKTError, or callable
        Makes what is raised.

    Examples
    --------
    >>> with reading("rows.npy", "a .npy file"):
    ...     raise EOFError
    Traceback (most recent call last):
    hgkt.exceptions.DataError: rows.npy cannot be read as a .npy file: EOFError
    """
    try:
        yield
    except HGKTError:
        raise
    except FileNotFoundError:
        raise error(f"{path} does not exist") from None
    except PermissionError:
        raise error(f"{path} may not be read") from None
    except MemoryError as problem:
        raise error(f"{path} cannot be read as {what}: it needs too much memory") from problem
    except RecursionError as problem:
        raise error(f"{path} cannot be read as {what}: it is nested too deeply") from problem
    except Exception as problem:
        raise error(f"{path} cannot be read as {what}: {first_line(problem)}") from problem


def check_unfolded(
    path: str | Path, unfolded: int, stored: int, error: Refusal = DataError
) -> None:
    """Refuse a file that would unfold to far more than it holds, before it does.

    What compresses more than a hundredfold is next to nothing written many times: a mistake, or a
    small file that is meant to fill the memory.

    Parameters
    ----------
    path : path
        The file.
    unfolded, stored : int
        Bytes in memory, and bytes on disk.
    error : type of HGKTError, or callable
        Makes what is raised.

    Examples
    --------
    >>> check_unfolded("rows.npz", 5_000_000, 4_000_000)
    >>> check_unfolded("rows.npz", 4 * 2**30, 4 * 2**20)
    Traceback (most recent call last):
    hgkt.exceptions.DataError: rows.npz would unfold to 4.3 GB, 1024 times its size; at most 100 \
times are accepted: store it without compression
    """
    if unfolded > max(SMALL, _RATIO * stored):
        raise error(
            f"{path} would unfold to {unfolded / 1e9:.1f} GB, {unfolded // max(stored, 1)} times "
            f"its size; at most {_RATIO} times are accepted: store it without compression"
        )


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as RFC 8259 has it: NaN and infinity are no numbers."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON")
