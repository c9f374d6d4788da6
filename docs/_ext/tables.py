"""Make the tables and plots of README and docs from the records in docs/results; the prose stays.

    python docs/_ext/tables.py            # rewrite what stands between the markers
    python docs/_ext/tables.py --check    # write nothing; fail where page and records differ

A table stands between <!-- begin NAME --> and <!-- end NAME -->. Rows of methods whose records are
missing, of other mathematics than the installed method's or of another protocol are left out, and
the table says how many. Both ways end with an error where another record is of other mathematics.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gallery import DOCS, GALLERY_RUN
from page_tables import bench, methods, performance, plots, results, studies
from page_tables.records import RecordError, Records

TABLES: dict[str, Callable[[Records], str]] = {
    **methods.TABLES, **results.TABLES, **studies.TABLES, **bench.TABLES,
    **performance.TABLES,
}  # fmt: skip

_MARKED = re.compile(r"<!-- begin (?P<name>[^>]+) -->\n(?P<body>.*?)<!-- end (?P=name) -->", re.S)
_MARKER = re.compile(r"<!-- (?:begin|end) ([^>]+) -->")
_FENCED = re.compile(r"^```.*?^```", re.S | re.M)
_UNIT = r"(?: ?(?:%|×|s|ms|µs|MB|MiB|GB|h))"
# A figure that was measured: with decimals, a deviation or a unit. Codes and sizes have none.
_FIGURE = re.compile(
    rf"\**[-+−]?[\d,]+(?:\.\d+(?: ± [\d.]+)?{_UNIT}?|{_UNIT})(?: \([^)]*\))?\**"
)  # fmt: skip
_FEW = 2


class PageError(Exception):
    """A page that cannot be filled, in one sentence."""


def fill(page: str, records: Records) -> str:
    """Return a page with every marked table made anew.

    Parameters
    ----------
    page : str
        Markdown.
    records : Records
        What was measured.
    """

    def make(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in TABLES:
            raise PageError(f"no table is called {name!r}; there are: {', '.join(TABLES)}")
        return f"<!-- begin {name} -->\n{TABLES[name](records)}\n<!-- end {name} -->"

    lonely = _MARKER.search(_MARKED.sub("", page))
    if lonely is not None:
        raise PageError(f"the marker {lonely[0]} has no partner")
    return _MARKED.sub(make, page)


def unmarked_tables(page: str) -> Iterator[str]:
    """Yield the first line of every table of figures that stands outside markers.

    Parameters
    ----------
    page : str
        Markdown.
    """
    plain = _FENCED.sub("", _MARKED.sub("", page))
    for found in re.finditer(r"(?:^\|.*\n?)+", plain, re.M):
        header, _, *rows = found[0].splitlines() + [""] * 2
        cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")[1:]]
        if sum(bool(_FIGURE.fullmatch(cell)) for cell in cells) >= _FEW:
            yield header


def pages(docs: Path) -> list[Path]:
    """Return README and the pages of the documentation."""
    return [docs.parent / "README.md", *sorted(docs.glob("*.md"))]


def problems(docs: Path, write: bool = False) -> list[str]:
    """Return what is wrong, a sentence each; with `write` the pages are rewritten first.

    Parameters
    ----------
    docs : Path
        The folder of the pages; records lie in its folder ``results``.
    write : bool
        Whether to rewrite pages that differ.
    """
    records = Records(docs / "results")
    found: list[str] = []
    shown: set[str] = set()
    for path in pages(docs):
        old = path.read_text(encoding="utf-8")
        shown.update(match["name"] for match in _MARKED.finditer(old))
        try:
            new = fill(old, records)
        except (PageError, RecordError) as error:
            found.append(f"{path.name}: {error}")
            continue
        if new != old and write:
            path.write_text(new, encoding="utf-8")
        elif new != old:
            found.append(f"{path.name} differs from the records; run make tables")
        found += [f"{path.name}: this table has no record: {h}" for h in unmarked_tables(new)]
    found += [f"no page shows the table {name!r}" for name in TABLES if name not in shown]
    old_plots = list(plots.stale(docs / "images", records))
    if not write:
        found += [f"images/{n}.svg differs from the records; run make tables" for n in old_plots]
    elif old_plots:
        plots.redraw(docs / "images", records, old_plots)
    # Figures are no text, but what they draw must be of the same mathematics.
    drawn = json.loads((docs / "gallery" / GALLERY_RUN).read_text(encoding="utf-8"))
    records.check_versions("the gallery", drawn["mathematics"])
    return [*found, *sorted(records.stale)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Rewrite the pages, or say with --check whether they are up to date."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--docs", type=Path, default=DOCS)
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args(arguments)
    found = problems(args.docs, write=not args.check)
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
