"""Make docs/gallery.md and its images from the folder of a report of `hgkt reproduce`.

    python docs/_ext/gallery.py REPORT [--docs docs]

The page has the figures and what they say. Tables are on the pages that `make tables` writes.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

DOCS = Path(__file__).resolve().parents[1]
GALLERY_RUN = "run.json"
"""File beside the gallery's figures that says what they were drawn from."""

_IMAGE = re.compile(r"^!\[[^\]]*\]\(figures/([\w.-]+\.png)\)$", re.M)
_FIGURE = re.compile(r"^!\[[^\]]*\]\([^)]*\)\n\n\*\*.*$", re.M)
_NUMBERS = re.compile(r" ?\(\[numbers\]\([^)]*\)\)")
_INTRO = """# Gallery

The figures of a real run of `hgkt reproduce`, put here by `docs/_ext/gallery.py`. The report has
the tables too, and leads from each number to the runs behind it; results that documentation quotes
are in [methods.md](methods.md), [closed_form.md](closed_form.md) and [choices.md](choices.md).
"""


def page(report: str) -> str:
    """Return the page: of each section its heading, what it is about, and its figures.

    Parameters
    ----------
    report : str
        The text of a report.md.
    """
    head, *sections = re.split(r"^## ", report, flags=re.M)
    facts = "\n".join(line for line in head.splitlines() if line.startswith("- "))
    parts = [_INTRO, f"{facts}\n" if facts else ""]
    for section in sections:
        title, about = section.split("\n\n")[:2]
        figures = [_NUMBERS.sub("", figure) for figure in _FIGURE.findall(section)]
        if figures:
            parts.append("\n\n".join([f"## {title.strip()}", about.strip(), *figures]) + "\n")
    return _IMAGE.sub(lambda found: found[0].replace("figures/", "gallery/"), "\n".join(parts))


def mathematics_of(cells: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the version of the mathematics of each method that the cells ran; the oldest."""
    found: dict[str, str] = {}
    for document in cells:
        method = document["cell"]["method"]
        version = str(document["versions"].get("mathematics", 1))
        if method and not document["error"]:
            found[method] = min(found.get(method, version), version, key=int)
    return found


def main(given: Sequence[str] | None = None) -> None:
    """Write the page and its images; those of an earlier gallery go."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    args = parser.parse_args(given)
    text = (args.report / "report.md").read_text(encoding="utf-8")
    images = args.docs / "gallery"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir(parents=True)
    names = _IMAGE.findall(text)
    for name in names:
        # Drawings have few colours: a palette makes the files a third as large.
        with Image.open(args.report / "figures" / name) as image:
            image.convert("RGB").quantize(128).save(images / name, optimize=True)
    cells = map(json.loads, (path.read_text() for path in (args.report / "cells").glob("*.json")))
    run = {"mathematics": mathematics_of(cells)}
    (images / GALLERY_RUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    (args.docs / "gallery.md").write_text(page(text), encoding="utf-8")
    print(f"{len(names)} figures in {args.docs / 'gallery.md'}")


if __name__ == "__main__":
    main()
