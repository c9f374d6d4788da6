"""Make docs/gallery.md and its images from the folder of a report.

python benchmarks/gallery.py REPORT [--docs docs] [--remark TEXT]
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from pathlib import Path

from PIL import Image

_FOLDED = re.compile(r"<details>.*?</details>\n*", re.DOTALL)
_LINKS = re.compile(r"A number links to [^\n]*\n\n")
_RECORD = re.compile(r"\[([^\]]*)\]\(records/[^)]*\)")
_NUMBERS = re.compile(r" ?\(\[numbers\]\([^)]*\)\)")
_IMAGE = re.compile(r"\]\(figures/([\w.-]+\.png)\)")
_INTRO = """# Gallery

The report of a real run of `hgkt reproduce`, shortened by `benchmarks/gallery.py`: the HTML report
leads from each number to the runs behind it, with their chosen parameters.
"""


def shortened(report: str, remark: str = "") -> str:
    """Return the text of a report.md without folded parts and without links to its files."""
    body = report.partition("\n")[2]
    for pattern, replacement in ((_FOLDED, ""), (_LINKS, ""), (_RECORD, r"\1"), (_NUMBERS, "")):
        body = pattern.sub(replacement, body)
    said = f"\n{textwrap.fill(remark, 100)}\n" if remark else ""
    return _INTRO + said + _IMAGE.sub(r"](gallery/\1)", body)


def main() -> None:
    """Write the page and copy its images; images of an earlier gallery go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--remark", default="", help="what to say of the run")
    args = parser.parse_args()
    text = (args.report / "report.md").read_text(encoding="utf-8")
    images = args.docs / "gallery"
    shutil.rmtree(images, ignore_errors=True)
    images.mkdir(parents=True)
    names = _IMAGE.findall(text)
    for name in names:
        # Drawings have few colours: a palette makes the files a third as large.
        with Image.open(args.report / "figures" / name) as image:
            image.convert("RGB").quantize(128).save(images / name, optimize=True)
    (args.docs / "gallery.md").write_text(shortened(text, args.remark), encoding="utf-8")
    print(f"{len(names)} figures in {args.docs / 'gallery.md'}")


if __name__ == "__main__":
    main()
