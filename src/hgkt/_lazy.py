"""Names of a package that are imported on first use, so that importing the package stays fast.

Not the library lazy_loader: type checkers would need a stub besides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions ``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        Name of the package; ``dir`` of it lists its ``__all__``.
    homes : mapping of str to str
        The module in which each name is defined.

    Examples
    --------
    >>> getattribute, _ = attach("shapes", {"sqrt": "math"})
    >>> getattribute("sqrt")(9.0)
    3.0
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name in homes:
            return getattr(import_module(homes[name]), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__() -> list[str]:  # noqa: N807
        return list(sys.modules[package].__all__)

    return __getattr__, __dir__
