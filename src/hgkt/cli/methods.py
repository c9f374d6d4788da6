"""`hgkt methods`: what can be trained."""

from __future__ import annotations

from rich.markup import escape

from hgkt.cli._common import JsonOption, emit, out


def methods_command(as_json: JsonOption = False) -> None:
    """Show the methods by name, with their family and where they were published.

    Example: hgkt methods
    """
    from rich.table import Table

    from hgkt.estimators.methods import METHODS

    entries = [
        {
            "name": name,
            "summary": entry.summary,
            "family": entry.family,
            "reference": entry.reference,
        }
        for name, entry in METHODS.items()
    ]

    def render() -> None:
        table = Table("name", "what", "family", "reference", box=None)
        for entry in entries:
            table.add_row(*(escape(value) for value in entry.values()))
        out.print(table)

    emit({"methods": entries}, as_json, render)
