"""From the name and the description of a class to the sentence that is encoded."""

from __future__ import annotations

import re
from string import Formatter

from hgkt.exceptions import DataError

DEFAULT_TEMPLATE = "a photo of a {name}. {description}"
_FIELDS = ("name", "description")


def class_words(name: str) -> str:
    """Turn the name of a class, as data sets write it, into words.

    A number with a dot in front goes, underscores and plus signs become spaces, capitals become
    small letters. A hyphen stays, and so does a number that is part of the name.

    Parameters
    ----------
    name : str
        Name of a class.

    Returns
    -------
    str
        The words; a name that is nothing but a number stays as it is.

    Examples
    --------
    >>> class_words("001.Black_footed_Albatross"), class_words("polar+bear")
    ('black footed albatross', 'polar bear')
    >>> class_words("7"), class_words("3.5_inch_disk")
    ('7', '3.5 inch disk')
    """
    without_number = re.sub(r"^\s*\d+\.(?=\D)", "", name)
    return " ".join(re.sub(r"[_+]+", " ", without_number).lower().split()) or name.strip()


def check_template(template: str) -> str:
    """Return `template`, or refuse one that has other fields than name and description.

    Parameters
    ----------
    template : str
        Text with ``{name}``, ``{description}`` or both.

    Returns
    -------
    str

    Examples
    --------
    >>> check_template("a {color} {name}")
    Traceback (most recent call last):
    hgkt.exceptions.DataError: the template 'a {color} {name}' has the field {color}; only {name} \
and {description} are known
    """
    try:
        parts = [
            (field, spec, conversion) for _, field, spec, conversion in Formatter().parse(template)
        ]
    except ValueError as error:
        raise DataError(f"the template {template!r} cannot be read: {error}") from None
    fields = [part for part in parts if part[0] is not None]
    for field, spec, conversion in fields:
        # A plain field only: "{name.__class__}" or "{name:>99999}" have no business in a sentence.
        if field not in _FIELDS or spec or conversion:
            shown = (
                f"{{{field}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
            )
            raise DataError(
                f"the template {template!r} has the field {shown}; only {{name}} and "
                "{description} are known"
            )
    if not fields:
        raise DataError(
            f"the template {template!r} has neither {{name}} nor {{description}}, so all classes "
            "would read the same"
        )
    return template


def uses_description(template: str) -> bool:
    """Say whether a template has a place for the description."""
    return any(field == "description" for _, field, _, _ in Formatter().parse(template))


def make_sentence(
    name: str, description: str = "", template: str = DEFAULT_TEMPLATE, words: bool = True
) -> str:
    """Put the name and the description of a class into a template.

    Parameters
    ----------
    name : str
        Name of the class.
    description : str
        What it looks like; may be empty.
    template : str
        Text with ``{name}``, ``{description}`` or both.
    words : bool
        Whether the name goes through `class_words` first.

    Returns
    -------
    str

    Examples
    --------
    >>> make_sentence("140.Summer_Tanager", "A red bird.")
    'a photo of a summer tanager. A red bird.'
    >>> make_sentence("six", template="{name}: {description}", words=False)
    'six:'
    """
    shown = class_words(name) if words else name
    text = check_template(template).format(name=shown, description=" ".join(description.split()))
    return text.strip()
