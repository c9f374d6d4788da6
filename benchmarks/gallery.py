"""Make docs/gallery.md and its images from the folder of a report.

python benchmarks/gallery.py REPORT [--docs docs] [--only figure-curves,figure-ranks]
"""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from pathlib import Path

_HEADING = re.compile(r"^## (.+)$")
_IMAGE = re.compile(r"^!\[(?P<title>.*)\]\(figures/(?P<name>[\w-]+)\.png\)$")
_CAPTION = re.compile(r" \(\[numbers\]\([^)]*\)\)$")
_INTRO = """# Gallery

Every figure below was drawn by `hgkt reproduce` from the runs of one report, and copied here by
`benchmarks/gallery.py`. The report itself links each to the runs behind it.
"""


def figures_of(report: str) -> list[tuple[str, str, str]]:
    """Return (section, name, caption) of every figure in the text of a report.md."""
    found, section, lines = [], "", report.splitlines()
    for number, line in enumerate(lines):
        if heading := _HEADING.match(line):
            section = heading.group(1)
        elif image := _IMAGE.match(line):
            caption = _CAPTION.sub("", lines[number + 2]) if number + 2 < len(lines) else ""
            found.append((section, image.group("name"), caption))
    return found


def main() -> None:
    """Write the page and copy its images; images of an earlier gallery go."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    parser.add_argument("--only", default="", help="names of figures, or how they begin")
    args = parser.parse_args()
    figures = figures_of((args.report / "report.md").read_text(encoding="utf-8"))
    wanted = tuple(name.strip() for name in args.only.split(",") if name.strip())
    if wanted:
        figures = [figure for figure in figures if figure[1].startswith(wanted)]
    if not figures:
        raise SystemExit(f"no figure of {args.report} was asked for; nothing is written")
    images = args.docs / "gallery"
    images.mkdir(parents=True, exist_ok=True)
    names = {f"{name}.png" for _, name, _ in figures}
    for old in images.glob("*.png"):
        if old.name not in names:
            old.unlink()
    lines, before = [_INTRO], ""
    for section, name, caption in figures:
        if section != before:
            lines.append(f"## {section}\n")
            before = section
        shutil.copyfile(args.report / "figures" / f"{name}.png", images / f"{name}.png")
        lines.append(f"![{section}](gallery/{name}.png)\n")
        lines.append(textwrap.fill(caption, 100, break_long_words=False) + "\n")
    (args.docs / "gallery.md").write_text("\n".join(lines), encoding="utf-8")
    print(f"{len(figures)} figures in {args.docs / 'gallery.md'}")


if __name__ == "__main__":
    main()
