"""What the arrays of a saved model must look like: a table of rules, checked before use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hgkt.exceptions import DataError

_KINDS = {"f": "floating-point numbers", "i": "whole numbers", "b": "truth values", "": "numbers"}


@dataclass(frozen=True)
class Rule:
    """What one saved array must look like.

    Parameters
    ----------
    shape : str
        Sizes with blanks between; "" is a single number. ``D`` is the number of features, ``d``
        of attributes, ``L`` of seen and ``U`` of added classes, ``n_matrices`` the parameter of
        that name; any other word is a size that the arrays of a model must agree on. A factor or a
        difference may stand at it (``2D``, ``L+1``), ``*`` at the end is any further sizes, and
        ``|`` parts choices.
    kind : {"f", "i", "b", ""}
        Floating-point numbers, whole numbers, truth values, or any of them. All must be finite.
    low : float, optional
        The least value.
    optional : bool
        Whether a model may be without it.
    """

    shape: str
    kind: str = "f"
    low: float | None = None
    optional: bool = False


ANYTHING = Rule("*", kind="")
"""Finite numbers, of whatever shape."""


def shapes(**rules: str | Rule) -> dict[str, Rule]:
    """Return the rules of learned attributes; a text is a shape of floating-point numbers.

    Examples
    --------
    >>> shapes(weights_="D d")
    {'weights_': Rule(shape='D d', kind='f', low=None, optional=False)}
    """
    return {name: rule if isinstance(rule, Rule) else Rule(rule) for name, rule in rules.items()}


CONFIDENCE = shapes(
    temperatures=Rule("3", low=0.0),
    set_quantiles="2 1001",
    set_units=Rule("2", low=0.0),
    novelty_weights="3",
    novelty_quantiles="1001",
    novelty_auroc=Rule("1", low=0.0),
)
"""The arrays of `hgkt.confidence.Confidence`: a model has all of them, or none."""


def check_arrays(
    arrays: Mapping[str, NDArray[Any]], rules: Mapping[str, Rule], sizes: Mapping[str, int]
) -> None:
    """Refuse saved arrays that are missing, unknown, of another shape or kind, or not finite.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        What was saved.
    rules : mapping of str to Rule
        One rule per array.
    sizes : mapping of str to int
        The sizes that are known.

    Examples
    --------
    >>> rules = {"w": Rule("h D"), "b": Rule("h")}
    >>> check_arrays({"w": np.zeros((2, 3)), "b": np.zeros(2)}, rules, {"D": 3})
    >>> check_arrays({"w": np.zeros((2, 3)), "b": np.zeros(1)}, rules, {"D": 3})
    Traceback (most recent call last):
    hgkt.exceptions.DataError: array 'b' has shape (1,); (2,) is expected
    """
    unknown = next((name for name in arrays if name not in rules), None)
    if unknown is not None:
        raise DataError(f"it has an array {unknown!r}, which its method does not know")
    bound = dict(sizes)
    for name, rule in rules.items():
        if name in arrays:
            _check_array(name, arrays[name], rule, bound)
        elif not rule.optional:
            raise DataError(f"array {name!r} is missing")


def _check_array(name: str, array: NDArray[Any], rule: Rule, bound: dict[str, int]) -> None:
    kind = array.dtype.kind.replace("u", "i")
    if kind not in (rule.kind or "fib"):
        raise DataError(f"array {name!r} holds {array.dtype}; {_KINDS[rule.kind]} are expected")
    if not any(_fits(array.shape, choice.split(), bound) for choice in rule.shape.split("|")):
        expected = " or ".join(_shown(choice.split(), bound) for choice in rule.shape.split("|"))
        raise DataError(f"array {name!r} has shape {array.shape}; {expected} is expected")
    if kind == "f" and not np.isfinite(array).all():
        raise DataError(f"array {name!r} holds NaN or infinity; finite numbers are expected")
    if rule.low is not None and array.size and array.min() < rule.low:
        raise DataError(f"array {name!r} holds {array.min():g}; at least {rule.low:g} is expected")


def _fits(shape: tuple[int, ...], words: list[str], bound: dict[str, int]) -> bool:
    """Tell whether a shape is the expected one; a size met for the first time is bound by it."""
    if words[-1:] == ["*"]:
        words = words[:-1]
        shape = shape[: len(words)]
    if len(shape) != len(words):
        return False
    new: dict[str, int] = {}
    for size, word in zip(shape, words, strict=True):
        expected = _size(word, {**new, **bound})
        if expected is None:
            new[word] = size
        elif size != expected:
            return False
    bound |= new
    return True


def _size(word: str, bound: Mapping[str, int]) -> int | None:
    """Return the number that a word of a shape stands for; None for one that is not bound."""
    if word.isdecimal():
        return int(word)
    found = re.fullmatch(r"(\d*)([A-Za-z_]+)([+-]\d+)?", word)
    if found is None:
        raise ValueError(f"{word!r} is no size")
    factor, name, more = found.groups()
    if name not in bound:
        if factor or more:
            raise ValueError(f"{word!r} comes before {name!r} is known")
        return None
    return int(factor or 1) * bound[name] + int(more or 0)


def _shown(words: list[str], bound: Mapping[str, int]) -> str:
    sizes = [word if word == "*" else _size(word, bound) for word in words]
    texts = ["…" if size in (None, "*") else str(size) for size in sizes]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
