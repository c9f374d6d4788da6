"""Text in CSV files that spreadsheets would run as a formula, made harmless and read back.

A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a carriage return gets an apostrophe in
front, as OWASP advises; spreadsheets show such a cell as text. Reading takes it away again. Numbers
stay numbers: only text is changed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

_FORMULA = re.compile("'*[=+\\-@\t\r＝＋－＠]")


def escape_cell(value: Any) -> Any:
    """Return a cell that no spreadsheet runs; what is no text stays as it is.

    Examples
    --------
    >>> [escape_cell(value) for value in ("zebra", "=1+1", "'-x", -1.5)]
    ['zebra', "'=1+1", "''-x", -1.5]
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def plain_cell(value: Any) -> Any:
    """Return the text of which `escape_cell` made a cell.

    Examples
    --------
    >>> [plain_cell(value) for value in ("zebra", "'=1+1", "''-x", "'tis")]
    ['zebra', '=1+1', "'-x", "'tis"]
    """
    escaped = isinstance(value, str) and value.startswith("'") and _FORMULA.match(value)
    return value[1:] if escaped else value


def escape_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose text, the names of its columns too, no spreadsheet runs."""
    escaped = frame.copy(deep=False)
    for name in frame:
        if frame[name].dtype.kind not in "fiubcmM":
            escaped[name] = frame[name].map(escape_cell)
    return escaped.rename(columns=escape_cell)
