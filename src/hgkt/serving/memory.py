"""Memory that a large request leaves behind, given back to the system."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

LARGE_BYTES = 16 * 2**20


@contextmanager
def returned(large: bool) -> Iterator[None]:
    """Give freed memory back when the context ends, if it was a large request's.

    The C library keeps what was freed for later, in pieces between others; after a few large
    requests a worker would hold hundreds of megabytes that nobody uses.
    """
    try:
        yield
    finally:
        trim = _trimmer() if large else None
        if trim is not None:
            trim(0)


@cache
def _trimmer() -> Any:
    """Return glibc's malloc_trim; None where the C library is another."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):
        return None
