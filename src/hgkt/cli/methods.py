"""`hgkt methods`: every method by name."""

from __future__ import annotations

from hgkt.cli._options import with_options
from hgkt.cli._output import emit, show_table


@with_options
def methods_command(as_json: bool = False) -> None:
    """Show the methods by name, and where they were published.

    Example: hgkt methods
    """
    from hgkt.estimators.methods import METHODS

    keys = ("summary", "family", "reference")
    entries = [
        {"name": name} | {key: getattr(entry, key) for key in keys}
        for name, entry in METHODS.items()
    ]
    columns = ("name", "what", "published")
    rows = [
        (entry["name"], entry["summary"], short_reference(entry["reference"])) for entry in entries
    ]
    emit({"methods": entries}, as_json, lambda: show_table(columns, rows))


def short_reference(reference: str) -> str:
    """Return a reference without the title: the first author, and where and when.

    Examples
    --------
    >>> short_reference("Lampert, Nickisch, Harmeling, Attribute-Based Classification, TPAMI 2014")
    'Lampert et al., TPAMI 2014'
    >>> short_reference("Wang et al., Heterogeneous Graph-based Knowledge Transfer, 2019")
    'Wang et al., 2019'
    """
    first, *others = reference.split(", ")
    if len(others) > 1 and not first.endswith("et al."):
        first += " et al."
    return ", ".join([first, *others[-1:]])
