"""Pages that are made from the package itself: one for each room of the API, one for each method.

They are written anew by every build and not kept; a page whose text is the same is left alone, so
that Sphinx does not read it again.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from importlib import import_module
from inspect import isclass, isfunction
from pathlib import Path

from hgkt.estimators import METHODS
from hgkt.experiments.rows import PUBLISHED

ROOMS = {
    "hgkt": "What most programs need",
    "hgkt.data": "Data sets",
    "hgkt.estimators": "Estimators",
    "hgkt.evaluation": "Evaluation",
    "hgkt.calibration": "Calibration",
    "hgkt.closed_form": "The closed form",
    "hgkt.transport": "Optimal transport",
    "hgkt.graph": "The graph",
    "hgkt.network": "The network",
    "hgkt.statistics": "Statistics",
    "hgkt.engines": "Engines",
    "hgkt.unknown": "From unknown to class",
    "hgkt.vision": "Images",
    "hgkt.language": "Words",
    "hgkt.export": "Export",
    "hgkt.serving": "Serving",
    "hgkt.client": "The client",
    "hgkt.exceptions": "Errors",
}
_METHODS_PAGE = Path(__file__).resolve().parents[1] / "methods.md"
_PAPER_NAMES = {"hgkt": None, "hgkt-network": "hgkt"}  # what the paper prints is the network


# ------------------------------------------------------------------ API
def write_api(folder: Path) -> None:
    """Write a page per room with a summary of its public names."""
    names = {room: public_names(room) for room in ROOMS}
    homes = _homes(names)
    pages = {room.replace(".", "-"): _room(room, names[room], homes) for room in ROOMS}
    entries = "\n".join(f"   {page}" for page in pages)
    pages["index"] = (
        f"{_title('API')}\nEvery public name, by room. What is not listed here may change without "
        f"notice.\n\n.. toctree::\n   :maxdepth: 1\n\n{entries}\n"
    )
    _write(folder, pages)


def public_names(room: str) -> list[str]:
    """Return the classes and functions that a package exports, in the order of its ``__all__``."""
    module = import_module(room)
    listed = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if isclass(value) or isfunction(value)
    ]
    values = {name: getattr(module, name) for name in listed if not name.startswith("_")}
    return [name for name, value in values.items() if isclass(value) or isfunction(value)]


def _homes(names: dict[str, list[str]]) -> dict[int, str]:
    """Return where an object is documented: once, in the first room that has it."""
    homes: dict[int, str] = {}
    for room, listed in reversed(names.items()):
        for name in listed:
            homes[id(getattr(import_module(room), name))] = f"{room}.{name}"
    return homes


def _room(room: str, names: Sequence[str], homes: dict[int, str]) -> str:
    module = import_module(room)
    lead = (module.__doc__ or "").strip().split("\n\n")[0].replace("\n", " ")
    full = sorted({homes[id(getattr(module, name))] for name in names}, key=str.lower)
    own = [name for name in full if name.rpartition(".")[0] == room]
    others = [name for name in full if name not in own]
    parts = [_title(f"{ROOMS[room]}: ``{room}``"), f"\n{lead}\n", f"\n.. currentmodule:: {room}\n"]
    if own:
        listed = "\n".join(f"   {name.rpartition('.')[2]}" for name in own)
        parts.append(f"\n.. autosummary::\n   :toctree: names\n\n{listed}\n")
    if others:
        links = ", ".join(f":py:obj:`{name}`" for name in others)
        parts.append(f"\nAlso here: {links}.\n")
    return "".join(parts)


# ------------------------------------------------------------------ methods
def write_methods(folder: Path) -> None:
    """Write a page per registered method: formula, parameters, reference, numbers."""
    pages = {name: _method(name) for name in METHODS}
    rows = [[f":doc:`{name}`", entry.summary, entry.family] for name, entry in METHODS.items()]
    entries = "\n".join(f"   {name}" for name in pages)
    pages["index"] = (
        f"{_title('Method by method')}\n"
        "What each method computes, where it comes from, and what it reaches. "
        "How they compare is told in :doc:`../methods`.\n\n"
        f"{_table(['method', 'what it is', 'family'], rows)}\n"
        f".. toctree::\n   :hidden:\n\n{entries}\n"
    )
    _write(folder, pages)


def _method(name: str) -> str:
    entry = METHODS[name]
    module, _, kind = entry.target.partition(":")
    reference = f"\n*Reference.* {entry.reference}.\n" if entry.reference else ""
    return (
        f"{_title(f'{name}: {entry.summary}')}\n*Family.* {entry.family}.\n{reference}\n"
        f".. py:currentmodule:: {module}\n\n.. autoclass:: {module}.{kind}\n   :no-index:\n\n"
        f"{_published(name)}{_measured(name)}"
    )


def _published(name: str) -> str:
    printed = PUBLISHED.get(_PAPER_NAMES.get(name, name) or "", {})
    if not printed:
        return ""
    rows = [
        [data, *("–" if number is None else f"{number:.1f}" for number in numbers)]
        for data, numbers in printed.items()
    ]
    return (
        f"{_title('Published', '-')}\nAs the HGKT paper prints it, with ResNet-101 features, in "
        f"percent.\n\n{_table(['data', 'ZSL', 'ts', 'tr', 'H'], rows)}"
    )


def _measured(name: str) -> str:
    page = _METHODS_PAGE.read_text(encoding="utf-8")
    lines, header = [], []
    for data, body in re.findall(r"<!-- begin results on (\w+) -->\n(.*?)<!-- end", page, re.S):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in body.splitlines()
            if line.startswith("|")
        ]
        # The paper's own numbers come last.
        n_own = sum(not title.startswith("paper") for title in rows[0])
        found = [row for row in rows if re.match(rf"`{re.escape(name)}`(\W|$)", row[0])]
        lines += [[data, *row[1:n_own]] for row in found]
        header = header or ["data", *rows[0][1:n_own]]
    if not lines:
        return ""
    return (
        f"{_title('Measured here', '-')}\nFrom :doc:`../methods`, which says with what features "
        f"and how parameters were chosen; in percent.\n\n{_table(header, lines)}"
    )


# ------------------------------------------------------------------ writing
def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        first, *rest = cells
        return "\n".join([f"   * - {first}", *(f"     - {cell}" for cell in rest)])

    lines = "\n".join(line(cells) for cells in [header, *rows])
    return f".. list-table::\n   :header-rows: 1\n\n{lines}\n\n"


def _write(folder: Path, pages: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for path in folder.glob("*.rst"):
        if path.stem not in pages:
            path.unlink()
            shutil.rmtree(folder / "names", ignore_errors=True)
    for name, text in pages.items():
        path = folder / f"{name}.rst"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
